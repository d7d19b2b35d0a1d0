import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { attemptLike, hold, runLike } from "../../test/contracts/store-samples.ts";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { describeCopy } from "../state/escrow.ts";
import { type ConversationRead, readConversation } from "./conversation-reader.ts";

const SESSION = "e44c5f57-70ca-4f52-9b28-28ca7c164f2d";
const OTHER = "e44c5f57-70ca-4f52-9b28-28ca7c164f2e";

let root: string;
let deps: TestDeps;
beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "conversation-")));
  deps = await testDeps(root);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function recorded(
  fields: Partial<RunRecord>,
  ...attempts: Partial<AttemptRecord>[]
): Promise<RunRecord> {
  const { runId } = runLike(1);
  const home = { runDirectory: join(deps.state.runsRoot, runId), cwd: "/w/project" };
  const run = runLike(1, { attempts: attempts.length, ...home, ...fields });
  await deps.store.createRun(run);
  const fence = await hold(deps.store, run);
  for (const [at, one] of attempts.entries()) {
    mkdirSync(join(run.runDirectory, "attempts", String(at + 1)), { recursive: true });
    await deps.store.createAttempt(attemptLike(run, at + 1, one), fence);
  }
  return run;
}

const seen = (value: string) => ({ value, source: "stdout", at: "", attempt: 1, verifiedAt: null }) as const;

/** A run in Claude's UI, and where its session is. */
async function inClaude(fields: Partial<RunRecord> = {}): Promise<{ run: RunRecord; path: string }> {
  const folder = join(root, ".claude/projects/-w-project");
  mkdirSync(folder, { recursive: true });
  const session = { field: "session_id", value: SESSION, source: "stdout", verifiedAt: null } as const;
  const run = await recorded(
    { agentName: "claude", session, sessions: [seen(SESSION)], ...fields },
    { interactive: true, message: null },
  );
  return { run, path: join(folder, `${SESSION}.jsonl`) };
}

const line = (type: "user" | "assistant", text: string, at: string) =>
  `${JSON.stringify({ type, message: { content: [{ type: "text", text }] }, uuid: `${type} ${at}`, timestamp: at })}\n`;

const words = ({ events }: ConversationRead) =>
  events.map(({ event }) => (event.type === "message" || event.type === "text" ? event.text : event.type));

test("the conversation of a UI grows from cursor to cursor, without its torn last line", async () => {
  const { run, path } = await inClaude();
  const early = await readConversation(deps, run);
  expect(early).toMatchObject({ events: [], source: "events" });
  writeFileSync(path, line("user", "one", "2026-01-01T00:00:02.000Z"));
  const first = await readConversation(deps, run, { from: early.next });
  expect(first).toMatchObject({ source: "session", reset: true, more: false, cut: false, unknown: ["KEY"] });
  expect(first.events).toEqual([
    {
      event: { type: "message", text: "one" },
      id: "user 2026-01-01T00:00:02.000Z",
      atMs: Date.UTC(2026, 0, 1, 0, 0, 2),
      attempt: 1,
    },
  ]);
  const answer = line("assistant", "two", "2026-01-01T00:00:03.000Z");
  appendFileSync(path, answer.slice(0, 30));
  const torn = await readConversation(deps, run, { from: first.next });
  expect([torn.events, torn.next, torn.reset]).toEqual([[], first.next, false]);
  appendFileSync(path, answer.slice(30));
  const second = await readConversation(deps, run, { from: torn.next });
  expect([words(second), second.reset]).toEqual([["two"], false]);
  writeFileSync(path, line("user", "x", "2026-01-01T00:00:04.000Z"));
  const again = await readConversation(deps, run, { from: second.next });
  expect([words(again), again.reset]).toEqual([["x"], true]);
});

test("a long session is read in parts, and a line beyond the limit is left out", async () => {
  const { run, path } = await inClaude();
  const count = 50;
  const all = Array.from({ length: count }, (_none, n) =>
    line("user", `word ${n}`, `2026-01-01T00:01:${10 + n}.000Z`),
  );
  writeFileSync(path, all.join(""));
  appendFileSync(path, `${"x".repeat(9 * 1024 * 1024)}\n${line("user", "end", "2026-01-01T00:02:00.000Z")}`);
  const found: string[] = [];
  let isCut = false;
  let calls = 0;
  let part = await readConversation(deps, run, { bytes: 1_000 });
  for (; ; calls += 1) {
    found.push(...words(part));
    isCut ||= part.cut;
    if (!part.more) break;
    part = await readConversation(deps, run, { from: part.next, bytes: 1_000 });
  }
  expect(found).toEqual([...Array.from({ length: count }, (_none, n) => `word ${n}`), "end"]);
  expect([isCut, calls > 5, calls < 40]).toEqual([true, true, true]);
});

