/** Words as a shell reads them, for commands that people are told to type. Nothing here is ever given to a shell. */
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

/** What would not survive being shown, as bash, zsh and ksh read it: `$'two\nlines'`. */
function escaped(word: string): string {
  let text = "";
  for (const character of word) {
    const isPlain = harmlessLine(character) === character;
    text += SHORT[character] ?? (isPlain ? character : octal(character));
  }
  return `$'${text}'`;
}

/** Always three digits, so that a digit behind it stays one. */
function octal(character: string): string {
  const bytes = new TextEncoder().encode(character);
  return Array.from(bytes, (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
}
