import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  badCredentials,
  type FakeGitHub,
  HEAD,
  notFound,
  rateLimited,
  secondaryLimit,
  startGitHub,
} from "../../test/github-server.ts";
import { Fault } from "../core/faults.ts";
import { accessTo } from "../github/github.ts";
import { openGitHub } from "./github.ts";
import type { HttpOptions } from "../github/github.ts";
import { untilText } from "../lib/until.ts";

const PULL = { host: "github.com", owner: "acme", repository: "shop", number: 42 };
const TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
const NOW = Date.parse("2026-04-14T16:00:00Z");

let fake: FakeGitHub;
let cache: string;

beforeEach(async () => {
  fake = await startGitHub();
  cache = mkdtempSync(join(tmpdir(), "reprise-github-"));
});

afterEach(async () => {
  await fake[Symbol.asyncDispose]();
  rmSync(cache, { recursive: true });
});

function open(change: Partial<HttpOptions> = {}, token: string | null = TOKEN) {
  return openGitHub({
    access: accessTo("github.com", { apiUrl: fake.url, token }, {}),
    missing: { what: "pull request", code: "pull_request_unknown" },
    cacheDirectory: cache,
    timeoutMs: 10_000,
    maxBytes: 64 * 1024 * 1024,
    now: () => NOW,
    ...change,
  });
}

async function comments(change: Partial<HttpOptions> = {}, token: string | null = TOKEN) {
  const progress: number[] = [];
  const found = await (await open(change, token)).comments(PULL, (count) => progress.push(count));
  return { ...found, progress };
}

async function faultOf(work: Promise<unknown>): Promise<Fault> {
  try {
    await work;
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
  throw new Error("no fault");
}

test("comments are read with a reply, a deleted author and an outdated line", async () => {
  fake.comments = [
    { id: 10, body: "Great stuff" },
    { id: 11, body: "and this?", inReplyTo: 10, author: null, association: "NONE", line: null },
    { id: 9_007_199_254_740_991, body: "far", createdAt: "2026-05-01T00:00:00Z" },
  ];
  fake.threads = [[10, true]];
  const base = {
    association: "MEMBER",
    filePath: "src/a.ts",
    originalLine: 2,
    diffHunk: "@@ -1,2 +1,3 @@\n line one\n+line two",
    commit: HEAD,
    createdAt: "2026-04-14T16:00:49Z",
  };
  expect(await comments()).toEqual({
    comments: [
      { ...base, id: "10", author: "octocat", body: "Great stuff", line: 2, inReplyTo: null, resolved: true },
      {
        ...base,
        id: "11",
        author: "ghost",
        association: "NONE",
        body: "and this?",
        line: null,
        inReplyTo: "10",
        resolved: true,
      },
      {
        ...base,
        id: "9007199254740991",
        author: "octocat",
        body: "far",
        line: 2,
        inReplyTo: null,
        createdAt: "2026-05-01T00:00:00Z",
        resolved: null,
      },
    ],
    warnings: [],
    progress: [],
  });
});

test("title, head and the pull request of a branch are read", async () => {
  const github = await open();
  expect(await github.about(PULL)).toEqual({ title: "Make it faster", head: HEAD });
  expect(await github.ofBranch(PULL, { owner: "acme", branch: "faster" })).toBe(42);
  expect(await github.ofBranch(PULL, { owner: "acme", branch: "a&state=closed#/../x" })).toBeNull();
});

test("5,000 comments come in pages of 100, with progress", async () => {
  fake.comments = Array.from({ length: 5_000 }, (_, index) => ({ id: index + 1, body: `comment ${index}` }));
  fake.threads = fake.comments.map(({ id }) => [id, id % 2 === 0]);
  const found = await comments();
  expect(found.comments.map(({ id, resolved }) => [id, resolved])).toEqual(
    fake.comments.map(({ id }) => [String(id), id % 2 === 0]),
  );
  expect(found.progress).toEqual(Array.from({ length: 49 }, (_, index) => (index + 2) * 100));
});

test("a pull request without comments has an empty list", async () => {
  expect(await comments()).toEqual({ comments: [], warnings: [], progress: [] });
});

test("a 5 MB body is read whole", async () => {
  fake.comments = [{ id: 1, body: "x".repeat(5_000_000) }];
  expect((await comments()).comments[0]?.body.length).toBe(5_000_000);
});

test("a page that is known by its ETag is not sent again", async () => {
  fake.comments = Array.from({ length: 250 }, (_, index) => ({ id: index + 1, body: "x" }));
  const first = await comments();
  fake.asked.length = 0;
  const again = await comments();
  expect(again).toEqual(first);
  expect(
    fake.asked.filter(({ method, ifNoneMatch }) => method === "GET" && ifNoneMatch === undefined),
  ).toEqual([]);
  fake.comments = [...fake.comments, { id: 251, body: "new" }];
  expect((await comments()).comments).toHaveLength(251);
  for (const name of readdirSync(cache)) {
    expect(statSync(join(cache, name)).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(cache, name), "utf8")).not.toContain(TOKEN);
  }
});

