/**
 * HCL runbooks: the blocks, attributes and literal values of HCL 2, read with positions.
 *
 * Evaluates nothing: the only allowed expressions are `var.NAME` and `${var.NAME}`, which stay text. Functions,
 * operators, other references and directives become problems at their position, and reading continues after them. Tests
 * compare this subset with HashiCorp's parser.
 */
import {
  type At,
  type NodeEntry,
  locator,
  MAX_DEPTH,
  numberOf,
  type Problem,
  problem,
  type TreeRead,
  type Scan,
  take,
} from "./tree.ts";
import { type Table, Unreadable, type Value } from "./tree.ts";
import { heredoc, quoted, VARIABLE } from "./hcl-text.ts";

const BLANK = /(?:[ \t]+|\/\*[^]*?\*\/)*/y;
/** Includes newlines, and comments that end with one. */
const WIDE_BLANK = /(?:[ \t\r\n]+|\/\*[^]*?\*\/|(?:#|\/\/)[^\n]*)*/y;
const LINE_END = /(?:(?:#|\/\/)[^\n]*)?(?:\r?\n|$)/y;
const NAME = /[\p{L}_][\p{L}\p{N}_-]*/uy;
const NUMBER = /(?:- *)?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const ASSIGN = /=(?!=)/y;
const WORD = /(?:true|false|null)(?![\p{L}\p{N}_.([-])/uy;
/** What may follow a value. Anything else makes it an expression. */
const AFTER_VALUE = /(?=[,}\]\r\n#]|\/\/|$)/y;

/** `blocks`: the tables and lists that were written as blocks; only those may have several parts. */
interface Bodies extends Scan {
  readonly blocks: Set<Value>;
}

export function readHcl(text: string): TreeRead {
  const problems: Problem[] = [];
  const scan: Bodies = { text, pos: 0, at: locator(text), problems, blocks: new Set() };
  try {
    const root = body(scan, 0, scan.at(0));
    if (scan.pos < text.length)
      throw new Unreadable(scan.pos, 'There is no block that this "}" could close.');
    return { root, problems };
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
    problems.push(problem(scan.at(error.offset), error.message));
    return { root: null, problems };
  }
}

/** Attributes and blocks up to the end of the text or the closing brace of this block. */
function body(scan: Bodies, depth: number, at: At): Table {
  const table: Table = { kind: "table", entries: new Map(), at };
  assertDepth(scan, depth);
  for (;;) {
    take(scan, WIDE_BLANK);
    if (scan.pos >= scan.text.length || scan.text[scan.pos] === "}") return table;
    item(scan, table, depth);
    take(scan, BLANK);
    if (take(scan, LINE_END) === null) {
      throw new Unreadable(scan.pos, "A line is missing here: each attribute and each block ends its line.");
    }
  }
}

function item(scan: Bodies, table: Table, depth: number): void {
  const at = scan.at(scan.pos);
  const name = take(scan, NAME);
  if (name === null) throw new Unreadable(scan.pos, "Here the name of an attribute or a block is missing.");
  take(scan, BLANK);
  if (take(scan, ASSIGN) !== null) define(scan, table, name, { at, value: valueAfterSign(scan, depth) });
  else block(scan, { table, name, at }, depth);
}

function define(scan: Scan, table: Table, name: string, entry: NodeEntry): void {
  const before = table.entries.get(name);
  if (before === undefined) table.entries.set(name, entry);
  else scan.problems.push(problem(entry.at, `${name} is defined twice; first in line ${before.at.line}.`));
}

/** `agent "worker" {` is the table `worker` in the table `agent`; a repeated block without labels is a list. */
function block(
  scan: Bodies,
  { table, name, at }: { table: Table; name: string; at: At },
  depth: number,
): void {
  const labels = labelsOf(scan);
  const opening = scan.pos;
  if (scan.text[opening] !== "{") {
    throw new Unreadable(opening, `Expected "=" and a value, or a block in braces, after ${name}.`);
  }
  scan.pos += 1;
  take(scan, BLANK);
  const inner = take(scan, LINE_END) === null ? oneLine(scan, at, depth + 1) : body(scan, depth + 1, at);
  if (scan.text[scan.pos] !== "}") throw new Unreadable(opening, "This block is not closed.");
  scan.pos += 1;
  place(scan, table, [{ name, at }, ...labels], inner);
}

function labelsOf(scan: Scan): { name: string; at: At }[] {
  const labels: { name: string; at: At }[] = [];
  for (;;) {
    const start = scan.pos;
    const at = scan.at(start);
    const label = scan.text[start] === '"' ? quoted(scan, at) : null;
    if (label?.kind === "text" && label.value.includes("${"))
      throw new Unreadable(start, "A block's name is plain text.");
    const name = label === null ? take(scan, NAME) : label.kind === "text" ? label.value : "";
    if (name === null) return labels;
    labels.push({ name, at });
    take(scan, BLANK);
  }
}

/** `{}` or `{ name = value }`; HCL allows no more on one line. */
function oneLine(scan: Scan, at: At, depth: number): Table {
  const table: Table = { kind: "table", entries: new Map(), at };
  if (scan.text[scan.pos] === "}") return table;
  const start = scan.at(scan.pos);
  const name = take(scan, NAME);
  take(scan, BLANK);
  if (name === null || take(scan, ASSIGN) === null) {
    throw new Unreadable(scan.pos, "A block on one line has one attribute: name = value.");
  }
  table.entries.set(name, { at: start, value: valueAfterSign(scan, depth) });
  take(scan, BLANK);
  if (scan.text[scan.pos] === "}") return table;
  throw new Unreadable(
    scan.pos,
    "A block on one line has only one attribute; put each attribute on a separate line.",
  );
}

function place(scan: Bodies, into: Table, path: readonly { name: string; at: At }[], inner: Table): void {
  let table = into;
  for (const [index, { name, at }] of path.entries()) {
    const before = table.entries.get(name);
    const last = index === path.length - 1;
    const ours = before !== undefined && scan.blocks.has(before.value) ? before.value : null;
    if (before === undefined) {
      const made: Table = last ? inner : { kind: "table", entries: new Map(), at };
      scan.blocks.add(made);
      table.entries.set(name, { at, value: made });
      table = made;
    } else if (last && path.length === 1 && ours?.kind === "table") {
      const both: Value = { kind: "list", items: [ours, inner], at: before.at };
      scan.blocks.add(both);
      table.entries.set(name, { at: before.at, value: both });
    } else if (last && path.length === 1 && ours?.kind === "list") ours.items.push(inner);
    else if (!last && ours?.kind === "table") table = ours;
    else {
      scan.problems.push(problem(at, `${name} is defined twice; first in line ${before.at.line}.`));
      return;
    }
  }
}

function valueAfterSign(scan: Scan, depth: number): Value {
  take(scan, BLANK);
  return value(scan, depth + 1);
}

/** One literal value. An expression becomes a problem, and reading continues after it. */
function value(scan: Scan, depth: number): Value {
  assertDepth(scan, depth);
  const start = scan.pos;
  const at = scan.at(start);
  const found = literal(scan, at, depth);
  // A heredoc ends with its line.
  if (found !== null && scan.text[scan.pos - 1] === "\n") {
    scan.pos -= 1;
    return found;
  }
  const end = scan.pos;
  take(scan, BLANK);
  if (found !== null && take(scan, AFTER_VALUE) !== null) {
    scan.pos = end;
    return found;
  }
  scan.pos = end;
  skipExpression(scan);
  if (scan.pos === start) throw new Unreadable(start, "Here a value is missing.");
  const why = "This is an expression. A runbook evaluates nothing; write plain values and ${var.NAME}.";
  scan.problems.push(problem(at, why));
  return { kind: "refused", at };
}

function literal(scan: Scan, at: At, depth: number): Value | null {
  const first = scan.text[scan.pos];
  if (first === '"') return quoted(scan, at);
  if (first === "[") return list(scan, at, depth);
  if (first === "{") return object(scan, at, depth);
  if (first === "<") return heredoc(scan, at);
  const word = take(scan, WORD);
  if (word !== null) {
    return word === "null" ? { kind: "odd", what: "null", at } : { kind: "flag", value: word === "true", at };
  }
  const number = take(scan, NUMBER);
  if (number !== null) return numberOf(Number(number.replaceAll(" ", "")), at);
  const variable = take(scan, VARIABLE);
  return variable === null ? null : { kind: "text", value: `\${${variable}}`, at, verbatim: false };
}

function list(scan: Scan, at: At, depth: number): Value {
  const made: Value = { kind: "list", items: [], at };
  const start = scan.pos;
  scan.pos += 1;
  for (;;) {
    take(scan, WIDE_BLANK);
    if (closes(scan, "]", start)) return made;
    made.items.push(value(scan, depth + 1));
    take(scan, WIDE_BLANK);
    if (scan.text[scan.pos] === ",") scan.pos += 1;
    else if (scan.text[scan.pos] !== "]") throw new Unreadable(scan.pos, 'Here "," or "]" is missing.');
  }
}

function object(scan: Scan, at: At, depth: number): Value {
  const made: Table = { kind: "table", entries: new Map(), at };
  const start = scan.pos;
  scan.pos += 1;
  for (;;) {
    take(scan, WIDE_BLANK);
    if (closes(scan, "}", start)) return made;
    const keyAt = scan.at(scan.pos);
    const key = objectKey(scan, keyAt);
    take(scan, BLANK);
    if (take(scan, ASSIGN) === null && scan.text[scan.pos] !== ":")
      throw new Unreadable(scan.pos, 'Here "=" is missing.');
    if (scan.text[scan.pos] === ":") scan.pos += 1;
    define(scan, made, key, { at: keyAt, value: valueAfterSign(scan, depth) });
    take(scan, BLANK);
    if (scan.text[scan.pos] === ",") scan.pos += 1;
    else if (take(scan, LINE_END) === null && scan.text[scan.pos] !== "}")
      throw new Unreadable(scan.pos, 'Here ",", a new line or "}" is missing.');
  }
}

function objectKey(scan: Scan, at: At): string {
  const start = scan.pos;
  const key = scan.text[start] === '"' ? quoted(scan, at) : take(scan, NAME);
  if (typeof key === "string") return key;
  if (key?.kind === "text" && !key.value.includes("${")) return key.value;
  throw new Unreadable(start, "A key is a name or a plain text in quotes.");
}

function closes(scan: Scan, bracket: string, start: number): boolean {
  if (scan.pos >= scan.text.length) throw new Unreadable(start, `"${bracket}" is missing for this bracket.`);
  if (scan.text[scan.pos] !== bracket) return false;
  scan.pos += 1;
  return true;
}

/** Up to where a value could end: a comma, a bracket that closes an outer one, the end of the line. */
function skipExpression(scan: Scan): void {
  let depth = 0;
  while (scan.pos < scan.text.length) {
    const char = scan.text[scan.pos] ?? "";
    if (char === '"') {
      skipString(scan);
      continue;
    }
    if (depth === 0 && (char === "," || char === "\n" || char === "]" || char === "}")) return;
    if (char === "(" || char === "[" || char === "{") depth += 1;
    else if (char === ")" || char === "]" || char === "}") depth -= 1;
    scan.pos += 1;
  }
}

function skipString(scan: Scan): void {
  const start = scan.pos;
  if (take(scan, /"[^"\\\n]*(?:\\.[^"\\\n]*)*"/y) === null)
    throw new Unreadable(start, "This text is not closed.");
}

function assertDepth(scan: Scan, depth: number): void {
  if (depth > MAX_DEPTH) throw new Unreadable(scan.pos, `This is nested deeper than ${MAX_DEPTH} levels.`);
}
