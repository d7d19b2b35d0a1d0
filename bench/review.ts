/**
 * The review UI with 5,000 comments in a real terminal: the time to its first frame, from a key to its frame, and its
 * memory; of the built `reprise review` and, beside a turn of Codex that says much, of the UI on a scripted desk.
 * Measured from outside, as a user sees it, and as processor time. Not a test: times depend on the machine.
 */
import { spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type IPty, spawn } from "@lydell/node-pty";
import { build } from "esbuild";
import { common } from "../scripts/bundle.mjs";
import { toJsonLines } from "../src/reviews/reviews.ts";
import { sampleComment, type Script } from "../test/fake-desk.ts";

const COMMENTS = 5_000;
const STARTS = 15;
const DOWN = "\x1b[B";
const PAGE = "\x1b[6~";
const FRAME_END = "\x1b[?2026l";

interface Row {
  readonly what: string;
  readonly measured: string;
  readonly floor: string;
  readonly target: string;
  readonly ok: boolean;
}

const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-bench-")));
const clone = join(root, "clone");
/** The arguments of `node`. */
const PROGRAMS = {
  "reprise review": [
    resolve("dist/reprise.js"),
    "review",
    "acme/shop#42",
    "--comments",
    join(root, "c.jsonl"),
  ],
  "scripted desk": [join(root, "review-ui.mjs"), join(root, "script.json")],
} as const;
type Program = keyof typeof PROGRAMS;
const rows: Row[] = [];
/** Comments as they are: some long, one of 5 MB; and a turn that says more than is kept. */
function script(): Script {
  const comments = Array.from({ length: COMMENTS }, (_, at) =>
    sampleComment(at + 1, {
      author: `author-${at % 40}`,
      filePath: `packages/part-${at % 25}/src/file-${at % 300}.ts`,
      inReplyTo: at % 5 === 4 ? String(at) : null,
      resolved: at % 3 === 0,
      body:
        at === 2_500
          ? "x ".repeat(2_500_000)
          : `Comment ${at}: ${"some words of a review. ".repeat(at % 40)}`,
    }),
  );
  const words = Array.from({ length: 20_000 }, (_, at) => ({
    type: "event" as const,
    event: { type: "text" as const, text: `word ${at}${at % 12 === 11 ? "\n" : " "}`, delta: true as const },
  }));
  return { comments, turn: [...words, { type: "hang" }] };
}

async function firstFrame(): Promise<void> {
  const floor = median(
    Array.from({ length: STARTS }, () => time(() => spawnSync(process.execPath, ["-e", "0"]))),
  );
  const took: Record<string, { wall: number[]; processor: number[] }> = {};
  for (let at = 0; at < STARTS; at += 1) {
    const ui = new Ui("reprise review", 80, 24);
    for (const [what, text] of [
      ["first frame", "acme/shop#42"],
      [`first frame with ${COMMENTS} comments of a file`, `${COMMENTS} comments`],
    ] as const) {
      const { wall, processor } = (took[what] ??= { wall: [], processor: [] });
      wall.push(await ui.shown(text));
      processor.push(ui.processorTime());
    }
    await ui.quit();
  }
  for (const [what, { wall, processor }] of Object.entries(took)) {
    const over = median(wall) - floor;
    rows.push({
      what: `reprise review: ${what}`,
      measured: `${ms(over)} over the floor, ${ms(median(processor))} of processor time`,
      floor: `node -e 0: ${ms(floor)}`,
      target: "≤ 400 ms",
      ok: over <= 400,
    });
  }
}

async function keys(program: Program, columns: number, lines: number): Promise<void> {
  const ui = new Ui(program, columns, lines);
  await ui.shown(`${COMMENTS} comments`);
  const kinds: [string, string[]][] = [
    ["move", [...Array<string>(60).fill("j"), ...Array<string>(60).fill(DOWN)]],
    ["page", Array<string>(60).fill(PAGE)],
    ["first and last", Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? "G" : "g"))],
    ["select", Array<string>(40).fill(" ")],
    ["enter and back", Array<string>(40).fill("\r")],
    ["filter: open, choose", Array.from({ length: 60 }, (_, at) => ["f", "j", "\r"][at % 3] ?? "")],
  ];
  await pressAll(
    ui,
    `${program}: key press, ${columns}×${lines}`,
    kinds.flatMap(([, presses]) => presses),
  );
  if (program === "scripted desk") {
    await ui.press("x");
    await ui.shown("word 19999");
    const moves = Array.from({ length: 60 }, (_, at) => (at % 2 === 0 ? "j" : "k"));
    await pressAll(ui, `${program}: the same beside a full Codex pane, ${columns}×${lines}`, moves);
  }
  const rss = ui.residentBytes();
  rows.push({
    what: `${program}: memory, ${columns}×${lines}`,
    measured: `${(rss / 1024 ** 2).toFixed(0)} MiB`,
    floor: "–",
    target: "≤ 200 MiB",
    ok: rss <= 200 * 1024 ** 2,
  });
  await ui.quit();
}

