/**
 * A conversation as people read it, made from the engine's events: pieces of text become messages, the start and end of
 * a tool call one line, calls in a row one group. Pure: blocks that did not change stay the same objects.
 */
import type { Attempt, ConversationEvent, Outcome, Tokens, Trouble } from "../types.ts";

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly detail: string;
  readonly state: "running" | "ok" | "failed";
  readonly output?: string;
  /** Characters of the output that the recording left out. */
  readonly cut?: number;
}

export type Block = { readonly n: number; readonly t: number | null } & (
  | {
      readonly kind: "attempt";
      readonly why: string;
      readonly startedAt: string | null;
      readonly outcome: Outcome | null;
    }
  | { readonly kind: "user"; readonly text: string }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tools"; readonly calls: readonly ToolCall[] }
  | {
      readonly kind: "trouble";
      readonly level: "bad" | "warn" | "note";
      readonly text: string;
      readonly trouble?: Trouble;
    }
  | { readonly kind: "ended"; readonly result: string; readonly tokens: Tokens | null }
);

export interface Conversation {
  readonly blocks: readonly Block[];
  /** Used tokens that the end of the turn will show. */
  readonly tokens: Tokens | null;
  /** Tool calls that have not ended: attempt and id → their block. */
  readonly open: ReadonlyMap<string, number>;
}

export const EMPTY: Conversation = { blocks: [], tokens: null, open: new Map() };

/** A longer row of calls becomes several groups: each call copies its group. */
const MOST_CALLS = 100;

const str = (value: unknown): string => (typeof value === "string" ? value : "");

export function append(conversation: Conversation, events: readonly ConversationEvent[]): Conversation {
  if (events.length === 0) return conversation;
  const { blocks, tokens, open } = conversation;
  const draft: Draft = { blocks: [...blocks], tokens, open: new Map(open) };
  for (const event of events) take(draft, event);
  return draft;
}

interface Draft {
  readonly blocks: Block[];
  tokens: Tokens | null;
  readonly open: Map<string, number>;
}

function take(draft: Draft, event: ConversationEvent): void {
  const n = event.n ?? event.attempt ?? 1;
  const at = { n, t: event.t ?? null };
  switch (event.type) {
    case "user":
    case "message":
      return user(draft, str(event["text"]) || str(event["message"]), at);
    case "text":
      return text(draft, event, at);
    case "tool":
      return tool(draft, event, at);
    case "usage":
      draft.tokens = ((event["tokens"] ?? event["session"]) as Tokens | undefined) ?? draft.tokens;
      return;
    case "retry":
    case "notice":
    case "session_changed":
      return void draft.blocks.push({ ...at, kind: "trouble", ...notice(event) });
    case "turn_ended":
      return ended(draft, event, at);
    // `attempt`, `session`, `turn_started`, `unknown` and events of later versions say nothing to a reader.
    default:
  }
}

type At = Pick<Block, "n" | "t">;

function user(draft: Draft, said: string, at: At): void {
  if (said !== "") draft.blocks.push({ ...at, kind: "user", text: said });
}

/**
 * The attempts stand between the blocks: how each began, its first message, and how it ended. Newer recordings also
 * have the first message as an event; the page shows it once.
 */
export function withAttempts(blocks: readonly Block[], history: readonly Attempt[]): readonly Block[] {
  const byAttempt = new Map<number, Block[]>(history.map(({ n }) => [n, []]));
  for (const block of blocks) {
    const list = byAttempt.get(block.n);
    if (list === undefined) byAttempt.set(block.n, [block]);
    else list.push(block);
  }
  const known = new Map(history.map((attempt) => [attempt.n, attempt]));
  return [...byAttempt]
    .sort(([a], [b]) => a - b)
    .flatMap(([n, said]) => [...beginning(n, known.get(n), said), ...said]);
}

