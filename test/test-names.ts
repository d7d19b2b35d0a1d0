/**
 * Every test name in the source of a test: titles of `test` and `describe`, and first columns of the tables that fill their
 * `%s`. A table counts if it stands in the call or in a constant of the same file.
 */
import { parseSync } from "oxc-parser";
import { isNode, nameOf, type Node, nodesIn } from "./hostile/expressions.ts";

interface TestName {
  readonly start: number;
  readonly text: string;
}

/** By name, all of them: a file may use a name in several blocks. */
type Constants = ReadonlyMap<string | null, readonly unknown[]>;

export function testNamesOf(file: string, source: string): readonly TestName[] {
  const nodes = nodesIn(parseSync(file, source).program);
  const constants = new Map<string | null, readonly unknown[]>();
  for (const node of nodes) {
    if (node.type !== "VariableDeclarator") continue;
    const name = nameOf(node["id"]);
    constants.set(name, [...(constants.get(name) ?? []), node["init"]]);
  }
  const names = nodes.flatMap((node) => {
    const [title] = argumentsOf(node);
    if (!["describe", "it", "test"].includes(rootOf(node["callee"]) ?? "") || textOf(title) === null)
      return [];
    const table = textOf(title)?.includes("%s") === true ? argumentsOf(node["callee"])[0] : null;
    return [title, ...firstColumn(table, constants)];
  });
  return [...new Set(names)].flatMap((node) => {
    const text = textOf(node);
    return text === null || !isNode(node) ? [] : [{ start: node.start, text }];
  });
}

/** The name at the beginning of `test`, `test.each(table)`, `test.skipIf(condition).each(table)`. */
function rootOf(callee: unknown): string | null {
  if (!isNode(callee)) return null;
  if (callee.type === "MemberExpression") return rootOf(callee["object"]);
  return callee.type === "CallExpression" ? rootOf(callee["callee"]) : nameOf(callee);
}

function argumentsOf(node: unknown): readonly unknown[] {
  return isNode(node) && node.type === "CallExpression" ? (node["arguments"] as unknown[]) : [];
}

/** Rows, the first cells of rows, and for `Object.entries(table)` the keys. */
function firstColumn(table: unknown, constants: Constants): readonly unknown[] {
  if (!isNode(table)) return [];
  switch (table.type) {
    case "Identifier":
      return (constants.get(nameOf(table)) ?? []).flatMap((value) => firstColumn(value, constants));
    case "TSAsExpression":
    case "TSSatisfiesExpression":
      return firstColumn(table["expression"], constants);
    case "CallExpression":
      return argumentsOf(table).flatMap((given) => firstColumn(given, constants));
    case "ArrayExpression":
      return (table["elements"] as unknown[]).map((row) =>
        isNode(row) && row.type === "ArrayExpression" ? (row["elements"] as unknown[])[0] : row,
      );
    case "ObjectExpression":
      return (table["properties"] as Node[]).map(({ key }) => key);
    default:
      return [];
  }
}

function textOf(node: unknown): string | null {
  if (!isNode(node)) return null;
  if (node.type === "Literal") return typeof node["value"] === "string" ? node["value"] : null;
  if (node.type !== "TemplateLiteral") return null;
  return (node["quasis"] as { value: { raw: string } }[]).map(({ value }) => value.raw).join("…");
}
