/**
 * Who may use the server: one-time links, sessions of pages, bearer tokens of scripts. Keeps hashes only.
 *
 * A page has a cookie and a key, and needs both. Browsers send the cookie of 127.0.0.1 to every port of 127.0.0.1, so
 * another local server can get it; the key stays with the page's origin.
 */
import { createHash, randomBytes, scryptSync, timingSafeEqual } from "node:crypto";

/** full: everything. read-raw: all that only reads. read: the same without raw output, which may hold secrets. */
export type Rights = "full" | "read-raw" | "read";
export const RIGHTS: readonly Rights[] = ["full", "read-raw", "read"];

export interface WebSession {
  readonly id: string;
  readonly rights: Rights;
  readonly expiresAtMs: number;
}

/** A bearer token as stored: `tokens.ts` reads them. */
export interface StoredToken {
  readonly id: string;
  readonly name: string;
  readonly rights: Rights;
  readonly hash: string;
  readonly createdAt: string;
}

export const LINK_MS = 60_000;
export const SESSION_MS = 12 * 60 * 60_000;
const MOST_LINKS = 32;
const MOST_SESSIONS = 64;
/** Failed sign-ins per minute, in all. */
const MOST_FAILURES = 10;
const MINUTE_MS = 60_000;

export const newSecret = (): string => randomBytes(32).toString("base64url");

export const hashOf = (secret: string): string => createHash("sha256").update(secret).digest("hex");

export interface SignedIn {
  readonly cookie: string;
  readonly key: string;
  readonly session: WebSession;
}

export class WebAccess {
  readonly #now: () => number;
  readonly #tokens: () => readonly StoredToken[];
  readonly #password: { readonly salt: Buffer; readonly hash: Buffer } | null;
  readonly #links = new Map<string, { readonly rights: Rights; readonly expiresAtMs: number }>();
  /** By the hash of the cookie. */
  readonly #sessions = new Map<string, WebSession & { readonly key: string }>();
  #failures: number[] = [];
  readonly #ended = new Set<(id: string) => void>();

  constructor(options: {
    readonly now: () => number;
    readonly tokens: () => readonly StoredToken[];
    readonly password: string | null;
  }) {
    this.#now = options.now;
    this.#tokens = options.tokens;
    const salt = randomBytes(16);
    this.#password =
      options.password === null ? null : { salt, hash: scryptSync(options.password, salt, 32) };
  }

  /** The secret of a link that signs in once, within a minute. */
  makeLink(rights: Rights): string {
    this.#expire();
    if (this.#links.size >= MOST_LINKS) this.#links.delete([...this.#links.keys()][0] ?? "");
    const secret = newSecret();
    this.#links.set(hashOf(secret), { rights, expiresAtMs: this.#now() + LINK_MS });
    return secret;
  }

  /** limited: too many failed attempts. Null: the link or the password is wrong, used or too old. */
  signIn(given: { readonly token?: string; readonly password?: string }): SignedIn | "limited" | null {
    this.#expire();
    // A link cannot be guessed, so the failures of a stranger do not keep its owner out.
    const isLimited = this.#failures.length >= MOST_FAILURES;
    const rights = isLimited && given.token === undefined ? null : this.#rightsOf(given);
    if (rights === null) {
      if (!isLimited) this.#failures.push(this.#now());
      return isLimited ? "limited" : null;
    }
    if (this.#sessions.size >= MOST_SESSIONS) this.#end([...this.#sessions.keys()][0] ?? "");
    const [cookie, key] = [newSecret(), newSecret()];
    const session = { id: hashOf(cookie), rights, expiresAtMs: this.#now() + SESSION_MS };
    this.#sessions.set(session.id, { ...session, key: hashOf(key) });
    return { cookie, key, session };
  }

  #rightsOf({ token, password }: { readonly token?: string; readonly password?: string }): Rights | null {
    if (token !== undefined) {
      const hash = hashOf(token);
      const link = this.#links.get(hash);
      this.#links.delete(hash);
      return link?.rights ?? null;
    }
    if (password === undefined || this.#password === null) return null;
    const { salt, hash } = this.#password;
    return timingSafeEqual(scryptSync(password, salt, 32), hash) ? "full" : null;
  }

  session(cookie: string | null, key: string | null): WebSession | null {
    this.#expire();
    if (cookie === null || key === null) return null;
    const found = this.#sessions.get(hashOf(cookie));
    return found !== undefined && isSame(found.key, hashOf(key)) ? found : null;
  }

  /** Without the key, for the start of a WebSocket, which sends the key as its first message. */
  hasCookie(cookie: string | null): boolean {
    this.#expire();
    return cookie !== null && this.#sessions.has(hashOf(cookie));
  }

  bearer(secret: string): WebSession | null {
    const hash = hashOf(secret);
    const found = this.#tokens().find((token) => isSame(token.hash, hash));
    return found === undefined
      ? null
      : { id: `token:${found.id}`, rights: found.rights, expiresAtMs: Number.POSITIVE_INFINITY };
  }

  isValid({ id }: Pick<WebSession, "id">): boolean {
    this.#expire();
    return id.startsWith("token:")
      ? this.#tokens().some((token) => `token:${token.id}` === id)
      : this.#sessions.has(id);
  }

  signOut({ id }: WebSession): void {
    this.#end(id);
  }

  onEnded(listener: (id: string) => void): () => void {
    this.#ended.add(listener);
    return () => void this.#ended.delete(listener);
  }

  #end(id: string): void {
    this.#sessions.delete(id);
    for (const listener of this.#ended) listener(id);
  }

  #expire(): void {
    const now = this.#now();
    for (const [hash, { expiresAtMs }] of this.#links) if (expiresAtMs <= now) this.#links.delete(hash);
    for (const [hash, { expiresAtMs }] of this.#sessions) if (expiresAtMs <= now) this.#end(hash);
    this.#failures = this.#failures.filter((at) => now - at < MINUTE_MS);
  }
}

function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