function beginning(n: number, attempt: Attempt | undefined, said: readonly Block[]): readonly Block[] {
  const message = attempt?.message ?? "";
  const isSaid = message === "" || said.some((block) => block.kind === "user");
  return [
    {
      ...{ kind: "attempt", n, t: null, why: attempt?.kind ?? "" },
      ...{ startedAt: attempt?.startedAt ?? null, outcome: attempt?.outcome ?? null },
    },
    ...(isSaid ? [] : [{ kind: "user", n, t: null, text: message } as const]),
  ];
}

function text(draft: Draft, event: ConversationEvent, at: At): void {
  const piece = str(event["text"]);
  const last = draft.blocks.at(-1);
  if (last?.kind !== "text" || last.n !== at.n) draft.blocks.push({ ...at, kind: "text", text: piece });
  else {
    const joined = event["delta"] === true ? last.text + piece : `${last.text}\n\n${piece}`;
    draft.blocks[draft.blocks.length - 1] = { ...last, text: joined };
  }
}

function tool(draft: Draft, event: ConversationEvent, at: At): void {
  if (event["state"] !== "ended") return toolStarted(draft, event, at);
  const id = str(event["id"]);
  const place = draft.open.get(`${at.n} ${id}`);
  const block = place === undefined ? undefined : draft.blocks[place];
  if (place === undefined || block?.kind !== "tools") return toolStarted(draft, event, at);
  draft.open.delete(`${at.n} ${id}`);
  const which = block.calls.findLastIndex((call) => call.id === id && call.state === "running");
  const calls = block.calls.map((call, index) =>
    index === which ? { ...call, state: outcomeOf(event), ...outputOf(event) } : call,
  );
  draft.blocks[place] = { ...block, calls };
}

const outcomeOf = (event: ConversationEvent): ToolCall["state"] => {
  if (event["state"] !== "ended") return "running";
  return event["ok"] === false ? "failed" : "ok";
};

function outputOf(event: ConversationEvent): Pick<ToolCall, "output" | "cut"> {
  const [output, cut] = [str(event["output"]), event["cut"]];
  if (output === "") return {};
  return typeof cut === "number" ? { output, cut } : { output };
}

function toolStarted(draft: Draft, event: ConversationEvent, at: At): void {
  const call: ToolCall = {
    id: str(event["id"]),
    name: str(event["name"]) || "tool",
    detail: str(event["detail"]),
    state: outcomeOf(event),
    ...outputOf(event),
  };
  const last = draft.blocks.at(-1);
  if (last?.kind === "tools" && last.n === at.n && last.calls.length < MOST_CALLS)
    draft.blocks[draft.blocks.length - 1] = { ...last, calls: [...last.calls, call] };
  else draft.blocks.push({ ...at, kind: "tools", calls: [call] });
  if (call.state === "running") draft.open.set(`${at.n} ${call.id}`, draft.blocks.length - 1);
}

function notice(event: ConversationEvent): { level: "warn" | "note"; text: string; trouble?: Trouble } {
  if (event.type === "retry") {
    const trouble = event["trouble"] as Trouble;
    const delay = event["delayMs"];
    const wait = typeof delay === "number" ? ` in ${Math.round(delay / 1_000)} s` : "";
    return { level: "warn", text: `The engine retries${wait}: ${trouble.message}`, trouble };
  }
  if (event.type === "session_changed")
    return {
      level: "note",
      text: `The conversation changed in the UI (${str(event["why"])}): ${str(event["session"])}`,
    };
  const denied = event["denied"] as { name: string; detail?: string } | undefined;
  if (denied === undefined) return { level: "note", text: str(event["message"]) };
  return { level: "warn", text: `Denied: ${denied.name} ${denied.detail ?? ""}`.trim() };
}

function ended(draft: Draft, event: ConversationEvent, at: At): void {
  const trouble = event["trouble"] as Trouble | undefined;
  const result = str(event["result"]);
  if (trouble !== undefined)
    draft.blocks.push({ ...at, kind: "trouble", level: "bad", text: trouble.message, trouble });
  draft.blocks.push({ ...at, kind: "ended", result, tokens: draft.tokens });
  draft.tokens = null;
}
