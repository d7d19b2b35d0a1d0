/** A copy goes only if another one holds all of it; what cannot be compared stays. */
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { keepEscrowText } from "../../state/escrow.ts";
import type { AttemptRecord, Escrow, RunRecord } from "../../core/records.ts";
import type { Located } from "../../engines/engine.ts";
import { builtInEngine } from "../../engines/engines.ts";
import { rightsIn, saidSince } from "../conversation.ts";
import { copiesOf, copyId, hasMore, holdsAll, isElsewhere, isTorn, lackedWith, lacking } from "./copies.ts";
import { earlierRights, type LookedUp } from "./look-up.ts";
import { copiesLeft } from "./escrow.ts";

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
  "an answer whose last space was cut when it was complete": [
    exported(message("msg_1", text("prt_1", "one \n"))),
    exported(ONE),
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
  "a later export may hold an earlier one: %s",
  async (_name, [before, after, holds]) => {
    const [earlier, later] = [before, after].map((one) =>
      keepEscrowText(runDirectory, { session: "ses_1", text: one, clock }),
    );
    if (earlier === undefined || later === undefined) throw new Error("no copies");
    const engine = engineOf("opencode");
    const run = { runDirectory } as RunRecord;
    expect(await holdsAll(engine, run, later, earlier)).toBe(holds);
    // A copy of another session holds nothing of this one.
    expect(await holdsAll(engine, run, { ...later, session: "ses_2" }, earlier)).toBe(false);
  },
);

function engineOf(id: string) {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error("no engine");
  return engine;
}

/** A copy of a session's own file and of a file it depends on, in `escrow/`. */
function copyOf(own: string, parent: string): Escrow {
  const files = [own, parent].map((content, index) => {
    const sha256 = createHash("sha256").update(content).digest("hex");
    const restoreTo = `sessions/${index === 0 ? "own" : "parent"}.jsonl`;
    writeFileSync(join(runDirectory, "escrow", sha256), content);
    return { file: sha256, restoreTo, size: content.length, sha256 };
  });
  return { session: "s", files, takenAt: "2026-11-01T10:00:00.000Z" };
}

const COPY = ["own 1\n", "parent 1\nparent 2\n"] as const;
const forks: Record<string, [own: string, parent: string | null, state: string | null]> = {
  "both are as in the copy": [...COPY, null],
  "both went on": ["own 1\nown 2\n", "parent 1\nparent 2\nparent 3\n", null],
  "the parent was cut short": ["own 1\nown 2\n", "parent 1\n", "torn"],
  "the parent went another way": ["own 1\n", "parent 1\nparent X\n", "torn"],
  "nothing of the parent is left": ["own 1\n", "", "unusable"],
  "the parent is gone, which the engine says itself": ["own 1\n", null, null],
  "the session itself was cut short": ["own", "parent 1\nparent 2\n", "torn"],
};

test.each(Object.entries(forks))(
  "a session depends on another one: %s",
  async (_name, [own, parent, state]) => {
    const engineHome = mkdtempSync(join(runDirectory, "home-"));
    mkdirSync(join(engineHome, "sessions"));
    const path = (name: string) => join(engineHome, "sessions", `${name}.jsonl`);
    writeFileSync(path("own"), own);
    if (parent !== null) writeFileSync(path("parent"), parent);
    const present = ["own", "parent"].map((name) => ({
      path: path(name),
      restoreTo: `sessions/${name}.jsonl`,
    }));
    const located: Located =
      parent === null || parent === ""
        ? { state: "unusable", path: path(parent === "" ? "parent" : "own"), why: "no line", damaged: false }
        : { state: "present", files: present, cwd: null, updatedAtMs: null };
    const copy = copyOf(...COPY);
    const run = { runDirectory, engineHome, escrow: copy } as RunRecord;
    expect((await isTorn(engineOf("codex"), run, "s", located))?.state ?? null).toBe(state);
    const isWhole = state === null && parent !== null;
    expect(await isElsewhere(engineOf("codex"), run, copy, located)).toBe(isWhole);
    expect(await hasMore(engineOf("codex"), run, copy, located)).toBe(!isWhole);
  },
);

