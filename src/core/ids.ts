/** Run ids, handles and what the user may type for them. */
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

/** A handle, a prefix of 4 to 7 hex characters, or a full run id. Anything else is refused, never guessed. */
export function parseSelector(text: string): Selector {
  if (HANDLE.test(text)) return { by: "handle", handle: text };
  if (/^[0-9a-f]{4,7}$/.test(text)) return { by: "prefix", prefix: text };
  if (isRunId(text)) return { by: "runId", runId: text };
  throw new Fault("handle_invalid", `${JSON.stringify(text.slice(0, 80))} is not a handle: ${whyNot(text)}`, {
    facts: { given: text.slice(0, 80) },
  });
}

function whyNot(text: string): string {
  const hint = "Type `reprise list` to see the handles.";
  if (text === "") return `it is empty. ${hint}`;
  if (/^[0-9a-fA-F]+$/.test(text) && text !== text.toLowerCase()) return `handles are lower case. ${hint}`;
  if (/^[0-9a-f]{1,3}$/.test(text)) return `a prefix needs at least 4 characters. ${hint}`;
  if (/^[0-9a-f]{9,}$/.test(text)) return `a handle has 8 characters, this has ${text.length}. ${hint}`;
  return `a handle is 8 hexadecimal characters, such as 1a2b3c4d. ${hint}`;
}
