/**
 * The common form of every runbook format: values with positions. Readers make trees, `runbook.ts` checks them; neither
 * knows the other.
 */

/** Both count from 1; columns in UTF-16 units. */
export interface At {
  readonly line: number;
  readonly column: number;
}

export interface Problem extends At {
  readonly level: "error" | "warning";
  /** A whole sentence. May contain names from the file: untrusted text. */
  readonly reason: string;
}

export type Value = Text | NumberValue | Flag | List | Table | Odd | Refused;

export interface Text {
  readonly kind: "text";
  readonly value: string;
  readonly at: At;
  /** The file has exactly this text between one-character quotes on one line, so positions inside it are known. */
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

/** Entries in file order. A map, so that no key has a meaning for JavaScript. */
export interface Table {
  readonly kind: "table";
  readonly entries: Map<string, NodeEntry>;
  readonly at: At;
}

export interface NodeEntry {
  readonly at: At;
  readonly value: Value;
}

/** A value that no runbook key accepts: a date, nan, null, an integer beyond a double's precision. */
export interface Odd {
  readonly kind: "odd";
  readonly what: string;
  readonly at: At;
}

/** The reader has already reported the problem. */
interface Refused {
  readonly kind: "refused";
  readonly at: At;
}

/** The result of a reader. Root null: unreadable, and a problem says why. */
export interface TreeRead {
  readonly root: Table | null;
  readonly problems: readonly Problem[];
}

/** Deeper than any real runbook. */
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

/** Maps offsets in a text to positions. */
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

/** The position of a character inside a text, as exact as the file allows. */
export function within(text: Text, index: number): At {
  return text.verbatim ? { line: text.at.line, column: text.at.column + 1 + index } : text.at;
}

/** A text and the reading position. */
export interface Scan {
  readonly text: string;
  pos: number;
  readonly at: (offset: number) => At;
  readonly problems: Problem[];
}

/** The text that the sticky pattern matches here, which is then behind the position. Null: no match. */
export function take(scan: Scan, pattern: RegExp): string | null {
  pattern.lastIndex = scan.pos;
  const found = pattern.exec(scan.text)?.[0] ?? null;
  scan.pos += found?.length ?? 0;
  return found;
}
