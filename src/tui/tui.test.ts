/** Frames of the whole UI with a scripted service, as a terminal emulator shows them. Keys in, screen out. */
import { PassThrough, Writable } from "node:stream";
import xterm from "@xterm/headless";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Script, fakeReviewService, sampleComment } from "../../test/fake-review-service.ts";
import type { ReviewService } from "../reviews/reviews.ts";
import { openReview } from "./tui.ts";

const NOW = Date.parse("2026-05-02T12:00:00Z");
const ESC = "\x1b";

class FakeInput extends PassThrough {
  isTTY = true;
  raw = false;
  setRawMode(raw: boolean): this {
    this.raw = raw;
    return this;
  }
}

class FakeOutput extends Writable {
  isTTY = true;
  written = "";
  columns: number;
  rows: number;
  readonly emulator: xterm.Terminal;

  constructor(columns: number, rows: number) {
    super({ decodeStrings: false });
    this.columns = columns;
    this.rows = rows;
    this.emulator = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true });
  }

  override _write(chunk: string, _encoding: string, done: () => void): void {
    this.written += chunk;
    this.emulator.write(chunk, done);
  }

  resizeTo(columns: number, rows: number): void {
    [this.columns, this.rows] = [columns, rows];
    this.emulator.resize(columns, rows);
    this.emit("resize");
  }

  screen(): string {
    const buffer = this.emulator.buffer.active;
    return Array.from({ length: this.rows }, (_, row) =>
      (buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "").trimEnd(),
    ).join("\n");
  }
}

interface Options {
  readonly columns?: number;
  readonly rows?: number;
  readonly colours?: boolean;
  /** Replaces parts of the scripted service. */
  readonly service?: Partial<ReviewService>;
}

const open: Ui[] = [];

class Ui {
  readonly input = new FakeInput();
  readonly output: FakeOutput;
  readonly journal: Record<string, unknown>[] = [];
  readonly left: Promise<number>;
  now = NOW;

  constructor(script: Script, { columns = 80, rows = 24, colours = false, service = {} }: Options = {}) {
    this.output = new FakeOutput(columns, rows);
    this.left = openReview({
      service: { ...fakeReviewService(script, (entry) => this.journal.push(entry)), ...service },
      input: this.input as unknown as NodeJS.ReadStream,
      output: this.output as unknown as NodeJS.WriteStream,
      colours,
      now: () => this.now,
    });
    open.push(this);
  }

  press(...keys: string[]): void {
    for (const key of keys) this.input.write(key);
  }

  async shows(what: string | RegExp): Promise<string> {
    const end = Date.now() + 10_000;
    for (;;) {
      const screen = this.output.screen();
      if (typeof what === "string" ? screen.includes(what) : what.test(screen)) return screen;
      if (Date.now() > end) throw new Error(`never shown: ${String(what)}; there is\n${screen}`);
      await new Promise((wake) => setTimeout(wake, 5));
    }
  }
}

beforeAll(() => {
  process.env["TZ"] = "UTC";
});
afterEach(async () => {
  for (const ui of open.splice(0)) {
    ui.press("\x03", "\x03");
    await ui.left.catch(() => {});
  }
});

