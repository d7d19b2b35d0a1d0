/**
 * The home screen and the picker with 10,000 runs in a real terminal: the time to the first frame and to the whole list,
 * from a key to its frame, memory, and processor time while nothing happens. Not a test: times depend on the machine.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type IPty, spawn } from "@lydell/node-pty";
import { openStore } from "../src/store/store.ts";
import {
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

const RUNS = Number(process.env["BENCH_RUNS"] ?? 10_000);
const STARTS = 7;
const IDLE_MS = 10_000;
const FRAME_END = "\x1b[?2026l";
const DOWN = "\x1b[B";
const PAGE = "\x1b[6~";

export const home: Part = async (progress) => {
  const root = makeRoot();
  try {
    const env = environment(root, "home");
    progress(`writing ${RUNS} runs`);
    await fill(env["REPRISE_HOME"] ?? "");
    const floor = median(
      Array.from({ length: STARTS }, () => timed(() => spawnSync(process.execPath, ["-e", "0"]))),
    );
    const rows: Row[] = [];
    for (const [name, args, whole] of [
      ["picker", ["logs"], `${RUNS} of ${RUNS}`],
      ["home screen", [], `of ${RUNS}`],
    ] as const) {
      progress(name);
      rows.push(...(await measure(name, { args, whole, env, cwd: root, floor })));
    }
    return rows;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
};

async function fill(state: string): Promise<void> {
  mkdirSync(join(state, "runs"), { recursive: true, mode: 0o700 });
  await using store = await openStore(join(state, "index.db"));
  for (let at = 0; at < RUNS; at += 1) await store.createRun(sampleRun(state, at));
}

interface Measured {
  readonly args: readonly string[];
  readonly whole: string;
  readonly env: Record<string, string>;
  readonly cwd: string;
  readonly floor: number;
}

async function measure(name: string, { args, whole, env, cwd, floor }: Measured): Promise<Row[]> {
  const frames: number[] = [];
  for (let at = 0; at < STARTS; at += 1) {
    await using ui = new Terminal(args, env, cwd);
    frames.push(await ui.shown("fix the flaky test"));
  }
  await using ui = new Terminal(args, env, cwd);
  const all = await ui.shown(whole);
  const letters = name === "picker" ? ["f", "l", "a", "\x7f", "\x7f", "\x7f"] : ["j", "k"];
  const presses = [DOWN, PAGE, ...letters];
  const times: number[] = [];
  for (let at = 0; at < 200; at += 1) times.push(await ui.press(presses[at % presses.length] ?? DOWN));
  const before = ui.processorTime();
  await new Promise((wake) => setTimeout(wake, IDLE_MS));
  const idle = ((ui.processorTime() - before) / IDLE_MS) * 100;
  const rss = residentBytes(ui.pid);
  const over = median(frames) - floor;
  return [
    {
      ...{ what: `${name}: first frame with ${RUNS} runs`, measured: `${ms(over)} over the floor` },
      ...{
        floor: `node -e 0: ${ms(floor)}`,
        ratio: median(frames) / floor,
        target: "≤ 250 ms",
        ok: over <= 250,
      },
    },
    { what: `${name}: all runs read`, measured: ms(all), target: "–", ok: true },
    {
      ...{ what: `${name}: key press`, target: "p99 ≤ 16 ms", ok: quantile(times, 0.99) <= 16 },
      measured: `p50 ${ms(median(times))}, p99 ${ms(quantile(times, 0.99))}`,
    },
    { what: `${name}: memory`, measured: mib(rss), target: "≤ 120 MiB", ok: rss <= 120 * 1024 ** 2 },
    { what: `${name}: idle`, measured: `${idle.toFixed(2)} % of a core`, target: "≤ 1 %", ok: idle <= 1 },
  ];
}

class Terminal implements AsyncDisposable {
  readonly #pty: IPty;
  readonly #ended: Promise<void>;
  readonly #start = performance.now();
  #text = "";
  #lastChunk = 0;

  constructor(args: readonly string[], env: Record<string, string>, cwd: string) {
    this.#pty = spawn(process.execPath, [CLI, ...args], {
      cwd,
      cols: 120,
      rows: 40,
      name: "xterm-256color",
      env,
    });
    this.#pty.onData((chunk) => {
      this.#text += chunk;
      this.#lastChunk = performance.now();
    });
    this.#ended = new Promise((done) => void this.#pty.onExit(() => done()));
  }

  get pid(): number {
    return this.#pty.pid;
  }

  /** Milliseconds from the start until this was on the screen. */
  async shown(text: string): Promise<number> {
    while (!this.#text.includes(text)) await turn();
    return this.#lastChunk - this.#start;
  }

  /** Milliseconds from the key to the end of its frame. */
  async press(key: string): Promise<number> {
    this.#text = "";
    const start = performance.now();
    this.#pty.write(key);
    while (!this.#text.includes(FRAME_END)) {
      if (performance.now() - start > 10_000) throw new Error(`${JSON.stringify(key)} changes nothing`);
      await turn();
    }
    return this.#lastChunk - start;
  }

  /** Milliseconds of processor time so far, of all threads. */
  processorTime(): number {
    const threads = readdirSync(`/proc/${this.pid}/task`);
    const used = threads.map((thread) => {
      const [nanoseconds = "0"] = readFileSync(`/proc/${this.pid}/task/${thread}/schedstat`, "utf8").split(
        " ",
      );
      return Number(nanoseconds) / 1e6;
    });
    return used.reduce((sum, one) => sum + one, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#pty.write("\x03");
    await this.#ended;
  }
}

const turn = () => new Promise<void>((wake) => setImmediate(wake));

function timed(work: () => void): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}
