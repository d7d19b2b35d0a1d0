/** Parses OpenCode's output: JSON events on stdout, its log on stderr. Recorded transcripts: opencode.fixtures/. */
import type { EngineEvent, Exit, Tokens, Trouble } from "../core/events.ts";
import { outputOf } from "../lib/bounded.ts";
import { NO_TOKENS, sumTokens } from "../core/tokens.ts";
import {
  hasDuplicateKeys,
  type JsonObject,
  numberIn,
  objectIn,
  parseJson,
  parseObject,
  stringIn,
} from "../lib/json.ts";
import type { OutputReader, Printed } from "./engine.ts";
import { notPermitted, troubleOf, type TroublePattern } from "./troubles.ts";
import { reportedCount } from "./usage.ts";

export const ID = /^ses_[0-9A-Za-z]{16,40}$/;

const PATTERNS: readonly TroublePattern[] = [
  ["session_lost", /session not found/i],
  ["context_full", /maximum context length|ContextOverflow/i],
  ["auth", /API key not valid|ProviderAuthError/i],
  ["network", /unable to connect|socket connection was closed|fetch failed/i],
  ["usage", /you must provide a message|file not found:/i],
];

/** The synthetic tool call for a tool that only the log shows as running. */
const UNDER_WAY = "under-way";

interface State {
  readonly now: () => number;
  session: string | null;
  started: boolean;
  answered: boolean;
  rejected: boolean;
  /** A step began and has not finished. */
  inStep: boolean;
  underWay: string | null;
  /** The log showed a tool call that stdout has not shown yet. */
  announced: boolean;
  finish: string | null;
  error: Trouble | null;
  /** The trouble behind OpenCode's latest retry. */
  retrying: Trouble | null;
  /** Of all steps so far; a resume is a new process and begins at zero. */
  tokens: Tokens;
}

export function opencodeReader(now: () => number, printed: Printed = "events"): OutputReader {
  if (printed === "text") return textReader();
  const state: State = {
    now,
    session: null,
    started: false,
    answered: false,
    rejected: false,
    inStep: false,
    underWay: null,
    announced: false,
    finish: null,
    error: null,
    retrying: null,
    tokens: NO_TOKENS,
  };
  return {
    line: (stream, text) => (stream === "stderr" ? logged(state, text) : heard(state, text)),
    end: (exit) => ended(state, exit),
  };
}

/**
 * With the default format stdout is the answer, and stderr shows tool output. The log of `--print-logs` names a new
 * session before that: until the first line that is not a log line, every line is OpenCode's.
 */
function textReader(): OutputReader {
  let atTop = true;
  return {
    line(stream, text) {
      if (stream === "stdout" || !atTop) return [];
      const [, level, message, rest = ""] = LOG.exec(text) ?? [];
      atTop = level !== undefined;
      const session = message === "created" ? (CREATED.exec(rest)?.[1] ?? "") : "";
      if (!ID.test(session)) return [];
      atTop = false;
      return [{ type: "session", session }];
    },
    end: () => [],
  };
}

function heard(state: State, text: string): readonly EngineEvent[] {
  const line = parseObject(text);
  if (line === undefined) return text.trim() === "" ? [] : [{ type: "unknown" }];
  const event = translate(state, line);
  if (event === null || hasDuplicateKeys(text)) return [{ type: "unknown" }];
  return [...named(state, stringIn(line, "sessionID") ?? ""), ...event];
}

function named(state: State, session: string): readonly EngineEvent[] {
  if (!ID.test(session) || session === state.session) return [];
  state.session = session;
  return [{ type: "session", session }];
}

function translate(state: State, line: JsonObject): readonly EngineEvent[] | null {
  const part = objectIn(line, "part");
  switch (stringIn(line, "type") ?? "") {
    case "step_start":
      return stepStarted(state);
    case "text": {
      const text = stringIn(part, "text") ?? "";
      state.answered ||= text.trim() !== "";
      return [{ type: "text", text }];
    }
    case "reasoning":
      return [];
    case "tool_use":
      return toolUsed(state, part);
    case "step_finish":
      return stepFinished(state, part);
    case "error":
      return failing(state, objectIn(line, "error"));
    default:
      return null;
  }
}

/** A step that begins again without an end means a broken connection: OpenCode asks the model once more. */
function stepStarted(state: State): readonly EngineEvent[] {
  if (state.inStep)
    return again(state, { kind: "network", message: "The connection broke; OpenCode tries again." });
  state.inStep = true;
  if (state.started) return [];
  state.started = true;
  return [{ type: "turn_started" }];
}

