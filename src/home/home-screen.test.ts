import { describe, expect, test } from "vitest";
import { painted } from "../terminal/paint.ts";
import type { HomeRow } from "./home-row.ts";
import { firstHome, home, type HomeEffect, type HomeState } from "./home-state.ts";
import { viewOfHome } from "./home-view.ts";

const NOW = Date.parse("2026-05-02T12:00:00Z");
const ago = (minutes: number) => NOW - minutes * 60_000;
const row = (id: string, title: string, more: Partial<HomeRow> = {}): HomeRow => ({
  ...{ key: `key-${id}`, kind: "run", id, title, engine: "codex", state: "completed" },
  ...{
    sinceMs: ago(60),
    createdMs: ago(120),
    next: "",
    tokens: 12_345,
    live: false,
    hasUi: false,
    decision: null,
  },
  text: `${title} ${id} codex`.toLowerCase(),
  ...more,
});
const OLD = row("1a2b3c4d", "rename the cart module");
const LIVE = row("5e6f7a8b", "fix the flaky test", {
  state: "running",
  live: true,
  sinceMs: ago(5),
  tokens: null,
});
const UI = row("0a0b0c0d", "talk", {
  state: "running",
  live: true,
  hasUi: true,
  sinceMs: ago(7),
  engine: "claude",
});
const AGENT = row("aaaa1111", "worker", {
  ...{ kind: "agent", state: "waiting", live: true, hasUi: true, sinceMs: ago(9), next: "asks you" },
  ...{ decision: "aaaa1111-1", tokens: null },
});
const ASKS = row("aaaa1111-1", "The agent asks for permission.", {
  ...{
    kind: "decision",
    state: "asks",
    live: true,
    engine: "",
    decision: "aaaa1111-1",
    sinceMs: ago(9),
    tokens: null,
    choices: ["1. Allow", "2. Refuse"],
  },
});
const PIPELINE = row("bbbb2222", "ci", {
  kind: "pipeline",
  state: "active",
  live: true,
  sinceMs: ago(10),
  engine: "",
});
const ALL = [OLD, LIVE, UI, AGENT, ASKS, PIPELINE];

function opened(rows: readonly HomeRow[] = ALL, size = { columns: 120, rows: 30 }): HomeState {
  const engines = ["codex", "claude", "demo"];
  const here = { cwd: "/srv/shop", engines, narrowed: "everything" as const };
  const first = firstHome({ size, colours: true, nowMs: NOW, ...here });
  return home(first, { type: "rows", rows, note: "" }).state;
}

function after(state: HomeState, ...keys: string[]): { state: HomeState; effects: readonly HomeEffect[] } {
  let effects: readonly HomeEffect[] = [];
  let now = state;
  for (const key of keys) ({ state: now, effects = [] } = home(now, { type: "key", key }));
  return { state: now, effects };
}

const bottomOf = (state: HomeState) =>
  viewOfHome(state)
    .slice(-14)
    .map((line) => painted(line, false).trimEnd())
    .join("\n");
const only = (one: HomeRow) => opened([one]);
const ids = ({ seen }: HomeState) => seen.map(({ id }) => id);
const running = (args: readonly string[], back: "return" | "wait") => [
  { do: "run", command: { args, back } },
];

describe("the table", () => {
  test("shows questions first, then live work, then the past", () => {
    expect(ids(opened())).toEqual([ASKS, LIVE, UI, AGENT, PIPELINE, OLD].map(({ id }) => id));
  });
  test("keeps the cursor on its row when rows change their places", () => {
    const { state } = after(opened(), "down", "down");
    const next = home(state, {
      type: "rows",
      rows: [{ ...OLD, live: true, sinceMs: NOW }, ...ALL.slice(1)],
      note: "",
    });
    expect(next.state.seen[next.state.choice.cursor]?.id).toBe(UI.id);
    expect(next.effects).toBeUndefined();
  });
  test("sorts by another column with o", () => {
    const { state } = after(opened([OLD, row("ffff0000", "a", { tokens: 99_999 })]), "o", "o");
    expect(state.sort).toBe("tokens");
    expect(ids(state)).toEqual(["ffff0000", OLD.id]);
  });
  test("filters after a slash; Esc clears the filter", () => {
    const { state } = after(opened(), "/", ..."cart".split(""), "enter");
    expect(ids(state)).toEqual([OLD.id]);
    expect(painted(viewOfHome(state)[0] ?? [], false)).toMatch(/^reprise  \/cart +4 live/);
    expect(ids(after(state, "escape").state)).toHaveLength(ALL.length);
    // In the filter, letters are no commands.
    expect(after(opened(), "/", "q").effects).toEqual([]);
  });
});

