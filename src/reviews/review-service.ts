/**
 * Wires one pull request: its comments, the clone, its earlier sessions. The turn, which is passed in, talks to Codex.
 */
import { join } from "node:path";
import { makeDirectory } from "../state/files.ts";
import { Fault } from "../core/faults.ts";
import type { Deps } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { readCommentFile } from "./comment-file.ts";
import type { RunState } from "./discovery.ts";
import { codeAround, distrust, type ReviewFolder, headOf, requireClone } from "./folder.ts";
import { accessTo, baseRemote, namedHosts } from "../github/github.ts";
import { type ReviewGitHub, openGitHub } from "./github.ts";
import { parsePullRequest } from "./pull-request.ts";
import type {
  ReviewComment,
  ReviewService,
  LoadedComments,
  PullRequest,
  ReviewTurn,
  TurnOrder,
  TurnUpdate,
} from "./review.ts";
import { reviewsDirectory } from "./transcript.ts";

export interface GitHubOptions {
  /** `--token`. Null: the environment's token. */
  readonly token: string | null;
  readonly apiUrl: string | null;
}

export interface ReviewServiceOptions extends GitHubOptions {
  readonly pullRequest: PullRequest;
  /** A file with comments, instead of GitHub. */
  readonly commentsFile: string | null;
  /** Where Codex works. Null: only reads comments. */
  readonly folder: { readonly at: ReviewFolder; readonly force: boolean } | null;
  readonly includeAll: boolean;
  /** A resumed session keeps its approvals. */
  readonly keepApprovals?: boolean;
  /** Called with the number of comments so far, while more are coming. */
  readonly progress: (comments: number) => void;
  readonly begin: (order: TurnOrder, update: (update: TurnUpdate) => void, place: TurnPlace) => ReviewTurn;
}

/** The service's data that a turn needs. */
export interface TurnPlace {
  /** Absolute, symlinks resolved. */
  readonly cwd: string;
  /** The pull request's title, if loaded. Untrusted. */
  readonly title: string | null;
}

const TIMEOUT_MS = 30_000;
const MAX_REPLY = 64 * 1024 * 1024;
const TRUSTED = new Set(["OWNER", "MEMBER", "COLLABORATOR"]);

/** Refuses a folder that is not a clone of the pull request's repository. */
export function openReviewService(deps: Deps, options: ReviewServiceOptions): ReviewService {
  const { pullRequest, folder } = options;
  const clone = folder === null ? null : requireClone(folder.at, pullRequest, folder.force);
  const warned = new Set<string>();
  let known: Promise<LoadedComments> | null = null;
  let title: string | null = null;
  let isNew = true;
  return {
    pullRequest,
    load(fresh) {
      if (fresh || known === null) {
        // git just reported the head; by a later load it may have moved on.
        const head = isNew || clone === null ? Promise.resolve(clone?.head ?? null) : headOf(deps, clone);
        isNew = false;
        const asked = load(deps, options, head);
        known = asked;
        asked.then(
          (loaded) => {
            title = loaded.title;
          },
          () => {
            // A failed request is not cached.
            if (known === asked) known = null;
          },
        );
      }
      return known;
    },
    trusts: (comment: ReviewComment) => options.includeAll || TRUSTED.has(comment.association ?? ""),
    async findInterrupted() {
      await catchUp(deps, pullRequest);
      const found = await (
        await discovery()
      ).findInterruptedSession(reviewsDirectory(deps.state), pullRequest, {
        run: (handle) => runNow(deps, handle),
        warn: (message) => {
          if (!warned.has(message)) deps.log.warn(message);
          warned.add(message);
        },
      });
      return found === null || options.keepApprovals !== true ? found : { ...found, keepsApprovals: true };
    },
    async decline({ sidecar }) {
      (await discovery()).declineSession(sidecar, new Date(deps.clock.now()).toISOString());
    },
    begin(order, update) {
      if (folder === null) throw new Fault("usage", "Codex has no folder to work in.");
      return options.begin(order, update, { cwd: folder.at.cwd, title });
    },
    codeAround: async (comment, lines) => (clone === null ? null : codeAround(clone, comment, lines)),
  };
}

/** Checking records costs start-up time, and the first frame does not need it. */
const discovery = () => import("./discovery.ts");

