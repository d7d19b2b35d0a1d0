import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../test/deps.ts";
import { batchId, beginBatch, type BatchRecord, makeMetadataDirectory } from "./metadata.ts";
import { lookupPriorSession, batchHistory } from "./prior.ts";

const REPO = "/work/shop";
let root: string;
let deps: TestDeps;
let directory: string;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-prior-"));
  deps = await testDeps(root);
  directory = makeMetadataDirectory(deps.state, REPO);
});

afterEach(() => rmSync(root, { recursive: true }));

const entry = (session: string | null, engine = "claude") => ({
  status: "interrupted",
  engine,
  session_id: session,
});

/** As another version of Reprise, or a person, might have written it. */
function write(name: string, startedAt: string, issues: object): void {
  writeFileSync(join(directory, name), JSON.stringify({ issues, started_at: startedAt, run_id: name }));
}

const lookup = (issue = "a", engine = "claude") =>
  lookupPriorSession(deps, REPO, issue, engine)?.session_id ?? null;

test("test_lookup_finds_recent_session", () => {
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { a: entry("old") });
  write("20260103T000000Z_00000003.json", "2026-01-03T00:00:00Z", { a: entry("new") });
  write("20260102T000000Z_00000002.json", "2026-01-02T00:00:00Z", { a: entry("middle") });
  expect(lookup()).toBe("new");
});

test("test_lookup_returns_none_if_missing", () => {
  expect(lookup()).toBeNull();
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { b: entry("other") });
  expect(lookup()).toBeNull();
  expect(lookupPriorSession(deps, "/work/nowhere", "b", "claude")).toBeNull();
  expect(deps.warnings).toEqual([]);
});

test("test_lookup_ignores_runs_without_session_id", () => {
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { a: entry("kept") });
  write("20260102T000000Z_00000002.json", "2026-01-02T00:00:00Z", { a: entry(null) });
  write("20260103T000000Z_00000003.json", "2026-01-03T00:00:00Z", { a: entry("") });
  write("20260104T000000Z_00000004.json", "2026-01-04T00:00:00Z", { a: { ...entry("x"), session_id: 7 } });
  expect(lookup()).toBe("kept");
});

test("test_lookup_handles_corrupt_json", () => {
  const whole = JSON.stringify({
    run_id: "x",
    started_at: "2027-01-01T00:00:00Z",
    issues: { a: entry("torn") },
  });
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { a: entry("whole") });
  const bad: Record<string, string> = {
    "cut.json": whole.slice(0, -3),
    "empty.json": "",
    "list.json": "[]",
    "twice.json": whole.replace("{", '{"issues":{},'),
    "two.json": `${whole}\n${whole}`,
  };
  for (const [name, text] of Object.entries(bad)) writeFileSync(join(directory, name), text);
  symlinkSync("/etc/hostname", join(directory, "link.json"));
  mkdirSync(join(directory, "folder.json"));
  writeFileSync(join(directory, "readme.txt"), "not ours");
  expect(lookup()).toBe("whole");
  expect(lookup()).toBe("whole");
  const named = deps.warnings.map((text) => text.replace(`${directory}/`, "")).toSorted();
  expect(named).toEqual([
    "cut.json is skipped: it is incomplete or not JSON.",
    "empty.json is skipped: it is empty.",
    "folder.json is skipped: EISDIR.",
    "link.json is skipped: it is a symbolic link.",
    "list.json is skipped: it is incomplete or not JSON.",
    "twice.json is skipped: it has a key twice.",
    "two.json is skipped: it is incomplete or not JSON.",
  ]);
});

test("a metadata file that is cut off at any byte is skipped", async () => {
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { a: entry("whole") });
  const batch = await beginBatch(directory, record("2026-02-01T00:00:00Z", "0000000b"), (text) => text);
  await batch.update("a", { status: "running", engine: "claude", session_id: "torn" });
  const { path } = batch;
  const text = readFileSync(path, "utf8").trimEnd();
  for (let length = 0; length < text.length; length += 1) {
    rmSync(path);
    writeFileSync(path, text.slice(0, length));
    expect([length, lookup()]).toEqual([length, "whole"]);
  }
});

