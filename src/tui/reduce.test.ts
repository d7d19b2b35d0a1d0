/** Messages in, state and effects out: every key in every state, late messages, and the paths through a turn. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleComment as comment } from "../../test/fake-review-service.ts";
import type { Question } from "../core/events.ts";
import type { InterruptedSession, TurnResult } from "../reviews/reviews.ts";
import { meaningOf } from "./keys.ts";
import { layoutOf } from "./layout.ts";
import { headerLines } from "./list.ts";
import { reduce } from "./reduce.ts";
import { commentAtCursor, firstState, type Effect, type Message, type State } from "./state.ts";
import { statusOf } from "./status.ts";

const PULL_REQUEST = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const NOW = Date.parse("2026-05-02T12:00:00Z");
const COMMENTS = [
  comment(1),
  comment(2, { inReplyTo: "1", author: "bob", association: "OWNER" }),
  comment(3, { author: "mallory", association: "NONE", filePath: "src/evil.ts" }),
  comment(4, { resolved: true }),
  ...Array.from({ length: 36 }, (_, at) =>
    comment(5 + at, { filePath: `src/f${at % 5}.ts`, resolved: null }),
  ),
];
const TRUSTED = new Set(COMMENTS.filter((one) => one.association !== "NONE"));
const LOADED = { comments: COMMENTS, title: "t", head: { pullRequest: null, folder: null }, warnings: [] };
const SESSION: InterruptedSession = {
  sidecar: "s.json",
  handle: "1a2b3c4d",
  threadId: "thr_1",
  startedAt: "2026-05-02T10:02:00Z",
};
const QUESTION: Question = { id: "q1", about: "command", what: "make", cwd: "/x", reason: null, key: "k1" };
const DONE: TurnResult = { status: "completed", reason: "done", handle: "h", exitCode: 0, refused: null };

/** Applies messages and keys in order; returns the effects of all of them. */
function after(from: State, ...steps: (Message | string)[]): { state: State; effects: Effect[] } {
  let state = from;
  const effects: Effect[] = [];
  for (const step of steps) {
    const key = typeof step === "string" ? meaningOf(state, step) : null;
    const message = typeof step === "string" ? key && ({ type: "pressed", key } as const) : step;
    if (message === null) continue;
    const next = reduce(state, message);
    state = next.state;
    effects.push(...next.effects);
  }
  return { state, effects };
}

const loading = firstState(PULL_REQUEST, { columns: 80, rows: 24 }, NOW);
const list = after(loading, { type: "loaded", ticket: 1, loaded: LOADED, trusted: TRUSTED }).state;
const looking = after(list, "x").state;
const found = (state: State, session: InterruptedSession | null): Message => ({
  type: "found",
  ticket: state.ticket,
  session,
});
const offered = after(looking, found(looking, SESSION)).state;
const running = after(looking, found(looking, null)).state;
const asks = (question: Question, state = running): Message => ({
  type: "updates",
  ticket: state.ticket,
  updates: [{ type: "question", question }],
});
const ends = (result: Partial<TurnResult> = {}, state = running): Message => ({
  type: "ended",
  ticket: state.ticket,
  result: { ...DONE, ...result },
});
const at = (ms: number): Message => ({ type: "tick", now: NOW + ms });
const asked = after(running, asks(QUESTION), at(1_000)).state;
const refused = after(offered, "y", {
  type: "ended",
  ticket: offered.ticket + 1,
  result: { ...DONE, status: "failed", refused: "thread is busy" },
}).state;

const TINY: Message = { type: "resized", size: { columns: 39, rows: 24 } };
const STATES: Record<string, State> = {
  loading,
  failed: after(loading, { type: "load_failed", ticket: 1, reason: "no network" }).state,
  empty: after(loading, {
    type: "loaded",
    ticket: 1,
    loaded: { ...LOADED, comments: [] },
    trusted: new Set(),
  }).state,
  list,
  pane: after(list, "enter").state,
  code: after(list, "c").state,
  help: after(list, "?").state,
  filters: after(list, "f").state,
  looking,
  offered,
  refused,
  running,
  asked,
  "asked, with help": after(asked, "?").state,
  leaving: after(running, "q").state,
  "leaving while asked": after(asked, "q").state,
  waiting: after(running, "q", "i").state,
  "ended while leaving": after(running, "q", ends()).state,
  "refused while leaving": after(offered, "y", "q", {
    type: "ended",
    ticket: offered.ticket + 1,
    result: { ...DONE, status: "failed", refused: "thread is busy" },
  }).state,
  "asked on a screen too small to show it": after(asked, TINY).state,
  "offered on a screen too small to show it": after(offered, TINY).state,
  "the list on a screen too small to show it": after(list, TINY).state,
};

