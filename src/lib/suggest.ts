/** "Did you mean …": the nearest of several words. */

/**
 * The nearest candidate within two typing mistakes (one in a short word), or one per three letters. Null: no candidate
 * is that near.
 */
export function nearest(word: string, candidates: readonly string[]): string | null {
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    const longest = Math.max(word.length, candidate.length);
    // A word that differs entirely or mostly is not a typing mistake.
    const short = Math.min(word.length, candidate.length) <= 3;
    const limit = Math.min(short ? 1 : Math.max(2, Math.floor(longest / 3)), longest - 1);
    if (longest > 100 || Math.abs(word.length - candidate.length) > limit) continue;
    const mistakes = distance(word.toLowerCase(), candidate.toLowerCase());
    if (mistakes <= limit && mistakes < least) {
      best = candidate;
      least = mistakes;
    }
  }
  return best;
}

/** Letters added, omitted, changed, or swapped with a neighbour (optimal string alignment). */
function distance(one: string, other: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1];
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row.push(
        Math.min(
          (last[j] ?? 0) + 1,
          (row[j - 1] ?? 0) + 1,
          (last[j - 1] ?? 0) + (same ? 0 : 1),
          swapped ? (beforeLast[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      );
    }
    beforeLast = last;
    last = row;
  }
  return last[other.length] ?? 0;
}
