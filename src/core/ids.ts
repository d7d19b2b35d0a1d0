/** Run ids, handles, and the selectors that users may type for them. */
import { Fault } from "./faults.ts";

const RUN_ID = /^(\d{8}T\d{6}Z)-([a-z0-9][a-z0-9_-]{0,31})-([0-9a-f]{8})$/;

export const HANDLE = /^[0-9a-f]{8}$/;

export function makeRunId(startedAtMs: number, engine: string, handle: string): string {
  const stamp = new Date(startedAtMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
  return `${stamp}-${engine}-${handle}`;
}

export function isRunId(text: string): boolean {
  return RUN_ID.test(text);
}

export type Selector =
  | { readonly by: "handle"; readonly handle: string }
  | { readonly by: "prefix"; readonly prefix: string }
  | { readonly by: "runId"; readonly runId: string };

/** The noun for the selected thing, and the command that lists them. */
export interface SelectorWords {
  readonly a: string;
  readonly list: string;
}

const HANDLES: SelectorWords = { a: "a handle", list: "reprise list" };

/** A handle, a prefix of 4 to 7 hex characters, or a full run id. Reprise refuses anything else and never guesses. */
export function parseSelector(text: string, { a, list }: SelectorWords = HANDLES): Selector {
  const selector = readSelector(text);
  if (selector !== null) return selector;
  const shown = JSON.stringify(text.slice(0, 80));
  throw new Fault(
    "handle_invalid",
    `${shown} is not ${a}: ${whyNot(text)}. Type \`${list}\` to see all of them.`,
    { facts: { given: text.slice(0, 80) } },
  );
}

/** Null: not a selector. Capital letters count: people copy handles from places that capitalize them. */
export function readSelector(text: string): Selector | null {
  const lower = text.toLowerCase();
  if (HANDLE.test(lower)) return { by: "handle", handle: lower };
  if (/^[0-9a-f]{4,7}$/.test(lower)) return { by: "prefix", prefix: lower };
  return isRunId(text) ? { by: "runId", runId: text } : null;
}

export function isSelected(selector: Selector, handle: string, runId: string | null): boolean {
  if (selector.by === "runId") return selector.runId === runId;
  return handle.startsWith(selector.by === "handle" ? selector.handle : selector.prefix);
}

function whyNot(text: string): string {
  if (text === "") return "it is empty";
  if (/^[0-9a-f]{1,3}$/i.test(text)) return "a prefix needs at least 4 characters";
  if (/^[0-9a-f]{9,}$/i.test(text)) return `a handle has 8 characters, this has ${text.length}`;
  return "a handle is 8 hexadecimal characters, such as 1a2b3c4d";
}