test.each([true, false])(
  "a full, unchanged page may have got a next one (its reply says so: %s)",
  async (linked) => {
    const all = Array.from({ length: 150 }, (_, index) => ({ id: index + 1, body: "x" }));
    fake.comments = all.slice(0, 100);
    expect((await comments()).comments).toHaveLength(100);
    fake.comments = all;
    if (!linked) {
      const isFirst = ({ path }: { path: string }) => path.endsWith("/comments?per_page=100");
      fake.answer = (asked) => (isFirst(asked) ? { status: 304, body: "" } : undefined);
    }
    const { comments: found, progress } = await comments();
    expect(found.map(({ id }) => id)).toEqual(all.map(({ id }) => String(id)));
    expect(progress).toEqual([150]);
  },
);

test.each(["", "{", "null", "[]", '{"v":1}', "\u0000"])(
  "a kept reply that says %j is requested again",
  async (text) => {
    fake.comments = [{ id: 1, body: "x" }];
    const first = await comments();
    for (const name of readdirSync(cache)) writeFileSync(join(cache, name), text);
    expect(await comments()).toEqual(first);
  },
);

test("a kept reply that was cut off is not believed", async () => {
  fake.comments = [{ id: 1, body: "x" }];
  const first = await comments();
  const [name = ""] = readdirSync(cache);
  const whole = readFileSync(join(cache, name));
  for (let length = 0; length < whole.length; length += 97) {
    writeFileSync(join(cache, name), whole.subarray(0, length));
    expect(await comments()).toEqual(first);
  }
});

test("a cache that cannot be written costs only the next ETag", async () => {
  fake.comments = [{ id: 1, body: "x" }];
  expect((await comments({ cacheDirectory: join(cache, "missing") })).comments).toHaveLength(1);
});

