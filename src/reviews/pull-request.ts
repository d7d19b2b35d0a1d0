/**
 * Parses the user's choice of a pull request. Pure text, no requests; the result is safe in a URL, a file name and a
 * subject.
 */
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import {
  canonicalHost,
  baseRemote,
  GITHUB,
  type Remote,
  type Repository,
  repositoryOf,
  urlParts,
} from "../github/github.ts";
import type { PullRequest } from "./review.ts";

/** The context for parsing. */
export interface ParseContext {
  /** Hosts that the user named, besides github.com: by --api-url or GH_HOST. */
  readonly hosts: readonly string[];
  /** Remotes of the user's clone; a GitHub Enterprise host among them counts as named. */
  readonly remotes: readonly Remote[];
}

/** GraphQL numbers have 31 bits. */
const MAX_NUMBER = 2_147_483_647;

export function parsePullRequest(text: string, around: ParseContext): PullRequest {
  const given = text.trim();
  if (given.length > 2_000) throw wrong(given);
  const bare = /^#?(-?\d+)$/.exec(given);
  if (bare !== null) {
    const number = numberOf(bare[1], given);
    return { ...named(baseRemote(around.remotes), given), number };
  }
  const parts = short(given) ?? fromUrl(given);
  if (parts === null) throw wrong(given);
  const [host, owner, repository, digits] = parts;
  const found = repositoryOf(host, owner, repository);
  if (found === null) throw wrong(given);
  const allowed = [
    GITHUB,
    ...around.hosts.map(canonicalHost),
    ...around.remotes.map((remote) => remote.host),
  ];
  if (!allowed.includes(found.host)) throw foreign(found.host);
  return { ...found, number: numberOf(digits, given) };
}

export function subjectOf({ owner, repository, number }: PullRequest): string {
  return `pr:${owner}/${repository}#${number}`;
}

/** With the host unless it is github.com. */
export function titleOf(pullRequest: PullRequest): string {
  const { host, owner, repository, number } = pullRequest;
  return `${host === GITHUB ? "" : `${host}/`}${owner}/${repository}#${number}`;
}

type Parts = readonly [
  host: string,
  owner: string | undefined,
  repository: string | undefined,
  number: string | undefined,
];

/** `owner/repo#42`, `host/owner/repo#42` */
function short(text: string): Parts | null {
  const found = /^(?:([A-Za-z0-9.:-]{1,260})\/)?([^/\s#]{1,200})\/([^/\s#]{1,200})#(-?\d{1,20})$/.exec(text);
  return found === null ? null : [found[1] ?? GITHUB, found[2], found[3], found[4]];
}

/** `https://host/owner/repo/pull/42`, any page of it; also without the scheme. */
function fromUrl(text: string): Parts | null {
  const [host, path = ""] = urlParts(/^https?:\/\//i.test(text) ? text : `https://${text}`);
  const found = /^\/([^/]{1,200})\/([^/]{1,200})\/pull\/(-?\d{1,20})(?:\/|$)/.exec(path);
  // No repository name ends like this; a clone's URL does.
  return host === undefined || found === null
    ? null
    : [host, found[1], found[2]?.replace(/\.git$/, ""), found[3]];
}

function numberOf(digits: string | undefined, given: string): number {
  const number = Number(digits);
  if (Number.isInteger(number) && number >= 1 && number <= MAX_NUMBER) return number;
  throw new Fault(
    "usage",
    `${shown(given)} is not a valid pull request: the number must be between 1 and ${MAX_NUMBER}. ${EXAMPLES}`,
    { facts: { given: shown(given) } },
  );
}

function named(remote: Remote | null, given: string): Repository {
  if (remote !== null) return { host: remote.host, owner: remote.owner, repository: remote.repository };
  throw new Fault(
    "usage",
    `${shown(given)} is a number only, and this directory is not a clone with a GitHub remote. ${EXAMPLES}`,
    { facts: { given: shown(given) } },
  );
}

const EXAMPLES =
  "Type https://github.com/<owner>/<repository>/pull/<number>, <owner>/<repository>#<number>, or, inside a clone, the number.";

function wrong(given: string): Fault {
  return new Fault("usage", `${shown(given)} is not a pull request. ${EXAMPLES}`, {
    facts: { given: shown(given) },
  });
}

function foreign(host: string): Fault {
  return new Fault(
    "usage",
    `${host} is not a GitHub server that Reprise knows of. ` +
      `If it is GitHub Enterprise, set GH_HOST=${host}, or name its API with --api-url https://${host}/api/v3.`,
    { facts: { host } },
  );
}

/** Does not repeat a password in a URL. */
function shown(given: string): string {
  return JSON.stringify(harmlessLine(given.replace(/\/\/[^/@\s]*@/, "//"), 120));
}