test("a lost session is read from the run's copy, and sessions follow each other", async () => {
  const escrow = join(runLike(1).runDirectory.replace("/state/runs", deps.state.runsRoot), "escrow");
  mkdirSync(escrow, { recursive: true });
  writeFileSync(join(escrow, "copy.jsonl"), line("user", "kept", "2026-01-01T00:00:02.000Z"));
  const file = await describeCopy(join(escrow, "copy.jsonl"), "copy.jsonl");
  const copy = { session: OTHER, takenAt: "2026-01-01T00:00:03.000Z", files: [file] };
  const { run, path } = await inClaude({ kept: [copy], sessions: [seen(OTHER), seen(SESSION)] });
  const first = await readConversation(deps, run);
  expect([words(first), first.source]).toEqual([["kept"], "escrow"]);
  writeFileSync(path, line("user", "next", "2026-01-01T00:00:05.000Z"));
  const second = await readConversation(deps, run, { from: first.next });
  expect([words(second), second.source, second.reset]).toEqual([["next"], "session", false]);
});

test("secrets are removed before long results of tools are cut", async () => {
  deps = await testDeps(root, { env: { HOME: root, LAB_API_KEY: "canary-value-0815-and-more" } });
  const { run, path } = await inClaude();
  const content = `${"a".repeat(1_020)}canary-value-0815-and-more${"b".repeat(9_000)}`;
  const result = { type: "tool_result", tool_use_id: "t", content };
  writeFileSync(
    path,
    `${line("user", "canary-value-0815-and-more", "2026-01-01T00:00:02.000Z")}${JSON.stringify({ type: "user", message: { content: [result] } })}\n`,
  );
  const found = await readConversation(deps, run);
  expect(JSON.stringify(found)).not.toMatch(/canary/);
  const [, ended] = found.events;
  expect(ended?.event).toMatchObject({ type: "tool", cut: expect.any(Number) });
  expect(JSON.stringify(ended).length).toBeLessThan(5_000);
});

test("recorded events follow each other over attempts, and an old recording gets its message", async () => {
  const run = await recorded({}, { message: "old" }, { message: "new" });
  const log = (n: number) => join(run.runDirectory, `attempts/${n}/events.jsonl`);
  const text = (t: number, words_: string) =>
    `${JSON.stringify({ t, stream: "stdout", line: 1, type: "text", text: words_ })}\n`;
  writeFileSync(log(1), `${text(5, "a")}not json\n{"type":"tool"}\n{"type":"text","text":7}\n`);
  const opening = JSON.stringify({ t: 0, type: "message", text: "new", opening: true });
  writeFileSync(log(2), `${opening}\n${text(7, "b")}`);
  const first = await readConversation(deps, run);
  expect(first).toMatchObject({ source: "events", reset: false, more: false });
  expect(first.events.map(({ attempt, event }) => [attempt, event])).toEqual([
    [1, { type: "message", text: "old", opening: true }],
    [1, { type: "text", text: "a" }],
    [2, { type: "message", text: "new", opening: true }],
    [2, { type: "text", text: "b" }],
  ]);
  appendFileSync(log(2), text(9, "c"));
  const second = await readConversation(deps, run, { from: first.next });
  expect([words(second), second.reset]).toEqual([["c"], false]);
  const parts: string[] = [];
  for (let part = await readConversation(deps, run, { bytes: 40 }); ;) {
    parts.push(...words(part));
    if (!part.more) break;
    part = await readConversation(deps, run, { from: part.next, bytes: 40 });
  }
  expect(parts).toEqual(["old", "a", "new", "b", "c"]);
});

test("an export is read again as a whole, and only new and grown events come back", async () => {
  const fixture = new URL("../engines/opencode.fixtures/conversation.jsonl", import.meta.url);
  const whole = JSON.parse(readFileSync(fixture, "utf8")) as { info: { id: string }; messages: object[] };
  const { id } = whole.info;
  const escrow = join(runLike(1).runDirectory.replace("/state/runs", deps.state.runsRoot), "escrow");
  mkdirSync(escrow, { recursive: true });
  const copyOf = async (messages: object[]) => {
    writeFileSync(join(escrow, "session.json"), JSON.stringify({ ...whole, messages }));
    const file = await describeCopy(join(escrow, "session.json"), "session.json");
    return { escrow: { session: id, takenAt: "2026-01-01T00:00:03.000Z", files: [file] } };
  };
  const short = await copyOf(whole.messages.slice(0, 2));
  const fields = { agentName: "opencode", sessions: [seen(id)], ...short };
  const run = await recorded(fields, { interactive: true });
  const first = await readConversation(deps, run);
  expect([first.events.length, first.source]).toEqual([3, "escrow"]);
  const same = await readConversation(deps, run, { from: first.next });
  expect([same.events, same.reset]).toEqual([[], false]);
  const longer = { ...run, ...(await copyOf(whole.messages)) };
  const second = await readConversation(deps, longer, { from: first.next });
  expect([second.events[0]?.event.type, second.reset]).toEqual(["text", false]);
  const other = { ...run, ...(await copyOf(whole.messages.slice(2))) };
  expect(await readConversation(deps, other, { from: second.next })).toMatchObject({ reset: true });
});

test.each([
  "",
  "x",
  "e30",
  Buffer.from('{"s":7,"at":1}').toString("base64url"),
  Buffer.from('{"e":1,"at":-1}').toString("base64url"),
])("the cursor %j is refused", async (from) => {
  const run = await recorded({}, {});
  await expect(readConversation(deps, run, { from })).rejects.toMatchObject({ code: "usage" });
});
