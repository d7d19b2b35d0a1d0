/**
 * Commands from outside: how much longer they take than `node -e 0`, what a start adds to an agent, and how fast and in how
 * much memory output is captured beside `script -q`.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { openStore } from "../src/store/store.ts";
import {
  against,
  CLI,
  environment,
  makeRoot,
  median,
  mib,
  ms,
  type Part,
  quantile,
  residentBytes,
  type Row,
  sampleRun,
} from "./part.ts";

const GIB = 1024 ** 3;
const CAPTURE_BYTES = Number(process.env["BENCH_CAPTURE_BYTES"] ?? GIB);

export const commands: Part = (progress) =>
  inRoot(async (root) => {
    progress("start-up");
    const version = beside("--version", environment(root, "version"), 30);
    return [
      against("reprise --version", version, { most: 2 }),
      ...(await lists(root, progress)),
      ...instantAgent(root, progress),
    ];
  });

export const capture: Part = (progress) =>
  inRoot(async (root) => [
    ...(await captured(root, "pipe", progress)),
    ...(await captured(root, "pty", progress)),
  ]);

async function inRoot(measure: (root: string) => Promise<readonly Row[]>): Promise<readonly Row[]> {
  const root = makeRoot();
  try {
    return await measure(root);
  } finally {
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** In turn with the floor, so that both see the same machine. */
function beside(command: string, env: Record<string, string>, times: number) {
  const [floors, all]: [number[], number[]] = [[], []];
  for (let at = 0; at < times; at += 1) {
    floors.push(time(process.execPath, ["-e", "0"], env));
    all.push(time(process.execPath, [CLI, command], env));
  }
  const [floor, took] = [median(floors), median(all)];
  return { measured: ms(took), floor: `node -e 0: ${ms(floor)}`, ratio: took / floor };
}

async function lists(root: string, progress: (text: string) => void): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [count, most] of [
    [10_000, 3],
    [100_000, 4],
  ] as const) {
    progress(`list with ${count} runs`);
    const env = environment(root, `list-${count}`);
    const state = env["REPRISE_HOME"] ?? "";
    time(process.execPath, [CLI, "list"], env);
    await fill(state, count);
    rows.push(against(`reprise list, ${count} runs`, beside("list", env, 20), { most }));
    if (count === 100_000) rows.push(await lookUp(state, count));
  }
  return rows;
}

/**
 * In memory where `scripts/keep.ts` gives such a place: each run is synced, and the time for that is not part of the
 * measurement.
 */
async function fill(state: string, count: number): Promise<void> {
  const index = join(state, "index.db");
  const folder = mkdtempSync(join(process.env["MEMORY_FOLDER"] ?? state, "index-"));
  const copy = join(folder, "index.db");
  copyFileSync(index, copy);
  const store = await openStore(copy);
  for (let at = 0; at < count; at += 1) await store.createRun(sampleRun(state, at));
  await store[Symbol.asyncDispose]();
  copyFileSync(copy, index);
  rmSync(folder, { recursive: true });
}

async function lookUp(state: string, count: number): Promise<Row> {
  await using store = await openStore(join(state, "index.db"));
  const took: number[] = [];
  for (let at = 0; at < 1_000; at += 1) {
    const { handle } = sampleRun(state, (at * 97) % count);
    const start = performance.now();
    const found = await store.findByHandle(handle);
    took.push(performance.now() - start);
    if (found.length !== 1) throw new Error(`${handle} was found ${found.length} times`);
  }
  const p99 = quantile(took, 0.99);
  return { what: `handle look-up in ${count} runs, p99`, measured: ms(p99), target: "≤ 5 ms", ok: p99 <= 5 };
}

