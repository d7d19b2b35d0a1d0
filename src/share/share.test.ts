/** Pages of a conversation: readable, and inert whatever the agent said. */
import { expect, test } from "vitest";
import { blocksOf, spansOf } from "./blocks.ts";
import { htmlOf } from "./html.ts";
import { markdownOf } from "./markdown.ts";
import { partsOf, type SharedPart, type SharedRun } from "./parts.ts";

function runWith(parts: readonly SharedPart[], more: Partial<SharedRun> = {}): SharedRun {
  return {
    title: "Fix the cart",
    handle: "1a2b3c4d",
    engine: "demo",
    status: "completed",
    version: "1.2.3",
    exportedAt: "2026-11-18T04:00:00.000Z",
    leftOut: [],
    attempts: [
      {
        n: 1,
        record: {
          kind: "start",
          startedAt: "2026-11-18T03:00:00.000Z",
          endedAt: "2026-11-18T03:01:30.000Z",
          message: "go",
          result: "completed",
          reason: null,
          tokens: { input: 10, output: 20 },
        },
        proof: [],
        parts,
      },
    ],
    ...more,
  };
}

/** The Markdown of one answer. */
function answer(text: string): string {
  const page = markdownOf(runWith([{ type: "text", text }]));
  return page.slice(page.indexOf("**demo**\n\n") + 10, page.indexOf("\n\n---\n\n"));
}

test.each([
  ["a heading", "# Big", "\\# Big"],
  ["an underlined heading", "Big\n===", "Big  \n\\==="],
  ["a list", "- one\n2. two", "\\- one  \n2\\. two"],
  ["a quote", "> me", "\\> me"],
  ["HTML", "<img src=x onerror=alert(1)>", "\\<img src=x onerror=alert(1)\\>"],
  ["the end of a fold", "</details>", "\\</details\\>"],
  ["a link", "[click](javascript:alert(1))", "`[click](javascript:alert(1))`"],
  ["a plain link", "[click](/x)", "\\[click\\](/x)"],
  ["an image", "![x](//e.example/x.png)", "\\!\\[x\\](//e.example/x.png)"],
  ["an address", "see https://github.com/a/b/issues/1.", "see `https://github.com/a/b/issues/1.`"],
  ["a mention", "thanks @octocat, @a/team", "thanks `@octocat,` `@a/team`"],
  ["references", "fixes #12 a/b#3 GH-4", "fixes `#12` `a/b#3` `GH-4`"],
  ["an entity", "&#64;octocat &lt;b&gt;", "`&#64;octocat` \\&lt;b\\&gt;"],
  ["a table", "a | b\n--|--", "a \\| b  \n\\--\\|--"],
  ["a code span with a mention", "use `@types/node`", "use `@types/node`"],
  ["unpaired backticks", "a ` b `` c", "a \\` b \\`\\` c"],
  ["math", "$x$", "\\$x\\$"],
  ["an indented block", "    rm -rf", "&nbsp;&nbsp;&nbsp;&nbsp;rm -rf"],
  ["a footnote and a comment", "[^1]: x <!-- y", "\\[^1\\]: x \\<\\!-- y"],
  ["a terminal sequence", "a\u001b]0;title\u0007b", "a\\\\x1b\\]0;title\\\\x07b"],
  ["a code block", "so:\n```js\nlet a = `x`;\n```\ndone", "so:\n\n```text\nlet a = `x`;\n```\n\ndone"],
  ["a fence in a code block", "~~~\n```\n</details>\n# not\n~~~", "````text\n```\n</details>\n# not\n````"],
  ["a code block without an end", "```\nopen", "```text\nopen\n```"],
])("Markdown makes %s inert", (_name, text, expected) => {
  expect(answer(text)).toBe(expected);
});

test("Markdown shows attempts, outcome, proof, tokens and folded tool calls", () => {
  const [first] = runWith([]).attempts;
  if (first?.record == null) throw new Error("no attempt");
  const page = markdownOf(
    runWith([], {
      status: "failed",
      leftOut: ["Attempt 2 has no log."],
      attempts: [
        {
          ...first,
          parts: [
            {
              type: "tools",
              calls: [
                { what: "grep `a` @x", failed: false },
                { what: "rm", failed: true },
              ],
            },
            { type: "output", text: "```\nscreen" },
            { type: "note", text: "Too many *requests*." },
          ],
        },
        {
          n: 2,
          record: {
            ...first.record,
            kind: "resume",
            result: "failed",
            reason: "it broke",
            message: "a\n# b",
          },
          proof: ["proof: asked for x, the engine reported x"],
          parts: [],
        },
        { n: 3, record: null, proof: [], parts: [] },
      ],
    }),
  );
  expect(page).toBe(`# Fix the cart

run \`1a2b3c4d\` · demo · failed · 3 attempts

*Attempt 2 has no log.*

## Attempt 1: start, completed

2026-11-18 03:00 UTC · 1 m 30 s · 10 tokens in, 20 out

**You**

> go

**demo**

<details><summary>2 tool calls</summary>

- \`\`grep \`a\` @x\`\`
- ✗ \`rm\`

</details>

<details><summary>Output</summary>

\`\`\`\`text
\`\`\`
screen
\`\`\`\`

</details>

*Too many \\*requests\\*.*

## Attempt 2: resume, failed

2026-11-18 03:00 UTC · 1 m 30 s · 10 tokens in, 20 out

*it broke*

*proof: asked for x, the engine reported x*

**You**

> a  
> \\# b

## Attempt 3

Its record cannot be read.

---

Exported with Reprise 1.2.3 on 2026-11-18 04:00 UTC. Secrets that Reprise recognized are removed.
`);
});

