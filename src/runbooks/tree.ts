/**
 * What every runbook format is read into: values that know where they stand. Readers make trees, `runbook.ts` checks
 * them; neither knows the other.
 */

/** Both count from 1; the column in UTF-16 units. */
export interface At {
  readonly line: number;
  readonly column: number;
}

export interface Problem extends At {
  readonly level: "error" | "warning";
  /** A whole sentence. Names from the file may stand in it: untrusted text. */
  readonly reason: string;
}

export type Value = Text | NumberValue | Flag | List | Table | Odd | Refused;

export interface Text {
  readonly kind: "text";
  readonly value: string;
  readonly at: At;
  /** The file has this very text between one-character quotes on one line, so that places in it can be named. */
  readonly verbatim: boolean;
}

interface NumberValue {
  readonly kind: "number";
  readonly value: number;
  readonly at: At;
}

interface Flag {
  readonly kind: "flag";
  readonly value: boolean;
  readonly at: At;
}

export interface List {
  readonly kind: "list";
  readonly items: Value[];
  readonly at: At;
}

/** Entries in the order of the file. A map, so that no key can mean anything to JavaScript. */
export interface Table {
  readonly kind: "table";
  readonly entries: Map<string, Entry>;
  readonly at: At;
}

export interface Entry {
  readonly at: At;
  readonly value: Value;
}

/** A value that no key of a runbook takes: a date, nan, null, an integer that a double cannot hold. */
export interface Odd {
  readonly kind: "odd";
  readonly what: string;
  readonly at: At;
}

/** The reader has already said what is wrong with it. */
interface Refused {
  readonly kind: "refused";
  readonly at: At;
}

/** What a reader made of a text. Root null: nothing could be made of it, and a problem says why. */
export interface Read {
  readonly root: Table | null;
  readonly problems: readonly Problem[];
}

/** Nobody nests a runbook deeper. */
export const MAX_DEPTH = 32;

/** Ends the reading of a text; caught by the reader that threw it. */
export class Unreadable extends Error {
  readonly offset: number;

  constructor(offset: number, reason: string) {
    super(reason);
    this.offset = offset;
  }
}

export function problem(at: At, reason: string, level: Problem["level"] = "error"): Problem {
  return { level, line: at.line, column: at.column, reason };
}

/** Where the characters of a text stand. */
export function locator(text: string): (offset: number) => At {
  const starts = [0];
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
}

export function numberOf(value: number, at: At): Value {
  if (!Number.isFinite(value)) return { kind: "odd", what: "nan or infinity", at };
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return { kind: "odd", what: "a number beyond 2^53", at };
  return { kind: "number", value, at };
}

/** The place of a character inside a text, as near as the file tells it. */
export function within(text: Text, index: number): At {
  return text.verbatim ? { line: text.at.line, column: text.at.column + 1 + index } : text.at;
}
