import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Fault } from "../core/faults.ts";
import { readCommentFile, toJsonLines } from "./comment-file.ts";
import { toMarkdown } from "./markdown.ts";
import type { ReviewComment } from "./review.ts";

const PULL = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const COMMENT: ReviewComment = {
  id: "10",
  author: "octocat",
  association: "MEMBER",
  filePath: "src/a.ts",
  line: 3,
  originalLine: 2,
  body: "Great stuff",
  diffHunk: "@@ -1 +1 @@\n+x",
  commit: "6dcb09b5b57875f334f61aebed695e2e4193db5e",
  inReplyTo: null,
  createdAt: "2026-04-14T16:00:49Z",
  resolved: false,
};
const LEAST = {
  id: 10,
  author: "octocat",
  file_path: "src/a.ts",
  body: "hi",
  created_at: "2026-04-14T16:00:49Z",
};
const SMALL: ReviewComment = {
  ...COMMENT,
  association: null,
  line: null,
  originalLine: null,
  body: "hi",
  diffHunk: "",
  commit: null,
  resolved: null,
};

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "reprise-comments-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function read(content: string | Buffer) {
  const path = join(directory, "comments.jsonl");
  writeFileSync(path, content);
  const { comments, warnings } = readCommentFile(path);
  return { comments, warnings: warnings.map((warning) => warning.replace(`${path}: `, "")) };
}

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof Fault && error.code === "comments_invalid") return String(error.facts["why"]);
    throw error;
  }
  throw new Error("it was taken");
}

describe("readCommentFile", () => {
  const one = JSON.stringify(LEAST);
  test.each([
    ["", { comments: [], warnings: [] }],
    ["\n\n", { comments: [], warnings: [] }],
    ["[]", { comments: [], warnings: [] }],
    [one, { comments: [SMALL], warnings: [] }],
    [`\ufeff${one}\r\n\r\n`, { comments: [SMALL], warnings: [] }],
    [`[${one}, ${one}]`, { comments: [SMALL], warnings: [] }],
    [`${one}\n${one}\n`, { comments: [SMALL], warnings: [] }],
    [
      `${one}\n{"id":11}\n{\n`,
      {
        comments: [SMALL],
        warnings: ["line 2 has no usable author; it is left out.", "line 3 is not JSON; it is left out."],
      },
    ],
    [`[${one}, 7]`, { comments: [SMALL], warnings: ["item 2 is not a JSON object; it is left out."] }],
    [
      `${one}\n{"id":1,"id":2,"author":"a","file_path":"f","body":"","created_at":"2026-01-01"}`,
      { comments: [SMALL], warnings: ["line 2 is not JSON; it is left out."] },
    ],
    [
      JSON.stringify({ ...LEAST, __proto__: null, unknown: { deep: [1] } }),
      { comments: [SMALL], warnings: [] },
    ],
    [
      `${one}\n${"{}\n".repeat(20)}`,
      { comments: [SMALL], warnings: expect.arrayContaining(["15 more are bad; they are left out."]) },
    ],
  ])("%j", (content, then) => {
    expect(read(content)).toEqual(then);
  });

  test.each([
    ["nonsense", "line 1 is not JSON"],
    ["[1", "it begins as a JSON array and is none"],
    [JSON.stringify({ ...LEAST, body: 5 }), "line 1 has no usable body"],
    [JSON.stringify({ ...LEAST, line_number: -1 }), "line 1 has no usable line_number"],
    [JSON.stringify({ ...LEAST, line_number: "3" }), "line 1 has no usable line_number"],
    [JSON.stringify({ ...LEAST, created_at: "soon" }), "line 1 has no usable created_at"],
    [JSON.stringify({ ...LEAST, id: "" }), "line 1 has no usable id"],
    [JSON.stringify({ ...LEAST, resolved: "no" }), "line 1 has no usable resolved"],
    [Buffer.from([0xff, 0xfe, 0x7b]), "it is not UTF-8 text"],
  ])("refuses %j", (content, why) => {
    expect(refusal(() => read(content))).toBe(why);
  });

  test("refuses anything but a regular file, without waiting", () => {
    const fifo = join(directory, "fifo");
    execFileSync("mkfifo", [fifo]);
    expect(refusal(() => readCommentFile(fifo))).toBe("it is not a regular file");
    expect(refusal(() => readCommentFile(directory))).toBe("it is not a regular file");
    expect(refusal(() => readCommentFile(join(directory, "missing")))).toBe("there is no such file");
  });

  test.each([
    [["a", "a"], "a", []],
    [["a", "b"], "b", ['several comments have the id "1"; the last is taken.']],
    [["a", "b", "b", "a"], "a", ['several comments have the id "1"; the last is taken.']],
  ])("handles an id that repeats: %j", (bodies, then, warnings) => {
    const lines = bodies.map((body) => JSON.stringify({ ...LEAST, id: 1, body }));
    const found = read(lines.join("\n"));
    expect([found.comments.map(({ body }) => body), found.warnings]).toEqual([[then], warnings]);
  });

  test("counts ids that repeat", () => {
    const lines = [1, 2, 3, 1, 2].map((id, at) => JSON.stringify({ ...LEAST, id, body: `${at}` }));
    expect(read(lines.join("\n")).warnings).toEqual([
      'several comments have the id "1"; the last is taken, and so for 1 more.',
    ]);
  });

  test("reads a 5 MB body and 5,000 comments", () => {
    const many = Array.from({ length: 5_000 }, (_, index) =>
      JSON.stringify({ ...LEAST, id: index, body: "b" }),
    );
    const big = JSON.stringify({ ...LEAST, id: "big", body: "x".repeat(5_000_000) });
    const { comments } = read([...many, big].join("\n"));
    expect([comments.length, comments.at(-1)?.body.length]).toEqual([5_001, 5_000_000]);
  });
});