const COMMENTS = [
  sampleComment(1, { body: "Prices are floats here.\n\nUse whole cents, as in `money.ts`." }),
  sampleComment(2, {
    inReplyTo: "1",
    author: "bob",
    association: "OWNER",
    body: "Agreed.",
    createdAt: "2026-05-02T11:15:00Z",
  }),
  sampleComment(3, {
    author: "mallory",
    association: "NONE",
    filePath: "packages/checkout/src/deeply/nested/payment.ts",
    body: `${ESC}]52;c;b3duZWQ=\x07${ESC}]0;owned\x07${ESC}[2J\u202etxt.exe \u{e0041}hidden`,
  }),
  sampleComment(4, { resolved: true, author: "héloïse", body: "日本語のコメント 👍🏽 ❤️ 🇩🇪 e\u0301a\u0300" }),
  sampleComment(5, { resolved: null, association: null, line: null, body: "" }),
  ...Array.from({ length: 30 }, (_, at) =>
    sampleComment(6 + at, { filePath: `src/part-${at % 4}.ts`, author: ["alice", "carol"][at % 2]! }),
  ),
];
const BASE: Script = { comments: COMMENTS };
const SESSION = { sidecar: "s", handle: "1a2b3c4d", threadId: "thr_1", startedAt: "2026-05-02T10:02:00Z" };
const LIMITED = {
  ...SESSION,
  why: "Codex was rate limited: You've hit your usage limit. Upgrade to Pro, or try again later.",
  resetsAt: "2026-05-02T12:22:30Z",
  approvals: ["touch made-by-codex", `update src/${ESC}[2Ja.ts\nadd b.ts`],
};
const TURN: Script["turn"] = [
  { type: "event", event: { type: "text", text: "I look at the prices" } },
  { type: "event", event: { type: "text", text: " first.\nThen at the tests.", delta: true } },
  { type: "event", event: { type: "tool", state: "started", id: "t1", name: "exec", detail: "npm test" } },
  { type: "event", event: { type: "tool", state: "ended", id: "t1", name: "exec", ok: false } },
  {
    type: "event",
    event: { type: "tool", state: "started", id: "t2", name: "read", detail: "src/money.ts" },
  },
  { type: "event", event: { type: "notice", message: `${ESC}]0;owned\x07 a notice` } },
];
const QUESTION = {
  id: "q1",
  about: "command" as const,
  what: "npm run build &&\n  rm -rf dist",
  cwd: "/home/user/shop",
  reason: "the build folder is stale\nin /tmp",
  key: "k",
};
const CODE = Array.from({ length: 31 }, (_, at) => (at === 10 ? "\tlet price = 150;" : `\tline(${at + 1});`));

type Shot = [name: string, script: Script, keys: string[], shows: string | RegExp, options?: Options];
const SHOTS: Shot[] = [
  ["list and comment", BASE, [], "Prices are floats"],
  ["wide", BASE, [], "Prices are floats", { columns: 120, rows: 40 }],
  ["small", BASE, [], "src/cart.ts:11", { columns: 40, rows: 12 }],
  ["small, comment entered", BASE, ["\r"], "Esc list", { columns: 40, rows: 12 }],
  ["comment entered", BASE, ["j", "\r"], /bob \(owner\)[^]*Esc list/],
  ["hostile text", BASE, ["j", "j"], "mallory (none)"],
  ["wide characters", BASE, ["jjj"], "héloïse (member)"],
  ["outdated, unknown, empty", BASE, ["jjjj"], "(no text)"],
  ["end of the list", BASE, ["G"], /^>.*:45/m],
  [
    "heads differ, selection",
    { ...BASE, head: { pullRequest: "aaaaaaaaaa", folder: "bbbbbbbbbb" } },
    ["  "],
    "2 selected",
  ],
  ["a warning", { ...BASE, warnings: ["No token: threads are of unknown state.", "x"] }, [], "No token"],
  ["code", { ...BASE, code: CODE }, ["c"], />11 +let price/],
  ["no code", BASE, ["c"], "has no src/cart.ts"],
  ["filters", BASE, ["f", "j"], /^> +unresolved/m],
  ["one file", BASE, ["f", "jjj", "\r"], "shown: file"],
  ["help", BASE, ["?"], "draw the screen again"],
  ["help, wide", BASE, ["?"], "draw the screen again", { columns: 120, rows: 40 }],
  ["no comments", { comments: [] }, [], "has no review comments"],
  ["cannot load", { comments: [], loadFails: `GitHub says no${ESC}[2J` }, [], "says no"],
  ["too small", BASE, [], "Too small", { columns: 39, rows: 12 }],
  ["offer", { ...BASE, interrupted: SESSION }, ["x"], "Interrupted session from 10:02. Resume? [y/n]"],
  ["offer, small", { ...BASE, interrupted: SESSION }, ["x"], "[y/n]", { columns: 40, rows: 12 }],
  ["offer after a limit", { ...BASE, interrupted: LIMITED }, ["x"], /Resume\? \[y\/n\]/],
  [
    "offer after a limit, small",
    { ...BASE, interrupted: LIMITED },
    ["x"],
    "[y/n]",
    { columns: 40, rows: 14 },
  ],
  [
    "refused with many words",
    { ...BASE, interrupted: SESSION, refused: "The thread is busy in another process. ".repeat(12) },
    ["x", "y"],
    "Start fresh? [y/n]",
  ],
  [
    "refused",
    { ...BASE, interrupted: SESSION, refused: "The thread is busy" },
    ["x", "y"],
    "Start fresh? [y/n]",
  ],
  ["running", { ...BASE, turn: [...TURN, { type: "hang" }] }, ["x"], "a notice"],
  [
    "running, wide",
    { ...BASE, turn: [...TURN, { type: "hang" }] },
    ["x"],
    "a notice",
    { columns: 120, rows: 40 },
  ],
  ["leaving", { ...BASE, turn: [...TURN, { type: "hang" }] }, ["x", "q"], /a notice[^]*discard and quit/],
  ["question", { ...BASE, turn: [...TURN, { type: "question", question: QUESTION }] }, ["x"], "[y] once"],
  [
    "question, small",
    { ...BASE, turn: [...TURN, { type: "question", question: QUESTION }] },
    ["x"],
    "[y] once",
    { columns: 40, rows: 12 },
  ],
  ["completed", { ...BASE, turn: TURN }, ["x"], /Codex execution completed\n?$/],
];

