/** The guarantees of the SQLite store alone: schema steps, detected damage, one file among many processes. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { buildSync } from "esbuild";
import { afterAll, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { openConnection, journalFor } from "./connection.ts";
import {
  attemptLike,
  dead,
  documentLike,
  eventLike,
  fill,
  hold,
  ownerLike,
  runLike,
} from "../../test/contracts/store-samples.ts";
import { migrate, MIGRATIONS } from "./migrations.ts";
import { faultOf } from "./sqlite-faults.ts";
import { type Damage, openStore, type Store } from "./store.ts";

const folder = fs.mkdtempSync(join(tmpdir(), "reprise-sqlite-"));
fs.chmodSync(folder, 0o755);
let files = 0;
const freshPath = () => join(folder, `${(files += 1)}.db`);

/** Children run the bundled store: it is under node_modules so that it finds its one package, and starts fast. */
fs.mkdirSync("node_modules/.cache", { recursive: true });
const bundleFolder = fs.mkdtempSync("node_modules/.cache/reprise-store-");
const bundle = join(process.cwd(), bundleFolder, "store.mjs");
buildSync({
  stdin: {
    contents: 'export * from "./store.ts"; export * from "../../test/contracts/store-samples.ts";',
    resolveDir: fileURLToPath(new URL(".", import.meta.url)),
  },
  outfile: bundle,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  external: ["@photostructure/sqlite"],
});
fs.chmodSync(bundleFolder, 0o755);

afterAll(() => {
  fs.rmSync(folder, { recursive: true });
  fs.rmSync(bundleFolder, { recursive: true });
});

const nodeArgs = (script: string, path: string, ...rest: readonly string[]) => [
  "--input-type=module",
  "-e",
  `import { rmSync, writeSync } from "node:fs";
   import * as lib from ${JSON.stringify(bundle)};
   const [path, ...rest] = process.argv.slice(1);
   const say = (line) => writeSync(1, line + "\\n");
   ${script}`,
  path,
  ...rest,
];

/** Two runs with all their records, the same each time. */
async function fillSample(store: Store): Promise<void> {
  await fill(store, [runLike(1, { subject: "agent:a", name: "it's" }), runLike(2)]);
  await store.createAttempt(attemptLike(runLike(1), 1), await hold(store, runLike(1)));
  await store.createAttempt(attemptLike(runLike(2), 1), await hold(store, runLike(2)));
  await store.saveRun(runLike(2, { status: "failed", attempts: 1 }));
  await store.releaseLease(`run:${runLike(2).runId}`, 1);
  await store.appendEvent(eventLike({ key: "k" }));
  await store.appendEvent(eventLike({ runId: runLike(2).runId, attempt: null }));
  await store.saveDocument(documentLike({ data: { phase: "it's" } }), null);
  await store.saveDocument(documentLike({ kind: "decision", id: "00000001-1" }), null);
  await store.saveDocument(documentLike({ kind: "decision", id: "00000001-1", open: false }), 1);
}

/** The store's whole content, through every query. */
async function contentOf(store: Store) {
  const runs = await store.listRuns({ limit: 1000 });
  const known = Array.from({ length: 41 }, (_, n) => runLike(n));
  return {
    runs,
    each: await Promise.all(
      known.map(async ({ runId, handle }) => ({
        run: await store.getRun(runId),
        found: await store.findByHandle(handle),
        attempts: await store.listAttempts(runId),
        lease: await store.getLease(`run:${runId}`),
        events: await store.listEvents(runId),
      })),
    ),
    documents: await Promise.all(["agent", "decision"].map(async (kind) => store.listDocuments(kind))),
  };
}

async function sample(path = freshPath()): Promise<string> {
  await using store = await openStore(path);
  await fillSample(store);
  return path;
}

function raw(path: string, sql: string): void {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  db.exec(sql);
  db.close();
}

const fault = async (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => (error instanceof Error && "code" in error ? error.code : error),
  );