const KEYS = [
  ...Array.from("jkgGufcxirqyandsz?"),
  "up",
  "down",
  "pageup",
  "pagedown",
  "home",
  "end",
  "space",
  "enter",
  "escape",
  "tab",
  "ctrl-c",
  "ctrl-l",
  "ctrl-z",
  "unknown",
  "é",
  "constructor",
];

/** The effect of each key; keys that are not listed have none. */
const COMMON = { r: "load", q: "quit 0", "ctrl-c": "quit 0", "ctrl-l": "redraw", "ctrl-z": "suspend" };
const BUSY = { "ctrl-l": "redraw", "ctrl-z": "suspend" };
const CODE = { c: "codeAround", tab: "codeAround" };
const EXPECTED: Record<string, Record<string, string>> = {
  loading: { ...COMMON, r: "" },
  failed: COMMON,
  empty: COMMON,
  list: { ...COMMON, ...CODE, x: "findInterrupted" },
  pane: { ...COMMON, ...CODE, x: "findInterrupted" },
  code: { ...COMMON, x: "findInterrupted" },
  help: { ...COMMON, ...CODE, x: "findInterrupted" },
  filters: { ...COMMON, ...CODE, x: "findInterrupted" },
  looking: { ...COMMON, ...CODE },
  offered: {
    ...COMMON,
    ...CODE,
    y: "begin thr_1",
    n: "decline, begin fresh",
    escape: "decline, begin fresh",
  },
  refused: { ...COMMON, c: "codeAround", y: "begin fresh" },
  running: { ...BUSY, r: "load", i: "interrupt", c: "codeAround" },
  asked: {
    ...BUSY,
    r: "load",
    i: "interrupt",
    y: "answer q1 accept",
    a: "answer q1 accept_for_session",
    n: "answer q1 decline",
    c: "answer q1 cancel",
  },
  leaving: { ...BUSY, i: "interrupt", d: "discard", "ctrl-c": "interrupt, interrupt, quit 130" },
  waiting: { ...BUSY, "ctrl-c": "interrupt, interrupt, quit 130" },
};
const GONE = {
  ...BUSY,
  ...{ y: "quit 0", enter: "quit 0", q: "quit 0", i: "quit 0", d: "quit 0", "ctrl-c": "quit 0" },
};
EXPECTED["ended while leaving"] = GONE;
EXPECTED["refused while leaving"] = GONE;
EXPECTED["asked on a screen too small to show it"] = BUSY;
EXPECTED["offered on a screen too small to show it"] = { ...BUSY, q: "quit 0", "ctrl-c": "quit 0" };
EXPECTED["the list on a screen too small to show it"] = { ...BUSY, q: "quit 0", "ctrl-c": "quit 0" };
EXPECTED["asked, with help"] = EXPECTED["asked"] ?? {};
EXPECTED["leaving while asked"] = EXPECTED["leaving"] ?? {};

function words(effects: readonly Effect[]): string {
  return effects
    .map((effect) => {
      if (effect.do === "quit") return `quit ${effect.code}`;
      if (effect.do === "begin") return `begin ${effect.order.resume?.threadId ?? "fresh"}`;
      return effect.do === "answer" ? `answer ${effect.id} ${effect.decision}` : effect.do;
    })
    .join(", ");
}

test.each(Object.keys(STATES))("every key has its effect: %s", (name) => {
  const state = STATES[name]!;
  const happened = Object.fromEntries(
    KEYS.map((key) => [key, words(after(state, key).effects)] as const).filter(
      ([, effects]) => effects !== "",
    ),
  );
  const expected = Object.entries(EXPECTED[name]!).filter(([, effects]) => effects !== "");
  expect(happened).toEqual(Object.fromEntries(expected));
});

