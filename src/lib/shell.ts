/** Quotes words for a shell, in commands that Reprise tells people to type. Reprise itself uses no shell. */
import { harmlessLine } from "./harmless.ts";

export function shellWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return harmlessLine(word) === word ? `'${word.replaceAll("'", "'\\''")}'` : escaped(word);
}

export function shellLine(words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}

const SHORT: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\t": "\\t",
  "\r": "\\r",
  "'": "\\'",
  "\\": "\\\\",
};

/** Characters that cannot be displayed, escaped for bash, zsh and ksh: `$'two\nlines'`. */
function escaped(word: string): string {
  let text = "";
  for (const character of word) {
    const isPlain = harmlessLine(character) === character;
    text += SHORT[character] ?? (isPlain ? character : octal(character));
  }
  return `$'${text}'`;
}

/** Always three digits, so that a following digit stays separate. */
function octal(character: string): string {
  const bytes = new TextEncoder().encode(character);
  return Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}
