/**
 * Turns the notifications of `codex app-server` during a turn into events, and its errors into troubles. Knows nothing
 * of requests and answers: codex-server.ts holds the conversation.
 */
import { relative } from "node:path";
import type { EngineEvent, Tokens, Trouble, TroubleKind } from "../core/events.ts";
import { outputOf } from "../lib/bounded.ts";
import { believable, moment } from "../core/reset-time.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { EXITS, PATTERNS, resultIn, retryDelay } from "./codex-output.ts";
import { kindIn, troubleOf } from "./troubles.ts";
import { oneModel, reportedCount } from "./usage.ts";

/** State between notifications. */
export interface ServerReport {
  readonly cwd: string;
  /** The length and the end of each incomplete message. */
  readonly said: Map<string, { readonly length: number; readonly end: string }>;
  /** Items that have begun and not ended. */
  readonly items: Map<string, JsonObject>;
  /** When the exhausted limits end, in ms since 1970. Null: no limit is known to be exhausted. */
  limitEndsMs: number | null;
  /** As the server named it when the thread began or went on. */
  model: string | undefined;
}

/** More than run at once. One more drops the oldest, so that a server that floods cannot fill the memory. */
const MAX_AT_ONCE = 256;
/** Enough of a message's end to check that the whole text continues it. */
const MAX_END = 64;

function remember<V>(map: Map<string, V>, id: string, value: V): void {
  map.set(id, value);
  if (map.size <= MAX_AT_ONCE) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    break;
  }
}

/** Notifications of the server's own state. They occur without any work, so they are not signs of life. */
const NOISE = new Set(
  `thread/started thread/status/changed thread/settings/updated thread/name/updated thread/closed
  thread/readState/changed thread/queue/changed thread/goal/updated thread/goal/cleared thread/prediction/updated
  thread/environment/connected thread/environment/disconnected thread/project/updated skills/changed account/updated
  account/rateLimits/updated mcpServer/startupStatus/updated remoteControl/status/changed app/list/updated`.split(
    /\s+/,
  ),
);

/** For a notification without content for people: an agent works in this thread or for it. */
export function signOfLife(method: string): readonly EngineEvent[] {
  return NOISE.has(method) ? [] : [{ type: "unknown" }];
}

/** For our turn; the caller has filtered out other threads. */
export function reported(method: string, params: JsonObject, heard: ServerReport): readonly EngineEvent[] {
  switch (method) {
    case "item/agentMessage/delta":
      return spoken(stringIn(params, "itemId"), stringIn(params, "delta"), heard);
    case "item/started":
    case "item/completed":
      return item(method === "item/started", objectIn(params, "item"), heard);
    case "item/fileChange/patchUpdated": {
      const id = stringIn(params, "itemId") ?? "";
      const known = heard.items.get(id);
      if (known !== undefined) heard.items.set(id, { ...known, changes: arrayIn(params, "changes") });
      return [];
    }
    case "thread/tokenUsage/updated": {
      const total = objectIn(objectIn(params, "tokenUsage"), "total");
      return [
        total === undefined
          ? { type: "unknown" }
          : { type: "usage", tokens: null, session: totalsIn(total, heard.model) },
      ];
    }
    case "account/rateLimits/updated":
      heard.limitEndsMs = usedUpUntil(objectIn(params, "rateLimits"));
      return [];
    case "warning":
    case "guardianWarning":
    case "configWarning":
    case "deprecationNotice": {
      const message = stringIn(params, "message") ?? stringIn(params, "summary");
      return [message === undefined ? { type: "unknown" } : { type: "notice", message }];
    }
    default:
      return [];
  }
}

/** Of the whole thread. `inputTokens` includes the cached ones, `outputTokens` the reasoning (0.166). */
function totalsIn(total: JsonObject, model: string | undefined): Tokens {
  return {
    input: numberIn(total, "inputTokens") ?? 0,
    output: numberIn(total, "outputTokens") ?? 0,
    ...reportedCount("cached", numberIn(total, "cachedInputTokens")),
    ...reportedCount("reasoning", numberIn(total, "reasoningOutputTokens")),
    ...oneModel([model]),
  };
}

/** The first piece of a message begins a new line; the others continue it. */
function spoken(id = "", piece: string | undefined, { said }: ServerReport): readonly EngineEvent[] {
  if (piece === undefined) return [{ type: "unknown" }];
  const before = said.get(id);
  remember(said, id, {
    length: (before?.length ?? 0) + piece.length,
    end: `${before?.end ?? ""}${piece}`.slice(-MAX_END),
  });
  return [{ type: "text", text: piece, ...(before === undefined ? {} : { delta: true as const }) }];
}

/** The part of a message beyond its received pieces. */
function completed(id: string, text: string, { said }: ServerReport): readonly EngineEvent[] {
  const before = said.get(id);
  said.delete(id);
  if (before === undefined) return text === "" ? [] : [{ type: "text", text }];
  const more = text.slice(0, before.length).endsWith(before.end) ? text.slice(before.length) : "";
  return more === "" ? [] : [{ type: "text", text: more, delta: true }];
}

const SILENT = new Set(
  `userMessage reasoning plan hookPrompt contextCompaction enteredReviewMode exitedReviewMode functionCallOutput
  sleep subAgentActivity`.split(/\s+/),
);