describe("refusals", () => {
  const isGet = (path: string) => path.startsWith("/repos/");
  test.each([
    ["a rejected token", badCredentials, TOKEN, "github_denied", "rejected the token from --token"],
    ["a missing token", badCredentials, null, "github_denied", "wants a token. Set GITHUB_TOKEN"],
    [
      "a protected resource",
      { status: 403, body: { message: "Resource protected by organization SAML enforcement." } },
      TOKEN,
      "github_denied",
      "It says: Resource protected by organization SAML",
    ],
    [
      "the hourly limit",
      rateLimited(NOW / 1000 + 600),
      null,
      "github_limited",
      `It lasts ${untilText(NOW + 600_000, NOW)}.`,
    ],
    [
      "a limit that is over",
      rateLimited(NOW / 1000 - 60),
      TOKEN,
      "github_limited",
      "It ended at 2026-04-14T15:59:00.000Z: try again.",
    ],
    [
      "the hourly limit, with a token",
      { ...rateLimited(NOW / 1000 + 600), status: 429 },
      TOKEN,
      "github_limited",
      `It lasts ${untilText(NOW + 600_000, NOW)}.`,
    ],
    [
      "the secondary limit",
      secondaryLimit,
      TOKEN,
      "github_limited",
      `It lasts ${untilText(NOW + 60_000, NOW)}.`,
    ],
    [
      "a limit until a date",
      { status: 429, headers: { "retry-after": "Tue, 14 Apr 2026 16:05:00 GMT" }, body: {} },
      TOKEN,
      "github_limited",
      `It lasts ${untilText(NOW + 300_000, NOW)}.`,
    ],
    [
      "a limit without a time",
      { status: 429, headers: { "x-ratelimit-reset": "99999999999999" }, body: {} },
      TOKEN,
      "github_limited",
      "does not say when it resets",
    ],
    ["not found", notFound, TOKEN, "pull_request_unknown", "or the token from --token may not see it"],
    [
      "not found, without a token",
      notFound,
      null,
      "pull_request_unknown",
      "or it is private, and no token was given",
    ],
    [
      "a server error",
      { status: 502, body: "<html>Bad gateway</html>" },
      TOKEN,
      "github_unreachable",
      "HTTP 502",
    ],
    [
      "garbage",
      { status: 200, body: "<!doctype html><p>Log in to the Wi-Fi" },
      TOKEN,
      "github_garbled",
      "no JSON",
    ],
    ["not a list", { status: 200, body: { message: "hello" } }, TOKEN, "github_garbled", "not a list"],
    ["a number", { status: 200, body: "5" }, TOKEN, "github_garbled", "no JSON"],
    ["null", { status: 200, body: "null" }, TOKEN, "github_garbled", "no JSON"],
    ["a text", { status: 200, body: '"total_count"' }, TOKEN, "github_garbled", "no JSON"],
    ["an unknown list", { status: 200, body: { total_count: 1, x: 5 } }, TOKEN, "github_garbled", ""],
    ["cut JSON", { status: 200, body: '[{"id": 1, "bo' }, TOKEN, "github_garbled", "no JSON"],
    ["no content", { status: 204, body: "" }, TOKEN, "github_garbled", "no JSON"],
    [
      "an odd refusal",
      { status: 422, body: { message: "Validation \u001b]0;x\u0007Failed" } },
      TOKEN,
      "github_garbled",
      "HTTP 422",
    ],
    [
      "a redirect to another host",
      { status: 302, headers: { location: "https://evil.example/x" }, body: "" },
      TOKEN,
      "github_garbled",
      "evil.example",
    ],
    [
      "a redirect to nowhere",
      { status: 302, headers: { location: "http://[" }, body: "" },
      TOKEN,
      "github_garbled",
      "its redirect is not a valid URL",
    ],
    [
      "a redirect loop",
      { status: 301, headers: { location: "/repos/acme/shop/pulls/42/comments" }, body: "" },
      TOKEN,
      "github_garbled",
      "more than 3 times",
    ],
    [
      "a token that comes back",
      { status: 422, body: { message: `what is ${TOKEN}?` } },
      TOKEN,
      "github_garbled",
      "what is",
    ],
  ] as const)("%s", async (_name, reply, token, code, message) => {
    fake.answer = ({ path }) => (isGet(path) ? reply : undefined);
    const fault = await faultOf(comments({}, token));
    expect([fault.code, fault.message]).toEqual([code, expect.stringContaining(message)]);
    const all = JSON.stringify([fault.message, fault.facts, String(fault.cause), fault.stack]);
    expect(all).not.toContain(TOKEN);
    expect(fault.message).not.toMatch(/[\u001b\u0007]/);
  });

  test("a reply that is too big is refused", async () => {
    fake.comments = [{ id: 1, body: "x".repeat(3_000_000) }];
    const fault = await faultOf(comments({ maxBytes: 2 * 1024 * 1024 }));
    expect([fault.code, fault.message]).toEqual([
      "github_garbled",
      expect.stringContaining("more than 2 MiB"),
    ]);
  });

  test("a missing answer times out", async () => {
    fake.answer = ({ path }) => (isGet(path) ? { status: 200, body: null } : undefined);
    const fault = await faultOf(comments({ timeoutMs: 200 }));
    expect([fault.code, fault.message]).toEqual([
      "github_unreachable",
      expect.stringContaining("no answer within"),
    ]);
  });

  test("an unreachable server is reported", async () => {
    await fake[Symbol.asyncDispose]();
    const fault = await faultOf(comments());
    expect([fault.code, fault.message]).toEqual([
      "github_unreachable",
      expect.stringContaining("ECONNREFUSED"),
    ]);
  });

  test("a next page on another host is not requested, so it gets no token", async () => {
    const seen: (string | undefined)[] = [];
    const other = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end("[]");
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const link = `<http://127.0.0.1:${port}/page2>; rel="next"`;
    fake.answer = ({ path }) => (isGet(path) ? { status: 200, headers: { link }, body: [] } : undefined);
    const fault = await faultOf(comments());
    expect([fault.code, seen]).toEqual(["github_garbled", []]);
    await new Promise((resolve) => other.close(resolve));
  });

  test("endless pages are cut off", async () => {
    fake.answer = ({ path }) =>
      isGet(path)
        ? { status: 200, headers: { link: `<${fake.url}${path}>; rel="next"` }, body: [] }
        : undefined;
    expect((await comments()).warnings).toEqual([expect.stringContaining("Only the first 0 comments")]);
  });
});

