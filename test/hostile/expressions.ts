/**
 * Every regular expression of the product, from its parsed source: literals, and what `new RegExp` is given. A part that
 * only a run knows counts as the word `x`.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseSync } from "oxc-parser";

export interface Expression {
  /** `src/lib/json.ts:12`. */
  readonly place: string;
  readonly source: string;
  readonly flags: string;
}

export function expressionsIn(root: string): Expression[] {
  return readdirSync(root, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
    .toSorted()
    .flatMap((name) => expressionsOf(join(root, name)));
}

export interface Node {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

interface Source {
  readonly constants: ReadonlyMap<string, Node>;
  /** Parameter name → what callers in the same file pass. Names that mean several things have all of them. */
  readonly passed: ReadonlyMap<string, readonly Node[]>;
}

function expressionsOf(file: string): Expression[] {
  const text = readFileSync(file, "utf8");
  const nodes = nodesIn(parseSync(file, text).program);
  const source = sourceOf(nodes);
  const place = ({ start }: Node) => `${file}:${text.slice(0, start).split("\n").length}`;
  const literals = nodes.flatMap((node) =>
    isRegex(node) ? [{ place: place(node), source: node.regex.pattern, flags: node.regex.flags }] : [],
  );
  const built = nodes.flatMap((node) => {
    if (!/^(New|Call)Expression$/.test(node.type) || nameOf(node["callee"]) !== "RegExp") return [];
    const [pattern, flags] = node["arguments"] as Node[];
    const [flag = ""] = flags === undefined ? [] : valuesOf(flags, source);
    return valuesOf(pattern, source).map((one) => ({ place: place(node), source: one, flags: flag }));
  });
  return [...literals, ...built];
}

function sourceOf(nodes: readonly Node[]): Source {
  const calls = nodes.filter(({ type }) => type === "CallExpression");
  const constants = new Map<string, Node>();
  const passed = new Map<string, Node[]>();
  for (const node of nodes) {
    const name = nameOf(node["id"]);
    if (name === null) continue;
    if (node.type === "VariableDeclarator" && isNode(node["init"])) constants.set(name, node["init"]);
    if (node.type !== "FunctionDeclaration") continue;
    const given = calls.filter(({ callee }) => nameOf(callee) === name).map((call) => call["arguments"]);
    for (const [at, parameter] of (node["params"] as Node[]).entries()) {
      const key = nameOf(parameter);
      const values = given.flatMap((list) => (list as Node[])[at] ?? []);
      if (key !== null) passed.set(key, [...(passed.get(key) ?? []), ...values]);
    }
  }
  return { constants, passed };
}

/** Every text that an expression of the source can be, as far as the file itself says. */
function valuesOf(node: unknown, source: Source, depth = 0): string[] {
  if (!isNode(node) || depth > 8) return ["x"];
  if (isRegex(node)) return [node.regex.pattern];
  const inner = (one: unknown) => valuesOf(one, source, depth + 1);
  switch (node.type) {
    case "Literal":
      return [String(node["value"])];
    case "TemplateLiteral":
      return joined(node, "cooked", inner);
    case "TaggedTemplateExpression":
      return joined(node["quasi"] as Node, "raw", inner);
    case "BinaryExpression":
      return pairs(inner(node["left"]), inner(node["right"]));
    case "MemberExpression":
      return nameOf(node["property"]) === "source" ? inner(node["object"]) : ["x"];
    case "Identifier": {
      const name = nameOf(node) ?? "";
      const known = source.constants.get(name);
      const values = known === undefined ? (source.passed.get(name) ?? []) : [known];
      return values.length === 0 ? ["x"] : values.flatMap(inner);
    }
    default:
      return ["x"];
  }
}

function joined(template: Node, how: "cooked" | "raw", inner: (node: unknown) => string[]): string[] {
  const parts = (template["quasis"] as Node[]).map(
    ({ value }) => (value as Record<"cooked" | "raw", string>)[how],
  );
  const values = (template["expressions"] as Node[]).map(inner);
  return parts.reduce<string[]>(
    (all, part, at) => pairs(at === 0 ? [""] : pairs(all, values[at - 1] ?? [""]), [part]),
    [],
  );
}

function pairs(before: readonly string[], after: readonly string[]): string[] {
  return before.flatMap((one) => after.map((other) => one + other));
}

/** The node and everything below it, in the order of the source. */
export function nodesIn(value: unknown, nodes: Node[] = []): Node[] {
  if (Array.isArray(value)) for (const one of value) nodesIn(one, nodes);
  else if (isNode(value)) {
    nodes.push(value);
    for (const child of Object.values(value)) if (typeof child === "object") nodesIn(child, nodes);
  }
  return nodes;
}

export function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

function isRegex(node: Node): node is Node & { regex: { pattern: string; flags: string } } {
  return node.type === "Literal" && typeof node["regex"] === "object" && node["regex"] !== null;
}

export function nameOf(value: unknown): string | null {
  return isNode(value) && value.type === "Identifier" ? (value["name"] as string) : null;
}