async function pressAll(ui: Ui, what: string, presses: readonly string[]): Promise<void> {
  const times: number[] = [];
  const costs: number[] = [];
  for (const key of presses) {
    const before = ui.processorTime();
    times.push(await ui.press(key));
    costs.push(ui.processorTime() - before);
  }
  add(what, times);
  add(`${what}, processor time`, costs);
}

class Ui {
  readonly #pty: IPty;
  readonly #ended: Promise<void>;
  #text = "";
  #lastChunk = 0;
  readonly #start = performance.now();

  constructor(program: Program, columns: number, lines: number) {
    this.#pty = spawn(process.execPath, [...PROGRAMS[program]], {
      cwd: clone,
      cols: columns,
      rows: lines,
      name: "xterm-256color",
      env: { PATH: process.env["PATH"] ?? "", HOME: root, LANG: "C.UTF-8" },
    });
    this.#pty.onData((chunk) => {
      this.#text += chunk;
      this.#lastChunk = performance.now();
    });
    this.#ended = new Promise((done) => void this.#pty.onExit(() => done()));
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
    const threads = readdirSync(`/proc/${this.#pty.pid}/task`);
    const used = threads.map((thread) => {
      const [nanoseconds = "0"] = readFileSync(
        `/proc/${this.#pty.pid}/task/${thread}/schedstat`,
        "utf8",
      ).split(" ");
      return Number(nanoseconds) / 1e6;
    });
    return used.reduce((sum, one) => sum + one, 0);
  }

  residentBytes(): number {
    const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.#pty.pid}/status`, "utf8"));
    return Number(match?.[1] ?? Number.NaN) * 1024;
  }

  async quit(): Promise<void> {
    this.#pty.write("\x03\x03");
    await this.#ended;
  }
}

async function turn(): Promise<void> {
  await new Promise((wake) => setTimeout(wake, 1));
}

function add(what: string, times: readonly number[]): void {
  const p99 = times.toSorted((one, other) => one - other)[Math.floor(times.length * 0.99)] ?? Number.NaN;
  rows.push({
    what,
    measured: `p99 ${ms(p99)}, median ${ms(median(times))}`,
    floor: "–",
    target: "p99 ≤ 50 ms",
    ok: p99 <= 50,
  });
}

function time(work: () => unknown): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function median(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? Number.NaN;
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}

function report(): void {
  const cells = (row: Row) => [row.what, row.measured, row.floor, row.target];
  const widths = [0, 1, 2, 3].map((at) => Math.max(...rows.map((row) => cells(row)[at]?.length ?? 0)));
  for (const row of rows) {
    const line = cells(row).map((cell, at) => cell.padEnd(widths[at] ?? 0));
    console.log(`${row.ok ? "ok  " : "MISS"}  ${line.join("  ")}`);
  }
  const machine = {
    node: process.version,
    cores: cpus().length,
    cpu: cpus()[0]?.model ?? "unknown",
    load: loadavg().map((one) => Number(one.toFixed(2))),
  };
  console.log(`load ${machine.load.join(" ")} on ${machine.cores} cores`);
  writeFileSync("bench/review-results.json", `${JSON.stringify({ machine, rows }, null, 2)}\n`);
}

try {
  await build({
    ...common,
    entryPoints: { "review-ui": "test/review-ui.ts" },
    outdir: root,
    outExtension: { ".js": ".mjs" },
    splitting: true,
  });
  const scripted = script();
  writeFileSync(join(root, "script.json"), JSON.stringify(scripted));
  writeFileSync(join(root, "c.jsonl"), toJsonLines(scripted.comments ?? []));
  mkdirSync(clone);
  for (const words of ["init -q", "remote add origin https://github.com/acme/shop.git"])
    spawnSync("git", words.split(" "), { cwd: clone });
  await firstFrame();
  for (const program of ["reprise review", "scripted desk"] as const) {
    await keys(program, 80, 24);
    await keys(program, 200, 60);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
report();
