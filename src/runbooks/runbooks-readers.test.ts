/**
 * The three readers: the same tree from each, no exception for any text, and HCL compared with HashiCorp's parser.
 */
import { parse as parseHcl } from "@cdktf/hcl2json";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readHcl } from "./hcl.ts";
import { readJson } from "./json.ts";
import { checkRunbook } from "./runbook.ts";
import { readToml } from "./toml.ts";
import type { TreeRead, Table, Value } from "./tree.ts";

/** The bare values. A name with a meaning for JavaScript stays a name. */
function plain(value: Value): unknown {
  switch (value.kind) {
    case "text":
    case "number":
    case "flag":
      return value.value;
    case "list":
      return value.items.map(plain);
    case "table":
      return Object.fromEntries([...value.entries].map(([key, entry]) => [key, plain(entry.value)]));
    case "odd":
      return value.what === "null" ? null : { odd: value.what };
    case "refused":
      return { refused: true };
  }
}

const root = ({ root: found, problems }: TreeRead): Table => {
  expect(problems).toEqual([]);
  if (found === null) throw new Error("nothing was read");
  return found;
};

const said = ({ problems }: TreeRead) =>
  problems.map(({ line, column, reason }) => `${line}:${column} ${reason}`);

describe("JSON", () => {
  test("is read as JSON.parse reads it", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), fc.nat(4), (object, indent) => {
        const text = JSON.stringify(object, null, indent);
        const sane = JSON.parse(text, (_key, value: unknown) =>
          typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) ? 0 : value,
        ) as object;
        expect(plain(root(readJson(JSON.stringify(sane, null, indent))))).toEqual(sane);
      }),
    );
  });

  test.each([
    ['{"a":1}x', "1:8 Nothing may follow the object."],
    ["[1]", '1:1 A runbook is an object: {"agent": {…}}.'],
    ['{"a" 1}', '1:6 Here ":" is missing.'],
    ['{"a":1 "b":2}', '1:8 Here "," or "}" is missing.'],
    ["{'a':1}", "1:2 Here a text in double quotes on one line is missing."],
    ['{"a":"\\x"}', "1:6 The text contains a control character or an escape that JSON does not know."],
    ['{"a":01}', '1:7 Here "," or "}" is missing.'],
    ['{"a":', "1:6 Here a value is missing: a text in double quotes, a number, true, false, [ or {."],
    [
      '{\n "a": nul }',
      "2:7 Here a value is missing: a text in double quotes, a number, true, false, [ or {.",
    ],
  ])("%s", (text, problem) => {
    expect(said(readJson(text))).toEqual([problem]);
  });

  test("reads a text of a megabyte as one text", () => {
    expect(plain(root(readJson(`{"a":"${"x".repeat(1_000_000)}"}`)))).toEqual({ a: "x".repeat(1_000_000) });
  });
});

describe("TOML", () => {
  test("reads tables, lists of tables and dotted keys, in the order of the file", async () => {
    const text = `b.c = 1\n[z.y]\nx = "é"\n[[z.l]]\nn = 1\n[[z.l]]\nn = 2\n[z.l.sub]\nk = true\n[a]\n`;
    const tree = root(await readToml(text));
    expect(plain(tree)).toEqual({
      b: { c: 1 },
      z: { y: { x: "é" }, l: [{ n: 1 }, { n: 2, sub: { k: true } }] },
      a: {},
    });
    expect([...tree.entries.keys()]).toEqual(["b", "z", "a"]);
  });

  test.each([
    ["a = 1\na = 2", "2:1 This key or table is defined twice."],
    ["[a]\nb = 1\n[a.b]", "3:4 This key or table is defined twice."],
    ["a = \n", "1:4 A value is missing."],
    ['a = "x', "1:7 Unterminated string constant."],
  ])("%j", async (text, problem) => {
    expect(said(await readToml(text))).toEqual([problem]);
  });
});

