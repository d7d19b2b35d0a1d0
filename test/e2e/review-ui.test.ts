/** The review UI in a real terminal, with a scripted desk: keys sent, screen read, and the terminal as it was after. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { common } from "../../scripts/bundle.mjs";
import { type Script, sampleComment } from "../fake-review-service.ts";
import { Sandbox, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: Sandbox;
beforeAll(async () => {
  box = new Sandbox();
  await build({
    ...common,
    entryPoints: { "review-ui": "test/review-ui.ts" },
    outdir: join(box.root, "ui"),
    outExtension: { ".js": ".mjs" },
    splitting: true,
  });
  box.program("review-ui", `exec '${process.execPath}' '${join(box.root, "ui", "review-ui.mjs")}' "$@"`);
});
afterAll(() => box[Symbol.dispose]());

const EVIL =
  "\u001b]52;c;b3duZWQ=\u0007\u001b]0;owned\u0007\u001b[?1000h\u001b[?25h\u001b[6n\u001b[8mhidden\u001bc\u009d0;owned\u009c" +
  "\u202etxt.exe \u0008 back\rreturn";
const COMMENTS = [
  sampleComment(1),
  sampleComment(2, { inReplyTo: "1", author: "bob", association: "OWNER", body: "日本語 👍🏽 🇩🇪" }),
  sampleComment(3, {
    author: EVIL,
    filePath: EVIL,
    association: EVIL,
    commit: EVIL,
    createdAt: EVIL,
    body: EVIL,
    diffHunk: EVIL,
  }),
];
const SESSION = { sidecar: "s", handle: "1a2b3c4d", threadId: "thr_1", startedAt: "2026-05-02T10:02:00Z" };

/** A shell in a terminal, in which `review-ui` with this script was typed. */
function openUi(name: string, script: Script, options: { cols?: number; rows?: number; line?: string } = {}) {
  const journal = join(box.root, `${name}.jsonl`);
  writeFileSync(journal, "");
  writeFileSync(join(box.root, `${name}.json`), JSON.stringify(script));
  const screen = new Screen(box, { name, cols: 80, rows: 24, ...options });
  const line = options.line ?? "review-ui";
  screen.type(`echo before; ${line} ${join(box.root, `${name}.json`)} ${journal}; echo "ENDED $?"`);
  const calls = () =>
    readFileSync(journal, "utf8")
      .split("\n")
      .filter((entry) => entry !== "")
      .map((entry) => JSON.parse(entry) as Record<string, unknown>);
  return { screen, calls };
}

/** Alternate screen, cursor, wrapping, mouse; and what the line discipline does: echo and whole lines. */
const NORMAL = "0 1 1 0";
const modes = (screen: Screen) =>
  screen.facts("#{alternate_on} #{cursor_flag} #{wrap_flag} #{mouse_any_flag}");

