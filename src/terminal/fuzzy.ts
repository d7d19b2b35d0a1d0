/**
 * Fuzzy search: every word of the query is found in the text, its letters in order. Pure, and fast over 10,000 texts: the
 * loops count, because the first key finds them not yet compiled, and there an iterator takes twice as long.
 */

/** Two letters in order stand in nearly every text, a folder's name included: a short word counts only in one piece. */
const SHORTEST_SCATTERED = 3;

/** How well one text fits, larger is better. Null: it does not. Both are lower case. */
function scoreOf(words: readonly string[], text: string): number | null {
  let score = 0;
  for (let at = 0; at < words.length; at += 1) {
    const own = scoreOfWord(words[at] ?? "", text);
    if (own === null) return null;
    score += own;
  }
  return score;
}

function wordsOf(query: string): readonly string[] {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

/** A whole word at the beginning of a word, then anywhere, then scattered letters: the fewer gaps the better. */
function scoreOfWord(word: string, text: string): number | null {
  const whole = text.indexOf(word);
  if (whole !== -1) return 1_000 + (startsWord(text, whole) ? 500 : 0) - Math.min(whole, 400);
  if (word.length < SHORTEST_SCATTERED) return null;
  let at = -1;
  let gaps = 0;
  let starts = 0;
  for (const letter of word) {
    const found = text.indexOf(letter, at + 1);
    if (found === -1) return null;
    if (at !== -1 && found > at + 1) gaps += found - at - 1;
    if (startsWord(text, found)) starts += 1;
    at = found;
  }
  return 500 + starts * 20 - Math.min(gaps * 4, 450);
}

function startsWord(text: string, at: number): boolean {
  if (at === 0) return true;
  const before = text.charAt(at - 1);
  // An expression for every text would take most of the time of a key.
  if (before < "\x80") return !((before >= "a" && before <= "z") || (before >= "0" && before <= "9"));
  return !/[\p{L}\p{N}]/u.test(before);
}

/** The rows that fit, the best first; equal ones keep their order. Their texts are lower case. */
export function ranked<Row extends { readonly text: string }>(
  query: string,
  rows: readonly Row[],
): readonly Row[] {
  const words = wordsOf(query);
  if (words.length === 0) return rows;
  // Many rows have the same score, so only the scores are sorted.
  const byScore = new Map<number, Row[]>();
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at];
    const score = row === undefined ? null : scoreOf(words, row.text);
    if (row === undefined || score === null) continue;
    const equal = byScore.get(score);
    if (equal === undefined) byScore.set(score, [row]);
    else equal.push(row);
  }
  const scores = [...byScore.keys()].toSorted((one, other) => other - one);
  return scores.flatMap((score) => byScore.get(score) ?? []);
}