test("a renamed repository is followed on the same host", async () => {
  fake.comments = [{ id: 1, body: "x" }];
  fake.answer = ({ path }) =>
    path.startsWith("/repos/acme/old/")
      ? {
          status: 301,
          headers: { location: path.replace("/old/", "/shop/") },
          body: { message: "Moved Permanently" },
        }
      : undefined;
  const github = await open();
  const found = await github.comments({ ...PULL, repository: "old" }, () => {});
  expect(found.comments).toHaveLength(1);
});

test("comments that differ from the documentation are left out and counted", async () => {
  const good = { id: 1, path: "a", body: "x", created_at: "2026-04-14T16:00:49Z" };
  const items = [
    good,
    { ...good, id: "1; rm" },
    { ...good, id: 2, body: 7 },
    null,
    { ...good, id: 3, created_at: "soon" },
    { ...good, id: 4, line: -3, commit_id: "; rm", user: "x" },
  ];
  fake.answer = ({ path }) => (path.startsWith("/repos/") ? { status: 200, body: items } : undefined);
  const found = await comments();
  expect(found.comments.map(({ id, line, commit, author }) => [id, line, commit, author])).toEqual([
    ["1", null, null, "ghost"],
    ["4", null, null, "ghost"],
  ]);
  expect(found.warnings).toEqual(["4 of GitHub's comments were not understood and are left out."]);
});

describe("the resolved state of threads", () => {
  test.each([
    ["without a token", null, undefined, "only with a token"],
    ["where GraphQL is off", TOKEN, notFound, "is not known"],
    ["where GraphQL is garbage", TOKEN, { status: 200, body: "<html>" }, "is not known"],
    [
      "where GraphQL has errors",
      TOKEN,
      { status: 200, body: { data: null, errors: [{ message: "no" }] } },
      "answers with errors",
    ],
    [
      "where GraphQL has no threads",
      TOKEN,
      { status: 200, body: { data: { repository: null } } },
      "no threads",
    ],
    ["where GraphQL is limited", TOKEN, secondaryLimit, "is used up"],
    [
      "where GraphQL sends us elsewhere",
      TOKEN,
      { status: 302, headers: { location: "https://evil.example" }, body: "" },
      "is not known",
    ],
  ] as const)("is unknown %s, and a warning says so", async (_name, token, reply, message) => {
    fake.comments = [{ id: 1, body: "x" }];
    fake.threads = [[1, true]];
    fake.answer = ({ method }) => (method === "POST" ? reply : undefined);
    const found = await comments({}, token);
    expect(found.comments.map(({ resolved }) => resolved)).toEqual([null]);
    expect(found.warnings).toEqual([expect.stringContaining(message)]);
  });
});

test("GitHub Enterprise uses REST below /api/v3 and GraphQL below /api", async () => {
  await fake[Symbol.asyncDispose]();
  fake = await startGitHub("/api/v3");
  fake.comments = [{ id: 1, body: "x" }];
  fake.threads = [[1, false]];
  const found = await comments();
  expect(found.comments.map(({ resolved }) => resolved)).toEqual([false]);
  expect(fake.asked.map(({ path }) => new URL(path, "http://x").pathname)).toEqual(
    expect.arrayContaining(["/api/v3/repos/acme/shop/pulls/42/comments", "/api/graphql"]),
  );
});
