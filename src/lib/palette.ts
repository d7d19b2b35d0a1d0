/**
 * The palette of the whole product: what a text means, and the terminal's code for it. Only colours of the terminal's own
 * palette and no backgrounds, so that everything is readable in light and dark themes. Pure.
 */

/** The meaning of a piece of text. `bar` is reversed: the selected row, a status bar. */
export type Style = "bold" | "dim" | "good" | "bad" | "warn" | "accent" | "engine" | "bar";

const CODES: Readonly<Record<Style, readonly [on: number, off: number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  bad: [31, 39],
  good: [32, 39],
  warn: [33, 39],
  engine: [35, 39],
  accent: [36, 39],
  bar: [7, 27],
};

export function codeOf(style: Style): number {
  return CODES[style][0];
}

/** Takes harmless text. */
export function inStyle(style: Style, text: string): string {
  const [on, off] = CODES[style];
  return `\x1b[${on}m${text}\x1b[${off}m`;
}

/** States of runs, agents, pipelines and decisions, by the words that commands print. */
const STATES: Readonly<Record<string, Style>> = {
  running: "accent",
  starting: "accent",
  working: "accent",
  active: "accent",
  completed: "good",
  done: "good",
  idle: "good",
  interrupted: "warn",
  cancelled: "warn",
  stopped: "warn",
  waiting: "warn",
  limited: "warn",
  "limit ended": "good",
  asks: "warn",
  failed: "bad",
  diverged: "bad",
  error: "bad",
  dead: "bad",
  unresponsive: "bad",
};

/** Undefined: an unknown state, shown without a style. */
export function styleOfState(state: string): Style | undefined {
  return Object.hasOwn(STATES, state) ? STATES[state] : undefined;
}
