/**
 * A batch of issues with the real engines: its runner is killed while three agents are at work, and resumed. The model is
 * the judge of which conversation went on, and of how often a message arrived.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { delivered } from "../src/certify/deliveries.ts";
import type { LabWorld } from "../src/certify/world.ts";
import { isKept } from "../src/certify/interrupt.ts";
import type { RequestRecord } from "../src/certify/model-server/server.ts";
import { type Ended, environment, run, settle, signal, until } from "../src/certify/place.ts";
import { must } from "./review.ts";

const DEADLINE_MS = 120_000;
const BEGUN = ["a", "b", "c"];
const READY = ["d", "e", "f"];
const FIVE = ["a", "b", "c", "d", "e"];
const AT_ONCE = ["--max-agents", String(BEGUN.length)];

interface BatchFile {
  readonly started_at: string;
  readonly issues: Readonly<
    Record<
      string,
      {
        readonly status: string;
        readonly session_id: string | null;
        readonly error: string | null;
        readonly branch: string | null;
      }
    >
  >;
}

export const ISSUE_ACTS: Readonly<
  Record<string, (world: LabWorld, words: readonly string[]) => Promise<void>>
> = {
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
      const marks = ["What follows is new:", "New since you last got it: its text"];
      must(
        marks.some((mark) => next.includes(mark)),
        `${id} was not told that its text is new`,
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

  /** No gate, no permission option: five issues, and each leaves its change on its branch. */
  "issues-unattended": async (world) => {
    repository(world, FIVE, (id) => `@@tool:echo done > ${id}.txt`);
    const { code, stdout, stderr } = await batch(world, ...AT_ONCE).ended;
    must(code === 0, `the batch ended with ${code}: ${stdout} ${stderr}`);
    for (const id of FIVE) {
      must(statusOf(world, id) === "closed", `${id} is ${statusOf(world, id)}`);
      const branch = newest(world)?.issues[id]?.branch ?? "";
      const { stdout: files } = git(world, "diff", "--name-only", "HEAD", branch);
      must(files.trim() === `${id}.txt`, `${branch} changes ${JSON.stringify(files)}`);
    }
    onceEach(world);
  },

  /** Every tool is denied: no issue is closed, and each denied call is named. A resume does not widen, and says why. */
  "issues-denied": async (world) => {
    repository(world, FIVE, (id) => `@@tool:echo done > ${id}.txt`);
    const { code, stdout } = await batch(world, "--access", "read", ...AT_ONCE).ended;
    must(code === 10, `the batch ended with ${code}: ${stdout}`);
    const denied = (id: string) => {
      const { status, error } = newest(world)?.issues[id] ?? { status: "", error: "" };
      must(statusOf(world, id) === "in_progress", `${id} is ${statusOf(world, id)}`);
      must(status === "no_change", `${id} ended as ${status}: ${error ?? ""}`);
      must(
        /1 tool call was denied: \w+ echo done > \w\.txt$/.test(error ?? ""),
        `${id} does not name what was denied: ${error ?? ""}`,
      );
    };
    for (const id of FIVE) denied(id);
    const wider = await batch(world, "--resume", "--access", "full").ended;
    must(wider.code === 10, `the wider batch ended with ${wider.code}`);
    must(wider.stdout.includes("never gets more rights"), `nothing is said of rights: ${wider.stdout}`);
    for (const id of FIVE)
      must(statusOf(world, id) === "in_progress", `after that ${id} is ${statusOf(world, id)}`);
    onceEach(world);
  },

  /** Done, opened again with other words: the same conversation hears them, and its branch gets the second change. */
  "issues-reopened": async (world) => {
    repository(world, ["a"], () => "@@tool:echo one > one.txt");
    const first = await batch(world).ended;
    must(first.code === 0, `the batch ended with ${first.code}: ${first.stdout} ${first.stderr}`);
    const before = newest(world)?.issues["a"];
    issue(world, "a", 0, "It lacks a second file. @@tool:echo two > two.txt");
    const { code, stdout, stderr } = await batch(world).ended;
    must(code === 0, `the second batch ended with ${code}: ${stdout} ${stderr}`);
    must(statusOf(world, "a") === "closed", `a is ${statusOf(world, "a")}`);
    must(newest(world)?.issues["a"]?.session_id === before?.session_id, "a has another session now");
    const users = turnsAbout(world, "a").at(-1)?.users ?? [];
    must(
      users.some((text) => text.includes("has been opened again") && text.includes("a second file")),
      "the agent was not told what is new",
    );
    const { stdout: files } = git(world, "diff", "--name-only", "HEAD", before?.branch ?? "");
    must(files.trim() === "one.txt\ntwo.txt", `the branch changes ${JSON.stringify(files)}`);
    onceEach(world);
  },
};