/** OpenCode prints a tool call when it is over. */
function toolUsed(state: State, part: JsonObject | undefined): readonly EngineEvent[] {
  const name = stringIn(part, "tool") ?? "tool";
  const call = objectIn(part, "state");
  const input = objectIn(call, "input");
  const detail = stringIn(input, "command") ?? stringIn(input, "filePath") ?? stringIn(input, "description");
  const known = { name, ...(detail === undefined ? {} : { detail }) };
  const ok = stringIn(call, "status") === "completed";
  const why = ok ? "" : (stringIn(call, "error") ?? "");
  const rejected = /rejected permission/i.test(why);
  if (rejected) state.rejected = true;
  const denied = rejected || /specified a rule which prevents/i.test(why) ? [notPermitted(name, detail)] : [];
  const id = state.announced ? UNDER_WAY : (stringIn(part, "callID") ?? name);
  const begun = state.announced ? [] : [{ type: "tool", state: "started", id, ...known } as const];
  state.announced = false;
  state.underWay = null;
  const output = outputOf(stringIn(call, "output") ?? stringIn(call, "error"));
  return [...begun, { type: "tool", state: "ended", id, ...known, ok, ...output }, ...denied];
}

function stepFinished(state: State, part: JsonObject | undefined): readonly EngineEvent[] {
  const tokens = objectIn(part, "tokens");
  state.inStep = false;
  state.announced = false;
  state.retrying = null;
  state.finish = stringIn(part, "reason") ?? null;
  // OpenCode may have compacted an overflowing context and continued the turn.
  if (state.finish === "stop") state.error = null;
  state.tokens = sumTokens(state.tokens, stepTokens(tokens, numberIn(part, "cost")));
  return [...noLongerUnderWay(state), { type: "usage", tokens: state.tokens }];
}

/**
 * Of one step. `input` excludes both parts of `cache`. `output` excludes `reasoning` if `total` counts it on top. A
 * cost of 0 means that OpenCode knows no price for the model (1.18). No line names the model.
 */
function stepTokens(tokens: JsonObject | undefined, cost: number | undefined): Tokens {
  const cache = objectIn(tokens, "cache");
  const [cached, reasoning] = [numberIn(cache, "read"), numberIn(tokens, "reasoning")];
  const input = (numberIn(tokens, "input") ?? 0) + (cached ?? 0) + (numberIn(cache, "write") ?? 0);
  const output = numberIn(tokens, "output") ?? 0;
  const isApart = numberIn(tokens, "total") === input + output + (reasoning ?? 0);
  return {
    input,
    output: isApart ? output + (reasoning ?? 0) : output,
    ...reportedCount("cached", cached),
    ...reportedCount("reasoning", reasoning),
    ...reportedCount("costUsd", cost === 0 ? undefined : cost),
  };
}

function failing(state: State, error: JsonObject | undefined): readonly EngineEvent[] {
  const data = objectIn(error, "data");
  const name = stringIn(error, "name") ?? "error";
  const message = stringIn(data, "message") ?? name;
  const status = numberIn(data, "statusCode");
  const repeated = state.error?.message === message;
  const trouble = troubleOf(message, state.now(), {
    ...(status === undefined ? {} : { status }),
    patterns: PATTERNS,
  });
  const kind =
    name === "ContextOverflowError" ? "context_full" : name === "ProviderAuthError" ? "auth" : trouble.kind;
  state.error = { ...trouble, kind };
  state.inStep = false;
  return [...noLongerUnderWay(state), ...(repeated ? [] : [{ type: "notice", message } as const])];
}

function noLongerUnderWay(state: State): readonly EngineEvent[] {
  if (state.underWay === null) return [];
  const name = state.underWay;
  state.underWay = null;
  return [{ type: "tool", state: "ended", id: UNDER_WAY, name }];
}

/**
 * A line of `--print-logs`: `timestamp=… level=… run=… message=… key=value…`. Text of the model or a tool occurs only
 * as a quoted value with escaped line breaks, so it can never begin a line.
 */
const LOG = /^timestamp=\S+ level=(\w+) run=[0-9a-f]+ message=("[^"]*"|\S+)([^]*)$/;
/** A sub-agent's child session names its parent. */
const CREATED =
  /^ id=(ses_[0-9A-Za-z]+) slug=\S+ version=\S+ projectID=\S+ directory=.* parentID=undefined title=/;

