/**
 * Removes secrets from text before Reprise stores or shows it: known values, and texts that look like credentials. It
 * prefers to remove too much, because the raw bytes are kept elsewhere.
 *
 * Every expression takes linear time: no nested quantifiers, and an unbounded part that may fail starts at most once
 * per word. Redacting twice equals redacting once.
 */

import { Finder } from "./encoded.ts";
import { isPlainOption, isSecretOption, MAY_NAME_SECRET, namesSecret } from "./secret-names.ts";

export type Redact = (text: string) => string;

/** Ordinary text contains shorter values. */
export const MIN_KNOWN = 8;

/**
 * The passwords of the first URLs in a text, raw and decoded, and tokens in the place of a user. Leaves out ordinary
 * words of the text: `postgres://postgres:postgres@`.
 */
export function urlPasswords(text: string): readonly string[] {
  if (!text.includes("://")) return [];
  const urls = [...text.matchAll(/:\/\/((?:[^\s"'\\:]|:(?!\/\/)){1,1024})/g)].slice(0, MAX_URLS);
  const found = urls.flatMap(({ 1: rest = "", index }) => {
    const authority = /^[^/?#]*/.exec(rest)?.[0] ?? "";
    // A password may hold the characters that end the authority: `u:a/b@h`.
    return [...new Set([authority, rest])].flatMap((part) => {
      const account = part.slice(0, Math.max(0, part.lastIndexOf("@")));
      const { user = "", password = "" } = ACCOUNT.exec(account)?.groups ?? {};
      if (password !== "")
        return isOrdinary(text, `:${password}@`, password) ? [] : [password, decoded(password)];
      const isWeb = /https?$/i.test(text.slice(Math.max(0, index - 5), index));
      return isWeb && LIKE_TOKEN.test(user) ? [user] : [];
    });
  });
  return [...new Set(found)];
}

/** A number and a slash after the colon are a port and a path. */
const ACCOUNT = /^(?<user>[^/?#:]{0,512})(?::(?!\d{1,5}[/?#])(?<password>.*))?$/s;
const LIKE_TOKEN = /^(?=.*\d)[^\s/?#:@[\]]{12,512}$|^[^\s/?#:@[\]]{20,512}$/;

function isOrdinary(text: string, place: string, password: string): boolean {
  return COMMON.test(password) || text.replaceAll(place, "").includes(password);
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
      redactAt(item, namesSecret("", name) ? hideWhole : redact, depth + 1),
    ]),
  );
}

/** For the texts below a secret name, in lists and objects as well. */
function hideWhole(text: string): string {
  return MARK.test(text) ? text : "[redacted]";
}

/** `["--api-key", "value"]`, a command as a list. */
function isOptionValue(option: unknown, value: unknown): boolean {
  if (typeof option !== "string" || typeof value !== "string" || MARK.test(value)) return false;
  return isSecretOption(option) && !isPlainOption(value);
}

/** Nothing, or nothing but a mark. */
const MARK = /^(?:\[redacted(?::\w{1,64})?\])?$/;

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
/**
 * A password goes up to the last `@` of the word, since it may hold `@`, `/`, `?` and `#`. A number and a slash after the
 * colon are a port and a path.
 */
const URL_PASSWORD = /(:\/\/[^\s/?#:"'\\[\]]{0,128}:)(?!\d{1,5}[/?#])((?:[^\s"'\\:]|:(?!\/\/)){1,512})@/g;
/** The user of a URL without a password, or with a password by which the user is the token. */
const URL_TOKEN = /(:\/\/)([^\s/?#:@"'\\[\]]{8,512})((?::(?:x-oauth-basic)?)?@)/g;
const COOKIE =
  /((?<![\w-])(?:set-)?cookie\\{0,3}["']?:\s{0,3}\\{0,3}["']?)(?!\[redacted)[^\s"'\\][^"'\\\r\n]*/gi;
const QUERY_KEY = /([?&](?:key|sig|(?:[\w-]{1,40}-)?signature)=)(?!\[redacted)[^\s"'\\&#]{8,}/gi;
/** An element: `<password>value</password>`. */
const ELEMENT = /<([A-Za-z_][\w.:-]{0,79})((?:\s[^<>]{0,256})?>)([^<>]{4,4096})(?=<)/g;
/** A line of `.netrc`. */
const NETRC = /(\blogin\s{1,3}[^\s"']{1,128}\s{1,3}password\s{1,3})(?!\[redacted)[^\s"'\\]{4,}/gi;
/** The start of `name=value`, `name: value`, `"name" => "value"` and the like, including inside a JSON string. */
const NAMED =
  /(?<![\w.-])(-{0,2})([A-Za-z_][\w.-]{0,79})\\{0,3}["']?\s{0,20}[?+|:=]{0,2}[=:]>?\s{0,20}\\{0,3}["']?/g;
/** `CREATE USER u PASSWORD 'value'`. */
const BESIDE = /(?<![\w.-])()(\w{0,40}passw(?:or)?d|passphrase)\s{1,3}\\{0,3}["']/gi;
/** A comma before another character belongs to the value. */
const VALUE =
  /((?:(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s{1,3})?)(?!\[redacted|(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey)\s)([^\s"'\\&,;<>(){}[\]](?:[^\s"'\\&,;]|,(?=[^\s"'\\,])){3,})/iy;
/** `--api-key value`: an option and its value as two words. */
const OPTION = /(?<![\w.-])(--?)([A-Za-z][\w.-]{0,79})\s{1,3}(?:\\{0,3}["'])?/g;

/** The same in quotes: elements of a JSON or TOML list, or shell words, including inside a JSON string. */
const LISTED = /(?<![\w.-])(--?)([A-Za-z][\w.-]{0,79})\\{0,3}["'](?:\\{1,3}[nrt]|[\s,]){0,64}\\{0,3}["']/g;

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
    rest = rest
      .replace(URL_TOKEN, (whole, before: string, user: string, after: string) =>
        after !== "@" || user.length >= 12 || /\d/.test(user) ? `${before}[redacted]${after}` : whole,
      )
      .replace(URL_PASSWORD, "$1[redacted]@");
  }
  rest = rest.replace(CREDENTIAL, "[redacted]");
  if (!MAY_NAME_SECRET.test(rest)) return rest;
  rest = rest
    .replace(BEARER, "$1[redacted]")
    .replace(COOKIE, "$1[redacted]")
    .replace(QUERY_KEY, "$1[redacted]")
    .replace(NETRC, "$1[redacted]")
    .replace(ELEMENT, (whole, name: string, after: string, value: string) =>
      namesSecret("", name) && value.trim() !== "" ? `<${name}${after}[redacted]` : whole,
    );
  return [LISTED, OPTION, BESIDE, NAMED].reduce(redactNamed, rest);
}

/** Looks at a value only after a secret name, so that `https:` does not hide the `token=` in its URL. */
function redactNamed(text: string, names: RegExp): string {
  const kept: string[] = [];
  let from = 0;
  for (const match of text.matchAll(names)) {
    const [before, dashes = "", name = ""] = match;
    const valueAt = match.index + before.length;
    if (match.index < from || !(namesSecret(dashes, name) || isPart(text, match))) continue;
    const { scheme, end } = valueAfter(text, valueAt, match);
    const value = text.slice(valueAt + scheme.length, end);
    if (MARK.test(value) || isProse(before, name, value)) continue;
    if (names !== NAMED && isPlainValue(names, before, value)) continue;
    kept.push(text.slice(from, valueAt), scheme, "[redacted]");
    from = end;
  }
  return kept.length === 0 ? text : `${kept.join("")}${text.slice(from)}`;
}

function valueAfter(text: string, at: number, { 0: before, 2: name = "" }: RegExpExecArray): Found {
  const quoted = quotedValue(text, at, before);
  if (quoted !== null) return quoted;
  if (!isGiven(before, name)) return { scheme: "", end: at };
  if (/authorization$/i.test(name)) return headerValue(text, at);
  return listValue(text, at) ?? bareValue(text, at);
}

/**
 * Whether a name gives the value behind it, without quotes. Comparisons and arrows (`token => token.id`) do so only
 * with a name in capitals.
 */
function isGiven(before: string, name: string): boolean {
  return !/[=:][=>]/.test(before.replace(":=", "=")) || !/[a-z]/.test(name);
}

/** After an option, a short word without quotes is prose, and another option is not its value. */
function isPlainValue(names: RegExp, before: string, value: string): boolean {
  return isPlainOption(value) || (names === OPTION && value.length < 8 && !/["']$/.test(before));
}

/** `Pwd=value` inside a connection string or a URL query, or not a path; alone, `PWD=/x` is a directory. */
function isPart(text: string, { 0: before, 2: name = "", index }: RegExpExecArray): boolean {
  if (!/^(?:pwd|pass)$/i.test(name) || !before.includes("=")) return false;
  if (/^pwd$/i.test(name) && /^[^\s/~.$%`<({[\\]/.test(text.slice(index + before.length))) return true;
  if (/[;?&]\s{0,3}$/.test(text.slice(Math.max(0, index - 4), index))) return true;
  return NEXT_PART.test(text.slice(index + before.length, index + before.length + MAX_PART));
}

const NEXT_PART = /^[^\s;]{4,400};\s{0,3}[A-Za-z][\w ]{0,40}=/;
const MAX_PART = 512;

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
 * The whole value of a header: parameters may have blanks, commas and quotes (`Digest username="u", response="…"`). A
 * quote that begins no parameter ends the header, as in `-H 'Authorization: …'`.
 */
function headerValue(text: string, at: number): Found {
  if (ONE_WORD.test(text.slice(at, at + MAX_QUOTED))) return bareValue(text, at);
  let open = "";
  let backslashes = "";
  let end = at;
  for (; end < text.length && end < at + MAX_QUOTED; end += 1) {
    const character = text.charAt(end);
    if (character === "\n" || character === "\r") break;
    if (backslashes !== "" && open === "" && /[nr]/.test(character)) break;
    if (character === '"' || character === "'") {
      const quote = backslashes + character;
      if (open === quote) open = "";
      else if (
        open === "" &&
        /=\s?$/.test(text.slice(Math.max(at, end - quote.length - 1), end - backslashes.length))
      )
        open = quote;
      else if (open === "") break;
    }
    backslashes = character === "\\" ? `${backslashes}\\` : "";
  }
  const inside = text.slice(at, end - backslashes.length).trimEnd();
  const scheme = SCHEME.exec(inside)?.[0] ?? "";
  return { scheme, end: at + inside.length };
}

/** These schemes have one word, and prose may follow it. */
const ONE_WORD =
  /^(?:Bearer|Basic|Negotiate|ApiKey)\s{1,3}[^\s"'\\,;=]{4,}={0,2}(?=[\s;)}\]]|$|\\{0,3}["'](?:[\s,;:)}\]\\]|$))/i;

/** Everything between the first and the last quote of `["one", "two"]`. Null: no list. */
function listValue(text: string, at: number): Found | null {
  const list = LIST.exec(text.slice(at, at + MAX_QUOTED))?.[0];
  if (list === undefined || /^\[{1,2}redacted[\]:]/.test(list)) return null;
  const scheme = /^\[\s*\\{0,3}["']?/.exec(list)?.[0] ?? "";
  const inside = list.slice(scheme.length, -1).trimEnd();
  const end = /["']$/.test(scheme) ? inside.slice(0, -1).replace(/\\{1,3}$/, "") : inside;
  return { scheme, end: at + scheme.length + end.length };
}

const LIST = /^\[(?:[^\]"'\\]|\\{1,3}[^"'\\]|\\{1,3}"[^"\r\n]*"|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')*\]/;

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
