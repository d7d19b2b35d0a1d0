/** Parses Claude Code's output with `--output-format stream-json` or `json`, line by line. */
import type { EngineEvent, Tokens, Trouble } from "../core/events.ts";
import { believable, moment } from "../core/reset-time.ts";
import { outputOf } from "../lib/bounded.ts";
import {
  arrayIn,
  fieldIn,
  hasDuplicateKeys,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  parseJson,
  stringIn,
} from "../lib/json.ts";
import type { OutputReader } from "./engine.ts";
import { notPermitted, troubleOf, type TroublePattern } from "./troubles.ts";
import { oneModel, reportedCount } from "./usage.ts";

export const PATTERNS: readonly TroublePattern[] = [
  ["session_lost", /^no conversation found/i],
  ["auth", /not logged in|authentication_failed|failed to authenticate/i],
  ["quota", /billing_error/],
  ["network", /unable to connect|ConnectionRefused/i],
  ["usage", /^error: --|issue with the selected model/i],
  // Lasts seconds: "Server is temporarily limiting requests (not your usage limit)" (2.1.325).
  ["overloaded", /temporarily limiting requests|not your usage limit/i],
];

/** How Claude's own messages begin. With `--output-format text` they replace the answer. */
const OWN_WORDS =
  /^(?:API Error|Error: |Execution error|Request timed out|You(?:'|’)(?:ve (?:hit|reached) your|re out of)|Your org|Claude (?:AI )?usage limit|Credit balance|Invalid API key|Not logged in|Please run \/login|Failed to authenticate|Prompt is too long|Unable to connect|There(?:'|’)s an issue with|Server is temporarily|OAuth token)/i;
/** A longer output was cut at its beginning, and does not match. */
const LONG = 7_000;

/**
 * Why a turn with text output failed. Claude prints its own message in place of the answer, and nothing of the model's
 * earlier text (2.1.197, 2.1.325; also with `--verbose`). So the message begins the output, or the output is an answer.
 * The first paragraph states the problem.
 */
export function failureIn(stdoutTail: string, nowMs: number): Trouble | null {
  const text = stdoutTail.trim();
  if (text.length >= LONG || !OWN_WORDS.test(text)) return null;
  const lines = text.split("\n").map((line) => line.trim());
  const end = lines.indexOf("");
  return troubleOf(lines.slice(0, end === -1 ? undefined : end).join("\n"), nowMs, { patterns: PATTERNS });
}

/** Known and redundant: `assistant`, `user` and `result`, which 2.1.197 also has, say the same. */
const SILENT = new Set(["system/status", "system/permission_denied"]);

export function claudeReader(id: RegExp, now: () => number): OutputReader {
  let session: string | undefined;
  const tools = new Map<string, string>();
  /** Messages whose text came in pieces and is repeated whole. */
  const streamed = new Set<string>();
  let spoke = false;
  /** When the last limit ends; its message names a rounded clock time. */
  let limitEndsMs: number | null = null;
  let model: string | undefined;

  function named(line: JsonObject): readonly EngineEvent[] {
    const found = stringIn(line, "session_id") ?? "";
    if (found === session || !id.test(found)) return [];
    session = found;
    return [{ type: "session", session: found }];
  }

  function event(line: JsonObject): readonly EngineEvent[] {
    const kind = kindOf(line);
    switch (kind) {
      case "system/init":
        model = stringIn(line, "model");
        return [...named(line), { type: "turn_started" }];
      case "system/compact_boundary":
        return [{ type: "notice", message: "the conversation was compacted" }];
      case "system/api_retry":
        return [retry(line, now())];
      case "rate_limit_event":
        limitEndsMs = limitEnd(objectIn(line, "rate_limit_info")) ?? limitEndsMs;
        return [];
      case "stream_event":
        return partial(objectIn(line, "event"), isMain(line) ? streamed : null);
      case "assistant":
        return said(line, tools, streamed);
      case "user":
        return answered(line, tools);
      case "result":
        // A session that was never opened is reported with the requested id, or with an invented one.
        return [
          ...(neverBegan(line) ? [] : named(line)),
          ...(spoke ? [] : answer(line)),
          ...ended(line, now(), limitEndsMs, model),
        ];
      default:
        return SILENT.has(kind) ? [] : [{ type: "unknown" }];
    }
  }

  return {
    line(stream, text) {
      if (stream === "stderr") return [];
      const parsed = parseJson(text);
      // `json` with `--verbose` is one array of all events.
      const lines = Array.isArray(parsed) ? parsed.filter(isObject) : isObject(parsed) ? [parsed] : [];
      const names = lines.some((line) => ["system/init", "result"].includes(kindOf(line)));
      if (lines.length === 0 || (names && hasDuplicateKeys(text))) return [{ type: "unknown" }];
      return lines.flatMap((line) => {
        const events = event(line);
        spoke ||= events.some(({ type }) => type === "text");
        return events;
      });
    },
    end: () => [],
  };
}

