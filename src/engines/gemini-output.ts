/** Parses Gemini CLI's output. Recorded transcripts: gemini.fixtures/. */
import type { EngineEvent, Exit, Tokens, Trouble, TroubleKind } from "../core/events.ts";
import { outputOf } from "../lib/bounded.ts";
import { hasDuplicateKeys, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import type { OutputReader, Printed } from "./engine.ts";
import { notPermitted, troubleOf, type TroublePattern } from "./troubles.ts";
import { oneModel, reportedCount } from "./usage.ts";

/** Values that `--session-id` accepts, except those that `--resume` does not read as an id. */
export const ID = /^(?!latest$|\d+$)[A-Za-z0-9_][A-Za-z0-9_-]{0,127}$/;
const MAX_OBJECT = 1_048_576;
const MAX_TRY = 2_000;

const PATTERNS: readonly TroublePattern[] = [
  // With an API key the most common limit reads like a billing problem, and names its end.
  ["rate_limited", /^(?=[^]*exceeded your current quota)[^]*\bretry (?:in|after) \d/i],
  ["quota", /exhausted your daily quota|PerDay/i],
  ["rate_limited", /exhausted your capacity|RESOURCE_EXHAUSTED|resource has been exhausted|quota exceeded/i],
  ["context_full", /token count \(?\d{0,12} ?\)?.{0,20}exceeds|exceeds the maximum number of tokens/i],
  [
    "auth",
    /API key not valid|UNAUTHENTICATED|PERMISSION_DENIED|invalid auth method|set an auth method|must specify the [A-Z_]*(?:API_KEY|GOOGLE_CLOUD)/i,
  ],
  ["overloaded", /UNAVAILABLE|model is overloaded/i],
  ["network", /fetch failed|\bterminated\b|socket hang up|other side closed/i],
];

interface OpenTool {
  readonly name: string;
  readonly detail?: string;
}

interface State {
  readonly now: () => number;
  /** Names and details of open tools by id: the end does not repeat them. */
  readonly tools: Map<string, OpenTool>;
  session: string | null;
  inText: boolean;
  lastError: string;
  /** A failed try whose announcement continues in the next line. */
  failedTry: string | null;
  /** The trouble behind Gemini's latest retry. */
  retrying: Trouble | null;
  /** The turn's last event was seen. The two pipes may be read in another order than they were written. */
  over: boolean;
}

export function geminiReader(now: () => number, printed: Printed = "events"): OutputReader {
  const state: State = {
    now,
    tools: new Map(),
    session: null,
    inText: false,
    lastError: "",
    failedTry: null,
    retrying: null,
    over: false,
  };
  // With text, stdout is the answer; neither the model nor its tools write to stderr.
  if (printed === "text")
    return { line: (stream, text) => (stream === "stderr" ? retried(state, text) : []), end: () => [] };
  const objects = { stdout: prettyObjects(), stderr: prettyObjects() };
  return {
    line(stream, text) {
      const piece = objects[stream](text);
      if (piece === "") return [];
      const line = parseObject(piece ?? text);
      if (piece !== null) return line === undefined ? [] : whole(state, line, piece);
      // Noise on stderr is not a sign of life: a failing turn prints stack traces while it retries.
      if (stream === "stderr") return retried(state, text);
      if (line === undefined) return text.trim() === "" ? [] : [{ type: "unknown" }];
      return stringIn(line, "type") === undefined ? whole(state, line, text) : streamed(state, line, text);
    },
    end: () => {
      const { retrying, over } = state;
      return retrying === null || over
        ? []
        : [{ type: "turn_ended", result: "interrupted", trouble: retrying }];
    },
  };
}

/**
 * Collects a pretty-printed object, from a line `{` to a line `}`, both unindented. Null: the line is not part of an
 * object. Empty: the object continues.
 */
function prettyObjects(): (text: string) => string | null {
  let lines: string[] | null = null;
  let size = 0;
  return (text) => {
    if (text === "{") {
      lines = [];
      size = 0;
    }
    // Within the object every line is indented.
    else if (text !== "}" && !text.startsWith(" ")) lines = null;
    if (lines === null) return null;
    lines.push(text);
    size += text.length;
    const object = text === "}" ? lines.join("\n") : "";
    if (object !== "" || size > MAX_OBJECT) lines = null;
    return object;
  };
}

/** A line of `-o stream-json`. */
function streamed(state: State, line: JsonObject, text: string): readonly EngineEvent[] {
  const { inText } = state;
  state.inText = false;
  state.retrying = null;
  switch (stringIn(line, "type") ?? "") {
    case "init":
      return named(state, line, text);
    case "message": {
      if (stringIn(line, "role") !== "assistant") return [{ type: "turn_started" }];
      state.inText = true;
      const delta = inText ? { delta: true as const } : {};
      return [{ type: "text", text: stringIn(line, "content") ?? "", ...delta }];
    }
    case "tool_use":
      return toolStarted(line, state.tools);
    case "tool_result":
      return toolEnded(line, state.tools);
    case "error":
      state.lastError = stringIn(line, "message") ?? "";
      return [{ type: "notice", message: state.lastError }];
    case "result": {
      state.over = true;
      const stats = objectIn(line, "stats");
      const done = stringIn(line, "status") === "success";
      return [
        { type: "usage", tokens: streamedTokens(stats) },
        done ? { type: "turn_ended", result: "completed" } : failed(state, objectIn(line, "error")),
      ];
    }
    default:
      return [{ type: "unknown" }];
  }
}

/** The one object of `-o json`: a success on stdout, a failure on stderr. */
function whole(state: State, object: JsonObject, text: string): readonly EngineEvent[] {
  const error = objectIn(object, "error");
  const response = stringIn(object, "response");
  if (error === undefined && response === undefined) return [{ type: "unknown" }];
  state.over = true;
  const ids = named(state, object, text);
  if (error !== undefined) return [...ids, failed(state, error)];
  const tokens = tokensOf(object);
  const usage = tokens === null ? [] : [{ type: "usage", tokens } as const];
  if (response === undefined || response === "") {
    return [...ids, ...usage, failed(state, { message: "The model returned an empty answer." })];
  }
  return [...ids, { type: "text", text: response }, ...usage, { type: "turn_ended", result: "completed" }];
}

function named(state: State, line: JsonObject, text: string): readonly EngineEvent[] {
  const session = stringIn(line, "session_id") ?? "";
  if (!ID.test(session) || hasDuplicateKeys(text)) return [{ type: "unknown" }];
  if (session === state.session) return [];
  state.session = session;
  return [{ type: "session", session }];
}

function failed(state: State, error: JsonObject | undefined): EngineEvent {
  const message = stringIn(error, "message") ?? (state.lastError || "The turn failed.");
  const code = numberIn(error, "code") ?? statusIn(message) ?? 0;
  const status = code < 400 || code > 599 ? {} : { status: code };
  const told = troubleOf(message, state.now(), { ...status, patterns: PATTERNS });
  const trouble = code === NO_LOGIN ? { ...told, kind: "auth" as const } : told;
  return { type: "turn_ended", result: "failed", trouble };
}

/** `Attempt 1 failed: …`, and in the same line or the next `Retrying after 5223ms...`. */
function retried(state: State, text: string): readonly EngineEvent[] {
  if (/^Attempt \d+ failed/.test(text)) state.failedTry = text;
  // Google's message may have several lines, and the last one names the time.
  else if (state.failedTry !== null && !text.includes("Retrying"))
    state.failedTry = `${state.failedTry}\n${text}`.slice(0, MAX_TRY);
  const { failedTry } = state;
  const delay = /Retrying after (\d{1,9})ms/.exec(text)?.[1];
  if (failedTry === null || (delay === undefined && !text.includes("Retrying with backoff"))) return [];
  state.failedTry = null;
  const trouble = troubleOf(failedTry, state.now(), { patterns: PATTERNS });
  state.retrying = trouble;
  return [{ type: "retry", trouble, ...(delay === undefined ? {} : { delayMs: Number(delay) }) }];
}

function toolStarted(line: JsonObject, tools: Map<string, OpenTool>): readonly EngineEvent[] {
  const name = stringIn(line, "tool_name");
  if (name === undefined) return [{ type: "unknown" }];
  const id = stringIn(line, "tool_id") ?? name;
  const given = objectIn(line, "parameters");
  const detail = stringIn(given, "command") ?? stringIn(given, "file_path") ?? stringIn(given, "pattern");
  const tool = { name, ...(detail === undefined ? {} : { detail }) };
  tools.set(id, tool);
  return [{ type: "tool", state: "started", id, ...tool }];
}

/**
 * The result of a call that the approval mode does not allow (0.61): without a UI, a tool that would have to ask is not
 * registered. An invented tool name has the same result, so only Gemini's own tool names count as denials.
 */
const DENIED = new Set(["tool_not_registered", "policy_violation"]);
const ASKS = new Set(["run_shell_command", "write_file", "replace", "web_fetch", "save_memory"]);

function toolEnded(line: JsonObject, tools: Map<string, OpenTool>): readonly EngineEvent[] {
  const id = stringIn(line, "tool_id");
  if (id === undefined) return [{ type: "unknown" }];
  const { name, detail } = tools.get(id) ?? { name: "tool" };
  tools.delete(id);
  const why = stringIn(objectIn(line, "error"), "type") ?? "";
  const result = outputOf(stringIn(line, "output") ?? stringIn(objectIn(line, "error"), "message"));
  const denied = DENIED.has(why) && (why === "policy_violation" || ASKS.has(name));
  return [
    { type: "tool", state: "ended", id, name, ok: stringIn(line, "status") === "success", ...result },
    ...(denied ? [notPermitted(name, detail)] : []),
  ];
}

/**
 * Of this process only: a resume begins at zero (0.61). `input_tokens` includes `cached`. The stream has no count of
 * thoughts, and its `output_tokens` leave them out.
 */
function streamedTokens(stats: JsonObject | undefined): Tokens {
  return {
    input: numberIn(stats, "input_tokens") ?? 0,
    output: numberIn(stats, "output_tokens") ?? 0,
    ...reportedCount("cached", numberIn(stats, "cached")),
    ...oneModel(Object.keys(objectIn(stats, "models") ?? {})),
  };
}

/** `prompt` includes `cached`; `candidates` excludes `thoughts`, which the model produced as well. */
function tokensOf(object: JsonObject): Tokens | null {
  const models = objectIn(objectIn(object, "stats"), "models");
  if (models === undefined) return null;
  const counts = Object.values(models).map((model) => objectIn(model, "tokens"));
  const sum = (key: string) => counts.reduce((total, count) => total + (numberIn(count, key) ?? 0), 0);
  const has = (key: string) => counts.some((count) => numberIn(count, key) !== undefined);
  return {
    input: sum("prompt"),
    output: sum("candidates") + sum("thoughts"),
    ...reportedCount("cached", has("cached") ? sum("cached") : undefined),
    ...reportedCount("reasoning", has("thoughts") ? sum("thoughts") : undefined),
    ...oneModel(Object.keys(models)),
  };
}

/** `[API Error: {"error":{"code":401,…}}]` */
function statusIn(message: string): number | undefined {
  const code = /"code":\s?([45]\d{2})\b/.exec(message)?.[1];
  return code === undefined ? undefined : Number(code);
}

/** Gemini's own exit codes. */
const NO_LOGIN = 41;
const EXITS: Readonly<Record<number, readonly [kind: TroubleKind, means: string]>> = {
  [NO_LOGIN]: ["auth", "Gemini has no valid login."],
  42: ["usage", "Gemini got no usable input."],
  44: ["other", "Gemini's sandbox failed."],
  52: ["other", "Gemini's settings are wrong."],
  53: ["other", "Gemini reached its limit of turns."],
  54: ["other", "A tool of Gemini failed."],
};

const TRUST =
  "Gemini does not trust this folder. Give --trust-cwd to allow it for this run, or trust the folder in Gemini itself.";

/** 0.61: its launcher would start again at this exit code; Reprise starts it without the launcher. */
const RELAUNCH =
  "Gemini ended in order to be started again, as it does when you have answered whether it may trust the folder. Start it again.";

export function explainExit(
  { code }: Exit,
  stderrTail: string,
  nowMs: number,
  stdoutTail?: string,
): Trouble | null {
  if (code === null || code === 0) return null;
  if (code === 55) return { kind: "usage", message: TRUST };
  if (code === 199) return { kind: "other", message: RELAUNCH };
  const words = lastWords(stderrTail);
  if (stderrTail.includes("Error resuming session:")) return { kind: "session_lost", message: words };
  const own = EXITS[code];
  if (own !== undefined) return { kind: own[0], message: words || own[1] };
  if (USAGE.test(stderrTail)) return { kind: "usage", message: words };
  const refused = stdoutTail === undefined ? null : refusalIn(stderrTail);
  if (refused !== null) {
    const { message, ...status } = refused;
    return troubleOf(message, nowMs, { ...status, patterns: PATTERNS });
  }
  // An HTTP status modulo 256: 173 is 429.
  const status = code + 256 >= 400 ? { status: code + 256 } : {};
  if (words === "" && code + 256 < 400) return null;
  return troubleOf(words || `Gemini's model answered with HTTP status ${code + 256}.`, nowMs, {
    ...status,
    patterns: PATTERNS,
  });
}

/**
 * `Error when talking to Gemini API Full report available at: <path> <Name>Error: <message>`, whose message may have
 * several lines, then a stack trace and the fields of the error. With `-o text` that is all (exit 1).
 */
const REFUSED = "Error when talking to Gemini API";
const MAX_MESSAGE = 3_000;

function refusalIn(stderrTail: string): { readonly message: string; readonly status?: number } | null {
  const at = `\n${stderrTail}`.lastIndexOf(`\n${REFUSED}`);
  if (at === -1) return null;
  const report = stderrTail.slice(at);
  const [first = "", ...rest] = report.slice(REFUSED.length).split("\n");
  const path = first.lastIndexOf(".json ");
  const words = first.slice(path === -1 ? 0 : path + ".json ".length).trimStart();
  const end = rest.findIndex((line) => line.startsWith("    at ") || line.startsWith("}"));
  const lines = [words.replace(/^\w{1,40}: /, ""), ...rest.slice(0, end === -1 ? undefined : end)];
  const message = lines.join("\n").trim().slice(0, MAX_MESSAGE);
  if (message === "") return null;
  const status = /^ {2}status: ([45]\d{2})\b/m.exec(report)?.[1];
  return { message, ...(status === undefined ? {} : { status: Number(status) }) };
}

const USAGE = /^(?:Unknown argument|Not enough arguments|Invalid values|Cannot use both|Usage: gemini)/m;
const NOISE =
  /^\s*$|^\s+at |^Warning: |^Ripgrep is not|^\[STARTUP\]|^YOLO mode|^Usage: |^\s|^[{}]|^Options:|^Commands:|^Positionals:/;

/** The first line that is neither noise nor part of a stack trace or the help. */
function lastWords(stderrTail: string): string {
  // oxlint-disable-next-line no-control-regex -- colours are control sequences
  const plain = stderrTail.replaceAll(/\u001b\[[0-9;]*m/g, "");
  return (plain.split("\n").find((line) => !NOISE.test(line)) ?? "").trim().slice(0, 500);
}
