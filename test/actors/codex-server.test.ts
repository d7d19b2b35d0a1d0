/** The double of `codex app-server` as a program, talked to by the real dialogue of the Codex profile. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { QuestionAnswer, EngineEvent, Question } from "../../src/core/events.ts";
import { codex } from "../../src/engines/codex.ts";
import type { AttemptRequest, DialogueMessage } from "../../src/engines/engine.ts";
import { bundleAgent } from "./bundle.ts";

let root = "";
let agent = "";
let work = "";
const children: ChildProcess[] = [];

beforeAll(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-demo-")));
  agent = bundleAgent("actor", root);
});

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(root, { recursive: true, force: true });
});

beforeEach(() => {
  work = mkdtempSync(join(root, "case-"));
  mkdirSync(join(work, "codex"));
});

interface Scene extends Partial<AttemptRequest> {
  /** REPRISE_DEMO_SERVER */
  readonly cue?: string;
  readonly answer?: QuestionAnswer;
  /** Stop as soon as one of these is seen. */
  readonly stopAt?: EngineEvent["type"];
  /** Give up when this is the last word: the server will say no more. */
  readonly until?: (lines: number) => boolean;
}

interface Told {
  readonly seen: readonly string[];
  readonly text: string;
  readonly session: string | undefined;
  readonly questions: readonly Question[];
  readonly lines: number;
  readonly waits: readonly string[];
  readonly exit: number | string | null;
}

/** One conversation to its end, the end of the process, or silence. */
async function talk({ cue, answer, stopAt, until, ...part }: Scene = {}): Promise<Told> {
  const command = codex.command({
    ...{ kind: "start", interactive: false, message: "hello", session: null, forkTo: null, given: [] },
    ...{ givenHasNoPrompt: true, native: [], cwd: work, tag: "t-1", trustCwd: false },
    dialogue: { approval: "on-request" },
    ...part,
  });
  const dialogue = command.dialogue?.(() => Date.parse("2026-11-15T02:30:00Z"));
  if (dialogue === undefined) throw new Error("there is no dialogue");
  const env = {
    PATH: process.env["PATH"] ?? "",
    CODEX_HOME: join(work, "codex"),
    REPRISE_DEMO_SERVER: cue ?? "",
  };
  const child = spawn(process.execPath, [agent, "--as", "codex", "--", ...command.args], { cwd: work, env });
  children.push(child);
  child.stdin.on("error", () => undefined);
  child.stderr.resume();
  const events: EngineEvent[] = [];
  const questions: Question[] = [];
  let lines = 0;
  const take = (said: DialogueMessage): void => {
    events.push(...said.events);
    for (const line of said.send) child.stdin.write(`${line}\n`);
    if (said.events.some(({ type }) => type === stopAt)) take(dialogue.interrupt());
    for (const question of said.questions) {
      questions.push(question);
      if (answer !== undefined) take(dialogue.answer(question.id, answer));
    }
    if (said.over || until?.(lines) === true) child.stdin.end();
  };
  const exit = new Promise<number | string | null>((done) => {
    child.on("close", (code, signal) => done(signal ?? code));
  });
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines += 1;
    take(dialogue.heard(line));
  });
  take(dialogue.open());
  return {
    exit: await exit,
    seen: events.map(short),
    text: events.map((event) => (event.type === "text" ? event.text : "")).join(""),
    session: events.flatMap((event) => (event.type === "session" ? [event.session] : []))[0],
    questions,
    lines,
    waits: dialogue.waitsFor(),
  };
}

function short(event: EngineEvent): string {
  if (event.type === "tool") return `tool ${event.ok === false ? "failed" : event.state}`;
  if (event.type !== "turn_ended") return event.type;
  return [event.result, event.trouble?.kind].filter(Boolean).join(" ");
}

const end = ({ seen }: Told) => seen.at(-1);

describe("a turn", () => {
  test("begins, streams and ends; another process remembers it", async () => {
    const first = await talk();
    const seen = first.seen.filter((event) => event !== "unknown");
    expect([first.exit, seen.slice(0, 3), end(first)]).toEqual([
      0,
      ["session", "turn_started", "text"],
      "completed",
    ]);
    expect(first.text).toContain(
      'You said "hello". This is our first exchange. model=gpt-demo sandbox=read-only',
    );
    const { session = null } = first;
    const next = await talk({ kind: "resume", session, message: "go on", given: ["-s", "read-only"] });
    expect([next.session, next.text]).toEqual([
      session,
      expect.stringContaining('I remember 1 earlier message: "hello".'),
    ]);
    const third = await talk({ kind: "resume", session, message: "and?", rights: ["-s", "read-only"] });
    expect(third.text).toContain("I remember 2 earlier messages");
  });

  test("can be continued by `codex exec`", async () => {
    const { session = "" } = await talk();
    const args = [agent, "--as", "codex", "--", "exec", "resume", "--json", session, "-"];
    const env = { PATH: process.env["PATH"] ?? "", CODEX_HOME: join(work, "codex") };
    const { stdout } = spawnSync(process.execPath, args, {
      cwd: work,
      env,
      input: "go on",
      encoding: "utf8",
    });
    expect(stdout).toContain(session);
    expect(stdout).toContain("I remember 1 earlier message");
  });

  test("in an unknown thread is reported as lost", async () => {
    const session = "01a1dd0a-a544-73b2-b8f5-4b79ca6d17f0";
    expect(end(await talk({ kind: "resume", session }))).toBe("failed session_lost");
  });

  test.each([
    ["@@429", "failed rate_limited"],
    ["@@quota", "failed quota"],
    ["@@401", "failed auth"],
    ["@@503", "failed overloaded"],
    ["@@network", "failed network"],
    ["@@context", "failed context_full"],
    ["@@tool:shell", "completed"],
    ["@@forge", "completed"],
    ["@@retry:1", "completed"],
  ])("%s: %s", async (directive, then) => {
    const told = await talk({ message: `hello ${directive}` });
    expect([end(told), told.session]).toEqual([then, expect.not.stringContaining("deadbeef")]);
  });

  test.each(["session", "turn_started", "text"] as const)("stops at the first %s", async (stopAt) => {
    const told = await talk({ message: "hello @@slow:20 @@wait:20", stopAt });
    expect([told.exit, end(told)]).toEqual([0, "interrupted"]);
  });
});

