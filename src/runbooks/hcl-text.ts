/** HCL texts: quoted and heredocs. `${var.NAME}` and `$${` stay unchanged: templates are filled in later. */
import { type At, locator, problem, type Scan, take, Unreadable, type Value } from "./tree.ts";

/** `var.NAME`, unless it continues as a longer expression. */
export const VARIABLE = /var\.[A-Za-z_]\w*(?![\w.[(-])/y;

const PLAIN = /[^"\\\n$%]+/y;
const ESCAPE = /\\(?:[nrt"\\]|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})/y;
const REFERENCE = /\$\{[ \t]*(var\.[A-Za-z_]\w*)[ \t]*\}/y;
const OPENING = /<<(-?)([\p{L}_][\p{L}\p{N}_-]*)\r?\n/uy;
const SHORT: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", '"': '"', "\\": "\\" };

/** At an opening quote. */
export function quoted(scan: Scan, at: At): Value {
  const start = scan.pos;
  let made = "";
  let refused = false;
  scan.pos += 1;
  for (;;) {
    const char = scan.text[scan.pos];
    if (char === undefined || char === "\n")
      throw new Unreadable(
        start,
        "This text is not closed in its line. Longer ones are written <<END … END.",
      );
    if (char === '"') break;
    if (char === "\\") made += escaped(scan);
    else {
      const piece = take(scan, PLAIN) ?? template(scan);
      if (piece === null) refused = true;
      else made += piece;
    }
  }
  scan.pos += 1;
  if (refused) return { kind: "refused", at };
  return { kind: "text", value: made, at, verbatim: scan.text.slice(start + 1, scan.pos - 1) === made };
}

function escaped(scan: Scan): string {
  const start = scan.pos;
  const raw = take(scan, ESCAPE);
  if (raw === null)
    throw new Unreadable(start, `HCL does not know the escape ${scan.text.slice(start, start + 2)}.`);
  const short = SHORT[raw[1] ?? ""];
  if (short !== undefined) return short;
  const code = Number.parseInt(raw.slice(2), 16);
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
    throw new Unreadable(start, `${raw} is not a character.`);
  return String.fromCodePoint(code);
}

/** At `$` or `%`. Null: an expression that would need evaluation; reports a problem and skips it. */
function template(scan: Scan): string | null {
  const start = scan.pos;
  const { text } = scan;
  if (text.startsWith("$${", start) || text.startsWith("%%{", start)) {
    scan.pos += 3;
    return text[start] === "$" ? "$${" : "%{";
  }
  if (text[start + 1] !== "{") {
    scan.pos += 1;
    return text[start] ?? "";
  }
  REFERENCE.lastIndex = start;
  const reference = REFERENCE.exec(text);
  if (reference !== null) {
    scan.pos += reference[0].length;
    return `\${${reference[1] ?? ""}}`;
  }
  const why = "A runbook evaluates nothing: a text may contain only ${var.NAME}. Write $${ for a plain ${.";
  scan.problems.push(problem(scan.at(start), why));
  skipTemplate(scan);
  return null;
}

/** Up to its brace; an unclosed one ends with its line. */
function skipTemplate(scan: Scan): void {
  let depth = 0;
  while (scan.pos < scan.text.length && scan.text[scan.pos] !== "\n") {
    const char = scan.text[scan.pos];
    scan.pos += 1;
    if (char === "{") depth += 1;
    else if (char === "}" && (depth -= 1) === 0) return;
  }
}

/** At `<`. Null: not a heredoc. Reads through the line break after its end. */
export function heredoc(scan: Scan, at: At): Value | null {
  const start = scan.pos;
  OPENING.lastIndex = start;
  const opening = OPENING.exec(scan.text);
  if (opening === null) return null;
  const [whole, dash = "", name = ""] = opening;
  const lines: string[] = [];
  let pos = start + whole.length;
  for (;;) {
    const end = scan.text.indexOf("\n", pos);
    if (end === -1) throw new Unreadable(start, `The line ${name} that ends this text is missing.`);
    const line = scan.text.slice(pos, end).replace(/\r$/, "");
    pos = end + 1;
    if (line.trim() === name) break;
    lines.push(line);
  }
  scan.pos = pos;
  const cut = dash === "" ? 0 : indentOf(lines);
  const text = lines.map((line) => `${line.slice(Math.min(cut, line.search(/\S|$/)))}\n`).join("");
  const made = templatesOf(scan, text, { line: at.line + 1, cut });
  return made === null ? { kind: "refused", at } : { kind: "text", value: made, at, verbatim: false };
}

/** The common indent of all non-blank lines. */
function indentOf(lines: readonly string[]): number {
  const least = Math.min(...lines.filter((line) => line.trim() !== "").map((line) => line.search(/\S/)));
  return Number.isFinite(least) ? least : 0;
}

/** The same rules for `${` as in quotes. */
function templatesOf(scan: Scan, text: string, { line, cut }: { line: number; cut: number }): string | null {
  const place = locator(text);
  const at = (offset: number): At => {
    const inside = place(offset);
    return { line: line + inside.line - 1, column: inside.column + cut };
  };
  const inner: Scan = { text, pos: 0, at, problems: scan.problems };
  let made = "";
  let refused = false;
  while (inner.pos < text.length) {
    const piece = take(inner, /[^$%]+/y) ?? template(inner);
    if (piece === null) refused = true;
    else made += piece;
  }
  return refused ? null : made;
}
