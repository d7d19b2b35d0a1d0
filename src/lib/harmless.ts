/**
 * Makes untrusted text safe for a terminal (I11): the result cannot move the cursor, change a title, fill a clipboard
 * or reorder text. Every function takes linear time.
 */
import { cutToColumns } from "./width.ts";

/**
 * C0 except tab and line feed, DEL, C1, bidirectional controls, invisible characters (except emoji variation
 * selectors), line separators, Unicode tags, and lone surrogates.
 */
const HARMFUL =
  /(?:(?!\p{Variation_Selector})[\0-\x08\x0b-\x1f\x7f-\x9f\p{DI}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}\ufff9-\ufffb]|[\u{e0100}-\u{e01ef}])+/gu;

/** Keeps line feeds and tabs; other harmful characters become visible as `\xNN` or `\u{NNNN}`. */
export function harmless(text: string): string {
  return text.replace(HARMFUL, visible);
}

/** One line: line breaks and tabs also become spaces. `max` cuts it to that many columns. */
export function harmlessLine(text: string, max?: number): string {
  if (max === undefined) return harmless(text.replace(/\r\n|[\n\t\r]/g, " "));
  // More than `max` columns can need, so that a huge text costs no more than a short one.
  const enough = max * 8 + 64;
  const beginning =
    text.length <= enough ? text : `${text.slice(0, enough).replace(/[\ud800-\udbff]$/, "")} `;
  const line = cutToColumns(harmless(beginning.replace(/\r\n|[\n\t\r]/g, " ")), max);
  return text.length <= enough || line.endsWith("…") ? line : `${line.trimEnd()}…`;
}

/**
 * One line of at most `max` columns that ends with a whole sentence, since half a sentence may be half a command. A
 * longer first sentence is cut before its command.
 */
export function wholeSentences(text: string, max: number): string {
  const line = harmlessLine(text, max);
  if (!line.endsWith("…") || harmlessLine(text) === line) return line;
  const end = Math.max(...[". ", "! ", "? "].map((mark) => line.lastIndexOf(mark)));
  if (end > 0) return `${line.slice(0, end + 1)} …`;
  let command = line.lastIndexOf("reprise ");
  if (command <= 0) return line;
  while (command > 0 && " `:".includes(line.charAt(command - 1))) command -= 1;
  return `${line.slice(0, command)} …`;
}

/** JSON text whose only raw control characters are its layout: the same value, safe to show. */
export function harmlessJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(HARMFUL, (run) => {
    let escaped = "";
    for (let at = 0; at < run.length; at += 1) {
      escaped += `\\u${run.charCodeAt(at).toString(16).padStart(4, "0")}`;
    }
    return escaped;
  });
}

/**
 * Terminal output as text: removes escape sequences, applies carriage returns as overwriting, and makes the rest
 * harmless. Ignores cursor movement between lines.
 */
export function plain(text: string): string {
  if (!/[\r\x1b\x80-\x9f]/.test(text)) return harmless(text);
  const out: string[] = [];
  let line = new Line();
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === ESC || (code >= 0x80 && code <= 0x9f)) {
      at = skipSequence(text, at, line);
    } else if (code === LF) {
      out.push(line.text());
      line = new Line();
      at += 1;
    } else if (code === CR) {
      // Terminals turn a line feed into `\r\n`, sometimes `\r\r\n`; neither overwrites anything.
      let next = at + 1;
      while (text.charCodeAt(next) === CR) next += 1;
      if (text.charCodeAt(next) !== LF) line.restart();
      at = next;
    } else {
      const from = at;
      while (at < text.length && isOrdinary(text.charCodeAt(at))) at += 1;
      line.add(text.slice(from, at));
    }
  }
  out.push(line.text());
  return harmless(out.join("\n"));
}

const LF = 10;
const CR = 13;
const CAN = 0x18;
const SUB = 0x1a;
const ESC = 0x1b;
const BEL = 7;
const ST = 0x9c;

