/**
 * A GitHub server on the loopback: the part of the REST and GraphQL API that reviews need, with the shapes, headers
 * and refusals that GitHub documents. Faults are switched on by `answer`.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface FakeComment {
  readonly id: number;
  readonly body: string;
  readonly author?: string | null;
  readonly association?: string;
  readonly path?: string;
  readonly line?: number | null;
  readonly inReplyTo?: number;
  readonly createdAt?: string;
}

export interface FakeIssue {
  readonly number: number;
  readonly title: string;
  readonly body: string | null;
  state: "open" | "closed";
  labels: string[];
  readonly association?: string;
  readonly pullRequest?: true;
  readonly comments: string[];
}

export interface FakeReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** A string is sent as it is; null: the connection stays open without an answer. */
  readonly body: unknown;
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly token: string | undefined;
  readonly ifNoneMatch: string | undefined;
}

export interface FakeGitHub extends AsyncDisposable {
  readonly url: string;
  readonly asked: Asked[];
  comments: readonly FakeComment[];
  /** Ids of comments that begin a thread, and whether it is resolved. */
  threads: readonly (readonly [root: number, resolved: boolean])[];
  title: string;
  head: string;
  branch: string;
  /** Changed by requests to the server. */
  issues: FakeIssue[];
  /** Answers in GitHub's place where it returns something. */
  answer: (asked: Asked) => FakeReply | undefined;
}

export const HEAD = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