describe("the list", () => {
  test.each([
    ["j j j", 3, 0],
    ["j k k", 0, 0],
    ["down down up", 1, 0],
    ["G", 39, 31],
    ["G g", 0, 0],
    ["end home", 0, 0],
    ["pagedown", 8, 0],
    ["pagedown pagedown", 16, 8],
    ["G pageup", 31, 31],
    ["G j", 39, 31],
  ])("%s", (keys, cursor, top) => {
    const { state } = after(list, ...keys.split(" "));
    expect([state.cursor, state.top, layoutOf(state).list.rows]).toEqual([cursor, top, 9]);
  });

  test("puts replies below the comment they answer, whatever the ids say", () => {
    const comments = [
      comment(1, { inReplyTo: "2" }),
      comment(2, { inReplyTo: "1" }),
      comment(3, { inReplyTo: "3" }),
      comment(4, { inReplyTo: "nowhere" }),
      comment(5),
      comment(6, { inReplyTo: "4" }),
      comment(7, { inReplyTo: "6" }),
      comment(4, { body: "same id" }),
    ];
    const message = { type: "loaded", ticket: 1, loaded: { ...LOADED, comments }, trusted: TRUSTED } as const;
    const { rows } = after(loading, message).state;
    expect(rows.map((row) => `${row.depth}:${row.comment.id}`)).toEqual([
      "0:3",
      "0:4",
      "1:6",
      "2:7",
      "0:5",
      "0:4",
      "0:1",
      "1:2",
    ]);
  });

  test("applies the chosen filter, and the cursor stays on its comment", () => {
    const at4 = after(list, "j", "j", "j").state;
    expect(commentAtCursor(at4)?.id).toBe("4");
    const unresolved = after(list, "f", "j", "enter").state;
    expect([unresolved.filter, unresolved.visible.length, unresolved.overlay]).toEqual([
      { by: "unresolved" },
      3,
      null,
    ]);
    const unknown = after(list, "f", "j", "j", "enter").state;
    expect([unknown.filter, unknown.visible.length]).toEqual([{ by: "unknown" }, 36]);
    const file = after(at4, "f", "f", "f", "f", "enter").state;
    expect(file.filter).toEqual({ by: "file", value: "src/cart.ts" });
    expect([file.visible.length, commentAtCursor(file)?.id]).toEqual([3, "4"]);
    const author = after(list, "f", "G", "enter").state;
    expect([author.filter, author.visible.length]).toEqual([{ by: "author", value: "mallory" }, 1]);
    expect(after(author, "f", "escape").state.filter).toEqual(author.filter);
  });

  test("counts in its header the comments that the filters show", () => {
    const says = (state: State) =>
      headerLines(state, 2)[1]
        ?.map(({ text }) => text)
        .join("");
    expect(says(list)).toBe("40 comments · 3 unresolved · 36 unknown");
    expect(says(after(list, "f", "j", "enter").state)).toBe("40 comments · 3 shown: unresolved · 36 unknown");
    expect(says(after(list, "f", "j", "j", "enter").state)).toBe("40 comments · 36 shown: unknown");
    const of = (comments: typeof COMMENTS) =>
      after(loading, { type: "loaded", ticket: 1, loaded: { ...LOADED, comments }, trusted: TRUSTED }).state;
    const known = of(COMMENTS.slice(0, 4));
    expect(says(known)).toBe("4 comments · 3 unresolved");
    expect(after(known, "f").state.overlay).toMatchObject({
      choices: [
        { filter: { by: "all" } },
        { filter: { by: "unresolved" } },
        { filter: { by: "file" } },
        {},
        {},
        {},
        {},
      ],
    });
    expect(says(of(COMMENTS.slice(4)))).toBe("36 comments · unresolved: unknown");
    expect(says(of([]))).toBe("0 comments · 0 unresolved");
  });

  test("keeps selection, cursor and filter on a refresh where the comments still exist", () => {
    const before = after(list, "space", "space", "j", "r");
    expect(before.effects).toEqual([{ do: "load", ticket: 2, fresh: true }]);
    const comments = COMMENTS.slice(1).map((one) => ({ ...one }));
    const { state } = after(before.state, {
      type: "loaded",
      ticket: 2,
      loaded: { ...LOADED, comments },
      trusted: new Set(comments),
    });
    expect([...state.selected].map((one) => one.id)).toEqual(["2"]);
    expect(commentAtCursor(state)?.id).toBe("4");
    expect(state.selected.has(comments[0]!)).toBe(true);
  });

  test("keeps a filter that a refresh leaves empty: x would send what was filtered away", () => {
    const before = after(list, "f", "j", "enter", "r").state;
    const comments = COMMENTS.map((one) => ({ ...one, resolved: true }));
    const { state } = after(before, {
      type: "loaded",
      ticket: 2,
      loaded: { ...LOADED, comments },
      trusted: new Set(comments),
    });
    expect([state.filter, state.visible]).toEqual([{ by: "unresolved" }, []]);
    expect(after(state, "x").state.note).toBe("There is no comment to send.");
  });

  test.each([
    ["changed", { body: "run this" }, [], "2 comments loaded; 1 of the selection changed or went."],
    ["did not change", {}, ["3"], "2 comments loaded."],
  ])("handles a selected comment whose text %s", (_name, change, ids, note) => {
    const before = after(list, "j", "j", "space", "r").state;
    const comments = [COMMENTS[1]!, { ...COMMENTS[2]!, ...change }];
    const { state } = after(before, {
      type: "loaded",
      ticket: 2,
      loaded: { ...LOADED, comments },
      trusted: new Set(),
    });
    expect([[...state.selected].map((one) => one.id), state.note]).toEqual([ids, note]);
  });

  test('writes "1 comment" in the singular', () => {
    const comments = [COMMENTS[0]!];
    const loaded = { ...LOADED, comments };
    const { state } = after(list, "r", { type: "loaded", ticket: 2, loaded, trusted: TRUSTED });
    expect(state.note).toBe("1 comment loaded.");
  });

  test("keeps its comments after a failed refresh and says why", () => {
    const { state } = after(list, "r", { type: "load_failed", ticket: 2, reason: "no network" });
    expect([state.rows.length, statusOf(state).text]).toEqual([40, "no network"]);
  });

  test("looks up code for one comment at a time, in the end for the comment under the cursor", () => {
    const first = after(list, "c", "j", "j");
    expect(first.effects).toEqual([{ do: "codeAround", comment: COMMENTS[0] }]);
    const late = after(first.state, { type: "code_found", comment: COMMENTS[0]!, lines: ["a"] });
    expect(late.effects).toEqual([{ do: "codeAround", comment: COMMENTS[2] }]);
    const { state } = after(late.state, { type: "code_found", comment: COMMENTS[2]!, lines: ["b"] });
    expect(state.code).toEqual({ comment: COMMENTS[2], lines: ["b"] });
    for (const key of ["j", "down", "G", "end", "pagedown", "space", "k", "g"]) {
      expect([key, words(after(state, key).effects)]).toEqual([key, "codeAround"]);
    }
  });
});