function kindOf(line: JsonObject): string {
  const type = stringIn(line, "type") ?? "";
  return type === "system" ? `system/${stringIn(line, "subtype") ?? ""}` : type;
}

/** With `json` only the result has the answer. */
function answer(line: JsonObject): readonly EngineEvent[] {
  const text = stringIn(line, "result") ?? "";
  return line["is_error"] === true || text === "" ? [] : [{ type: "text", text }];
}

/** Messages of a sub-agent carry the id of its tool call. */
function isMain(line: JsonObject): boolean {
  return stringIn(line, "parent_tool_use_id") === undefined;
}

function neverBegan(line: JsonObject): boolean {
  return stringIn(line, "subtype") === "error_during_execution" && numberIn(line, "num_turns") === 0;
}

function retry(line: JsonObject, nowMs: number): EngineEvent {
  const status = numberIn(line, "error_status");
  const delayMs = numberIn(line, "retry_delay_ms");
  const why = stringIn(line, "error") ?? "unknown";
  const kind = troubleOf(why, nowMs, { patterns: PATTERNS, ...(status === undefined ? {} : { status }) });
  // Without a status the request got no answer.
  const trouble =
    kind.kind === "other" && status === undefined ? { ...kind, kind: "network" as const } : kind;
  return { type: "retry", trouble, ...(delayMs === undefined ? {} : { delayMs: Math.round(delayMs) }) };
}

function partial(event: JsonObject | undefined, streamed: Set<string> | null): readonly EngineEvent[] {
  const message = stringIn(objectIn(event, "message"), "id");
  if (message !== undefined) streamed?.add(message);
  const delta = objectIn(event, "delta");
  const text = stringIn(delta, "type") === "text_delta" ? stringIn(delta, "text") : undefined;
  return text === undefined || streamed === null ? [] : [{ type: "text", text, delta: true }];
}

function said(
  line: JsonObject,
  tools: Map<string, string>,
  streamed: ReadonlySet<string>,
): readonly EngineEvent[] {
  const message = objectIn(line, "message");
  // The synthetic message repeats an API error that `result` reports.
  const silent =
    !isMain(line) ||
    line["is_api_error_message"] === true ||
    stringIn(line, "error") !== undefined ||
    streamed.has(stringIn(message, "id") ?? "");
  return arrayIn(message, "content").flatMap((block): EngineEvent[] => {
    const type = stringIn(block, "type");
    if (type === "text") return silent ? [] : [{ type: "text", text: stringIn(block, "text") ?? "" }];
    if (type !== "tool_use") return [];
    const name = stringIn(block, "name") ?? "tool";
    const id = stringIn(block, "id") ?? name;
    tools.set(id, name);
    const detail = detailOf(objectIn(block, "input"));
    return [{ type: "tool", state: "started", id, name, ...(detail === undefined ? {} : { detail }) }];
  });
}

export function detailOf(input: JsonObject | undefined): string | undefined {
  for (const key of ["command", "file_path", "path", "pattern", "url", "query", "description"]) {
    const value = stringIn(input, key);
    if (value !== undefined) return value.slice(0, 200);
  }
  return undefined;
}

function answered(line: JsonObject, tools: Map<string, string>): readonly EngineEvent[] {
  return arrayIn(objectIn(line, "message"), "content").flatMap((block): EngineEvent[] => {
    const text = stringIn(block, "text");
    if (text?.startsWith("[Request interrupted") === true) return [{ type: "notice", message: text }];
    const id = stringIn(block, "tool_use_id");
    if (stringIn(block, "type") !== "tool_result" || id === undefined) return [];
    const ok = !(isObject(block) && block["is_error"] === true);
    const output = outputOf(resultText(block));
    return [{ type: "tool", state: "ended", id, name: tools.get(id) ?? "tool", ok, ...output }];
  });
}

