/** OpenCode's database as far as the scripted agent needs it: sessions, messages and parts, in the real columns. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { arrayIn, type JsonObject, objectIn, parseObject, stringIn } from "../../src/lib/json.ts";
import { type DemoConversation, DemoRefusal, type DemoWorld } from "../../src/demo/persona.ts";

export const OPENCODE_VERSION = "1.18.33";

const TABLES = `
CREATE TABLE IF NOT EXISTS project (id text PRIMARY KEY, worktree text NOT NULL, vcs text, name text, icon_url text,
  icon_url_override text, icon_color text, time_created integer NOT NULL, time_updated integer NOT NULL,
  time_initialized integer, sandboxes text NOT NULL, commands text);
CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text,
  slug text NOT NULL, directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, share_url text,
  summary_additions integer, summary_deletions integer, summary_files integer, summary_diffs text, metadata text,
  cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL,
  tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL,
  tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text, agent text, model text,
  time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer);
CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE IF NOT EXISTS part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);`;

export interface Place {
  /** Null: a new session. */
  readonly id: string | null;
  readonly directory: string;
  readonly title: string;
}

/** Throws when the session does not exist. */
export async function openSession(
  world: DemoWorld,
  { id, directory, title }: Place,
): Promise<DemoConversation & { readonly directory: string }> {
  const db = await open(world);
  const session = id ?? newId("ses");
  if (id === null) insertSession(db, { id: session, directory, title });
  const row = sessionIn(db, session);
  if (row === null) throw new Error("Session not found");
  return {
    id: session,
    directory: row.directory,
    earlier: said(db, session, "user"),
    user: async (text) => insertMessage(db, session, { role: "user", text }),
    assistant: async (text) => insertMessage(db, session, { role: "assistant", text }),
  };
}

/** A copy under a new id, messages included. Null: there is no such session. */
export async function forkSession(world: DemoWorld, id: string): Promise<string | null> {
  const db = await open(world);
  const row = sessionIn(db, id);
  if (row === null) return null;
  const fork = newId("ses");
  insertSession(db, {
    id: fork,
    directory: row.directory,
    title: `${row.title} (fork #1)`,
  });
  for (const { role, text } of transcript(db, id)) insertMessage(db, fork, { role, text });
  return fork;
}

export async function exportSession(world: DemoWorld, id: string): Promise<JsonObject | null> {
  const db = await open(world);
  const row = sessionIn(db, id);
  if (row === null) return null;
  const messages = transcript(db, id).map(({ role, text, messageID, partID }) => ({
    info: { role, id: messageID, sessionID: id },
    parts: [{ type: "text", text, id: partID, sessionID: id, messageID }],
  }));
  return {
    info: { id, ...row, version: OPENCODE_VERSION },
    messages,
  };
}

/** Under its own id, in the directory of the import. Null: the file is no export. */
export async function importSession(
  world: DemoWorld,
  file: string,
  directory: string,
): Promise<string | null> {
  const exported = existsSync(file) ? parseObject(readFileSync(file, "utf8")) : undefined;
  const id = stringIn(objectIn(exported, "info"), "id");
  if (id === undefined) return null;
  const db = await open(world);
  if (sessionIn(db, id) === null)
    insertSession(db, { id, directory, title: stringIn(objectIn(exported, "info"), "title") ?? "" });
  for (const message of arrayIn(exported, "messages")) {
    const [part] = arrayIn(message, "parts");
    const info = objectIn(message, "info");
    const [messageID, partID] = [stringIn(info, "id"), stringIn(part, "id")];
    const words = { role: stringIn(info, "role") ?? "user", text: stringIn(part, "text") ?? "" };
    insertMessage(db, id, { ...words, messageID, partID });
  }
  return id;
}

let last = 0;

