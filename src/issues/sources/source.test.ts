import {
  appendFileSync,
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../../test/deps.ts";
import { type FakeGitHub, startGitHub } from "../../../test/github-server.ts";
import { Fault } from "../../core/faults.ts";
import { SAMPLE, SOURCE_CASES } from "../../../test/contracts/source.ts";
import { openSource, type SourceOptions } from "../issues.ts";
import { withFields } from "./json-line.ts";
import type { Issue, IssueSource } from "./source.ts";

let root: string;
let deps: TestDeps;
let fake: FakeGitHub | null;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-issues-"));
  deps = await testDeps(root);
  fake = null;
});

afterEach(async () => {
  await fake?.[Symbol.asyncDispose]();
  rmSync(root, { recursive: true });
});

const OPTIONS: SourceOptions = { kind: null, repository: null, apiUrl: null, token: null };
const beadsFile = () => join(root, ".beads", "issues.jsonl");

function writeBeads(lines: readonly unknown[]): void {
  mkdirSync(join(root, ".beads"), { recursive: true });
  const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");
  writeFileSync(beadsFile(), `${text}\n`);
}

function beadsLine(issue: Issue): unknown {
  return {
    id: issue.id,
    title: issue.title,
    description: issue.body,
    status: issue.status,
    priority: issue.priority,
    issue_type: issue.epic ? "epic" : "task",
    created_at: "2026-01-01T00:00:00Z",
    dependencies: [
      ...issue.dependencies.map((id) => ({ issue_id: issue.id, depends_on_id: id, type: "blocks" })),
      ...(issue.parent === null
        ? []
        : [{ issue_id: issue.id, depends_on_id: issue.parent, type: "parent-child" }]),
    ],
  };
}

function writeMarkdown(name: string, text: string): void {
  mkdirSync(join(root, "issues"), { recursive: true });
  writeFileSync(join(root, "issues", name), text);
}

function markdownOf(issue: Issue): string {
  return [
    "---",
    `id: "${issue.id}"`,
    `title: "${issue.title}"`,
    ...(issue.status === "open" ? [] : [`status: ${issue.status} # a word`]),
    `priority: ${issue.priority}`,
    ...(issue.dependencies.length === 0 ? [] : [`depends_on: [${issue.dependencies.join(", ")}]`]),
    ...(issue.parent === null ? [] : [`parent: ${issue.parent}`]),
    ...(issue.epic ? ["type: epic"] : []),
    "---",
    issue.body,
  ].join("\n");
}

const SOURCES: Record<string, () => Promise<() => Promise<IssueSource>>> = {
  beads: async () => {
    writeBeads(SAMPLE.map(beadsLine));
    return () => openSource(deps, root, OPTIONS);
  },
  "beads by bd": async () => {
    writeBeads(SAMPLE.map(beadsLine));
    const bin = join(root, "bin");
    mkdirSync(bin);
    // Stands in for bd: its database is the file itself, changed as bd would by the commands that are used.
    const script = `#!${process.execPath}
const fs = require("node:fs"); const [, , verb, id, ...rest] = process.argv;
const file = ${JSON.stringify(beadsFile())};
if (verb === "export") { process.stdout.write(fs.readFileSync(file, "utf8")); process.exit(0); }
const lines = fs.readFileSync(file, "utf8").trimEnd().split("\\n").map((line) => JSON.parse(line));
const issue = lines.find((line) => line.id === id);
if (issue === undefined) { process.stderr.write("no issue found matching " + id + "\\n"); process.exit(1); }
if (verb === "close") Object.assign(issue, { status: "closed", close_reason: rest[0].slice(9) });
else if (rest[0] === "--status") issue.status = rest[1];
else issue.notes = (issue.notes ?? "") + rest[0].slice("--append-notes=".length);
fs.writeFileSync(file, lines.map((line) => JSON.stringify(line)).join("\\n") + "\\n");
`;
    writeFileSync(join(bin, "bd"), script);
    chmodSync(join(bin, "bd"), 0o755);
    const world = { ...deps, env: { ...deps.env, PATH: `${bin}:${deps.env["PATH"] ?? ""}` } };
    return () => openSource(world, root, OPTIONS);
  },
  markdown: async () => {
    for (const issue of SAMPLE) writeMarkdown(`${issue.id}.md`, markdownOf(issue));
    writeMarkdown("README.md", "# not an issue");
    return () => openSource(deps, root, OPTIONS);
  },
  github: async () => {
    fake = await startGitHub();
    fake.issues = SAMPLE.map((issue) => ({
      number: Number(issue.id),
      title: issue.title,
      body: [
        issue.body,
        ...issue.dependencies.map((id) => `Blocked by #${id}.`),
        ...(issue.parent === null ? [] : [`Parent: #${issue.parent}`]),
      ].join("\n\n"),
      state: issue.status === "closed" ? "closed" : "open",
      labels: [
        `P${issue.priority}`,
        ...(issue.epic ? ["epic"] : []),
        ...(issue.status === "in_progress" || issue.status === "blocked" ? [issue.status] : []),
      ],
      comments: [],
    }));
    fake.issues.push({
      number: 7,
      title: "A pull request",
      body: "",
      state: "open",
      labels: [],
      comments: [],
      pullRequest: true,
    });
    const { url } = fake;
    return () =>
      openSource(deps, root, {
        kind: "github",
        repository: "acme/shop",
        apiUrl: url,
        token: "ghp_0123456789",
      });
  },
};