const HOSTILE = [
  "<script>alert(1)</script>",
  '"><img src=x onerror=alert(1)>',
  "</pre></details><style>*{display:none}</style>",
  "<a href='javascript:alert(1)'>x</a>",
  "--><iframe src=//e.example>",
  "<meta http-equiv=refresh content='0;url=//e.example'>",
  "`<b>` ```\n</pre><svg onload=alert(1)>\n```",
  "\u001b]52;c;eA==\u0007\u202eevil",
];

test("an HTML page has no tag, attribute or address that untrusted text brought, wherever the text stands", () => {
  const text = HOSTILE.join("\n");
  const [first] = runWith([]).attempts;
  if (first?.record == null) throw new Error("no attempt");
  const page = htmlOf({
    ...runWith([], { title: text, engine: text, status: text, version: text, leftOut: [text] }),
    attempts: [
      {
        ...first,
        record: { ...first.record, kind: text, message: text, result: text, reason: text, startedAt: text },
        proof: [text],
        parts: [
          { type: "text", text },
          { type: "output", text },
          { type: "note", text },
          { type: "tools", calls: [{ what: text, failed: true }] },
        ],
      },
    ],
  });
  const tags = new Set([...page.matchAll(/<(\/?\w+)/g)].map(([, name = ""]) => name.replace("/", "")));
  expect([...tags].toSorted()).toEqual(
    "article body code details footer h1 h2 h3 head header html li main meta p pre section span style summary time title ul".split(
      " ",
    ),
  );
  expect(page.match(/<[^>]*\s(?:on\w+|href|src|style|action)\s*=/i)).toBeNull();
  expect(page.match(/<style/g)).toHaveLength(1);
  expect(page).toContain(
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
  );
  expect(page).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/);
  expect(page).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
});

test("an HTML page shows local times with UTC in the title, code blocks, and a fold for tool calls", () => {
  const page = htmlOf(
    runWith([
      { type: "text", text: "Use `a<b`:\n```\nx & y\n```" },
      { type: "tools", calls: [{ what: "grep x", failed: false }] },
    ]),
  );
  expect(page).toMatch(
    /<time datetime="2026-11-18T03:00:00\.000Z" title="2026-11-18T03:00:00\.000Z">2026-11-1\d \d\d:\d\d (?:UTC|[+-]\d\d:\d\d)<\/time> · 1 m 30 s · 10 tokens in, 20 out/,
  );
  expect(page).toContain('<p class="prose">Use <code>a&lt;b</code>:</p>\n<pre>x &amp; y</pre>');
  expect(page).toContain("<summary>1 tool call</summary>\n<ul><li><code>grep x</code></li></ul>");
});

test("deltas are one text, tool calls in a row one part, and a failed end marks its call", () => {
  expect(
    partsOf([
      { type: "turn_started" },
      { type: "text", text: "Hel" },
      { type: "text", text: "lo", delta: true },
      { type: "tool", state: "started", id: "1", name: "grep", detail: "x" },
      { type: "tool", state: "started", id: "2", name: "rm" },
      { type: "tool", state: "ended", id: "2", name: "rm", ok: false },
      { type: "tool", state: "ended", id: "3", name: "ls", ok: true },
      { type: "text", text: "Done" },
      { type: "tool", state: "ended", id: "1", name: "grep", ok: false },
      { type: "retry", trouble: { kind: "overloaded", message: "busy" } },
      { type: "turn_ended", result: "failed", trouble: { kind: "other", message: "broken" } },
    ]),
  ).toEqual([
    { type: "text", text: "Hello" },
    {
      type: "tools",
      calls: [
        { what: "grep x", failed: true },
        { what: "rm", failed: true },
        { what: "ls", failed: false },
      ],
    },
    { type: "text", text: "Done" },
    { type: "note", text: "The engine tries again: busy" },
    { type: "note", text: "broken" },
  ]);
});

test("spans and blocks take linear time for hostile backticks", () => {
  const many = Array.from({ length: 40_000 }, (_none, at) => "`".repeat((at % 300) + 1)).join(" ");
  const began = performance.now();
  expect(spansOf(many).length).toBeGreaterThan(1);
  expect(spansOf("` `` ".repeat(100_000)).length).toBeGreaterThan(1);
  expect(blocksOf("```\n".repeat(100_000)).length).toBe(50_000);
  expect(markdownOf(runWith([{ type: "output", text: "` ".repeat(300_000) }])).length).toBeGreaterThan(
    600_000,
  );
  expect(performance.now() - began).toBeLessThan(20_000);
});
