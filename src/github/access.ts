/**
 * The API address of a host, and the token that it may see. A token goes only to its own host: a host known only from a
 * clone's remote, which the clone's creator chose, gets none.
 */
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { canonicalHost, GITHUB } from "./remote.ts";

export interface GitHubAccess {
  /** Of the REST API, without a trailing slash. */
  readonly baseUrl: string;
  readonly token: string | null;
  /** `--token` or the name of the variable. */
  readonly tokenFrom: string | null;
  /** Facts about the choice that the user should know. */
  readonly warnings: readonly string[];
}

export interface AccessOptions {
  readonly apiUrl: string | null;
  readonly token: string | null;
}

/** Hosts that the user named, besides github.com. */
export function namedHosts(options: Pick<AccessOptions, "apiUrl">, env: Env): readonly string[] {
  const hosts = env["GH_HOST"] === undefined || env["GH_HOST"] === "" ? [] : [env["GH_HOST"]];
  if (options.apiUrl !== null) hosts.push(parseApiUrl(options.apiUrl).host.replace(/^api\./, ""));
  return hosts.map(canonicalHost);
}

export function accessTo(host: string, options: AccessOptions, env: Env): GitHubAccess {
  const baseUrl =
    options.apiUrl === null ? apiOf(host) : parseApiUrl(options.apiUrl).href.replace(/(?<!\/)\/+$/, "");
  const meant = options.apiUrl !== null || host === GITHUB || namedHosts(options, env).includes(host);
  const found = tokenFor(host, options, env);
  if (found === null) return { baseUrl, token: null, tokenFrom: null, warnings: [] };
  const { token, from } = found;
  if (!meant && from !== "--token") {
    const warning = `${from} was not sent to ${host}, which only this clone's remote names. If it is meant for it, set GH_HOST=${host}.`;
    return { baseUrl, token: null, tokenFrom: null, warnings: [warning] };
  }
  if (!/^[\x21-\x7e]{1,2048}$/.test(token)) {
    throw new Fault("usage", `The token from ${from} contains characters that no token has.`, {
      facts: { from },
    });
  }
  assertPrivate(baseUrl, from);
  return { baseUrl, token, tokenFrom: from, warnings: [] };
}

function tokenFor(host: string, options: AccessOptions, env: Env): { token: string; from: string } | null {
  if (options.token !== null && options.token.trim() !== "")
    return { token: options.token.trim(), from: "--token" };
  const enterprise = host === GITHUB ? [] : ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"];
  for (const from of [...enterprise, "GITHUB_TOKEN", "GH_TOKEN"]) {
    const token = env[from]?.trim();
    if (token !== undefined && token !== "") return { token, from };
  }
  return null;
}

/**
 * GitHub Enterprise Server has its API below /api/v3, GitHub Enterprise Cloud with data residency on a separate host.
 */
function apiOf(host: string): string {
  if (host === GITHUB) return "https://api.github.com";
  return host.endsWith(".ghe.com") ? `https://api.${host}` : `https://${host}/api/v3`;
}

function parseApiUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
  if (usable && url.username === "" && url.password === "") return url;
  throw new Fault(
    "usage",
    "--api-url must be an http or https URL without user, password, query or fragment, such as https://github.example.com/api/v3.",
  );
}

/** Nobody on the network path may read a token. */
function assertPrivate(baseUrl: string, from: string): void {
  const { protocol, hostname } = new URL(baseUrl);
  if (protocol === "https:" || /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname)) return;
  throw new Fault("usage", `The token from ${from} is not sent over http to ${hostname}. Use https.`, {
    facts: { host: hostname },
  });
}
