/** Changes fields of a JSON object in its text; every other byte stays. */
import { parseJson } from "../../lib/json.ts";

/** The text must be an object. Adds a missing field at the end. */
export function withFields(text: string, fields: Readonly<Record<string, string>>): string {
  let changed = text;
  for (const [key, value] of Object.entries(fields)) changed = withField(changed, key, JSON.stringify(value));
  return changed;
}

function withField(text: string, key: string, json: string): string {
  const members = topLevel(text);
  const found = members.fields.findLast((field) => field.key === key);
  if (found !== undefined) return text.slice(0, found.from) + json + text.slice(found.to);
  const comma = members.fields.length === 0 ? "" : ",";
  return `${text.slice(0, members.end)}${comma}${JSON.stringify(key)}:${json}${text.slice(members.end)}`;
}

interface Members {
  readonly fields: readonly { readonly key: string; readonly from: number; readonly to: number }[];
  /** After the last value. */
  readonly end: number;
}

/** The positions of the values of top-level fields. */
function topLevel(text: string): Members {
  const fields: { key: string; from: number; to: number }[] = [];
  let depth = 0;
  let key: string | null = null;
  let from = -1;
  let end = text.indexOf("{") + 1;
  const finish = (at: number): void => {
    if (key === null || from === -1) return;
    const to = from + text.slice(from, at).trimEnd().length;
    fields.push({ key, from, to });
    end = to;
    key = null;
    from = -1;
  };
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? "";
    const begins = depth === 1 && key !== null && from === -1 && !/[\s:]/.test(char);
    if (begins) from = at;
    if (char === '"') {
      const start = at;
      at += 1;
      while (at < text.length && text[at] !== '"') at += text[at] === "\\" ? 2 : 1;
      if (depth === 1 && key === null) key = String(parseJson(text.slice(start, at + 1)));
    } else if (char === "{" || char === "[") depth += 1;
    else if (char === "}" || char === "]") {
      if (depth === 1) finish(at);
      depth -= 1;
    } else if (char === "," && depth === 1) finish(at);
  }
  return { fields, end };
}
