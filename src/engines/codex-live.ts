/**
 * The activity of a live Codex UI, from the rollout of its thread, which Codex writes line by line. The rollout does
 * not show approval questions: the UI reports them to its terminal.
 */
import type { Activity, Trouble } from "../core/events.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { troubleIn } from "./codex-server-output.ts";
import { findRollout } from "./codex-store.ts";
import {
  type LiveUi,
  type SessionFiles,
  type UiMark,
  type UiState,
  type SessionPlace,
  PART_BYTES,
  plain,
  SLACK_MS,
  timeOf,
} from "./session-store.ts";

export async function codexActivity(
  agent: LiveUi,
  { home }: SessionPlace,
  files: SessionFiles,
): Promise<UiState | null> {
  const { session } = agent;
  const before = agent.before?.mark;
  const path =
    session === null
      ? null
      : before?.path?.includes(session) === true
        ? before.path
        : await findRollout(session, home, files);
  const same = before !== undefined && before.path === path;
  const grown = path === null ? null : await files.lines(path, same ? before.offset : 0, PART_BYTES);
  let state: RolloutTurn = {
    turn: same ? before.turn : { state: "none" },
    turns: agent.before?.turns ?? 0,
    changedAtMs: same ? (agent.before?.changedAtMs ?? null) : null,
  };
  for (const line of grown?.lines ?? []) {
    if (!TURNS.test(line)) continue;
    const record = parseObject(line);
    const atMs = timeOf(record);
    if (record !== undefined && atMs >= agent.startedAtMs - SLACK_MS) state = told(record, atMs, state);
  }
  const { turn, turns, changedAtMs } = state;
  const activity = turn.state === "none" ? shown(agent) : activityOf(turn, agent.status ?? "");
  const hooks: UiMark["hooks"] = { offset: 0, heard: { state: "none" } };
  const mark = { path, offset: grown?.next ?? 0, turn, lastTurn: null, hooks };
  return activity === null ? null : { activity, turns, changedAtMs, mark };
}

const TURNS = /"(?:task_started|task_complete|turn_aborted)"/;

type RolloutTurn = Pick<UiMark, "turn"> & Pick<UiState, "turns" | "changedAtMs">;

function told(record: JsonObject, atMs: number, state: RolloutTurn): RolloutTurn {
  const payload = objectIn(record, "payload");
  if (stringIn(record, "type") !== "event_msg") return state;
  switch (stringIn(payload, "type") ?? "") {
    case "task_started":
      return { ...state, turn: { state: "running" }, changedAtMs: atMs };
    case "turn_aborted":
      return { ...state, turn: { state: "over" }, changedAtMs: atMs };
    case "task_complete": {
      const error = objectIn(payload, "error");
      if (error !== undefined)
        return { ...state, turn: { state: "failed", trouble: failure(error, atMs) }, changedAtMs: atMs };
      return { turn: { state: "over" }, turns: state.turns + 1, changedAtMs: atMs };
    }
    default:
      return state;
  }
}

/** A tool can forge terminal reports: they can make a turn look blocked, never over. */
function activityOf(turn: UiMark["turn"], status: string): Activity | null {
  switch (turn.state) {
    case "running":
      return /^state=blocked\b/.test(status)
        ? { state: "waiting", what: /\bkind=([\w-]+)/.exec(status)?.[1] ?? "an answer" }
        : { state: "working" };
    case "over":
      return { state: "idle" };
    case "failed":
      return { state: "error", trouble: turn.trouble };
    case "none":
      return null;
  }
}

/** Until the first turn is in the rollout, only the terminal is known. A UI that got a message is idle for a moment. */
function shown({ status = "", before }: LiveUi): Activity | null {
  if (/^state=idle\b/.test(status)) return { state: before === undefined ? "starting" : "idle" };
  return /^state=\w/.test(status) ? activityOf({ state: "running" }, status) : null;
}

/** The same error as the server's, with its names in another spelling. */
function failure(error: JsonObject, atMs: number): Trouble {
  const info = fieldIn(error, "codex_error_info");
  const [cause, more] = isObject(info) ? (Object.entries(info)[0] ?? []) : [info];
  const name = camel(typeof cause === "string" ? cause : "");
  const codexErrorInfo = isObject(more) ? { [name]: { httpStatusCode: more["http_status_code"] } } : name;
  return troubleIn({ message: error["message"], codexErrorInfo }, atMs, { limitEndsMs: null });
}

function camel(name: string): string {
  return name.replace(/_(\w)/g, (_all, letter: string) => letter.toUpperCase());
}

export async function codexTookUp(
  message: string,
  agent: LiveUi & { readonly typedAtMs: number },
  { home }: SessionPlace,
  files: SessionFiles,
): Promise<boolean> {
  const { session } = agent;
  const path = session === null ? null : await findRollout(session, home, files);
  const tail = path === null ? null : await files.lines(path, 0, PART_BYTES);
  const wanted = plain(message);
  return (tail?.lines ?? []).some((line) => {
    const record = line.includes('"UserMessage"') ? parseObject(line) : undefined;
    if (wanted === "" || timeOf(record) < agent.typedAtMs - SLACK_MS) return false;
    const item = objectIn(objectIn(record, "payload"), "item");
    const texts = arrayIn(item, "content").map((part) => stringIn(part, "text") ?? "");
    return stringIn(item, "type") === "UserMessage" && plain(texts.join("")).includes(wanted);
  });
}

/** Removes the line breaks and blanks that the terminal's width adds. */
