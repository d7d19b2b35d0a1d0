/**
 * A message in the form that is typed into a UI: no part acts as a key, and one Enter sends all of it. Pure.
 *
 * ESC would end a bracketed paste or begin a key, and other control characters are keys themselves, so they are
 * removed.
 */

/** Enough for any message of a person or a runbook; longer text belongs in a file that the message names. */
export const MAX_MESSAGE_BYTES = 64 * 1024;

/** C0 except tab and line feed, DEL, and C1, which some terminals obey like their two-byte forms. */
const KEYS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;

export type Typeable = { readonly text: string } | { readonly refused: string };

/** The message in a form that may be typed, or the reason why it may not. */
export function typeable(message: string): Typeable {
  if (message.includes("\0")) return { refused: "the message contains a zero byte" };
  if (/\p{Cs}/u.test(message)) return { refused: "the message is not valid Unicode text" };
  const text = message.replace(/\r\n?/g, "\n").replace(KEYS, "").trim();
  if (text === "") return { refused: "the message is empty" };
  if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES) {
    return { refused: "the message is longer than 64 KiB; put it into a file and name the file" };
  }
  return { text };
}

/**
 * The keys for a message, without the Enter. Without bracketed paste a line break would send the text before it and a
 * tab would complete a word, so both become spaces.
 */
export function keysFor(text: string, bracketed: boolean): string {
  if (!bracketed) return text.replace(/[\n\t]+/g, " ");
  // Terminals paste a line break as the Return key.
  return `\x1b[200~${text.replaceAll("\n", "\r")}\x1b[201~`;
}
