/**
 * Docs, messages, help, comments and test names are plain English: no phrase of the table below comes back, and the prose
 * of docs is wrapped. Code blocks, inline code, tables (for their width) and generated parts are exempt, since other
 * files decide on their text.
 */
import { readdirSync, readFileSync } from "node:fs";
import { parseSync } from "oxc-parser";
import { expect, test } from "vitest";
import { nodesIn } from "./hostile/expressions.ts";
import { testNamesOf } from "./test-names.ts";

/** Every page of prose. */
const PAGES = ["AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"].concat(
  readdirSync("docs", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
    .toSorted(),
);
const LINE_LENGTH = 100;

const UNIT =
  "(?:attempt|batch|check|comment|engine|file|issue|line|minute|reply|repository|run|second|session|state|thing|word)";

/** A phrase, what to write instead, and text that has it. Blanks in a phrase stand for line breaks as well. */
const PHRASES: readonly (readonly [phrase: string, instead: string, example: string])[] = [
  ["whoever", "name the person or process", "Whoever holds the lease decides."],
  ["whomever", "name the person or process", "Tell whomever it concerns."],
  ["those who", "name them", "Those who wait are named."],
  ["(?:the )?ones? that", "name the thing", "A session is kept, and one that is lost is not."],
  ["(?:the )?ones? whose", "name the thing", "A run is kept, also one whose agent died."],
  ["what is", "name the thing", "What is unknown is skipped."],
  ["which it is", "name the thing", "The message says which it is."],
  ["of (?:its|their|your|his|our) own", "separate, own, private", "Each agent has a home\nof its own."],
  ["shall", "present tense, or must", "The agent shall stop."],
  ["(?:is|are|was|were) said", "name the speaker", "A copy is put back, and that is said."],
  ["(?:is|are|was|were) told", "name the speaker", "The agent is told to go on."],
  ["(?:is|are) to be", "must, or present tense", "A file that is to be removed."],
  ["there (?:is|are) none", "say what is missing", "It uses the store, where there is none the file."],
  ["(?:take|takes|took|taken|taking) up(?! to)", "resume", "It takes up\nwhat was interrupted."],
  ["let loose", "start", "Codex can be let loose on them."],
  ["(?:keep|keeps|kept) moving", "supervise", "Agents that are kept moving."],
  ["called a bug", "reported as a bug", "It is not called a bug."],
  ["by chance", "say what happened", "The name is taken by chance."],
  ["wants no more", "say what happened", "The child wants no more of it."],
  ["safely ours", "has unsafe ownership or permissions", "The directory is not safely ours."],
  ["a name for people", "human-readable name", "A name for people."],
  ["for somebody else", "say what the result is", "A file for somebody else."],
  ["tells? more", "see … for details", "`--help` tells more."],
  ["works? by itself", "run in the background", "The agent works by itself."],
  ["is sacred", "say what Reprise never does", "`waiting` is sacred."],
  ["nobody (?:acts|listen(?:s|ed)|has|says|may)", "name the subject", "What is printed when nobody listens."],
  ["who (?:is|are) no", "who are not …s", "Authors who are no owner."],
  ["as ever", "as usual", "It works as ever."],
  ["anew", "again, new, or start over", "The conversation begins anew."],
  [`one an? ${UNIT}`, "one per …", "The daemon: one a state directory."],
  [`one \\w+ an? ${UNIT}`, "one … per …", "The daemon has one process an attempt."],
  [`\\d+ \\w+ an? ${UNIT}`, "per", "The check takes 20 s an engine."],
  ["as in(?=:)", "Example:", "Which shell? As in: reprise completion bash"],
  [
    "present (?:activity|config|content|form|screen|session|state)",
    "current …, or … as it is now",
    "The agent's present screen.",
  ],
  [
    "exclude each other(?! while)",
    "give one or the other, not both",
    "--fork and --last exclude each other.",
  ],
  [
    "(?<!there )(?:is|are) no (?:address|clone|command|config file|conversation|engine|JSON|kind|name|sandbox|text|title)",
    "is not a …",
    "The value is no address.",
  ],
  [
    "(?:director(?:y|ies)|logs?|rows?|runs?) (?:was|were) left out",
    "skipped, omitted",
    "The directory was left out.",
  ],
  [
    "it is (?:a duration|a whole number|given twice|longer than zero)",
    "must be …",
    "The value is invalid. It is a whole number.",
  ],
  [
    String.raw`\w+, too(?! (?:long|large|many|old|short|small|late|few|deep))`,
    "also, before the verb",
    "Warnings, too, are errors.",
  ],
];

const pattern = (phrase: string) => new RegExp(`\\b${phrase.replaceAll(" ", String.raw`\s+`)}\\b`, "gi");

/** Line by line as in the file: exempt text is blank, inline code is one long word. */
function proseOf(text: string): readonly string[] {
  let fenced = false;
  let generated = false;
  return text.split("\n").map((line) => {
    const fence = line.trimStart().startsWith("```");
    if (fence) fenced = !fenced;
    if (line.startsWith("<!--")) generated = line.includes(": begin");
    if (fence || fenced || generated || line.startsWith("<!--")) return "";
    return line.replaceAll(/`[^`]*`/g, (code) => "`".repeat(code.length));
  });
}

/** Every hit as `line: mistake`. */
function hits(page: string): readonly string[] {
  const lines = proseOf(page);
  const text = lines.join("\n");
  const phrases = PHRASES.flatMap(([phrase, instead]) =>
    [...text.matchAll(pattern(phrase))].map(({ 0: hit, index }) => {
      const line = text.slice(0, index).split("\n").length;
      return { line, what: `"${hit.replaceAll(/\s+/g, " ")}"; write: ${instead}` };
    }),
  );
  const long = lines.flatMap((line, at) =>
    isProse(line) && line.length > LINE_LENGTH
      ? [{ line: at + 1, what: `${line.length} characters, more than ${LINE_LENGTH}` }]
      : [],
  );
  return [...phrases, ...long]
    .toSorted((one, other) => one.line - other.line)
    .map(({ line, what }) => `${line}: ${what}`);
}

/** Tables cannot be wrapped, nor can a line that holds one link or one word. */
function isProse(line: string): boolean {
  return !/^\s*\|/.test(line) && !/^\s*(?:[-*] )?!?\[[^\]]*\]\(\S+$/.test(line) && /\S\s+\S/.test(line);
}

test.each(PAGES)("%s has no phrase of the table and no long line", (page) => {
  expect(hits(readFileSync(page, "utf8")).map((hit) => `${page}:${hit}`)).toEqual([]);
});

test.each(PHRASES)("the phrase %j is found, with its line, and not in code", (phrase, instead, example) => {
  expect(example).toMatch(pattern(phrase));
  const found = hits(`# Title\n\n${example}\n`);
  expect(found).toContainEqual(expect.stringMatching(/^[34]: "/));
  expect(found.some((hit) => hit.endsWith(`write: ${instead}`))).toBe(true);
  expect(hits(`\`\`\`\n${example}\n\`\`\`\n`)).toEqual([]);
});

const LONG = `${"word ".repeat(20)}words`;
test.each([
  ["a paragraph", LONG],
  ["an entry of a list", `- ${LONG}`],
  ["a line below a generated part", `<!-- table: begin -->\n<!-- table: end -->\n${LONG}`],
])("a line of more than 100 characters is found in %s", (_, text) => {
  expect(hits(text)).toEqual([expect.stringMatching(/^[13]: 10[57] characters, more than 100$/)]);
});

test.each([
  ["a table", `| ${LONG} |`],
  ["a line that holds one link", `- [${LONG}](page.md)`],
  ["a block of code", `\`\`\`\n${LONG}\n\`\`\``],
  ["a generated part", `<!-- table: begin -->\n${LONG}\n<!-- table: end -->`],
])("a line of more than 100 characters is allowed in %s", (_, text) => {
  expect(hits(text)).toEqual([]);
});

const FINDERS = PHRASES.map(([phrase, instead]) => ({ phrase: pattern(phrase), instead }));

/** Every hit as `file:line: what to write`. */
function nameHits(file: string, source: string): readonly string[] {
  // Parsing takes most of the time, and most files have no phrase at all.
  if (!FINDERS.some(({ phrase }) => source.search(phrase) !== -1)) return [];
  const lineOf = (start: number) => source.slice(0, start).split("\n").length;
  return testNamesOf(file, source).flatMap(({ start, text }) =>
    FINDERS.filter(({ phrase }) => text.search(phrase) !== -1).map(
      ({ instead }) => `${file}:${lineOf(start)}: "${text}"; write: ${instead}`,
    ),
  );
}

test("no test name has a phrase of the table", () => {
  const files = ["src", "test", "conformance"].flatMap((folder) =>
    readdirSync(folder, { recursive: folder !== "conformance", encoding: "utf8" })
      .filter((name) => name.endsWith(".test.ts"))
      .map((name) => `${folder}/${name}`),
  );
  expect(files.length).toBeGreaterThan(200);
  expect(files.toSorted().flatMap((file) => nameHits(file, readFileSync(file, "utf8")))).toEqual([]);
});

test.each([
  ["a title", 'test("one that waits", () => {});'],
  ["a title that a template makes", "describe(`${NAME}: one that waits`, () => {});"],
  ["a title behind a condition", 'test.skipIf(ROOT)("one that waits", () => {});'],
  ["the title of a table", 'test.each([1])("one that waits for %d", () => {});'],
  ["a row", 'test.each(["one that waits"])("%s is named", () => {});'],
  ["a first cell", 'test.each([["one that waits", 1]] as const)("%s is named", () => {});'],
  ["a key", 'test.each(Object.entries({ "one that waits": 1 }))("%s is named", () => {});'],
  ["a key of a constant", 'const T = { "one that waits": 1 }; test.each(Object.entries(T))("%s", () => {});'],
  [
    "the first constant of a name",
    '{ const T = ["one that waits"]; test.each(T)("%s", F); } { const T = [""]; }',
  ],
])("a phrase is found in %s", (_, source) => {
  expect(nameHits("a.test.ts", `\n${source}\n`)).toEqual([
    expect.stringMatching(/^a\.test\.ts:2: ".*one that waits.*"; write: name the thing$/),
  ]);
});

test.each([
  ["data of a test", 'test("a wait ends", () => expect(say()).toBe("one that waits"));'],
  ["a cell behind the first", 'test.each([["a", "one that waits"]])("%s is named", () => {});'],
  ["data of a table", 'test.each(["one that waits"])("%j is named", () => {});'],
])("a phrase is allowed in %s", (_, source) => {
  expect(nameHits("a.test.ts", source)).toEqual([]);
});

/** Natural in a message ("what is left of it can be read", "before anything was said"), vague in a comment. */
const ONLY_IN_COMMENTS = new Set(["what is", "(?:is|are|was|were) said"]);

/** Units, keys, and names as their owners write them. */
const PROPER = /^(?:GitHub|OpenCode|MiB|KiB|PgUp|PgDn|ProcSubset)$/;

/** Names of the code in texts for users: a rename of a symbol has hit a text. */
function codeNames(file: string, source: string): readonly string[] {
  return writingIn(file, source).flatMap(({ text, isComment }) =>
    isComment
      ? []
      : [...text.matchAll(/(?<![\w.$/{<-])[A-Z][a-z]+[A-Z][A-Za-z]*\b/g)]
          .filter(([name]) => !PROPER.test(name))
          .map(([name]) => `${file}: ${name}`),
  );
}

/** Messages and help of at least two words, and comments. `start`: where each begins in the file. */
function writingIn(file: string, source: string) {
  const { program, comments } = parseSync(file, source);
  const texts = nodesIn(program).flatMap((node) => {
    if (node.type === "TemplateElement")
      return [[node.start, (node["value"] as { raw: string }).raw] as const];
    return node.type === "Literal" && typeof node["value"] === "string"
      ? [[node.start, node["value"]] as const]
      : [];
  });
  const messages = texts.filter(([, text]) => /\w\s+\w/.test(text));
  return [
    ...messages.map(([start, text]) => ({ start, text, isComment: false })),
    ...comments.map(({ start, value }) => ({
      start,
      text: value.replaceAll(/\n\s*\*/g, "\n").replaceAll(/`[^`\n]*`/g, "``"),
      isComment: true,
    })),
  ];
}

function writingHits(file: string, source: string): readonly string[] {
  const lineOf = (start: number) => source.slice(0, start).split("\n").length;
  return writingIn(file, source).flatMap(({ start, text, isComment }) =>
    PHRASES.filter(([phrase]) => isComment || !ONLY_IN_COMMENTS.has(phrase)).flatMap(([phrase, instead]) =>
      [...text.matchAll(pattern(phrase))].map(
        ([hit]) => `${file}:${lineOf(start)}: "${hit}"; write: ${instead}`,
      ),
    ),
  );
}

function productFiles(): readonly string[] {
  return readdirSync("src", { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts") && !name.includes("fixtures/"))
    .map((name) => `src/${name}`)
    .toSorted();
}

test("no message or help text has a name of the code", () => {
  expect(codeNames("a.ts", 'help("LeftIssue with Ctrl-]"); /** LeftIssue */ help("on GitHub");')).toEqual([
    "a.ts: LeftIssue",
  ]);
  expect(productFiles().flatMap((file) => codeNames(file, readFileSync(file, "utf8")))).toEqual([]);
});

const pageFiles = (): readonly string[] =>
  readdirSync("web", { recursive: true, encoding: "utf8" })
    .filter((name) => /(?<!\.test)\.tsx?$/.test(name))
    .map((name) => `web/${name}`)
    .toSorted();

test("no message, help text or comment of the product has a phrase of the table", () => {
  const files = [...productFiles(), ...pageFiles()];
  expect(files.length).toBeGreaterThan(200);
  expect(files.flatMap((file) => writingHits(file, readFileSync(file, "utf8")))).toEqual([]);
});

test.each([
  ["a message", 'fail("one that waits");'],
  ["a message with values", "fail(`one that ${verb} waits`);"],
  ["a comment", "/** The run, and one that waits. */"],
  ["a comment of two lines", "/**\n * The run, and one\n * that waits. */"],
])("a phrase is found in %s", (_, source) => {
  expect(writingHits("a.ts", source)).toEqual([
    expect.stringMatching(/^a\.ts:1: "one\s+that"; write: name the thing$/),
  ]);
});

test("a phrase is allowed in a quotation inside a comment, and in a name", () => {
  expect(writingHits("a.ts", "/** Writes `one that waits`. */ const whoever = 1;")).toEqual([]);
});
