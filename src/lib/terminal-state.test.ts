/**
 * The modes that a program left on, and that undoing them restores the terminal, as a real terminal emulator judges.
 */
import xterm from "@xterm/headless";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TerminalState } from "./terminal-state.ts";

const SIZE = { cols: 40, rows: 12 };
const bytes = (text: string) => Buffer.from(text, "utf8");

function after(...chunks: string[]): TerminalState {
  const state = new TerminalState(SIZE);
  for (const chunk of chunks) state.read(bytes(chunk));
  return state;
}

describe("modes that are left on are undone, and nothing else", () => {
  const cases: Record<string, [given: string, leave: string, enter: string]> = {
    nothing: ["", "", ""],
    "a line": ["hello\r\n", "", ""],
    "a line without its end": ["hello", "\r\n", ""],
    "a cursor above the last line": ["one\r\ntwo\r\nthree\x1b[2A\r", "\x1b[2B\r\n", ""],
    "a line that was erased below the cursor": ["one\r\ntwo\x1b[1A\r\x1b[J", "", ""],
    "a screen drawn by rows": ["\x1b[2J\x1b[1;1Hone\x1b[3;1Hthree\x1b[2;1H", "\x1b[1B\r\n", ""],
    "rows above text whose place is unknown": ["text\r\n\x1b[5;1H", "\x1b[12B\r\n", ""],
    "the alternate screen": ["\x1b[?1049hUI", "\x1b[?1049l", "\x1b[?1049h"],
    "the alternate screen, left again": ["\x1b[?1049hUI\x1b[?1049l", "", ""],
    "the alternate screen of old, which keeps the cursor": [
      "\x1b[?47hUI",
      "\x1b[?47l\x1b[12B\r\n",
      "\x1b[?47h",
    ],
    "a hidden cursor": ["\x1b[?25l", "\x1b[?25h", "\x1b[?25l"],
    "a cursor shown again": ["\x1b[?25l\x1b[?25h", "", ""],
    "bracketed paste and focus": ["\x1b[?2004;1004h", "\x1b[?2004l\x1b[?1004l", "\x1b[?2004h\x1b[?1004h"],
    "the mouse": [
      "\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h\x1b[?1003l",
      "\x1b[?1000l\x1b[?1002l\x1b[?1006l",
      "\x1b[?1000h\x1b[?1002h\x1b[?1006h",
    ],
    "old mouse encodings": ["\x1b[?1005h\x1b[?1015h", "\x1b[?1005l\x1b[?1015l", "\x1b[?1005h\x1b[?1015h"],
    "cursor keys and keypad": ["\x1b[?1h\x1b=", "\x1b[?1l\x1b>", "\x1b[?1h\x1b="],
    "a keypad left again": ["\x1b=\x1b>", "", ""],
    "the keyboard protocol, twice": ["\x1b[>1u\x1b[>5u", "\x1b[<2u", "\x1b[>1u\x1b[>5u"],
    "the keyboard protocol, left again": ["\x1b[>1u\x1b[<u", "", ""],
    "the keyboard protocol on both screens": [
      "\x1b[>1u\x1b[?1049h\x1b[>5u",
      "\x1b[<1u\x1b[?1049l\x1b[<1u",
      "\x1b[>1u\x1b[?1049h\x1b[>5u",
    ],
    "the keyboard protocol without a push": ["\x1b[=1;1u", "\x1b[=0u", ""],
    "a question about the keyboard": ["\x1b[?u", "", ""],
    modifyOtherKeys: ["\x1b[>4;2m", "\x1b[>4m", "\x1b[>4;2m"],
    "modifyOtherKeys switched off": ["\x1b[>4;2m\x1b[>4;0m\x1b[>4;1m\x1b[>4m", "", ""],
    "a scroll region": ["\x1b[2J\x1b[3;9r", "\x1b7\x1b[r\x1b8", "\x1b[3;9r"],
    "a scroll region given back": ["\x1b[2J\x1b[3;9r\x1b[r", "", ""],
    colours: ["\x1b[31mred\r\n", "\x1b[0m", ""],
    "colours given back": ["\x1b[31mred\x1b[0m\x1b[1;38;5;0mx\x1b[m\r\n", "", ""],
    "a colour that ends with zero": ["\x1b[38;5;0mx\r\n", "\x1b[0m", ""],
    "the cursor's shape": ["\x1b[5 q", "\x1b[0 q", "\x1b[5 q"],
    "an update that was never finished": ["\x1b[?2026h", "\x1b[?2026l", ""],
    "line drawing": ["\x1b(0\x0e", "\x1b(B\x0f", "\x1b(0\x0e"],
    "no wrapping": ["\x1b[?7l", "\x1b[?7h", "\x1b[?7l"],
    "origin mode": ["\x1b[2J\x1b[?6h", "\x1b[r\x1b[?6l\x1b[12B\r\n", "\x1b[?6h"],
    "an open link and a progress bar": [
      "\x1b]8;;http://x\x07\x1b]9;4;3\x07",
      "\x1b]8;;\x1b\\\x1b]9;4;0\x1b\\",
      "",
    ],
    "a link that was closed": ["\x1b]8;;http://x\x07x\x1b]8;;\x07\r\n", "", ""],
    "a background colour": ["\x1b]11;#fff\x1b\\\x1b]10;?\x07", "\x1b]111\x1b\\", ""],
    "a sequence that was cut off": ["\x1b[?10", "\x18", ""],
    "a command that was cut off": ["\x1b]0;title", "\x18", ""],
    "a reset of the whole terminal": ["\x1b[?1049h\x1b[?1h\x1b=\x1b[31m\x1bc", "", ""],
    "in the words of the agent": ["\\x1b[?1049h [?1049h\r\n", "", ""],
    "a number that is not private": ["\x1b[1049h\x1b[25l", "", ""],
    "inside a title": ["\x1b]0;[?1049h\x07", "", ""],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, leave, enter]) => {
    const state = after(given);
    expect([state.enter(), state.leave()]).toEqual([enter, leave]);
  });

  test("a line that the terminal wrapped is below the cursor like any other", () => {
    expect(after("x".repeat(100), "\x1b[2A").leave()).toBe("\x1b[2B\r\n");
    expect(after("x".repeat(100), "\r\n").leave()).toBe("");
  });

  test("after a resize the end of the text stays known, and anything else is the bottom", () => {
    const state = after("text\r\n");
    state.resize({ cols: 10, rows: 5 });
    expect(state.leave()).toBe("");
    const above = after("one\r\ntwo\x1b[1A");
    above.resize({ cols: 10, rows: 5 });
    expect(above.leave()).toBe("\x1b[5B\r\n");
  });
});