describe("HCL", () => {
  /** hcl2json returns every block as a list of its bodies, unordered. */
  function merged(value: unknown): unknown {
    if (Array.isArray(value))
      return value.length === 1 && isPlain(value[0]) ? merged(value[0]) : value.map(merged);
    return isPlain(value)
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, merged(inner)]))
      : value;
  }
  const isPlain = (value: unknown): value is Record<string, unknown> =>
    typeof value === "object" && value !== null && !Array.isArray(value);

  const GOOD: Record<string, string> = {
    "blocks, labels, comments": `# a\nagent "w" { // b\n  run = "claude" /* c */ # d\n}\nagent x-y {}\n/* e\n */ p = 1\n`,
    "one-line blocks": `a {}\nb { c = 1 }\nd { e = [\n 1\n] }`,
    "blocks that occur again": `a {\n b = 1\n}\na {\n b = 2\n}\n`,
    objects: `a = { b = 1, "c d" : 2\n e = { f = "g" } }\nh = {}\ni = { j = 1, }`,
    lists: `a = [\n "x", # one\n "y",\n]\nb = []\nc = [[1], [2, 3]]`,
    "numbers and words": `a = -5\nb = 1.5\nc = 2e3\nd = true\ne = false\nf = null\ng = - 7`,
    escapes: String.raw`a = "\n\t\"\\ \u00e9 \U0001F600 $ % $x %x"`,
    variables: `a = var.x\nb = "\${var.x} and \${ var.y }"`,
    "plain dollars": 'a = "$${x} $5"',
    heredocs: `a = <<EOT\n one\n  "two" \\n \${var.x}\nEOT\nb = <<-END\n    x\n      y\n\n    z\n  END\nc = 1\n`,
    "CRLF and tabs": "a = 1\r\nb {\r\n\tc = 2\r\n}\r\n",
  };
  test.each(Object.entries(GOOD))("is read like HashiCorp's parser reads it: %s", async (_name, text) => {
    const normal = JSON.parse(
      JSON.stringify(await parseHcl("x.hcl", text)).replace(/\$\{ (var\.\w) \}/g, "${$1}"),
    ) as unknown;
    expect(merged(plain(root(readHcl(text))))).toEqual(merged(normal));
  });

  const BAD: Record<string, [text: string, ...problems: string[]]> = {
    "two attributes on a line": [
      "a = 1 b = 2",
      "1:5 This is an expression. A runbook evaluates nothing; write plain values and ${var.NAME}.",
    ],
    "two attributes in a line's block": [
      "a { b = 1, c = 2 }",
      "1:10 A block on one line has only one attribute; put each attribute on a separate line.",
    ],
    "a block in a line's block": ["a { b {} }", "1:7 A block on one line has one attribute: name = value."],
    "an attribute behind an opened block": [
      "a { b = 1\n}",
      "1:10 A block on one line has only one attribute; put each attribute on a separate line.",
    ],
    twice: ["a = 1\na = 2", "2:1 a is defined twice; first in line 1."],
    "a block and an attribute": ["a = 1\na {}", "2:1 a is defined twice; first in line 1."],
    "no value": ["a =\nb = 1", "1:4 Here a value is missing."],
    "no name": ["= 1", "1:1 Here the name of an attribute or a block is missing."],
    "a quoted name": ['"a" = 1', "1:1 Here the name of an attribute or a block is missing."],
    "a brace on the next line": ["a\n{\n}", '1:2 Expected "=" and a value, or a block in braces, after a.'],
    "too many braces": ["a {\n}\n}", '3:1 There is no block that this "}" could close.'],
    "two blocks on a line": [
      "a {} b {}",
      "1:6 A line is missing here: each attribute and each block ends its line.",
    ],
    "a list without commas": ["a = [1\n2]", '2:1 Here "," or "]" is missing.'],
    "a list that is not closed": ["a = [1,", '1:5 "]" is missing for this bracket.'],
    "an unknown escape": ['a = "\\q"', "1:6 HCL does not know the escape \\q."],
    "half a pair": ['a = "\\ud83d"', "1:6 \\ud83d is not a character."],
    "a heredoc whose end ends no line": ["a = <<E\nx\nE", "1:5 The line E that ends this text is missing."],
    "a heredoc that does not end": ["a = <<E\nx\n", "1:5 The line E that ends this text is missing."],
    "a label that is a template": ['a "${var.x}" {}', "1:3 A block's name is plain text."],
  };
  test.each(Object.entries(BAD))(
    "is refused, like HashiCorp's parser does: %s",
    async (_name, [text, ...problems]) => {
      expect(said(readHcl(text))).toEqual(problems);
      // It accepts a name that is both an attribute and a block; in a runbook that would be ambiguous.
      if (text !== "a = 1\na {}") await expect(parseHcl("x.hcl", text)).rejects.toThrow();
    },
  );

  test("means the same to HashiCorp's parser where it is accepted", async () => {
    const word = fc.constantFrom(
      "a",
      "b",
      "step",
      '"x"',
      '"${var.x}"',
      '"$${y} \\n"',
      "var.z",
      "1",
      "-2",
      "2.5",
      "true",
      "null",
      "[",
      "]",
      "{",
      "}",
      "=",
      ":",
      ",",
      "\n",
      "\n",
      " ",
      "# c\n",
      "/* d */",
      "//\n",
      "<<E\n q\nE\n",
      "<<-E\n  q\n r\n E\n",
    );
    const attribute = fc
      .array(word, { maxLength: 4 })
      .map((parts) => `a${parts.length} = ${parts.join(" ")}\n`);
    const whole = fc.oneof(
      fc.array(word, { maxLength: 12 }).map((parts) => parts.join("")),
      fc.array(attribute, { maxLength: 3 }).map((parts) => `b {\n${parts.join("")}}\n`),
    );
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(whole, async (text) => {
        const { root: tree, problems } = readHcl(text);
        if (tree === null || problems.length > 0) return;
        accepted += 1;
        expect(merged(plain(tree))).toEqual(merged(await parseHcl("x.hcl", text)));
      }),
      { numRuns: 1500 },
    );
    expect(accepted).toBeGreaterThan(50);
  });

  const why = "This is an expression. A runbook evaluates nothing; write plain values and ${var.NAME}.";
  const inText =
    "A runbook evaluates nothing: a text may contain only ${var.NAME}. Write $${ for a plain ${.";
  test.each([
    ['a = file("/etc/passwd")\nb = 1', [`1:5 ${why}`]],
    ["a = 3 * 60", [`1:5 ${why}`]],
    ["a = env.HOME\nb = local.x", [`1:5 ${why}`, `2:5 ${why}`]],
    ["a = var.x.y", [`1:5 ${why}`]],
    ['a = [upper("x"), 1 + 1]', [`1:6 ${why}`, `1:18 ${why}`]],
    ['a = true ? "x" : "y"', [`1:5 ${why}`]],
    ["a = [for x in [1]: x]", [`1:6 ${why}`]],
    ["a = (1)", [`1:5 ${why}`]],
    ['a = "x ${file("y")} ${env.Z}"', [`1:8 ${inText}`, `1:21 ${inText}`]],
    ['a = "%{ if true }x%{ endif }"', [`1:6 ${inText}`, `1:19 ${inText}`]],
  ])("evaluates nothing: %s", (text, problems) => {
    const read = readHcl(text);
    expect(said(read)).toEqual(problems);
    expect(read.root).not.toBeNull();
  });
});

