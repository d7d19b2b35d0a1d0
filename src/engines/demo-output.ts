/** Parses the demo agent's output with `--format jsonl`. Recorded transcripts: demo.fixtures/. */
import type { EngineEvent, Tokens, Trouble, TroubleKind } from "../core/events.ts";
import { moment } from "../core/reset-time.ts";
import { fieldIn, hasDuplicateKeys, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import type { OutputReader } from "./engine.ts";
import { notPermitted } from "./troubles.ts";
import { oneModel, reportedCount } from "./usage.ts";

export const DEMO_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function demoReader(): OutputReader {
  let inText = false;
  return {
    line(stream, text) {
      if (stream === "stderr") return [];
      const event = translate(text);
      const continues = inText;
      inText = event.type === "text";
      // The first piece after anything else begins a new text.
      if (event.type === "text" && continues) return [{ ...event, delta: true }];
      const denied = event.type === "tool" && fieldIn(parseObject(text), "denied") === true;
      return denied ? [event, notPermitted(event.name, event.detail)] : [event];
    },
    end: () => [],
  };
}

function translate(text: string): EngineEvent {
  const line = parseObject(text);
  switch (stringIn(line, "type") ?? "") {
    case "session": {
      const session = stringIn(line, "session_id") ?? "";
      const valid = DEMO_ID.test(session) && !hasDuplicateKeys(text);
      return valid ? { type: "session", session } : { type: "unknown" };
    }
    case "turn.started":
      return { type: "turn_started" };
    case "text":
      return { type: "text", text: stringIn(line, "delta") ?? "" };
    case "tool.started":
      return tool(line, "started");
    case "tool.ended":
      return tool(line, "ended");
    case "retry": {
      const delayMs = numberIn(line, "delay_ms");
      return { type: "retry", trouble: troubleIn(line), ...(delayMs === undefined ? {} : { delayMs }) };
    }
    case "usage": {
      // Of this turn. The input includes the cached part, the output the reasoning.
      const tokens: Tokens = {
        input: numberIn(line, "input_tokens") ?? 0,
        output: numberIn(line, "output_tokens") ?? 0,
        ...reportedCount("cached", numberIn(line, "cached_tokens")),
        ...reportedCount("reasoning", numberIn(line, "reasoning_tokens")),
        ...reportedCount("costUsd", numberIn(line, "cost_usd")),
        ...oneModel([stringIn(line, "model")]),
      };
      return { type: "usage", tokens };
    }
    case "turn.ended": {
      const result = stringIn(line, "result");
      if (result === "completed" || result === "interrupted") return { type: "turn_ended", result };
      return { type: "turn_ended", result: "failed", trouble: troubleIn(line) };
    }
    default:
      return { type: "unknown" };
  }
}

function tool(line: unknown, state: "started" | "ended"): EngineEvent {
  const name = stringIn(line, "name") ?? "tool";
  const detail = stringIn(line, "detail");
  return {
    type: "tool",
    state,
    id: stringIn(line, "id") ?? name,
    name,
    ...(detail === undefined ? {} : { detail }),
    ...(state === "started" ? {} : { ok: fieldIn(line, "ok") === true }),
  };
}

const KINDS: ReadonlyMap<string, TroubleKind> = new Map<string, TroubleKind>([
  ["rate_limited", "rate_limited"],
  ["quota", "quota"],
  ["auth", "auth"],
  ["overloaded", "overloaded"],
  ["network", "network"],
  ["context_full", "context_full"],
  ["busy", "session_busy"],
]);

function troubleIn(line: unknown): Trouble {
  const error = objectIn(line, "error");
  const status = numberIn(error, "status");
  const resets = moment(stringIn(error, "resets_at"));
  return {
    kind: KINDS.get(stringIn(error, "code") ?? "") ?? "other",
    message: (stringIn(error, "message") ?? "The agent gave no reason.").slice(0, 500),
    ...(resets === null ? {} : { resetsAt: new Date(resets).toISOString() }),
    ...(status === undefined ? {} : { status }),
  };
}