describe("questions", () => {
  test.each([
    ["accept", "completed", "Did pwd."],
    ["accept_for_session", "completed", "Did pwd."],
    ["decline", "completed", "Was not allowed pwd."],
    ["cancel", "interrupted", ""],
  ] as const)("%s: %s", async (answer, then, words) => {
    const told = await talk({ message: "hello @@ask:pwd", answer });
    expect([end(told), told.questions.map(({ what }) => what)]).toEqual([then, ["/bin/bash -lc 'pwd'"]]);
    expect(told.text).toContain(words);
  });

  test("are not repeated by this process for a command accepted for the session", async () => {
    const message = "hello @@ask:pwd @@ask:pwd @@ask:ls";
    expect((await talk({ message, answer: "accept_for_session" })).questions).toHaveLength(2);
    expect((await talk({ message, answer: "accept" })).questions).toHaveLength(3);
  });

  test("decide whether files are written", async () => {
    const may = await talk({ message: "hello @@ask-files:may.txt", answer: "accept" });
    const not = await talk({ message: "hello @@ask-files:not.txt", answer: "decline" });
    expect([may, not].map(({ questions }) => questions[0]?.what)).toEqual(["add may.txt", "add not.txt"]);
    expect(["may.txt", "not.txt"].map((file) => existsSync(join(work, file)))).toEqual([true, false]);
  });

  test("are not asked with the policy never, and nothing is done", async () => {
    const told = await talk({ message: "hello @@ask:pwd", dialogue: { approval: "never" } });
    expect([told.questions, end(told)]).toEqual([[], "completed"]);
    expect(told.text).toContain("Was not allowed pwd.");
  });

  test("that are sent twice are answered, and acted on, once", async () => {
    const told = await talk({ message: "hello @@ask:pwd", answer: "accept", cue: "twice:question" });
    expect([told.questions.length, end(told)]).toEqual([1, "completed"]);
  });
});

describe("going wrong on cue", () => {
  const MOMENTS = [
    "initialize",
    "initialized",
    "thread",
    "turn",
    "first-delta",
    "mid-tool",
    "question",
    "end",
  ];
  const message = "hello @@tool:shell @@ask:pwd";

  test.each(MOMENTS)("dies at %s", async (moment) => {
    const told = await talk({ message, answer: "accept", cue: `die:${moment}` });
    expect(told.exit).toBe("SIGKILL");
    expect(told.seen.some((event) => /completed|failed|interrupted/.test(event))).toBe(false);
  });

  test.each([
    ["initialize", 0, ["initialize"]],
    ["thread", 1, ["thread/start"]],
  ] as const)("never answers %s", async (moment, lines, waits) => {
    const child = talk({ cue: `mute:${moment}`, until: (heard) => heard >= lines });
    expect(await child).toMatchObject({ exit: 0, waits, lines });
  });

  test.each(MOMENTS.flatMap((moment) => [`garbage:${moment}`, `ids:${moment}`]))(
    "%s harms nothing",
    async (cue) => {
      const told = await talk({ message, answer: "accept", cue });
      expect([told.exit, end(told), told.seen.includes("unknown")]).toEqual([0, "completed", true]);
    },
  );

  test("a flood and a long line are only long", async () => {
    const told = await talk({ cue: "flood:turn:5000 line:first-delta:1000000" });
    expect([end(told), told.lines > 5000]).toEqual(["completed", true]);
  });

  test.each([
    ["refuse:thread:busy", "failed session_busy"],
    ["refuse:thread:lost", "failed session_lost"],
    ["refuse:initialize", "failed other"],
    ["refuse:turn", "failed other"],
    ["wide:thread", "failed usage"],
  ])("%s: %s", async (cue, then) => {
    expect(end(await talk({ cue }))).toBe(then);
  });

  test("answers in another thread than requested", async () => {
    const { session = null } = await talk();
    const told = await talk({ kind: "resume", session, given: ["-s", "read-only"], cue: "other:thread" });
    expect([told.session, told.seen]).toEqual([expect.stringContaining("deadbeef"), ["session"]]);
  });

  test("a cue in the message works", async () => {
    const dead = await talk({ message: "hello @@server:die:first-delta" });
    expect(dead.exit).toBe("SIGKILL");
    const { session = null } = dead;
    const next = await talk({ kind: "resume", session, message: "go on", given: ["-s", "read-only"] });
    expect(next.text).toContain('I remember 1 earlier message: "hello".');
  });
});