describe("no text throws", () => {
  const engine = { hasUi: true, tellsIdle: true, opensUi: () => true, refuses: () => null };
  const words = fc.constantFrom(
    ...[
      "agent",
      "worker",
      "pipeline",
      "step",
      "run",
      "on_error",
      "on_dead",
      "vars",
      "env",
      "prompt",
      "__proto__",
      "name",
      "${var.x}",
      "${",
      "var.x",
    ],
    ...[
      '"',
      "'",
      "=",
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      ".",
      "\n",
      " ",
      "#",
      "/*",
      "<<E\n",
      "\\",
      "$",
      "1",
      "-",
      "true",
      "null",
      "é",
      "\u{1F600}",
      "\0",
    ],
  );
  const texts = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.array(words, { maxLength: 60 }).map((parts) => parts.join("")),
  );
  const around = {
    level: "project" as const,
    engine: () => engine,
    engineIds: ["claude"],
    readPrompt: () => ({ why: "is not there" }),
  };

  test.each([
    ["TOML", readToml],
    ["JSON", async (text: string) => readJson(text)],
    ["HCL", async (text: string) => readHcl(text)],
  ])("%s", async (_name, read) => {
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        const { root: tree, problems } = await read(text);
        const checked = tree === null ? null : checkRunbook(tree, around);
        // Every unusable text gives a problem with a position.
        const all = [...problems, ...(checked?.problems ?? [])];
        if (tree === null) expect(all).not.toEqual([]);
        for (const { line, column, reason } of all) {
          expect(line).toBeGreaterThan(0);
          expect(column).toBeGreaterThan(0);
          expect(reason).toMatch(/[.?]$/);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test("checks any tree to its end", () => {
    const value = fc.letrec<{ value: Value; table: Table }>((tie) => {
      const at = { line: 1, column: 1 };
      const key = fc.oneof(words, fc.string());
      return {
        value: fc.oneof(
          { depthSize: "small", withCrossShrink: true },
          fc.string().map((text): Value => ({ kind: "text", value: text, at, verbatim: true })),
          fc.double().map((number): Value => ({ kind: "number", value: number, at })),
          fc.constant<Value>({ kind: "odd", what: "null", at }),
          fc.constant<Value>({ kind: "refused", at }),
          fc.array(tie("value"), { maxLength: 4 }).map((items): Value => ({ kind: "list", items, at })),
          tie("table"),
        ),
        table: fc.array(fc.tuple(key, tie("value")), { maxLength: 5 }).map((pairs): Table => ({
          kind: "table",
          entries: new Map(pairs.map(([name, inner]) => [name, { at, value: inner }])),
          at,
        })),
      };
    });
    const nested = value.table.map((inner): Table => {
      const at = { line: 1, column: 1 };
      const wrap = (name: string, table: Table): Table => ({
        kind: "table",
        entries: new Map([[name, { at, value: table }]]),
        at,
      });
      return {
        ...wrap("agent", wrap("worker", inner)),
        entries: new Map([
          ["agent", { at, value: wrap("worker", inner) }],
          ["pipeline", { at, value: wrap("ci", inner) }],
        ]),
      };
    });
    fc.assert(
      fc.property(nested, (tree) => void checkRunbook(tree, around)),
      { numRuns: 1000 },
    );
  });
});