/** Output of a program: text, lines, and every relevant sequence, whole, broken and in pieces. */
const numbers = fc.array(fc.integer({ min: 0, max: 14 }), { maxLength: 3 }).map((list) => list.join(";"));
const mode = fc
  .constantFrom(
    1,
    5,
    6,
    7,
    9,
    12,
    25,
    45,
    47,
    66,
    1000,
    1002,
    1003,
    1004,
    1005,
    1006,
    1015,
    1047,
    1048,
    1049,
    2004,
    2026,
  )
  .chain((number) => fc.constantFrom("h", "l").map((end) => `\x1b[?${number}${end}`));
/** In some terminals a mouse mode switches the others off. */
const alone = mode.filter((one) => !/\?(?:9|100[02])[hl]/.test(one));
const piece = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom("text", "é", "wide line ".repeat(9), "\r\n", "\n", "\r", "\b", "\t"),
  },
  { weight: 3, arbitrary: mode },
  {
    weight: 3,
    arbitrary: fc
      .tuple(numbers, fc.constantFrom(..."ABCDEFGHJKLMPSTXdefrsu".split(""), " q", "!p"))
      .map(([given, final]) => `\x1b[${given}${final}`),
  },
  { weight: 2, arbitrary: numbers.map((given) => `\x1b[${given}m`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ..."78=>DEMc".split("").map((final) => `\x1b${final}`),
      "\x1b(0",
      "\x1b)0",
      "\x1b(B",
      "\x0e",
      "\x0f",
      "\x1b[4h",
      "\x1b[4l",
      "\u009b?25l",
      "\x1b[>1u",
      "\x1b[<u",
      "\x1b[>4;2m",
      "\x1b]0;title\x07",
      "\x1b]8;;x\x1b\\",
      "\x1bP1$qm\x1b\\",
      "\x1b",
      "\x1b[",
      "\x1b[?1049",
      "\x1b]0;never",
      "\x18",
    ),
  },
);
const output = fc.array(piece, { maxLength: 40 });

