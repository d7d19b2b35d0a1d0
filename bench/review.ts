/**
 * The review UI with 5,000 comments in a real terminal: the time to its first frame, from a key to its frame, and its
 * memory; of the built `reprise review` and, beside a turn of Codex that says much, of the UI on a scripted desk.
 * Measured from outside, as a user sees it, and as processor time. Not a test: times depend on the machine.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type IPty, spawn } from "@lydell/node-pty";
import { build } from "esbuild";
import { common } from "../scripts/bundle.mjs";
import { toJsonLines } from "../src/reviews/reviews.ts";
import { sampleComment, type Script } from "../test/fake-review-service.ts";
import { CLI, makeRoot, median, mib, ms, type Part, quantile, residentBytes, type Row } from "./part.ts";

const COMMENTS = 5_000;
const STARTS = 15;
const DOWN = "\x1b[B";
const PAGE = "\x1b[6~";
const FRAME_END = "\x1b[?2026l";

/** The arguments of `node`. */
const PROGRAMS = {
  "reprise review": (root: string) => [CLI, "review", "acme/shop#42", "--comments", join(root, "c.jsonl")],
  "scripted desk": (root: string) => [join(root, "review-ui.mjs"), join(root, "script.json")],
} as const;
type Program = keyof typeof PROGRAMS;

export const review: Part = async (progress) => {
  const root = makeRoot();
  try {
    await prepare(root);
    progress("first frames");
    const rows = await firstFrame(root);
    for (const program of ["reprise review", "scripted desk"] as const) {
      for (const [columns, lines] of [
        [80, 24],
        [200, 60],
      ] as const) {
        progress(`keys of ${program}, ${columns}×${lines}`);
        rows.push(...(await keys(new Ui(root, program, columns, lines), program, `${columns}×${lines}`)));
      }
    }
    return rows;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
};

async function prepare(root: string): Promise<void> {
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
  const clone = join(root, "clone");
  mkdirSync(clone);
  for (const words of ["init -q", "remote add origin https://github.com/acme/shop.git"])
    spawnSync("git", words.split(" "), { cwd: clone });
}

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

async function firstFrame(root: string): Promise<Row[]> {
  const floor = median(
    Array.from({ length: STARTS }, () => time(() => spawnSync(process.execPath, ["-e", "0"]))),
  );
  const took: Record<string, { wall: number[]; processor: number[] }> = {};
  for (let at = 0; at < STARTS; at += 1) {
    const ui = new Ui(root, "reprise review", 80, 24);
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
  return Object.entries(took).map(([what, { wall, processor }]) => {
    const over = median(wall) - floor;
    return {
      what: `reprise review: ${what}`,
      measured: `${ms(over)} over the floor, ${ms(median(processor))} of processor time`,
      floor: `node -e 0: ${ms(floor)}`,
      ratio: median(wall) / floor,
      target: "≤ 400 ms",
      ok: over <= 400,
    };
  });
}

async function keys(ui: Ui, program: Program, size: string): Promise<Row[]> {
  await ui.shown(`${COMMENTS} comments`);
  const kinds: [string, string[]][] = [
    ["move", [...Array<string>(60).fill("j"), ...Array<string>(60).fill(DOWN)]],
    ["page", Array<string>(60).fill(PAGE)],
    ["first and last", Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? "G" : "g"))],
    ["select", Array<string>(40).fill(" ")],
    ["enter and back", Array<string>(40).fill("\r")],
    ["filter: open, choose", Array.from({ length: 60 }, (_, at) => ["f", "j", "\r"][at % 3] ?? "")],
  ];
  const rows = await pressAll(
    ui,
    `${program}: key press, ${size}`,
    kinds.flatMap(([, presses]) => presses),
  );
  if (program === "scripted desk") {
    await ui.press("x");
    await ui.shown("word 19999");
    const moves = Array.from({ length: 60 }, (_, at) => (at % 2 === 0 ? "j" : "k"));
    rows.push(...(await pressAll(ui, `${program}: the same beside a full Codex pane, ${size}`, moves)));
  }
  const rss = ui.residentBytes();
  await ui.quit();
  const what = `${program}: memory, ${size}`;
  return [...rows, { what, measured: mib(rss), target: "≤ 200 MiB", ok: rss <= 200 * 1024 ** 2 }];
}

async function pressAll(ui: Ui, what: string, presses: readonly string[]): Promise<Row[]> {
  const times: number[] = [];
  const costs: number[] = [];
  for (const key of presses) {
    const before = ui.processorTime();
    times.push(await ui.press(key));
    costs.push(ui.processorTime() - before);
  }
  return [pressed(what, times), pressed(`${what}, processor time`, costs)];
}

class Ui {
  readonly #pty: IPty;
  readonly #ended: Promise<void>;
  #text = "";
  #lastChunk = 0;
  readonly #start = performance.now();

  constructor(root: string, program: Program, columns: number, lines: number) {
    this.#pty = spawn(process.execPath, PROGRAMS[program](root), {
      cwd: join(root, "clone"),
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
    return residentBytes(this.#pty.pid);
  }

  async quit(): Promise<void> {
    this.#pty.write("\x03\x03");
    await this.#ended;
  }
}

async function turn(): Promise<void> {
  await new Promise((wake) => setTimeout(wake, 1));
}

function pressed(what: string, times: readonly number[]): Row {
  const p99 = quantile(times, 0.99);
  return {
    what,
    measured: `p99 ${ms(p99)}, median ${ms(median(times))}`,
    target: "p99 ≤ 50 ms",
    ok: p99 <= 50,
  };
}

function time(work: () => unknown): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}