test("a copy with a shorter parent does not hold all of an earlier one, and has another id", async () => {
  const [longer, shorter] = [copyOf(...COPY), copyOf("own 1\nown 2\n", "parent 1\n")];
  const run = {
    runDirectory,
    engineHome: "/nowhere",
    escrow: shorter,
    kept: [longer],
  } as unknown as RunRecord;
  expect(await holdsAll(engineOf("codex"), run, shorter, longer)).toBe(false);
  expect(await holdsAll(engineOf("codex"), run, copyOf("own 1\nown 2\n", COPY[1]), longer)).toBe(true);
  expect(copyId(copyOf("own 1\n", "parent 1\n"))).not.toBe(copyId(longer));
  const gone: Located = { state: "absent", searched: "/nowhere" };
  expect(await lackedWith(engineOf("codex"), run, longer, gone)).toEqual([shorter]);
  expect(await lackedWith(engineOf("codex"), run, shorter, gone)).toEqual([longer]);
});

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
/** A store with one part per message, by the number in their ids. */
function storeOf(parts: Record<number, string>): string {
  const engineHome = mkdtempSync(join(runDirectory, "home-"));
  const db = new DatabaseSync(join(engineHome, "opencode.db"));
  db.exec("CREATE TABLE message (id, session_id); CREATE TABLE part (id, session_id, data)");
  for (const [n, words] of Object.entries(parts)) {
    db.prepare("INSERT INTO message VALUES (?, 'ses_1')").run(`msg_${n}`);
    db.prepare("INSERT INTO part VALUES (?, 'ses_1', ?)").run(`prt_${n}`, JSON.stringify({ text: words }));
  }
  db.close();
  return engineHome;
}

const exportOf = (parts: Record<number, string>, takenAt = at(10)): Escrow => ({
  ...keepEscrowText(runDirectory, {
    session: "ses_1",
    text: exported(
      ...Object.entries(parts).map(([n, words]) => message(`msg_${n}`, text(`prt_${n}`, words))),
    ),
    clock,
  }),
  takenAt,
});

const THERE: Located = { state: "present", files: [], cwd: null, updatedAtMs: null };
const stores: Record<string, [has: Record<number, string>, known: object | null, restores: boolean]> = {
  "all is there": [{ 1: "one", 2: "two" }, null, false],
  "the session has more messages": [{ 1: "one", 2: "two", 3: "three" }, null, false],
  "a part is gone": [{ 1: "one" }, { state: "torn", note: expect.stringContaining("2 of 4") }, true],
  "a part has other words": [
    { 1: "ONE", 2: "two" },
    { state: "torn", stuck: expect.stringContaining("import does not change") },
    false,
  ],
  "one part is gone, another has other words": [
    { 1: "ONE" },
    { state: "torn", note: expect.stringMatching(/2 of 4 .* gone.*1 of 4 .* other words/) },
    true,
  ],
  "no word is left": [{}, { state: "unusable", damaged: true }, true],
};

test.each(Object.entries(stores))(
  "a store and its copy are compared: %s",
  async (_name, [has, known, restores]) => {
    const engine = engineOf("opencode");
    const copy = exportOf({ 1: "one", 2: "two" });
    const run = { runDirectory, engineHome: storeOf(has), cwd: "/", escrow: copy } as RunRecord;
    const torn = await isTorn(engine, run, "ses_1", THERE);
    if (known === null) expect(torn).toBeNull();
    else expect(torn).toMatchObject(known);
    expect(await isElsewhere(engine, run, copy, THERE)).toBe(known === null);
    expect(await hasMore(engine, run, copy, THERE)).toBe(restores);
  },
);

const BLANK: Located = { state: "unusable", path: "/", why: "no message", damaged: false, blank: true };

