import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { restoreFile, sessionFiles, sessionFilesWith, watchFolder } from "./drivers.ts";

const home = mkdtempSync(join(tmpdir(), "reprise-sessions-"));
const at = (name: string) => join(home, name);
const files = sessionFiles();

beforeAll(() => {
  mkdirSync(at("folder"));
  writeFileSync(at("session.jsonl"), "0123456789é");
  writeFileSync(at("empty"), "");
  symlinkSync(at("session.jsonl"), at("link"));
  symlinkSync(at("folder"), at("folder-link"));
  spawnSync("sh", ["-c", 'mkfifo "$1"', "sh", at("fifo")]);
});
afterAll(() => rmSync(home, { recursive: true }));

describe("reading", () => {
  test("lists regular files and directories, and nothing else", async () => {
    const found = await files.list(home);
    const brief = found.map(({ name, directory, size }) => [name, directory, directory ? 0 : size]);
    expect(brief.toSorted((one, other) => String(one).localeCompare(String(other)))).toEqual([
      ["empty", false, 0],
      ["folder", true, 0],
      ["session.jsonl", false, 12],
    ]);
    expect(await files.list(at("missing"))).toEqual([]);
    expect(await files.list(at("empty"))).toEqual([]);
  });

  test("reads whole lines, starting where the last look ended", async () => {
    const file = at("grows");
    writeFileSync(file, "öne\ntwo\nthr");
    expect(await files.lines(file, 0, 1000)).toEqual({ lines: ["öne", "two"], next: 9 });
    expect(await files.lines(file, 9, 1000)).toEqual({ lines: [], next: 9 });
    appendFileSync(file, "ee\n\n");
    expect(await files.lines(file, 9, 1000)).toEqual({ lines: ["three", ""], next: 16 });
    expect(await files.lines(file, 16, 1000)).toEqual({ lines: [], next: 16 });
    // More than requested: the last part, from the first whole line.
    expect(await files.lines(file, 0, 9)).toEqual({ lines: ["three", ""], next: 16 });
    expect(await files.lines(file, 0, 3)).toEqual({ lines: [""], next: 16 });
    writeFileSync(file, "new\n");
    expect(await files.lines(file, 16, 1000)).toEqual({ lines: ["new"], next: 4 });
    expect(await Promise.all(["missing", "link", "fifo"].map((name) => files.lines(at(name), 0, 9)))).toEqual(
      [null, null, null],
    );
    rmSync(file);
  });

  test("describes a file, and nothing of a link or a pipe", async () => {
    const { mtimeMs } = statSync(at("session.jsonl"));
    expect(await files.stat(at("session.jsonl"))).toEqual({
      name: "session.jsonl",
      directory: false,
      size: 12,
      mtimeMs,
    });
    expect(await Promise.all(["missing", "link", "fifo"].map((name) => files.stat(at(name))))).toEqual([
      null,
      null,
      null,
    ]);
  });

  const parts: Record<string, [name: string, bytes: number, head: string | null, tail: string | null]> = {
    whole: ["session.jsonl", 100, "0123456789é", "0123456789é"],
    "a part": ["session.jsonl", 3, "012", "9é"],
    "no bytes": ["session.jsonl", 0, "", ""],
    "an empty file": ["empty", 10, "", ""],
    "a missing file": ["missing", 10, null, null],
    "a link is not followed": ["link", 10, null, null],
    "a pipe does not hang": ["fifo", 10, null, null],
    "a directory": ["folder", 10, null, null],
  };
  test.each(Object.entries(parts))("reads head and tail: %s", async (_name, [name, bytes, head, tail]) => {
    expect([await files.head(at(name), bytes), await files.tail(at(name), bytes)]).toEqual([head, tail]);
  });
});

