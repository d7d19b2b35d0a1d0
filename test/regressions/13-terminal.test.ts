/** Issue 13: a terminal that a UI or `attach` gives back is as it was, and what the UI showed last stays there. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox } from "../e2e/holder-box.ts";
import { until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: HolderBox;
let screen: Screen;
beforeAll(() => {
  if (!HAS_TMUX) return;
  box = new HolderBox();
  screen = new Screen(box);
});
afterAll(() => {
  if (!HAS_TMUX) return;
  screen[Symbol.dispose]();
  box[Symbol.dispose]();
});

/** A UI that draws in the middle of the shell's lines: text, an input line with the cursor, a footer below it. */
const INLINE = String.raw`\033[?25l\033[?2004h\033[>1u\033[1mUI line one\r\nUI line two\r\n> input\r\nfooter\033[1A\r`;
/** The same on an alternate screen. */
const FULL = String.raw`\033[?1049h\033[2J\033[H\033[?1002h\033[?1006hfull screen\r\nfooter\033[1A`;

/** Draws, then waits for one key. `end`: how it goes then. */
function ui(draws: string, end: string): void {
  box.program("claude", `stty raw -echo; printf '${draws}'; head -c 1 >/dev/null; stty sane; ${end}`);
}

/** Every byte that reaches the terminal from now on. */
function tapTerminal(name: string): () => string {
  const file = join(box.root, name);
  screen.tmux("pipe-pane", "-t", "screen", `cat >> '${file}'`);
  return () => readFileSync(file, "latin1");
}

function expectSane(): void {
  expect(screen.facts("#{cursor_flag} #{alternate_on} #{mouse_any_flag} #{wrap_flag}")).toBe("1 0 0 1");
}

/** The lines between the typed command and the shell's next prompt. */
function linesAfter(text: string, command: RegExp): string[] {
  const lines = text.trimEnd().split("\n");
  return lines.slice(lines.findIndex((line) => command.test(line)) + 1);
}

describe.skipIf(!HAS_TMUX)("a UI without an alternate screen", () => {
  test.each([
    ["leaves", "exit 0"],
    ["is killed", "kill -9 $$"],
  ])("keeps its last lines with the summary below them when it %s", async (what, end) => {
    ui(INLINE, end);
    screen.clear();
    const bytes = tapTerminal(`inline-${what.replace(" ", "-")}`);
    screen.type('reprise start claude; echo "ENDED $?"');
    await screen.shows(/^footer$/m);
    screen.key("x");
    const text = await screen.shows(/^ENDED \d+$/m);
    const lines = linesAfter(text, /reprise start claude/);
    expect(lines.slice(0, 4)).toEqual(["UI line one", "UI line two", "> input", "footer"]);
    expect(lines.slice(4).join("\n")).toMatch(/^(?!.*footer)[\s\S]*^handle {3}[0-9a-f]{8}/m);
    await until("the terminal has everything", () => bytes().includes("ENDED "));
    expect(bytes()).not.toContain("\x1b[?1049l");
    for (const undone of ["\x1b[?25h", "\x1b[?2004l", "\x1b[<1u", "\x1b[0m"])
      expect(bytes()).toContain(undone);
    expect(bytes()).not.toMatch(/\x1b\[\?100[0236]l|\x1b\[>4/);
    expectSane();
  });

  test("keeps its last lines when a signal asks Reprise to stop", async () => {
    ui(INLINE, "exit 0");
    const known = new Set(box.runDirectories());
    screen.clear();
    screen.type('reprise start claude; echo "ENDED $?"');
    await screen.shows(/^footer$/m);
    const directory = await until("the run", () => box.runDirectories().find((one) => !known.has(one)));
    process.kill((await box.json(["show", directory.slice(-8)]))["live"].pid, "SIGTERM");
    const lines = linesAfter(await screen.shows(/^ENDED \d+$/m), /reprise start claude/);
    expect(lines.slice(0, 4)).toEqual(["UI line one", "UI line two", "> input", "footer"]);
    expectSane();
  });

  test("keeps its lines with the message below them when it is left and attached again with --direct", async () => {
    ui(INLINE, "exit 0");
    const handle = await box.detach("claude");
    await until("it has drawn", () => box.tape(handle).toString().includes("footer"));
    for (const [round, key] of [
      ["first", "C-]"],
      ["second", "x"],
    ] as const) {
      screen.clear();
      const bytes = tapTerminal(`attach-${round}`);
      screen.type(`reprise attach ${handle} --direct; echo "ENDED $?"`);
      await screen.shows(/^footer$/m);
      screen.key(key);
      const lines = linesAfter(await screen.shows(/^ENDED \d+$/m), /reprise attach/);
      expect(lines.slice(0, 4)).toEqual(["UI line one", "UI line two", "> input", "footer"]);
      expect(lines[4]).toMatch(new RegExp(`^reprise: ${handle} (?:keeps running|has ended)`));
      await until("the terminal has everything", () => bytes().includes("ENDED "));
      expect(bytes()).not.toContain("\x1b[?1049l");
      // The keyboard protocol is pushed once for the agent and popped as often.
      expect(bytes().match(/\x1b\[>1u/g)).toHaveLength(1);
      expect(bytes()).toContain("\x1b[<1u");
      expectSane();
    }
  });
});

describe.skipIf(!HAS_TMUX)("an engine in its text mode", () => {
  test("is shown on a terminal, harmless, while its JSON is not", async () => {
    const says = String.raw`plain words\n{"json":1}\n\033[31mof the\033[2J model\033[0m`;
    box.program("claude", `cat >/dev/null; printf '${says}'`);
    const { text } = await screen.command("reprise start claude hello -- --output-format text");
    expect(linesAfter(text, /reprise start/).slice(0, 3)).toEqual([
      "plain words",
      "of the model",
      expect.stringMatching(/^handle {3}/),
    ]);
  });
});

describe.skipIf(!HAS_TMUX)("a UI on an alternate screen", () => {
  test("restores the earlier text of the terminal, with the summary below it", async () => {
    ui(FULL, "kill -9 $$");
    screen.clear();
    const bytes = tapTerminal("full");
    screen.type('echo before; reprise start claude; echo "ENDED $?"');
    await screen.shows(/^full screen$/m);
    screen.key("x");
    const text = await screen.shows(/^ENDED \d+$/m);
    expect(text).not.toContain("full screen");
    expect(
      linesAfter(text, /echo before/)
        .slice(0, 2)
        .join("\n"),
    ).toMatch(/^before\n(?!footer)\S/);
    await until("the terminal has everything", () => bytes().includes("ENDED "));
    expect(bytes()).toContain("\x1b[?1049l");
    expect(bytes()).not.toMatch(/\x1b\[\?(?:2004l|1000l|1004l)/);
    expectSane();
  });
});
