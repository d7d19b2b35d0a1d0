/**
 * Hides secrets in the frames of a recording. A secret appears character by character, so the beginning of a secret is
 * hidden as well, in all frames before it is complete. Pure.
 */
import type { Redact } from "../lib/secrets.ts";
import type { ScreenCell, ScreenFrame } from "./frame.ts";

const MASK = "•";
/** Shorter beginnings are ordinary text. */
const PROBE = 6;
const MARK = /\[redacted(?::\w{1,64})?\]/;
/** More different secrets than a recording has. */
const MAX_SECRETS = 10_000;

/** Adds the secrets that this frame shows. */
export function collectSecrets(frame: ScreenFrame, redact: Redact, secrets: Set<string>): void {
  const { text } = textOf(frame);
  for (const [from, to] of removedRanges(text, redact)) {
    const secret = text.slice(from, to);
    if (secret.length >= PROBE && secrets.size < MAX_SECRETS) secrets.add(secret);
  }
}

export function maskedFrame(frame: ScreenFrame, redact: Redact, secrets: ReadonlySet<string>): ScreenFrame {
  const { text, cells } = textOf(frame);
  const ranges = [...removedRanges(text, redact), ...beginningsIn(text, secrets)];
  if (ranges.length === 0) return frame;
  const rows = frame.rows.map((row): ScreenCell[] => [...row]);
  for (const [from, to] of ranges) {
    for (let at = from; at < to; at += 1) {
      const place = cells[at];
      const row = place === undefined ? undefined : rows[place[0]];
      const cell = place === undefined ? undefined : row?.[place[1]];
      if (place !== undefined && row !== undefined && cell !== undefined && cell.text !== " ")
        row[place[1]] = { ...cell, text: cell.text === "" ? "" : MASK };
    }
  }
  return { ...frame, rows: rows.map(halves) };
}

/** A mask is one column wide, so the second half of a wide character becomes a blank. */
function halves(row: readonly ScreenCell[]): readonly ScreenCell[] {
  return row.map((cell, at) =>
    cell.text === "" && row[at - 1]?.text === MASK ? { ...cell, text: " " } : cell,
  );
}

type TextRange = readonly [from: number, to: number];

/** The screen as text, wrapped rows joined, and the cell of each character. */
function textOf({ rows, wrapped }: ScreenFrame): {
  text: string;
  cells: (readonly [row: number, column: number] | undefined)[];
} {
  const cells: (readonly [number, number] | undefined)[] = [];
  let text = "";
  for (const [y, row] of rows.entries()) {
    if (y > 0 && wrapped[y] !== true) {
      text += "\n";
      cells.push(undefined);
    }
    const joins = wrapped[y + 1] === true;
    const end = joins ? row.length - 1 : row.findLastIndex((cell) => cell.text.trim() !== "");
    for (const [x, cell] of row.slice(0, end + 1).entries()) {
      text += cell.text;
      for (let unit = 0; unit < cell.text.length; unit += 1) cells.push([y, x]);
    }
  }
  return { text, cells };
}

/** What redaction takes out of a text. */
export function removedRanges(text: string, redact: Redact): readonly TextRange[] {
  const redacted = redact(text);
  if (redacted === text) return [];
  const ranges: TextRange[] = [];
  const kept = redacted.split(new RegExp(MARK, "g"));
  let at = 0;
  for (const [index, part] of kept.entries()) {
    const isLast = index === kept.length - 1;
    const found = index === 0 ? 0 : isLast ? text.length - part.length : text.indexOf(part, at);
    // The text was changed in another way: nothing of it can be trusted.
    if (found < at || !text.startsWith(part, found)) return [[0, text.length]];
    if (found > at) ranges.push([at, found]);
    at = found + part.length;
  }
  return ranges;
}

function beginningsIn(text: string, secrets: ReadonlySet<string>): readonly TextRange[] {
  const ranges: TextRange[] = [];
  for (const secret of secrets) {
    const probe = secret.slice(0, PROBE);
    for (let at = text.indexOf(probe); at !== -1; at = text.indexOf(probe, at + 1)) {
      let end = at + PROBE;
      while (end - at < secret.length && text[end] === secret[end - at]) end += 1;
      ranges.push([at, end]);
    }
  }
  return ranges;
}