function item(started: boolean, it: JsonObject | undefined, heard: ServerReport): readonly EngineEvent[] {
  const type = stringIn(it, "type");
  if (it === undefined || type === undefined) return [{ type: "unknown" }];
  const id = stringIn(it, "id") ?? type;
  if (type === "agentMessage") return started ? [] : completed(id, stringIn(it, "text") ?? "", heard);
  if (SILENT.has(type)) return [];
  if (started) remember(heard.items, id, it);
  else heard.items.delete(id);
  const detail = detailOf(it, heard.cwd);
  const status = stringIn(it, "status");
  return [
    {
      type: "tool",
      state: started ? "started" : "ended",
      id,
      // Named as in `codex exec`.
      name: type.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      ...(detail === undefined ? {} : { detail }),
      ...(!started && status !== undefined ? { ok: status === "completed" } : {}),
      ...(started ? {} : outputOf(resultIn(it))),
    },
  ];
}

function detailOf(it: JsonObject, cwd: string): string | undefined {
  if (stringIn(it, "type") === "fileChange") return changesIn(it).map(changeIn(cwd)).join(", ");
  return stringIn(it, "command") ?? stringIn(it, "query") ?? stringIn(it, "tool");
}

export interface Change {
  readonly does: string;
  readonly path: string;
  readonly movesTo: string | null;
  readonly diff: string;
}

/** The files that an item changes, and how. */
export function changesIn(it: JsonObject | undefined): readonly Change[] {
  return arrayIn(it, "changes").map((change) => {
    const kind = objectIn(change, "kind");
    return {
      does: stringIn(kind, "type") ?? "change",
      path: stringIn(change, "path") ?? "?",
      movesTo: stringIn(kind, "move_path") ?? null,
      diff: stringIn(change, "diff") ?? "",
    };
  });
}

/** `update src/a.ts`; paths inside `cwd` are relative to it. */
export function changeIn(cwd: string): (change: Change) => string {
  const short = (path: string) => {
    const inside = relative(cwd, path);
    return inside === "" || inside.startsWith("..") || !path.startsWith("/") ? path : inside;
  };
  return ({ does, path, movesTo }) =>
    `${does} ${short(path)}${movesTo === null ? "" : ` → ${short(movesTo)}`}`;
}

/** The last end of all exhausted windows. */
function usedUpUntil(limits: JsonObject | undefined): number | null {
  const ends = ["primary", "secondary"].flatMap((name) => {
    const window = objectIn(limits, name);
    const end = moment(fieldIn(window, "resetsAt"));
    return (numberIn(window, "usedPercent") ?? 0) >= 100 && end !== null ? [end] : [];
  });
  return ends.length === 0 ? null : Math.max(...ends);
}

/** Codex's own name for the cause, for messages that say nothing. */
const CAUSES: Readonly<Record<string, TroubleKind>> = {
  contextWindowExceeded: "context_full",
  usageLimitExceeded: "rate_limited",
  rateLimitExceeded: "rate_limited",
  sessionBudgetExceeded: "quota",
  serverOverloaded: "overloaded",
  internalServerError: "overloaded",
  flexUnavailable: "overloaded",
  policyCapacityUnavailable: "overloaded",
  unauthorized: "auth",
  modelNotFound: "usage",
  httpConnectionFailed: "network",
  responseStreamConnectionFailed: "network",
  responseStreamDisconnected: "network",
};

/**
 * A turn's error. The message decides first, so that the same cause has the same kind as with `codex exec`; for the end
 * of a limit, its own field is more exact.
 */
export function troubleIn(
  error: JsonObject | undefined,
  nowMs: number,
  { limitEndsMs }: Pick<ServerReport, "limitEndsMs">,
): Trouble {
  const details = stringIn(error, "additionalDetails");
  const words = stringIn(error, "message") ?? "The turn failed.";
  const message = details === undefined ? words : `${words} (${details})`;
  const info = fieldIn(error, "codexErrorInfo");
  const [cause = "", more] = isObject(info) ? (Object.entries(info)[0] ?? []) : [String(info)];
  const status = numberIn(more, "httpStatusCode");
  const told = troubleOf(message, nowMs, {
    patterns: PATTERNS,
    ...(status === undefined ? {} : { status }),
  });
  const named = Object.hasOwn(CAUSES, cause) ? CAUSES[cause] : undefined;
  const trouble = told.kind === "other" && named !== undefined ? { ...told, kind: named } : told;
  const limited = trouble.kind === "rate_limited" || trouble.kind === "quota";
  const resetsAt = limited ? believable(limitEndsMs, nowMs) : null;
  return resetsAt === null ? trouble : { ...trouble, kind: "rate_limited", resetsAt };
}

/** Codex retries on its own. */
export function retryIn(error: JsonObject | undefined, nowMs: number, heard: ServerReport): EngineEvent {
  const trouble = troubleIn(error, nowMs, heard);
  return { type: "retry", trouble, ...retryDelay(trouble.message) };
}

/** Why our request was refused: every refusal has the same code, so the message decides. */
export function refusal(method: string, error: unknown, nowMs: number): Trouble {
  const words = stringIn(error, "message") ?? (typeof error === "string" ? error : "no reason was given");
  const wrong = stringIn(objectIn(error, "data"), "type") === "modelProviderNotConfigured";
  const { kind, ...rest } = troubleOf(words, nowMs, { patterns: EXITS });
  const ours = wrong || kindIn(words, [["usage", /^invalid request\b|^invalid session id\b/i]]) !== null;
  return { ...rest, kind: kind === "other" && ours ? "usage" : kind, message: `${method}: ${rest.message}` };
}