describe("a connection", () => {
  const pragmas = {
    journal_mode: "wal",
    synchronous: 2,
    busy_timeout: 30000,
    foreign_keys: 1,
    trusted_schema: 0,
    mmap_size: 0,
    secure_delete: 1,
  };
  const setting = (name: string) => (name === "busy_timeout" ? "timeout" : name);

  test("has every setting, whether it made the file or found it", async () => {
    const path = freshPath();
    for (const _ of ["made", "found"]) {
      const connection = await openConnection({ DatabaseSync }, path, {});
      const found = Object.keys(pragmas).map((name) => [
        name,
        connection.read((sql) => sql.one(`PRAGMA ${name}`))?.[setting(name)],
      ]);
      expect(Object.fromEntries(found)).toEqual(pragmas);
      connection.close();
    }
  });

  test("is private, whatever the umask and the earlier mode", async () => {
    const path = freshPath();
    const before = process.umask(0o000);
    try {
      const modes = () =>
        ["", "-wal", "-shm"].map((end) => (fs.statSync(`${path}${end}`).mode & 0o777).toString(8));
      await using store = await openStore(path);
      await store.createRun(runLike(1));
      expect(modes()).toEqual(["600", "600", "600"]);
      for (const end of ["", "-wal", "-shm"]) fs.chmodSync(`${path}${end}`, 0o644);
      await using _again = await openStore(path);
      expect(modes()).toEqual(["600", "600", "600"]);
    } finally {
      process.umask(before);
    }
  });

  const journals: [version: string, fileSystem: string | null, then: ReturnType<typeof journalFor>][] = [
    ["3.53.0", null, { mode: "wal", note: null }],
    ["3.51.3", null, { mode: "wal", note: null }],
    ["3.51.2", null, { mode: "truncate", note: "SQLite 3.51.2 is older than 3.51.3, so WAL is not used" }],
    ["3.9.9", null, { mode: "truncate", note: "SQLite 3.9.9 is older than 3.51.3, so WAL is not used" }],
    ["3.53.0", "nfs", { mode: "truncate", note: "on a network file system (nfs), so WAL is not used" }],
  ];
  test.each(journals)("SQLite %s on %s", (version, fileSystem, then) =>
    expect(journalFor(version, fileSystem)).toEqual(then),
  );

  test("describes itself to doctor", async () => {
    const path = freshPath();
    await using store = await openStore(path);
    const about = await store.about();
    expect(about).toEqual({
      backend: "sqlite",
      version: about.version,
      schema: MIGRATIONS.length,
      path,
      journal: "wal",
      note: null,
    });
  });

  const plans = ["engine", "status", "cwd", "subject", "name"].map((column) => `WHERE ${column} = 'x'`);
  test.each(["", ...plans])("lists newest runs %s without sorting", async (where) => {
    const connection = await openConnection({ DatabaseSync }, freshPath(), {});
    const text = `EXPLAIN QUERY PLAN SELECT * FROM runs ${where} ORDER BY created_at DESC, run_id DESC LIMIT 50`;
    const plan = connection.read((sql) => sql.all(text)).map((row) => String(row["detail"]));
    connection.close();
    expect(plan).toEqual([expect.stringMatching(/USING INDEX runs_/)]);
  });
});

