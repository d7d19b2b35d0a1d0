/** A recording without its secrets, in bounded memory. Cuts text only where a cut is unlikely to split a secret. */
import type { Redact } from "../lib/secrets.ts";

/** A longer line or private key is cut anyway. */
const MAX_HELD = 4 * 1024 * 1024;

/** The end of such a line is the name of the value that begins the next one. */
const GOES_ON =
  /(?:[:=]|(?:^|\s)-{1,2}[\w.-]{1,80}|\b(?:bearer|basic|token|digest|negotiate|apikey))["']?\s*$/i;

export async function* redactedText(parts: AsyncIterable<string>, redact: Redact): AsyncGenerator<string> {
  let held = "";
  for await (const part of parts) {
    held += part;
    const end = held.length > MAX_HELD ? held.length : part.includes("\n") ? safeEnd(held) : 0;
    if (end > 0) yield redact(held.slice(0, end));
    held = held.slice(end);
  }
  if (held !== "") yield redact(held);
}

/** The warning about an agent's secrets that are no longer known. */
export function unknownText(names: readonly string[]): string {
  const [are, them] = names.length === 1 ? ["is", "it"] : ["are", "them"];
  return (
    `${names.join(", ")}, which ${are} not set here or ${names.length === 1 ? "has" : "have"} another value, so a secret in the logs would not be recognized. ` +
    `Set ${them} to what ${names.length === 1 ? "it was" : "they were"}, or to nothing to go on without ${them}.`
  );
}

/** The warning about an attempt without a record. */
export const UNRECORDED =
  "Its record cannot be read, so nobody knows which secrets it had. `reprise logs --plain` shows it to you alone.";

/** After the last line that is complete in every respect. */
function safeEnd(text: string): number {
  let end = text.lastIndexOf("\n") + 1;
  const key = text.lastIndexOf("-----BEGIN ", end);
  const isOpen = key !== -1 && key < end && !text.slice(key, end).includes("-----END ");
  if (isOpen && text.slice(key, key + 64).includes("PRIVATE KEY")) end = text.lastIndexOf("\n", key) + 1;
  while (end > 0) {
    const before = end < 2 ? 0 : text.lastIndexOf("\n", end - 2) + 1;
    const line = text.slice(Math.max(before, end - 200), end);
    if (line.trim() !== "" && !GOES_ON.test(line)) return end;
    end = before;
  }
  return 0;
}