describe("x sends", () => {
  const sent = (...keys: string[]) => {
    const { state } = after(list, ...keys);
    return state.codex.phase === "looking" ? state.codex.comments.map((one) => one.id) : state.note;
  };
  test("the trusted comments that are shown", () => {
    expect(sent("x")).toHaveLength(39);
    expect(sent("x")).not.toContain("3");
    expect(sent("f", "f", "f", "f", "enter", "x")).toEqual(["1", "2", "4"]);
  });
  test("the selection, including untrusted authors and comments outside of the filter", () => {
    expect(sent("j", "j", "space", "g", "space", "x")).toEqual(["1", "3"]);
    expect(sent("j", "j", "space", "f", "f", "f", "enter", "x")).toEqual(["3"]);
    expect(sent("space", "u", "x")).toHaveLength(39);
  });
  test.each([
    ["looking", looking],
    ["offered", offered],
    ["refused", refused],
  ])("today's comments, if they came before the answer: %s", (_name, state) => {
    const load = (comments: typeof COMMENTS) => {
      const before = after(state, "r").state;
      const loaded = { ...LOADED, comments };
      return after(before, { type: "loaded", ticket: before.ticket, loaded, trusted: new Set(comments) })
        .state;
    };
    const fresh = [comment(1, { body: "edited" }), comment(90)];
    expect(load(fresh).codex).toEqual({ ...state.codex, comments: fresh });
    const none = load([]);
    expect([none.codex, none.note]).toEqual([{ phase: "idle" }, "There is no comment to send."]);
  });
  test("nothing, and says so", () => {
    expect(sent("f", "G", "enter", "x")).toMatch(/trusted author/);
    expect(after(STATES["empty"]!, "x").state.note).toBe("There is no comment to send.");
  });
  test("no selection of an id that a stranger took over", () => {
    const twin = comment(1, { author: "mallory", association: "NONE" });
    const comments = [COMMENTS[0]!, twin];
    const both = after(loading, {
      type: "loaded",
      ticket: 1,
      loaded: { ...LOADED, comments },
      trusted: new Set([COMMENTS[0]!]),
    }).state;
    const { effects } = after(both, "x", found({ ...both, ticket: 2 }, null));
    expect(effects.at(-1)).toMatchObject({ do: "begin", order: { comments: [COMMENTS[0]] } });
  });
});