/** Records what happened to sessions outside of reviews before offering one of them. */
async function catchUp(deps: Deps, pullRequest: PullRequest): Promise<void> {
  if (!deps.state.writable) return;
  const { catchUpAll } = await import("./elsewhere.ts");
  await catchUpAll(deps, reviewsDirectory(deps.state), pullRequest);
}

/** The typed pull request, or without input the open pull request of the clone's branch. */
export async function findPullRequest(
  deps: Deps,
  text: string | null,
  options: GitHubOptions & { readonly folder: ReviewFolder },
): Promise<PullRequest> {
  const { clone, cwd, silence } = options.folder;
  const remotes = clone?.remotes ?? [];
  // A full name needs no clone.
  if (silence === "distrusts" && text?.includes("/") !== true) deps.log.warn(`${cwd} ${distrust(cwd)}.`);
  if (text !== null) return parsePullRequest(text, { hosts: namedHosts(options, deps.env), remotes });
  const base = baseRemote(remotes);
  if (clone === null || base === null || clone.branch === null) {
    throw new Fault(
      "usage",
      `Which pull request? ${cwd} is not a clone with a GitHub remote and a current branch. Name it: reprise review <owner>/<repository>#<number>`,
      { facts: { cwd } },
    );
  }
  const { host, owner, repository } = base;
  const github = await connect(deps, { ...options, host });
  // A fork's branch can be a head in its parent repository.
  const owners = [
    ...new Set([owner, ...remotes.filter((remote) => remote.host === host).map((one) => one.owner)]),
  ];
  for (const headOwner of owners) {
    const number = await github.ofBranch(base, { owner: headOwner, branch: clone.branch });
    if (number !== null) return { host, owner, repository, number };
  }
  throw new Fault(
    "pull_request_unknown",
    `${host}/${owner}/${repository} has no open pull request of branch ${JSON.stringify(clone.branch)}. Name one: reprise review <number>`,
    { facts: { repository: `${host}/${owner}/${repository}`, branch: clone.branch } },
  );
}

async function load(
  deps: Deps,
  options: ReviewServiceOptions,
  headOfClone: Promise<string | null>,
): Promise<LoadedComments> {
  const { pullRequest, commentsFile } = options;
  const folder = await headOfClone;
  if (commentsFile !== null) {
    return { ...readCommentFile(commentsFile), title: null, head: { pullRequest: null, folder } };
  }
  const access = accessTo(pullRequest.host, options, deps.env);
  const github = await connect(deps, { ...options, host: pullRequest.host });
  const [{ comments, warnings }, { title, head }] = await Promise.all([
    github.comments(pullRequest, options.progress),
    github.about(pullRequest),
  ]);
  return {
    comments,
    title,
    head: { pullRequest: head, folder },
    warnings: [...access.warnings, ...warnings, ...headWarning(head, folder)],
  };
}

function headWarning(pullRequest: string | null, folder: string | null): readonly string[] {
  if (pullRequest === null || folder === null || pullRequest === folder) return [];
  return [
    `The clone is at ${folder.slice(0, 10)}, the pull request at ${pullRequest.slice(0, 10)}: lines may differ.`,
  ];
}

function connect(deps: Deps, options: GitHubOptions & { readonly host: string }): Promise<ReviewGitHub> {
  const cacheDirectory = deps.state.writable ? join(reviewsDirectory(deps.state), "cache") : null;
  if (cacheDirectory !== null) makeDirectory(cacheDirectory);
  return openGitHub({
    access: accessTo(options.host, options, deps.env),
    missing: { what: "pull request", code: "pull_request_unknown" },
    cacheDirectory,
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_REPLY,
    now: () => deps.clock.now(),
  });
}

/** Decides as `list` does: corrects a run with a dead owner on sight, so `running` means alive (I6). */
async function runNow(deps: Deps, handle: string): Promise<RunState | null> {
  try {
    const { runId, status, session, subject } = await selectRun(deps, handle);
    const last = (await deps.store.listAttempts(runId)).at(-1);
    return { status, session: session.value, subject, outcome: last?.outcome ?? null };
  } catch (error) {
    if (error instanceof Fault && error.code === "handle_unknown") return null;
    throw error;
  }
}
