/**
 * Parses the output of `codex exec`, with `--json` and without, and Codex's error messages. Notes:
 * docs/engines/codex.md
 */
import type { EngineEvent, Exit, Tokens, Trouble } from "../core/events.ts";
import { outputOf } from "../lib/bounded.ts";
import { plain } from "../lib/harmless.ts";
import {
  arrayIn,
  hasDuplicateKeys,
  type JsonObject,
  numberIn,
  objectIn,
  parseObject,
  stringIn,
} from "../lib/json.ts";
import type { OutputReader } from "./engine.ts";
import { reportedCount } from "./usage.ts";
import { kindIn, troubleOf, type TroublePattern } from "./troubles.ts";

export const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const PATTERNS: readonly TroublePattern[] = [["auth", /missing environment variable/i]];

export const EXITS: readonly TroublePattern[] = [
  ["session_lost", /no rollout found|is archived|missing source rollout|failed to read session metadata/i],
  ["session_busy", /already has an active writer/i],
  [
    "usage",
    /^error: |^usage: codex|no longer configured|no prompt provided|CODEX_HOME points to|error loading config/im,
  ],
  ["other", /failed printing to stdout/i],
  ...PATTERNS,
];

export function translate(text: string, nowMs: number): readonly EngineEvent[] {
  const line = parseObject(text);
  switch (stringIn(line, "type") ?? "") {
    case "thread.started": {
      const session = stringIn(line, "thread_id") ?? "";
      const valid = ID.test(session) && !hasDuplicateKeys(text);
      return [valid ? { type: "session", session } : { type: "unknown" }];
    }
    case "turn.started":
      return [{ type: "turn_started" }];
    case "item.started":
    case "item.updated":
    case "item.completed":
      return item(stringIn(line, "type") ?? "", objectIn(line, "item"));
    case "turn.completed": {
      const usage = objectIn(line, "usage");
      const counted: readonly EngineEvent[] =
        usage === undefined ? [] : [{ type: "usage", tokens: null, session: totalsIn(usage) }];
      return [...counted, { type: "turn_ended", result: "completed" }];
    }
    case "turn.failed": {
      const message = stringIn(objectIn(line, "error"), "message") ?? "The turn failed.";
      return [
        { type: "turn_ended", result: "failed", trouble: troubleOf(message, nowMs, { patterns: PATTERNS }) },
      ];
    }
    case "error":
      return failing(stringIn(line, "message") ?? "", nowMs);
    default:
      return [{ type: "unknown" }];
  }
}

/**
 * `usage` counts the whole thread, earlier turns and the original of a fork included (0.166). `input_tokens` includes
 * the cached ones, `output_tokens` the reasoning. Codex names no model here and no cost.
 */
function totalsIn(usage: JsonObject): Tokens {
  return {
    input: numberIn(usage, "input_tokens") ?? 0,
    output: numberIn(usage, "output_tokens") ?? 0,
    ...reportedCount("cached", numberIn(usage, "cached_input_tokens")),
    ...reportedCount("reasoning", numberIn(usage, "reasoning_output_tokens")),
  };
}

/** A top-level error is not the end: `turn.failed` is. */
function failing(message: string, nowMs: number): readonly EngineEvent[] {
  if (!message.startsWith("Reconnecting")) return [{ type: "notice", message }];
  return [
    { type: "retry", trouble: troubleOf(message, nowMs, { patterns: PATTERNS }), ...retryDelay(message) },
  ];
}

/** The announced delay; absent if Codex names no time. */
export function retryDelay(message: string): { readonly delayMs?: number } {
  const delay = /\b(?:in|after) (\d{1,6}(?:\.\d{1,3})?) ?(ms|s)\b/.exec(message);
  return delay === null ? {} : { delayMs: Number(delay[1]) * (delay[2] === "s" ? 1000 : 1) };
}