test.each(SHOTS)("the frame matches: %s", async (_name, script, keys, shows, options) => {
  const ui = new Ui(script, options);
  await ui.shows(options?.columns === 39 ? "Too small" : /open|no review comments|says no/);
  for (const key of keys) {
    ui.press(key);
    if (key === "x" && keys.length > 1) await ui.shows(/\[y\/n\]|a notice/);
  }
  expect(`\n${await ui.shows(shows)}\n`).toMatchSnapshot();
  // Only the UI's own sequences: positions, erasing, its modes.
  expect(ui.output.written.replace(/\x1b\[(?:\d+;1H|K|2J|\?(?:1049|25|7|2004|2026)[hl])/g, "")).not.toMatch(
    /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/,
  );
});

describe("colours", () => {
  const codes = (ui: Ui) => new Set(ui.output.written.match(/\x1b\[[\d;]*m/g));
  test("come from the terminal's own palette", async () => {
    const ui = new Ui(BASE, { colours: true });
    await ui.shows("Prices are floats");
    expect(codes(ui)).toEqual(new Set([1, 2, 7, 22, 27, 31, 32, 33, 36, 39].map((code) => `\x1b[${code}m`)));
    expect(ui.output.written).toContain("\x1b[32m+let price = 150;\x1b[39m");
    expect(ui.output.written).toContain("\x1b[31m-let price = 1.5;\x1b[39m");
  });
  test("are absent where none are wanted", async () => {
    const ui = new Ui({ ...BASE, turn: TURN });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("Codex execution completed");
    expect(codes(ui)).toEqual(new Set());
  });
});

describe("the terminal", () => {
  test("is restored to its earlier state", async () => {
    const ui = new Ui(BASE);
    await ui.shows("Prices are floats");
    expect([ui.input.raw, ui.output.emulator.buffer.active.type]).toEqual([true, "alternate"]);
    expect(ui.output.emulator.modes).toMatchObject({ bracketedPasteMode: true, wraparoundMode: false });
    ui.press("q");
    expect(await ui.left).toBe(0);
    await new Promise((written) => ui.output.emulator.write("", () => written(null)));
    expect([ui.input.raw, ui.output.emulator.buffer.active.type]).toEqual([false, "normal"]);
    expect(ui.output.emulator.modes).toMatchObject({ bracketedPasteMode: false, wraparoundMode: true });
    expect(ui.output.written).toMatch(/\x1b\[\?25h\x1b\[\?1049l$/);
    expect(ui.input.isPaused()).toBe(true);
  });

  test("that goes away ends the UI like a hang-up", async () => {
    const ui = new Ui({ ...BASE, turn: [{ type: "hang" }] });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("[Codex]");
    ui.input.end();
    expect(await ui.left).toBe(129);
    expect(ui.journal.at(-1)).toEqual({ call: "ended", status: "interrupted" });
  });

  test("is absent where it is not a terminal", async () => {
    const input = new FakeInput();
    input.isTTY = false;
    const options = { input: input as unknown as NodeJS.ReadStream, colours: false, now: () => NOW };
    const output = new FakeOutput(80, 24) as unknown as NodeJS.WriteStream;
    await expect(openReview({ ...options, output, service: fakeReviewService(BASE) })).rejects.toMatchObject({
      code: "platform_unsupported",
    });
  });

  test("is redrawn when its size changes, and otherwise only where something changed", async () => {
    const ui = new Ui(BASE);
    const small = await ui.shows("Prices are floats");
    ui.output.resizeTo(130, 30);
    await ui.shows("│ ──[Comment]");
    ui.output.resizeTo(20, 5);
    await ui.shows("Too small");
    ui.output.resizeTo(80, 24);
    await ui.shows("Prices are floats");
    expect(ui.output.screen()).toBe(small);
    ui.output.written = "";
    ui.press("j");
    await ui.shows("Agreed.");
    expect(ui.output.written).not.toContain("acme/shop");
    ui.press("\x0c");
    await ui.shows("Agreed.");
    while (!ui.output.written.includes("acme/shop")) await new Promise((wake) => setTimeout(wake, 5));
  });

  test("starts nothing on a paste", async () => {
    const ui = new Ui(BASE);
    await ui.shows("Prices are floats");
    ui.press(`${ESC}[200~x y q \x03 \r`, `j${ESC}[201~`, "?");
    await ui.shows("Keys");
    expect(ui.journal).toEqual([{ call: "load", fresh: false }]);
  });

  test("takes a paste whose mark comes in two parts, the second late, for no keys", async () => {
    const ui = new Ui({ ...BASE, interrupted: SESSION });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("Resume?");
    ui.press(`${ESC}[20`);
    // Longer than the wait for a lone escape character.
    await new Promise((wake) => setTimeout(wake, 150));
    ui.press(`0~y x q${ESC}[201~`, "?");
    await ui.shows("Keys");
    expect(ui.journal.map(({ call }) => call)).toEqual(["load"]);
  });

  test("takes a sequence in two parts for one key, and a lone escape character for Esc", async () => {
    const ui = new Ui({ ...BASE, interrupted: SESSION });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("Resume?");
    ui.press(`${ESC}[`, "B");
    await ui.shows(/^> .*:12/m);
    expect(ui.output.screen()).toContain("Resume?");
    ui.press(ESC);
    await ui.shows("Codex execution completed");
    expect(ui.journal.slice(1, 3)).toEqual([
      { call: "decline", threadId: "thr_1" },
      { call: "begin", comments: expect.any(Array), resume: null },
    ]);
  });
});

describe("limits", () => {
  test("leave every warning readable, however long", async () => {
    const long = `comments.jsonl: line 3 ${"is not JSON and ".repeat(12)}THE END`;
    const ui = new Ui({ comments: [sampleComment(1)], warnings: ["line 1 is bad", long] });
    await ui.shows("(2) line 1 is bad");
    ui.press("?", "G");
    expect(await ui.shows("THE END")).toMatch(/About these comments\nline 1 is bad\ncomments\.jsonl: line 3/);
  });

  test("put joined pictures side by side, and show other joiners", async () => {
    const body = "ship it 👩‍💻❤️‍🔥 a\u200db";
    const ui = new Ui({ comments: [sampleComment(1, { body })] });
    await ui.shows("ship it 👩💻❤🔥 a\\u{200d}b");
    const long = "👩‍💻".repeat(20_000);
    const other = new Ui({ comments: [sampleComment(1, { body: long, author: long, filePath: long })] });
    expect(await other.shows("👩💻👩💻")).not.toContain("200d");
  });

  test("keep the column of an age of any length", async () => {
    const comments = ["-000001-01-01T00:00:00Z", "2026-05-01T00:00:00Z"].map((createdAt, at) =>
      sampleComment(at + 1, { createdAt, body: "WORDS" }),
    );
    const screen = await new Ui({ comments }).shows(/WORDS[^]*WORDS/);
    const columns = screen
      .split("\n")
      .flatMap((line) => (/ (?:999y|1d) WORDS/.test(line) ? [line.indexOf("WORDS")] : []));
    expect([columns.length, new Set(columns).size]).toEqual([2, 1]);
  });

  test("cut a body of 5 MB, which is drawn at once", async () => {
    const body = "0123456789 ".repeat(480_000);
    const ui = new Ui({ comments: [sampleComment(1, { body, diffHunk: `@@ x @@\n+${body}` })] });
    await ui.shows("0123456789");
    ui.press("\r", "G");
    await ui.shows("0123456789");
    ui.press("g");
    expect(await ui.shows(/^src\/cart/m)).toMatch(/1–\d+\/\d{3,4} /);
  });

  test("keep the newest of a flood of words", async () => {
    const words = Array.from({ length: 50_000 }, (_, at) => ({
      type: "event" as const,
      event: {
        type: "text" as const,
        text: `word ${at} ${at % 20 === 19 ? "\n" : ""}`,
        delta: true as const,
      },
    }));
    const ui = new Ui({ ...BASE, turn: words });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("Codex execution completed");
    expect(ui.output.screen()).toContain("word 49999");
  });

  test("show a long command to its end", async () => {
    const what = `${"echo a; ".repeat(200)}echo LAST`;
    const ui = new Ui({ ...BASE, turn: [{ type: "question", question: { ...QUESTION, what } }] });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows(/PgDn: \d+ more lines/);
    expect(ui.output.screen()).not.toContain("LAST");
    ui.press(`${ESC}[6~`, `${ESC}[6~`, `${ESC}[6~`);
    await ui.shows("LAST");
    await ui.shows(/because the build folder is stale in/);
    ui.now += 1_000;
    ui.press("y");
    await ui.shows("Codex execution completed");
    expect(ui.journal).toContainEqual({ call: "answer", id: "q1", decision: "accept" });
  });

  test("show file changes with their diff, which scrolls to its end", async () => {
    const lines = Array.from(
      { length: 60 },
      (_, at) => `+line ${at} 日本語 ${"wide ".repeat(at === 20 ? 30 : 1)}`,
    );
    const changes = [
      {
        what: "update src/a.ts",
        diff: `@@ -1,2 +1,60 @@\n-old${ESC}]0;owned\x07 \u202e\n${lines.join("\n")}`,
      },
      { what: "delete notes/日本.md", diff: "-gone" },
      { what: "add empty.txt", diff: "" },
    ];
    const what = changes.map((change) => change.what).join("\n");
    const question = { ...QUESTION, about: "files" as const, what, cwd: null, reason: null, changes };
    const ui = new Ui({ ...BASE, turn: [{ type: "question", question }] });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows(/PgDn: \d+ more lines · Codex wants to change 3 files/);
    expect(ui.output.screen()).toMatchSnapshot("the beginning");
    ui.press("j");
    await ui.shows("+line 8 ");
    ui.press("G");
    await ui.shows(/PgUp PgDn: the end · Codex wants to change 3 files/);
    expect(ui.output.screen()).toMatchSnapshot("the end");
    ui.press("g", `${ESC}[6~`, "jjj");
    // A continued row has a mark, so that it does not look like a separate line.
    await ui.shows(/^ {4}\+line 20 .*\n {2}\| wide /m);
    ui.press("g");
    await ui.shows("-old");
    expect(ui.output.written).not.toMatch(/\x1b\]0;|\u202e/);
    ui.now += 1_000;
    ui.press("n");
    await ui.shows("Codex execution completed");
    expect(ui.journal).toContainEqual({ call: "answer", id: "q1", decision: "decline" });
  });

  test("cut a diff of 5 MB with a note, in little time", async () => {
    const changes = [{ what: "add big.txt", diff: "+0123456789\n".repeat(450_000) }];
    const question = { ...QUESTION, about: "files" as const, what: "add big.txt", changes };
    const ui = new Ui({ ...BASE, turn: [{ type: "question", question }] });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows("Codex wants to change 1 file");
    ui.press("G");
    await ui.shows(/… 5,\d{3},\d{3} more characters are not shown; the transcript has them all/);
  });

  test("turn an exception of the service into a failed turn", async () => {
    const begin = () => {
      throw new Error("no disk");
    };
    const ui = new Ui(BASE, { service: { begin } });
    await ui.shows("Prices are floats");
    ui.press("x");
    await ui.shows(/Codex execution failed: no disk$/m);
  });
});
