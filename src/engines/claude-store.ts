/**
 * Claude Code's files: transcripts in `projects/<slug of the cwd>/<session id>.jsonl`, and the registry of live
 * processes in `sessions/<pid>.json`.
 */
import { basename, join, relative } from "node:path";
import { numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import {
  type FoundSession,
  type HolderHint,
  type Located,
  OPENING_CHARACTERS,
  type SessionFiles,
  type SessionPlace,
} from "./session-store.ts";

/** Attachments before the first message are large: a one-turn transcript has about 134 KB. */
const PART_BYTES = 524_288;
const MAX_LISTED = 500;
const MAX_SLUG = 200;
const TRANSCRIPT = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/i;
const REGISTRY = /^\d{1,10}\.json$/;

/** The directory of this cwd first: 2.1.197 looks only there, 2.1.325 in all directories. */
export async function locateTranscript(
  session: string,
  where: SessionPlace,
  files: SessionFiles,
): Promise<Located> {
  let unusable: Located | null = null;
  for await (const { path, mtimeMs } of transcriptsOf(session, where, files)) {
    const { cwd, messages, blank } = await look(path, files);
    if (messages) {
      const restoreTo = relative(where.home, path);
      const worktree = cwd?.includes("/.claude/worktrees/") === true ? { worktree: cwd } : {};
      return { state: "present", files: [{ path, restoreTo }], cwd, updatedAtMs: mtimeMs, ...worktree };
    }
    const why = "it holds no message, so Claude neither continues it nor takes its id again";
    unusable ??= { state: "unusable", path, why, damaged: true, ...(blank ? { blank: true } : {}) };
  }
  return unusable ?? { state: "absent", searched: join(where.home, "projects") };
}

/** The file of a live conversation. Null: nothing has been said yet. */
export async function transcriptOf(
  session: string,
  where: SessionPlace,
  files: SessionFiles,
): Promise<string | null> {
  for await (const { path } of transcriptsOf(session, where, files)) return path;
  return null;
}

async function* transcriptsOf(
  session: string,
  { home, cwd }: SessionPlace,
  files: SessionFiles,
): AsyncGenerator<{ readonly path: string; readonly mtimeMs: number }> {
  const root = join(home, "projects");
  const own = slug(cwd);
  const inside = async (project: string) => {
    const path = join(root, project, `${session}.jsonl`);
    const entry = await files.stat(path);
    return entry === null || entry.directory ? [] : [{ path, mtimeMs: entry.mtimeMs }];
  };
  yield* await inside(own);
  for (const { name, directory } of await files.list(root)) {
    if (directory && name !== own) yield* await inside(name);
  }
}

/** Newest first. */
export async function listTranscripts(
  { home, cwd }: { home: string; cwd: string | null },
  files: SessionFiles,
): Promise<readonly FoundSession[]> {
  const root = join(home, "projects");
  const projects = (await files.list(root)).filter(
    (entry) => entry.directory && (cwd === null || entry.name === slug(cwd)),
  );
  const paths: { readonly path: string; readonly mtimeMs: number }[] = [];
  for (const project of projects) {
    for (const entry of await files.list(join(root, project.name))) {
      if (!entry.directory && TRANSCRIPT.test(entry.name)) {
        paths.push({ path: join(root, project.name, entry.name), mtimeMs: entry.mtimeMs });
      }
    }
  }
  paths.sort((one, other) => other.mtimeMs - one.mtimeMs);
  const found: FoundSession[] = [];
  for (const { path, mtimeMs } of paths.slice(0, MAX_LISTED)) {
    const id = TRANSCRIPT.exec(basename(path))?.[1];
    const seen = await look(path, files);
    // Two directories may share a slug; the transcript names the right one.
    const elsewhere = cwd !== null && seen.cwd !== null && seen.cwd !== cwd;
    if (id === undefined || !seen.messages || elsewhere) continue;
    const { createdAtMs, title, opening } = seen;
    found.push({ id, cwd: seen.cwd, path, createdAtMs, updatedAtMs: mtimeMs, title, opening });
  }
  return found;
}

/** Entries survive a kill -9, so the caller compares the start time. Other files there are private keys. */
export async function claudeHolders(
  session: string,
  { home }: SessionPlace,
  files: SessionFiles,
): Promise<readonly HolderHint[]> {
  const registry = join(home, "sessions");
  const found: HolderHint[] = [];
  for (const entry of await files.list(registry)) {
    if (entry.directory || !REGISTRY.test(entry.name)) continue;
    const record = parseObject((await files.head(join(registry, entry.name), 16_384)) ?? "");
    const pid = numberIn(record, "pid");
    if (pid !== undefined && stringIn(record, "sessionId") === session) {
      found.push({ pid, start: stringIn(record, "procStart") ?? null });
    }
  }
  return found;
}

export interface RegistryEntry {
  readonly session: string | null;
  /** idle, busy, waiting. Undefined: the UI is starting. */
  readonly status: string | undefined;
  readonly waitingFor: string | undefined;
  readonly statusUpdatedAt: number | undefined;
}

/** Null: no entry for the process, or a partly written one. `/clear` and `/resume` in the UI change its id. */
export async function registryEntry(
  agent: { readonly pid: number; readonly start: string },
  { home }: SessionPlace,
  files: SessionFiles,
): Promise<RegistryEntry | null> {
  const record = parseObject((await files.head(join(home, "sessions", `${agent.pid}.json`), 16_384)) ?? "");
  const start = stringIn(record, "procStart");
  // The entry belongs to a killed process with the same pid.
  if (record === undefined || (start !== undefined && start !== agent.start)) return null;
  const session = stringIn(record, "sessionId") ?? "";
  return {
    session: TRANSCRIPT.test(`${session}.jsonl`) ? session : null,
    status: stringIn(record, "status"),
    waitingFor: stringIn(record, "waitingFor"),
    statusUpdatedAt: numberIn(record, "statusUpdatedAt"),
  };
}

/** Claude's name for a project's directory; `cwd` has its symlinks resolved. */
function slug(cwd: string): string {
  const name = cwd.replace(/[^a-zA-Z0-9]/g, "-");
  if (name.length <= MAX_SLUG) return name;
  let hash = 0;
  for (let at = 0; at < cwd.length; at += 1) hash = ((hash << 5) - hash + cwd.charCodeAt(at)) | 0;
  return `${name.slice(0, MAX_SLUG)}-${Math.abs(hash).toString(36)}`;
}

interface Look {
  readonly messages: boolean;
  /** Only lines that Claude writes before the first message. */
  readonly blank: boolean;
  readonly cwd: string | null;
  readonly createdAtMs: number | null;
  readonly title: string | null;
  readonly opening: string | null;
}

/** Skips a truncated last line and lines that are not JSON, as Claude does. */
async function look(path: string, files: SessionFiles): Promise<Look> {
  const head = (await files.head(path, PART_BYTES)) ?? "";
  const start = messagesIn(head);
  // The part before the first message may be longer than the part that was read.
  const found = start.length > 0 ? start : messagesIn((await files.tail(path, PART_BYTES)) ?? "");
  const [first] = found;
  const created = Date.parse(stringIn(first, "timestamp") ?? "");
  const opening = start.map(userText).find((text) => text !== null) ?? null;
  return {
    messages: found.length > 0,
    blank: found.length === 0 && head.length < PART_BYTES && isPreface(head),
    cwd: stringIn(first, "cwd") ?? null,
    createdAtMs: Number.isNaN(created) ? null : created,
    title: opening?.slice(0, 120) ?? null,
    opening,
  };
}

/** Whole lines that Claude writes for itself (`queue-operation` and others), and perhaps a torn last line. */
function isPreface(head: string): boolean {
  const lines = head.split("\n").slice(0, -1);
  return lines.length > 0 && lines.every((line) => stringIn(parseObject(line), "type") !== undefined);
}

function messagesIn(text: string) {
  return text.split("\n").flatMap((line) => {
    if (!line.includes('"user"') && !line.includes('"assistant"')) return [];
    const record = parseObject(line);
    const type = stringIn(record, "type");
    return record !== undefined && (type === "user" || type === "assistant") ? [record] : [];
  });
}

function userText(record: unknown): string | null {
  if (stringIn(record, "type") !== "user") return null;
  const content = objectIn(record, "message")?.["content"];
  const first: unknown = Array.isArray(content) ? content[0] : undefined;
  const text = (typeof content === "string" ? content : (stringIn(first, "text") ?? "")).trim();
  return text === "" || text.startsWith("<") ? null : text.slice(0, OPENING_CHARACTERS);
}