describe("the schema", () => {
  /** The file as SQL, so that a released schema can be read and compared in the repository. */
  function dump(path: string): string {
    const db = new DatabaseSync(path, { readOnly: true });
    const all = (sql: string) => db.prepare(sql).all() as Record<string, string | number | null>[];
    const literal = (value: string | number | null | undefined) =>
      typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value ?? null);
    const lines = ["application_id", "user_version"].map(
      (name) => `PRAGMA ${name} = ${all(`PRAGMA ${name}`)[0]?.[name]};`,
    );
    for (const { sql } of all(
      "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'",
    )) {
      lines.push(`${sql};`);
    }
    for (const table of ["runs", "attempts", "leases", "events", "documents"]) {
      for (const row of all(`SELECT * FROM ${table} ORDER BY 1`)) {
        // The generation is not part of the schema.
        if (row["kind"] === "generation") continue;
        lines.push(`INSERT INTO ${table} VALUES (${Object.values(row).map(literal).join(", ")});`);
      }
    }
    db.close();
    return `${lines.join("\n")}\n`;
  }

  test("of today equals the one in the fixtures: a released step is never edited", async () => {
    const fixture = `./sqlite.fixtures/v${MIGRATIONS.length}.sql`;
    await expect(dump(await sample())).toMatchFileSnapshot(fixture);
  });

  const released = MIGRATIONS.map((_, index) => `v${index + 1}`);
  test.each(released)("%s is opened with everything in it", async (version) => {
    const path = freshPath();
    raw(path, fs.readFileSync(new URL(`./sqlite.fixtures/${version}.sql`, import.meta.url), "utf8"));
    await using store = await openStore(path);
    await using today = await openStore(await sample());
    const documents = version === "v1" ? { documents: [[], []] } : {};
    expect(await contentOf(store)).toEqual({ ...(await contentOf(today)), ...documents });
    expect([await store.verify(), (await store.about()).schema]).toEqual([[], MIGRATIONS.length]);
  });

  test("of the first version is read without documents, and no reader changes it", async () => {
    const path = freshPath();
    raw(path, fs.readFileSync(new URL("./sqlite.fixtures/v1.sql", import.meta.url), "utf8"));
    await using store = await openStore(path, { readOnly: true });
    expect([await store.listDocuments("agent"), await store.getDocument("agent", "x")]).toEqual([[], null]);
    expect([await store.verify(), (await store.about()).schema]).toEqual([[], 1]);
    expect(await fault(store.saveDocument(documentLike(), null))).toBe("storage_failed");
  });

  test("of an earlier version lists runs by their last change, and no reader changes it", async () => {
    const path = freshPath();
    raw(path, fs.readFileSync(new URL("./sqlite.fixtures/v2.sql", import.meta.url), "utf8"));
    await using store = await openStore(path, { readOnly: true });
    expect(await store.listRuns({ sort: "updated" })).toHaveLength((await store.listRuns({})).length);
    expect((await store.about()).schema).toBe(2);
  });

  test("is refused by the previous release if this one wrote it", async () => {
    const path = await sample();
    const older = bundle.replace("store.mjs", "older.mjs");
    const text = fs.readFileSync(bundle, "utf8").replaceAll("MIGRATIONS.length", "(MIGRATIONS.length - 1)");
    fs.writeFileSync(older, text);
    const script = `
      const { openStore } = await import(${JSON.stringify(older)});
      await openStore(path).catch(({ code, facts }) => say([code, facts.found, facts.known].join(" ")));`;
    const output = execFileSync(process.execPath, nodeArgs(script, path), { encoding: "utf8" });
    expect(output).toBe(`schema_newer ${MIGRATIONS.length} ${MIGRATIONS.length - 1}\n`);
  });

  test("stays at the earlier version after a failed step", async () => {
    const path = await sample();
    const db = new DatabaseSync(path);
    const steps = [...MIGRATIONS, "CREATE TABLE more (x); CREATE TABLE runs (x);"];
    expect(() => migrate(db, steps)).toThrow(/already exists/);
    expect([db.isTransaction, db.prepare("PRAGMA user_version").get()]).toEqual([
      false,
      { user_version: MIGRATIONS.length },
    ]);
    expect(db.prepare("SELECT name FROM sqlite_master WHERE name = 'more'").get()).toBeUndefined();
    expect(migrate(db, [...MIGRATIONS, "CREATE TABLE more (x);", "CREATE TABLE most (x);"])).toBe(
      MIGRATIONS.length + 2,
    );
    db.close();
  });

  test("of a newer version is refused with both numbers, and may still be listed read only", async () => {
    const path = await sample();
    const found = MIGRATIONS.length + 6;
    raw(path, `PRAGMA user_version = ${found}; ALTER TABLE runs ADD COLUMN more TEXT`);
    await expect(openStore(path)).rejects.toMatchObject({
      code: "schema_newer",
      facts: { path, found, known: MIGRATIONS.length },
      message: expect.stringContaining("Use the newer Reprise"),
    });
    await using store = await openStore(path, { readOnly: true });
    expect((await store.listRuns({})).map(({ handle }) => handle)).toEqual([
      runLike(2).handle,
      runLike(1).handle,
    ]);
    raw(path, "ALTER TABLE runs RENAME COLUMN handle TO grip");
    expect(await fault(store.findByHandle("0000"))).toBe("schema_newer");
  });
});

