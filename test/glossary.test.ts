/**
 * One term per concept and one name per type: the glossary lists the exported types of the vocabulary, no two files export
 * a type with the same name, and no retired name comes back.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const GLOSSARY = readFileSync("docs/glossary.md", "utf8");
const [, TABLE = ""] = GLOSSARY.split("\n## Types in the code\n");

/** Names that were metaphors, or had several meanings. */
const RETIRED = new Set([
  "Again",
  "Asked",
  "Book",
  "Desk",
  "Errand",
  "Family",
  "Going",
  "Hand",
  "Heard",
  "Ladder",
  "News",
  "Offer",
  "Pulse",
  "RunHold",
  "Rung",
  "Said",
  "Sight",
  "Told",
  "Wish",
  "Work",
  "Workshop",
]);

const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes("fixtures/"),
);

interface ExportedTypes {
  readonly declared: readonly string[];
  /** Including types that the file only passes on. */
  readonly all: readonly string[];
}

function exportedTypes(source: string): ExportedTypes {
  const declared = [
    ...source.matchAll(/^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm),
  ].map(([, name = ""]) => name);
  const passedOn = [...source.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type, list = ""]) =>
    list
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "" && (type !== undefined || item.startsWith("type ")))
      .map((item) => item.replace(/^type /, "").replace(/^.* as /, "")),
  );
  return { declared, all: [...declared, ...passedOn] };
}

const exported = new Map(
  files.map((file) => [file, exportedTypes(readFileSync(join("src", file), "utf8"))] as const),
);
const rows = [...TABLE.matchAll(/^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$/gm)].map(
  ([, type = "", term = "", meaning = ""]) => ({ type, term: term.trim(), meaning: meaning.trim() }),
);

test("the glossary lists every exported type of the vocabulary once", () => {
  const names = [...exported]
    .filter(([file]) => file.startsWith("core/") || ["store/contract.ts", "engines/engine.ts"].includes(file))
    .flatMap(([, { all }]) => all);
  const vocabulary = [...new Set(names)];
  expect(vocabulary.length).toBeGreaterThan(90);
  expect(rows.map(({ type }) => type).toSorted()).toEqual(vocabulary.toSorted());
});

test("each type of the table belongs to a term of the glossary", () => {
  const terms = new Set([...GLOSSARY.matchAll(/\*\*([^*]+)\*\*/g)].map(([, term]) => term));
  expect(rows.filter(({ term, meaning }) => !terms.has(term) || meaning === "")).toEqual([]);
});

/** Separate programs, with their own vocabulary. */
const SEPARATE = /^(?:certify|demo)\//;

test("no two files export a type with the same name", () => {
  const places = new Map<string, string[]>();
  for (const [file, { declared }] of exported) {
    if (SEPARATE.test(file)) continue;
    for (const name of declared) places.set(name, [...(places.get(name) ?? []), file]);
  }
  expect([...places].filter(([, where]) => where.length > 1)).toEqual([]);
});

test("no exported type has a retired name", () => {
  const found = [...exported].flatMap(([file, { all }]) =>
    all.filter((name) => RETIRED.has(name)).map((name) => `${file}: ${name}`),
  );
  expect(found).toEqual([]);
});

test.each([
  ["an interface", "export interface A {}", ["A"]],
  ["a type and a class", "export type A = 1;\nexport class B {}", ["A", "B"]],
  ["a list", 'export type { A, B as C } from "./a.ts";', ["A", "C"]],
  ["a list with values", 'export { a, type A } from "./a.ts";', ["A"]],
])("exported types are found in %s", (_, source, names) => {
  expect(exportedTypes(source).all).toEqual(names);
});
