/**
 * Codex's session store: `sessions/YYYY/MM/DD/rollout-<local time>-<thread id>.jsonl`, archived ones in a separate
 * folder.
 *
 * The SQLite files beside it are an index that Codex rebuilds, so only the rollouts count.
 */
import { basename, join, relative } from "node:path";
import type { DeniedCall } from "../core/events.ts";
import { arrayIn, fieldIn, type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { profileIn } from "./codex-options.ts";
import {
  type FoundSession,
  type Located,
  OPENING_CHARACTERS,
  type SessionFiles,
  type SessionPlace,
} from "./session-store.ts";

/** The first line holds the model's instructions, about 22 KB in 0.166. */
const HEAD_BYTES = 262_144;
/** The first turn's context may follow a long first message. */
const FIRST_TURN_BYTES = 8_388_608;
const MESSAGES: ReadonlySet<string> = new Set([
  "UserMessage",
  "AgentMessage",
  "user_message",
  "agent_message",
]);
const ROLLOUT = /^rollout-.{19}-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl$/;
/** Codex reads any depth; it writes three levels. */
const MAX_DEPTH = 4;
const MAX_LISTED = 500;
const MAX_PARENTS = 20;
const DAY_MS = 86_400_000;
const SANDBOXES: readonly string[] = ["read-only", "workspace-write", "danger-full-access"];

export async function locateRollout(session: string, home: string, files: SessionFiles): Promise<Located> {
  const paths: string[] = [];
  let newest: (Rights & { cwd: string | null; updatedAtMs: number | null }) | null = null;
  let began = false;
  let wanted: string | undefined = session;
  // A fork keeps only its own turns and points into its parent's rollout.
  while (wanted !== undefined && paths.length < MAX_PARENTS) {
    const path = await findRollout(wanted, home, files);
    if (path === null && newest === null) return missing(session, home, files);
    if (path === null) {
      const why = `the conversation it was forked from, ${wanted}, is missing`;
      return { state: "unusable", path: paths[0] ?? home, why, damaged: true };
    }
    const rollout = await readRollout(path, files);
    const meta = metaIn(rollout);
    if (meta === null) return neverBegun(rollout);
    paths.push(path);
    newest ??= {
      cwd: stringIn(meta, "cwd") ?? null,
      updatedAtMs: rollout.updatedAtMs,
      ...(await rightsIn(rollout, files)),
    };
    began ||= await holdsMessage(rollout, files);
    wanted = stringIn(objectIn(meta, "history_base"), "thread_id");
  }
  if (!began) return blank(paths[0] ?? home, newest ?? {});
  return {
    state: "present",
    files: paths.map((path) => ({ path, restoreTo: relative(home, path) })),
    cwd: null,
    updatedAtMs: null,
    ...newest,
  };
}

interface Rollout {
  readonly path: string;
  /** Its first `HEAD_BYTES`. */
  readonly head: string;
  readonly size: number;
  readonly updatedAtMs: number | null;
}

async function readRollout(path: string, files: SessionFiles): Promise<Rollout> {
  const entry = await files.stat(path);
  const head = (await files.head(path, HEAD_BYTES)) ?? "";
  return { path, head, size: entry?.size ?? 0, updatedAtMs: entry?.mtimeMs ?? null };
}

/** The first turn if it is longer than the head. Null: the head holds the whole file. */
async function restOf({ path, size }: Rollout, files: SessionFiles): Promise<string | null> {
  return size <= HEAD_BYTES ? null : ((await files.head(path, FIRST_TURN_BYTES)) ?? "");
}

/** Without a whole line there is no conversation. A line in another format means that something destroyed the file. */
function neverBegun({ path, head }: Rollout): Located {
  const whole = head.includes("\n");
  const why = whole
    ? "its first line is not that of a Codex session"
    : "Codex was ended before it wrote the first line of the conversation";
  return { state: "unusable", path, why, damaged: whole };
}

/** `exec resume` continues such a session without a warning, as if nothing had been lost (0.166). */
function blank(path: string, { rights, rightsUnknown }: Rights): Located {
  const why = "it holds no message: Codex was ended before it wrote down the first one";
  return {
    ...{ state: "unusable", path, why, damaged: false, blank: true },
    ...(rights === undefined ? {} : { rights }),
    ...(rightsUnknown === undefined ? {} : { rightsUnknown }),
  };
}

/** Before the first message 0.166 writes the session's header, the start of a turn, its context and its settings. */
async function holdsMessage(rollout: Rollout, files: SessionFiles): Promise<boolean> {
  if (hasMessage(rollout.head)) return true;
  const more = await restOf(rollout, files);
  // A turn that is too long for this look is not an empty conversation.
  return more !== null && (rollout.size > FIRST_TURN_BYTES || hasMessage(more));
}

function hasMessage(text: string): boolean {
  return text.split("\n").some((line) => {
    const record = parseObject(line);
    const type = stringIn(record, "type");
    return type === "compacted" || isSaid(type, objectIn(record, "payload"));
  });
}

/** The model sees only response items; for a message, its own event is proof enough. */
function isSaid(type: string | undefined, payload: JsonObject | undefined): boolean {
  const kind = stringIn(payload, "type") ?? "";
  if (type === "event_msg") return MESSAGES.has(stringIn(objectIn(payload, "item"), "type") ?? kind);
  if (type !== "response_item" || kind === "ghost_snapshot") return false;
  const role = stringIn(payload, "role");
  if (kind !== "message" || role === "assistant") return true;
  return role === "user" && !arrayIn(payload, "content").every(isContext);
}

/** Codex puts its own context in front in the user's role: elements, and the instructions of the folder. */
export function isContext(part: unknown): boolean {
  return /^\s{0,100}(?:<|# AGENTS\.md instructions)/.test(stringIn(part, "text") ?? "");
}

type Rights = Pick<Extract<Located, { state: "present" }>, "rights" | "rightsUnknown">;

/**
 * The sandbox of the first turn. `exec resume` uses today's default instead, which is wider once the folder is trusted.
 */
async function rightsIn(rollout: Rollout, files: SessionFiles): Promise<Rights> {
  const context = contextIn(rollout.head) ?? contextIn((await restOf(rollout, files)) ?? "");
  if (context === undefined) {
    // No turn ever began, so none had any rights; only the options of the start limit a later one.
    return rollout.size <= FIRST_TURN_BYTES ? {} : { rightsUnknown: "its file shows no turn's context" };
  }
  const profile = profileIn(context);
  if (profile !== null) return { rights: profile };
  const policy = objectIn(context, "sandbox_policy");
  const type = stringIn(policy, "type");
  if (type === "workspace-write") return { rights: ["-s", type, ...limitsIn(policy)] };
  if (type !== undefined && SANDBOXES.includes(type)) return { rights: ["-s", type] };
  const named = type === undefined ? "no sandbox" : `the sandbox ${JSON.stringify(type.slice(0, 40))}`;
  return { rightsUnknown: `its first turn names ${named}, which no option sets` };
}

/** Today's config may open the network or add folders; what it has removed since then stays removed. */
function limitsIn(policy: JsonObject | undefined): readonly string[] {
  const roots = arrayIn(policy, "writable_roots").filter((root) => typeof root === "string");
  const settings = [
    `writable_roots=${JSON.stringify(roots)}`,
    ...(fieldIn(policy, "network_access") === false ? ["network_access=false"] : []),
    ...["exclude_tmpdir_env_var", "exclude_slash_tmp"]
      .filter((name) => fieldIn(policy, name) === true)
      .map((name) => `${name}=true`),
  ];
  return settings.flatMap((text) => ["-c", `sandbox_workspace_write.${text}`]);
}

function contextIn(text: string): JsonObject | undefined {
  for (const line of text.split("\n")) {
    // Parsing every line of a long file would take seconds.
    const record = line.includes('"turn_context"') ? parseObject(line) : undefined;
    if (stringIn(record, "type") === "turn_context") return objectIn(record, "payload") ?? {};
  }
  return undefined;
}

/** Newest first. */
export async function listRollouts(
  { home, cwd }: { home: string; cwd: string | null },
  files: SessionFiles,
): Promise<readonly FoundSession[]> {
  const found: FoundSession[] = [];
  for (const path of await newestFiles(join(home, "sessions"), files)) {
    const session = await foundIn(path, files);
    if (session !== null && (cwd === null || session.cwd === cwd)) found.push(session);
  }
  return found.sort((one, other) => (other.updatedAtMs ?? 0) - (one.updatedAtMs ?? 0));
}

async function missing(session: string, home: string, files: SessionFiles): Promise<Located> {
  const archive = join(home, "archived_sessions");
  const path = await search(archive, session, files, MAX_DEPTH);
  if (path === null) return { state: "absent", searched: join(home, "sessions") };
  const why = `it is archived; \`codex unarchive ${session}\` brings it back`;
  return { state: "unusable", path, why, damaged: false };
}

/** First in the folder of its date (local time, so a day either way), then everywhere. */
export async function findRollout(
  session: string,
  home: string,
  files: SessionFiles,
): Promise<string | null> {
  const root = join(home, "sessions");
  const createdAtMs = createdAt(session);
  if (createdAtMs !== null) {
    for (const days of [0, -1, 1]) {
      const [year = "", month = "", day = ""] = new Date(createdAtMs + days * DAY_MS)
        .toISOString()
        .split(/[-T]/);
      const found = await search(join(root, year, month, day), session, files, 0);
      if (found !== null) return found;
    }
  }
  return search(root, session, files, MAX_DEPTH);
}

/** Ids are UUIDv7: the first 48 bits are milliseconds since 1970. */
function createdAt(session: string): number | null {
  if (session[14] !== "7") return null;
  const ms = Number.parseInt(session.replaceAll("-", "").slice(0, 12), 16);
  return ms < 8.64e15 ? ms : null;
}

async function search(
  directory: string,
  session: string,
  files: SessionFiles,
  depth: number,
): Promise<string | null> {
  const entries = await files.list(directory);
  const own = entries.find((entry) => !entry.directory && ROLLOUT.exec(entry.name)?.[1] === session);
  if (own !== undefined) return join(directory, own.name);
  if (depth === 0) return null;
  for (const entry of entries.filter((one) => one.directory)) {
    const found = await search(join(directory, entry.name), session, files, depth - 1);
    if (found !== null) return found;
  }
  return null;
}

/** Names sort by date, so the last folders and files are the newest. */
async function newestFiles(
  directory: string,
  files: SessionFiles,
  depth = MAX_DEPTH,
): Promise<readonly string[]> {
  const entries = [...(await files.list(directory))].sort((one, other) => (one.name < other.name ? 1 : -1));
  const paths: string[] = [];
  for (const entry of entries) {
    const path = join(directory, entry.name);
    if (paths.length >= MAX_LISTED) break;
    if (entry.directory && depth > 0) paths.push(...(await newestFiles(path, files, depth - 1)));
    else if (!entry.directory && ROLLOUT.test(entry.name)) paths.push(path);
  }
  return paths.slice(0, MAX_LISTED);
}

function metaIn({ head }: Rollout): JsonObject | null {
  const line = parseObject(head.split("\n", 1)[0] ?? "");
  return stringIn(line, "type") === "session_meta" ? (objectIn(line, "payload") ?? null) : null;
}

async function foundIn(path: string, files: SessionFiles): Promise<FoundSession | null> {
  const rollout = await readRollout(path, files);
  const id = ROLLOUT.exec(basename(path))?.[1];
  const meta = metaIn(rollout);
  if (id === undefined || meta === null) return null;
  return {
    id,
    cwd: stringIn(meta, "cwd") ?? null,
    path,
    createdAtMs: createdAt(id),
    updatedAtMs: rollout.updatedAtMs,
    ...saidIn(rollout.head.split("\n").slice(1)),
  };
}

/** The first message of a person; Codex puts its own context before it in the same role, as an element. */
function saidIn(lines: readonly string[]): Pick<FoundSession, "title" | "opening"> {
  for (const line of lines) {
    if (!line.includes('"UserMessage"') && !line.includes('"user_message"')) continue;
    const payload = objectIn(parseObject(line), "payload");
    const content = objectIn(payload, "item")?.["content"];
    const first: unknown = Array.isArray(content) ? content[0] : undefined;
    const text = stringIn(first, "text") ?? stringIn(payload, "message");
    if (text !== undefined && text.trim() !== "")
      return { title: text.trim().slice(0, 120), opening: text.slice(0, OPENING_CHARACTERS) };
  }
  return { title: null };
}

const TURN_BYTES = 8_388_608;
const MAX_DETAIL = 200;
/** Codex itself refused to run it. */
const REFUSED = /^(?:patch rejected|approval policy is never)|rejected by user approval settings/i;
/** The sandbox stopped it; a command that failed on its own has other output. */
const FAILED = /Process exited with code [1-9]/i;
const FORBIDDEN = /read-only file system|operation not permitted|landlock|seccomp/i;

function isStopped(output: string): boolean {
  const at = output.search(FAILED);
  return at !== -1 && FORBIDDEN.test(output.slice(at));
}

/**
 * Tool calls that Codex refused in the last turn. `codex exec --json` (0.166) prints nothing about a command that its
 * sandbox stopped, and only a line on stderr about a patch.
 */
export async function codexDenied(
  session: string,
  { home }: SessionPlace,
  files: SessionFiles,
): Promise<readonly DeniedCall[]> {
  const path = await findRollout(session, home, files);
  const found = path === null ? null : await files.lines(path, 0, TURN_BYTES);
  return deniedIn(found?.lines ?? []);
}

export function deniedIn(lines: readonly string[]): readonly DeniedCall[] {
  const calls = new Map<string, DeniedCall>();
  let denied: DeniedCall[] = [];
  for (const line of lines) {
    const payload = objectIn(parseObject(line), "payload");
    const id = stringIn(payload, "call_id") ?? "";
    switch (stringIn(payload, "type") ?? "") {
      case "task_started":
        denied = [];
        break;
      case "function_call":
      case "custom_tool_call":
        calls.set(id, callIn(payload));
        break;
      case "function_call_output":
      case "custom_tool_call_output": {
        const output = stringIn(payload, "output") ?? "";
        const call = calls.get(id);
        if (call !== undefined && (REFUSED.test(output) || isStopped(output))) denied.push(call);
        break;
      }
      default:
    }
  }
  return denied;
}

export function callIn(payload: JsonObject | undefined): DeniedCall {
  const given = parseObject(stringIn(payload, "arguments") ?? "");
  const words = stringIn(given, "cmd") ?? stringIn(given, "command") ?? stringIn(payload, "input") ?? "";
  const files = [...words.matchAll(/^\*\*\* (?:Add|Update|Delete) File: (.+)$/gm)].map(
    ([, file = ""]) => file,
  );
  if (files.length > 0) return { name: "apply_patch", detail: files.join(" ").slice(0, MAX_DETAIL) };
  const name = stringIn(payload, "name") ?? "tool";
  const detail = words.split("\n")[0]?.slice(0, MAX_DETAIL) ?? "";
  return detail === "" ? { name } : { name, detail };
}