/** Transcripts have results of tools in the same form. */
export function resultText(part: unknown): string | undefined {
  const content = fieldIn(part, "content");
  if (typeof content === "string") return content;
  const words = arrayIn(part, "content").map(wordsIn);
  return words.length === 0 ? undefined : words.filter((text) => text !== "").join("\n");
}

export function wordsIn(part: unknown): string {
  const type = stringIn(part, "type");
  if (type === "text") return stringIn(part, "text") ?? "";
  return type === "image" || type === "document" ? `[${type}]` : "";
}

/** Reported with every answer; relevant only if the request was refused. Extra usage continues despite the limit. */
function limitEnd(info: JsonObject | undefined): number | null {
  const refused = stringIn(info, "status") === "rejected" && info?.["isUsingOverage"] !== true;
  return refused ? moment(info?.["resetsAt"]) : null;
}

function ended(
  line: JsonObject,
  nowMs: number,
  limitEndsMs: number | null,
  model: string | undefined,
): readonly EngineEvent[] {
  const denied = arrayIn(line, "permission_denials").map((denial) =>
    notPermitted(stringIn(denial, "tool_name") ?? "tool", detailOf(objectIn(denial, "tool_input"))),
  );
  return [...denied, ...usageIn(line, model), verdict(line, nowMs, limitEndsMs)];
}

/**
 * `usage` counts this turn. `input_tokens` excludes what was read from and written to the cache; `output_tokens`
 * includes the thinking. `modelUsage` and `total_cost_usd` count the process in 2.1.197, but the whole session, with
 * the original of a fork, in 2.1.325. So the cost is this turn's if both count the same tokens, else a total.
 */
function usageIn(line: JsonObject, model: string | undefined): readonly EngineEvent[] {
  const usage = objectIn(line, "usage");
  const count = (key: string) => numberIn(usage, key) ?? 0;
  const cached = numberIn(usage, "cache_read_input_tokens");
  const input = count("input_tokens") + count("cache_creation_input_tokens") + (cached ?? 0);
  const output = count("output_tokens");
  if (input + output === 0) return [];
  const totals = totalsIn(line);
  const isTurn = totals?.input === input && totals.output === output;
  const tokens: Tokens = {
    input,
    output,
    ...reportedCount("cached", cached),
    ...reportedCount("reasoning", numberIn(objectIn(usage, "output_tokens_details"), "thinking_tokens")),
    ...(isTurn ? reportedCount("costUsd", totals.costUsd) : {}),
    ...oneModel(model === undefined ? Object.keys(objectIn(line, "modelUsage") ?? {}) : [model]),
  };
  return [{ type: "usage", tokens, ...(totals === undefined ? {} : { session: totals }) }];
}

function totalsIn(line: JsonObject): Tokens | undefined {
  const costUsd = numberIn(line, "total_cost_usd");
  const models = Object.values(objectIn(line, "modelUsage") ?? {});
  if (costUsd === undefined || models.length === 0) return undefined;
  const sum = (key: string) => models.reduce<number>((total, one) => total + (numberIn(one, key) ?? 0), 0);
  const cached = sum("cacheReadInputTokens");
  return {
    input: sum("inputTokens") + sum("cacheCreationInputTokens") + cached,
    output: sum("outputTokens"),
    cached,
    costUsd,
  };
}

/** An API failure is `subtype: "success"` with `is_error`; `terminal_reason` differs between versions. */
function verdict(line: JsonObject, nowMs: number, limitEndsMs: number | null): EngineEvent {
  const subtype = stringIn(line, "subtype") ?? "";
  if (line["is_error"] !== true && !subtype.startsWith("error"))
    return { type: "turn_ended", result: "completed" };
  // SIGINT during an answer or a tool: `aborted_streaming`, `aborted_tools` (2.1.197, 2.1.325).
  if (stringIn(line, "terminal_reason")?.startsWith("aborted") === true)
    return { type: "turn_ended", result: "interrupted" };
  const errors = arrayIn(line, "errors").filter((error) => typeof error === "string");
  const message = stringIn(line, "result") ?? errors.join(" ");
  const status = numberIn(line, "api_error_status");
  const told = troubleOf(message === "" ? subtype : message, nowMs, {
    patterns: PATTERNS,
    ...(status === undefined ? {} : { status }),
  });
  const limited = told.kind === "rate_limited" || told.kind === "quota";
  const resetsAt = limited ? believable(limitEndsMs, nowMs) : null;
  const trouble = resetsAt === null ? told : { ...told, kind: "rate_limited" as const, resetsAt };
  return { type: "turn_ended", result: "failed", trouble };
}
