import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { cpuMs } from "../../test/cpu.ts";
import { Fault } from "../core/faults.ts";
import type { TroubleKind } from "../core/events.ts";
import type { RunStatus } from "../core/records.ts";
import { declineSession, findInterruptedSession, type RunState } from "./discovery.ts";
import { createSession, openSession, type Sidecar } from "./sidecar.ts";
import { openTranscript, RESUMED, Transcript } from "./transcript.ts";

const PULL = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const HANDLE = "1a2b3c4d";
const THREAD = "019e0000-0000-7000-8000-000000000001";
const NOW = Date.parse("2026-04-14T14:02:03.456Z");
const clock = { now: () => NOW, mono: () => 0 };

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "reprise-reviews-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const start = (change: object = {}) =>
  createSession(directory, { pullRequest: PULL, handle: HANDLE, now: NOW, ...change });
const stored = (path: string) => JSON.parse(readFileSync(path, "utf8")) as Sidecar;
const lines = (path: string) => readFileSync(path, "utf8").split("\n").slice(0, -1);

function faultOf(work: () => unknown): Fault {
  try {
    work();
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("no fault");
}

describe("a session's record", () => {
  test("has the keys that test/golden/keys.json lists", () => {
    const session = start();
    session.keepApproval({ key: "k", about: "command", what: "npm test", at: new Date(NOW).toISOString() });
    const golden = JSON.parse(
      readFileSync(new URL("../../test/golden/keys.json", import.meta.url), "utf8"),
    ) as Record<string, string[]>;
    const keys = Object.entries(stored(session.path)).flatMap(([key, value]) => [
      key,
      ...(key === "approvals"
        ? Object.keys((value as object[])[0] ?? {}).map((one) => `${key}[].${one}`)
        : []),
    ]);
    expect(keys).toEqual(golden["<review>.session.json"]);
  });

  test("keeps fields that another process added since it was read", () => {
    const one = start();
    const twin = openSession(one.path);
    const at = new Date(NOW).toISOString();
    twin.keepApproval({ key: "k", about: "command", what: "npm test", at });
    twin.noteSent(["a"]);
    twin.update({ thread_id: THREAD });
    one.keepApproval({ key: "l", about: "command", what: "npm run lint", at });
    one.noteSent(["b"]);
    one.end("completed", at, null);
    const { approvals, sent_comments, thread_id, status } = stored(one.path);
    expect([approvals.map(({ key }) => key), sent_comments, thread_id, status]).toEqual([
      ["k", "l"],
      ["a", "b"],
      THREAD,
      "completed",
    ]);
  });

  test("begins as running, private, beside its transcript", () => {
    const session = start();
    expect(basename(session.path)).toBe("acme-shop-pr-42-20260414T140203Z.session.json");
    expect(stored(session.path)).toEqual({
      status: "running",
      transcript_path: "acme-shop-pr-42-20260414T140203Z.jsonl",
      thread_id: null,
      host: "github.com",
      owner: "acme",
      repository: "shop",
      pr_number: 42,
      started_at: "2026-04-14T14:02:03.456Z",
      finished_at: null,
      attempts: 1,
      reason: null,
      resets_at: null,
      handle: HANDLE,
      approvals: [],
      sent_comments: [],
      declined_at: null,
    });
    expect(
      readdirSync(directory).map((name) => [name, statSync(join(directory, name)).mode & 0o777]),
    ).toEqual([
      ["acme-shop-pr-42-20260414T140203Z.jsonl", 0o600],
      ["acme-shop-pr-42-20260414T140203Z.session.json", 0o600],
    ]);
  });

  test("never loses its thread id, and keeps unknown fields", () => {
    const session = start();
    session.update({ thread_id: THREAD });
    writeFileSync(session.path, JSON.stringify({ ...stored(session.path), later: { field: 1 } }));
    const again = openSession(session.path);
    again.update({ thread_id: null, status: "interrupted", finished_at: "2026-04-14T15:00:00.000Z" });
    expect(stored(session.path)).toMatchObject({
      thread_id: THREAD,
      status: "interrupted",
      later: { field: 1 },
    });
  });

  test("keeps an approval once, without secrets", () => {
    const session = start();
    const approval = {
      key: "k1",
      about: "command" as const,
      what: "curl -H 'Authorization: Bearer abcdefghijklmnopqrstuvwxyz'",
      at: "2026-04-14T14:02:03Z",
    };
    session.keepApproval(approval);
    session.keepApproval({ ...approval, what: "x".repeat(5_000) });
    session.keepApproval(approval);
    const { approvals } = stored(session.path);
    expect(approvals).toHaveLength(1);
    expect(approvals[0]?.what).toMatch(/^curl .*\[redacted\]/);
  });

  test("has a unique name, even for two in one second, twins by case, and odd names", () => {
    const paths = [
      start(),
      start(),
      start({ pullRequest: { ...PULL, owner: "ACME" } }),
      start({ pullRequest: { ...PULL, owner: "../x", repository: "a/b\u202e" } }),
      start({ pullRequest: { ...PULL, owner: ".x", repository: "y".repeat(300) } }),
    ].map(({ path }) => basename(path));
    expect(paths).toEqual([
      "acme-shop-pr-42-20260414T140203Z.session.json",
      "acme-shop-pr-42-20260414T140203Z-2.session.json",
      "ACME-shop-pr-42-20260414T140203Z.session.json",
      "_._x-a_b_-pr-42-20260414T140203Z.session.json",
      `_x-${"y".repeat(100)}-pr-42-20260414T140203Z.session.json`,
    ]);
  });

  test("causes a storage fault in a place that cannot be written", () => {
    expect(
      faultOf(() => createSession(join(directory, "gone"), { pullRequest: PULL, handle: HANDLE, now: NOW }))
        .code,
    ).toBe("storage_failed");
  });
});

describe("a transcript", () => {
  test("has every line in both directions", () => {
    const path = join(directory, "t.jsonl");
    writeFileSync(path, "");
    using transcript = openTranscript(path, clock);
    transcript.line("out", '{"id":0,"method":"initialize"}\n');
    transcript.line("in", "not JSON \u001b[2J");
    transcript.line("in", '{"a":\n1}');
    transcript.line("in", "[1]");
    transcript.remark({
      type: "approval",
      id: "0",
      key: "k",
      about: "command",
      what: "ls",
      decision: "accept",
      by: "user",
    });
    const t = "2026-04-14T14:02:03.456Z";
    expect(lines(path).map((line) => JSON.parse(line) as unknown)).toEqual([
      { t, dir: "out", message: { id: 0, method: "initialize" } },
      { t, dir: "in", text: "not JSON \u001b[2J" },
      { t, dir: "in", text: '{"a":\n1}' },
      { t, dir: "in", text: "[1]" },
      {
        t,
        type: "approval",
        id: "0",
        key: "k",
        about: "command",
        what: "ls",
        decision: "accept",
        by: "user",
      },
    ]);
  });

  test("is appended to, after ending a line that a crash cut off", () => {
    const { transcript: path } = start();
    appendFileSync(path, '{"t":"x","dir":"in","mess');
    {
      using transcript = openTranscript(path, clock);
      transcript.remark({ type: "session_resumed", text: RESUMED, thread_id: THREAD, handle: HANDLE });
    }
    expect(lines(path)).toEqual([
      '{"t":"x","dir":"in","mess',
      `{"t":"2026-04-14T14:02:03.456Z","type":"session_resumed","text":"--- session resumed ---","thread_id":"${THREAD}","handle":"${HANDLE}"}`,
    ]);
  });

  test("that is gone starts over with a note", () => {
    const path = join(directory, "gone.jsonl");
    openTranscript(path, clock).close();
    expect(lines(path)).toEqual([expect.stringContaining('"type":"note"')]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test.skipIf(process.getuid?.() === 0)("that is read-only causes a storage fault", () => {
    const { transcript } = start();
    chmodSync(transcript, 0o400);
    expect(faultOf(() => openTranscript(transcript, clock)).code).toBe("storage_failed");
  });

  test("is refused if a link or a directory takes its place", () => {
    const link = join(directory, "link.jsonl");
    symlinkSync("/etc/passwd", link);
    expect(faultOf(() => openTranscript(link, clock)).code).toMatch(/storage_failed|denied/);
    const folder = join(directory, "folder.jsonl");
    mkdirSync(folder);
    expect(faultOf(() => openTranscript(folder, clock)).code).toMatch(/storage_failed|denied/);
  });

  test.skipIf(process.platform !== "linux")("reports a full disk", () => {
    const transcript = new Transcript("t.jsonl", openSync("/dev/full", "w"), clock);
    expect(faultOf(() => transcript.line("in", "{}"))).toMatchObject({
      code: "storage_full",
      facts: { path: "t.jsonl" },
    });
  });

  test("survives a flood", () => {
    const { transcript: path } = start();
    using transcript = openTranscript(path, clock);
    for (let count = 0; count < 5_000; count += 1) transcript.line("in", `{"n":${count}}`);
    expect(lines(path)).toHaveLength(5_000);
  });
});

describe("findInterruptedSession", () => {
  const one = (status: RunStatus, session: string | null = THREAD): RunState => ({
    status,
    session,
    subject: "pr:Acme/shop#42",
  });

  const limited = (kind: TroubleKind, resetsAt?: string): RunState => ({
    ...one("failed"),
    outcome: {
      result: "failed",
      reason: "the engine reported a failed turn",
      trouble: { kind, message: "words", ...(resetsAt === undefined ? {} : { resetsAt }) },
    },
  });

  async function find(run: RunState | null | ((handle: string) => RunState | null), pull = PULL) {
    const warnings: string[] = [];
    const found = await findInterruptedSession(directory, pull, {
      run: async (handle) => (typeof run === "function" ? run(handle) : run),
      warn: (message) => warnings.push(message),
    });
    return { found, warnings };
  }

  test.each([
    ["interrupted", THREAD, one("interrupted"), THREAD],
    ["interrupted", THREAD, one("cancelled"), THREAD],
    ["interrupted", THREAD, one("failed"), THREAD],
    ["interrupted", THREAD, one("running"), null],
    ["interrupted", THREAD, one("completed"), null],
    ["interrupted", "019d8c48-0000-7000-8000-000000000000", one("interrupted"), THREAD],
    ["interrupted", null, one("interrupted"), THREAD],
    ["interrupted", null, one("interrupted", null), null],
    ["running", THREAD, one("interrupted"), THREAD],
    ["running", null, one("interrupted"), THREAD],
    ["running", THREAD, one("running"), null],
    ["running", THREAD, one("failed"), null],
    ["running", THREAD, one("completed"), null],
    ["completed", THREAD, one("interrupted"), null],
    ["failed", THREAD, one("interrupted"), null],
    ["cancelled", THREAD, one("interrupted"), null],
  ] as const)("sidecar %s with thread %s, run %j → %s", async (status, thread_id, run, threadId) => {
    const session = start();
    session.update({ status, thread_id });
    const { found, warnings } = await find(run);
    expect(warnings).toEqual([]);
    expect(found).toEqual(
      threadId === null
        ? null
        : { sidecar: session.path, handle: HANDLE, threadId, startedAt: "2026-04-14T14:02:03.456Z" },
    );
  });

  test.each([
    ["rate_limited", "Codex was rate limited: words"],
    ["quota", "the quota of Codex was used up: words"],
    ["overloaded", "the model was overloaded: words"],
    ["network", "the connection to the model failed: words"],
    ["auth", null],
    ["context_full", null],
    ["usage", null],
    ["session_lost", null],
    ["other", null],
  ] as const)("offers a killed owner's turn that failed as %s with %j", async (kind, why) => {
    const session = start();
    session.update({ status: "running", thread_id: THREAD });
    const resetsAt = "2026-04-14T16:40:00.000Z";
    const { found } = await find(limited(kind, resetsAt));
    expect(found === null ? null : [found.why, found.resetsAt]).toEqual(
      why === null ? null : [why, resetsAt],
    );
    // A session recorded as failed is over, whatever its run says.
    session.update({ status: "failed" });
    expect((await find(limited(kind))).found).toBeNull();
  });

  test("includes the approvals for the session", async () => {
    const session = start();
    session.update({ status: "interrupted", thread_id: THREAD });
    const at = "2026-04-14T14:02:03.456Z";
    session.keepApproval({ key: "k1", about: "command", what: "touch a", at });
    session.keepApproval({ key: "k2", about: "files", what: "update b", at });
    expect((await find(one("interrupted"))).found?.approvals).toEqual(["touch a", "update b"]);
  });

  test("reads a sidecar of the largest possible size", async () => {
    const session = start();
    session.update({ status: "interrupted", thread_id: THREAD });
    session.noteSent(Array.from({ length: 10_000 }, (_, n) => `${"字".repeat(64)}${n}@1-0`));
    const at = "2026-04-14T14:02:03.456Z";
    const approved = (n: number) => ({ key: `${n}`.padStart(64, "0"), about: "command" as const, at });
    const approvals = Array.from({ length: 1_000 }, (_, n) => ({ ...approved(n), what: "字".repeat(300) }));
    session.update({ approvals });
    expect(await find(one("interrupted"))).toMatchObject({ found: { sidecar: session.path }, warnings: [] });
  });

  test("finds nothing in an empty directory", async () => {
    expect(await find(null)).toEqual({ found: null, warnings: [] });
    rmSync(directory, { recursive: true });
    expect(await find(null)).toEqual({ found: null, warnings: [] });
  });

  test("names a run that is gone", async () => {
    start().update({ status: "interrupted", thread_id: THREAD });
    const { found, warnings } = await find(null);
    expect([found, warnings]).toEqual([null, [expect.stringContaining(`its run ${HANDLE} is gone`)]]);
  });

  test("ignores a run with another purpose", async () => {
    start().update({ status: "interrupted", thread_id: THREAD });
    const { found, warnings } = await find({ ...one("interrupted"), subject: "pr:acme/shop#43" });
    expect([found, warnings]).toEqual([null, [expect.stringContaining("is for something else")]]);
  });

  test("prefers the newest start, whatever the names say", async () => {
    const early = start({ handle: "aaaaaaaa" });
    const late = start({ handle: "bbbbbbbb", now: NOW + 1_000 });
    early.update({ status: "interrupted", thread_id: THREAD, started_at: "2026-05-01T00:00:00Z" });
    late.update({ status: "interrupted", thread_id: THREAD });
    expect((await find(one("interrupted"))).found?.handle).toBe("aaaaaaaa");
    expect(
      (await find((handle) => one(handle === "aaaaaaaa" ? "completed" : "interrupted"))).found?.handle,
    ).toBe("bbbbbbbb");
  });

  test("offers the next session after a declined one", async () => {
    const old = start({ handle: "aaaaaaaa" });
    const late = start({ handle: "bbbbbbbb", now: NOW + 1_000 });
    for (const session of [old, late]) session.update({ status: "interrupted", thread_id: THREAD });
    declineSession(late.path, "2026-04-14T16:00:00Z");
    expect((await find(one("interrupted"))).found?.handle).toBe("aaaaaaaa");
    expect(stored(late.path)).toMatchObject({ declined_at: "2026-04-14T16:00:00Z", status: "interrupted" });
  });

  test("ignores sessions of another pull request, repository or host", async () => {
    const session = start();
    session.update({ status: "interrupted", thread_id: THREAD });
    for (const change of [
      { number: 4 },
      { number: 421 },
      { owner: "acm" },
      { repository: "shop-pr-42" },
      { host: "git.example.com" },
    ]) {
      expect((await find(one("interrupted"), { ...PULL, ...change })).found).toBeNull();
    }
    expect(
      (await find(one("interrupted"), { ...PULL, owner: "ACME", repository: "Shop" })).found,
    ).not.toBeNull();
    for (const change of [
      { pr_number: 43 },
      { owner: "other" },
      { repository: "other" },
      { host: "other" },
    ]) {
      const whole = stored(session.path);
      writeFileSync(session.path, JSON.stringify({ ...whole, ...change }));
      expect((await find(one("interrupted"))).found).toBeNull();
      writeFileSync(session.path, JSON.stringify(whole));
    }
  });

  test("names and skips a sidecar that is cut at any byte", async () => {
    const good = start({ handle: "aaaaaaaa" });
    good.update({ status: "interrupted", thread_id: THREAD });
    const bad = start({ handle: "bbbbbbbb", now: NOW + 1_000 });
    bad.update({ status: "interrupted", thread_id: THREAD });
    const whole = readFileSync(bad.path);
    // The last byte is a line feed; the record is whole without it.
    for (let length = 0; length < whole.length - 1; length += 1) {
      writeFileSync(bad.path, whole.subarray(0, length));
      const { found, warnings } = await find(one("interrupted"));
      expect([found?.handle, warnings]).toEqual(["aaaaaaaa", [expect.stringContaining(bad.path)]]);
    }
  });

  test("never crashes on any one wrong field, and never believes it", async () => {
    const session = start();
    session.update({ status: "interrupted", thread_id: THREAD });
    const whole = stored(session.path);
    const needed = [
      "status",
      "transcript_path",
      "thread_id",
      "owner",
      "repository",
      "pr_number",
      "started_at",
      "handle",
    ];
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...needed), fc.jsonValue(), async (field, value) => {
        writeFileSync(session.path, JSON.stringify({ ...whole, [field]: value }));
        const { found } = await find(one("interrupted", null));
        if (found !== null && field === "thread_id") expect(found.threadId).toMatch(/^[\w-]{8,128}$/);
        else if (found !== null) expect(whole[field]).toEqual(value);
      }),
      { numRuns: 300 },
    );
  });

  test.each([
    ["an absolute path", "/etc/passwd"],
    ["a path above", "../x.jsonl"],
    ["a path through above", "../reviews/acme-shop-pr-42-20260414T140203Z.jsonl"],
    ["another session's", "acme-shop-pr-42-20260101T000000Z.jsonl"],
  ])("leaves alone a transcript that is %s", async (_name, transcript_path) => {
    const session = start();
    session.update({ status: "interrupted", thread_id: THREAD, transcript_path });
    const { found, warnings } = await find(one("interrupted"));
    expect([found, warnings]).toEqual([null, [expect.stringContaining("transcript_path")]]);
  });

  test("survives links, pipes, directories, huge files, two keys, two documents and deep nesting", async () => {
    const good = start();
    good.update({ status: "interrupted", thread_id: THREAD });
    const text = readFileSync(good.path, "utf8");
    const path = (n: number) => join(directory, `acme-shop-pr-42-2026010${n}T000000Z.session.json`);
    symlinkSync(good.path, path(1));
    execFileSync("mkfifo", [path(2)]);
    mkdirSync(path(3));
    writeFileSync(path(4), "");
    truncateSync(path(4), 5 * 1024 ** 3);
    writeFileSync(path(5), text.replace("{", '{"handle":"ffffffff",'));
    writeFileSync(path(6), text + text);
    writeFileSync(path(7), `${"[".repeat(100_000)}${"]".repeat(100_000)}`);
    const { found, warnings } = await find(one("interrupted"));
    expect(found?.handle).toBe(HANDLE);
    expect(warnings.map((warning) => /2026010(\d)/.exec(warning)?.[1]).toSorted()).toEqual([
      "1",
      "2",
      "3",
      "4",
      "5",
      "6",
      "7",
    ]);
  });

  test("takes little time for 10,000 sidecars of other pull requests", async () => {
    for (let number = 1_000; number < 11_000; number += 1) {
      writeFileSync(join(directory, `acme-shop-pr-${number}-20260414T140203Z.session.json`), "{}");
    }
    start().update({ status: "interrupted", thread_id: THREAD });
    let found: Promise<unknown> = Promise.resolve();
    const spent = cpuMs(() => {
      found = find(one("interrupted"));
    });
    expect(spent).toBeLessThan(500);
    expect(await found).toMatchObject({ found: { handle: HANDLE } });
  });
});
