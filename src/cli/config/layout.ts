/**
 * The layout of a TOML file: where a key is, and the same text with one key changed. Comments, order and blanks stay as
 * they are.
 */
import type { AST } from "toml-eslint-parser";

export type KeyPath = readonly string[];

export interface FilePlace {
  readonly line: number;
  readonly column: number;
}

interface Entry {
  readonly path: KeyPath;
  readonly pair: AST.TOMLKeyValue;
}

interface Layout {
  readonly entries: readonly Entry[];
  readonly tables: readonly { readonly path: KeyPath; readonly node: AST.TOMLTable }[];
  /** Entries before the first table. */
  readonly top: readonly AST.TOMLKeyValue[];
}

/** The key, or the nearest table or key around it. A text that is no TOML begins at its first character. */
export async function placeOfKey(text: string, path: KeyPath): Promise<FilePlace> {
  const { entries, tables } = await layoutOf(text).catch((): Layout => ({
    entries: [],
    tables: [],
    top: [],
  }));
  for (let length = path.length; length > 0; length -= 1) {
    const part = path.slice(0, length);
    const node =
      entries.find((entry) => isSame(entry.path, part))?.pair ??
      tables.find((table) => isSame(table.path, part))?.node.key ??
      tables.find((table) => isSame(table.path.slice(0, length), part))?.node.key;
    if (node !== undefined) return { line: node.loc.start.line, column: node.loc.start.column + 1 };
  }
  return { line: 1, column: 1 };
}

/** The text with this key set to this TOML literal. */
export async function withKeySet(text: string, path: KeyPath, literal: string): Promise<string> {
  const { entries, tables, top } = await layoutOf(text);
  const found = entries.find((entry) => isSame(entry.path, path));
  if (found !== undefined) return replaced(text, found.pair.value.range, literal);
  const parent = path.slice(0, -1);
  const line = `${keyText(path.at(-1) ?? "")} = ${literal}`;
  const inline = entries.find((entry) => isSame(entry.path, parent))?.pair.value;
  if (inline?.type === "TOMLInlineTable") return intoInline(text, inline, line);
  if (parent.length === 0) return onTop(text, top, { line, first: tables[0]?.node });
  const table = tables.find((one) => isSame(one.path, parent))?.node;
  if (table !== undefined) return below(text, (table.body.at(-1) ?? table.key).loc.end.line, line);
  const gap = text === "" || text.endsWith("\n\n") ? "" : text.endsWith("\n") ? "\n" : "\n\n";
  return `${text}${gap}[${parent.map(keyText).join(".")}]\n${line}\n`;
}

/** A text in quotes, for any characters. */
export const quoted = (text: string): string =>
  // JSON's escapes are TOML's, and DEL is the one character that only TOML wants escaped.
  JSON.stringify(text).replaceAll("\u007F", "\\u007F");

/** `"a b".c` */
export const keyText = (key: string): string => (/^[\w-]+$/.test(key) ? key : quoted(key));

async function layoutOf(text: string): Promise<Layout> {
  const { parseTOML } = await import("toml-eslint-parser");
  const [root] = parseTOML(text, { tomlVersion: "1.0" }).body;
  const entries: Entry[] = [];
  const tables: { path: KeyPath; node: AST.TOMLTable }[] = [];
  const top: AST.TOMLKeyValue[] = [];
  for (const node of root.body) {
    if (node.type === "TOMLTable") {
      const path = keysOf(node.key);
      tables.push({ path, node });
      for (const pair of node.body) collect(pair, path, entries);
    } else {
      top.push(node);
      collect(node, [], entries);
    }
  }
  return { entries, tables, top };
}

function collect(pair: AST.TOMLKeyValue, above: KeyPath, entries: Entry[]): void {
  const path = [...above, ...keysOf(pair.key)];
  entries.push({ path, pair });
  if (pair.value.type === "TOMLInlineTable")
    for (const inner of pair.value.body) collect(inner, path, entries);
}

const keysOf = ({ keys }: AST.TOMLKey): KeyPath =>
  keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value));

const isSame = (one: KeyPath, other: KeyPath) =>
  one.length === other.length && one.every((part, at) => part === other[at]);

const replaced = (text: string, [from, to]: readonly [number, number], by: string) =>
  text.slice(0, from) + by + text.slice(to);

function intoInline(text: string, { body, range }: AST.TOMLInlineTable, line: string): string {
  const last = body.at(-1);
  if (last === undefined) return replaced(text, range, `{ ${line} }`);
  return replaced(text, [last.range[1], last.range[1]], `, ${line}`);
}

/** A key of no table must precede the first table, and the comment that belongs to it. */
function onTop(
  text: string,
  top: readonly AST.TOMLKeyValue[],
  { line, first }: { readonly line: string; readonly first: AST.TOMLTable | undefined },
): string {
  const last = top.at(-1);
  if (last !== undefined) return below(text, last.loc.end.line, line);
  if (first === undefined) return below(text, text.split("\n").length, line);
  const lines = text.split("\n");
  let at = first.loc.start.line - 1;
  while (at > 0 && (lines[at - 1] ?? "").startsWith("#")) at -= 1;
  return lines.toSpliced(at, 0, line, "").join("\n");
}

/** A new line after this one, counted from 1. */
function below(text: string, after: number, line: string): string {
  const lines = text.split("\n");
  const isLast = after >= lines.length;
  // An empty text, and a text that ends with a line break, have an empty last line.
  if (isLast && lines.at(-1) === "") return `${lines.slice(0, -1).concat(line).join("\n")}\n`;
  const end = (lines[after - 1] ?? "").endsWith("\r") ? "\r" : "";
  const more = lines.toSpliced(after, 0, `${line}${end}`).join("\n");
  return isLast ? `${more}\n` : more;
}