function logged(state: State, text: string): readonly EngineEvent[] {
  const [, level, message = "", rest = ""] = LOG.exec(text) ?? [];
  if (level === undefined) return saidToPeople(state, text);
  if (message === "created" && state.session === null) return named(state, CREATED.exec(rest)?.[1] ?? "");
  if (message === '"stream error"') return retrying(state, rest);
  // The two pipes may be read in another order than they were written, so the next round also ends it.
  if (message === "loop" && rest.startsWith(` session.id=${state.session} `)) return noLongerUnderWay(state);
  return message === "evaluated" ? begins(state, rest) : [];
}

/** OpenCode checks its permission rules just before it runs a tool; the events show a tool only when it is over. */
function begins(state: State, rest: string): readonly EngineEvent[] {
  const rule =
    /^ permission=(\w+) pattern=("(?:[^"\\]|\\.)*"|\S+) action\.permission=\S+ action\.action=(?:allow|ask)\b/;
  const [, name, pattern = ""] = rule.exec(rest) ?? [];
  if (name === undefined || state.announced) return [];
  state.announced = true;
  state.underWay = name;
  const quoted = parseJson(pattern);
  return [
    {
      type: "tool",
      state: "started",
      id: UNDER_WAY,
      name,
      detail: typeof quoted === "string" ? quoted : pattern,
    },
  ];
}

/** OpenCode silently retries after some errors, for 75 s or as long as a `retry-after` says. */
function retrying(state: State, rest: string): readonly EngineEvent[] {
  const message = /error\.error="((?:[^"\\]|\\.)*)"/.exec(rest)?.[1] ?? "";
  const trouble = troubleOf(message, state.now(), { patterns: PATTERNS });
  const passing = ["rate_limited", "overloaded", "network", "quota"].includes(trouble.kind);
  return passing && rest.includes(" small=false ") ? again(state, trouble) : [];
}

function again(state: State, trouble: Trouble): readonly EngineEvent[] {
  state.retrying = trouble;
  return [{ type: "retry", trouble }];
}

function saidToPeople(state: State, text: string): readonly EngineEvent[] {
  const plain = withoutColour(text);
  if (!/^! permission requested: .*auto-rejecting/.test(plain)) return [];
  state.rejected = true;
  return [
    {
      type: "notice",
      message: `${plain.slice(2)}. Give --auto to approve, or allow it in OpenCode's config.`,
    },
  ];
}

/** OpenCode has no terminal event: the turn ends with the process. An unobserved end is judged by the events. */
function ended(state: State, { code: seen, signal }: Exit): readonly EngineEvent[] {
  const code = seen === null && signal === null ? 0 : seen;
  const failed = (trouble: Trouble): readonly EngineEvent[] => [
    { type: "turn_ended", result: "failed", trouble },
  ];
  if (state.error !== null) return failed(state.error);
  if (seen !== 0 && state.retrying !== null) {
    return [{ type: "turn_ended", result: "interrupted", trouble: state.retrying }];
  }
  if (code !== 0 || state.finish === null) return [];
  if (state.finish === "stop" && state.answered) return [{ type: "turn_ended", result: "completed" }];
  const other = (message: string) => failed({ kind: "other", message });
  if (state.finish === "stop") return other("The model returned an empty answer.");
  if (state.rejected) return other("The turn stopped because a permission was rejected.");
  if (state.finish === "length") return other("The answer was cut off at the model's output limit.");
  return [{ type: "turn_ended", result: "interrupted" }];
}

export function explainExit(
  { code }: Exit,
  stderrTail: string,
  nowMs: number,
  stdoutTail?: string,
): Trouble | null {
  if (code === null || code === 0) return null;
  const all = stderrTail.split("\n").map((line) => withoutColour(line).trim());
  // With text, stderr also shows tool output: only OpenCode's last message counts.
  const lines = stdoutTail === undefined ? all : lastLines(all);
  const error = lines.findLast((line) => line.startsWith("Error: "));
  if (error !== undefined) return troubleOf(error.slice(7), nowMs, { patterns: PATTERNS });
  const usage = lines.some((line) => line.startsWith("opencode run [message..]"));
  return usage ? { kind: "usage", message: "OpenCode does not understand these arguments." } : null;
}

/** After the last blank line. The log of `--print-logs` may continue after an error. */
function lastLines(lines: readonly string[]): readonly string[] {
  const said = lines.filter((line) => !LOG.test(line));
  const end = said.findLastIndex((line) => line !== "");
  return said.slice(said.lastIndexOf("", end) + 1, end + 1);
}

function withoutColour(text: string): string {
  // oxlint-disable-next-line no-control-regex -- colours are control sequences
  return text.replaceAll(/\u001b\[[0-9;]*m/g, "");
}