describe("a file that is not a good index", () => {
  const bad: Record<string, [make: (path: string) => void, code: string]> = {
    "a text file": [(path) => fs.writeFileSync(path, "hello\n".repeat(1000)), "index_damaged"],
    "a short text file": [(path) => fs.writeFileSync(path, "hello"), "index_damaged"],
    "another program's database": [(path) => raw(path, "CREATE TABLE t (x)"), "index_damaged"],
    "another program's empty database": [(path) => raw(path, "PRAGMA application_id = 7"), "index_damaged"],
    "an index whose schema number went back": [
      (path) => raw(path, `${MIGRATIONS.join("\n")} PRAGMA user_version = 0`),
      "index_damaged",
    ],
    "a directory": [(path) => fs.mkdirSync(path), "storage_failed"],
    "a link to nowhere": [(path) => fs.symlinkSync("/nowhere/at/all", path), "storage_failed"],
  };
  test.each(Object.entries(bad))("%s", async (_name, [make, code]) => {
    const path = freshPath();
    make(path);
    const size = fs.lstatSync(path).size;
    await expect(openStore(path)).rejects.toMatchObject({ code, facts: { path } });
    expect(fs.lstatSync(path).size).toBe(size);
  });

  test.each([{}, { readOnly: true }] as const)(
    "a directory in its place is refused with what to do, %j",
    async (options) => {
      const path = freshPath();
      fs.mkdirSync(path, { mode: 0o755 });
      await expect(openStore(path, options)).rejects.toMatchObject({
        message: expect.stringMatching(/is a directory, .* Move the directory away/),
      });
      expect(fs.statSync(path).mode & 0o777).toBe(0o755);
    },
  );

  test("a missing directory is refused", async () => {
    const path = join(folder, "missing", "index.db");
    await expect(openStore(path)).rejects.toMatchObject({ code: "storage_failed", facts: { path } });
    await expect(openStore(path, { readOnly: true })).rejects.toMatchObject({ code: "storage_failed" });
  });

  test("an empty file is a new index, but not read only", async () => {
    const path = freshPath();
    fs.writeFileSync(path, "");
    expect(await fault(openStore(path, { readOnly: true }))).toBe("storage_failed");
    await using store = await openStore(path);
    expect(await store.listRuns({})).toEqual([]);
  });

  test("a truncated index is damaged at the latest when it is read", async () => {
    const path = await sample();
    fs.truncateSync(path, 3 * 4096);
    const work = async () => {
      await using store = await openStore(path);
      return await store.listRuns({});
    };
    expect(await fault(work())).toBe("index_damaged");
  });

  test("a page that could not be read once is not a damaged one", async () => {
    const path = await sample();
    let failing = 0;
    const unread = () => Object.assign(new Error("malformed"), { code: "ERR_SQLITE_ERROR", errcode: 11 });
    class Flaky extends DatabaseSync {
      override prepare(text: string) {
        if (failing > 0) {
          failing -= 1;
          throw unread();
        }
        return super.prepare(text);
      }
    }
    failing = 1;
    const connection = await openConnection({ DatabaseSync: Flaky }, path, {});
    failing = 1;
    expect(connection.read((sql) => sql.one("SELECT 7 AS n"))).toEqual({ n: 7 });
    failing = 2;
    expect(() => connection.read((sql) => sql.one("SELECT 8 AS n"))).toThrow("is damaged");
    connection.close();
    failing = 9;
    await expect(openConnection({ DatabaseSync: Flaky }, path, {})).rejects.toThrow("is damaged");
  });

  const errors: [error: object, code: string][] = [
    [{ errcode: 5 }, "index_busy"],
    [{ errcode: 261 }, "index_busy"],
    [{ errcode: 13 }, "storage_full"],
    [{ errcode: 778, systemErrno: 28 }, "storage_full"],
    [{ errcode: 778, systemErrno: 5 }, "storage_failed"],
    [{ errcode: 8 }, "storage_failed"],
    [{ errcode: 14, systemErrno: 13 }, "storage_failed"],
    [{ errcode: 14, systemErrno: 24 }, "too_many_files"],
    [{ errcode: 778, systemErrno: 23 }, "too_many_files"],
    [{ errcode: 11 }, "index_damaged"],
    [{ errcode: 26 }, "index_damaged"],
    [{ errcode: 1 }, "index_damaged"],
    [{ message: "database disk image is malformed" }, "index_damaged"],
    [{ message: "no such column: handle" }, "index_damaged"],
    [{ message: "database is locked" }, "index_busy"],
    [{ code: "EROFS", syscall: "open" }, "storage_failed"],
    [{ code: "ENOSPC", syscall: "open" }, "storage_full"],
    [{ code: "EPERM", syscall: "chmod" }, "denied"],
  ];
  test.each(errors)("%j is %s", (fields, code) => {
    const error = Object.assign(new Error("why"), { code: "ERR_SQLITE_ERROR" }, fields);
    expect(faultOf(error, "/i.db")).toMatchObject({ code, facts: { path: "/i.db" }, cause: error });
  });

  test("any other error is a bug and stays unchanged", () => {
    for (const error of [
      new Error("bug"),
      Object.assign(new Error("unique"), { code: "ERR_SQLITE_ERROR", errcode: 2067 }),
      "text",
    ]) {
      expect(faultOf(error, "/i.db")).toBe(error);
    }
  });
});

