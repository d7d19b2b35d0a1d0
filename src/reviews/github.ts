/**
 * Pull requests from GitHub's API: review comments, the resolved state of their threads, title and head. Skips and
 * reports anything that does not match the documentation (I9).
 */
import { Fault } from "../core/faults.ts";
import { arrayIn, fieldIn, isObject, objectIn, stringIn } from "../lib/json.ts";
import { type GitHubClient, connectGitHub, type HttpOptions, type Repository } from "../github/github.ts";
import type { ReviewComment, PullRequest } from "./review.ts";

export interface ReviewGitHub {
  /** Calls `progress` with the number so far, from the second page on. */
  comments(pullRequest: PullRequest, progress: (comments: number) => void): Promise<GitHubComments>;
  about(pullRequest: PullRequest): Promise<{ readonly title: string | null; readonly head: string | null }>;
  /** The newest open pull request with this branch as its head. Null: there is no such pull request. */
  ofBranch(
    base: Repository,
    head: { readonly owner: string; readonly branch: string },
  ): Promise<number | null>;
}

export interface GitHubComments {
  readonly comments: readonly ReviewComment[];
  readonly warnings: readonly string[];
}

const PAGE = 100;
const MAX_PAGES = 200;

export async function openGitHub(options: HttpOptions): Promise<ReviewGitHub> {
  const client = await connectGitHub(options);
  return {
    async comments(pullRequest, progress) {
      const [listed, threads] = await Promise.all([
        listComments(client, pullRequest, progress),
        resolvedThreads(client, pullRequest, options),
      ]);
      const { resolved } = threads;
      return {
        comments: listed.comments.map((comment) => ({
          ...comment,
          resolved: resolved.get(comment.id) ?? resolved.get(comment.inReplyTo ?? "") ?? null,
        })),
        warnings: [...listed.warnings, ...threads.warnings],
      };
    },
    async about(pullRequest) {
      const data = await client.ask("GET /repos/{owner}/{repo}/pulls/{pull_number}", place(pullRequest));
      return { title: stringIn(data, "title") ?? null, head: commitIn(objectIn(data, "head"), "sha") };
    },
    async ofBranch({ owner, repository }, head) {
      const found = await client.ask("GET /repos/{owner}/{repo}/pulls", {
        owner,
        repo: repository,
        head: `${head.owner}:${head.branch}`,
        state: "open",
        per_page: 1,
      });
      const number = Array.isArray(found) ? fieldIn(found[0], "number") : undefined;
      return typeof number === "number" && Number.isInteger(number) ? number : null;
    },
  };
}

function place({ owner, repository, number }: PullRequest) {
  return { owner, repo: repository, pull_number: number };
}

async function listComments(
  client: GitHubClient,
  pullRequest: PullRequest,
  progress: (comments: number) => void,
): Promise<GitHubComments> {
  const comments = new Map<string, ReviewComment>();
  const warnings: string[] = [];
  let strange = 0;
  let pages = 0;
  for await (const page of commentPages(client, pullRequest)) {
    for (const item of page) {
      const comment = toComment(item);
      if (comment === null) strange += 1;
      // A comment made meanwhile moves others to the next page, where they appear again.
      else comments.set(comment.id, comment);
    }
    pages += 1;
    if (pages > 1 && page.length > 0) progress(comments.size);
    if (pages === MAX_PAGES) {
      warnings.push(`Only the first ${comments.size} comments were taken.`);
      break;
    }
  }
  if (strange > 0) warnings.push(`${strange} of GitHub's comments were not understood and are left out.`);
  return { comments: [...comments.values()], warnings };
}

