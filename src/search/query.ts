/**
 * What the user searches for: words that must all occur, phrases in quotes, beginnings of words with a final `*`. Pure.
 * Nothing that the user types is syntax of the database: each term becomes a quoted string.
 */
import { wordsIn } from "./text.ts";

export interface SearchTerm {
  /** Folded words that follow each other: several for a phrase and for a name such as `cart.test.ts`. */
  readonly words: readonly string[];
  /** The last word is only the beginning of one. */
  readonly prefix: boolean;
}

/** More words only make a search slower. */
const MAX_TERMS = 32;
const MAX_QUERY = 1_000;

/** Empty: nothing in the text is a word. */
export function parseQuery(text: string): readonly SearchTerm[] {
  const terms: SearchTerm[] = [];
  for (const [, quoted, bare = ""] of text.slice(0, MAX_QUERY).matchAll(/"([^"]*)"\*?|([^\s"]+)/g)) {
    const words = wordsIn(quoted ?? bare).map(({ word }) => word);
    const prefix = quoted === undefined && bare.endsWith("*");
    if (words.length > 0) terms.push({ words, prefix });
  }
  return terms.slice(0, MAX_TERMS);
}

/** The terms as a query of FTS5. Words contain letters and digits only, so no character needs an escape. */
export function matchText(terms: readonly SearchTerm[]): string {
  return terms.map(({ words, prefix }) => `"${words.join(" ")}"${prefix ? " *" : ""}`).join(" AND ");
}