describe("a turn", () => {
  test("begins fresh at once where no session was interrupted", () => {
    expect(words(after(looking, found(looking, null)).effects)).toBe("begin fresh");
  });

  test("is offered in a line of the status bar, with the date unless it is today", () => {
    const local = new Date(SESSION.startedAt);
    const time = [local.getHours(), local.getMinutes()]
      .map((part) => String(part).padStart(2, "0"))
      .join(":");
    expect(statusOf(offered).text).toBe(`Interrupted session from ${time}. Resume? [y/n]`);
    const later = after(offered, { type: "tick", now: NOW + 3 * 86_400_000 }).state;
    expect(statusOf(later).text).toMatch(
      /^Interrupted session from 2026-05-0\d \d\d:\d\d\. Resume\? \[y\/n\]$/,
    );
    expect(words(after(offered, "j", "x", "y").effects)).toBe("begin thr_1");
  });

  test("is offered with its obstacle, its time, and the fate of stored approvals", () => {
    const offer = (more: Partial<InterruptedSession>, columns = 80) => {
      const { state } = after(looking, { type: "resized", size: { columns, rows: 24 } });
      return statusOf(after(state, found(looking, { ...SESSION, ...more })).state).text;
    };
    const why = "the model was overloaded: try later";
    expect(offer({ why })).toMatch(
      /^The model was overloaded: try later\.\sInterrupted session from .* Resume\? \[y\/n\]$/,
    );
    const limit = {
      why: "Codex was rate limited: words",
      resetsAt: new Date(NOW + 23 * 60_000).toISOString(),
    };
    expect(offer(limit)).toMatch(
      /^Codex was rate limited until \d\d:\d\d \(in 23 min\)\.\nInterrupted session from /,
    );
    // An expired limit blocks nothing.
    expect(offer({ ...limit, resetsAt: new Date(NOW - 1).toISOString() })).toMatch(
      /^Codex was rate limited: words\.\s/,
    );
    const approvals = ["touch a", "touch b"];
    expect(offer({ approvals })).toMatch(
      /^2 stored approvals: asked again, unless with --keep-approvals\.\nInterrupted /,
    );
    expect(offer({ approvals, keepsApprovals: true })).toMatch(
      /^2 stored approvals: given again \(--keep-approvals\)\.\s/,
    );
    for (const columns of [40, 60, 80, 120, 200]) {
      const size: Message = { type: "resized", size: { columns, rows: 24 } };
      const session = { ...SESSION, why: "words ".repeat(100), approvals };
      const { state } = after(looking, size, found(looking, session));
      expect(layoutOf(state).status.join(" ")).toMatch(/Resume\? \[y\/n\]$/);
      const many = after(offered, size, "y", {
        type: "ended",
        ticket: offered.ticket + 1,
        result: { ...DONE, status: "failed", refused: "words of a long refusal ".repeat(30) },
      }).state;
      expect(layoutOf(many).status.join(" ")).toMatch(/Start fresh\? \[y\/n\]$/);
    }
  });

  test("that failed for a passing reason says until when, and that x resumes it", () => {
    const resetsAt = new Date(NOW + 23 * 60_000).toISOString();
    const failed = { status: "failed", reason: "a usage limit", open: true, resetsAt } as const;
    expect(statusOf(after(running, ends(failed)).state).text).toMatch(
      /^Codex execution failed until \d\d:\d\d \(in 23 min\) \(x resumes it\): a usage limit$/,
    );
  });

  test("that crashed shows Codex's last words on stderr in its pane", () => {
    const crash = {
      status: "interrupted",
      reason: "the agent ended",
      lastWords: ["panicked: boom"],
    } as const;
    expect(after(running, ends(crash)).state.log.entries).toContainEqual({
      kind: "trouble",
      text: "stderr: panicked: boom",
    });
  });

  test("begins once when x is pressed twice", () => {
    expect(words(after(list, "x", "x", "x").effects)).toBe("findInterrupted");
    const twice = after(running, "x");
    expect([words(twice.effects), statusOf(twice.state).text]).toEqual([
      "",
      "Codex is already at work; i interrupts it.",
    ]);
  });

  test("offers a fresh start after a refused resume, with the reason", () => {
    expect(statusOf(refused).text).toBe("thread is busy. Start fresh? [y/n]");
    // Codex did no work, so nothing failed.
    expect(refused.log.entries.at(-1)).toMatchObject({ text: "Session not resumed: thread is busy" });
    expect(after(refused, "n").state.codex).toEqual({ phase: "idle" });
    expect(words(after(refused, "y").effects)).toBe("begin fresh");
  });

  test("offers a fresh start after a failed look-up", () => {
    const { state } = after(looking, { type: "find_failed", ticket: looking.ticket, reason: "disk" });
    expect([statusOf(state).text, words(after(state, "y").effects)]).toEqual([
      "disk. Start fresh? [y/n]",
      "begin fresh",
    ]);
  });

  test.each([
    ["completed", "Codex execution completed"],
    ["interrupted", "Codex execution interrupted: why"],
    ["failed", "Codex execution failed: why"],
    ["cancelled", "Codex execution cancelled: why"],
  ] as const)("ends %s", (status, text) => {
    const { state, effects } = after(running, ends({ status, reason: "why" }));
    expect([statusOf(state).text, state.codex, effects]).toEqual([text, { phase: "idle" }, []]);
  });

  test("is not answered by a key that was pressed before the question came up", () => {
    const fresh = after(running, at(5_000), asks(QUESTION)).state;
    for (const key of ["y", "a", "n", "c"]) {
      expect(after(fresh, key)).toEqual({ state: fresh, effects: [] });
      expect(after(fresh, at(5_399), key).effects).toEqual([]);
      expect(after(fresh, at(5_400), key).effects).toMatchObject([{ do: "answer", id: "q1" }]);
      // The clock was set back.
      expect(after(fresh, at(1_000), key).effects).toMatchObject([{ do: "answer", id: "q1" }]);
    }
    // Nor the next question, when a key is pressed twice; the wait of an open question does not start over.
    const two = after(fresh, at(5_300), asks({ ...QUESTION, id: "q2" })).state;
    expect(words(after(two, at(5_500), "y", "y").effects)).toBe("answer q1 accept");
    expect(words(after(two, at(5_500), "y", at(5_900), "y").effects)).toBe(
      "answer q1 accept, answer q2 accept",
    );
  });

  test("queues questions, which disappear when answered, settled, or with the turn", () => {
    const second = { ...QUESTION, id: "q2" };
    const third = { ...QUESTION, id: "q3" };
    const three = after(asked, asks(second), asks(third), asks(QUESTION), at(2_000)).state;
    expect(statusOf(three).text).toContain("· 2 more");
    const ids = (state: State) =>
      state.codex.phase === "running" ? state.codex.questions.map((q) => q.id) : null;
    expect(ids(three)).toEqual(["q2", "q3", "q1"]);
    expect(words(after(three, "n", at(3_000), "a", at(4_000), "y", "y").effects)).toBe(
      "answer q2 decline, answer q3 accept_for_session, answer q1 accept",
    );
    const settled: Message = {
      type: "updates",
      ticket: running.ticket,
      updates: [{ type: "settled", id: "q3", decision: null }],
    };
    expect(ids(after(three, settled).state)).toEqual(["q2", "q1"]);
    expect(after(three, ends()).state.codex).toEqual({ phase: "idle" });
  });

  test.each<[string, Message]>([
    ["comments", { type: "loaded", ticket: 99, loaded: LOADED, trusted: TRUSTED }],
    ["a failure to load", { type: "load_failed", ticket: 99, reason: "x" }],
    ["a session", { type: "found", ticket: 1, session: SESSION }],
    ["a failed look-up", { type: "find_failed", ticket: 1, reason: "x" }],
    ["a question of an earlier turn", { ...asks(QUESTION), ticket: 1 } as Message],
    ["an earlier turn's end", { ...ends(), ticket: 1 } as Message],
    ["code of another comment", { type: "code_found", comment: COMMENTS[9]!, lines: ["x"] }],
    ["an answer to nothing", { type: "pressed", key: { type: "answer", decision: "accept" } }],
    ["consent to nothing", { type: "pressed", key: { type: "consent", yes: true } }],
    ["leaving without a question", { type: "pressed", key: { type: "leave", how: "discard" } }],
  ])("stale: %s", (_name, message) => {
    for (const state of [list, running, looking])
      expect(reduce(state, message)).toEqual({ state, effects: [] });
  });
});

