/**
 * Owns the shape of a conversation that leaves the machine: attempts with the message, the answer and the tool calls.
 * Pure. All texts are untrusted; the pages make them inert.
 */
import type { EngineEvent } from "../core/events.ts";

export interface SharedRun {
  readonly title: string;
  readonly handle: string;
  readonly engine: string;
  readonly status: string;
  /** The version of Reprise that made the page. */
  readonly version: string;
  readonly exportedAt: string;
  readonly attempts: readonly SharedAttempt[];
  /** What the page lacks, one sentence each. */
  readonly leftOut: readonly string[];
}

export interface SharedAttempt {
  readonly n: number;
  /** Null: the record of the attempt cannot be read. */
  readonly record: {
    readonly kind: string;
    readonly startedAt: string;
    readonly endedAt: string | null;
    readonly message: string | null;
    readonly result: string;
    /** Null: the attempt completed or runs. */
    readonly reason: string | null;
    readonly tokens: { readonly input: number; readonly output: number } | null;
  } | null;
  /** The proof of a resume, one sentence each. Empty: the attempt was no resume. */
  readonly proof: readonly string[];
  readonly parts: readonly SharedPart[];
}

export type SharedPart =
  | { readonly type: "text"; readonly text: string }
  /** A message to the agent after the opening message of the attempt. */
  | { readonly type: "message"; readonly text: string }
  /** The screen of a UI, or output that Reprise does not parse: shown with its line breaks. */
  | { readonly type: "output"; readonly text: string }
  | { readonly type: "tools"; readonly calls: readonly { readonly what: string; readonly failed: boolean }[] }
  | { readonly type: "note"; readonly text: string };

/** Joins deltas and consecutive tool calls. */
export function partsOf(events: Iterable<EngineEvent>): readonly SharedPart[] {
  const parts: SharedPart[] = [];
  const byId = new Map<string, { what: string; failed: boolean }>();
  let calls: { what: string; failed: boolean }[] = [];
  for (const event of events) {
    const last = parts.at(-1);
    if (event.type === "text") {
      if (event.delta === true && last?.type === "text")
        parts[parts.length - 1] = { type: "text", text: last.text + event.text };
      else if (event.text !== "") parts.push({ type: "text", text: event.text });
    } else if (event.type === "message") {
      if (event.opening !== true) parts.push({ type: "message", text: event.text });
    } else if (event.type === "tool") {
      const begun = event.state === "ended" ? byId.get(event.id) : undefined;
      if (begun !== undefined) {
        if (event.ok === false) begun.failed = true;
        continue;
      }
      if (last?.type !== "tools") {
        calls = [];
        parts.push({ type: "tools", calls });
      }
      const what = event.detail === undefined ? event.name : `${event.name} ${event.detail}`;
      const call = { what, failed: event.ok === false };
      byId.set(event.id, call);
      calls.push(call);
    } else {
      const note = noteOf(event);
      if (note !== null) parts.push({ type: "note", text: note });
    }
  }
  return parts;
}

/** Consecutive parts of one speaker. */
export function speechesOf(parts: readonly SharedPart[]): readonly (readonly SharedPart[])[] {
  const speeches: SharedPart[][] = [];
  for (const part of parts) {
    const last = speeches.at(-1);
    if (last === undefined || part.type === "message" || last[0]?.type === "message") speeches.push([part]);
    else last.push(part);
  }
  return speeches;
}

function noteOf(event: EngineEvent): string | null {
  if (event.type === "notice") return event.message;
  if (event.type === "retry") return `The engine tries again: ${event.trouble.message}`;
  if (event.type === "turn_ended" && event.result !== "completed")
    return event.trouble?.message ?? `The turn was ${event.result}.`;
  return null;
}