describe("a damaged row", () => {
  const { runId } = runLike(1);
  const changes: [sql: string, table: string, key: string][] = [
    ["UPDATE runs SET record = replace(record, 'codex', 'c0dex')", "runs", runId],
    ["UPDATE runs SET record = '{'", "runs", runId],
    ["UPDATE runs SET status = 'failed'", "runs", runId],
    ["UPDATE runs SET name = NULL", "runs", runId],
    ["UPDATE runs SET sum = ''", "runs", runId],
    ["UPDATE attempts SET state = 'ended'", "attempts", `${runId} 1`],
    ["UPDATE attempts SET record = replace(record, 'go on', 'stop')", "attempts", `${runId} 1`],
    ["UPDATE leases SET fence = 7", "leases", `run:${runId}`],
    ["UPDATE leases SET owner = NULL", "leases", `run:${runId}`],
    ["UPDATE events SET kind = 'other' WHERE seq = 1", "events", "1"],
    ["UPDATE events SET payload = '{}' WHERE seq = 1", "events", "1"],
    ["DELETE FROM events WHERE seq = 1", "events", "2"],
    ["UPDATE documents SET open = 1 - open", "documents", "agent 00000001"],
    ["UPDATE documents SET version = version + 1", "documents", "decision 00000001-1"],
    ["UPDATE documents SET seq = seq + 10", "documents", "agent 00000001"],
    ["UPDATE documents SET id = id || 'x'", "documents", "agent 00000001x"],
    ["UPDATE documents SET data = '{}'", "documents", "agent 00000001"],
    ["UPDATE documents SET data = '7'", "documents", "agent 00000001"],
    ["DELETE FROM events WHERE seq = 2", "events", "2"],
  ];
  test.each(changes)("%s", async (sql, table, key) => {
    const path = await sample();
    const where = table === "runs" || table === "attempts" ? `WHERE run_id = '${runId}'` : "";
    raw(path, `${sql} ${where}`);
    await using store = await openStore(path);
    const damage = await store.verify();
    expect(damage.filter((each) => each.table === table && each.key === key)).not.toEqual([]);
    expect(damage.filter((each) => each.table !== table)).toEqual([]);
  });

  test("is a fault when it is read alone, left out of lists, reported, and repaired by saving", async () => {
    const path = await sample();
    raw(path, `UPDATE runs SET record = '{' WHERE run_id = '${runId}'`);
    const told: Damage[] = [];
    await using store = await openStore(path, { onDamage: (damage) => told.push(damage) });
    await expect(store.getRun(runId)).rejects.toMatchObject({ code: "record_damaged", facts: { runId } });
    expect(told).toEqual([]);
    expect((await store.listRuns({})).map(({ handle }) => handle)).toEqual([runLike(2).handle]);
    expect(await store.findByHandle(runLike(1).handle)).toEqual([]);
    const damage = { table: "runs", key: runId, what: "the checksum does not match" };
    expect(told).toEqual([damage, damage]);
    await store.saveRun(runLike(1));
    expect([await store.getRun(runId), await store.verify()]).toEqual([runLike(1), []]);
  });

  test("among documents is named and left out of lists, and a fault when it is read alone", async () => {
    const path = await sample();
    raw(path, "UPDATE documents SET data = '{}' WHERE kind = 'agent'");
    const told: Damage[] = [];
    await using store = await openStore(path, { onDamage: (damage) => told.push(damage) });
    await store.saveDocument(documentLike({ id: "00000002" }), null);
    expect((await store.listDocuments("agent")).map(({ id }) => id)).toEqual(["00000002"]);
    const what = "the checksum does not match";
    expect(told).toEqual([{ table: "documents", key: "agent 00000001", what }]);
    expect(await fault(store.getDocument("agent", "00000001"))).toBe("record_damaged");
    expect((await store.listDocuments("decision")).length).toBe(1);
  });

  test.each(["attempts", "events", "leases"])("of %s is a fault that names it", async (table) => {
    const path = await sample();
    raw(path, `UPDATE ${table} SET ${table === "events" ? "hash" : "sum"} = 'x'`);
    await using store = await openStore(path);
    const reads = [
      store.listAttempts(runId),
      store.listEvents(runId),
      store.acquireLease(`run:${runId}`, ownerLike(9), dead),
    ];
    const codes = await Promise.all(reads.map(fault));
    expect(codes.filter((code) => code !== null)).toEqual(["record_damaged"]);
  });

  test("with any single changed bit is found by verify or a fault", { timeout: 60_000 }, async () => {
    const path = freshPath();
    {
      await using store = await openStore(path);
      for (let n = 1; n <= 40; n += 1) {
        const run = runLike(n, { subject: n % 2 === 0 ? null : "agent:a" });
        await store.createRun(run);
        await store.createAttempt(attemptLike(run, 1), await hold(store, run));
        await store.appendEvent(eventLike({ runId: run.runId, key: `k${n}` }));
        await store.saveDocument(documentLike({ id: run.handle, open: n % 2 === 0 }), null);
      }
    }
    const good = fs.readFileSync(path);
    const copy = freshPath();
    fs.writeFileSync(copy, good);
    const read = async (store: Store) => JSON.stringify(await contentOf(store));
    const expected = await withStore(copy, read);

    const tally = { changed: 0, harmless: 0 };
    const silent: number[] = [];
    for (const bit of someBits(good.length * 8, 150)) {
      const bytes = Buffer.from(good);
      bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const flipped = freshPath();
      fs.writeFileSync(flipped, bytes);
      const seen = await withStore(flipped, async (store) => (await store.verify()).length > 0);
      const same = (await withStore(flipped, read)) === expected;
      tally[same ? "harmless" : "changed"] += 1;
      if (!same && seen === false) silent.push(bit);
      fs.rmSync(flipped);
    }
    expect(silent).toEqual([]);
    expect(tally.changed).toBeGreaterThanOrEqual(30);
  });

  /** A fault is also an answer; any other error fails the test. */
  async function withStore<T>(path: string, work: (store: Store) => Promise<T>): Promise<T | Fault> {
    try {
      await using store = await openStore(path);
      return await work(store);
    } catch (error) {
      if (error instanceof Fault) return error;
      throw error;
    }
  }

  /** Spread over the whole file, the same each time. */
  function someBits(length: number, count: number): readonly number[] {
    const golden = 0.618_033_988_75;
    return Array.from({ length: count }, (_, n) => Math.floor(((n * golden) % 1) * length));
  }
});

