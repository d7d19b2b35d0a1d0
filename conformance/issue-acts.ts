/**
 * A batch of issues with the real engines: its runner is killed while three agents are at work, and resumed. The model is
 * the judge of which conversation went on, and of how often a message arrived.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { delivered } from "./deliveries.ts";
import type { World } from "./interpret.ts";
import { isKept } from "./interrupt.ts";
import type { RequestRecord } from "./model-server/server.ts";
import { type Ended, environment, run, settle, signal, until } from "./place.ts";
import { must } from "./review.ts";

const DEADLINE_MS = 120_000;
const BEGUN = ["a", "b", "c"];
const READY = ["d", "e", "f"];
const AT_ONCE = ["--max-agents", String(BEGUN.length)];

interface BatchFile {
  readonly started_at: string;
  readonly issues: Readonly<
    Record<
      string,
      { readonly status: string; readonly session_id: string | null; readonly error: string | null }
    >
  >;
}

export const ISSUE_ACTS: Readonly<Record<string, (world: World, words: readonly string[]) => Promise<void>>> =
  {
    /** Three of six are at work when the runner is killed; all six are done afterwards, the three in their conversations. */
    "issues-killed": async (world) => {
      const before = await killedBatch(world);
      const { code, stdout, stderr } = await batch(world, "--resume", ...AT_ONCE).ended;
      must(code === 0, `the resumed batch ended with ${code}: ${stdout} ${stderr}`);
      for (const id of BEGUN) {
        const went = turnsAbout(world, id).at(-1);
        const [first = "", next = ""] = went?.users.slice(-2) ?? [];
        must(
          first.includes(`# ${id}: `) && next.includes(`worked on issue ${id} (`),
          `${id} did not go on in its conversation`,
        );
        must(
          newest(world)?.issues[id]?.session_id === before.issues[id]?.session_id,
          `${id} has another session now`,
        );
      }
      for (const id of [...BEGUN, ...READY])
        must(statusOf(world, id) === "closed", `${id} is ${statusOf(world, id)}`);
      onceEach(world);
    },

    /** The same, but one conversation is gone: that issue fails, and the others are done. */
    "issues-strict": async (world) => {
      const before = await killedBatch(world);
      const lost = before.issues["b"]?.session_id ?? "";
      const gone = world.lab.storeFiles(world.place).filter((file) => file.includes(lost));
      must(lost !== "" && gone.length > 0, `the session ${lost} of b has no file`);
      for (const file of gone) rmSync(file, { recursive: true });
      const { code } = await batch(world, "--resume", "--strict", ...AT_ONCE).ended;
      must(code === 10, `the strict batch ended with ${code}`);
      const now = newest(world)?.issues ?? {};
      must(
        now["b"]?.error?.startsWith("Session resumption failed: ") === true,
        `b: ${now["b"]?.error ?? "no error"}`,
      );
      must(statusOf(world, "b") === "in_progress", `b is ${statusOf(world, "b")}`);
      for (const id of ["a", "c", ...READY])
        must(statusOf(world, id) === "closed", `${id} is ${statusOf(world, id)}`);
      onceEach(world);
    },
  };

async function killedBatch(world: World): Promise<BatchFile> {
  const { place, lab, server } = world;
  settle(place, lab, server.url);
  mkdirSync(join(place.project, "issues"), { recursive: true });
  for (const id of BEGUN) issue(world, id, 0, "@@stall");
  for (const id of READY) issue(world, id, 3, "");
  writeFileSync(join(place.project, "reprise.toml"), 'escrow = "off"\n');
  const who = ["-c", "user.name=Lab", "-c", "user.email=lab@localhost"];
  for (const args of [
    ["init", "-q"],
    ["add", "-A"],
    [...who, "commit", "-qm", "six issues"],
  ]) {
    const { status, stderr } = spawnSync("git", args, { cwd: place.project, encoding: "utf8" });
    must(status === 0, `git ${args.join(" ")}: ${stderr}`);
  }
  const running = batch(world, ...AT_ONCE);
  await until(
    "three conversations are kept",
    () =>
      BEGUN.every((id) => {
        const session = newest(world)?.issues[id]?.session_id;
        return (
          session !== null &&
          session !== undefined &&
          turnsAbout(world, id).length > 0 &&
          isKept(world, `# ${id}: `)
        );
      }),
    DEADLINE_MS,
  );
  signal(running.pid, "SIGKILL");
  await running.ended;
  const found = newest(world);
  if (found === null) throw new Error("the batch left no record");
  return found;
}

function issue({ place }: World, id: string, priority: number, directive: string): void {
  const head = `---\ntitle: Issue ${id}\npriority: ${priority}\n---\n`;
  writeFileSync(join(place.project, "issues", `${id}.md`), `${head}Think about ${id}. ${directive}\n`);
}

function batch({ bench, place, lab, server, log }: World, ...args: string[]) {
  const all = [bench.cli, "issues", "run", "--engine", lab.engine, "--trust-cwd", ...args];
  log.push(`$ reprise ${all.slice(1).join(" ")}`);
  const running = run(process.execPath, all, {
    cwd: place.project,
    env: environment(place, lab, server.url),
    stdin: null,
  });
  void running.ended.then(({ code, signal: name, stdout, stderr }: Ended) =>
    log.push(`  exit ${code ?? name} ${stdout}${stderr}`),
  );
  return running;
}

function newest({ place }: World): BatchFile | null {
  const root = join(place.state, "issues");
  const files = existsSync(root)
    ? readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
        (name) => name.endsWith(".json") && !name.includes("cache"),
      )
    : [];
  const all = files.map((name) => JSON.parse(readFileSync(join(root, name), "utf8")) as BatchFile);
  return all.toSorted((one, other) => (one.started_at < other.started_at ? -1 : 1)).at(-1) ?? null;
}

function turnsAbout({ server }: World, id: string): readonly RequestRecord[] {
  return server.requests.filter(
    ({ kind, users }) => kind === "turn" && users.some((text) => text.includes(`# ${id}: `)),
  );
}

function statusOf({ place }: World, id: string): string {
  const text = readFileSync(join(place.project, "issues", `${id}.md`), "utf8");
  return /^status: (\w+)$/m.exec(text)?.[1] ?? "open";
}

function onceEach({ server }: World): void {
  const all = delivered(server.requests.filter(({ kind }) => kind === "turn"));
  const twice = all.filter((text, at) => all.indexOf(text) !== at);
  must(twice.length === 0, `delivered twice: ${twice[0]?.slice(0, 200) ?? ""}`);
}