describe.each(Object.entries(SOURCES))("%s", (_name, make) => {
  test.each(SOURCE_CASES)("$name", async ({ run }) => {
    const open = await make();
    await run(await open(), open);
  });
});

async function faultOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
  } catch (error) {
    if (error instanceof Fault) return `${error.code}: ${error.message.replaceAll(root, "ROOT")}`;
    throw error;
  }
  return "no fault";
}

const list = async () => (await openSource(deps, root, OPTIONS)).list();
const issue = (id: string, more: object = {}) => ({ id, title: `Issue ${id}`, status: "open", ...more });
const needs = (id: string, ...others: string[]) =>
  issue(id, { dependencies: others.map((other) => ({ depends_on_id: other, type: "blocks" })) });

describe("bad input", () => {
  const cases: Record<string, [make: () => void, then: string]> = {
    "no source at all": [
      () => {},
      "issues_missing: ROOT has no issues: there is no .beads/issues.jsonl and no issues/*.md. Write issues/first.md, or name a source: --source github.",
    ],
    "a line that was not finished": [
      () => writeBeads([issue("a"), '{"id":"b","title":"hal']),
      "issues_invalid: .beads/issues.jsonl, line 2: it is incomplete or not JSON. Another program may be writing it, or it has merge conflicts.",
    ],
    "a merge conflict": [
      () => writeBeads(["<<<<<<< HEAD", issue("a")]),
      "issues_invalid: .beads/issues.jsonl, line 1: it is not a JSON object. Another program may be writing it, or it has merge conflicts.",
    ],
    "an id twice": [
      () => writeBeads([issue("a"), "", issue("a")]),
      "issues_invalid: .beads/issues.jsonl, line 3: the id a is already used at .beads/issues.jsonl, line 1. Change one of the two.",
    ],
    "an id that is a path": [
      () => writeBeads([issue("../x")]),
      'issues_invalid: .beads/issues.jsonl, line 1: "../x" is not a valid id: letters, digits, ".", "_" and "-", 100 at most.',
    ],
    "dependencies in a circle": [
      () => writeBeads([issue("x"), needs("a", "b"), needs("b", "x", "c"), needs("c", "a")]),
      "issues_invalid: .beads/issues.jsonl, line 2: dependencies form a circle: a → b → c → a. Remove one of them.",
    ],
    "an issue that waits for itself": [
      () => writeMarkdown("a.md", "---\ndepends_on:\n  - a\n---\n"),
      "issues_invalid: issues/a.md: dependencies form a circle: a → a. Remove one of them.",
    ],
    "front matter without an end": [
      () => writeMarkdown("a.md", "---\ntitle: A\n"),
      "issues_invalid: issues/a.md, line 1: its front matter has no end. Close it with a line of ---.",
    ],
    "an unknown status": [
      () => writeMarkdown("a.md", "---\ntitle: A\nstatus: later\n---\n"),
      "issues_invalid: issues/a.md, line 3: status is one of open, in_progress, closed, blocked.",
    ],
    "an unknown priority": [
      () => writeMarkdown("a.md", "---\npriority: high\n---\n"),
      "issues_invalid: issues/a.md, line 2: priority is 0 to 4.",
    ],
    "a key twice": [
      () => writeMarkdown("a.md", "---\nstatus: open\nstatus: closed\n---\n"),
      "issues_invalid: issues/a.md, line 3: status is set twice.",
    ],
    "a list without an end": [
      () => writeMarkdown("a.md", "---\ntitle: A\ndepends_on: [b,\nstatus: closed\n---\n"),
      "issues_invalid: issues/a.md, line 3: its list has no end. Close it with ].",
    ],
    "bytes that are not text": [
      () => {
        mkdirSync(join(root, "issues"));
        writeFileSync(join(root, "issues", "a.md"), Buffer.from([0x2d, 0xff, 0xfe]));
      },
      "issues_invalid: issues/a.md: it is not UTF-8 text.",
    ],
    "a link": [
      () => {
        mkdirSync(join(root, "issues"));
        writeFileSync(join(root, "a-1.md"), "---\ntitle: A\n---\n");
        symlinkSync("../a-1.md", join(root, "issues", "a.md"));
      },
      "issues_invalid: issues/a.md: it is a symbolic link, which is not followed.",
    ],
    "a link to itself": [
      () => symlinkSync("issues", join(root, "issues")),
      "issues_invalid: issues: it is a symbolic link that leads back to itself.",
    ],
  };
  test.each(Object.entries(cases))("%s", async (_name, [make, then]) => {
    make();
    expect(await faultOf(list)).toBe(then);
  });

  test("an empty file has no issues", async () => {
    writeBeads([]);
    expect(await list()).toEqual({ issues: [], warnings: [] });
  });

  test("a missing dependency is reported and not waited for; closed issues may form circles", async () => {
    writeBeads([
      needs("a", "gone"),
      { ...needs("b", "c"), status: "closed" },
      { ...needs("c", "b"), status: "closed" },
    ]);
    expect((await list()).warnings).toEqual([
      "a depends on gone, which is not in the source; Reprise does not wait for it.",
    ]);
  });

  test("100,000 dependencies in a chain are read", async () => {
    const ids = Array.from({ length: 100_000 }, (_, at) => `i${at}`);
    writeBeads(ids.map((id, at) => needs(id, ...ids.slice(at + 1, at + 2))));
    expect((await list()).issues).toHaveLength(100_000);
  });

  test("a body of 5 MB is read whole", async () => {
    writeMarkdown("a.md", `---\ntitle: Big\n---\n${"x".repeat(5_000_000)}\n`);
    expect((await list()).issues[0]?.body).toHaveLength(5_000_000);
  });
});

