/**
 * How long a search takes over generated conversations, how fast they are indexed, and what the end of an attempt adds.
 * `BENCH_SEARCH_RUNS` makes it smaller: each conversation has about 100 KB of recordings, a third of them events.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { RunRecord } from "../src/core/records.ts";
import type { Deps } from "../src/run/run.ts";
import { indexAttempt } from "../src/search/search.ts";
import { openStore } from "../src/store/store.ts";
import { openState } from "../src/state/directory.ts";
import { CLI, environment, makeRoot, median, ms, type Part, quantile, type Row, sampleRun } from "./part.ts";
import { attemptOf, recording, TARGETS } from "./search-corpus.ts";

const RUNS = Number(process.env["BENCH_SEARCH_RUNS"] ?? 10_000);

export const search: Part = async (progress) => {
  const root = makeRoot();
  try {
    const env = environment(root, "search");
    const state = env["REPRISE_HOME"] ?? "";
    progress(`generating ${RUNS} conversations`);
    command(["list"], env);
    const bytes = await generate(state);
    progress(`indexing ${Math.round(bytes.events / 1e6)} MB of events`);
    const took = command(["search", "nothing-like-this"], env);
    const speed = (size: number) => `${(size / took / 1000).toFixed(1)} MB/s`;
    const rows: Row[] = [
      {
        what: `search: index ${RUNS} conversations (${Math.round(bytes.all / 1e6)} MB of recordings)`,
        measured: `${speed(bytes.all)} of recordings, ${speed(bytes.events)} of events`,
        floor: `search.db: ${Math.round(statSync(join(state, "search.db")).size / 1e6)} MB`,
        target: "≥ 20 MB/s",
        ok: bytes.all / took / 1000 >= 20,
      },
    ];
    for (const query of TARGETS) {
      progress(`search ${query}`);
      const [floors, all]: [number[], number[]] = [[], []];
      for (let at = 0; at < 15; at += 1) {
        floors.push(timed(["-e", "0"], env));
        all.push(command(["search", query], env));
      }
      const typical = median(all);
      const floor = `node -e 0: ${ms(median(floors))}`;
      rows.push({
        what: `search ${query}`,
        measured: ms(typical),
        floor,
        target: "≤ 150 ms",
        ok: typical <= 150,
      });
    }
    progress("the end of an attempt");
    return [...rows, await attemptEnd(state)];
  } finally {
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
};

async function generate(state: string): Promise<{ all: number; events: number }> {
  const store = await openStore(join(state, "index.db"));
  const bytes = { all: 0, events: 0 };
  for (let at = 0; at < RUNS; at += 1) {
    const run = { ...sampleRun(state, at), attempts: 1 };
    await store.createRun(run);
    await store.saveAttempt(attemptOf(run));
    const { events, printed } = recording(at);
    const directory = join(run.runDirectory, "attempts", "1");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, "events.jsonl"), events, { mode: 0o600 });
    for (const log of ["stdout.log", "pty-output.log"])
      writeFileSync(join(directory, log), printed, { mode: 0o600 });
    bytes.events += events.length;
    bytes.all += events.length + 2 * printed.length;
  }
  await store[Symbol.asyncDispose]();
  return bytes;
}

/** In a process that has loaded everything else, as at the end of `start`. */
async function attemptEnd(state: string): Promise<Row> {
  const opened = { state: await openState(state) } as unknown as Deps;
  const took: number[] = [];
  for (let at = 0; at < 50; at += 1) {
    const run: RunRecord = { ...sampleRun(state, RUNS + at), attempts: 1 };
    const directory = join(run.runDirectory, "attempts", "1");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, "events.jsonl"), recording(at).events, { mode: 0o600 });
    const start = performance.now();
    await indexAttempt(opened, run, attemptOf(run));
    took.push(performance.now() - start);
  }
  const [typical, p95] = [median(took), quantile(took, 0.95)];
  const measured = `${ms(typical)}, p95 ${ms(p95)}`;
  return { what: "search: added to the end of an attempt", measured, target: "≤ 20 ms", ok: typical <= 20 };
}

const command = (args: readonly string[], env: Record<string, string>) => timed([CLI, ...args], env);

function timed(args: readonly string[], env: Record<string, string>): number {
  const start = performance.now();
  const { status, error } = spawnSync(process.execPath, args, {
    stdio: ["ignore", "ignore", "inherit"],
    env,
  });
  if (status !== 0) throw new Error(`node ${args.join(" ")} ended with ${status ?? String(error)}`);
  return performance.now() - start;
}