/** A repository with these issues, committed, and settings for the engine. */
function repository(world: LabWorld, ids: readonly string[], directive: (id: string) => string): void {
  const { place, lab, server } = world;
  settle(place, lab, server.url);
  mkdirSync(join(place.project, "issues"), { recursive: true });
  for (const id of ids) issue(world, id, BEGUN.includes(id) ? 0 : 3, directive(id));
  writeFileSync(join(place.project, "reprise.toml"), 'escrow = "off"\n');
  const who = ["-c", "user.name=Lab", "-c", "user.email=lab@localhost"];
  for (const args of [
    ["init", "-q"],
    ["add", "-A"],
    [...who, "commit", "-qm", "issues"],
  ]) {
    const { status, stderr } = git(world, ...args);
    must(status === 0, `git ${args.join(" ")}: ${stderr}`);
  }
}

function git({ place }: LabWorld, ...args: string[]) {
  return spawnSync("git", args, { cwd: place.project, encoding: "utf8" });
}

async function killedBatch(world: LabWorld): Promise<BatchFile> {
  const all = [...BEGUN, ...READY];
  repository(world, all, (id) => (BEGUN.includes(id) ? "@@stall" : `@@tool:echo done > ${id}.txt`));
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
  // Somebody edits them meanwhile; only so does the model go on with something to do.
  for (const id of BEGUN) {
    const file = join(world.place.project, "issues", `${id}.md`);
    writeFileSync(file, readFileSync(file, "utf8").replace("@@stall", `@@tool:echo done > ${id}.txt`));
  }
  const found = newest(world);
  if (found === null) throw new Error("the batch left no record");
  return found;
}

function issue({ place }: LabWorld, id: string, priority: number, directive: string): void {
  const head = `---\ntitle: Issue ${id}\npriority: ${priority}\n---\n`;
  writeFileSync(join(place.project, "issues", `${id}.md`), `${head}Think about ${id}. ${directive}\n`);
}

function batch({ bench, place, lab, server, log }: LabWorld, ...args: string[]) {
  const all = [bench.cli, "issues", "run", "--engine", lab.engine, ...args];
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

function newest({ place }: LabWorld): BatchFile | null {
  const root = join(place.state, "issues");
  const files = existsSync(root)
    ? readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
        (name) => name.endsWith(".json") && !name.includes("cache"),
      )
    : [];
  const all = files.map((name) => JSON.parse(readFileSync(join(root, name), "utf8")) as BatchFile);
  return all.toSorted((one, other) => (one.started_at < other.started_at ? -1 : 1)).at(-1) ?? null;
}

function turnsAbout({ server }: LabWorld, id: string): readonly RequestRecord[] {
  return server.requests.filter(
    ({ kind, users }) => kind === "turn" && users.some((text) => text.includes(`# ${id}: `)),
  );
}

function statusOf({ place }: LabWorld, id: string): string {
  const text = readFileSync(join(place.project, "issues", `${id}.md`), "utf8");
  return /^status: (\w+)$/m.exec(text)?.[1] ?? "open";
}

function onceEach({ server }: LabWorld): void {
  const all = delivered(server.requests.filter(({ kind }) => kind === "turn"));
  const twice = all.filter((text, at) => all.indexOf(text) !== at);
  must(twice.length === 0, `delivered twice: ${twice[0]?.slice(0, 200) ?? ""}`);
}
