/** Text in lines of a terminal, with a hanging indent. Expects text without control characters. */
import { widthOf } from "./width.ts";

/**
 * Lines of at most `width` columns, broken at spaces; all but the first begin with `indent` spaces. A word that is wider
 * than a line stays whole, since it may be something to type.
 */
export function wrap(
  text: string,
  { width, indent }: { readonly width: number; readonly indent: number },
): string[] {
  const margin = " ".repeat(indent);
  const lines: string[] = [];
  let line = "";
  // Each word with the blanks before it, which stay where the line does not break.
  let blanks = "";
  for (const [at, part] of text.split(/( +)/).entries()) {
    const longer = `${line}${blanks}${part}`;
    if (at % 2 === 1) blanks = part;
    else if (part === "") continue;
    else if (line === "" || widthOf(longer) <= width) line = longer;
    else {
      lines.push(line);
      line = `${margin}${part}`;
    }
  }
  return [...lines, line];
}
