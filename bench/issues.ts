/**
 * Batches of issues: how fast a prior session is found among 10,000 batches, what an issue costs besides its agent, and
 * whether memory grows. Prints a table and writes `bench/issues-results.json`. Not a test: times depend on the machine.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { openState } from "../src/audit/audit.ts";
import { batchId, makeMetadataDirectory } from "../src/issues/metadata.ts";
import { lookupPriorSession } from "../src/issues/prior.ts";

const CLI = resolve("dist/reprise.js");
const AGENT = resolve("dist/demo-agent.js");
const FILES = 10_000;
const ISSUES = Number(process.env["BENCH_ISSUES"] ?? 200);
const MANY = Number(process.env["BENCH_MANY"] ?? 1_000);
const AT_A_TIME = 4;
/** Less than this is not growth: the garbage collector's own ups and downs. */
const FLAT_MIB = 40;

interface Row {
  readonly what: string;
  readonly measured: string;
  readonly target: string;
  readonly ok: boolean;
}

const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-bench-")));
const rows: Row[] = [];
try {
  await lookUp();
  await overhead();
  await memory();
} finally {
  rmSync(root, { recursive: true, force: true, maxRetries: 5 });
}
for (const { ok, what, measured, target } of rows)
  console.log(`${ok ? "ok  " : "MISS"}  ${what}: ${measured} (${target})`);
const machine = {
  node: process.version,
  cores: cpus().length,
  cpu: cpus()[0]?.model ?? "unknown",
  load: loadavg()[0],
};
writeFileSync("bench/issues-results.json", `${JSON.stringify({ machine, rows }, null, 2)}\n`);

async function lookUp(): Promise<void> {
  const state = await openState(join(root, "look-up"));
  const deps = { state, log: { warn: (text: string) => console.log(text), info: () => {} } };
  const directory = makeMetadataDirectory(state, "/home/ada/shop");
  for (let at = 0; at < FILES; at += 1) {
    const startedAt = Date.UTC(2026, 0, 1) + at * 60_000;
    const iso = new Date(startedAt).toISOString();
    const runId = batchId(startedAt, at.toString(16).padStart(8, "0"));
    const entry = {
      title: "Make the door quiet",
      status: "completed",
      engine: "claude",
      session_id: `session-${at}`,
      handle: "1a2b3c4d",
      agent_id: `${runId}-claude-1a2b3c4d`,
      baseline_commit: "6dcb09b5b57875f334f61aebed695e2e4193db5e",
      branch: `reprise/issue-${at}-make-the-door-quiet`,
      attempts: 1,
      gate: { passed: true, detail: "" },
      findings: [],
      error: null,
      tokens: { input: 1, output: 1 },
      started_at: iso,
      finished_at: iso,
    };
    const record = {
      run_id: runId,
      started_at: iso,
      completed_at: iso,
      repo_path: "/home/ada/shop",
      version: "0",
      config: {},
      issues: { [`issue-${at}`]: entry },
    };
    writeFileSync(join(directory, `${runId}.json`), `${JSON.stringify(record, null, 1)}\n`);
  }
  // Files that were written a moment ago are not trusted to stay as they are.
  await new Promise((wake) => setTimeout(wake, 300));
  const look = (issue: string) => {
    const before = process.cpuUsage();
    const began = performance.now();
    lookupPriorSession(deps, "/home/ada/shop", issue, "claude");
    const { user, system } = process.cpuUsage(before);
    return { wall: performance.now() - began, processor: (user + system) / 1000 };
  };
  const cold = look("issue-0");
  // In none of them: every file is looked through.
  const further = ["issue-1", "issue-2", "nowhere"].map(look);
  const worst = further.reduce((one, other) => (one.wall > other.wall ? one : other));
  const words = ({ wall, processor }: typeof cold) =>
    `${wall.toFixed(0)} ms, ${processor.toFixed(0)} ms of processor`;
  add(
    `prior session among ${FILES} batches, cold`,
    words(cold),
    "≤ 150 ms",
    Math.min(cold.wall, cold.processor) <= 150,
  );
  add("each further issue", words(worst), "≤ 20 ms", Math.min(worst.wall, worst.processor) <= 20);
}