describe("unknown parts stay", () => {
  test("Beads: fields, order, numbers, blank and unknown lines, the mode of the file", async () => {
    const memory = '{"_type":"memory","key":"k","value":1.0}';
    const before = `  {"id":"a", "title":"A","weight":1.50,"big":12345678901234567890,"status" : "open" ,"x":{"status":"open"}}`;
    writeBeads([memory, before, "", issue("b")]);
    chmodSync(beadsFile(), 0o640);
    const source = await openSource({ ...deps, clock: { now: () => 0, mono: () => 0 } }, root, OPTIONS);
    await source.claim("a", "open");
    const after = before
      .replace('"status" : "open"', '"status" : "in_progress"')
      .replace("}}", '},"updated_at":"1970-01-01T00:00:00.000Z"}');
    expect(readFileSync(beadsFile(), "utf8")).toBe(`${memory}\n${after}\n\n${JSON.stringify(issue("b"))}\n`);
    expect(statSync(beadsFile()).mode & 0o777).toBe(0o640);
    expect(readdirSync(join(root, ".beads"))).toEqual(["issues.jsonl"]);
  });

  test("Markdown: comments, unknown keys, line ends", async () => {
    writeMarkdown(
      "a.md",
      "---\r\n# mine\r\nstatus:\topen   # now\r\ncustom: {a: [1]}\r\n---\r\nText without end",
    );
    const source = await openSource({ ...deps, clock: { now: () => 0, mono: () => 0 } }, root, OPTIONS);
    await source.claim("a", "open");
    await source.note("a", "one\ntwo");
    expect(readFileSync(join(root, "issues", "a.md"), "utf8")).toBe(
      "---\r\n# mine\r\nstatus:\tin_progress   # now\r\ncustom: {a: [1]}\r\n---\r\nText without end\r\n\r\n> **reprise** 1970-01-01T00:00:00.000Z: one\r\n> two\r\n",
    );
  });

  test.each([
    ["---\ntitle: A\n---\n", "---\ntitle: A\nstatus: in_progress\n---\n"],
    ["---\nstatus:\ntitle: A\n---\n", "---\nstatus: in_progress\ntitle: A\n---\n"],
    ["---\nstatus: # or closed\n---\n", "---\nstatus: in_progress # or closed\n---\n"],
  ])("Markdown: a status is added to %j", async (before, after) => {
    writeMarkdown("a.md", before);
    await (await openSource(deps, root, OPTIONS)).claim("a", "open");
    expect(readFileSync(join(root, "issues", "a.md"), "utf8")).toBe(after);
  });

  test("Beads: a record of another kind with the same id is not an issue", async () => {
    const others = ['{"_type":"memory","id":"a"}', '{"id":"a","title":"was","status":"tombstone"}'];
    writeBeads([`\uFEFF${others[0]}`, others[1], issue("a")]);
    const source = await openSource(deps, root, OPTIONS);
    expect(await source.claim("a", "open")).toBe(true);
    await source.close("a", "done");
    expect(readFileSync(beadsFile(), "utf8").split("\n").slice(0, 2)).toEqual([
      `\uFEFF${others[0]}`,
      others[1],
    ]);
    expect((await source.list()).issues.map(({ status }) => status)).toEqual(["closed"]);
  });

  /** The source asks for the time between reading a file and replacing it. */
  const meanwhile = (act: () => void): TestDeps => {
    let isDone = false;
    const now = () => {
      if (!isDone) act();
      isDone = true;
      return 0;
    };
    return { ...deps, clock: { now, mono: () => 0 } };
  };

  test("Beads: a line that is appended while an issue is changed stays", async () => {
    writeBeads([issue("a")]);
    const world = meanwhile(() => appendFileSync(beadsFile(), `${JSON.stringify(issue("b"))}\n`));
    const source = await openSource(world, root, OPTIONS);
    expect(await source.claim("a", "open")).toBe(true);
    const found = (await source.list()).issues.map(({ id, status }) => [id, status]);
    expect(found).toEqual([
      ["a", "in_progress"],
      ["b", "open"],
    ]);
  });

  test("Beads: a line stays that a program appends after opening the file before the change", async () => {
    writeBeads([issue("a")]);
    const source = await openSource(deps, root, OPTIONS);
    const fd = openSync(beadsFile(), "a");
    try {
      await source.claim("a", "open");
      writeSync(fd, `${JSON.stringify(issue("b"))}\n`);
      await source.note("a", "one");
      writeSync(fd, `${JSON.stringify(issue("c"))}\n`);
      expect((await source.list()).issues.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    } finally {
      closeSync(fd);
    }
  });

  test("Beads: a file that is rewritten while an issue is changed is read again, in place or under a new name", async () => {
    const ways = [
      writeFileSync,
      (path: string, text: string) => {
        writeFileSync(`${path}.new`, text);
        renameSync(`${path}.new`, path);
      },
    ];
    for (const write of ways) {
      writeBeads([issue("a")]);
      const both = `${JSON.stringify(issue("c"))}\n${JSON.stringify(issue("a"))}\n`;
      const source = await openSource(
        meanwhile(() => write(beadsFile(), both)),
        root,
        OPTIONS,
      );
      await source.claim("a", "open");
      const found = (await source.list()).issues.map(({ id, status }) => [id, status]);
      expect(found).toEqual([
        ["c", "open"],
        ["a", "in_progress"],
      ]);
      expect(readdirSync(join(root, ".beads"))).toEqual(["issues.jsonl"]);
    }
  });

  test("Markdown: text that is written into an issue while it is changed stays", async () => {
    writeMarkdown("a.md", "---\ntitle: A\n---\nText.\n");
    const path = join(root, "issues", "a.md");
    const source = await openSource(
      meanwhile(() => appendFileSync(path, "More.\n")),
      root,
      OPTIONS,
    );
    await source.close("a", "done");
    const text = readFileSync(path, "utf8");
    expect(text).toContain("status: closed");
    expect(text).toContain("More.\n");
    expect(text).toContain(": done\n");
  });

  test("any JSON object keeps every field except the one set", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.string(),
        fc.boolean(),
        (object, value, wide) => {
          const text = JSON.stringify(object, null, wide ? 1 : 0);
          const changed: unknown = JSON.parse(withFields(text, { status: value }));
          const { status: _old, ...rest } = JSON.parse(text) as Record<string, unknown>;
          expect(changed).toEqual({ ...rest, status: value });
        },
      ),
    );
  });
});