test("test_lookup_sorts_by_started_at_timestamp", () => {
  write("20260109T000000Z_00000009.json", "2026-01-01T00:00:00Z", { a: entry("newer name") });
  write("20260101T000000Z_00000001.json", "2026-01-05T00:00:00+02:00", { a: entry("newer start") });
  write("20260105T000000Z_00000005.json", "2026-01-04T21:00:00Z", { a: entry("one hour before") });
  // An issue's own start counts for nothing.
  write("20260104T000000Z_00000004.json", "2026-01-02T00:00:00Z", {
    a: { started_at: "2026-12-01T00:00:00Z", ...entry("an issue's") },
  });
  expect(lookup()).toBe("newer start");
});

test("test_lookup_fallback_to_filename_sort", () => {
  write("20260102T000000Z_00000002.json", "yesterday", { a: entry("second") });
  write("20260103T000000Z_00000003.json", "", { a: entry("third") });
  write("20260101T000000Z_00000001.json", "2026-01-01T12:00:00Z", { a: entry("first") });
  write("zzz.json", "?", { a: entry("nothing is known of it") });
  expect([...batchHistory(deps, REPO).entries("a", "claude")].map(({ session_id }) => session_id)).toEqual([
    "third",
    "second",
    "first",
    "nothing is known of it",
  ]);
});

test("a session of another or unknown engine is no prior session", () => {
  write("20260101T000000Z_00000001.json", "2026-01-01T00:00:00Z", { a: entry("mine") });
  write("20260102T000000Z_00000002.json", "2026-01-02T00:00:00Z", { a: entry("theirs", "codex") });
  write("20260103T000000Z_00000003.json", "2026-01-03T00:00:00Z", { a: { session_id: "whose?" } });
  expect([lookup("a"), lookup("a", "codex"), lookup("a", "gemini")]).toEqual(["mine", "theirs", null]);
});

test("a new entry is seen at once, and a missing id never replaces an id (I3)", async () => {
  expect(lookup()).toBeNull();
  const batch = await beginBatch(directory, record("2026-01-01T00:00:00Z", "0000000a"), (text) => text);
  await batch.update("a", { status: "running", engine: "claude", session_id: "s1", handle: "11111111" });
  expect(lookup()).toBe("s1");
  await batch.update("a", { status: "failed", session_id: null, error: "no" });
  expect(lookupPriorSession(deps, REPO, "a", "claude")).toMatchObject({
    session_id: "s1",
    handle: "11111111",
    status: "failed",
    error: "no",
    file: `${batch.runId}.json`,
    batch_started_at: "2026-01-01T00:00:00Z",
  });
});

test("secrets stay out of the file", async () => {
  const batch = await beginBatch(directory, record("2026-01-01T00:00:00Z", "0000000a"), (text) =>
    text.replaceAll("hunter2", "[redacted]"),
  );
  await batch.update("a", {
    status: "failed",
    engine: "claude",
    error: "token hunter2 is wrong",
    findings: ["hunter2"],
  });
  expect([...batchHistory(deps, REPO).entries("a", "claude")][0]).toMatchObject({
    error: "token [redacted] is wrong",
    findings: ["[redacted]"],
  });
});

test("a time far in the future counts unchanged; numbers as text do not count", () => {
  write("1.json", "9999-01-01T00:00:00Z", { a: { ...entry("future"), attempts: "7" } });
  write("2.json", "2026-01-01T00:00:00Z", { a: entry("now") });
  utimesSync(join(directory, "1.json"), 0, 0);
  expect(lookupPriorSession(deps, REPO, "a", "claude")).toMatchObject({ session_id: "future", attempts: 0 });
});

function record(startedAt: string, id8: string): Omit<BatchRecord, "issues"> {
  return {
    run_id: batchId(Date.parse(startedAt), id8),
    started_at: startedAt,
    completed_at: null,
    left: 0,
    repo_path: REPO,
    version: "0",
    config: {},
  };
}
