/**
 * `npm run bench:counts [-- --update] [--spread N]`: what commands do, in counts that no load changes: files of code and
 * their bytes, file calls on our own files, bytes and syncs of writes, programs started, SQL statements, allocations.
 * Fails when a count is more than a quarter over `bench/counts.json`; never on a time.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readArguments } from "../scripts/arguments.ts";
import { openStore } from "../src/store/store.ts";
import { CLI, environment, makeRoot, sampleRun } from "./part.ts";

const BASELINE = "bench/counts.json";
/** More than this over the baseline is a regression; so few more are not. */
const MOST = 1.25;
const FEW = 2;

const RUNBOOK = `
[agent.worker]
engine = "demo"
mode = "headless"
prompt = "hello"
on_idle = "done"
on_dead = "fail"
`;

/** Waits for another process by looking again and again: how often depends on the load. */
const WAITS: Readonly<Record<string, readonly string[]>> = { "agent run": ["file calls", "files opened"] };

type Counts = Readonly<Record<string, number>>;
type Measured = Readonly<Record<string, Counts>>;

const USAGE = `
npm run bench:counts -- [--update] [--spread N]

  --update     writes ${BASELINE}, after a wanted change
  --spread N   counts N times and says what differs

npm run bench:counts
npm run bench:counts -- --spread 5
`;
const values = readArguments(USAGE, { update: "flag", spread: "count" });
const root = makeRoot();
try {
  process.exitCode = await main();
} finally {
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}

async function main(): Promise<number> {
  const preload = compile();
  if (preload === null) {
    console.log("Nothing was counted: this needs Linux and a C compiler (gcc).");
    return 0;
  }
  if (values.spread !== undefined) return spread(preload, values.spread);
  const measured = await measure(preload, "once");
  if (values.update) {
    writeFileSync(BASELINE, `${JSON.stringify(measured, null, 2)}\n`);
    console.log(`${BASELINE} is written.`);
    return 0;
  }
  return compare(measured, JSON.parse(readFileSync(BASELINE, "utf8")) as Measured);
}

function compile(): string | null {
  const file = join(root, "counts.so");
  const args = ["-shared", "-fPIC", "-O1", "-o", file, resolve("bench/counts-preload.c"), "-ldl"];
  if (process.platform !== "linux") return null;
  return spawnSync("gcc", args, { stdio: ["ignore", "ignore", "inherit"] }).status === 0 ? file : null;
}

/** One row a command, in the order in which they are given. */
async function measure(preload: string, name: string): Promise<Measured> {
  const env = environment(root, name);
  const state = env["REPRISE_HOME"] ?? "";
  Object.assign(env, { PATH: "/usr/bin:/bin", REPRISE_DEMO_HOME: join(root, name, "demo") });
  const project = join(root, name, "project");
  mkdirSync(join(project, "runbooks"), { recursive: true });
  mkdirSync(join(project, "issues"));
  for (const at of [1, 2, 3])
    writeFileSync(join(project, "issues", `a-${at}.md`), `---\ntitle: Issue ${at}\n---\nhello\n`);
  writeFileSync(join(project, "runbooks", "counts.toml"), RUNBOOK);
  spawnSync("git", ["init", "-q", project]);
  const counts: Record<string, Counts> = {};
  const count = (what: string, ...args: string[]): string => {
    const one = counted({ preload, env, cwd: project }, args);
    const kept = Object.entries(one.counts).filter(([kind]) => WAITS[what]?.includes(kind) !== true);
    if (what !== "") counts[what] = Object.fromEntries(kept);
    return one.stdout;
  };
  count("--version", "--version");
  count("", "list");
  count("list, 0 runs", "list");
  const started = JSON.parse(count('start demo "hello"', "start", "demo", "hello", "--json")) as {
    handle: string;
  };
  count("resume", "resume", "--json", started.handle, "again");
  count("show", "show", started.handle);
  count("logs", "logs", started.handle);
  count("doctor", "doctor");
  count("issues list", "issues", "list");
  try {
    count("agent run", "agent", "run", "worker", "--trust-cwd", "--json");
    count("status", "status");
  } finally {
    spawnSync(process.execPath, [CLI, "agent", "stop", "--all"], { env, cwd: project });
    spawnSync(process.execPath, [CLI, "daemon", "stop"], { env, cwd: project });
  }
  const store = await openStore(join(state, "index.db"));
  for (let at = 0; at < 1_000; at += 1) await store.createRun(sampleRun(state, at));
  await store[Symbol.asyncDispose]();
  count("list, 1,000 runs", "list");
  return counts;
}