describe("front matter as people write it", () => {
  const dep = { title: "A", dependencies: ["b", "c"] };
  test.each([
    ["title: A\ndepends_on:\n  - b # first\n  - 'c'\n", dep],
    ["title: A\ndepends_on: [\n  b, # first\n  c,\n]\n", dep],
    ["title: A\ndepends_on: [b,\n  c] # both\nstatus: open\n", dep],
    ["title: A # not this\ndepends_on: b, c\n", dep],
    ["title: [bug] It crashes\ndepends_on: [b, c]\n", { ...dep, title: "[bug] It crashes" }],
    ['title: "Fix #12: \\"quotes\\"" # a word\n', { title: 'Fix #12: "quotes"', dependencies: [] }],
    ["title: 'it''s #1'\n", { title: "it's #1", dependencies: [] }],
    ["title: >-\n  two\n  - lines\ndepends_on: []\n", { title: "two - lines", dependencies: [] }],
  ])("%j", async (head, then) => {
    for (const id of ["b", "c"]) writeMarkdown(`${id}.md`, "---\n---\n");
    writeMarkdown("a.md", `---\n${head}---\n`);
    const { issues, warnings } = await list();
    expect({ issue: issues[0], warnings }).toMatchObject({ issue: { id: "a", ...then }, warnings: [] });
  });
});