describe("quitting", () => {
  const leaving = STATES["leaving"]!;
  test("asks while a turn runs; Esc stays", () => {
    expect(statusOf(leaving).text).toMatch(/interrupt and quit.*discard and quit.*stay/);
    expect(after(leaving, "escape").state).toEqual(running);
  });
  test.each([
    ["i", "interrupt"],
    ["d", "discard"],
  ])("%s: waits for the end, then leaves", (key, effect) => {
    const { state, effects } = after(leaving, key, ends());
    expect([state.leaving, words(effects)]).toEqual(["waiting", `${effect}, quit 0`]);
  });
  test("asks only whether to quit after the turn has ended", () => {
    const { state, effects } = after(leaving, ends());
    expect([statusOf(state).text, effects]).toEqual(["Codex execution completed. Quit? [y/n]", []]);
    expect([after(state, "n").state.leaving, words(after(state, "escape").effects)]).toEqual(["no", ""]);
    const refusal = STATES["refused while leaving"]!;
    expect(statusOf(refusal).text).toBe("Codex has ended. Quit? [y/n]");
    expect(statusOf(after(refusal, "n").state).text).toBe("thread is busy. Start fresh? [y/n]");
  });
  test("does not ask when the turn is over and only being saved", () => {
    const event = { type: "turn_ended", result: "completed" } as const;
    const over = after(running, {
      type: "updates",
      ticket: running.ticket,
      updates: [{ type: "event", event }],
    }).state;
    const { state, effects } = after(over, "q");
    expect([state.leaving, effects]).toEqual(["waiting", []]);
    expect(words(after(state, ends()).effects)).toBe("quit 0");
    expect(words(after(over, "ctrl-c", "ctrl-c").effects)).toBe("interrupt, interrupt, quit 130");
  });
  test("ends at once on the second Ctrl-C, and asks again after staying", () => {
    expect(words(after(running, "ctrl-c", "ctrl-c").effects)).toBe("interrupt, interrupt, quit 130");
    expect(words(after(running, "ctrl-c", "escape", "ctrl-c").effects)).toBe("");
  });
  test("by a signal interrupts and waits a moment", () => {
    const message: Message = { type: "terminated", code: 143 };
    expect(after(list, message).effects).toEqual([{ do: "quit", code: 143, waitMs: 5_000 }]);
    expect(words(after(asked, message).effects)).toBe("interrupt, quit 143");
  });
});