interface World {
  readonly preload: string;
  readonly env: Record<string, string>;
  readonly cwd: string;
}

function counted({ preload, env, cwd }: World, args: readonly string[]): { stdout: string; counts: Counts } {
  const log = join(root, "log");
  rmSync(log, { force: true });
  // New objects have enough room, so nothing is collected: the memory in use at the end was allocated meanwhile.
  const roomy = ["--min-semi-space-size=128", "--max-semi-space-size=128"];
  const hook = ["--require", resolve("bench/counts-hook.cjs")];
  const { stdout, stderr, status } = spawnSync(process.execPath, [...roomy, ...hook, CLI, ...args], {
    cwd,
    env: { ...env, LD_PRELOAD: preload, COUNTS_LOG: log, COUNTS_INSIDE: log },
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`reprise ${args.join(" ")}: exit ${status}\n${stdout}${stderr}`);
  return { stdout, counts: summed(log) };
}

/** Paths of this checkout are code; what lies in the temporary directory is data. Anything else is the machine's. */
function summed(log: string): Counts {
  // The last thing that the process does is to write its own counts.
  const [outside = "", inside = ""] = readFileSync(log, "utf8").split(/^(?=\{)/m);
  const code = resolve(".");
  const files = new Set<string>();
  const counts = { calls: 0, opens: 0, written: 0, syncs: 0, spawns: 0 };
  for (const line of outside.split("\n")) {
    const [, what = "", size = "0", path = ""] = /^(\w+) (\d+) (.*)$/.exec(line) ?? [];
    const ours = path.startsWith(root) && path !== log;
    if (what === "open" && path.startsWith(code)) files.add(path);
    if (what === "open" && ours) counts.opens += 1;
    if (what === "write") counts.written += Number(size);
    if (what === "sync") counts.syncs += 1;
    if (what === "spawn") counts.spawns += 1;
    if (ours || what === "write" || what === "sync") counts.calls += 1;
  }
  files.delete(resolve("bench/counts-hook.cjs"));
  const bytes = [...files].reduce((sum, file) => sum + statSync(file).size, 0);
  const { statements, allocated } = JSON.parse(inside.split("\n")[0] ?? "") as Record<string, number>;
  return {
    "code files": files.size,
    "code bytes": bytes,
    "file calls": counts.calls,
    "files opened": counts.opens,
    "bytes written": counts.written,
    syncs: counts.syncs,
    "programs started": counts.spawns,
    "SQL statements": statements ?? 0,
    "bytes allocated": allocated ?? 0,
  };
}

function compare(measured: Measured, baseline: Measured): number {
  let over = 0;
  for (const [command, counts] of Object.entries(measured)) {
    for (const [what, is] of Object.entries(counts)) {
      const was = baseline[command]?.[what];
      if (was === undefined || is <= was * MOST || is <= was + FEW) continue;
      over += 1;
      console.log(
        `MISS  ${command}: ${what} ${is} instead of ${was} (+${Math.round((is / was - 1) * 100)} %)`,
      );
    }
  }
  const kinds = Object.values(measured).reduce((sum, counts) => sum + Object.keys(counts).length, 0);
  console.log(
    `${over} of ${kinds} counts of ${Object.keys(measured).length} commands are more than 25 % over ${BASELINE}.`,
  );
  return over === 0 ? 0 : 1;
}

/** How much the counts differ from one time to the next. */
async function spread(preload: string, times: number): Promise<number> {
  const all: Measured[] = [];
  for (let at = 0; at < times; at += 1) all.push(await measure(preload, `spread-${at}`));
  for (const [command, counts] of Object.entries(all[0] ?? {})) {
    for (const what of Object.keys(counts)) {
      const seen = all.map((one) => one[command]?.[what] ?? 0);
      const [least, most] = [Math.min(...seen), Math.max(...seen)];
      if (least !== most)
        console.log(`${command}: ${what} ${least} … ${most} (${((most / least - 1) * 100).toFixed(1)} %)`);
    }
  }
  return 0;
}