describe("rows", () => {
  const SELECT = "SELECT id, title FROM session WHERE id = ?";

  /** Leaves the write-ahead log behind, as a running or killed engine does. */
  function database(name: string, journal: "WAL" | "DELETE", keepOpen: boolean) {
    mkdirSync(at(name));
    const db = new DatabaseSync(join(at(name), "db"));
    db.exec(`PRAGMA journal_mode=${journal}; CREATE TABLE session (id TEXT, title TEXT)`);
    db.exec("INSERT INTO session VALUES ('a', 'first'), ('b', 'second')");
    if (!keepOpen) db.close();
    return db;
  }

  const cases: Record<string, ["WAL" | "DELETE", boolean]> = {
    "at rest": ["DELETE", false],
    "a write-ahead log, closed": ["WAL", false],
    "a write-ahead log, in use": ["WAL", true],
  };
  test.each(Object.entries(cases))(
    "%s: are read without creating a file",
    async (name, [journal, keepOpen]) => {
      const db = database(name, journal, keepOpen);
      const before = readdirSync(at(name));
      expect(await files.rows(join(at(name), "db"), SELECT, ["b"])).toEqual([{ id: "b", title: "second" }]);
      expect(readdirSync(at(name))).toEqual(before);
      if (keepOpen) db.close();
    },
  );

  test("come from the log after a crash, without creating a file", async () => {
    const db = database("alive", "WAL", true);
    for (const [name, copies] of [
      ["crashed", ["db", "db-wal", "db-shm"]],
      ["crashed without an index of the log", ["db", "db-wal"]],
    ] as const) {
      mkdirSync(at(name));
      for (const file of copies) copyFileSync(join(at("alive"), file), join(at(name), file));
    }
    db.close();
    expect(await files.rows(join(at("crashed"), "db"), SELECT, ["b"])).toHaveLength(1);
    expect(readdirSync(at("crashed"))).toEqual(["db", "db-shm", "db-wal"]);
    expect(await files.rows(join(at("crashed without an index of the log"), "db"), SELECT, ["b"])).toBeNull();
    expect(readdirSync(at("crashed without an index of the log"))).toEqual(["db", "db-wal"]);
  });

  test("are null when they cannot be read", async () => {
    database("plain", "DELETE", false);
    const db = join(at("plain"), "db");
    symlinkSync(db, at("db-link"));
    expect(await files.rows(at("no.db"), SELECT, ["b"])).toBeNull();
    expect(await files.rows(at("session.jsonl"), SELECT, ["b"])).toBeNull();
    expect(await files.rows(at("db-link"), SELECT, ["b"])).toBeNull();
    expect(await files.rows(at("folder"), SELECT, ["b"])).toBeNull();
    expect(await files.rows(db, "SELECT * FROM missing", [])).toBeNull();
    expect(await files.rows(db, "DELETE FROM session", [])).toBeNull();
    expect(await files.rows(db, SELECT, ["a"])).toEqual([{ id: "a", title: "first" }]);
    expect(existsSync(at("no.db"))).toBe(false);
  });

  test("are read from a path with characters that have a meaning in an address", async () => {
    database("a %41?mode=memory#x", "WAL", false);
    expect(await files.rows(join(at("a %41?mode=memory#x"), "db"), SELECT, ["a"])).toHaveLength(1);
  });
});

describe("restoreFile", () => {
  test("puts a copy back, with its folders, for the owner alone", async () => {
    await restoreFile(at("session.jsonl"), at("back/2026/session.jsonl"));
    expect(readFileSync(at("back/2026/session.jsonl"), "utf8")).toBe("0123456789é");
    const modes = ["back", "back/2026", "back/2026/session.jsonl"].map(
      (name) => statSync(at(name)).mode & 0o777,
    );
    expect(modes).toEqual([0o700, 0o700, 0o600]);
    expect(readdirSync(at("back/2026"))).toEqual(["session.jsonl"]);
  });

  test("never replaces a file, and leaves nothing behind", async () => {
    mkdirSync(at("taken"));
    writeFileSync(at("taken/session.jsonl"), "newer");
    const error: unknown = await restoreFile(at("session.jsonl"), at("taken/session.jsonl")).catch(
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(Fault);
    expect(error).toMatchObject({ code: "storage_failed", facts: { code: "EEXIST" } });
    expect(readFileSync(at("taken/session.jsonl"), "utf8")).toBe("newer");
    expect(readdirSync(at("taken"))).toEqual(["session.jsonl"]);
  });

  test("a missing copy is a fault", async () => {
    await expect(restoreFile(at("missing"), at("back/other"))).rejects.toMatchObject({
      code: "storage_failed",
      facts: { code: "ENOENT" },
    });
  });
});

test("a store can be read as if a missing file were still there", async () => {
  const gone = at("2026/01/gone.jsonl");
  const seen = sessionFilesWith(gone, at("session.jsonl"));
  expect(await seen.stat(gone)).toMatchObject({ name: "gone.jsonl", directory: false, size: 12 });
  expect(await seen.head(gone, 3)).toBe("012");
  expect((await seen.list(home)).find(({ name }) => name === "2026")).toMatchObject({ directory: true });
  expect(await seen.list(at("2026/01"))).toMatchObject([{ name: "gone.jsonl", directory: false }]);
  expect(await seen.stat(at("2026"))).toMatchObject({ directory: true });
  expect(await seen.stat(at("2025"))).toBeNull();
  expect(await seen.head(at("session.jsonl"), 3)).toBe("012");
});

test("a missing folder is not watched; an existing folder reports a new name", async () => {
  expect(watchFolder(at("missing"), () => {})).toBeNull();
  const folder = mkdtempSync(at("watched-"));
  const told = new Promise<string | null>((tell) => {
    const watcher = watchFolder(folder, (kind, name) => {
      if (kind !== "rename") return;
      watcher?.close();
      tell(name);
    });
  });
  writeFileSync(join(folder, "new"), "");
  // A watcher alone does not keep a process alive.
  const alive = setInterval(() => {}, 1000);
  expect(await told).toBe("new");
  clearInterval(alive);
});
