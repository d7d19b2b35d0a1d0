/** What `codex exec --json` prints, line by line, and how Codex words its troubles. Notes: docs/engines/codex.md */
import type { EngineEvent } from "../core/events.ts";
import { hasDuplicateKeys, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { troubleOf, type TroublePattern } from "./troubles.ts";

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
      const tokens = {
        input: numberIn(usage, "input_tokens") ?? 0,
        output: numberIn(usage, "output_tokens") ?? 0,
      };
      const counted: readonly EngineEvent[] = usage === undefined ? [] : [{ type: "usage", tokens }];
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

/** A top-level error is not the end: `turn.failed` is. */
function failing(message: string, nowMs: number): readonly EngineEvent[] {
  if (!message.startsWith("Reconnecting")) return [{ type: "notice", message }];
  return [
    { type: "retry", trouble: troubleOf(message, nowMs, { patterns: PATTERNS }), ...retryDelay(message) },
  ];
}

/** What Codex announces; absent when it names no time. */
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
    },
  ];
}
