/** Text as the search sees it: folded words, the parts of identifiers, and harmless lines. Pure. */
import { plain } from "../lib/harmless.ts";

export interface FoundWord {
  /** In lower case, without accents: as the database's tokenizer stores it. */
  readonly word: string;
  readonly from: number;
  readonly to: number;
}

/** The tokenizer of the database, `unicode61` with `remove_diacritics 2`: letters and digits with their marks. */
const WORD = /[\p{L}\p{N}\p{Co}][\p{L}\p{N}\p{Co}\p{M}]*/gu;

export function wordsIn(text: string): readonly FoundWord[] {
  return [...text.matchAll(WORD)].map(({ 0: found, index }) => ({
    word: folded(found),
    from: index,
    to: index + found.length,
  }));
}

function folded(word: string): string {
  const lower = word.toLowerCase();
  // Plain ASCII has nothing else to fold.
  return isAscii(lower) ? lower : lower.normalize("NFD").replace(/\p{M}+/gu, "");
}

export function isAscii(text: string): boolean {
  return /^[\t -~]*$/.test(text);
}

/** Where a new part of an identifier begins: `renameCart`, `HTTPServer`. */
const HUMP = /(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/;
const HUMPED = /\b(?=\w*[a-z0-9][A-Z]|\w*[A-Z]{2}[a-z])[A-Za-z]\w{2,63}\b/g;

/** The parts of the identifiers in a text: `rename Cart` for `renameCart`. */
export function identifierParts(text: string): string {
  const parts = new Set<string>();
  for (const [name] of text.matchAll(HUMPED)) for (const part of name.split(HUMP)) parts.add(part);
  return [...parts].join(" ");
}

/** The parts of one word, with their places. */
export function partsOf(text: string, { from, to }: FoundWord): readonly FoundWord[] {
  let at = from;
  return text
    .slice(from, to)
    .split(HUMP)
    .map((part) => {
      const begin = at;
      at += part.length;
      return { word: folded(part), from: begin, to: at };
    });
}

/** Without control sequences and invisible characters (I11). */
export function readable(text: string): string {
  return /^[\n\t -~]*$/.test(text) ? text : plain(text);
}
