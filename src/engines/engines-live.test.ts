/**
 * Real UIs, recorded as changes of their files over time: replayed one change after another, as the holder would see
 * them.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fakeFiles } from "../../test/session-files.ts";
import type { Activity } from "../core/events.ts";
import { claude } from "./claude.ts";
import { codex } from "./codex.ts";
import type { Engine } from "./engine.ts";
import type { LiveUi, UiState } from "./session-store.ts";

interface Change {
  readonly at: string;
  readonly registry?: { readonly pid: number; readonly procStart: string; readonly sessionId: string } | null;
  readonly file?: string;
  readonly line?: object;
  readonly hook?: object;
  readonly typed?: string;
  readonly status?: string;
}

const HOME = "/w/home";
const HOOKS = "/w/hooks.jsonl";

function recorded(engine: Engine, name: string): readonly Change[] {
  const text = readFileSync(new URL(`${engine.id}.fixtures/live-${name}.jsonl`, import.meta.url), "utf8");
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Change);
}

interface Options {
  readonly hooks?: boolean;
  readonly registry?: boolean;
  /** Looks after this many changes. */
  readonly every?: number;
}

/** The engine's files after each change, and the agent to observe. */
function* replay(engine: Engine, changes: readonly Change[], options: Options) {
  const contents: Record<string, string> = {};
  const entry = changes.find(({ registry }) => registry !== undefined && registry !== null)?.registry;
  const { pid = 1, procStart: start = "1" } = entry ?? {};
  let session: string | null = null;
  let status: string | undefined;
  for (const change of changes) {
    const { registry, file, line, hook } = change;
    if (registry !== undefined && options.registry !== false) {
      contents[`${HOME}/sessions/${pid}.json`] = registry === null ? "" : JSON.stringify(registry);
    }
    if (file !== undefined) {
      const path =
        engine.id === "claude" ? `${HOME}/projects/-w-project/${file}` : `${HOME}/sessions/${file}`;
      contents[path] = `${contents[path] ?? ""}${JSON.stringify(line)}\n`;
      session = /([0-9a-f-]{36})\.jsonl$/.exec(file)?.[1] ?? session;
    }
    if (hook !== undefined && options.hooks !== false) {
      contents[HOOKS] = `${contents[HOOKS] ?? ""}${JSON.stringify(hook)}\n\n`;
    }
    status = change.status ?? status;
    const agent: LiveUi = {
      ...{ pid, start, session, startedAtMs: Date.parse(changes[0]?.at ?? ""), hooks: HOOKS },
      ...(status === undefined ? {} : { status }),
    };
    yield { change, agent, files: fakeFiles({ ...contents }) };
  }
}

/** The reported states in order, with the number of turns; null if unknown. */
async function story(engine: Engine, name: string, options: Options = {}): Promise<readonly string[]> {
  const told: string[] = [];
  let before: UiState | undefined;
  let n = 0;
  const all = recorded(engine, name);
  // The last look is at the last line of a conversation, unless every change is looked at.
  const end =
    options.every === undefined ? all.length : all.findLastIndex(({ file }) => file !== undefined) + 1;
  for (const { agent, files } of replay(engine, all.slice(0, end), options)) {
    n += 1;
    if (n !== end && n % (options.every ?? 1) !== 0) continue;
    const where = { home: HOME, cwd: "/w/project" };
    const ui = { ...agent, ...(before === undefined ? {} : { before }) };
    const state = (await engine.activity?.(ui, where, files)) ?? null;
    before = state ?? before;
    const words = state === null ? "null" : `${shown(state.activity)} ${state.turns}`;
    if (words !== told.at(-1)) told.push(words);
  }
  return told;
}

function shown(activity: Activity): string {
  if (activity.state === "waiting") return `waiting(${activity.what})`;
  if (activity.state !== "error") return activity.state;
  const { kind, resetsAt } = activity.trouble;
  return `error(${kind}${resetsAt === undefined ? "" : ` until ${resetsAt.slice(11, 16)}`})`;
}