describe("a file that changes under an open store", () => {
  test("an index that was set aside and rebuilt is opened again", async () => {
    const path = await sample();
    const told: Damage[] = [];
    await using store = await openStore(path, { onDamage: (damage) => told.push(damage) });
    for (const end of ["-wal", "-shm", ""])
      if (fs.existsSync(path + end)) fs.renameSync(path + end, `${path}.damaged${end}`);
    {
      await using rebuilt = await openStore(path);
      await rebuilt.createRun(runLike(3));
    }
    expect(await store.listRuns({})).toEqual([runLike(3)]);
    await store.createRun(runLike(4));
    await using other = await openStore(path);
    expect(await other.getRun(runLike(4).runId)).toEqual(runLike(4));
    expect(told).toEqual([{ table: "index", key: path, what: "the file was replaced while it was open" }]);
  });

  test("a deleted WAL is refused, and acknowledged data is saved", async () => {
    const path = await sample();
    const script = `
      const store = await lib.openStore(path);
      await store.createRun(lib.runLike(3));
      rmSync(path + "-wal");
      rmSync(path + "-shm");
      await store.createRun(lib.runLike(4)).catch((error) => say(error.code));`;
    const output = execFileSync(process.execPath, nodeArgs(script, path), { encoding: "utf8" });
    expect(output).toBe("index_damaged\n");
    await using other = await openStore(path);
    expect((await other.listRuns({})).map(({ handle }) => handle)).toEqual(
      [3, 2, 1].map((n) => runLike(n).handle),
    );
    expect(await other.verify()).toEqual([]);
  });

  test("a removed index is not silently made again", async () => {
    const path = await sample();
    await using store = await openStore(path);
    for (const end of ["", "-wal", "-shm"]) fs.rmSync(`${path}${end}`);
    await expect(store.createRun(runLike(3))).rejects.toMatchObject({
      code: "index_damaged",
      facts: { path },
    });
    expect(fs.existsSync(path)).toBe(false);
  });
});

