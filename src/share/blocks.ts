/**
 * Finds prose, code blocks and code spans in untrusted text. Everything else that Markdown knows stays plain text, so
 * that a page shows the words and follows no instruction in them. Pure, linear time.
 */
export type TextBlock =
  | { readonly type: "prose"; readonly lines: readonly string[] }
  | { readonly type: "code"; readonly text: string };

export function blocksOf(text: string): readonly TextBlock[] {
  const blocks: TextBlock[] = [];
  let lines: string[] = [];
  let code: { readonly fence: string; readonly lines: string[] } | null = null;
  const endProse = () => {
    if (lines.some((line) => line.trim() !== "")) blocks.push({ type: "prose", lines: trimmed(lines) });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (code === null && mark !== undefined) {
      endProse();
      code = { fence: mark, lines: [] };
    } else if (code !== null && mark?.startsWith(code.fence) === true && line.trim() === mark) {
      blocks.push({ type: "code", text: code.lines.join("\n") });
      code = null;
    } else if (code === null) lines.push(line);
    else code.lines.push(line);
  }
  // A block without an end goes on to the end of the text.
  if (code !== null) blocks.push({ type: "code", text: code.lines.join("\n") });
  endProse();
  return blocks;
}

function trimmed(lines: readonly string[]): readonly string[] {
  const first = lines.findIndex((line) => line.trim() !== "");
  const last = lines.findLastIndex((line) => line.trim() !== "");
  return lines.slice(first, last + 1);
}

export interface TextSpan {
  readonly code: boolean;
  readonly text: string;
}

/** A code span ends on its own line with as many backticks as it began with. */
export function spansOf(line: string): readonly TextSpan[] {
  const marks = [...line.matchAll(/`+/g)].map(({ 0: mark, index }) => ({ index, length: mark.length }));
  const spans: TextSpan[] = [];
  // The next mark of each length is the last of its list, so that many unpaired marks cost no more than a few.
  const next = new Map<number, number[]>();
  for (const [at, { length }] of [...marks.entries()].toReversed()) {
    const same = next.get(length);
    if (same === undefined) next.set(length, [at]);
    else same.push(at);
  }
  let from = 0;
  for (let at = 0; at < marks.length; at += 1) {
    const mark = marks[at];
    if (mark === undefined) break;
    const same = next.get(mark.length) ?? [];
    while ((same.at(-1) ?? Number.POSITIVE_INFINITY) <= at) same.pop();
    const closing = same.at(-1) ?? -1;
    const end = marks[closing];
    if (end === undefined) continue;
    if (mark.index > from) spans.push({ code: false, text: line.slice(from, mark.index) });
    spans.push({ code: true, text: line.slice(mark.index + mark.length, end.index) });
    from = end.index + end.length;
    at = closing;
  }
  if (from < line.length) spans.push({ code: false, text: line.slice(from) });
  return spans;
}
