/**
 * Removes secrets from text before Reprise stores or shows it: known values, and texts that look like credentials. It
 * prefers to remove too much, because the raw bytes are kept elsewhere.
 *
 * Every expression takes linear time: no nested quantifiers, and an unbounded part that may fail starts at most once
 * per word. Redacting twice equals redacting once.
 */

import { Finder } from "./encoded.ts";

export type Redact = (text: string) => string;

/** Ordinary text contains shorter values. */
export const MIN_KNOWN = 8;

/**
 * A word that marks a name as secret, even with a number after it (`PASSWORD2`) or inside a longer word
 * (`MYSECRETVALUE`).
 */
const SECRET_WORD =
  /^(?:(?:keys?|auth|oauth|pat|pass|passphrase|pass(?:code|key)s?|creds?|cookies?|jwt|bearer|authorization|[th]?otpseeds?)\d*|\w*(?:secret|passw(?:or)?d|passphrase|credential)\w*|\w*token(?:\d*|value)|\w*(?:api|access|priv(?:ate)?|auth|signing|encryption|master|deploy|ssh|gpg|rsa)keys?\d*|(?:ssh|db|sql|smtp|mail|ftp|user|root|admin|login)(?:pass|pwd)\d*)$/i;
/** Ordinary alone (`PWD` is a directory), a secret behind another word: `DB_PWD`. */
const SHORT_WORD = /^pwd?\d*$/i;
/** Like `SHORT_WORD`, but only in capitals, as in variables: `STRIPE_SK`, not `messages_sk`. */
const CAPITAL_WORD = /^(?:SK|SAS|DSN|MNEMONIC)\d*$/;
/** A secret only of one-time passwords: `TOTP_SEED`, but not `RANDOM_SEED`. */
const SEED_WORD = /^seeds?\d*$/i;
const OTP_WORD = /^[th]?otp$/i;
/** Run together in capitals: `MYSQLPASS`, but not `COMPASS`, `LOWPASS` and `OLDPWD`. */
const CAPITAL_PASS =
  /^(?!(?:EN)?COMPASS|(?:BY|OVER|UNDER|TRES|SUR|LOW|HIGH|BAND|ALL|MULTI|SINGLE|FIRST)PASS|OLDPWD)[A-Z]+(?:PASS|PWD|CREDS)\d*$/;
/**
 * Names of several words: the address of a web hook or a connection string gives access to a service, a seed phrase to a
 * wallet.
 */
const PHRASE =
  /(?:^|_)web_?hooks?_?(?:url|uri|endpoint)s?\d*$|_web_?hooks?\d*$|(?:^|_)conn(?:ection)?_?str(?:ing)?s?\d*$|(?:^|_)seed_?phrases?\d*$|vault_?role_?id$|approle_?(?:role_?)?id$/i;
/** Tokens in the plural are usually counted; these are secrets. */
const TOKENS = /(?:api|auth|access|refresh|bearer)[-_]?tokens/i;
/**
 * A word after the secret word that makes the name a setting about secrets: `max_token_count`, `SSH_AUTH_SOCK`,
 * `TOKEN_FILE`.
 */
const ABOUT =
  /^(?:limits?|count|budget|usage|size|window|ttl|timeout|expiry|file|path|dir|sock|socket|var|env|helper|mode|type|method|provider|store|backend|status)$/i;

/**
 * Whether a variable, option or field with this name holds a secret. `API_KEY` and `authToken` do, `KEYBOARD` and
 * `max_tokens` do not.
 */
export function isSecretName(name: string): boolean {
  if (name.length > 256 || !MAY_NAME_SECRET.test(name)) return false;
  if (TOKENS.test(name)) return true;
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== "");
  if (PHRASE.test(words.join("_"))) return true;
  const last = words.findLastIndex(isSecretWord);
  // `env_key` holds the name of a variable.
  return last !== -1 && !ABOUT.test(words[last + 1] ?? "") && !/^env[-_ ]?key$/i.test(name);
}