describe("a key", () => {
  test.each([
    ["enter", UI, ["attach", UI.id], "return"],
    ["enter", LIVE, ["logs", LIVE.id, "--follow"], "return"],
    ["enter", OLD, ["logs", OLD.id], "wait"],
    ["enter", PIPELINE, ["pipeline", "show", PIPELINE.id], "wait"],
    ["enter", ASKS, ["decisions", "show", ASKS.id], "wait"],
    ["l", LIVE, ["logs", LIVE.id], "wait"],
  ] as const)("%s runs the command of the row", (key, one, args, back) => {
    expect(after(only(one), key).effects).toEqual(running(args, back));
  });

  test.each([
    [LIVE, ["stop", LIVE.id]],
    [AGENT, ["agent", "stop", AGENT.id]],
    [PIPELINE, ["pipeline", "cancel", PIPELINE.id]],
  ] as const)("s stops only after y", (one, args) => {
    const { state, effects } = after(only(one), "s");
    expect(effects).toEqual([]);
    expect(state.mode.is).toBe("confirm");
    expect(after(state, "n").effects).toEqual([]);
    expect(after(state, "enter").effects).toEqual([]);
    expect(after(state, "paste:y").effects).toEqual([]);
    expect(after(state, "y").effects).toMatchObject([{ do: "run", command: { args } }]);
  });
  test("s does nothing to a run that has ended", () => {
    expect(after(only(OLD), "s").state.mode.is).toBe("table");
  });

  test("r resumes a run with the typed message in the background", () => {
    expect(after(only(OLD), "r", "g", "o", "paste: -x\ny", "enter").effects).toEqual(
      running(["resume", OLD.id, "--detach", "--", "go -x\ny"], "return"),
    );
    expect(after(only(OLD), "r", "enter").effects).toEqual(running(["resume", OLD.id], "wait"));
    expect(after(only(OLD), "r", "x", "escape").state.mode.is).toBe("table");
  });
  test("r sends a message to an agent, and never an empty one", () => {
    expect(after(only(AGENT), "r", "x", "enter").effects).toEqual(
      running(["agent", "send", "--", AGENT.id, "x"], "return"),
    );
    expect(after(only(AGENT), "r", "enter").effects).toEqual([]);
  });
  test("d answers a decision with an option and a message", () => {
    expect(after(only(ASKS), "d", "paste:2 use the other key", "enter").effects).toEqual(
      running(["decisions", "resolve", ASKS.id, "2", "-m", "use the other key"], "wait"),
    );
    expect(after(only(AGENT), "d", "1", "enter").effects).toEqual(
      running(["decisions", "resolve", ASKS.id, "1"], "wait"),
    );
    expect(after(only(ASKS), "d", "x", "enter").effects).toEqual([]);
    expect(after(only(OLD), "d").state.mode.is).toBe("table");
  });
  test("n asks for engine, folder and prompt; a prompt is never an option", () => {
    const { state } = after(only(OLD), "n", "enter", "enter");
    expect(after(state, "paste:--help", "enter").effects).toEqual(
      running(["start", "--detach", "--cwd", "/srv/shop", "codex", " --help"], "return"),
    );
    expect(after(state, "enter").effects).toEqual([]);
  });
  test("n begins with an empty engine, and keeps an unknown one in its field until Enter again", () => {
    const typed = after(only(OLD), "n", ..."dmeo".split(""));
    const { state } = after(typed.state, "enter");
    expect(state.mode).toMatchObject({ is: "form", at: 0, field: { text: "dmeo" } });
    expect(bottomOf(state)).toContain(
      '"dmeo" is not an engine here; Enter takes it anyway. Engines: codex, claude, demo',
    );
    expect(after(state, "enter").state.mode).toMatchObject({ at: 1 });
    expect(after(state, "ctrl-u", ..."demo".split(""), "enter").state.mode).toMatchObject({ at: 1 });
    expect(after(only({ ...OLD, engine: "" }), "n", "enter").state.mode).toMatchObject({ at: 0 });
  });
  test.each(["escape", "failure"])("the typed texts are there again after %s", (why) => {
    const filled = after(only(OLD), "n", "enter", "enter", ..."go".split(""));
    const { state, effects } = after(filled.state, why === "escape" ? "escape" : "enter");
    const [effect] = effects;
    const ended = (ok: boolean) =>
      effect?.do === "run" ? home(state, { type: "ran", command: effect.command, ok }).state : state;
    expect(after(ended(false), "n", "enter", "enter").state.mode).toMatchObject({ field: { text: "go" } });
    // Texts belong to one form, and a success ends them.
    expect(after(ended(false), "r").state.mode).toMatchObject({ field: { text: "" } });
    if (why === "failure")
      expect(after(ended(true), "n", "enter", "enter").state.mode).toMatchObject({ field: { text: "" } });
  });
  test("d shows the options while the user answers, on the decision and on its agent", () => {
    for (const one of [ASKS, AGENT]) {
      const lines = bottomOf(after(opened([one, ...(one === ASKS ? [] : [ASKS])]), "down", "d").state);
      expect(lines).toMatch(/1\. Allow\n2\. Refuse\nNumber, and a message if you like, for example: 1 use/);
    }
  });
  test("d says that a row has no decision, until the next key", () => {
    const { state } = after(only(OLD), "d");
    expect(bottomOf(state)).toContain("1a2b3c4d has no open decision.");
    expect(bottomOf(after(state, "down").state)).not.toContain("no open decision");
  });
  test.each(["q", "ctrl-c"])("%s quits", (key) => {
    expect(after(opened(), key).effects).toEqual([{ do: "close" }]);
  });
});