describe("many processes", { timeout: 60_000 }, () => {
  async function outputOf(child: ReturnType<typeof spawn>): Promise<string> {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => (text += chunk.toString()));
    await once(child, "close");
    return text;
  }
  const start = (script: string, path: string, ...rest: readonly string[]) =>
    spawn(process.execPath, nodeArgs(script, path, ...rest), { stdio: ["ignore", "pipe", "inherit"] });

  test("that open a new file at once all succeed, and share its runs, leases and log", async () => {
    const path = freshPath();
    const script = `
      const store = await lib.openStore(path);
      for (let n = 1; n <= 20; n += 1) {
        if ((await store.createRun(lib.runLike(n))) === "created") say("run " + n);
        const answer = await store.acquireLease("k" + n, lib.ownerLike(process.pid), lib.alive);
        if (answer.held) say("lease " + n);
        if ((await store.appendEvent(lib.eventLike({ key: "k" + n }))) !== null) say("event " + n);
        await store.appendEvent(lib.eventLike());
      }
      say("done");`;
    const outputs = await Promise.all([1, 2, 3, 4].map(async () => outputOf(start(script, path))));
    const lines = outputs.flatMap((text) => text.trim().split("\n"));
    const each = (what: string) => Array.from({ length: 20 }, (_, n) => `${what} ${n + 1}`);
    const expected = [...each("run"), ...each("lease"), ...each("event"), "done", "done", "done", "done"];
    expect(lines.toSorted()).toEqual(expected.toSorted());
    await using store = await openStore(path);
    expect((await store.listEvents(eventLike().runId)).length).toBe(100);
    expect(await store.verify()).toEqual([]);
  });

  test("killed at any moment lose nothing that they acknowledged", async () => {
    const path = freshPath();
    const script = `
      const round = Number(rest[0]);
      const store = await lib.openStore(path);
      for (let n = 0; ; n += 1) {
        const run = lib.runLike(round * 1000 + n);
        await store.createRun(run);
        say("run " + run.runId);
        await store.createAttempt(lib.attemptLike(run, 1), await lib.hold(store, run, process.pid));
        say("attempt " + run.runId);
        await store.appendEvent(lib.eventLike({ runId: run.runId, key: run.runId }));
        say("event " + run.runId);
      }`;
    const acknowledged: string[] = [];
    for (let round = 0; round < 24; round += 1) {
      const child = start(script, path, String(round));
      const killAfter = (round * 7) % 23;
      let seen = 0;
      child.stdout?.on("data", (chunk: Buffer) => {
        seen += chunk.toString().split("\n").length - 1;
        if (seen > killAfter) child.kill("SIGKILL");
      });
      acknowledged.push(...(await outputOf(child)).split("\n").slice(0, -1));
      expect(child.signalCode).toBe("SIGKILL");
      await using store = await openStore(path);
      expect(await store.verify()).toEqual([]);
    }
    expect(acknowledged.length).toBeGreaterThan(24);
    await using store = await openStore(path);
    const missing: string[] = [];
    for (const line of acknowledged) {
      const [what, runId = ""] = line.split(" ");
      const there =
        what === "run"
          ? (await store.getRun(runId)) !== null
          : what === "attempt"
            ? (await store.listAttempts(runId)).length === 1
            : (await store.listEvents(runId)).length === 1;
      if (!there) missing.push(line);
    }
    expect(missing).toEqual([]);
  });

  test("killed while they set up a new file leave a file that opens", async () => {
    for (let round = 0; round < 10; round += 1) {
      const path = freshPath();
      const child = start(`say("go"); await lib.openStore(path); for (;;);`, path);
      child.stdout?.once("data", () => setTimeout(() => child.kill("SIGKILL"), round * 2));
      await outputOf(child);
      await using store = await openStore(path);
      expect([await store.createRun(runLike(1)), await store.verify()]).toEqual(["created", []]);
    }
  });

  test("report a lock that is held too long as busy, and leave nothing half done", async () => {
    const path = await sample();
    const db = new DatabaseSync(path);
    await using store = await openStore(path, { busyTimeoutMs: 50 });
    db.exec("BEGIN IMMEDIATE");
    expect(await fault(store.createRun(runLike(3)))).toBe("index_busy");
    expect((await store.listRuns({})).length).toBe(2);
    db.exec("ROLLBACK");
    db.close();
    expect(await store.createRun(runLike(3))).toBe("created");
  });

  test("wait for a writer that blocks WAL, although SQLite does not wait", async () => {
    const path = freshPath();
    const db = new DatabaseSync(path);
    db.exec("CREATE TABLE t (x); DROP TABLE t; BEGIN IMMEDIATE");
    const opening = openStore(path);
    setTimeout(() => db.exec("ROLLBACK"), 30);
    await using store = await opening;
    expect((await store.about()).journal).toBe("wal");
    db.close();
  });

  test("report a file that is locked during opening as busy", async () => {
    const path = freshPath();
    const db = new DatabaseSync(path);
    db.exec("BEGIN EXCLUSIVE");
    expect(await fault(openStore(path, { busyTimeoutMs: 50 }))).toBe("index_busy");
    db.exec("ROLLBACK");
    db.close();
  });
});