const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string(),
  fc.constantFrom(
    "```",
    "\u001b]52;c;aGk=\u0007",
    "\u202e",
    "\ud800",
    "</data>",
    "````\n```",
    "~~~",
    "`",
    "",
  ),
);
const comment: fc.Arbitrary<ReviewComment> = fc.record({
  id: fc.string({ minLength: 1, maxLength: 20 }),
  author: text,
  association: fc.option(text),
  filePath: text,
  line: fc.option(fc.integer({ min: 1, max: 100_000 })),
  originalLine: fc.option(fc.integer({ min: 1 })),
  body: text,
  diffHunk: text,
  commit: fc.option(text),
  inReplyTo: fc.option(fc.string({ minLength: 1, maxLength: 20 })),
  createdAt: fc.constantFrom("2026-04-14T16:00:49Z", "2026-04-14T16:00:49.123+02:00"),
  resolved: fc.option(fc.boolean()),
});
const list = fc.uniqueArray(comment, { selector: ({ id }) => id, maxLength: 5 });
/** Characters that must not reach a terminal; line feeds and tabs may. */
const RAW = /(?:(?!\p{Variation_Selector})[\0-\x08\x0b-\x1f\x7f-\x9f\p{DI}\p{Bidi_Control}\p{Cs}])/u;

test("an export as JSON lines is read back exactly, and is harmless", () => {
  fc.assert(
    fc.property(list, (comments) => {
      const exported = toJsonLines(comments);
      expect(exported).not.toMatch(RAW);
      expect(read(exported).comments).toEqual(comments);
    }),
  );
});

test("Markdown is harmless, and no text leaves its block", () => {
  fc.assert(
    fc.property(list, (comments) => {
      const markdown = toMarkdown(PULL, { comments, title: "x" });
      expect(markdown).not.toMatch(RAW);
      expect(outside(markdown).filter((line) => line.startsWith("## "))).toHaveLength(comments.length);
    }),
  );
});

/** Lines outside of fenced code, as CommonMark sees them. */
function outside(markdown: string): string[] {
  let fence: string | null = null;
  const lines: string[] = [];
  for (const line of markdown.split("\n")) {
    if (fence === null) {
      fence = /^`{3,}/.exec(line)?.[0] ?? null;
      if (fence === null) lines.push(line);
    } else if (/^`+\s*$/.test(line) && line.trimEnd().length >= fence.length) fence = null;
  }
  return lines;
}

test("a whole page of Markdown looks as expected", () => {
  const comments = [
    COMMENT,
    { ...SMALL, id: "11", author: "a`b", inReplyTo: "10", body: "```js\nx\n```\n\u001b[2J" },
  ];
  expect(toMarkdown(PULL, { comments, title: "Make it <faster>" }))
    .toBe(`# Review comments of acme/shop#42: \`Make it <faster>\`

2 comments

## \`src/a.ts:3\`

- Author: \`octocat\` (\`MEMBER\`)
- Created: \`2026-04-14T16:00:49Z\`
- State: unresolved
- Id: \`10\`
- Commit: \`6dcb09b5b57875f334f61aebed695e2e4193db5e\`

\`\`\`text
Great stuff
\`\`\`

\`\`\`diff
@@ -1 +1 @@
+x
\`\`\`

## \`src/a.ts\`

- Author: \`\` a\`b \`\` (\`unknown\`)
- Created: \`2026-04-14T16:00:49Z\`
- State: unknown
- Id: \`11\`
- In reply to: \`10\`

\`\`\`\`text
\`\`\`js
x
\`\`\`
\\x1b[2J
\`\`\`\`
`);
});
