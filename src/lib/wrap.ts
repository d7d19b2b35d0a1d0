/** Wraps text for a terminal, with a hanging indent. Expects text without control characters except our colours. */
import { widthOf } from "./width.ts";

// oxlint-disable-next-line no-control-regex -- a colour begins with it
const COLOR = /\u001b\[\d*m/g;

function columnsOf(text: string): number {
  return widthOf(text.includes("\u001b") ? text.replaceAll(COLOR, "") : text);
}

/**
 * Lines of at most `width` columns, broken at spaces; all but the first begin with `indent` spaces. A word wider than a
 * line stays whole, since users may have to type it.
 */
export function wrap(
  text: string,
  { width, indent }: { readonly width: number; readonly indent: number },
): string[] {
  const margin = " ".repeat(indent);
  const lines: string[] = [];
  let line = "";
  // Each word with its leading blanks, which stay unless the line breaks there.
  let blanks = "";
  for (const [at, part] of text.split(/( +)/).entries()) {
    const longer = `${line}${blanks}${part}`;
    if (at % 2 === 1) blanks = part;
    else if (part === "") continue;
    else if (line === "" || columnsOf(longer) <= width) line = longer;
    else {
      lines.push(line);
      line = `${margin}${part}`;
    }
  }
  return [...lines, line];
}

/**
 * A path after `indent` used columns: beside them, otherwise whole on a line below, otherwise in parts that end with a
 * slash.
 */
export function wrapPath(
  path: string,
  { width, indent }: { readonly width: number; readonly indent: number },
): string[] {
  if (indent + widthOf(path) <= width) return [path];
  if (BELOW + widthOf(path) <= width) return ["", `${" ".repeat(BELOW)}${path}`];
  const lines: string[] = [];
  let line = "";
  for (const part of path.split(/(?<=\/)/)) {
    if (line !== "" && indent + widthOf(line + part) > width) {
      lines.push(line);
      line = part;
    } else line += part;
  }
  const margin = " ".repeat(indent);
  return [...lines, line].map((text, at) => (at === 0 ? text : `${margin}${text}`));
}

const BELOW = 2;