class Judge {
  readonly terminal = new xterm.Terminal({ ...SIZE, scrollback: 1_000, allowProposedApi: true });

  write(text: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.terminal.write(text, resolve));
  }

  /** Everything that a later program could notice. */
  state(): unknown {
    const core = (this.terminal as unknown as { _core: any })._core;
    const { scrollTop, scrollBottom } = core._bufferService.buffer;
    const { fg, bg } = core._inputHandler._curAttrData;
    return {
      modes: this.terminal.modes,
      screen: this.terminal.buffer.active.type,
      hidden: core.coreService.isCursorHidden,
      shape: core.coreService.decPrivateModes.cursorStyle,
      encoding: core.coreMouseService.activeEncoding,
      charset: core._charsetService.charset,
      region: [scrollTop, scrollBottom],
      look: [fg, bg],
    };
  }

  /** The rows from the top of the scrollback. */
  rows(): string[] {
    const { normal } = this.terminal.buffer;
    return Array.from(
      { length: normal.length },
      (_none, y) => normal.getLine(y)?.translateToString(true) ?? "",
    );
  }
}

describe("on a real terminal", () => {
  test("a restored terminal equals a fresh one, and the text on it stays", async () => {
    const fresh = new Judge().state();
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 14 }), output, async (lines, pieces) => {
        const judge = new Judge();
        await judge.write("shell\r\n".repeat(lines));
        const state = new TerminalState(SIZE);
        const all = bytes(pieces.join(""));
        state.read(all);
        await judge.write(all);
        const shown = judge.rows();
        await judge.write(state.leave());
        expect(judge.state()).toEqual(fresh);
        const { cursorX, cursorY, baseY } = judge.terminal.buffer.active;
        const rows = judge.rows();
        // Every earlier line is still there, and nothing is below the cursor.
        expect(cursorX).toBe(0);
        expect(rows.slice(0, shown.length)).toEqual(shown);
        expect(rows.slice(baseY + cursorY).join("")).toBe("");
        judge.terminal.dispose();
      }),
      { numRuns: 300 },
    );
  });

  test("entering gives a late terminal the same modes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(alone, { maxLength: 20 }), async (pieces) => {
        const [early, late] = [new Judge(), new Judge()];
        const state = new TerminalState(SIZE);
        state.read(bytes(pieces.join("")));
        await early.write(pieces.join(""));
        await late.write(state.enter());
        const passing = { synchronizedOutputMode: false };
        expect({ ...late.terminal.modes, ...passing }).toEqual({ ...early.terminal.modes, ...passing });
        expect(late.terminal.buffer.active.type).toBe(early.terminal.buffer.active.type);
      }),
      { numRuns: 100 },
    );
  });
});

test("the result does not depend on how the output is cut into chunks", () => {
  fc.assert(
    fc.property(output, fc.array(fc.nat({ max: 200 }), { maxLength: 10 }), (pieces, cuts) => {
      const all = bytes(pieces.join(""));
      const state = new TerminalState(SIZE);
      let from = 0;
      for (const cut of [...cuts.map((one) => Math.min(one, all.length)), all.length].toSorted(
        (a, b) => a - b,
      )) {
        state.read(all.subarray(from, cut));
        from = cut;
      }
      const whole = new TerminalState(SIZE);
      whole.read(all);
      expect([state.enter(), state.leave()]).toEqual([whole.enter(), whole.leave()]);
    }),
  );
});

test("the state takes linear time and bounded memory", () => {
  const state = new TerminalState(SIZE);
  const begin = performance.now();
  state.read(bytes("\x1b[".repeat(500_000)));
  state.read(bytes("\x1b]1;".repeat(200_000)));
  state.read(bytes(`\x1b[${"1;".repeat(500_000)}m`));
  state.read(bytes("\x1b[>1u".repeat(100_000)));
  state.read(bytes("x".repeat(5_000_000)));
  expect(performance.now() - begin).toBeLessThan(5_000);
  expect(state.enter().length).toBeLessThan(200);
});
