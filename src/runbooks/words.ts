/** Splits a command line into words as a shell does, and refuses everything that needs a real shell. */

export type Words =
  | { readonly words: readonly string[] }
  /** `at`: index of the offending character. */
  | { readonly at: number; readonly why: string };

/** A template is ours, not the shell's: it stays whole everywhere. */
const TEMPLATE = /\$?\$\{[^}]*\}/y;
const SHELL = /[|;&()<>*`$]/;

/** Blanks separate words; `'…'` and `"…"` keep a word together, a backslash takes the next character literally. */
export function splitWords(line: string): Words {
  const words: string[] = [];
  let word: string | null = null;
  let quote: { readonly sign: string; readonly at: number } | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at] ?? "";
    TEMPLATE.lastIndex = at;
    const template = char === "$" ? TEMPLATE.exec(line)?.[0] : undefined;
    if (template !== undefined) {
      word = (word ?? "") + template;
      at += template.length - 1;
    } else if (quote !== null && char === quote.sign) quote = null;
    else if (quote?.sign === "'") word = (word ?? "") + char;
    else if (char === "\\") {
      at += 1;
      const next = line[at];
      if (next === undefined) return { at: at - 1, why: "ends with a backslash" };
      word = (word ?? "") + (quote === null || '"\\$`'.includes(next) ? next : `\\${next}`);
    } else if (quote !== null) {
      if (char === "`" || (char === "$" && /[\w(]/.test(line[at + 1] ?? "")))
        return { at, why: needsShell(char) };
      word = (word ?? "") + char;
    } else if (char === "'" || char === '"') {
      quote = { sign: char, at };
      word ??= "";
    } else if (/\s/.test(char)) {
      if (word !== null) words.push(word);
      word = null;
    } else if (SHELL.test(char) || (char === "~" && word === null)) return { at, why: needsShell(char) };
    else word = (word ?? "") + char;
  }
  if (quote !== null) return { at: quote.at, why: `has no second ${quote.sign}` };
  return { words: word === null ? words : [...words, word] };
}

function needsShell(char: string): string {
  return `contains ${char}, which needs a shell, and Reprise uses none. Put the word in single quotes to pass it on unchanged`;
}
