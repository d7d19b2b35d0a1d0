import { describe, expect, test } from "vitest";
import { painted } from "../terminal/paint.ts";
import {
  firstPick,
  pick,
  type PickEffect,
  type PickRow,
  type PickState,
  type PickWish,
} from "./pick-state.ts";
import { viewOfPick } from "./pick-view.ts";

const NOW = Date.parse("2026-05-02T12:00:00Z");
const row = (handle: string, title: string, more: Partial<PickRow> = {}): PickRow => ({
  ...{ runId: `r-${handle}`, handle, title, engine: "codex", status: "completed" },
  ...{ updatedAt: "2026-05-02T11:00:00Z", place: "~/shop", here: true },
  text: `${title} ${handle} codex`.toLowerCase(),
  ...more,
});
const CART = row("1a2b3c4d", "rename the cart module");
const TEST = row("5e6f7a8b", "fix the flaky test", { updatedAt: "2026-05-02T11:59:00Z", status: "failed" });
const AWAY = row("9c0d1e2f", "write the changelog", { here: false, place: "~/notes" });

const WISH: PickWish = { question: "reprise stop: which run?", many: false, message: null };

function opened(wish: Partial<PickWish> = {}, rows = [CART, TEST, AWAY], size = { columns: 80, rows: 24 }) {
  const first = firstPick({ ...WISH, ...wish }, { size, nowMs: NOW, colours: true });
  return pick(pick(first, { type: "rows", rows, done: false }).state, { type: "rows", rows: [], done: true })
    .state;
}

/** The state after these keys, and the effects of the last one. */
function after(state: PickState, ...keys: string[]): { state: PickState; effects: readonly PickEffect[] } {
  let effects: readonly PickEffect[] = [];
  let now = state;
  for (const key of keys) ({ state: now, effects = [] } = pick(now, { type: "key", key }));
  return { state: now, effects };
}

const handles = ({ found }: PickState) => found.map(({ handle }) => handle);
const closing = (list: readonly string[], message: string | null = null) => [
  { do: "close", picked: { handles: list, message } },
];

describe("the list", () => {
  test("begins with the runs of this folder, the last used first", () => {
    expect(handles(opened())).toEqual([TEST.handle, CART.handle]);
  });
  test("shows the runs of all folders after Ctrl-A, those of this folder first", () => {
    const { state } = after(opened(), "ctrl-a");
    expect(handles(state)).toEqual([TEST.handle, CART.handle, AWAY.handle]);
    expect(handles(after(state, "ctrl-a").state)).toEqual([TEST.handle, CART.handle]);
  });
  test("shows all folders at once if this folder has no run", () => {
    expect(handles(opened({}, [AWAY]))).toEqual([AWAY.handle]);
  });
  test("keeps the order of runs that were found before, and shows all folders", () => {
    expect(handles(opened({ isOrdered: true }, [CART, AWAY, TEST]))).toEqual([
      CART.handle,
      AWAY.handle,
      TEST.handle,
    ]);
  });
  test("is filtered by typed letters, and counts the fitting runs of other folders", () => {
    const { state } = after(opened(), ..."changelog".split(""));
    expect(handles(state)).toEqual([]);
    expect(state.elsewhere).toBe(1);
    expect(handles(after(opened(), ..."crt".split("")).state)).toEqual([CART.handle]);
    expect(handles(after(opened(), ..."crt".split(""), "ctrl-u").state)).toHaveLength(2);
  });
  test("keeps the cursor on its run while more runs arrive", () => {
    const { state } = after(opened(), "down");
    const more = row("00000000", "newest", { updatedAt: "2026-05-02T12:00:00Z" });
    const next = pick(state, { type: "rows", rows: [more, CART], done: false }).state;
    expect(handles(next)).toEqual([more.handle, TEST.handle, CART.handle]);
    expect(next.found[next.choice.cursor]).toBe(CART);
  });
});

describe("a key", () => {
  test("Enter takes the run at the cursor", () => {
    expect(after(opened(), "down", "enter").effects).toEqual(closing([CART.handle]));
  });
  test("Enter takes nothing from an empty list", () => {
    expect(after(opened(), ..."zzzz".split(""), "enter").effects).toEqual([]);
  });
  test("Tab marks several where the command takes several", () => {
    expect(after(opened({ many: true }), "tab", "tab", "enter").effects).toEqual(
      closing([TEST.handle, CART.handle]),
    );
    expect(after(opened({ many: true }), "tab", "up", "tab", "down", "enter").effects).toEqual(
      closing([CART.handle]),
    );
    expect(after(opened(), "tab", "enter").effects).toEqual(closing([TEST.handle]));
  });
  test.each(["escape", "ctrl-c"])("%s leaves", (key) => {
    expect(after(opened(), key).effects).toEqual([{ do: "close", picked: null }]);
  });
  test("moving to a run asks for its last exchange once", () => {
    const { state, effects } = after(opened(), "down");
    expect(effects).toEqual([{ do: "look", row: CART }]);
    const exchange = { asked: "a", answer: "b" };
    const seen = pick(state, { type: "exchange", runId: CART.runId, exchange }).state;
    expect(after(seen, "up", "down").effects).toEqual([]);
  });
});

