/**
 * How fast, and how much: every figure as a ratio to a floor measured in the same run. Prints a table and writes
 * `bench/results.json`. Not a test: times depend on the machine, ratios much less.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { RunRecord } from "../src/core/records.ts";
import { openStore } from "../src/store/store.ts";

const CLI = resolve("dist/reprise.js");
const GIB = 1024 ** 3;
const CAPTURE_BYTES = Number(process.env["BENCH_CAPTURE_BYTES"] ?? GIB);

interface Row {
  readonly what: string;
  readonly measured: string;
  readonly floor: string;
  readonly target: string;
  readonly ok: boolean;
}

const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-bench-")));
const rows: Row[] = [];
try {
  const node = median(30, () => time(process.execPath, ["-e", "0"], environment("floor")));
  startUp(node);
  await lists(node);
  instantAgent();
  await capture("pipe");
  await capture("pty");
} finally {
  rmSync(root, { recursive: true, force: true });
}
report();

function startUp(node: number): void {
  const env = environment("version");
  const version = median(30, () => time(process.execPath, [CLI, "--version"], env));
  add("reprise --version", ms(version), `node -e 0: ${ms(node)}`, "≤ 2 ×", version / node, 2);
}

async function lists(node: number): Promise<void> {
  for (const [count, limit] of [
    [10_000, 3],
    [100_000, 4],
  ] as const) {
    const env = environment(`list-${count}`);
    const state = env["REPRISE_HOME"] ?? "";
    time(process.execPath, [CLI, "list"], env);
    const store = await openStore(join(state, "index.db"));
    for (let at = 0; at < count; at += 1) await store.createRun(sampleRun(state, at));
    const list = median(20, () => time(process.execPath, [CLI, "list"], env));
    add(
      `reprise list, ${count} runs`,
      ms(list),
      `node -e 0: ${ms(node)}`,
      `≤ ${limit} ×`,
      list / node,
      limit,
    );
    if (count === 100_000) {
      const took: number[] = [];
      for (let at = 0; at < 1_000; at += 1) {
        const handle = sampleRun(state, (at * 97) % count).handle;
        const start = performance.now();
        const found = await store.findByHandle(handle);
        took.push(performance.now() - start);
        if (found.length !== 1) throw new Error(`${handle} was found ${found.length} times`);
      }
      const p99 = took.toSorted((one, other) => one - other)[990] ?? Number.NaN;
      rows.push({
        what: "handle look-up in 100000 runs, p99",
        measured: ms(p99),
        floor: "–",
        target: "≤ 5 ms",
        ok: p99 <= 5,
      });
    }
    await store[Symbol.asyncDispose]();
  }
}

/** An agent that takes a message, names its session and ends its turn at once. */
function instantAgent(): void {
  const env = environment("instant");
  const agent = program("codex", [
    '[ "$1" = --version ] && { echo codex-cli 0.166.0; exit 0; }',
    "cat > /dev/null",
    `printf '%s\\n' '{"type":"thread.started","thread_id":"01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0"}' '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'`,
  ]);
  env["PATH"] = `${join(root, "bin")}:${env["PATH"] ?? ""}`;
  const direct = median(20, () => time("/bin/sh", [agent, "exec"], env));
  for (const [mode, limit] of [
    ["pipe", 150],
    ["pty", 250],
  ] as const) {
    const args = [CLI, "start", "codex", "x", "--quiet", "--mode", mode, "--cwd", root];
    time(process.execPath, args, env);
    const added = median(20, () => time(process.execPath, args, env)) - direct;
    rows.push({
      what: `start around an instant agent, ${mode}: added`,
      measured: ms(added),
      floor: `direct: ${ms(direct)}`,
      target: `≤ ${limit} ms`,
      ok: added <= limit,
    });
  }
}

async function capture(mode: "pipe" | "pty"): Promise<void> {
  const env = environment(`capture-${mode}`);
  const flood = program("flood", [`exec head -c ${CAPTURE_BYTES} ${linesFile()}`]);
  program("codex", [
    '[ "$1" = --version ] && { echo codex-cli 0.166.0; exit 0; }',
    "cat > /dev/null",
    `exec /bin/sh ${flood}`,
  ]);
  env["PATH"] = `${join(root, "bin")}:${env["PATH"] ?? ""}`;
  const script = time("script", ["-q", "-c", `/bin/sh ${flood}`, join(root, "typescript")], env);
  rmSync(join(root, "typescript"), { force: true });
  const start = performance.now();
  const child = spawn(
    process.execPath,
    [CLI, "start", "codex", "x", "--quiet", "--mode", mode, "--cwd", root],
    { env, stdio: "ignore" },
  );
  const memory: { at: number; rss: number }[] = [];
  const sampling = setInterval(() => {
    const rss = residentBytes(child.pid ?? 0);
    if (rss !== null) memory.push({ at: performance.now() - start, rss });
  }, 50);
  await new Promise((done) => child.on("exit", done));
  clearInterval(sampling);
  const took = performance.now() - start;
  const throughput = CAPTURE_BYTES / took;
  const floor = CAPTURE_BYTES / script;
  const size = `${Math.round(CAPTURE_BYTES / 1024 ** 2)} MiB`;
  add(
    `capture ${size}, ${mode}`,
    mbs(throughput),
    `script -q: ${mbs(floor)}`,
    "≥ 0.5 ×",
    throughput / floor,
    0.5,
    "least",
  );
  const part = took * ((100 * 1024 ** 2) / CAPTURE_BYTES);
  const peak = Math.max(...memory.map((sample) => sample.rss));
  const early = Math.max(
    ...memory.filter((sample) => sample.at < Math.max(part, 500)).map((sample) => sample.rss),
  );
  const late = Math.max(
    ...memory.filter((sample) => sample.at > took - Math.max(part, 500)).map((sample) => sample.rss),
  );
  rows.push({
    what: `peak memory, ${mode}`,
    measured: mib(peak),
    floor: "–",
    target: "≤ 150 MiB",
    ok: peak <= 150 * 1024 ** 2,
  });
  const growth = late - early;
  rows.push({
    what: `growth, first to last 100 MiB, ${mode}`,
    measured: mib(growth),
    floor: "–",
    target: "≤ 10 MiB",
    ok: growth <= 10 * 1024 ** 2,
  });
}

