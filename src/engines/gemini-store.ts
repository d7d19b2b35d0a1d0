/**
 * Gemini CLI's session files: `<home>/tmp/<slug>/chats/session-<minute>-<first 8 characters of the id>.jsonl`. The slug
 * belongs to one directory, which `projects.json` and a marker file name.
 */
import { join, relative } from "node:path";
import { arrayIn, fieldIn, type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import {
  type FileEntry,
  type FoundSession,
  type Located,
  OPENING_CHARACTERS,
  type SessionFiles,
  type SessionPlace,
} from "./session-store.ts";

const MAX_READ = 1_048_576;
const MAX_LISTED = 500;

export async function locateGemini(
  session: string,
  where: SessionPlace,
  files: SessionFiles,
): Promise<Located> {
  const slug = await slugOf(where.home, where.cwd, files);
  if (slug === null) return { state: "absent", searched: join(where.home, "tmp") };
  const directory = join(where.home, "tmp", slug, "chats");
  const candidates = (await chatFiles(directory, files)).filter(({ name }) => namesChat(session, name));
  let unusable: Located | null = null;
  for (const file of candidates) {
    const path = join(directory, file.name);
    const chat = await readChat(path, file, files);
    if (chat === null)
      unusable ??= { state: "unusable", path, why: "its first line cannot be read", damaged: true };
    else if (chat.id === session && chat.began) {
      const own = { path, restoreTo: relative(where.home, path) };
      return { state: "present", files: [own], cwd: where.cwd, updatedAtMs: chat.updatedAtMs };
    } else if (chat.id === session) {
      const why = "it holds no message: none was sent, or Gemini removed the message of a failed first turn";
      unusable = { state: "unusable", path, why, damaged: false };
    }
  }
  return unusable ?? { state: "absent", searched: directory };
}

export function namesChat(session: string, name: string): boolean {
  return name.startsWith("session-") && name.endsWith(`-${session.slice(0, 8)}.jsonl`);
}

export async function geminiSessions(
  where: { home: string; cwd: string | null },
  files: SessionFiles,
): Promise<readonly FoundSession[]> {
  const found = new Map<string, FoundSession>();
  for (const { slug, cwd } of await slugs(where, files)) {
    const directory = join(where.home, "tmp", slug, "chats");
    for (const file of (await chatFiles(directory, files)).slice(0, MAX_LISTED)) {
      const path = join(directory, file.name);
      const chat = await readChat(path, file, files);
      if (chat === null || !chat.began || found.has(chat.id)) continue;
      const { id, createdAtMs, updatedAtMs, title, opening } = chat;
      found.set(id, { id, cwd, path, createdAtMs, updatedAtMs, title, opening });
    }
  }
  return [...found.values()].toSorted((a, b) => (b.updatedAtMs ?? 0) - (a.updatedAtMs ?? 0));
}

/** The registry first, as in Gemini, unless the marker contradicts it; then the markers. */
async function slugOf(home: string, cwd: string, files: SessionFiles): Promise<string | null> {
  const registry = parseObject((await files.head(join(home, "projects.json"), MAX_READ)) ?? "");
  const registered = stringIn(objectIn(registry, "projects"), cwd);
  if (registered !== undefined && !registered.includes("/")) {
    const owner = await ownerOf(home, registered, files);
    if (owner === null || owner === cwd) return registered;
  }
  return (await slugs({ home, cwd }, files))[0]?.slug ?? null;
}

async function slugs(
  { home, cwd }: { readonly home: string; readonly cwd: string | null },
  files: SessionFiles,
): Promise<readonly { readonly slug: string; readonly cwd: string }[]> {
  const found: { slug: string; cwd: string }[] = [];
  for (const entry of await files.list(join(home, "tmp"))) {
    if (!entry.directory) continue;
    const owner = await ownerOf(home, entry.name, files);
    if (owner !== null && (cwd === null || owner === cwd)) found.push({ slug: entry.name, cwd: owner });
  }
  return found;
}

async function ownerOf(home: string, slug: string, files: SessionFiles): Promise<string | null> {
  const owner = (await files.head(join(home, "tmp", slug, ".project_root"), 8_192))?.trim();
  return owner === undefined || owner === "" ? null : owner;
}

/** Newest first. */
async function chatFiles(directory: string, files: SessionFiles): Promise<readonly FileEntry[]> {
  const entries = await files.list(directory);
  return entries
    .filter((file) => !file.directory && file.name.startsWith("session-") && file.name.endsWith(".jsonl"))
    .toSorted((a, b) => b.mtimeMs - a.mtimeMs);
}

interface Chat {
  readonly id: string;
  readonly createdAtMs: number | null;
  readonly updatedAtMs: number;
  /** The user's first words. Null: none in the part that was read. */
  readonly title: string | null;
  /** The first message, without the content of named files, which Gemini appends. */
  readonly opening: string | null;
  /** Gemini continues only a session with at least one real message. */
  readonly began: boolean;
}

async function readChat(path: string, file: FileEntry, files: SessionFiles): Promise<Chat | null> {
  const lines = ((await files.head(path, MAX_READ)) ?? "").split("\n");
  const first = parseObject(lines[0] ?? "");
  const id = stringIn(first, "sessionId");
  if (id === undefined) return null;
  const messages = messagesIn(lines);
  const opening = messages.find((message) => stringIn(message, "type") === "user" && isContent(message));
  const created = Date.parse(stringIn(first, "startTime") ?? "");
  return {
    id,
    createdAtMs: Number.isNaN(created) ? null : created,
    updatedAtMs: file.mtimeMs,
    title: opening === undefined ? null : wordsOf(opening).trim().replaceAll(/\s+/g, " ").slice(0, 120),
    opening: opening === undefined ? null : firstWords(opening).slice(0, OPENING_CHARACTERS),
    // A file that is too long to read here is not an empty conversation.
    began: file.size > MAX_READ || messages.some(isContent),
  };
}

/** Replays the records as Gemini does: a message, a replacement of all messages, a rewind. */
function messagesIn(lines: readonly string[]): readonly JsonObject[] {
  let messages: JsonObject[] = [];
  for (const line of lines) {
    const record = parseObject(line);
    const rewind = stringIn(record, "$rewindTo");
    const replaced = fieldIn(objectIn(record, "$set"), "messages");
    if (rewind !== undefined) {
      const at = messages.findIndex((message) => stringIn(message, "id") === rewind);
      messages = at === -1 ? [] : messages.slice(0, at);
    } else if (Array.isArray(replaced))
      messages = arrayIn(objectIn(record, "$set"), "messages").flatMap(asObject);
    else if (record !== undefined && stringIn(record, "id") !== undefined) messages.push(record);
  }
  return messages;
}

function asObject(value: unknown): readonly JsonObject[] {
  const object = objectIn({ value }, "value");
  return object === undefined ? [] : [object];
}

/** Gemini's own first entries and slash commands are not conversation. */
export function isContent(message: JsonObject): boolean {
  const words = wordsOf(message).trim();
  const type = stringIn(message, "type");
  if (type === "user") return words !== "" && !/^(?:[/?]|<session_context>|<hook_context>)/.test(words);
  return type === "gemini" && (words !== "" || arrayIn(message, "toolCalls").length > 0);
}

function firstWords(message: JsonObject): string {
  const content = fieldIn(message, "content");
  return typeof content === "string" ? content : (stringIn(arrayIn(message, "content")[0], "text") ?? "");
}

export function wordsOf(message: JsonObject): string {
  const content = fieldIn(message, "content");
  if (typeof content === "string") return content;
  return arrayIn(message, "content")
    .map((part) => stringIn(part, "text") ?? "")
    .join("");
}