/** An agent that takes a message, names its session and ends its turn at once. */
function instantAgent(root: string, progress: (text: string) => void): Row[] {
  const env = environment(root, "instant");
  const agent = program(root, "codex", [
    '[ "$1" = --version ] && { echo codex-cli 0.166.0; exit 0; }',
    "cat > /dev/null",
    `printf '%s\\n' '{"type":"thread.started","thread_id":"01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0"}' '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'`,
  ]);
  env["PATH"] = `${join(root, "bin")}:${env["PATH"] ?? ""}`;
  return (
    [
      ["pipe", 150],
      ["pty", 250],
    ] as const
  ).map(([mode, limit]) => {
    progress(`start around an instant agent, ${mode}`);
    const args = [CLI, "start", "codex", "x", "--quiet", "--mode", mode, "--cwd", root];
    time(process.execPath, args, env);
    const [floors, all]: [number[], number[]] = [[], []];
    for (let at = 0; at < 20; at += 1) {
      floors.push(time("/bin/sh", [agent, "exec"], env));
      all.push(time(process.execPath, args, env));
    }
    const added = median(all) - median(floors);
    return {
      what: `start around an instant agent, ${mode}: added`,
      measured: ms(added),
      floor: `the agent alone: ${ms(median(floors))}`,
      target: `≤ ${limit} ms`,
      ok: added <= limit,
    };
  });
}

async function captured(
  root: string,
  mode: "pipe" | "pty",
  progress: (text: string) => void,
): Promise<Row[]> {
  const size = `${Math.round(CAPTURE_BYTES / 1024 ** 2)} MiB`;
  progress(`capture of ${size}, ${mode}`);
  const env = environment(root, `capture-${mode}`);
  const flood = program(root, "flood", [`exec head -c ${CAPTURE_BYTES} ${linesFile(root)}`]);
  program(root, "codex", [
    '[ "$1" = --version ] && { echo codex-cli 0.166.0; exit 0; }',
    "cat > /dev/null",
    `exec /bin/sh ${flood}`,
  ]);
  env["PATH"] = `${join(root, "bin")}:${env["PATH"] ?? ""}`;
  const script = time("script", ["-q", "-c", `/bin/sh ${flood}`, join(root, "typescript")], env);
  rmSync(join(root, "typescript"), { force: true });
  const { took, memory } = await watched(
    [CLI, "start", "codex", "x", "--quiet", "--mode", mode, "--cwd", root],
    env,
  );
  rmSync(env["REPRISE_HOME"] ?? "", { recursive: true, force: true });
  const part = Math.max(took * ((100 * 1024 ** 2) / CAPTURE_BYTES), 500);
  const most = (fits: (at: number) => boolean) =>
    Math.max(...memory.filter(({ at }) => fits(at)).map(({ rss }) => rss));
  const [peak, growth] = [most(() => true), most((at) => at > took - part) - most((at) => at < part)];
  const speed = (taken: number) => `${(CAPTURE_BYTES / taken / 1000).toFixed(0)} MB/s`;
  return [
    against(
      `capture ${size}, ${mode}`,
      { measured: speed(took), floor: `script -q: ${speed(script)}`, ratio: script / took },
      { least: 0.5 },
    ),
    { what: `peak memory, ${mode}`, measured: mib(peak), target: "≤ 150 MiB", ok: peak <= 150 * 1024 ** 2 },
    {
      what: `growth, first to last 100 MiB, ${mode}`,
      measured: mib(growth),
      target: "≤ 10 MiB",
      ok: growth <= 10 * 1024 ** 2,
    },
  ];
}

async function watched(args: readonly string[], env: Record<string, string>) {
  const start = performance.now();
  const child = spawn(process.execPath, args, { env, stdio: "ignore" });
  const memory: { at: number; rss: number }[] = [];
  const sampling = setInterval(() => {
    const rss = residentBytes(child.pid ?? 0);
    if (rss > 0) memory.push({ at: performance.now() - start, rss });
  }, 50);
  await new Promise((done) => child.on("exit", done));
  clearInterval(sampling);
  return { took: performance.now() - start, memory };
}

/** A file of lines that `head` can read so much of without a second process. */
function linesFile(root: string): string {
  const file = join(root, "lines");
  const piece = `${"0123456789abcdef".repeat(5)}\n`.repeat(100_000);
  writeFileSync(file, "");
  for (let size = 0; size < CAPTURE_BYTES; size += piece.length) appendFileSync(file, piece);
  return file;
}

function program(root: string, name: string, lines: readonly string[]): string {
  mkdirSync(join(root, "bin"), { recursive: true });
  const file = join(root, "bin", name);
  writeFileSync(file, `#!/bin/sh\n${lines.join("\n")}\n`);
  chmodSync(file, 0o755);
  return file;
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
