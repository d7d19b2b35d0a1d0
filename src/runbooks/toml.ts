/** TOML runbooks, read with positions. The parser loads with the first file that needs it. */
import type { AST } from "toml-eslint-parser";
import {
  type At,
  type NodeEntry,
  MAX_DEPTH,
  numberOf,
  type Problem,
  problem,
  type TreeRead,
  type Table,
} from "./tree.ts";
import type { Value } from "./tree.ts";

export async function readToml(text: string): Promise<TreeRead> {
  const { parseTOML, ParseError } = await import("toml-eslint-parser");
  try {
    const [top] = parseTOML(text, { tomlVersion: "1.1" }).body;
    return { root: treeOf(top), problems: [] };
  } catch (error) {
    if (error instanceof ParseError) {
      const at = placeIn(text, error);
      return { root: null, problems: [problem(at, reasonOf(error.message))] };
    }
    if (error instanceof TooDeep) return { root: null, problems: [problem(error.at, TOO_DEEP)] };
    if (error instanceof RangeError) return { root: null, problems: [stackProblem(text)] };
    throw error;
  }
}

/** The parser reports a token that is missing at the end of a line at the beginning of the next one. */
function placeIn(text: string, error: { lineNumber: number; column: number; message: string }): At {
  const before = text.split("\n", error.lineNumber).at(-2)?.trimEnd();
  return error.column === 0 &&
    before !== undefined &&
    /^(Unspecified|Unterminated|Missing)/.test(error.message)
    ? { line: error.lineNumber - 1, column: before.length + 1 }
    : { line: error.lineNumber, column: error.column + 1 };
}

class TooDeep extends Error {
  readonly at: At;

  constructor(at: At) {
    super();
    this.at = at;
  }
}

function reasonOf(message: string): string {
  if (message === "Defining a key multiple times is invalid") return "This key or table is defined twice.";
  if (message === "Unspecified values are invalid") return "A value is missing.";
  return `${message}${message.endsWith(".") ? "" : "."}`;
}

const TOO_DEEP = `This is nested deeper than ${MAX_DEPTH} levels.`;
const TOO_LONG = "A text here is too long to be read. Put it into a file and name it in prompt_file.";

/**
 * For texts that overflow the parser's stack: it recurses once per level, and passes a text as one argument per
 * character. Counts brackets inside texts as levels, which is good enough for a position in a file that no parser
 * accepts.
 */
function stackProblem(text: string): Problem {
  let [depth, longest, widest] = [0, 1, 0];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.length > widest) [longest, widest] = [index + 1, line.length];
    for (const { 0: bracket, index: column } of line.matchAll(/[[\]{}]/g)) {
      depth += bracket === "[" || bracket === "{" ? 1 : -1;
      if (depth > MAX_DEPTH) return problem({ line: index + 1, column: column + 1 }, TOO_DEEP);
    }
  }
  return problem({ line: longest, column: 1 }, TOO_LONG);
}

function treeOf(top: AST.TOMLTopLevelTable): Table {
  const root: Table = { kind: "table", entries: new Map(), at: { line: 1, column: 1 } };
  for (const part of top.body) {
    if (part.type === "TOMLKeyValue") put(root, part, 0);
    else {
      const table = open(root, part);
      for (const pair of part.body) put(table, pair, 1);
    }
  }
  return root;
}

/** The table that a header opens; the parser has checked that it may. */
function open(root: Table, { key, kind, loc }: AST.TOMLTable): Table {
  let table = root;
  for (const [index, part] of key.keys.entries()) {
    if (index >= MAX_DEPTH) throw new TooDeep(placeOf(part));
    const last = index === key.keys.length - 1;
    if (last && kind === "array") {
      const item = emptyTable(placeOf({ loc }));
      const list = table.entries.get(nameOf(part))?.value;
      if (list?.kind === "list") list.items.push(item);
      else
        table.entries.set(nameOf(part), {
          at: placeOf(part),
          value: { ...listOf([item]), at: placeOf(part) },
        });
      return item;
    }
    table = inside(table, part);
  }
  return table;
}

/** The table under a key, created if missing; under a list of tables the last one. */
function inside(table: Table, part: AST.TOMLBare | AST.TOMLQuoted): Table {
  const found = table.entries.get(nameOf(part))?.value;
  const last = found?.kind === "list" ? found.items.at(-1) : found;
  if (last?.kind === "table") return last;
  const made = emptyTable(placeOf(part));
  table.entries.set(nameOf(part), { at: placeOf(part), value: made });
  return made;
}

function put(into: Table, pair: AST.TOMLKeyValue, depth: number): void {
  let table = into;
  for (const [index, part] of pair.key.keys.entries()) {
    if (depth + index > MAX_DEPTH) throw new TooDeep(placeOf(part));
    if (index < pair.key.keys.length - 1) table = inside(table, part);
    else table.entries.set(nameOf(part), entryOf(pair, part, depth + index));
  }
}

function entryOf(pair: AST.TOMLKeyValue, part: AST.TOMLBare | AST.TOMLQuoted, depth: number): NodeEntry {
  return { at: placeOf(part), value: valueOf(pair.value, depth + 1) };
}

function valueOf(node: AST.TOMLContentNode, depth: number): Value {
  const at = placeOf(node);
  if (depth > MAX_DEPTH) throw new TooDeep(at);
  if (node.type === "TOMLArray")
    return { ...listOf(node.elements.map((item) => valueOf(item, depth + 1))), at };
  if (node.type === "TOMLInlineTable") {
    const table = emptyTable(at);
    for (const pair of node.body) put(table, pair, depth);
    return table;
  }
  switch (node.kind) {
    case "string":
      return {
        kind: "text",
        value: node.value,
        at,
        verbatim: !node.multiline && node.range[1] - node.range[0] === node.value.length + 2,
      };
    case "boolean":
      return { kind: "flag", value: node.value, at };
    case "integer":
    case "float":
      return numberOf(node.value, at);
    case "offset-date-time":
    case "local-date-time":
    case "local-date":
    case "local-time":
      return { kind: "odd", what: "a date or time", at };
  }
}

function emptyTable(at: At): Table {
  return { kind: "table", entries: new Map(), at };
}

function listOf(items: Value[]): { kind: "list"; items: Value[] } {
  return { kind: "list", items };
}

function nameOf(part: AST.TOMLBare | AST.TOMLQuoted): string {
  return part.type === "TOMLBare" ? part.name : part.value;
}

function placeOf({ loc }: Pick<AST.TOMLNode, "loc">): At {
  return { line: loc.start.line, column: loc.start.column + 1 };
}