describe("a disk that refuses", () => {
  /** Root may write anywhere, so as root the child becomes nobody. */
  const asNobody =
    process.getuid?.() === 0 ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : [];
  const command = asNobody[0] ?? process.execPath;
  const prefix = [...asNobody, process.execPath].slice(1);
  const probe = spawnSync(command, [...prefix, ...nodeArgs("", "")], { stdio: "ignore" });
  const answers = `
    const tell = (error) => void say(error.code);
    const store = await lib.openStore(path, { readOnly: rest[0] === "ro" }).catch(tell);
    if (store) {
      const runs = await store.listRuns({});
      say(runs.length + " " + (await store.verify()).length + " " + (await store.about()).note);
      await store.createRun(lib.runLike(9)).then(say, tell);
    }`;
  const ask = (path: string, mode: string) =>
    execFileSync(command, [...prefix, ...nodeArgs(answers, path, mode)], { encoding: "utf8" })
      .trim()
      .split("\n");

  describe.skipIf(probe.status !== 0)(
    "by its permissions (skipped where no other user can run this code)",
    () => {
      async function locked(leaveWal: boolean): Promise<string> {
        const path = join(folder, `locked-${files}`, "index.db");
        fs.mkdirSync(join(path, ".."));
        await sample(path);
        for (const end of ["-wal", "-shm"]) fs.rmSync(`${path}${end}`, { force: true });
        if (leaveWal) {
          const script = `await (await lib.openStore(path)).createRun(lib.runLike(3)); process.kill(process.pid, "SIGKILL")`;
          spawnSync(process.execPath, nodeArgs(script, path));
        }
        for (const name of fs.readdirSync(join(path, ".."))) fs.chmodSync(join(path, "..", name), 0o444);
        fs.chmodSync(join(path, ".."), 0o555);
        files += 1;
        return path;
      }

      test("can be listed read only", async () => {
        const path = await locked(false);
        const note = "read only, in a directory that cannot be written";
        expect(ask(path, "ro")).toEqual([`2 0 ${note}`, "storage_failed"]);
      });

      test("can be listed read only with what a crash left in the WAL", async () => {
        const path = await locked(true);
        expect(ask(path, "ro")).toEqual(["3 0 null", "storage_failed"]);
      });

      test("cannot be opened for writing", async () => {
        const path = await locked(false);
        expect(["storage_failed", "denied"]).toContain(ask(path, "rw").at(-1));
      });
    },
  );

  /** A small separate file system that disappears with the process. */
  const mounted = (mount: string, ...child: readonly string[]) => {
    const [unshare, ...args] = ["unshare", "-m", "sh", "-c"] as const;
    const script = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"';
    return spawnSync(unshare, [...args, script, "sh", mount, ...child], { encoding: "utf8" });
  };
  const canMount = mounted(folder, "true").status === 0;
  test.skipIf(!canMount)("because it is full gives no answer, and keeps everything before it", () => {
    const mount = fs.mkdtempSync(join(folder, "full-"));
    const script = `
      const store = await lib.openStore(path);
      let created = 0;
      try {
        for (;;) { await store.createRun(lib.runLike(created + 1)); created += 1; }
      } catch (error) { say(error.code); }
      const runs = await store.listRuns({ limit: Infinity });
      say((created > 5 && runs.length === created) + " " + (await store.verify()).length);`;
    const { stdout } = mounted(mount, process.execPath, ...nodeArgs(script, join(mount, "index.db")));
    expect(stdout).toBe("storage_full\ntrue 0\n");
  });
});
