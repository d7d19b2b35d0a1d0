/** JSON runbooks, read with positions. `JSON.parse` has no positions and takes the last of two equal keys. */
import { locator, MAX_DEPTH, numberOf, problem, type Scan, take, type TreeRead } from "./tree.ts";
import { type Table, Unreadable, type Value } from "./tree.ts";

const BLANK = /[ \t\r\n]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"[^"\\\n]*(?:\\.[^"\\\n]*)*"/y;
const WORD = /true|false|null/y;

export function readJson(text: string): TreeRead {
  const scan: Scan = { text, pos: 0, at: locator(text), problems: [] };
  try {
    const root = value(scan, 0);
    blank(scan);
    if (scan.pos < text.length) throw new Unreadable(scan.pos, "Nothing may follow the object.");
    if (root.kind === "table") return { root, problems: scan.problems };
    scan.problems.push(problem(root.at, 'A runbook is an object: {"agent": {…}}.'));
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    scan.problems.push(problem(scan.at(error.offset), error.message));
  }
  return { root: null, problems: scan.problems };
}

function value(scan: Scan, depth: number): Value {
  blank(scan);
  const start = scan.pos;
  const at = scan.at(start);
  if (depth > MAX_DEPTH) throw new Unreadable(start, `This is nested deeper than ${MAX_DEPTH} levels.`);
  const first = scan.text[start];
  if (first === "{") return table(scan, depth);
  if (first === "[") return list(scan, depth);
  if (first === '"') {
    const found = string(scan);
    return { kind: "text", value: found, at, verbatim: scan.pos - start === found.length + 2 };
  }
  const word = take(scan, WORD);
  if (word === "null") return { kind: "odd", what: "null", at };
  if (word !== null) return { kind: "flag", value: word === "true", at };
  const number = take(scan, NUMBER);
  if (number !== null) return numberOf(Number(number), at);
  throw new Unreadable(
    start,
    "Here a value is missing: a text in double quotes, a number, true, false, [ or {.",
  );
}

function table(scan: Scan, depth: number): Table {
  const made: Table = { kind: "table", entries: new Map(), at: scan.at(scan.pos) };
  scan.pos += 1;
  for (let first = true; !ends(scan, "}", first); first = false) {
    const at = scan.at(scan.pos);
    const key = string(scan);
    blank(scan);
    if (scan.text[scan.pos] !== ":") throw new Unreadable(scan.pos, 'Here ":" is missing.');
    scan.pos += 1;
    const entry = { at, value: value(scan, depth + 1) };
    const before = made.entries.get(key);
    if (before === undefined) made.entries.set(key, entry);
    else scan.problems.push(problem(at, `${key} is defined twice; first in line ${before.at.line}.`));
  }
  return made;
}

function list(scan: Scan, depth: number): Value {
  const made: Value = { kind: "list", items: [], at: scan.at(scan.pos) };
  scan.pos += 1;
  for (let first = true; !ends(scan, "]", first); first = false) made.items.push(value(scan, depth + 1));
  return made;
}

/** Skips the comma before the next element, or the closing bracket. */
function ends(scan: Scan, close: "}" | "]", first: boolean): boolean {
  blank(scan);
  if (scan.text[scan.pos] === close) {
    scan.pos += 1;
    return true;
  }
  if (first) return false;
  if (scan.text[scan.pos] !== ",") throw new Unreadable(scan.pos, `Here "," or "${close}" is missing.`);
  scan.pos += 1;
  blank(scan);
  if (scan.text[scan.pos] === close) throw new Unreadable(scan.pos, `JSON has no comma before "${close}".`);
  return false;
}

function string(scan: Scan): string {
  const start = scan.pos;
  const raw = take(scan, STRING);
  if (raw === null) throw new Unreadable(start, "Here a text in double quotes on one line is missing.");
  try {
    return String(JSON.parse(raw));
  } catch {
    throw new Unreadable(
      start,
      "The text contains a control character or an escape that JSON does not know.",
    );
  }
}

function blank(scan: Scan): void {
  take(scan, BLANK);
}