/** Both versions report the same states, one sometimes a moment earlier. */
describe.each(["", "v197-"])("claude %s", (version) => {
  const settled = async (name: string, options: Options = {}) =>
    (await story(claude, `${version}${name}`, { ...options, hooks: options.hooks ?? true })).filter(
      (words) => !/^(null|starting)/.test(words),
    );

  test("reports two turns, /clear, and one more turn", async () => {
    const told = await settled("basic");
    expect(told.filter((words) => words.startsWith("idle"))).toEqual(
      expect.arrayContaining(["idle 0", "idle 1", "idle 2", "idle 3"]),
    );
    expect(told.at(-1)).toBe("idle 3");
    expect(told.some((words) => /error|waiting/.test(words))).toBe(false);
  });

  test.each([true, false])(
    "reports an error after a failed turn, which the next message clears; hooks: %s",
    async (hooks) => {
      const told = await settled("limit", { hooks });
      const errors = told.filter((words) => words.startsWith("error"));
      expect(errors.map((words) => /^error\((\w+)/.exec(words)?.[1]).filter(isNew)).toEqual([
        "rate_limited",
        "overloaded",
        "auth",
        "quota",
        "context_full",
      ]);
      expect(errors).toContainEqual(expect.stringMatching(/^error\(rate_limited until \d\d:\d\d\) 1$/));
      expect([told.indexOf("error(rate_limited) 0") < told.indexOf("working 0", 2), told.at(-1)]).toEqual([
        true,
        "error(context_full) 1",
      ]);
    },
  );

  test("reports a question as long as it is open, and Esc is no error", async () => {
    const told = await settled("ask");
    expect(
      told.filter((words, at) => !(words.startsWith("working") && told[at - 1]?.startsWith("working"))),
    ).toEqual([
      "idle 0",
      "working 0",
      "waiting(permission prompt) 0",
      "idle 0",
      "working 0",
      "waiting(permission prompt) 0",
      "working 0",
      "idle 1",
    ]);
  });
});

function isNew<T>(value: T, at: number, all: readonly T[]): boolean {
  return value !== all[at - 1];
}

describe("claude", () => {
  test.each(["esc", "queue"])("%s: finishes queued messages before it counts as idle", async (name) => {
    expect(await story(claude, name)).toEqual([
      "null",
      "starting 0",
      "idle 0",
      "working 0",
      "working 1",
      "idle 1",
    ]);
  });

  test("is read from the hooks without a registry, until the conversation file takes over", async () => {
    const limit = await story(claude, "limit", { registry: false });
    expect(limit.slice(0, 6)).toEqual([
      "null",
      "working 0",
      "error(rate_limited) 0",
      "working 0",
      "idle 0",
      "idle 1",
    ]);
    const ask = await story(claude, "ask", { registry: false });
    expect(ask.slice(0, 4)).toEqual(["null", "working 0", "waiting(permission prompt) 0", "working 0"]);
  });

  test("is never called idle without either", async () => {
    for (const name of ["basic", "limit", "ask"]) {
      const told = await story(claude, name, { registry: false, hooks: false });
      expect(told.filter((words) => /idle|error|waiting/.test(words))).toEqual([]);
    }
  });

  test.each([1, 3, 7])("ends alike for a look at every change or at every %dth", async (every) => {
    const last = (await story(claude, "limit", { every })).filter((words) => words !== "null").at(-1);
    expect(last).toMatch(/^error\(context_full\) 1$/);
  });

  const PATH = `${HOME}/projects/-w-project/48523434-5870-47de-9a81-323ac06cb7a6.jsonl`;
  const AGENT: LiveUi = {
    ...{ pid: 7, start: "100", session: "48523434-5870-47de-9a81-323ac06cb7a6", startedAtMs: 5_000 },
  };
  const registry = (fields: object) => ({
    [`${HOME}/sessions/7.json`]: JSON.stringify({
      ...{ pid: 7, procStart: "100", sessionId: AGENT.session, status: "idle", statusUpdatedAt: 6_000 },
      ...fields,
    }),
  });
  const at = (ms: number) => new Date(ms).toISOString();
  const failed = (ms: number, more: object = {}) =>
    JSON.stringify({
      ...{
        type: "assistant",
        timestamp: at(ms),
        isApiErrorMessage: true,
        error: "rate_limit",
        apiErrorStatus: 429,
      },
      message: { id: "m", content: [{ type: "text", text: "API Error: Request rejected (429)" }] },
      ...more,
    });
  const done = (ms: number, id = "m1") =>
    JSON.stringify({
      type: "assistant",
      timestamp: at(ms),
      message: { id, stop_reason: "end_turn", content: [] },
    });
  const asked = (ms: number, content: string, more: object = {}) =>
    JSON.stringify({ type: "user", timestamp: at(ms), message: { role: "user", content }, ...more });

  test.each<[string, Record<string, string>, string]>([
    ["an entry that a killed process of this pid left behind", registry({ procStart: "99" }), "null"],
    ["no entry", {}, "null"],
    ["an entry that is half written", { [`${HOME}/sessions/7.json`]: '{"pid":7,"sess' }, "null"],
    ["an unknown status", registry({ status: "shell" }), "null"],
    ["no status yet", registry({ status: undefined }), "starting 0"],
    ["no transcript yet", registry({}), "idle 0"],
    ["an error of an earlier process", { ...registry({}), [PATH]: `${failed(1_000)}\n` }, "idle 0"],
    ["an error", { ...registry({}), [PATH]: `${failed(6_000)}\n` }, "error(rate_limited) 0"],
    ["an error in a line that is torn", { ...registry({}), [PATH]: failed(6_000).slice(0, -1) }, "idle 0"],
    [
      "an error of a sub-agent",
      { ...registry({}), [PATH]: `${failed(6_000, { isSidechain: true })}\n` },
      "idle 0",
    ],
    [
      "an answer in two blocks",
      { ...registry({}), [PATH]: `${done(6_000)}\n${done(6_001)}\n${done(6_002, "m2")}\n` },
      "idle 2",
    ],
    [
      "an error, and a message taken back with Esc",
      { ...registry({}), [PATH]: `${failed(6_000)}\n${asked(6_500, "again")}\n` },
      "idle 0",
    ],
    [
      "an error, and a command of the UI",
      {
        ...registry({}),
        [PATH]: `${failed(6_000)}\n${asked(6_500, "<command-name>/model</command-name>")}\n`,
      },
      "error(rate_limited) 0",
    ],
    ["no JSON", { ...registry({}), [PATH]: 'junk "user"\n[1,"assistant"]\n' }, "idle 0"],
  ])("%s", async (_what, contents, then) => {
    const state = await claude.activity?.(AGENT, { home: HOME, cwd: "/w/project" }, fakeFiles(contents));
    expect(state === null || state === undefined ? "null" : `${shown(state.activity)} ${state.turns}`).toBe(
      then,
    );
  });

  test.each<[string, readonly string[], string, boolean]>([
    ["a message", [asked(9_500, "go on")], "go on", true],
    ["pasted lines", [asked(9_500, "one\ntwo")], "one\r\ntwo\n", true],
    ["an older one", [asked(8_000, "go on")], "go on", false],
    ["another one", [asked(9_500, "stop")], "go on", false],
    [
      "the result of a tool that says the same",
      [
        JSON.stringify({
          type: "user",
          timestamp: at(9_500),
          message: { content: [{ type: "tool_result", content: "go on" }] },
        }),
      ],
      "go on",
      false,
    ],
    [
      "queued",
      [
        JSON.stringify({
          type: "queue-operation",
          operation: "enqueue",
          timestamp: at(9_500),
          content: "go on",
        }),
      ],
      "go on",
      true,
    ],
    [
      "taken from the queue",
      [
        JSON.stringify({
          type: "queue-operation",
          operation: "remove",
          timestamp: at(9_500),
          content: "go on",
        }),
      ],
      "go on",
      false,
    ],
    [
      "given during a tool",
      [
        JSON.stringify({
          type: "attachment",
          timestamp: at(9_500),
          attachment: { type: "queued_command", prompt: "go on" },
        }),
      ],
      "go on",
      true,
    ],
    ["nothing at all", [asked(9_500, "go on")], "  ", false],
  ])("recognizes a message in the conversation: %s", async (_what, lines, message, then) => {
    const files = fakeFiles({ ...registry({}), [PATH]: `${lines.join("\n")}\n` });
    const agent = { ...AGENT, typedAtMs: 10_000 };
    expect(await claude.receivedMessage?.(message, agent, { home: HOME, cwd: "/w/project" }, files)).toBe(
      then,
    );
  });

  test.each(["", "v197-"])("recognizes the typed message in the conversation, %s", async (version) => {
    const changes = recorded(claude, `${version}basic`);
    const typed = changes.findIndex((change) => change.typed?.includes("line one") === true);
    const typedAtMs = Date.parse(changes[typed]?.at ?? "");
    const seen: boolean[] = [];
    for (const { agent, files, change } of replay(claude, changes, {})) {
      const taken = await claude.receivedMessage?.(
        "line one\nline two",
        { ...agent, typedAtMs },
        { home: HOME, cwd: "/w/project" },
        files,
      );
      if (taken === true && Date.parse(change.at) < typedAtMs)
        throw new Error("taken up before it was typed");
      seen.push(taken === true);
    }
    expect(seen.filter((taken, n) => taken !== seen[n - 1])).toEqual([
      false,
      true,
      ...(seen.at(-1) === true ? [] : [false]),
    ]);
  });
});

describe("codex", () => {
  test.each([
    ["basic", ["working 0", "idle 1", "working 1", "idle 2", "working 2", "idle 2", "working 2", "idle 3"]],
    [
      "limit",
      [
        "working 0",
        "error(rate_limited) 0",
        "working 0",
        expect.stringMatching(/^error\(rate_limited until \d\d:\d\d\) 0$/),
        "working 0",
        "error(context_full) 0",
      ],
    ],
    ["ask", ["working 0", "waiting(permission) 0", "working 0", "idle 1"]],
  ])("%s", async (name, then) => {
    const told = await story(codex, name);
    const begun = told.findIndex((words) => words.startsWith("working"));
    expect(told.slice(begun)).toEqual(then);
  });

  test("does not take a status that a tool forged for the end of a turn", async () => {
    const changes = recorded(codex, "ask");
    for (const { agent, files } of replay(codex, changes.slice(0, 8), {})) {
      if (agent.session === null) continue;
      const state = await codex.activity?.(
        { ...agent, status: "state=idle" },
        { home: HOME, cwd: "/w" },
        files,
      );
      if (state?.mark?.turn.state === "running") expect(state.activity).toEqual({ state: "working" });
    }
  });

  test("recognizes the typed message in the conversation", async () => {
    const changes = recorded(codex, "basic");
    const all = [...replay(codex, changes, {})];
    const first = all.findIndex(({ change }) => JSON.stringify(change).includes("line one"));
    const ask = (n: number, message: string, typedAtMs: number) => {
      const { agent, files } = all[n] ?? all[0]!;
      return codex.receivedMessage?.(message, { ...agent, typedAtMs }, { home: HOME, cwd: "/w" }, files);
    };
    const typedAtMs = Date.parse(all[first]?.change.at ?? "") - 300;
    expect([
      await ask(first - 1, "line one\nline two", typedAtMs),
      await ask(first, "line one\nline two", typedAtMs),
      await ask(first, "line one\nline two", typedAtMs + 60_000),
      await ask(first, "something else", typedAtMs),
    ]).toEqual([false, true, false, false]);
  });
});