/** Ids sort by time, as the real ones do; messages are read in that order. */
export function newId(prefix: string): string {
  last = Math.max(last + 1, Date.now() * 4096);
  return `${prefix}_${last.toString(16).slice(-12).padStart(12, "0")}${randomBytes(7).toString("hex")}`;
}

/** The library is not bundled: without it this persona alone cannot be played. */
async function open({ env }: DemoWorld): Promise<DatabaseSyncInstance> {
  const data = env["XDG_DATA_HOME"] || join(env["HOME"] || "/", ".local", "share");
  const file = env["OPENCODE_DB"] || join(data, "opencode", "opencode.db");
  const library = await import("@photostructure/sqlite").catch(() => null);
  if (library === null) throw new DemoRefusal(1, "demo: @photostructure/sqlite is not installed");
  mkdirSync(dirname(file), { recursive: true });
  const db = new library.DatabaseSync(file);
  db.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL;");
  db.exec(TABLES);
  const now = Date.now();
  db.prepare(
    "INSERT OR IGNORE INTO project (id, worktree, sandboxes, time_created, time_updated) VALUES (?, ?, ?, ?, ?)",
  ).run("global", "/", "[]", now, now);
  return db;
}

function sessionIn(
  db: DatabaseSyncInstance,
  id: string,
): { readonly directory: string; readonly title: string } | null {
  const row: unknown = db.prepare("SELECT directory, title FROM session WHERE id = ?").get(id);
  const directory = stringIn(row, "directory");
  return directory === undefined ? null : { directory, title: stringIn(row, "title") ?? "" };
}

function insertSession(
  db: DatabaseSyncInstance,
  { id, directory, title }: { readonly id: string; readonly directory: string; readonly title: string },
): void {
  const now = Date.now();
  db.prepare(
    `INSERT INTO session (id, project_id, slug, directory, path, title, version, agent, time_created, time_updated)
     VALUES (?, 'global', 'demo-session', ?, ?, ?, ?, 'build', ?, ?)`,
  ).run(id, directory, directory.slice(1), title, OPENCODE_VERSION, now, now);
}

interface Message {
  readonly role: string;
  readonly text: string;
  readonly messageID?: string | undefined;
  readonly partID?: string | undefined;
}

/** Existing entries under the same id stay unchanged. */
function insertMessage(db: DatabaseSyncInstance, session: string, message: Message): void {
  const { role, text, messageID = newId("msg"), partID = newId("prt") } = message;
  const now = Date.now();
  const data = JSON.stringify({
    role,
    time: { created: now },
    agent: "build",
  });
  db.prepare("INSERT OR IGNORE INTO message VALUES (?, ?, ?, ?, ?)").run(messageID, session, now, now, data);
  const part = JSON.stringify({ type: "text", text });
  db.prepare("INSERT OR IGNORE INTO part VALUES (?, ?, ?, ?, ?, ?)").run(
    partID,
    messageID,
    session,
    now,
    now,
    part,
  );
  db.prepare("UPDATE session SET time_updated = ? WHERE id = ?").run(now, session);
}

function transcript(db: DatabaseSyncInstance, session: string): Message[] {
  const rows: readonly unknown[] = db
    .prepare(
      `SELECT message.id AS messageID, part.id AS partID, message.data AS message, part.data AS part
       FROM message JOIN part ON part.message_id = message.id
       WHERE message.session_id = ? ORDER BY message.id, part.id`,
    )
    .all(session);
  return rows.flatMap((row) => {
    const text = stringIn(parseObject(stringIn(row, "part") ?? ""), "text");
    const role = stringIn(parseObject(stringIn(row, "message") ?? ""), "role") ?? "";
    const ids = { messageID: stringIn(row, "messageID"), partID: stringIn(row, "partID") };
    return text === undefined ? [] : [{ role, text, ...ids }];
  });
}

function said(db: DatabaseSyncInstance, session: string, role: string): string[] {
  return transcript(db, session)
    .filter((message) => message.role === role)
    .map(({ text }) => text);
}