test("any order of messages at any size keeps the cursor in the list and one turn at a time", () => {
  const message = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...KEYS) },
    fc.record({
      type: fc.constant("resized" as const),
      size: fc.record({ columns: fc.integer({ min: 1, max: 200 }), rows: fc.integer({ min: 1, max: 60 }) }),
    }),
    fc.constantFrom("found", "none", "ended", "asked", "refused", "loaded"),
  );
  fc.assert(
    fc.property(fc.array(message, { maxLength: 60 }), (steps) => {
      let state = list;
      let turns = 0;
      for (const step of steps) {
        const { ticket } = state;
        const world = new Map<string, Message>(
          Object.entries({
            found: { type: "found", ticket, session: SESSION },
            none: { type: "found", ticket, session: null },
            ended: { type: "ended", ticket, result: DONE },
            refused: { type: "ended", ticket, result: { ...DONE, refused: "no" } },
            asked: { type: "updates", ticket, updates: [{ type: "question", question: QUESTION }] },
            loaded: { type: "loaded", ticket, loaded: LOADED, trusted: TRUSTED },
          }),
        );
        const next = after(state, typeof step === "string" ? (world.get(step) ?? step) : step);
        for (const effect of next.effects) {
          if (effect.do === "begin") turns += 1;
        }
        if (state.codex.phase === "running" && next.state.codex.phase !== "running") turns -= 1;
        ({ state } = next);
        expect(turns).toBe(state.codex.phase === "running" ? 1 : 0);
        expect(state.cursor).toBeGreaterThanOrEqual(0);
        expect(state.cursor).toBeLessThan(Math.max(1, state.visible.length));
        const { rows } = layoutOf(state).list;
        if (rows > 0) {
          expect(state.cursor - state.top).toBeLessThan(rows);
          expect(state.top).toBeLessThanOrEqual(state.cursor);
        }
      }
    }),
    { numRuns: 200 },
  );
});