/** The widest gap that a cursor-forward sequence may leave; UIs use it instead of spaces. */
const MAX_GAP = 200;

/** A screen line that a program writes several times, each time from its first column. */
class Line {
  /** Earlier writes, oldest first. They show only beyond the end of later ones. */
  #before: string[] = [];
  #parts: string[] = [];

  add(part: string): void {
    this.#parts.push(part);
  }

  restart(): void {
    this.#before.push(this.#parts.join(""));
    this.#parts = [];
  }

  /** Erases from the cursor to the end of the line: everything there is from earlier writes. */
  eraseRest(): void {
    this.#before = [];
  }

  eraseAll(): void {
    this.#before = [];
    this.#parts = [];
  }

  text(): string {
    const newest = this.#parts.join("");
    const pieces = [newest];
    let covered = newest.length;
    for (const earlier of this.#before.toReversed()) {
      if (earlier.length <= covered) continue;
      pieces.push(earlier.slice(covered).replace(/^[\udc00-\udfff]/, ""));
      covered = earlier.length;
    }
    return pieces.join("");
  }
}

/** Steps over the control sequence at `at`; an invalid one ends at its first invalid character. */
function skipSequence(text: string, at: number, line: Line): number {
  const first = text.charCodeAt(at);
  // An 8-bit introducer equals `ESC` and its code minus 0x40.
  const kind = first === ESC ? text.charCodeAt(at + 1) : first - 0x40;
  const after = first === ESC ? at + 2 : at + 1;
  switch (kind) {
    case 0x5b: // [
      return skipControl(text, after, line);
    case 0x5d: // ]
    case 0x50: // P
    case 0x58: // X
    case 0x5e: // ^
    case 0x5f: // _
      return skipString(text, after);
    default:
      return first === ESC ? skipEscape(text, at + 1) : after;
  }
}

function skipControl(text: string, from: number, line: Line): number {
  let at = from;
  while (isBetween(text.charCodeAt(at), 0x30, 0x3f)) at += 1;
  const parametersEnd = at;
  while (isBetween(text.charCodeAt(at), 0x20, 0x2f)) at += 1;
  const final = text.charCodeAt(at);
  if (!isBetween(final, 0x40, 0x7e)) return at;
  if (at === parametersEnd && at - from <= 4) obey(final, text.slice(from, at), line);
  return at + 1;
}

/** Applies the few sequences that change a line's text. */
function obey(final: number, parameters: string, line: Line): void {
  if (final === 0x43 /* C */ && /^\d*$/.test(parameters)) {
    line.add(" ".repeat(Math.min(MAX_GAP, Number(parameters) || 1)));
  } else if (final === 0x4b /* K */) {
    if (parameters === "2") line.eraseAll();
    else if (parameters === "" || parameters === "0") line.eraseRest();
  }
}

/** A line feed also ends a string; otherwise an unterminated string would hide everything after it. */
function skipString(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BEL || code === ST || code === CAN || code === SUB) return at + 1;
    if (code === LF) return at;
    if (code === ESC) return text[at + 1] === "\\" ? at + 2 : at;
  }
  return text.length;
}

function skipEscape(text: string, from: number): number {
  let at = from;
  while (isBetween(text.charCodeAt(at), 0x20, 0x2f)) at += 1;
  return isBetween(text.charCodeAt(at), 0x30, 0x7e) ? at + 1 : at;
}

function isBetween(code: number, low: number, high: number): boolean {
  return code >= low && code <= high;
}

function isOrdinary(code: number): boolean {
  return code !== ESC && code !== LF && code !== CR && (code < 0x80 || code > 0x9f);
}

const BYTES = Array.from({ length: 256 }, (_, code) => `\\x${code.toString(16).padStart(2, "0")}`);

function visible(run: string): string {
  if (run.length === 1) return visibleCharacter(run);
  let shown = "";
  for (const character of run) shown += visibleCharacter(character);
  return shown;
}

function visibleCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return BYTES[code] ?? `\\u{${code.toString(16).padStart(4, "0")}}`;
}