test("a store without a word is damaged when a copy has some, and only then", async () => {
  const engine = engineOf("opencode");
  const run = { runDirectory, engineHome: storeOf({}), cwd: "/" };
  const torn = (parts: Record<number, string>) =>
    isTorn(engine, { ...run, escrow: exportOf(parts) } as unknown as RunRecord, "ses_1", BLANK);
  expect(await torn({ 1: "one" })).toMatchObject({ state: "unusable", damaged: true });
  expect(await torn({})).toBeNull();
});

test("a new conversation keeps the rights of a session without a message, or needs none", () => {
  const none = { escrow: null, attempts: 1 } as unknown as RunRecord;
  const found = (located: Located): LookedUp => ({
    known: { id: "1", state: located.state, note: "gone" },
    located,
    rights: rightsIn(located),
  });
  expect(earlierRights(none, [found(BLANK)])).toEqual({});
  expect(earlierRights(none, [found({ ...BLANK, rights: ["-s", "read-only"] })])).toEqual({
    rights: ["-s", "read-only"],
  });
  expect(earlierRights(none, [found({ ...BLANK, rightsUnknown: "new" })])).toEqual({ rightsUnknown: "new" });
  expect(earlierRights(none, [found({ state: "absent", searched: "/" }), found(BLANK)])).toEqual({
    rightsUnknown: "gone",
  });
  const archived: Located = { state: "unusable", path: "/", why: "archived", damaged: false };
  expect(earlierRights(none, [found(archived)])).toEqual({ rightsUnknown: "gone" });
});

test("the end of an attempt offers --restore-copy only for what an import brings back", () => {
  const engine = engineOf("opencode");
  const before = { runDirectory, handle: "1a2b3c4d", escrow: exportOf({ 1: "one", 2: "two" }) } as RunRecord;
  const told = (now: Record<number, string>) =>
    copiesLeft(engine, before, { ...before, escrow: exportOf(now), kept: copiesOf(before) }).join("\n");
  expect(told({ 1: "one" })).toMatch(/--restore-copy "…"` restores the missing parts$/);
  expect(told({ 1: "one", 2: "TWO" })).toMatch(/stays: some text was changed .* import does not change/);
  expect(told({ 1: "ONE" })).toMatch(/restores the missing parts; some text was changed/);
});

test("an import keeps later messages in the session, so only parts that no import brings are missing", async () => {
  const engine = engineOf("opencode");
  const [copy, newer] = [exportOf({ 1: "one", 2: "two" }), exportOf({ 1: "one", 3: "three" }, at(20))];
  const attempts = [attempt(1, 1), attempt(2, 15)];
  const run = { runDirectory, engineHome: storeOf({ 1: "one", 3: "three" }), cwd: "/" };
  const record = { ...run, escrow: newer, kept: [copy] } as unknown as RunRecord;
  expect(await lacking(engine, record, copy, { located: THERE, attempts })).toEqual([]);
  const gone: Located = { state: "absent", searched: "/" };
  expect(await lacking(engine, record, copy, { located: gone, attempts })).toEqual([
    expect.stringContaining("older than attempt 2"),
    expect.stringContaining(`copy ${copyId(newer).slice(0, 8)} (made ${at(20)})`),
  ]);
});

const since: Record<string, [attempts: readonly AttemptRecord[], said: string | null]> = {
  "a copy of the last attempt lacks nothing": [[attempt(1, 1)], null],
  "an attempt that began later is not in it": [
    [attempt(1, 1), attempt(2, 20)],
    "the copy is older than attempt 2 and lacks later messages",
  ],
  "two attempts that began later are named": [
    [attempt(1, 1), attempt(2, 20), attempt(3, 30)],
    "the copy is older than attempts 2, 3 and lacks later messages",
  ],
  "an attempt that was cut short after the copy was made": [
    [attempt(1, 8)],
    "Reprise made the copy during attempt 1, so it lacks later messages",
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