function item(when: string, it: JsonObject | undefined): readonly EngineEvent[] {
  const type = stringIn(it, "type");
  const text = stringIn(it, "text") ?? stringIn(it, "message") ?? "";
  if (type === "agent_message") return when === "item.completed" ? [{ type: "text", text }] : [];
  if (type === "error") return when === "item.completed" ? [{ type: "notice", message: text }] : [];
  if (type === "reasoning" || type === "todo_list") return [];
  if (type === undefined) return [{ type: "unknown" }];
  if (when === "item.updated") return [];
  const detail = stringIn(it, "command") ?? stringIn(it, "query") ?? stringIn(it, "tool");
  const status = stringIn(it, "status");
  return [
    {
      type: "tool",
      state: when === "item.started" ? "started" : "ended",
      id: stringIn(it, "id") ?? type,
      name: type,
      ...(detail === undefined ? {} : { detail }),
      ...(when === "item.completed" && status !== undefined ? { ok: status === "completed" } : {}),
      ...(when === "item.completed" ? outputOf(resultIn(it)) : {}),
    },
  ];
}

/** The output of a command, or the texts that a tool of an MCP server returned. The app server spells it differently. */
export function resultIn(it: JsonObject | undefined): string | undefined {
  const printed = stringIn(it, "aggregated_output") ?? stringIn(it, "aggregatedOutput");
  if (printed !== undefined) return printed;
  const texts = arrayIn(objectIn(it, "result"), "content").flatMap((part) => stringIn(part, "text") ?? []);
  return texts.length === 0 ? stringIn(objectIn(it, "error"), "message") : texts.join("\n");
}

/**
 * Without `--json` stdout is the answer, and stderr is a transcript of the user, the model and its tools. A header
 * above it, between two rules, names the session. Nothing below the header counts.
 */
export function textReader(): OutputReader {
  let at: "above" | "title" | "header" | "below" = "above";
  const ids: string[] = [];
  const next = (line: string): typeof at => {
    if (at === "above") return /^OpenAI Codex v\d/.test(line) ? "title" : "above";
    if (at === "title") return line === RULE ? "header" : "below";
    return line === RULE ? "below" : at;
  };
  return {
    line(stream, text) {
      if (stream === "stdout" || at === "below") return [];
      const line = plain(text).trimEnd();
      const id = at === "header" ? /^session id: (\S+)$/.exec(line)?.[1] : undefined;
      if (id !== undefined) ids.push(id);
      at = next(line);
      // Two ids in one header: a name in it contains a line break, and nothing shows which id is Codex's.
      const [session = "", ...others] = at === "below" ? ids : [];
      return others.length === 0 && ID.test(session) ? [{ type: "session", session }] : [];
    },
    end: () => [],
  };
}

const RULE = "--------";

/** `stdoutTail`: stderr is the transcript, and ends with Codex's own last message. */
export function explainExit(
  { code }: Exit,
  stderrTail: string,
  nowMs: number,
  stdoutTail?: string,
): Trouble | null {
  if (code === null || code === 0) return null;
  if (/not inside a trusted directory/i.test(stderrTail)) {
    const message =
      "Codex does not trust this directory: it is no git repository. Give --trust-cwd to allow it.";
    return { kind: "usage", message };
  }
  const words = stdoutTail === undefined ? stderrTail : lastWords(stderrTail);
  // A failed turn in a transcript.
  if (words.startsWith("ERROR: ")) return troubleOf(words.slice(7), nowMs, { patterns: PATTERNS });
  const error = words.split("\n").findLast((line) => /^(?:Error|error): /.test(line.trim()));
  if (error !== undefined) return troubleOf(error.trim(), nowMs, { patterns: EXITS });
  const kind = kindIn(words, EXITS);
  return kind === null ? null : { kind, message: words.trim().slice(-500) };
}

/**
 * Codex's message at the very end of a transcript: the last line, with indented lines below it (an error may quote
 * JSON). Without a header no turn began, so all of it is Codex's.
 */
function lastWords(stderrTail: string): string {
  const text = plain(stderrTail)
    .trimEnd()
    .replace(/\ntokens used\n[\d,.]{1,20}$/, "");
  if (text.length < LONG && !/^OpenAI Codex v\d/m.test(text)) return text;
  const lines = text.split("\n");
  return lines.slice(lines.findLastIndex((line) => /^[^\s}\]]/.test(line))).join("\n");
}

/** The tail of stderr is cut near this; a longer one lacks its header. */
const LONG = 7_000;