describe("the view", () => {
  const EVIL = "\u001b]0;owned\u0007\u001b[2J\u202etxt\r\n日本語 👍🏽";
  const lines = (state: HomeState) => viewOfHome(state).map((line) => painted(line, false).trimEnd());
  const shown = (columns: number, rows: number) =>
    home(opened(ALL, { columns, rows }), {
      type: "exchange",
      key: ASKS.key,
      exchange: { asked: null, answer: "The agent asks for permission.\n\n1. Allow\n2. Refuse" },
    }).state;

  test.each([
    [80, 24],
    [120, 30],
  ])("at %i × %i", (columns, rows) => {
    expect(lines(shown(columns, rows))).toMatchSnapshot();
  });
  test("of help and of a question", () => {
    expect(lines(after(shown(80, 24), "?").state).slice(2, 12)).toMatchSnapshot();
    expect(lines(after(only(LIVE), "s").state).at(-1)).toBe("Stop run 5e6f7a8b? [y/n]");
  });
  test.each([
    [20, 5],
    [40, 10],
    [80, 24],
    [120, 40],
    [200, 50],
  ])("fits %i × %i and shows hostile text as text", (columns, rows) => {
    const evil = row(EVIL, EVIL, { engine: EVIL, state: EVIL, next: EVIL, decision: EVIL, live: true });
    const first = home(opened([evil, OLD], { columns, rows }), {
      type: "rows",
      rows: [evil, OLD],
      note: EVIL,
    }).state;
    const at = home(first, {
      type: "exchange",
      key: evil.key,
      exchange: { asked: EVIL, answer: EVIL },
    }).state;
    const screens = [
      ["?"],
      ["s"],
      ["r", `paste:${EVIL}`],
      ["d", `paste:${EVIL}`],
      ["/", `paste:${EVIL}`],
      ["n"],
    ];
    for (const keys of [[], ...screens]) {
      const drawn = lines(after(at, ...keys).state);
      expect(drawn).toHaveLength(rows);
      for (const line of drawn) expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    }
  });
});
