/**
 * The repository and GitHub server of a git remote. Pure text, no requests; the result is safe in a URL and in a file
 * name.
 */

export interface Repository {
  readonly host: string;
  readonly owner: string;
  readonly repository: string;
}

export interface Remote extends Repository {
  /** `origin`, `upstream`, … */
  readonly name: string;
}

export const GITHUB = "github.com";

const OWNER = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/;
const REPOSITORY = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/;
const HOST = /^(?=.{1,260}$)[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63})*(?::\d{1,5})?$/;

/** The repository that receives this clone's pull requests: forks call it upstream. */
export function baseRemote(remotes: readonly Remote[]): Remote | null {
  const byName = (name: string) => remotes.find((remote) => remote.name === name);
  const first = byName("upstream") ?? byName("origin") ?? remotes[0];
  return first ?? null;
}

/**
 * `https://host/owner/repo.git`, `ssh://git@host:22/owner/repo`, `git@host:owner/repo`. Null: not a GitHub server's.
 */
export function parseRemote(url: string): Repository | null {
  if (url.length > 2_000) return null;
  const scp = /^(?:[^@/\s:]{1,200}@)?([A-Za-z0-9.-]{1,253}):(?!\/\/)\/?([^\s]+)$/.exec(url);
  const [host, path] = scp === null ? urlParts(url) : [scp[1], scp[2]];
  if (host === undefined || path === undefined) return null;
  const [owner, repository, ...more] = path
    .replace(/^\/+/, "")
    .replace(/(?<!\/)\/+$/, "")
    .split("/");
  return more.length > 0 ? null : repositoryOf(host, owner, repository?.replace(/\.git$/, ""));
}

export function sameRepository(one: Repository, other: Repository): boolean {
  const key = ({ host, owner, repository }: Repository) => `${host}/${owner}/${repository}`.toLowerCase();
  return key(one) === key(other);
}

/** `git remote -v`: name, tab, URL, space, (fetch) or (push). */
export function remotesIn(text: string): readonly Remote[] {
  const remotes: Remote[] = [];
  for (const row of text.split("\n")) {
    const [, name = "", url = ""] = /^([^\t]{1,200})\t(\S+) \((?:fetch|push)\)$/.exec(row) ?? [];
    const found = url === "" ? null : parseRemote(url);
    if (found === null) continue;
    if (remotes.some((remote) => remote.name === name && sameRepository(remote, found))) continue;
    remotes.push({ name, ...found });
  }
  return remotes;
}

/** Other host names of github.com. */
export function canonicalHost(host: string): string {
  const lower = host.toLowerCase();
  return ["www.github.com", "ssh.github.com", "api.github.com"].includes(lower) ? GITHUB : lower;
}

/** Drops user, password, query and fragment. */
export function urlParts(text: string): readonly [host: string, path: string] | readonly [] {
  if (!URL.canParse(text)) return [];
  const { protocol, hostname, host, pathname } = new URL(text);
  // Parsing removes a typed `..`, and the result would be another repository than the user read.
  if (/(?:^|\/)(?:\.|%2e){1,2}(?:\/|$)/i.test(text.replace(/[?#].*$/s, "").replace(/^[^:]*:\/\//, "")))
    return [];
  if (protocol === "http:" || protocol === "https:") return [host, pathname];
  return ["ssh:", "git:", "git+ssh:"].includes(protocol) ? [hostname, pathname] : [];
}

export function repositoryOf(
  host: string,
  owner: string | undefined,
  repository: string | undefined,
): Repository | null {
  const canonical = canonicalHost(host);
  if (owner === undefined || repository === undefined) return null;
  if (!HOST.test(canonical) || !OWNER.test(owner) || !REPOSITORY.test(repository)) return null;
  return { host: canonical, owner, repository };
}
