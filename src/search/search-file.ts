/**
 * `search.db` in the state directory: sections of redacted text with their full-text index (SQLite FTS5), and how far each
 * source of text has been read. Everything in it can be made again from the run directories and the engines' stores, so a
 * file that is missing, damaged or of another version is made again.
 *
 * A section's number is that of its source times 2^20 plus its place in the source, so that the sections of a source are
 * one range. The text index stores no text; `sections` does.
 */
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { sharedLock, type StateDir } from "../state/directory.ts";
import { inTurn, type SideDatabase, sideDatabases } from "../store/store.ts";
import type { Section } from "./section.ts";
import { identifierParts } from "./text.ts";

const SCHEMA = 1;
/** "RPSF". */
const APPLICATION_ID = 0x52_50_53_46;
const PER_SOURCE = 2 ** 20;

const TABLES = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
  CREATE TABLE conversations (
    id INTEGER PRIMARY KEY, run_id TEXT UNIQUE, handle TEXT, engine TEXT NOT NULL, session TEXT, cwd TEXT, title TEXT
  ) STRICT;
  CREATE UNIQUE INDEX conversations_outside ON conversations (engine, session) WHERE run_id IS NULL;
  CREATE TABLE sources (
    id INTEGER PRIMARY KEY AUTOINCREMENT, conversation INTEGER NOT NULL, name TEXT NOT NULL UNIQUE, attempt INTEGER,
    offset INTEGER NOT NULL, sections INTEGER NOT NULL, stamp TEXT NOT NULL, until INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX sources_conversation ON sources (conversation);
  CREATE TABLE sections (
    id INTEGER PRIMARY KEY, from_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL, kinds TEXT NOT NULL, text TEXT NOT NULL
  ) STRICT;
  CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = "unicode61 remove_diacritics 2");
  INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${SCHEMA};`;

type Bound = readonly (string | number | null)[];
type Row = Readonly<Record<string, string | number | null>>;

/** Where a conversation belongs: to a run, or to an engine's own store. */
export interface ConversationKey {
  readonly runId: string | null;
  readonly handle: string | null;
  readonly engine: string;
  readonly session: string | null;
  readonly cwd: string | null;
  readonly title: string | null;
}

/** A file whose text is in the search, and how far. */
export interface TextSource {
  readonly id: number;
  /** Bytes that were read. */
  readonly offset: number;
  readonly sections: number;
  /** Identifies the content of a source that is read as a whole. */
  readonly stamp: string;
}

export function searchPath({ root }: Pick<StateDir, "root">): string {
  return join(root, "search.db");
}

export interface SearchFileOptions {
  readonly busyTimeoutMs: number;
}

/** Null: nothing can be written here, and there is no usable file. */
export async function openSearchFile(
  state: StateDir,
  { busyTimeoutMs }: SearchFileOptions,
): Promise<SearchFile | null> {
  const path = searchPath(state);
  const { openSideDatabase, sideTrouble, sideFault } = await sideDatabases();
  for (let tries = 1; ; tries += 1) {
    let db: SideDatabase | null = null;
    try {
      if (!state.writable && statSync(path, { throwIfNoEntry: false }) === undefined) return null;
      db = openSideDatabase(path, { readOnly: !state.writable, busyTimeoutMs });
      if (prepared(db, state.writable)) return new SearchFile(db, path, { sideTrouble, sideFault });
      db.close();
    } catch (error) {
      db?.close();
      if (sideTrouble(error, path) !== "damaged") throw sideFault(error, path);
    }
    if (!state.writable) return null;
    if (tries > 2) throw unusable(path);
    await removeSearchFile(state, fileOf(path));
  }
}

/** False: it is another program's file, or has another schema. */
function prepared(db: SideDatabase, writable: boolean): boolean {
  const value = (name: string) => Number((db.prepare(`PRAGMA ${name}`).get() as Row)[name]);
  if (value("application_id") === APPLICATION_ID && value("user_version") === SCHEMA) return true;
  if (!writable) return false;
  db.exec("BEGIN IMMEDIATE");
  try {
    if (value("application_id") === APPLICATION_ID) return value("user_version") === SCHEMA;
    const { count } = db.prepare("SELECT count(*) AS count FROM sqlite_master").get() as { count: number };
    if (count > 0) return false;
    db.exec(TABLES);
    db.exec("COMMIT");
    return true;
  } finally {
    if (db.isTransaction) db.exec("ROLLBACK");
  }
}

function unusable(path: string): Fault {
  return new Fault("storage_failed", `${path} cannot be used or replaced. Remove it and search again.`, {
    facts: { path },
  });
}

function fileOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "" : `${stat.dev}:${stat.ino}`;
}

/** Removes this very file, unless another process has replaced it meanwhile. */
async function removeSearchFile(state: StateDir, file: string): Promise<void> {
  const path = searchPath(state);
  await inTurn(sharedLock(state), () => {
    if (fileOf(path) !== file) return;
    for (const name of [path, `${path}-wal`, `${path}-shm`, `${path}-journal`])
      rmSync(name, { force: true, recursive: true });
  });
}

type ErrorMeanings = Pick<Awaited<ReturnType<typeof sideDatabases>>, "sideTrouble" | "sideFault">;

export class SearchFile {
  readonly #db: SideDatabase;
  readonly #path: string;
  readonly #file: string;
  readonly #errors: ErrorMeanings;
  readonly #statements = new Map<string, ReturnType<SideDatabase["prepare"]>>();

  constructor(db: SideDatabase, path: string, errors: ErrorMeanings) {
    this.#db = db;
    this.#path = path;
    this.#file = fileOf(path);
    this.#errors = errors;
  }

  /** What an error of this file means. Null: a bug. */
  trouble(error: unknown): ReturnType<ErrorMeanings["sideTrouble"]> {
    return error instanceof Fault ? null : this.#errors.sideTrouble(error, this.#path);
  }

  /** The error as the user reads it. */
  faultOf(error: unknown): unknown {
    return this.#errors.sideFault(error, this.#path);
  }

  all(text: string, bound: Bound = []): readonly Row[] {
    return this.#prepared(text).all(...bound) as Row[];
  }

  one(text: string, bound: Bound = []): Row | undefined {
    return this.#prepared(text).get(...bound) as Row | undefined;
  }

  run(text: string, bound: Bound = []): void {
    this.#prepared(text).run(...bound);
  }

  #prepared(text: string): ReturnType<SideDatabase["prepare"]> {
    const statement = this.#statements.get(text) ?? this.#db.prepare(text);
    this.#statements.set(text, statement);
    return statement;
  }

  /** One transaction with the right to write from its beginning. */
  write<T>(work: () => T): T {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      this.#db.exec("COMMIT");
      return result;
    } finally {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
    }
  }

  conversation(key: ConversationKey): number {
    const found =
      key.runId === null
        ? this.one("SELECT id FROM conversations WHERE run_id IS NULL AND engine = ? AND session = ?", [
            key.engine,
            key.session,
          ])
        : this.one("SELECT id FROM conversations WHERE run_id = ?", [key.runId]);
    if (found !== undefined) return Number(found["id"]);
    const values = [key.runId, key.handle, key.engine, key.session, key.cwd, key.title];
    const insert =
      "INSERT INTO conversations (run_id, handle, engine, session, cwd, title) VALUES (?, ?, ?, ?, ?, ?) RETURNING id";
    return Number(this.one(insert, values)?.["id"]);
  }

  source(name: string): TextSource | null {
    const row = this.one("SELECT id, offset, sections, stamp FROM sources WHERE name = ?", [name]);
    if (row === undefined) return null;
    const [id, offset, sections] = [Number(row["id"]), Number(row["offset"]), Number(row["sections"])];
    return { id, offset, sections, stamp: String(row["stamp"]) };
  }

  newSource(conversation: number, name: string, attempt: number | null): TextSource {
    const insert =
      "INSERT INTO sources (conversation, name, attempt, offset, sections, stamp, until) VALUES (?, ?, ?, 0, 0, '', 0) RETURNING id";
    return {
      id: Number(this.one(insert, [conversation, name, attempt])?.["id"]),
      offset: 0,
      sections: 0,
      stamp: "",
    };
  }

  /** Adds sections behind those of the source, and records how far it was read. */
  extend(
    source: TextSource,
    sections: readonly Section[],
    { offset, stamp }: Pick<TextSource, "offset" | "stamp">,
  ): void {
    let next = source.sections;
    let untilMs = 0;
    for (const section of sections) {
      // Never reached by text that a person could read.
      if (next >= PER_SOURCE) break;
      const id = source.id * PER_SOURCE + next;
      const { fromMs, kinds, text } = section;
      this.run("INSERT INTO sections VALUES (?, ?, ?, ?, ?)", [id, fromMs, section.untilMs, kinds, text]);
      this.run("INSERT INTO words (rowid, text) VALUES (?, ?)", [id, indexed(text)]);
      next += 1;
      untilMs = Math.max(untilMs, section.untilMs);
    }
    this.run("UPDATE sources SET offset = ?, sections = ?, stamp = ?, until = max(until, ?) WHERE id = ?", [
      offset,
      next,
      stamp,
      untilMs,
      source.id,
    ]);
  }

  /** With all its text. */
  removeSource(id: number): void {
    const [from, to] = [id * PER_SOURCE, (id + 1) * PER_SOURCE];
    for (const row of this.all("SELECT id, text FROM sections WHERE id >= ? AND id < ?", [from, to])) {
      const text = indexed(String(row["text"]));
      this.run("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", [Number(row["id"]), text]);
    }
    this.run("DELETE FROM sections WHERE id >= ? AND id < ?", [from, to]);
    this.run("DELETE FROM sources WHERE id = ?", [id]);
  }

  removeConversation(id: number): void {
    for (const row of this.all("SELECT id FROM sources WHERE conversation = ?", [id]))
      this.removeSource(Number(row["id"]));
    this.run("DELETE FROM conversations WHERE id = ?", [id]);
  }

  meta(name: string): string | null {
    const value = this.one("SELECT value FROM meta WHERE name = ?", [name])?.["value"];
    return value === undefined ? null : String(value);
  }

  setMeta(name: string, value: string): void {
    this.run("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", [name, value]);
  }

  /** Empties the write-ahead log, which may hold removed text, unless another process uses it. */
  settle(): void {
    try {
      this.#db.exec("PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (error) {
      if (this.trouble(error) === null) throw error;
    }
  }

  close(): void {
    this.#statements.clear();
    if (this.#db.isOpen) this.#db.close();
  }

  /** It turned out to be damaged: closes and removes it. */
  async discard(state: StateDir): Promise<void> {
    this.close();
    await removeSearchFile(state, this.#file);
  }
}

/** The parts of identifiers are found as well. */
function indexed(text: string): string {
  return `${text}\n${identifierParts(text)}`;
}

export function sourceOf(section: number): number {
  return Math.floor(section / PER_SOURCE);
}

/** The smallest section of a source. */
export function firstSection(source: number): number {
  return source * PER_SOURCE;
}
