/** `reprise review` against a GitHub server on the loopback: which pull request, its comments, and every refusal. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { badCredentials, type FakeGitHub, notFound, rateLimited, startGitHub } from "../github-server.ts";
import { ReviewBox } from "./review-box.ts";
import { collect, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: ReviewBox;
let github: FakeGitHub;
beforeEach(async () => {
  box = new ReviewBox();
  github = await startGitHub();
});
afterEach(async () => {
  box[Symbol.dispose]();
  await github[Symbol.asyncDispose]();
});

const TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
const many = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ id: at + 1, body: `No. ${at + 1}` }));

/** Asks the loopback server. */
function ask(args: readonly string[], env: Record<string, string> = { GITHUB_TOKEN: TOKEN }) {
  return box.review([...args, "--api-url", github.url], { env });
}

const exported = (stdout: string) =>
  stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe("a pull request", () => {
  test.each([
    ["a URL", "https://github.com/acme/shop/pull/42/files#diff-1"],
    ["its name", "acme/shop#42"],
    ["a number", "42"],
    ["a number with a hash", "#42"],
    ["the branch", null],
  ])("is found by %s", async (_, name) => {
    github.comments = many(1);
    const { code, stdout } = await ask([...(name === null ? [] : [name]), "--export", "jsonl"]);
    expect([code, exported(stdout).map(({ id }) => id)]).toEqual([0, ["1"]]);
  });

  test.each([
    ["another host", "https://gitlab.com/acme/shop/pull/42", /gitlab\.com is not a GitHub server/],
    [
      "a host that looks like it",
      "https://github.com.evil.example/acme/shop/pull/42",
      /is not a GitHub server/,
    ],
    ["escape sequences", "\u001b]52;c;eA==\u0007", /is not a pull request/],
    ["a number that is too large", "99999999999", /must be between 1 and/],
  ])("%s is refused without a request", async (_, name, says) => {
    const { code, stdout, stderr } = await ask([name, "--export", "jsonl"]);
    expect([code, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(says);
    expect(stderr).not.toMatch(/[\u0007\u001b]/);
    expect(github.asked).toEqual([]);
  });

  test("is refused by number outside of a clone, and by a branch without a pull request", async () => {
    github.branch = "another";
    const outside = await box.review(["42", "--export", "jsonl"], { cwd: box.home });
    expect([outside.code, outside.stderr]).toEqual([
      2,
      expect.stringContaining("not a clone with a GitHub remote"),
    ]);
    const branch = await ask(["--export", "jsonl"]);
    expect([branch.code, branch.stderr]).toEqual([
      3,
      expect.stringContaining('no open pull request of branch "faster"'),
    ]);
  });
});

describe("comments", () => {
  test("every page is read, and the second time only changed pages", async () => {
    github.comments = many(230);
    github.threads = [
      [1, true],
      [2, false],
    ];
    const first = await ask(["42", "--export", "jsonl"]);
    const comments = exported(first.stdout);
    expect([first.code, comments.length]).toEqual([0, 230]);
    expect(comments.slice(0, 3).map(({ resolved }) => resolved)).toEqual([true, false, null]);
    expect(comments[0]).toEqual({
      id: "1",
      author: "octocat",
      author_association: "MEMBER",
      file_path: "src/a.ts",
      line_number: 2,
      original_line_number: 2,
      body: "No. 1",
      diff_hunk: "@@ -1,2 +1,3 @@\n line one\n+line two",
      commit_sha: "6dcb09b5b57875f334f61aebed695e2e4193db5e",
      in_reply_to_id: null,
      created_at: "2026-04-14T16:00:49Z",
      resolved: true,
    });
    const pages = github.asked.filter(({ path }) => path.includes("/comments")).map(({ path }) => path);
    expect(pages.map((path) => new URL(path, github.url).searchParams.get("page") ?? "1")).toEqual([
      "1",
      "2",
      "3",
    ]);
    github.asked.length = 0;
    const second = await ask(["42", "--export", "jsonl"]);
    expect(second.stdout).toBe(first.stdout);
    const gets = github.asked.filter(({ method }) => method === "GET");
    expect(gets.map(({ ifNoneMatch }) => typeof ifNoneMatch)).toEqual(gets.map(() => "string"));
    // An edited comment is requested by its old ETag and comes again.
    github.comments = [{ id: 1, body: "edited" }, ...many(230).slice(1)];
    expect(exported((await ask(["42", "--export", "jsonl"])).stdout)[0]).toMatchObject({
      id: "1",
      body: "edited",
    });
    expect(kept()).not.toContain(TOKEN);
  });

  test("exported comments can be read back", async () => {
    github.comments = many(2);
    const { stdout } = await ask(["42", "--export", "jsonl"]);
    box.comments(...(exported(stdout) as { id: string; body: string }[]));
    const again = await box.review(["42", "--comments", box.commentsFile, "--export", "jsonl"]);
    expect(again.stdout).toBe(stdout);
  });

  test("a pull request without comments has an empty export, and nothing for Codex to do", async () => {
    expect(await ask(["42", "--export", "jsonl"])).toMatchObject({ code: 0, stdout: "" });
    expect(await ask(["42", "--export", "markdown"])).toMatchObject({
      code: 0,
      stdout: "# Review comments of acme/shop#42: `Make it faster`\n\n0 comments\n",
    });
    const run = await ask(["42", "--run"]);
    expect([run.code, run.stderr]).toEqual([0, expect.stringContaining("There are no comments for Codex.")]);
    expect([box.journalEntries(), box.sidecarPaths()]).toEqual([[], []]);
  });

  test("5,000 comments are exported", async () => {
    github.comments = many(5_000);
    const { code, stdout } = await ask(["42", "--export", "jsonl"]);
    expect([code, exported(stdout).length]).toEqual([0, 5_000]);
    const run = await ask(["42", "--run"]);
    expect([run.code, run.stderr]).toEqual([
      0,
      expect.stringMatching(/5000 comments for Codex[^]*warning: Not sent to Codex: \d+ comments/),
    ]);
    expect(box.prompts()[0]?.length).toBeLessThan(410_000);
  });

  test("a body of 5 MB is exported whole, and cut for Codex", async () => {
    const body = `begin ${"x".repeat(5_000_000)} end`;
    github.comments = [
      { id: 1, body },
      { id: 2, body: "and a short one" },
    ];
    const { code, stdout } = await ask(["42", "--export", "jsonl"]);
    expect([code, exported(stdout)[0]?.["body"] === body]).toEqual([0, true]);
    const run = await ask(["42", "--run"]);
    expect([run.code, run.stderr]).toEqual([
      0,
      expect.stringMatching(/warning: Not sent to Codex: \d+ characters of long texts/),
    ]);
    const [prompt = ""] = box.prompts();
    expect(prompt.length).toBeLessThan(25_000);
    expect(prompt).toMatch(/\| \[… \d+ more characters were cut off\]\n[^]*\| and a short one\n/);
  });

  test("comments of strangers are left out, unless all are requested", async () => {
    github.comments = [
      { id: 1, body: "of a member" },
      { id: 2, body: "of a stranger", author: "mallory", association: "NONE" },
      { id: 3, body: "of a contributor", association: "CONTRIBUTOR" },
    ];
    const run = await ask(["42", "--run"]);
    expect([run.code, run.stderr]).toEqual([0, expect.stringContaining("left out: 2 comments of authors")]);
    await ask(["42", "--run", "--include-all"]);
    const [trusted = "", all = ""] = box.prompts();
    expect(
      [trusted, all].map((prompt) => [/of a stranger/.test(prompt), /of a contributor/.test(prompt)]),
    ).toEqual([
      [false, false],
      [true, true],
    ]);
    expect(all).toContain('| author: "mallory", association: "NONE"\n');
  });

  test("a clone at another commit is reported", async () => {
    github.comments = many(1);
    const other = await ask(["42", "--run"]);
    expect(other.stderr).toMatch(
      /warning: The clone is at [0-9a-f]{10}, the pull request at 6dcb09b5b5: lines may differ\./,
    );
    github.head = box.git("rev-parse", "HEAD");
    expect((await ask(["42", "--run"])).stderr).not.toContain("lines may differ");
  });
});

describe("refusals", () => {
  test("an exhausted rate limit is reported", async () => {
    const reset = Math.floor(Date.now() / 1000) + 600;
    github.answer = () => rateLimited(reset);
    const at = new Date(reset * 1000).toISOString();
    const plain = await ask(["42", "--run"], {});
    expect([plain.code, plain.stdout]).toEqual([75, ""]);
    expect(plain.stderr).toMatch(
      /is used up\. It lasts until (\d{4}-\d\d-\d\d )?\d\d:\d\d \(in (10|9) min\)\./,
    );
    expect(plain.stderr).toContain("With a token");
    const json = await ask(["42", "--run", "--json"]);
    expect([json.code, JSON.parse(json.stdout), json.stderr]).toEqual([
      75,
      {
        ok: false,
        error: {
          code: "github_limited",
          message: expect.stringContaining("It lasts until "),
          facts: {
            host: new URL(github.url).host,
            status: 403,
            said: "API rate limit exceeded for 203.0.113.7.",
            resetsAt: at,
            retryable: true,
          },
        },
      },
      "",
    ]);
  });

  test.each([
    ["a token that is wrong", badCredentials, { GH_TOKEN: TOKEN }, 8, "rejected the token from GH_TOKEN"],
    ["no token", badCredentials, {}, 8, "wants a token. Set GITHUB_TOKEN or give --token."],
    [
      "a token without the right",
      { status: 403, body: { message: "Resource not accessible" } },
      { GITHUB_TOKEN: TOKEN },
      8,
      "does not let the token from GITHUB_TOKEN do this",
    ],
    [
      "no such pull request",
      notFound,
      { GITHUB_TOKEN: TOKEN },
      3,
      "has no such pull request, or the token from GITHUB_TOKEN may not see it",
    ],
    ["a private one without a token", notFound, {}, 3, "it is private, and no token was given"],
    ["a server in trouble", { status: 502, body: "<html>" }, {}, 75, "cannot answer right now (HTTP 502)"],
    ["no API", { status: 200, body: "<html>hello</html>" }, {}, 6, "does not answer as GitHub's API does"],
    [
      "evil words",
      { status: 401, body: { message: "\u001b]52;c;eA==\u0007 \u202e" } },
      {},
      8,
      "\\x1b]52;c;eA==\\x07",
    ],
  ])("%s", async (_, reply, env, exit, says) => {
    github.answer = () => reply;
    const { code, stdout, stderr } = await ask(["42", "--export", "jsonl"], env);
    expect([code, stdout]).toEqual([exit, ""]);
    expect(stderr).toContain(says);
    expect(stderr).not.toContain(TOKEN);
    expect(stderr).not.toMatch(/[\u0007\u001b\u202e]/);
  });

  test("an unreachable server is reported", async () => {
    const { url } = github;
    await github[Symbol.asyncDispose]();
    const { code, stderr } = await box.review(["42", "--api-url", url, "--export", "jsonl"]);
    expect([code, stderr]).toEqual([75, expect.stringContaining("does not answer: ECONNREFUSED")]);
  });

  test("GraphQL that is switched off costs only the state of threads", async () => {
    github.comments = many(1);
    github.answer = ({ method }) => (method === "POST" ? notFound : undefined);
    const { code, stdout, stderr } = await ask(["42", "--export", "jsonl"]);
    expect([code, exported(stdout)[0]?.["resolved"], stderr]).toEqual([
      0,
      null,
      expect.stringContaining("Which comments are resolved is not known"),
    ]);
  });

  test.each([
    ["not a URL", "github", 2],
    ["a password in it", "https://user:pass@github.example.com/api/v3", 2],
  ])("--api-url is refused: %s", async (_, url, exit) => {
    const { code, stderr } = await box.review(["42", "--api-url", url, "--export", "jsonl"]);
    expect([code, stderr]).toEqual([exit, expect.stringContaining("--api-url must be an http or https URL")]);
    expect(stderr).not.toContain("pass@");
  });
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)(
  "%s while GitHub does not answer ends the command at once: exit %i, nothing was started",
  async (signal, exit) => {
    github.answer = () => ({ status: 200, body: null });
    const child = box.spawn(["review", "42", "--run", "--json", "--api-url", github.url]);
    const result = collect(child);
    await until("GitHub is asked", () => github.asked.length > 0);
    child.kill(signal);
    const { code, stdout } = await result;
    expect([code, JSON.parse(stdout)]).toEqual([
      exit,
      {
        ok: false,
        status: "interrupted",
        reason: "Stopped before Codex was started.",
        handle: null,
        resumed: false,
        exitCode: exit,
        declined: 0,
        text: "",
      },
    ]);
    expect([box.journalEntries(), box.sidecarPaths()]).toEqual([[], []]);
  },
  20_000,
);

test("the token is in no file, no output, and not among the variables that Codex gets", async () => {
  github.comments = many(1);
  const run = await ask(["42", "--run", "--token", TOKEN, "--json"], {});
  expect([run.code, github.asked.every(({ token }) => token?.includes(TOKEN))]).toEqual([0, true]);
  expect(run.stdout + run.stderr + JSON.stringify(box.journalEntries()) + kept()).not.toContain(TOKEN);
});

test("GitHub Enterprise uses its own API, GraphQL and token", async () => {
  await using enterprise = await startGitHub("/api/v3");
  using clone = new ReviewBox("git@github.example.com:acme/shop.git");
  enterprise.comments = many(2);
  enterprise.threads = [[1, true]];
  const { code, stdout } = await clone.review(["42", "--export", "jsonl", "--api-url", enterprise.url], {
    env: { GH_ENTERPRISE_TOKEN: TOKEN, GITHUB_TOKEN: "for-github-com" },
  });
  expect([code, exported(stdout).map(({ resolved }) => resolved)]).toEqual([0, [true, null]]);
  expect(enterprise.asked.map(({ path }) => path.split("?")[0]).toSorted()).toEqual([
    "/api/graphql",
    "/api/v3/repos/acme/shop/pulls/42",
    "/api/v3/repos/acme/shop/pulls/42/comments",
  ]);
  expect(enterprise.asked.every(({ token }) => token?.endsWith(TOKEN))).toBe(true);
});

describe.skipIf(!HAS_TMUX)("in a terminal", () => {
  test.each(["q", "C-c"])("%s does not wait for a server that never answers", async (key) => {
    github.answer = () => ({ status: 200, body: null });
    using screen = new Screen(box);
    screen.type(`reprise review 42 --api-url ${github.url}; echo "ENDED $?"`);
    await screen.shows("Loading comments");
    await until("GitHub is asked", () => github.asked.length > 0);
    screen.key(key);
    await screen.shows(/^ENDED 0$/m, 10_000);
  });

  test("a terminal without capabilities is not drawn on", async () => {
    using screen = new Screen(box);
    const { text, code } = await screen.command(`TERM=dumb reprise review 42 --comments ${box.commentsFile}`);
    expect(code).toBe(2);
    expect(text.replaceAll("\n", "")).toContain(
      "needs a terminal that can do more than TERM=dumb. Use --run",
    );
  });
});

/** Everything below `reviews`, which is for the owner's eyes alone. */
function kept(): string {
  const names = readdirSync(box.reviews, { recursive: true, encoding: "utf8" }).map((name) =>
    join(box.reviews, name),
  );
  const files = names.filter((name) => statSync(name).isFile());
  expect(files.map((name) => statSync(name).mode & 0o777)).toEqual(files.map(() => 0o600));
  return files.map((name) => readFileSync(name, "utf8")).join("\n");
}