describe("a command that removes", () => {
  const bottom = (state: PickState) => painted(viewOfPick(state).at(-1) ?? [], false);
  test("asks with the name of the run, and takes it only after y", () => {
    const { state, effects } = after(opened({ asks: "Remove" }), "down", "enter");
    expect(effects).toEqual([]);
    expect(bottom(state)).toBe("Remove 1a2b3c4d (rename the cart module)? [y/n]");
    for (const key of ["n", "enter", "escape", "paste:y"]) {
      expect(after(state, key).effects).toEqual([]);
      expect(bottom(after(state, key).state)).toContain("Enter take");
    }
    expect(after(state, "ctrl-c").effects).toEqual([{ do: "close", picked: null }]);
    expect(after(state, "y").effects).toEqual(closing([CART.handle]));
  });
  test("asks about all marked runs", () => {
    const { state } = after(opened({ asks: "Remove", many: true }), "tab", "tab", "enter");
    expect(bottom(state)).toBe("Remove 2 runs: 5e6f7a8b, 1a2b3c4d? [y/n]");
    expect(after(state, "y").effects).toEqual(closing([TEST.handle, CART.handle]));
  });
  test("takes the run that it named, also if another one arrives in the meantime", () => {
    const { state } = after(opened({ asks: "Remove" }), "enter");
    const newer = row("00000000", "newest", { updatedAt: "2026-05-02T12:00:00Z" });
    const next = pick(state, { type: "rows", rows: [newer], done: true }).state;
    expect(after(next, "y").effects).toEqual(closing([TEST.handle]));
  });
  test("fits the screen and shows hostile titles as text", () => {
    const evil = row("deadbeef", `\u001b[2J${"x".repeat(300)}`);
    for (const columns of [20, 80]) {
      const { state } = after(opened({ asks: "Remove" }, [evil], { columns, rows: 24 }), "enter");
      expect(bottom(state)).toMatch(/^Remove dead[^\u001b]*\? \[y\/n\]$/);
      expect(bottom(state).length).toBeLessThanOrEqual(columns);
    }
  });
});

describe("the message", () => {
  const asking = () => opened({ message: "Enter without a message opens the UI." });
  test("is typed after the choice", () => {
    const { state } = after(asking(), "enter", "g", "o", "space", "paste:on\nand on");
    expect(after(state, "enter").effects).toEqual(closing([TEST.handle], "go on\nand on"));
  });
  test("may be empty", () => {
    expect(after(asking(), "enter", "space", "enter").effects).toEqual(closing([TEST.handle]));
  });
  test("is kept for the next choice after Esc", () => {
    const { state } = after(asking(), "enter", "g", "o", "escape", "down", "enter");
    expect(after(state, "enter").effects).toEqual(closing([CART.handle], "go"));
  });
  test("Esc goes back to the list, Ctrl-C leaves", () => {
    expect(after(asking(), "enter", "escape").state.message).toBeNull();
    expect(after(asking(), "enter", "ctrl-c").effects).toEqual([{ do: "close", picked: null }]);
  });
});

describe("the view", () => {
  const EVIL = "\u001b]0;owned\u0007\u001b[2J\u202etxt\r\n日本語 👍🏽";
  const seen = (state: PickState) => viewOfPick(state).map((line) => painted(line, false).trimEnd());

  test("at 80 columns", () => {
    const state = pick(opened({ many: true }), {
      type: "exchange",
      runId: TEST.runId,
      exchange: { asked: "fix the flaky test", answer: "It is fixed.\nThe clock was wrong." },
    }).state;
    expect(seen(after(state, "tab", "up").state)).toMatchSnapshot();
  });
  test("of a message", () => {
    expect(
      seen(after(opened({ message: "Empty: UI." }), "enter", ..."hello".split("")).state),
    ).toMatchSnapshot();
  });
  test.each([
    [20, 5],
    [40, 10],
    [80, 24],
    [120, 40],
    [200, 50],
  ])("fits %i × %i and shows hostile text as text", (columns, rows) => {
    const evil = row("deadbeef", EVIL, { engine: EVIL, status: EVIL, place: EVIL });
    const at = pick(opened({ question: EVIL, message: EVIL }, [evil, CART], { columns, rows }), {
      type: "exchange",
      runId: evil.runId,
      exchange: { asked: EVIL, answer: EVIL.repeat(20) },
    }).state;
    for (const state of [at, after(at, `paste:${EVIL}`).state, after(at, "enter", `paste:${EVIL}`).state]) {
      const lines = seen(state);
      expect(lines).toHaveLength(rows);
      for (const line of lines) expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    }
  });
});