test("Markdown: another, half-written file holds up no issue that has begun", async () => {
  writeMarkdown("a.md", "---\nid: z\n---\n");
  const source = await openSource(deps, root, OPTIONS);
  writeMarkdown("0.md", "---\ntitle: ha");
  expect(await source.claim("z", "open")).toBe(true);
  await source.close("z", "done");
  expect(readFileSync(join(root, "issues", "a.md"), "utf8")).toContain("status: closed");
  expect(await faultOf(() => source.close("y", "done"))).toContain("issues/0.md, line 1");
});

test("GitHub: strangers' circles of dependencies stop no issue", async () => {
  fake = await startGitHub();
  fake.issues = [
    [1, "", "OWNER"] as const,
    [2, "Blocked by #3", "NONE"] as const,
    [3, "Blocked by #2", "NONE"] as const,
  ].map(([number, body, association]) => ({
    number,
    title: "T",
    body,
    state: "open" as const,
    labels: [],
    comments: [],
    association,
  }));
  const options = { kind: "github", repository: "acme/shop", apiUrl: fake.url, token: null } as const;
  expect((await (await openSource(deps, root, options)).list()).issues).toHaveLength(3);
});

test("GitHub: an issue whose runner died between comment and close is closed, without a second comment", async () => {
  fake = await startGitHub();
  const half = {
    number: 1,
    title: "T",
    body: "",
    state: "open" as const,
    labels: [],
    comments: ["yes", "done"],
  };
  fake.issues = [half];
  const options = { kind: "github", repository: "acme/shop", apiUrl: fake.url, token: "t" } as const;
  const source = await openSource(deps, root, options);
  await source.close("1", "done");
  expect(fake.issues).toMatchObject([{ state: "closed", comments: ["yes", "done"] }]);
});

test("GitHub: strangers' issues are marked", async () => {
  fake = await startGitHub();
  fake.issues = [
    { number: 1, title: "Mine", body: null, state: "open", labels: [], comments: [] },
    {
      number: 2,
      title: "Theirs",
      body: "ignore all",
      state: "open",
      labels: [],
      comments: [],
      association: "NONE",
    },
  ];
  const options = { kind: "github", repository: "acme/shop", apiUrl: fake.url, token: null } as const;
  const { issues } = await (await openSource(deps, root, options)).list();
  expect(issues.map(({ id, stranger }) => [id, stranger ?? false])).toEqual([
    ["1", false],
    ["2", true],
  ]);
});
