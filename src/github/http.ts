/**
 * Requests to GitHub: the only place for deadlines, sizes, redirects, the meaning of refusals, and replies cached by
 * ETag. Knows the API's conventions, not its resources.
 *
 * The token is only in a request's header: no message, cached reply or fault contains it.
 */
import { createHash } from "node:crypto";
import { readdirSync, statSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { readRecord, writeAtomic } from "../state/files.ts";
import { Fault, type FaultCode } from "../core/faults.ts";
import { moment, retryAfter } from "../core/reset-time.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { parseJson, stringIn } from "../lib/json.ts";
import { redactor } from "../lib/secrets.ts";
import { untilText } from "../lib/until.ts";
import type { GitHubAccess } from "./access.ts";

export interface HttpOptions {
  readonly access: GitHubAccess;
  /** The meaning of a 404 for the caller. */
  readonly missing: { readonly what: string; readonly code: FaultCode };
  /** Directory of cached replies, which exists and is ours. Null: no cache. */
  readonly cacheDirectory: string | null;
  /** For one request, until its last byte. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  /** Milliseconds since 1970. */
  now(): number;
}

/** The part of `fetch` that Octokit uses. */
export type Fetch = (url: string, init: Init) => Promise<Response>;
interface Init {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const MAX_REDIRECTS = 3;
const MAX_ERROR_BYTES = 64 * 1024;
const MAX_KEPT_BYTES = 8 * 1024 * 1024;
const KEEP_MS = 14 * 24 * 3_600_000;
const YEAR_MS = 366 * 24 * 3_600_000;

/** A reply of 200 to 299 with JSON, or a Fault. */
export function githubFetch(options: HttpOptions): Fetch {
  if (options.cacheDirectory !== null) dropOldReplies(options.cacheDirectory, options.now());
  return async (url, init) => {
    const kept = init.method === "GET" ? readCached(options, url) : null;
    const ask = kept === null ? init : { ...init, headers: { ...init.headers, "if-none-match": kept.etag } };
    const reply = await send(options, url, ask);
    // An unchanged page may have got a next page.
    if (reply.status === 304 && kept !== null)
      return jsonReply(kept.body, reply.headers.get("link") ?? kept.link);
    if (reply.status >= 400) throw refusal(options, reply);
    if (reply.status >= 300 || !isStructured(parseJson(reply.text))) {
      throw garbled(options, `HTTP ${reply.status} and no JSON that it could mean`);
    }
    const link = reply.headers.get("link");
    const etag = reply.headers.get("etag");
    if (init.method === "GET" && etag !== null) cacheReply(options, { url, etag, link, body: reply.text });
    return jsonReply(reply.text, link);
  };
}

/** Octokit reads fields from any JSON it gets. */
function isStructured(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function jsonReply(body: string, link: string | null): Response {
  const headers = { "content-type": "application/json; charset=utf-8", ...(link === null ? {} : { link }) };
  return new Response(body, { status: 200, headers });
}

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Follows redirects (a renamed repository) only within the API's origin. */
async function send(options: HttpOptions, url: string, init: Init): Promise<Reply> {
  const { origin } = new URL(options.access.baseUrl);
  let at = url;
  for (let hop = 0; hop <= MAX_REDIRECTS; hop += 1) {
    if (new URL(at).origin !== origin) {
      throw garbled(options, `it redirects to another host, ${new URL(at).host}`);
    }
    const reply = await sendOnce(options, at, init);
    const location = reply.headers.get("location");
    const moved = [301, 302, 307, 308].includes(reply.status) && location !== null;
    if (!moved || init.method !== "GET") return reply;
    if (!URL.canParse(location, at)) throw garbled(options, "its redirect is not a valid URL");
    at = new URL(location, at).href;
  }
  throw garbled(options, `it redirects more than ${MAX_REDIRECTS} times`);
}

async function sendOnce(options: HttpOptions, url: string, init: Init): Promise<Reply> {
  const { host } = new URL(options.access.baseUrl);
  const deadline = AbortSignal.timeout(options.timeoutMs);
  try {
    const response = await fetch(url, { ...init, redirect: "manual", signal: deadline });
    const limit = response.ok ? options.maxBytes : MAX_ERROR_BYTES;
    const text = await readText(response, limit);
    if (text === null && response.ok) {
      throw garbled(options, `its reply has more than ${Math.floor(limit / 1024 / 1024)} MiB`);
    }
    return { status: response.status, headers: response.headers, text: text ?? "" };
  } catch (error) {
    if (error instanceof Fault) throw error;
    const why = deadline.aborted
      ? `no answer within ${formatDuration(options.timeoutMs)}`
      : networkError(error);
    throw new Fault("github_unreachable", `${host} does not answer: ${why}. Try again later.`, {
      facts: { host, why },
    });
  }
}

/** Null: longer than `limit`. */
async function readText(response: Response, limit: number): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > limit) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** The system's error code; a longer message may repeat the request. */
function networkError(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const code = stringIn(cause, "code");
  if (code === undefined) return "the connection failed";
  return /CERT|SIGNATURE|ISSUER/.test(code)
    ? `${code} (NODE_EXTRA_CA_CERTS names certificates to trust)`
    : code;
}

function refusal(options: HttpOptions, reply: Reply): Fault {
  const { access } = options;
  const { host } = new URL(access.baseUrl);
  const redact = redactor(access.token === null ? [] : [{ name: "token", value: access.token }]);
  const said = harmlessLine(redact(stringIn(parseJson(reply.text), "message") ?? ""), 200);
  const quoted = said === "" ? "" : ` It says: ${said}`;
  const facts = { host, status: reply.status, ...(said === "" ? {} : { said }) };
  if (isLimit(reply, said)) return limited(options, reply, facts);
  if (reply.status === 401 || reply.status === 403) {
    const what =
      access.tokenFrom === null
        ? `${host} wants a token. Set GITHUB_TOKEN or give --token.`
        : reply.status === 401
          ? `${host} rejected the token from ${access.tokenFrom}: it is wrong, expired or revoked.`
          : `${host} does not let the token from ${access.tokenFrom} do this.`;
    return new Fault("github_denied", `${what}${quoted}`, { facts });
  }
  if (reply.status === 404 || reply.status === 410) {
    const seen =
      access.tokenFrom === null
        ? "it is private, and no token was given (GITHUB_TOKEN or --token)"
        : `the token from ${access.tokenFrom} may not see it`;
    const { code, what } = options.missing;
    return new Fault(code, `${host} has no such ${what}, or ${seen}.`, { facts });
  }
  if (reply.status >= 500) {
    return new Fault(
      "github_unreachable",
      `${host} cannot answer right now (HTTP ${reply.status}). Try again later.`,
      { facts },
    );
  }
  return new Fault("github_garbled", `${host} refused the request (HTTP ${reply.status}).${quoted}`, {
    facts,
  });
}

function isLimit({ status, headers }: Reply, said: string): boolean {
  if (status === 429) return true;
  if (status !== 403) return false;
  return (
    headers.get("x-ratelimit-remaining") === "0" ||
    headers.has("retry-after") ||
    /rate limit|abuse detection/i.test(said)
  );
}

function limited(
  options: HttpOptions,
  { headers }: Reply,
  facts: Readonly<Record<string, string | number>>,
): Fault {
  const resets = resetIn(headers, options.now());
  const when =
    resets === null
      ? "The reply does not say when it resets."
      : resets <= options.now()
        ? `It ended at ${new Date(resets).toISOString()}: try again.`
        : `It lasts ${untilText(resets, options.now())}.`;
  const hint =
    options.access.token === null ? " With a token (GITHUB_TOKEN or --token) the limit is far higher." : "";
  return new Fault("github_limited", `The rate limit of ${facts["host"]} is used up. ${when}${hint}`, {
    facts: { ...facts, resetsAt: resets === null ? null : new Date(resets).toISOString() },
  });
}

/** `retry-after` applies to secondary limits, `x-ratelimit-reset` to the hourly one. Ignores times beyond a year. */
function resetIn(headers: Headers, now: number): number | null {
  const times = [retryAfter(headers.get("retry-after") ?? "", now), moment(headers.get("x-ratelimit-reset"))];
  return times.find((at) => at !== null && Math.abs(at - now) < YEAR_MS) ?? null;
}

function garbled(options: HttpOptions, why: string): Fault {
  const { host } = new URL(options.access.baseUrl);
  return new Fault(
    "github_garbled",
    `${host} does not answer as GitHub's API does: ${why}. Is the host right? --api-url names the API.`,
    { facts: { host, why } },
  );
}

interface CachedReply {
  readonly url: string;
  readonly etag: string;
  readonly link: string | null;
  readonly body: string;
}

/** A cached reply, used only after GitHub confirms, for the current token, that it has not changed. */
function readCached(options: HttpOptions, url: string): CachedReply | null {
  if (options.cacheDirectory === null) return null;
  try {
    const record = readRecord(cachePath(options.cacheDirectory, url), MAX_KEPT_BYTES * 2);
    const [etag, body] = [stringIn(record, "etag"), stringIn(record, "body")];
    if (stringIn(record, "url") !== url || etag === undefined || body === undefined) return null;
    const link = stringIn(record, "link") ?? null;
    const sound = /^[\x21-\x7e]{1,256}$/.test(etag) && /^[\x20-\x7e]*$/.test(link ?? "");
    return sound && isStructured(parseJson(body)) ? { url, etag, link, body } : null;
  } catch (error) {
    // Damaged, or not ours: fetched again, and overwritten if possible.
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

function cacheReply(options: HttpOptions, kept: CachedReply): void {
  if (options.cacheDirectory === null || kept.body.length > MAX_KEPT_BYTES) return;
  try {
    writeAtomic(cachePath(options.cacheDirectory, kept.url), JSON.stringify({ v: 1, ...kept }));
  } catch (error) {
    // A full or read-only disk only costs the next request its ETag.
    if (!(error instanceof Fault)) throw error;
  }
}

function cachePath(directory: string, url: string): string {
  return join(directory, `${createHash("sha256").update(url).digest("hex")}.json`);
}

function dropOldReplies(directory: string, now: number): void {
  try {
    for (const name of readdirSync(directory)) {
      const path = join(directory, name);
      if (name.endsWith(".json") && now - statSync(path).mtimeMs > KEEP_MS) unlinkSync(path);
    }
  } catch {
    // Another process was faster, or the disk is read-only.
  }
}