export async function startGitHub(prefix = ""): Promise<FakeGitHub> {
  const server = createServer((request, response) => {
    void handle(fake, prefix, request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const fake: FakeGitHub = {
    url: `http://127.0.0.1:${port}${prefix}`,
    asked: [],
    comments: [],
    threads: [],
    title: "Make it faster",
    head: HEAD,
    branch: "faster",
    issues: [],
    answer: () => undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return fake;
}

export function rateLimited(resetSeconds: number): FakeReply {
  return {
    status: 403,
    headers: {
      "x-ratelimit-limit": "60",
      "x-ratelimit-remaining": "0",
      "x-ratelimit-reset": String(resetSeconds),
      "x-ratelimit-resource": "core",
    },
    body: {
      message: "API rate limit exceeded for 203.0.113.7.",
      documentation_url: "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api",
    },
  };
}

export const secondaryLimit: FakeReply = {
  status: 403,
  headers: { "retry-after": "60" },
  body: {
    message: "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    documentation_url: "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api",
  },
};

export const badCredentials: FakeReply = {
  status: 401,
  body: { message: "Bad credentials", documentation_url: "https://docs.github.com/rest", status: "401" },
};

export const notFound: FakeReply = {
  status: 404,
  body: { message: "Not Found", documentation_url: "https://docs.github.com/rest", status: "404" },
};

async function handle(
  fake: FakeGitHub,
  prefix: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { headers, method = "", url = "" } = request;
  const path = url;
  const asked = { method, path, token: headers.authorization, ifNoneMatch: headers["if-none-match"] };
  fake.asked.push(asked);
  const reply = fake.answer(asked) ?? route(fake, prefix, asked, Buffer.concat(chunks).toString("utf8"));
  if (reply.body === null) return;
  const body = typeof reply.body === "string" ? reply.body : JSON.stringify(reply.body);
  const etag = `W/"${createHash("sha256").update(body).digest("hex")}"`;
  const common = { "content-type": "application/json; charset=utf-8", ...reply.headers };
  if (method === "GET" && reply.status === 200 && asked.ifNoneMatch === etag) {
    response.writeHead(304, { ...common, etag }).end();
    return;
  }
  response.writeHead(reply.status, reply.status === 200 ? { etag, ...common } : common).end(body);
}

function route(fake: FakeGitHub, prefix: string, asked: Asked, body: string): FakeReply {
  const root = prefix.replace(/\/v3$/, "");
  const url = new URL(asked.path, "http://localhost");
  if (asked.method === "POST" && url.pathname === `${root}/graphql`) return graphql(fake, asked, body);
  const path = url.pathname.startsWith(prefix) ? url.pathname.slice(prefix.length) : "";
  if (path.startsWith("/repos/acme/shop/issues")) return issueRoute(fake, { url, path, asked, body });
  if (path === "/repos/acme/shop/pulls/42") {
    return {
      status: 200,
      body: { number: 42, title: fake.title, head: { sha: fake.head, ref: fake.branch } },
    };
  }
  if (path === "/repos/acme/shop/pulls") {
    const mine = url.searchParams.get("head") === `acme:${fake.branch}`;
    return { status: 200, body: mine ? [{ number: 42 }] : [] };
  }
  if (path !== "/repos/acme/shop/pulls/42/comments") return notFound;
  const size = Number(url.searchParams.get("per_page") ?? "30");
  const page = Number(url.searchParams.get("page") ?? "1");
  const items = fake.comments.slice((page - 1) * size, page * size).map(toJson);
  const more = page * size < fake.comments.length;
  const last = Math.ceil(fake.comments.length / size);
  const link = (to: number, rel: string) => `<${fake.url}${path}?per_page=${size}&page=${to}>; rel="${rel}"`;
  return {
    status: 200,
    ...(more ? { headers: { link: `${link(page + 1, "next")}, ${link(last, "last")}` } } : {}),
    body: items,
  };
}

function toJson(comment: FakeComment): unknown {
  const { id, body, author = "octocat", association = "MEMBER", path = "src/a.ts", line = 2 } = comment;
  const url = "https://api.github.com/repos/acme/shop/pulls";
  return {
    url: `${url}/comments/${id}`,
    pull_request_review_id: 42,
    id,
    node_id: "MDI0OlB1bGxSZXF1ZXN0UmV2aWV3Q29tbWVudDEw",
    diff_hunk: "@@ -1,2 +1,3 @@\n line one\n+line two",
    path,
    position: 1,
    original_position: 4,
    commit_id: HEAD,
    original_commit_id: "9c48853fa3dc5c1c3d6f1f1cd1f2743e72652840",
    ...(comment.inReplyTo === undefined ? {} : { in_reply_to_id: comment.inReplyTo }),
    user: author === null ? null : { login: author, id: 1, type: "User", site_admin: false },
    body,
    created_at: comment.createdAt ?? "2026-04-14T16:00:49Z",
    updated_at: "2026-04-14T16:00:49Z",
    html_url: `https://github.com/acme/shop/pull/42#discussion_r${id}`,
    pull_request_url: `${url}/42`,
    author_association: association,
    _links: { self: { href: `${url}/comments/${id}` } },
    start_line: null,
    original_start_line: null,
    start_side: null,
    line,
    original_line: 2,
    side: "RIGHT",
    subject_type: "line",
  };
}

interface IssueRequest {
  readonly url: URL;
  readonly path: string;
  readonly asked: Asked;
  readonly body: string;
}

function issueRoute(fake: FakeGitHub, { url, path, asked, body }: IssueRequest): FakeReply {
  const [, digits, part] = /^\/repos\/acme\/shop\/issues(?:\/(\d+))?(?:\/(\w+))?$/.exec(path) ?? [];
  if (digits === undefined) {
    const size = Number(url.searchParams.get("per_page") ?? "30");
    const page = Number(url.searchParams.get("page") ?? "1");
    const items = fake.issues.slice((page - 1) * size, page * size).map(issueJson);
    const next = `<${fake.url}${path}?per_page=${size}&page=${page + 1}>; rel="next"`;
    const more = page * size < fake.issues.length;
    return { status: 200, ...(more ? { headers: { link: next } } : {}), body: items };
  }
  const issue = fake.issues.find(({ number }) => number === Number(digits));
  if (issue === undefined) return notFound;
  if (asked.method === "GET" && part === "comments")
    return { status: 200, body: issue.comments.map((text, n) => ({ id: n + 1, body: text })) };
  if (asked.method === "GET") return { status: 200, body: issueJson(issue) };
  if (asked.token === undefined) return badCredentials;
  const sent = JSON.parse(body) as { labels?: string[]; body?: string; state?: "open" | "closed" };
  if (part === "labels") issue.labels.push(...(sent.labels ?? []));
  else if (part === "comments") issue.comments.push(sent.body ?? "");
  else if (sent.state !== undefined) issue.state = sent.state;
  return { status: part === undefined ? 200 : 201, body: part === "labels" ? [] : issueJson(issue) };
}

function issueJson(issue: FakeIssue): unknown {
  const { number, title, body, state, labels, association = "MEMBER" } = issue;
  return {
    id: 1_000_000 + number,
    number,
    title,
    body,
    state,
    locked: false,
    labels: labels.map((name) => ({ id: 1, name, color: "ededed", default: false })),
    user: { login: "octocat", id: 1, type: "User" },
    author_association: association,
    created_at: "2026-04-14T16:00:49Z",
    ...(issue.pullRequest === true ? { pull_request: { url: "https://api.github.com/x" } } : {}),
  };
}

const THREADS_A_PAGE = 100;

function graphql(fake: FakeGitHub, asked: Asked, body: string): FakeReply {
  if (asked.token === undefined) return badCredentials;
  const { variables } = JSON.parse(body) as { variables: { number: number; after: string | null } };
  if (variables.number !== 42) {
    const message = `Could not resolve to a PullRequest with the number of ${variables.number}.`;
    return {
      status: 200,
      body: { data: { repository: { pullRequest: null } }, errors: [{ type: "NOT_FOUND", message }] },
    };
  }
  const from = Number(variables.after ?? "0");
  const to = from + THREADS_A_PAGE;
  const nodes = fake.threads.slice(from, to).map(([root, isResolved]) => ({
    isResolved,
    comments: { nodes: [{ databaseId: root }] },
  }));
  const pageInfo = { hasNextPage: to < fake.threads.length, endCursor: String(to) };
  return {
    status: 200,
    body: { data: { repository: { pullRequest: { reviewThreads: { pageInfo, nodes } } } } },
  };
}
