/**
 * Every byte that an agent wrote is on its tape: bursts right before the end, through pipes and terminals, on this Node
 * and on the newest one. The judge is the file that the agent copied, never what Reprise says of itself.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

const BURSTS = [10_000, 100_000, 1_000_000, 4_000_000] as const;
/** On stderr at the same time: more than a pipe or a terminal holds. */
const BESIDE = 150_000;
const MODES = ["pipe", "pty"] as const;

/** What the agent does right after its last byte. */
const ENDINGS = {
  exit: "exit 0",
  "kill -9": "kill -9 $$",
  // Both outputs and the terminal stay open after the agent's own end.
  "a grandchild holds its output": `(trap "" HUP; exec sleep 60) & echo $! > "$GRANDCHILD"; exit 0`,
} as const;

interface Case {
  readonly node: Program;
  readonly mode: (typeof MODES)[number];
  readonly burst: number;
  readonly ending: keyof typeof ENDINGS;
}

interface Program {
  readonly path: string;
  readonly version: string;
}

export const tapes: Promised = {
  id: "P14",
  what: "tapes",
  wrong: "not byte for byte what the agent wrote",
  means: "The tape has every byte that an agent wrote before its end, in order, separately per stream",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  using box = new Sandbox();
  const untried: string[] = [];
  const nodes: Program[] = [{ path: process.execPath, version: process.version }];
  const newest = installNewest(join(box.root, "newest"));
  if (typeof newest === "string") untried.push(newest);
  else nodes.push(newest);
  const cases = plan(nodes, scale.short);
  const sums = prepare(box);
  const broken: string[] = [];
  let [next, bytes] = [0, 0];
  const worker = async (name: number): Promise<void> => {
    for (let one = cases[next++]; one !== undefined; one = cases[next++]) {
      scale.progress(`tapes: ${next} of ${cases.length}`);
      const wrong = await tryOne(box, one, sums, String(name));
      if (wrong !== null)
        broken.push(
          `${one.mode}, ${one.burst} bytes, then ${one.ending}, Node ${one.node.version}: ${wrong}`,
        );
      bytes += one.burst + BESIDE;
    }
  };
  await Promise.all(Array.from({ length: 2 * availableParallelism() }, (_, name) => worker(name)));
  return { tried: cases.length, broken, untried, figures: { "bytes written by agents": bytes } };
}

/** How often every combination is tried. A pipe loses nothing by itself; a terminal can. */
const ROUNDS = { pipe: 20, pty: 200 } as const;

/** Where time is short: once on each Node. */
function plan(nodes: readonly Program[], short: boolean): Case[] {
  const endings = Object.keys(ENDINGS) as Case["ending"][];
  const cases = (node: Program, mode: Case["mode"]) =>
    BURSTS.flatMap((burst) => endings.map((ending): Case => ({ node, mode, burst, ending })));
  if (short) return nodes.flatMap((node) => MODES.flatMap((mode) => cases(node, mode)));
  return MODES.flatMap((mode) =>
    Array.from({ length: ROUNDS[mode] }, () => nodes.flatMap((node) => cases(node, mode))).flat(),
  );
}

/** An agent that copies the given files, both at once, and ends in the given way. Returns the sums of the files. */
function prepare(box: Sandbox): ReadonlyMap<number, string> {
  const sums = new Map<number, string>();
  for (const size of [...BURSTS, BESIDE]) {
    const bytes = randomBytes(size);
    writeFileSync(join(box.root, `burst-${size}`), bytes);
    sums.set(size, sha256(bytes));
  }
  // A terminal that changes nothing: LF stays LF.
  const raw = "[ -t 1 ] && stty -opost <&1; [ -t 2 ] && stty -opost <&2";
  const copy = `cat "$BURST" & cat '${join(box.root, `burst-${BESIDE}`)}' >&2; wait`;
  const endings = Object.entries(ENDINGS).map(([name, script]) => `"${name}") ${script};;`);
  box.program("burst", `cat > /dev/null; ${raw}; ${copy}\ncase "$ENDING" in\n${endings.join("\n")}\nesac`);
  mkdirSync(join(box.root, "config/reprise"), { recursive: true });
  writeFileSync(
    join(box.root, "config/reprise/config.toml"),
    `[engines.burst]\nprogram = "burst"\nstart = []\nresume = ["{session}"]\n` +
      `session = { field = "id", format = "uuid" }\nevents = { session = "type=x", done = "type=y" }\n`,
  );
  return sums;
}

/** The error in the tape, or null. */
async function tryOne(
  box: Sandbox,
  { node, mode, burst, ending }: Case,
  sums: ReadonlyMap<number, string>,
  worker: string,
): Promise<string | null> {
  const grandchild = join(box.root, `grandchild-${worker}`);
  const env = box.env({
    XDG_CONFIG_HOME: join(box.root, "config"),
    BURST: join(box.root, `burst-${burst}`),
    ENDING: ending,
    GRANDCHILD: grandchild,
  });
  const args = [CLI, "start", "burst", "go", "--mode", mode, "--json", "--no-escrow"];
  const child = spawn(node.path, args, { cwd: box.cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const { stdout, stderr } = await collect(child);
  if (ending === "a grandchild holds its output") end(grandchild);
  const directory = (JSON.parse(stdout || "{}") as { runDirectory?: string }).runDirectory;
  if (directory === undefined) return `no run: ${stdout}${stderr}`;
  const wrong: string[] = [];
  const attempt = join(directory, "attempts/1");
  const [out, err, merged] = ["stdout.log", "stderr.log", "pty-output.log"].map((name) =>
    readFileSync(join(attempt, name)),
  );
  if (out === undefined || err === undefined || merged === undefined) return "a tape is missing";
  if (sha256(out) !== sums.get(burst)) wrong.push(`stdout.log has ${out.length} bytes`);
  if (sha256(err) !== sums.get(BESIDE)) wrong.push(`stderr.log has ${err.length} of ${BESIDE} bytes`);
  if (merged.length !== burst + BESIDE) wrong.push(`pty-output.log has ${merged.length} bytes`);
  const meta = JSON.parse(readFileSync(join(attempt, "meta.json"), "utf8")) as { bytes: unknown };
  if (JSON.stringify(meta.bytes) !== JSON.stringify({ stdout: burst, stderr: BESIDE }))
    wrong.push(`meta.json says ${JSON.stringify(meta.bytes)}`);
  rmSync(directory, { recursive: true });
  return wrong.length === 0 ? null : wrong.join(", ");
}

function end(pidFile: string): void {
  try {
    process.kill(Number(readFileSync(pidFile, "utf8")), "SIGKILL");
  } catch {
    // Reprise has ended it already.
  }
}

/** A sentence: why the tape is missing. */
function installNewest(directory: string): Program | string {
  mkdirSync(directory);
  writeFileSync(join(directory, "package.json"), "{}");
  const npm = spawnSync("npm", ["install", "--silent", "--no-save", "node@latest"], {
    cwd: directory,
    encoding: "utf8",
    timeout: 120_000,
  });
  const path = join(directory, "node_modules/node/bin/node");
  const told = spawnSync(path, ["--version"], { encoding: "utf8" });
  if (told.status === 0) return { path, version: told.stdout.trim() };
  return `the newest Node cannot be installed here: ${npm.stderr.trim().split("\n").at(-1) ?? ""}`;
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