describe.skipIf(!HAS_TMUX)("in tmux", () => {
  test("an interrupted session is offered, resumed, questioned, completed", async () => {
    const what = "npm test";
    const question = { id: "q1", about: "command" as const, what, cwd: "/srv/shop", reason: null, key: "k" };
    const { screen, calls } = openUi("resume", {
      comments: COMMENTS.slice(0, 2),
      interrupted: SESSION,
      turn: [
        { type: "event", event: { type: "text", text: "I look at it." } },
        { type: "question", question },
      ],
    });
    using _ = screen;
    await screen.shows("prices are floats");
    screen.key("x");
    await screen.shows(/^Interrupted session from 2026-05-02 \d\d:02\. Resume\? \[y\/n\] *$/m);
    screen.key("y");
    await screen.shows(/Codex wants to run[^]*npm test[^]*\[y\] once/);
    // A key that is pressed just as the question comes up does not answer it.
    await until("the question is answered", () => {
      screen.key("a");
      return !screen.text().includes("Codex wants to run");
    });
    await screen.shows(/^Codex execution completed *$/m);
    expect(calls()).toEqual([
      { call: "load", fresh: false },
      { call: "begin", comments: ["1", "2"], resume: "thr_1" },
      { call: "answer", id: "q1", decision: "accept_for_session" },
      { call: "ended", status: "completed" },
    ]);
    screen.key("q");
    const text = await screen.shows(/^ENDED 0$/m);
    expect(text).toContain("before");
    expect(text).not.toContain("acme/shop");
    expect(modes(screen)).toBe(NORMAL);
  });

  test("Esc declines it and a fresh one begins; quitting asks about the fate of the turn", async () => {
    const { screen, calls } = openUi("decline", {
      comments: COMMENTS,
      interrupted: SESSION,
      turn: [{ type: "hang" }],
    });
    using _ = screen;
    await screen.shows("prices are floats");
    screen.key("Space");
    screen.key("x");
    await screen.shows("Resume? [y/n]");
    screen.key("Escape");
    await screen.shows("new session");
    screen.key("x");
    await screen.shows("Codex is already at work");
    screen.key("C-c");
    await screen.shows("discard and quit");
    screen.key("d");
    await screen.shows(/^ENDED 0$/m);
    expect(calls().slice(1)).toEqual([
      { call: "decline", threadId: "thr_1" },
      { call: "begin", comments: ["1"], resume: null },
      { call: "discard" },
      { call: "ended", status: "cancelled" },
    ]);
  });

  test("hostile text is shown and has no effect, at every size", async () => {
    const { screen } = openUi("hostile", {
      comments: COMMENTS.toReversed(),
      title: EVIL,
      warnings: [EVIL],
      turn: [
        { type: "event", event: { type: "text", text: EVIL } },
        { type: "event", event: { type: "tool", state: "started", id: "1", name: EVIL, detail: EVIL } },
        { type: "event", event: { type: "notice", message: EVIL } },
        {
          type: "question",
          question: { id: "q", about: "command", what: EVIL, cwd: EVIL, reason: EVIL, key: "k" },
        },
      ],
    });
    using _ = screen;
    const title = screen.facts("#{pane_title}");
    await screen.shows("\\x1b]52;c;");
    for (const [cols, rows] of [
      [130, 40],
      [41, 11],
      [20, 5],
      [80, 24],
    ] as const) {
      screen.resize(cols, rows);
      await screen.shows(cols === 20 ? "Too small" : "acme/shop#42");
    }
    screen.key("Enter");
    await screen.shows("\\x1b[8mhidden");
    screen.key("x");
    await screen.shows("[y] once");
    expect(modes(screen)).toBe("1 0 0 0");
    expect([screen.tmux("show-buffer"), screen.facts("#{pane_title}")]).toEqual(["", title]);
    screen.key("C-c");
    screen.key("C-c");
    const text = await screen.shows(/^ENDED 130$/m);
    // A terminal that answers a question types into the shell.
    expect(text).not.toMatch(/\[\d+;\d+R/);
    expect([screen.tmux("show-buffer"), screen.facts("#{pane_title}")]).toEqual(["", title]);
    expect(modes(screen)).toBe(NORMAL);
  });

  test.each([
    ["TERM", 143],
    ["HUP", 129],
    ["INT", 130],
    ["QUIT", 131],
  ])("kill -%s restores the terminal", async (signal, code) => {
    const { screen, calls } = openUi(`kill-${signal}`, { comments: COMMENTS, turn: [{ type: "hang" }] });
    using _ = screen;
    await screen.shows("prices are floats");
    screen.key("x");
    await screen.shows("new session");
    const shell = screen.facts("#{pane_pid}");
    const children = readFileSync(`/proc/${shell}/task/${shell}/children`, "utf8").trim().split(" ");
    process.kill(Number(children[0]), `SIG${signal}`);
    await screen.shows(new RegExp(`^ENDED ${code}$`, "m"));
    expect(calls().at(-1)).toEqual({ call: "ended", status: "interrupted" });
    expect(modes(screen)).toBe(NORMAL);
    // Typed text is echoed, once: no raw mode.
    screen.type("echo again");
    await screen.shows(/echo again\nagain/);
  });

  test("Ctrl-Z goes back to the shell, fg comes back", async () => {
    const { screen } = openUi("suspend", { comments: COMMENTS }, { line: "set -m; review-ui" });
    using _ = screen;
    await screen.shows("prices are floats");
    screen.key("C-z");
    await until("the shell has its screen", () => modes(screen) === NORMAL);
    await until("the shell reads", () => screen.text().includes("ENDED") || screen.text().includes("READY>"));
    screen.type("fg");
    await until("the UI is back", () => modes(screen) === "1 0 0 0");
    await screen.shows("prices are floats");
    screen.key("j");
    await screen.shows("bob (owner)");
    screen.key("q");
    await until("the UI has ended", () => modes(screen) === NORMAL);
  });

  test("NO_COLOR shows no attribute", async () => {
    const { screen } = openUi("plain", { comments: COMMENTS }, { line: "NO_COLOR=1 review-ui" });
    using _ = screen;
    await screen.shows("prices are floats");
    expect(screen.painted()).not.toContain("\u001b[");
    const coloured = openUi("coloured", { comments: COMMENTS });
    using __ = coloured.screen;
    await coloured.screen.shows("prices are floats");
    expect(coloured.screen.painted()).toContain("\u001b[32m+let price");
  });
});
