/**
 * Issues of a GitHub repository. GitHub has open and closed; in progress and blocked are labels. The body names
 * dependencies ("Blocked by #12"), and the body or GitHub the parent. Skips pull requests.
 */
import type { GitHubClient, HttpOptions, Repository } from "../../github/github.ts";
import { connectGitHub } from "../../github/github.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../../lib/json.ts";
import {
  type IssueComment,
  DEFAULT_PRIORITY,
  isOurNote,
  type Issue,
  type IssueStatus,
  checkedList,
  type LocatedIssue,
  priorityOf,
  type IssueSource,
  unknownIssue,
} from "./source.ts";

const PAGE = 100;
const MAX_PAGES = 100;
const IN_PROGRESS = "in_progress";
const TRUSTED = new Set(["OWNER", "MEMBER", "COLLABORATOR"]);
const ISSUE = "/repos/{owner}/{repo}/issues/{issue_number}";

export async function openGitHubIssues(repository: Repository, options: HttpOptions): Promise<IssueSource> {
  const client = await connectGitHub(options);
  const { owner, repository: repo } = repository;
  const name = `GitHub ${owner}/${repo}`;
  const at = (id: string) => {
    if (!/^[1-9]\d{0,9}$/.test(id)) throw unknownIssue(id, name);
    return { owner, repo, issue_number: Number(id) };
  };
  return {
    name,
    restMs: 15_000,
    async list() {
      const { placed, warnings } = await listIssues(client, repository);
      return checkedList(placed, warnings);
    },
    async one(id) {
      const value = await client.ask(`GET ${ISSUE}`, at(id));
      const issue = isObject(value) ? toIssue(value) : null;
      if (issue === null) throw unknownIssue(id, name);
      return issue;
    },
    async claim(id, from) {
      const issue = await client.ask(`GET ${ISSUE}`, at(id));
      if (!isObject(issue) || toIssue(issue)?.status !== from) return false;
      await client.ask(`POST ${ISSUE}/labels`, { ...at(id), labels: [IN_PROGRESS] });
      return true;
    },
    async close(id, reason) {
      // A batch that died between comment and close has left the comment.
      if (!(await isSaid(client, at(id), reason)))
        await client.ask(`POST ${ISSUE}/comments`, { ...at(id), body: reason });
      await client.ask(`PATCH ${ISSUE}`, { ...at(id), state: "closed", state_reason: "completed" });
    },
    async note(id, text) {
      await client.ask(`POST ${ISSUE}/comments`, { ...at(id), body: text });
    },
    comments: (id) => commentsOn(client, at(id)),
  };
}

async function commentsOn(
  client: GitHubClient,
  issue: Parameters<GitHubClient["ask"]>[1],
): Promise<readonly IssueComment[]> {
  const found: IssueComment[] = [];
  for await (const page of client.pages(`GET ${ISSUE}/comments`, { ...issue, per_page: PAGE })) {
    for (const item of Array.isArray(page) ? (page as readonly unknown[]) : []) {
      const text = stringIn(item, "body") ?? "";
      const association = stringIn(item, "author_association");
      if (text.trim() === "" || isOurNote(text)) continue;
      found.push({
        author: stringIn(objectIn(item, "user"), "login") ?? null,
        text,
        ...(association !== undefined && !TRUSTED.has(association) ? { stranger: true } : {}),
      });
    }
  }
  return found;
}

async function isSaid(
  client: GitHubClient,
  issue: Parameters<GitHubClient["ask"]>[1],
  text: string,
): Promise<boolean> {
  for await (const page of client.pages(`GET ${ISSUE}/comments`, { ...issue, per_page: PAGE })) {
    const comments = Array.isArray(page) ? (page as readonly unknown[]) : [];
    if (comments.some((comment) => stringIn(comment, "body") === text)) return true;
  }
  return false;
}

/** Oldest first. */
async function listIssues(
  client: GitHubClient,
  { owner, repository }: Repository,
): Promise<{ readonly placed: readonly LocatedIssue[]; readonly warnings: readonly string[] }> {
  const found = new Map<string, LocatedIssue>();
  const warnings: string[] = [];
  let strange = 0;
  let pages = 0;
  const wanted = { owner, repo: repository, state: "all", sort: "created", direction: "asc", per_page: PAGE };
  for await (const page of client.pages("GET /repos/{owner}/{repo}/issues", wanted)) {
    for (const item of Array.isArray(page) ? (page as readonly unknown[]) : []) {
      if (isObject(item) && item["pull_request"] !== undefined) continue;
      const issue = isObject(item) ? toIssue(item) : null;
      if (issue === null) strange += 1;
      else found.set(issue.id, { issue, at: `#${issue.id}` });
    }
    pages += 1;
    if (pages === MAX_PAGES) {
      warnings.push(`Reprise read only the first ${found.size} issues of ${owner}/${repository}.`);
      break;
    }
  }
  if (strange > 0) warnings.push(`${strange} of GitHub's issues could not be read and are skipped.`);
  return { placed: [...found.values()], warnings };
}

/** Null: not as documented. */
function toIssue(value: JsonObject): Issue | null {
  const number = numberIn(value, "number");
  const title = stringIn(value, "title");
  if (number === undefined || !Number.isInteger(number) || title === undefined) return null;
  const labels = arrayIn(value, "labels").map((label) =>
    (typeof label === "string" ? label : (stringIn(label, "name") ?? "")).toLowerCase(),
  );
  const body = stringIn(value, "body") ?? "";
  const association = stringIn(value, "author_association");
  return {
    id: String(number),
    title,
    body,
    status: statusOf(stringIn(value, "state"), labels),
    priority: priorityIn(labels),
    dependencies: numbersAfter(body, /\b(?:blocked by|depends on)\b/i).filter((id) => id !== String(number)),
    parent: parentOf(value, body),
    epic: labels.includes("epic"),
    ...(association !== undefined && !TRUSTED.has(association) ? { stranger: true } : {}),
    ...(numberIn(value, "comments") === 0 ? { comments: [] } : {}),
  };
}

function statusOf(state: string | undefined, labels: readonly string[]): IssueStatus {
  if (state === "closed") return "closed";
  if (labels.includes("blocked")) return "blocked";
  return labels.some((label) => /^in[_ -]progress$/.test(label)) ? "in_progress" : "open";
}

function priorityIn(labels: readonly string[]): number {
  for (const label of labels) {
    const priority = priorityOf(label.replace(/^priority[:/ ] ?/, ""));
    if (priority !== null) return priority;
  }
  return DEFAULT_PRIORITY;
}

/** `Blocked by #1, #2 and #3`, anywhere in the body. */
function numbersAfter(body: string, words: RegExp): readonly string[] {
  const pattern = new RegExp(`${words.source}:?((?:(?:\\s|,|and)*#\\d{1,10})+)`, "gi");
  const found = [...body.matchAll(pattern)].flatMap(([, list = ""]) =>
    [...list.matchAll(/#(\d+)/g)].map(([, number = ""]) => String(Number(number))),
  );
  return [...new Set(found)];
}

function parentOf(value: JsonObject, body: string): string | null {
  const url = fieldIn(value, "parent_issue_url");
  const fromUrl = typeof url === "string" ? /\/issues\/(\d{1,10})$/.exec(url)?.[1] : undefined;
  return fromUrl ?? numbersAfter(body, /\b(?:parent|epic)\b/i)[0] ?? null;
}