function residentBytes(pid: number): number | null {
  try {
    const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
    return match === null ? null : Number(match[1]) * 1024;
  } catch {
    return null;
  }
}

/** A file of lines that `head` can read so much of without a second process. */
function linesFile(): string {
  const file = join(root, "lines");
  const piece = `${"0123456789abcdef".repeat(5)}\n`.repeat(100_000);
  writeFileSync(file, "");
  for (let size = 0; size < CAPTURE_BYTES; size += piece.length) appendFileSync(file, piece);
  return file;
}

function program(name: string, lines: readonly string[]): string {
  mkdirSync(join(root, "bin"), { recursive: true });
  const file = join(root, "bin", name);
  writeFileSync(file, `#!/bin/sh\n${lines.join("\n")}\n`);
  chmodSync(file, 0o755);
  return file;
}

function environment(name: string): Record<string, string> {
  const home = join(root, name, "home");
  mkdirSync(home, { recursive: true });
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    REPRISE_HOME: join(root, name, "state"),
    LANG: "C.UTF-8",
  };
}

function time(file: string, args: readonly string[], env?: Record<string, string>): number {
  const start = performance.now();
  const { status, error } = spawnSync(file, args, {
    stdio: ["ignore", "ignore", "inherit"],
    ...(env === undefined ? {} : { env }),
  });
  if (error !== undefined || status !== 0)
    throw new Error(`${file} ${args.join(" ")} ended with ${status ?? String(error)}`);
  return performance.now() - start;
}

function median(times: number, measure: () => number): number {
  const all = Array.from({ length: times }, measure).toSorted((one, other) => one - other);
  return all[Math.floor(all.length / 2)] ?? Number.NaN;
}

function sampleRun(state: string, at: number): RunRecord {
  const handle = (((at * 2_654_435_761) % 2 ** 32) >>> 0).toString(16).padStart(8, "0");
  const when = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
  const runId = `${when.replace(/[-:]|\.\d{3}/g, "")}-codex-${handle}`;
  return {
    v: 1,
    handle,
    runId,
    runDirectory: join(state, "runs", runId),
    agentName: "codex",
    session: {
      field: "thread_id",
      value: `01a1dd0a-a544-73b2-b8f5-${handle}17f0`,
      source: "stdout",
      verifiedAt: when,
    },
    sessions: [],
    launch: {
      args: ["exec", "--json", "-"],
      given: [],
      redacted: [],
      env: [],
      rights: [],
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      program: "/usr/bin/codex",
      version: "0.166.0",
      message: "fix the flaky test in the shop",
    },
    cwd: "/home/user/shop",
    engineHome: "/home/user/.codex",
    status: "completed",
    attempts: 1,
    subject: null,
    name: null,
    escrow: null,
    createdAt: when,
    updatedAt: when,
  };
}

function add(
  what: string,
  measured: string,
  floor: string,
  target: string,
  ratio: number,
  limit: number,
  which: "most" | "least" = "most",
): void {
  const ok = which === "most" ? ratio <= limit : ratio >= limit;
  rows.push({ what, measured: `${measured} (${ratio.toFixed(2)} ×)`, floor, target, ok });
}

function report(): void {
  const widths = [0, 1, 2, 3].map((column) =>
    Math.max(...rows.map((row) => cells(row)[column]?.length ?? 0)),
  );
  for (const row of rows) {
    console.log(
      `${row.ok ? "ok  " : "MISS"}  ${cells(row)
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")}`,
    );
  }
  const machine = { node: process.version, cores: cpus().length, cpu: cpus()[0]?.model ?? "unknown" };
  writeFileSync("bench/results.json", `${JSON.stringify({ machine, rows }, null, 2)}\n`);
}

function cells(row: Row): string[] {
  return [row.what, row.measured, row.floor, row.target];
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}

function mbs(bytesPerMs: number): string {
  return `${(bytesPerMs / 1000).toFixed(0)} MB/s`;
}

function mib(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(0)} MiB`;
}
