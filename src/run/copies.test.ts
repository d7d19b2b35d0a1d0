/** A copy goes only if another one holds all of it; what cannot be compared stays. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keepEscrowText } from "../audit/audit.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { findEngine } from "../engines/engines.ts";
import { holdsAll, saidSince } from "./copies.ts";

let runDirectory: string;
beforeAll(() => {
  runDirectory = mkdtempSync(join(tmpdir(), "reprise-compare-"));
  mkdirSync(join(runDirectory, "escrow"), { mode: 0o700 });
});
afterAll(() => rmSync(runDirectory, { recursive: true }));

const clock = { now: () => 0, mono: () => 0 };
const text = (id: string, words: string) => ({ id, type: "text", text: words });
const tool = (id: string, state: object) => ({ id, type: "tool", state });
const message = (id: string, ...parts: object[]) => ({ info: { id, role: "user" }, parts });
const exported = (...messages: object[]) => JSON.stringify({ info: { id: "ses_1" }, messages });

const ONE = message("msg_1", text("prt_1", "one"));
const cases: Record<string, [earlier: string, later: string, holds: boolean]> = {
  "another turn": [exported(ONE), exported(ONE, message("msg_2", text("prt_2", "two"))), true],
  "an answer that went on": [exported(message("msg_1", text("prt_1", "on"))), exported(ONE), true],
  "a tool that has returned": [
    exported(message("msg_1", tool("prt_1", { status: "running" }))),
    exported(message("msg_1", tool("prt_1", { status: "completed", output: "42" }))),
    true,
  ],
  "a message that was taken back": [
    exported(ONE, message("msg_2", text("prt_2", "two"))),
    exported(ONE),
    false,
  ],
  "a part that was taken back": [
    exported(message("msg_1", text("prt_1", "one"), text("prt_2", "two"))),
    exported(ONE),
    false,
  ],
  "other words": [exported(ONE), exported(message("msg_1", text("prt_1", "two"))), false],
  "what a tool returned was cleared": [
    exported(message("msg_1", tool("prt_1", { output: "42" }))),
    exported(message("msg_1", tool("prt_1", { output: "" }))),
    false,
  ],
  "an export without ids": [exported({ info: {}, parts: [] }), exported(ONE), false],
  "no export at all": [exported(ONE), "Error: out of memory", false],
  "the same bytes, whatever they are": ["no export", "no export", true],
};

test.each(Object.entries(cases))(
  "of exports, a later one holds: %s",
  async (_name, [before, after, holds]) => {
    const [earlier, later] = [before, after].map((one) =>
      keepEscrowText(runDirectory, { session: "ses_1", text: one, clock }),
    );
    if (earlier === undefined || later === undefined) throw new Error("no copies");
    const engine = findEngine("opencode");
    if (engine === undefined) throw new Error("no engine");
    const run = { runDirectory } as RunRecord;
    expect(await holdsAll(engine, run, later, earlier)).toBe(holds);
    // A copy of another session holds nothing of this one.
    expect(await holdsAll(engine, run, { ...later, session: "ses_2" }, earlier)).toBe(false);
  },
);

const at = (minute: number) => `2026-11-01T10:${String(minute).padStart(2, "0")}:00.000Z`;
const copied = { session: "ses_1", files: [], takenAt: at(10) };
const attempt = (n: number, started: number, more: object = {}) =>
  ({
    n,
    agent: { pid: 1 },
    asked: "ses_1",
    reported: [],
    startedAt: at(started),
    endedAt: at(started + 5),
    outcome: { result: "interrupted" },
    ...more,
  }) as unknown as AttemptRecord;
const since: Record<string, [attempts: readonly AttemptRecord[], said: string | null]> = {
  "a copy of the last attempt lacks nothing": [[attempt(1, 1)], null],
  "an attempt that began later is not in it": [
    [attempt(1, 1), attempt(2, 20)],
    "the copy is older than attempt 2: what was said there is not in it",
  ],
  "two attempts that began later are named": [
    [attempt(1, 1), attempt(2, 20), attempt(3, 30)],
    "the copy is older than attempts 2, 3: what was said there is not in it",
  ],
  "an attempt that was cut short after the copy was made": [
    [attempt(1, 8)],
    "the copy was made while attempt 1 worked: what was said after that is not in it",
  ],
  "an attempt that ended in order has its whole turn in the copy": [
    [attempt(1, 8, { outcome: { result: "completed" } })],
    null,
  ],
  "an agent that was never started said nothing": [[attempt(1, 20, { agent: null })], null],
  "another conversation does not count": [[attempt(1, 20, { asked: null })], null],
};

test.each(Object.entries(since))("%s", (_name, [attempts, said]) => {
  expect(saidSince(copied, attempts)).toBe(said);
});
