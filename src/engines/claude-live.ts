/**
 * The activity of a live Claude Code UI. Its registry has idle, busy or waiting; the transcript has failed turns; hooks
 * report both a little earlier, and everything if there is no registry entry.
 */
import type { Activity, Trouble, TroubleKind } from "../core/events.ts";
import { arrayIn, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { PATTERNS } from "./claude-output.ts";
import { registryEntry, type RegistryEntry, transcriptOf } from "./claude-store.ts";
import {
  type LiveUi,
  type SessionFiles,
  type UiMark,
  type UiState,
  type UiTurn,
  type SessionPlace,
  PART_BYTES,
  plain,
  SLACK_MS,
  timeOf,
} from "./session-store.ts";
import { troubleOf } from "./troubles.ts";

const NOTHING: UiMark = {
  path: null,
  offset: 0,
  turn: { state: "none" },
  lastTurn: null,
  hooks: { offset: 0, heard: { state: "none" } },
};

/** The variable with the path of the hooks' file. */
export const HOOKS = "REPRISE_HOOKS";

/** Native options that make the UI report when a turn ended, failed or waits. The command text is constant (I10). */
export function hooksFor(): readonly string[] {
  const command = `[ -z "$${HOOKS}" ] || { cat; echo; } >> "$${HOOKS}"`;
  const hook = [{ hooks: [{ type: "command", command }] }];
  const events = ["Stop", "StopFailure", "Notification", "SessionEnd"];
  return ["--settings", JSON.stringify({ hooks: Object.fromEntries(events.map((name) => [name, hook])) })];
}

export async function claudeActivity(
  agent: LiveUi,
  where: SessionPlace,
  files: SessionFiles,
): Promise<UiState | null> {
  const entry = await registryEntry(agent, where, files);
  const session = entry?.session ?? agent.session;
  const heard = await readHooks(agent, agent.before?.mark ?? NOTHING, files);
  const { mark, turns } = await readTranscript(session, { agent, where, files, mark: heard });
  const activity = entry === null ? heardOf(mark) : toldBy(entry, mark);
  if (activity === null) return null;
  return { activity, turns, changedAtMs: entry?.statusUpdatedAt ?? null, mark };
}

function toldBy({ status, waitingFor }: RegistryEntry, mark: UiMark): Activity | null {
  switch (status) {
    case "busy":
      return { state: "working" };
    case "waiting":
      return { state: "waiting", what: waitingFor ?? "an answer" };
    case "idle":
      return idleOrError(mark);
    case undefined:
      return { state: "starting" };
    default:
      return null;
  }
}

/** Claude writes the transcript a moment after the registry: until then only a hook may know that the turn failed. */
function idleOrError({ turn, hooks: { heard } }: UiMark): Activity {
  const last = turn.state !== "failed" && heard.state === "failed" ? heard : turn;
  return last.state === "failed" ? { state: "error", trouble: last.trouble } : { state: "idle" };
}

/** Without the registry only the last hook is certain, and only until the conversation continues. */
function heardOf({ turn, hooks: { heard } }: UiMark): Activity | null {
  if (heard.state === "waiting") return { state: "waiting", what: "permission prompt" };
  if (heard.state === "failed") return { state: "error", trouble: heard.trouble };
  if (heard.state === "over") return { state: "idle" };
  return turn.state === "running" ? { state: "working" } : null;
}

interface Look {
  readonly agent: LiveUi;
  readonly where: SessionPlace;
  readonly files: SessionFiles;
  readonly mark: UiMark;
}

async function readTranscript(
  session: string | null,
  { agent, where, files, mark }: Look,
): Promise<{ readonly mark: UiMark; readonly turns: number }> {
  const turns = agent.before?.turns ?? 0;
  const known = mark.path !== null && session !== null && mark.path.endsWith(`${session}.jsonl`);
  const path = known ? mark.path : session === null ? null : await transcriptOf(session, where, files);
  if (path === null) return { mark, turns };
  // `/clear` continues in another file, which is still empty.
  const from: UiMark = known ? mark : { ...mark, path, offset: 0, turn: { state: "none" } };
  const grown = await files.lines(path, from.offset, PART_BYTES);
  if (grown === null) return { mark: from, turns };
  let state = { mark: { ...from, offset: grown.next }, turns };
  for (const line of grown.lines) {
    if (!line.includes('"user"') && !line.includes('"assistant"')) continue;
    const record = parseObject(line);
    if (record !== undefined && isOwn(record, agent.startedAtMs))
      state = { ...state, ...said(record, state) };
  }
  return state;
}

/** Lines from before the process began and lines of a sub-agent do not belong to this turn. */
function isOwn(record: JsonObject, startedAtMs: number): boolean {
  return record["isSidechain"] !== true && timeOf(record) >= startedAtMs - SLACK_MS;
}

function said(
  record: JsonObject,
  { mark, turns }: { readonly mark: UiMark; readonly turns: number },
): { readonly mark: UiMark; readonly turns: number } {
  const message = objectIn(record, "message");
  if (stringIn(record, "type") === "user") {
    const turn = userTurn(record);
    if (turn === null) return { mark, turns };
    // An earlier hook belongs to the previous turn.
    return { mark: { ...mark, turn, hooks: { ...mark.hooks, heard: { state: "none" } } }, turns };
  }
  if (stringIn(record, "type") !== "assistant") return { mark, turns };
  if (record["isApiErrorMessage"] === true)
    return { mark: { ...mark, turn: { state: "failed", trouble: troubleIn(record) } }, turns };
  if (stringIn(message, "stop_reason") !== "end_turn") return { mark: running(mark), turns };
  // Each block of an answer is a separate line with the answer's id.
  const id = stringIn(message, "id") ?? stringIn(record, "uuid") ?? "";
  return {
    mark: { ...mark, turn: { state: "over" }, lastTurn: id },
    turns: id === mark.lastTurn ? turns : turns + 1,
  };
}

function running(mark: UiMark): UiMark {
  return { ...mark, turn: { state: "running" } };
}

/** Null: not a message of the user to the model. */
function userTurn(record: JsonObject): UiTurn | null {
  if (record["isMeta"] === true) return null;
  const text = userText(record);
  // A command of the UI, or its output.
  if (/^<(?:local-command|command-name|command-message)/.test(text.trimStart())) return null;
  return { state: text.startsWith("[Request interrupted") ? "over" : "running" };
}

function userText(record: JsonObject): string {
  const message = objectIn(record, "message");
  const texts = arrayIn(message, "content").map((block) => stringIn(block, "text") ?? "");
  return stringIn(message, "content") ?? texts.join("");
}

const KINDS: Readonly<Record<string, TroubleKind>> = {
  rate_limit: "rate_limited",
  authentication_failed: "auth",
  billing_error: "quota",
  model_not_found: "usage",
};

function troubleIn(record: JsonObject): Trouble {
  const words = arrayIn(objectIn(record, "message"), "content").map((block) => stringIn(block, "text") ?? "");
  const facts = { error: stringIn(record, "error"), status: numberIn(record, "apiErrorStatus") };
  return named(words.join(" "), facts, timeOf(record));
}

/** Claude's own name for the cause comes first; a reset time is only in the text. */
function named(
  message: string,
  facts: { readonly error: string | undefined; readonly status: number | undefined },
  atMs: number,
): Trouble {
  const { error, status } = facts;
  const told = troubleOf(message === "" ? (error ?? "The turn failed.") : message, atMs, {
    patterns: PATTERNS,
    ...(status === undefined ? {} : { status }),
  });
  const kind = error !== undefined && Object.hasOwn(KINDS, error) ? KINDS[error] : undefined;
  // If the text names the end of a limit, the cause is not billing.
  return kind === undefined || told.resetsAt !== undefined ? told : { ...told, kind };
}

async function readHooks(agent: LiveUi, mark: UiMark, files: SessionFiles): Promise<UiMark> {
  const grown =
    agent.hooks === undefined ? null : await files.lines(agent.hooks, mark.hooks.offset, PART_BYTES);
  if (grown === null) return mark;
  let { heard } = mark.hooks;
  if (grown.lines.length === 0) return mark;
  // A hook has no timestamp.
  const atMs = (await files.stat(agent.hooks ?? ""))?.mtimeMs ?? agent.startedAtMs;
  for (const line of grown.lines) heard = hooked(parseObject(line), atMs) ?? heard;
  return { ...mark, hooks: { offset: grown.next, heard } };
}

function hooked(hook: JsonObject | undefined, atMs: number): UiMark["hooks"]["heard"] | null {
  switch (stringIn(hook, "hook_event_name") ?? "") {
    case "Stop":
      return { state: "over" };
    case "StopFailure": {
      const facts = { error: stringIn(hook, "error"), status: undefined };
      const words = stringIn(hook, "last_assistant_message") ?? "";
      return { state: "failed", trouble: named(words, facts, atMs) };
    }
    case "Notification":
      return stringIn(hook, "notification_type") === "permission_prompt" ? { state: "waiting" } : null;
    case "SessionEnd":
      return { state: "none" };
    default:
      return null;
  }
}

/** The message was delivered as such, queued behind running work, or passed in during a tool. */
export async function claudeTookUp(
  message: string,
  agent: LiveUi & { readonly typedAtMs: number },
  where: SessionPlace,
  files: SessionFiles,
): Promise<boolean> {
  const session = (await registryEntry(agent, where, files))?.session ?? agent.session;
  const path = session === null ? null : await transcriptOf(session, where, files);
  const wanted = plain(message);
  const tail = path === null ? null : await files.lines(path, 0, PART_BYTES);
  return (tail?.lines ?? []).some((line) => {
    const record = parseObject(line);
    if (record === undefined || timeOf(record) < agent.typedAtMs - SLACK_MS) return false;
    return wanted !== "" && plain(takenUp(record)).includes(wanted);
  });
}

function takenUp(record: JsonObject): string {
  switch (stringIn(record, "type") ?? "") {
    case "user":
      return userText(record);
    case "queue-operation":
      return stringIn(record, "operation") === "enqueue" ? (stringIn(record, "content") ?? "") : "";
    case "attachment": {
      const attachment = objectIn(record, "attachment");
      return stringIn(attachment, "type") === "queued_command" ? (stringIn(attachment, "prompt") ?? "") : "";
    }
    default:
      return "";
  }
}

/** Removes the line breaks and blanks that the terminal's width adds. */