/** A full page without a next link may not be the last: its link may be as old as the cached page. */
async function* commentPages(
  client: GitHubClient,
  pullRequest: PullRequest,
): AsyncGenerator<readonly unknown[], void> {
  const route = "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments";
  let pages = 0;
  let full = true;
  while (full) {
    full = false;
    const from = pages === 0 ? {} : { page: pages + 1 };
    for await (const page of client.pages(route, { ...place(pullRequest), per_page: PAGE, ...from })) {
      if (!Array.isArray(page)) throw new Fault("github_garbled", "GitHub's list of comments is not a list.");
      yield page as readonly unknown[];
      pages += 1;
      full = page.length >= PAGE;
    }
  }
}

/** As documented for "List review comments on a pull request". Null: anything else. */
function toComment(item: unknown): ReviewComment | null {
  const id = idIn(item, "id");
  const [filePath, body] = [stringIn(item, "path"), stringIn(item, "body")];
  const createdAt = stringIn(item, "created_at") ?? "";
  if (id === null || filePath === undefined || body === undefined) return null;
  if (Number.isNaN(Date.parse(createdAt))) return null;
  return {
    id,
    // GitHub shows a deleted account as ghost.
    author: stringIn(objectIn(item, "user"), "login") ?? "ghost",
    association: stringIn(item, "author_association") ?? null,
    filePath,
    line: lineIn(item, "line"),
    originalLine: lineIn(item, "original_line"),
    body,
    diffHunk: stringIn(item, "diff_hunk") ?? "",
    commit: commitIn(item, "commit_id"),
    inReplyTo: idIn(item, "in_reply_to_id"),
    createdAt,
    resolved: null,
  };
}

function idIn(value: unknown, key: string): string | null {
  const id = fieldIn(value, key);
  return typeof id === "bigint" || (typeof id === "number" && Number.isInteger(id)) ? String(id) : null;
}

function lineIn(value: unknown, key: string): number | null {
  const line = fieldIn(value, key);
  return typeof line === "number" && Number.isInteger(line) && line > 0 ? line : null;
}

function commitIn(value: unknown, key: string): string | null {
  const commit = stringIn(value, key);
  return commit !== undefined && /^[0-9a-f]{40,64}$/.test(commit) ? commit : null;
}

const THREADS = `query ($owner: String!, $repo: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $repo) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { isResolved comments(first: 100) { nodes { databaseId } } }
      }
    }
  }
}`;

interface Threads {
  /** By comment id. Replies that are not in it have their parent's state. */
  readonly resolved: ReadonlyMap<string, boolean>;
  readonly warnings: readonly string[];
}

/** Only GraphQL has this state, and it needs a token; without it the state is unknown, which blocks nothing. */
async function resolvedThreads(
  client: GitHubClient,
  pullRequest: PullRequest,
  options: HttpOptions,
): Promise<Threads> {
  const unknown = (why: string) => [`Which comments are resolved is not known: ${why}`];
  const resolved = new Map<string, boolean>();
  if (options.access.token === null)
    return { resolved, warnings: unknown("GitHub tells it only with a token.") };
  const { owner, repository: repo, number } = pullRequest;
  let after: string | null = null;
  try {
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const data: unknown = await client.graphql(THREADS, { owner, repo, number, after });
      const threads = objectIn(objectIn(objectIn(data, "repository"), "pullRequest"), "reviewThreads");
      if (threads === undefined) return { resolved, warnings: unknown("GitHub's answer has no threads.") };
      for (const thread of arrayIn(threads, "nodes")) noteThread(thread, resolved);
      const info = objectIn(threads, "pageInfo");
      after = stringIn(info, "endCursor") ?? null;
      if (fieldIn(info, "hasNextPage") !== true || after === null) break;
    }
    return { resolved, warnings: [] };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { resolved, warnings: unknown(error.message) };
  }
}

function noteThread(thread: unknown, resolved: Map<string, boolean>): void {
  const state = fieldIn(thread, "isResolved");
  if (typeof state !== "boolean") return;
  for (const comment of arrayIn(objectIn(thread, "comments"), "nodes")) {
    const id = isObject(comment) ? idIn(comment, "databaseId") : null;
    if (id !== null) resolved.set(id, state);
  }
}
