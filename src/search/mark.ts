/** The best line of a section for a query, and the places of the query's words in it. Pure. */
import type { SearchTerm } from "./query.ts";
import { HIT_KINDS, type HitKind, type Section } from "./section.ts";
import { type FoundWord, isAscii, partsOf, wordsIn } from "./text.ts";

/** Begin and end of a hit in a line, as indices of a JavaScript string. */
export type HitRange = readonly [from: number, to: number];

export interface MarkedLine {
  readonly line: string;
  readonly kind: HitKind;
  /** In order, not overlapping. */
  readonly ranges: readonly HitRange[];
  /** How many of the query's terms this line has. */
  readonly terms: number;
}

/** The line with the most terms, the first of several. */
export function bestLine(
  { text, kinds }: Pick<Section, "text" | "kinds">,
  terms: readonly SearchTerm[],
): MarkedLine {
  let best: MarkedLine | null = null;
  for (const [at, line] of text.split("\n").entries()) {
    // Most lines have none of the words, which is seen sooner than what words they have.
    if (best !== null && mostTerms(line, terms) <= best.terms) continue;
    const found = markLine(line, terms);
    if (best !== null && found.terms <= best.terms) continue;
    best = { line, kind: kindAt(kinds, at), ...found };
    if (found.terms === terms.length) break;
  }
  return best ?? { line: "", kind: "notice", ranges: [], terms: 0 };
}

/** How many of the terms the line can have at most. */
function mostTerms(line: string, terms: readonly SearchTerm[]): number {
  if (!isAscii(line)) return terms.length;
  const folded = line.toLowerCase();
  return terms.filter(({ words }) => words.every((word) => folded.includes(word))).length;
}

function kindAt(kinds: string, at: number): HitKind {
  const letter = kinds.charAt(at);
  return letter in HIT_KINDS ? HIT_KINDS[letter as keyof typeof HIT_KINDS] : "notice";
}

export function markLine(
  line: string,
  terms: readonly SearchTerm[],
): { readonly ranges: readonly HitRange[]; readonly terms: number } {
  const words = wordsIn(line);
  const all = terms.map((term) => rangesOf(line, words, term));
  return { ranges: joined(all.flat()), terms: all.filter(({ length }) => length > 0).length };
}

function rangesOf(
  line: string,
  words: readonly FoundWord[],
  { words: wanted, prefix }: SearchTerm,
): HitRange[] {
  const found: HitRange[] = [];
  for (const [at, first] of words.entries()) {
    const last = words[at + wanted.length - 1];
    if (last === undefined) break;
    if (wanted.every((_, index) => isWanted(words[at + index]?.word ?? "", index)))
      found.push([first.from, endOf(line, last)]);
    else if (wanted.length === 1 && first.word.includes(wanted[0] ?? ""))
      for (const part of partsOf(line, first)) if (isWanted(part.word, 0)) found.push([part.from, part.to]);
  }
  return found;

  function isWanted(word: string, index: number): boolean {
    const want = wanted[index] ?? "";
    return word === want || (prefix && index === wanted.length - 1 && word.startsWith(want));
  }

  /** Of a beginning, only what was typed is a hit, unless folding changed the length. */
  function endOf(text: string, { word, from, to }: FoundWord): number {
    const typed = wanted.at(-1)?.length ?? 0;
    return prefix && word.length === to - from && text.length >= from + typed ? from + typed : to;
  }
}

function joined(ranges: readonly HitRange[]): readonly HitRange[] {
  const found: [number, number][] = [];
  for (const [from, to] of ranges.toSorted((one, other) => one[0] - other[0])) {
    const last = found.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, to]);
  }
  return found;
}

/** At most so many characters of a line, with its first hit. Cut text shows as `…`. */
export function excerpt(
  { line, ranges }: Pick<MarkedLine, "line" | "ranges">,
  characters: number,
): { readonly line: string; readonly ranges: readonly HitRange[] } {
  const whole = line.trimEnd();
  const indent = whole.length - whole.trimStart().length;
  const first = ranges[0] ?? [indent, indent];
  const room = Math.max(1, characters - 2);
  const fitsFromStart = first[1] - indent <= room;
  let from = fitsFromStart ? indent : Math.max(indent, first[0] - Math.floor(room / 3));
  let to = Math.min(whole.length, from + room);
  // Half a character would be harmful.
  if (isLow(whole, from)) from += 1;
  if (isLow(whole, to)) to -= 1;
  const before = from > indent ? "…" : "";
  const after = to < whole.length ? "…" : "";
  const shift = from - before.length;
  const kept = ranges
    .filter(([begin, end]) => end > from && begin < to)
    .map(([begin, end]) => [Math.max(begin, from) - shift, Math.min(end, to) - shift] as const);
  return { line: `${before}${whole.slice(from, to)}${after}`, ranges: kept };
}

function isLow(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff;
}
