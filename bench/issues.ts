/**
 * Batches of issues: how fast a prior session is found among 10,000 batches, what an issue costs besides its agent, and
 * whether memory grows. Times depend on the machine, on other programs that run on it, and on how long its disk takes
 * to sync, which is printed as well.
 *
 * Wall time decides. Processor time stands beside it, since it stays the same on a busy machine.
 */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { openState } from "../src/state/directory.ts";
import { batchId, makeMetadataDirectory } from "../src/issues/metadata.ts";
import { lookupPriorSession } from "../src/issues/prior.ts";
import { CLI, makeRoot, type Part, type Row } from "./part.ts";

const AGENT = resolve("dist/demo-agent.js");
const FILES = 10_000;
const ISSUES = Number(process.env["BENCH_ISSUES"] ?? 200);
const MANY = Number(process.env["BENCH_MANY"] ?? 1_000);
const AT_A_TIME = 4;
const ROUNDS = 5;
/** Less than this is not growth: the garbage collector's own ups and downs. */
const FLAT_MIB = 40;

/** An agent that takes no time: a thousand of them are about Reprise's memory alone. */
const QUICK_AGENT = `#!/bin/sh
test "$1" = --version && echo 'codex-cli 0.142.0' && exit
read -r id < /proc/sys/kernel/random/uuid
echo '{"type":"thread.started","thread_id":"'"$id"'"}'
echo '{"type":"turn.started"}'
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
`;

const root = makeRoot();
const rows: Row[] = [];

export const issues: Part = async (progress) => {
  try {
    for (const [what, measure] of Object.entries({ lookUp, overhead, memory })) {
      progress(what);
      await measure();
    }
    return rows;
  } finally {
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
};

async function lookUp(): Promise<void> {
  const state = await openState(join(root, "look-up"));
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
  const cold: Cost[] = [];
  const further: Cost[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    // A state that no command has read yet; the system may have the files in its memory.
    const deps = { state: { ...state }, log: { warn: console.log, info: () => {} } };
    const look = (issue: string) =>
      costOf(() => lookupPriorSession(deps, "/home/ada/shop", issue, "claude"), ownProcessor);
    cold.push(await look("issue-0"));
    // The last is in none of them: every file is looked through.
    for (const issue of ["issue-1", "issue-2", "nowhere"]) further.push(await look(issue));
  }
  const least = (costs: readonly Cost[]) => costs.toSorted((one, other) => one.wallMs - other.wallMs)[0];
  for (const [what, cost, limit] of [
    [`prior session among ${FILES} batches, cold`, least(cold), 150],
    ["each further issue", least(further), 20],
  ] as const) {
    if (cost === undefined) continue;
    const words = `${ms(cost.wallMs)}, ${ms(cost.cpuMs)} of processor, least disturbed of ${ROUNDS} rounds`;
    add(what, words, `≤ ${limit} ms`, cost.wallMs <= limit);
  }
}

interface Cost {
  readonly wallMs: number;
  /** Of ourselves, or of all our children that have ended; not a number where the system does not tell. */
  readonly cpuMs: number;
}

async function costOf(work: () => unknown, processor: () => number): Promise<Cost> {
  const [cpu, began] = [processor(), performance.now()];
  await work();
  return { wallMs: performance.now() - began, cpuMs: processor() - cpu };
}

function ownProcessor(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Of the children of this process and of theirs, as far as they have ended. */
function childProcessor(): number {
  if (process.platform !== "linux") return Number.NaN;
  const stat = readFileSync("/proc/self/stat", "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // In ticks of a hundredth of a second, on every Linux.
  return (Number(fields[13]) + Number(fields[14])) * 10;
}

function ms(value: number): string {
  return Number.isNaN(value) ? "?" : `${value.toFixed(0)} ms`;
}

/**
 * Over the agents' own time: the same agent program, started bare, as many at a time, half of them before the batch and
 * half after it. Its start, a Node start, is the agent's own time.
 */
async function overhead(): Promise<void> {
  const half = ISSUES / 2;
  const before = await costOf(() => bareAgents(half), childProcessor);
  const batch = await costOf(() => runIssues("overhead", ISSUES, "demo"), childProcessor);
  const after = await costOf(() => bareAgents(half), childProcessor);
  const each = (batch.wallMs - before.wallMs - after.wallMs) / ISSUES;
  const cpu = (batch.cpuMs - before.cpuMs - after.cpuMs) / ISSUES;
  const whole = `${(batch.wallMs / 1000).toFixed(1)} s, agents alone ${((before.wallMs + after.wallMs) / 1000).toFixed(1)} s`;
  add(
    `${ISSUES} issues, ${AT_A_TIME} at a time`,
    `${ms(each)} an issue over the agents' own time, ${ms(cpu)} of processor (${whole}; the disk keeps a write in ${syncMs().toFixed(1)} ms)`,
    "≤ 60 ms",
    each <= 60,
  );
}

/** The median time of making one small write durable: a batch waits for this some forty times an issue. */
function syncMs(): number {
  const fd = openSync(join(root, "sync"), "w");
  const times = Array.from({ length: 41 }, () => {
    writeSync(fd, "x".repeat(1_000));
    const began = performance.now();
    fsyncSync(fd);
    return performance.now() - began;
  });
  closeSync(fd);
  return times.toSorted((one, other) => one - other)[20] ?? Number.NaN;
}

async function memory(): Promise<void> {
  const seen = await runIssues("memory", MANY, "codex");
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

async function bareAgents(count: number): Promise<void> {
  const env = { ...process.env, REPRISE_DEMO_HOME: join(root, "bare") };
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const child = spawn(process.execPath, [AGENT, "--format", "jsonl", "hello"], { env, stdio: "ignore" });
      await new Promise((done) => child.on("close", done));
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
}

/** How much memory Reprise itself has, in MiB, as the batch goes on. */
async function runIssues(name: string, count: number, engine: "demo" | "codex"): Promise<readonly number[]> {
  const repo = join(root, name);
  const bin = join(root, "bin");
  mkdirSync(join(repo, ".beads"), { recursive: true });
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "codex"), QUICK_AGENT, { mode: 0o755 });
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
  const env = {
    ...process.env,
    HOME: root,
    PATH: `${bin}:${process.env["PATH"] ?? ""}`,
    REPRISE_HOME: join(root, `${name}-state`),
  };
  const args = ["issues", "run", "--engine", engine, "--max-agents", String(AT_A_TIME), "--json"];
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
  // Its agents say hello and change nothing, so everything is done but the closing.
  if (code !== 10 || failures(Buffer.concat(said).toString()) !== "")
    throw new Error(`the batch ${name} ended with ${code}: ${failures(Buffer.concat(said).toString())}`);
  return seen;
}

function failures(json: string): string {
  const told = JSON.parse(json) as { issues: { id: string; state: string; why: string }[] };
  return told.issues
    .flatMap(({ id, state, why }) => (state === "no_change" ? [] : [`${id} ${state}: ${why}`]))
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