interface Batch {
  readonly wallMs: number;
  /** Of Reprise itself, in MiB: as the batch goes on. */
  readonly memory: readonly number[];
}

/** Over the agents' own time: what the same number of bare agents take, as many at a time. */
async function overhead(): Promise<void> {
  const bare = await bareAgents(ISSUES);
  const batch = await runIssues("overhead", ISSUES);
  const each = (batch.wallMs - bare) / ISSUES;
  add(
    `${ISSUES} issues, ${AT_A_TIME} at a time`,
    `${each.toFixed(0)} ms an issue over the agents' own time (${(batch.wallMs / 1000).toFixed(1)} s, agents alone ${(bare / 1000).toFixed(1)} s)`,
    "≤ 60 ms",
    each <= 60,
  );
}

async function memory(): Promise<void> {
  const { memory: seen } = await runIssues("memory", MANY);
  const quarter = Math.max(1, Math.floor(seen.length / 4));
  const mean = (part: readonly number[]) => part.reduce((sum, one) => sum + one, 0) / part.length;
  const [early, late] = [mean(seen.slice(quarter, 2 * quarter)), mean(seen.slice(-quarter))];
  add(
    `memory over ${MANY} issues`,
    `${early.toFixed(0)} MiB in the second quarter, ${late.toFixed(0)} MiB in the last`,
    `≤ ${FLAT_MIB} MiB more`,
    late - early <= FLAT_MIB,
  );
}

async function bareAgents(count: number): Promise<number> {
  const env = { ...process.env, REPRISE_DEMO_HOME: join(root, "bare") };
  const began = performance.now();
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const child = spawn(process.execPath, [AGENT, "--format", "jsonl", "hello"], { env, stdio: "ignore" });
      await new Promise((done) => child.on("close", done));
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return performance.now() - began;
}

async function runIssues(name: string, count: number): Promise<Batch> {
  const repo = join(root, name);
  mkdirSync(join(repo, ".beads"), { recursive: true });
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", repo, "-c", "user.name=B", "-c", "user.email=b@localhost", ...args]);
  git("init", "-q");
  const lines = Array.from({ length: count }, (_, at) =>
    JSON.stringify({ id: `b-${at}`, title: `Issue ${at}`, status: "open", description: "hello" }),
  );
  writeFileSync(join(repo, ".beads", "issues.jsonl"), `${lines.join("\n")}\n`);
  writeFileSync(join(repo, ".gitignore"), ".beads\n");
  git("add", "-A");
  git("commit", "-qm", "first");
  const env = { ...process.env, HOME: root, REPRISE_HOME: join(root, `${name}-state`) };
  const args = ["issues", "run", "--engine", "demo", "--max-agents", String(AT_A_TIME), "--json"];
  const began = performance.now();
  const child = spawn(process.execPath, [CLI, ...args], {
    cwd: repo,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => said.push(chunk));
  const seen: number[] = [];
  const timer = setInterval(() => {
    const resident = residentMib(child.pid ?? 0);
    if (resident !== null) seen.push(resident);
  }, 250);
  const code = await new Promise<number | null>((done) => child.on("close", done));
  clearInterval(timer);
  const wallMs = performance.now() - began;
  if (code !== 0)
    throw new Error(`the batch ${name} ended with ${code}: ${failures(Buffer.concat(said).toString())}`);
  rmSync(join(root, `${name}-state`), { recursive: true, force: true });
  return { wallMs, memory: seen };
}

function failures(json: string): string {
  const { issues } = JSON.parse(json) as { issues: { id: string; state: string; why: string }[] };
  return issues
    .flatMap(({ id, state, why }) => (state === "completed" ? [] : [`${id} ${state}: ${why}`]))
    .join("\n");
}

function residentMib(pid: number): number | null {
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return kib === undefined ? null : Number(kib) / 1024;
  } catch {
    const told = spawnSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim();
    return told === "" ? null : Number(told) / 1024;
  }
}

function add(what: string, measured: string, target: string, ok: boolean): void {
  rows.push({ what, measured, target, ok });
}
