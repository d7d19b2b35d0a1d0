/**
 * A promise of the product that is put to the test: how often it was tried, and every time that it was broken. Each part
 * of the harness exports its promises; `run.ts` runs them and prints one line for each.
 */

export interface Scale {
  /** The selection that fits into every build. Otherwise: the figures that `docs/reliability.md` gives. */
  readonly short: boolean;
  /** Makes a run repeatable; printed when something was broken. */
  readonly seed: number;
  /** The current activity, for the person who waits. */
  readonly progress: (text: string) => void;
}

export interface Verdict {
  readonly tried: number;
  /** One sentence for each time, with everything needed to see it again. */
  readonly broken: readonly string[];
  /** What could not be tried on this machine, and why. */
  readonly untried: readonly string[];
  /** Figures worth keeping, such as `{ "kills that hit the agent": 812 }`. */
  readonly figures: Readonly<Record<string, number>>;
}

export interface Promised {
  /** `P1`, `P2` … in the order of `run.ts`. */
  readonly id: string;
  /** The unit of the count, such as "acknowledged records". */
  readonly what: string;
  /** What would be wrong with one, such as "lost". */
  readonly wrong: string;
  /** One line for `--list` and the document. */
  readonly means: string;
  readonly check: (scale: Scale) => Promise<Verdict>;
}

/** What `--report` writes of each. */
export interface Result extends Omit<Promised, "check">, Verdict {
  readonly short: boolean;
  readonly node: string;
  readonly seconds: number;
}