function isSecretWord(word: string, at: number, words: readonly string[]): boolean {
  if (SECRET_WORD.test(word) || CAPITAL_PASS.test(word)) return true;
  if (SEED_WORD.test(word)) return OTP_WORD.test(words[at - 1] ?? "");
  return at > 0 && (SHORT_WORD.test(word) || CAPITAL_WORD.test(word));
}

const MAY_NAME_SECRET =
  /key|token|secret|pass|cred|auth|cookie|bearer|jwt|pat|pw|hook|conn|role|mnemonic|seed|[^a-z](?:sk|sas|dsn)/i;

/**
 * The passwords of the first URLs in a text, raw and decoded. Leaves out ordinary words of the text:
 * `postgres://postgres:postgres@`.
 */
export function urlPasswords(text: string): readonly string[] {
  if (!text.includes("://")) return [];
  const urls = [...text.matchAll(/:\/\/([^\s/?#"'\\]{1,1024})/g)].slice(0, MAX_URLS);
  const found = urls.flatMap(({ 1: authority = "" }) => {
    const account = authority.slice(0, Math.max(0, authority.lastIndexOf("@")));
    const at = account.indexOf(":");
    const password = at === -1 ? "" : account.slice(at + 1);
    const isWord = password === "" || text.replaceAll(`:${password}@`, "").includes(password);
    return isWord || COMMON.test(password) ? [] : [password, decoded(password)];
  });
  return [...new Set(found)];
}

const MAX_URLS = 16;

/** Passwords of examples and development set-ups. */
const COMMON =
  /^(?:password|passw0rd|postgres|postgresql|mysecretpassword|changeme|localhost|username|12345678|\$\{?\w+\}?|\*+|x+)$/i;

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Known values become `[redacted:NAME]` in every encoding; text that looks like a secret becomes `[redacted]`. */
export function redactor(known: readonly { readonly name: string; readonly value: string }[]): Redact {
  const values = known.flatMap(({ name, value }) => {
    const mark = `[redacted:${name.replace(/\W/g, "_").slice(0, 64)}]`;
    return [value, value.trim(), ...linesOf(value)].map((one) => [one, mark] as const);
  });
  const finder = new Finder(
    values.filter(([value]) => value.length >= MIN_KNOWN),
    MIN_KNOWN,
  );
  const replaceKnown = (text: string) => withMarks(text, finder);
  return (text) => {
    if (text.length < 4) return text;
    return settle(finder.occursIn(text) ? outsideMarks(text, replaceKnown) : text);
  };
}

/** Removes all overlapping values, under the name of the first to begin; of two, the longer. */
function withMarks(text: string, finder: Finder): string {
  const spans = finder.find(text).toSorted((one, other) => one.from - other.from || other.to - one.to);
  const kept: string[] = [];
  let end = 0;
  for (const { from, to, mark } of spans) {
    if (from >= end) kept.push(text.slice(end, from), mark);
    end = Math.max(end, to);
  }
  return [...kept, text.slice(end)].join("");
}

/** Redacts every string of a JSON value and every text under a secret name. Drops everything deeper than 64 levels. */
export function redactValue<T>(value: T, redact: Redact): T {
  return redactAt(value, redact, 0) as T;
}

const MAX_DEPTH = 64;

function redactAt(value: unknown, redact: Redact, depth: number): unknown {
  if (typeof value === "string") return redact(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) return "[too deep]";
  if (Array.isArray(value))
    return value.map((item: unknown, at) =>
      isOptionValue(value[at - 1], item) ? "[redacted]" : redactAt(item, redact, depth + 1),
    );
  return Object.fromEntries(
    Object.entries(value).map(([name, item]: [string, unknown]) => [
      name,
      typeof item === "string" && namesSecretText(name) && !MARK.test(item)
        ? "[redacted]"
        : redactAt(item, redact, depth + 1),
    ]),
  );
}

/** `["--api-key", "value"]`, a command as a list. */
function isOptionValue(option: unknown, value: unknown): boolean {
  if (typeof option !== "string" || typeof value !== "string" || !option.startsWith("-")) return false;
  return !value.startsWith("-") && !MARK.test(value) && namesSecretOption(option);
}

const MARK = /^$|\[redacted(?::\w{1,64})?\]/;

/** Alone, `key` and similar words are ordinary in records and prose. */
function namesSecretText(name: string): boolean {
  return !/^(?:keys?|auth|pass|pat)\d*$/i.test(name) && isSecretName(name);
}

/** With two dashes, `--pass` and `--key` are not prose. */
function namesSecretOption(option: string): boolean {
  const name = option.replace(/^--?/, "");
  return option.startsWith("--") ? isSecretName(name) : namesSecretText(name);
}

/** Leaves marks alone, even if a known value occurs in one. */
function outsideMarks(text: string, replace: Redact): string {
  return text
    .split(/(\[redacted(?::\w{1,64})?\])/)
    .map((part, index) => (index % 2 === 0 ? replace(part) : part))
    .join("");
}

/**
 * The lines of a multi-line value without surrounding blanks: programs show them separately, indented or with other
 * line ends. Leaves out short lines, which ordinary text contains, and a key's frame lines, which are the same in every
 * key.
 */
function linesOf(value: string): string[] {
  const lines = value.split("\n").map((line) => line.trim());
  return lines.filter((line) => line.length >= MIN_LINE && !line.startsWith("-----"));
}

const MIN_LINE = 12;

/** Vendor prefixes of credentials, JSON web tokens, and bearer tokens without a header. */
const CREDENTIAL =
  /(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|[sr]k_(?:live|test)_\w{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])|xox[abeprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{30,}|ya29\.[\w-]{20,}|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})/g;
const BEARER = /(\bBearer {1,3})[\w.~+/-]{16,}={0,2}/gi;
/** A truncated block is still a secret. */
const PRIVATE_KEY =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-(?!----)[^-]*){0,64}(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?/g;
const URL_PASSWORD = /(:\/\/[^\s/:@"'\\[\]]{0,128}:)(?!\[redacted)[^\s/@"'\\]{1,512}@/g;
const URL_TOKEN = /(:\/\/)[^\s/:@"'\\[\]]{20,512}@/g;
const COOKIE =
  /((?<![\w-])(?:set-)?cookie\\{0,3}["']?:\s{0,3}\\{0,3}["']?)(?!\[redacted)[^\s"'\\][^"'\\\r\n]*/gi;
const QUERY_KEY = /([?&]key=)(?!\[redacted)[^\s"'\\&#]{8,}/gi;
/** The start of `name=value`, `name: value` and `"name":"value"`, including inside a JSON string. */
const NAMED = /(?<![\w.-])(-{0,2})([A-Za-z_][\w.-]{0,79})\\{0,3}["']?\s{0,20}[=:]\s{0,20}\\{0,3}["']?/g;
const VALUE =
  /((?:(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s{1,3})?)(?!\[redacted|(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s)([^\s"'\\&,;<>(){}[\]][^\s"'\\&,;]{3,})/iy;
/** `--api-key value`: an option and its value as two words. */
const OPTION =
  /(?<![\w.-])((--?[A-Za-z][\w.-]{0,79})\s{1,3}["']?)(?!\[redacted)[^\s"'\\&,;<>(){}[\]-][^\s"'\\&,;]{7,}/g;

/** The same in quotes: elements of a JSON or TOML list, or shell words, including inside a JSON string. */
const LISTED =
  /(?<![\w.-])(--?)([A-Za-z][\w.-]{0,79})\\{0,3}["'](?:\\{1,3}[nrt]|[\s,]){0,64}\\{0,3}["'](?!-)/g;

/** One replacement may complete another pattern, so the search repeats until nothing changes. */
function settle(text: string): string {
  let before = text;
  for (let pass = 0; pass < 4; pass += 1) {
    const after = redactPatterns(before);
    if (after === before) return after;
    before = after;
  }
  return before;
}

function redactPatterns(text: string): string {
  let rest = text;
  if (rest.includes("PRIVATE KEY")) rest = rest.replace(PRIVATE_KEY, "[redacted]");
  if (rest.includes("://")) {
    rest = rest.replace(URL_PASSWORD, "$1[redacted]@").replace(URL_TOKEN, "$1[redacted]@");
  }
  rest = rest.replace(CREDENTIAL, "[redacted]");
  if (!MAY_NAME_SECRET.test(rest)) return rest;
  rest = rest
    .replace(BEARER, "$1[redacted]")
    .replace(COOKIE, "$1[redacted]")
    .replace(QUERY_KEY, "$1[redacted]")
    .replace(OPTION, (whole, before: string, option: string) =>
      namesSecretOption(option) ? `${before}[redacted]` : whole,
    );
  return redactNamed(redactNamed(rest, LISTED), NAMED);
}

/** Looks at a value only after a secret name, so that `https:` does not hide the `token=` in its URL. */
function redactNamed(text: string, names: RegExp): string {
  const kept: string[] = [];
  let from = 0;
  for (const match of text.matchAll(names)) {
    const [before, dashes = "", name = ""] = match;
    const valueAt = match.index + before.length;
    if (match.index < from || !(namesSecretOption(`${dashes}${name}`) || isPart(text, match))) continue;
    const { scheme, end } = quotedValue(text, valueAt, before) ?? bareValue(text, valueAt);
    const value = text.slice(valueAt + scheme.length, end);
    if (value === "" || WHOLE_MARK.test(value) || isProse(before, name, value)) continue;
    kept.push(text.slice(from, valueAt), scheme, "[redacted]");
    from = end;
  }
  return kept.length === 0 ? text : `${kept.join("")}${text.slice(from)}`;
}

/** `Pwd=value` inside a connection string or a URL query; alone, `PWD=` is a directory. */
function isPart(text: string, { 0: before, 2: name = "", index }: RegExpExecArray): boolean {
  if (!/^(?:pwd?|pass)$/i.test(name) || !before.includes("=")) return false;
  if (/[;?&]\s{0,3}$/.test(text.slice(Math.max(0, index - 4), index))) return true;
  return NEXT_PART.test(text.slice(index + before.length, index + before.length + MAX_PART));
}

const NEXT_PART = /^[^\s;]{4,400};\s{0,3}[A-Za-z][\w ]{0,40}=/;
const MAX_PART = 512;

const WHOLE_MARK = /^\[redacted(?::\w{1,64})?\]$/;
const SCHEME = /^(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s{1,3}/i;
const MAX_QUOTED = 4_096;

interface Found {
  readonly scheme: string;
  readonly end: number;
}

function bareValue(text: string, at: number): Found {
  VALUE.lastIndex = at;
  const [whole = "", scheme = ""] = VALUE.exec(text) ?? [];
  return { scheme, end: at + whole.length };
}

/**
 * The value up to its closing quote, including blanks. Null: no closing quote on this line, or almost nothing before
 * it.
 */
function quotedValue(text: string, at: number, before: string): Found | null {
  const [, slashes = "", quote] = /(\\{0,3})(["'])$/.exec(before) ?? [];
  if (quote === undefined) return null;
  let backslashes = 0;
  for (let end = at; end < text.length && end < at + MAX_QUOTED; end += 1) {
    const character = text.charAt(end);
    if (character === "\n" || character === "\r") return null;
    // More backslashes than before the first quote: this quote is part of the value.
    if (character === quote && backslashes <= slashes.length) {
      const inside = text.slice(at, end - backslashes);
      if (inside.length < 4 || /^\s/.test(inside)) return null;
      return { scheme: SCHEME.exec(inside)?.[0] ?? "", end: at + inside.length };
    }
    backslashes = character === "\\" ? backslashes + 1 : 0;
  }
  return null;
}

/** `Invalid token: expired` reveals no secret; `x-api-key: abcdefgh` may. */
function isProse(before: string, name: string, value: string): boolean {
  return before.endsWith(": ") && /^[a-z]+$/i.test(name) && /^[A-Za-z][a-z]*[.!?]?$/.test(value);
}
