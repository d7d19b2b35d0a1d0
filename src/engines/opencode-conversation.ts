/** The conversation in OpenCode's store and exports: messages with parts, which grow in place. Seen in 1.18. */
import { outputOf } from "../lib/bounded.ts";
import { arrayIn, fieldIn, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import type { DatabaseRow, SaidEvent } from "./session-store.ts";

/** Null: not an export. */
export function saidInExport(text: string): readonly SaidEvent[] | null {
  const found = parseObject(text);
  if (!Array.isArray(fieldIn(found, "messages"))) return null;
  return arrayIn(found, "messages").flatMap((message) =>
    saidIn(objectIn(message, "info"), arrayIn(message, "parts")),
  );
}

/** Rows `id`, `message_id` (null for a message) and `data`. Ids ascend with time. */
export function saidInRows(rows: readonly DatabaseRow[]): readonly SaidEvent[] {
  const messages = new Map<string, { info: JsonObject | undefined; parts: JsonObject[] }>();
  const text = (row: DatabaseRow, name: string) => (typeof row[name] === "string" ? row[name] : "");
  for (const row of rows)
    if (row["message_id"] === null)
      messages.set(text(row, "id"), { info: parseObject(text(row, "data")), parts: [] });
  for (const row of rows) {
    const part = parseObject(text(row, "data"));
    if (row["message_id"] !== null && part !== undefined)
      messages.get(text(row, "message_id"))?.parts.push({ ...part, id: text(row, "id") });
  }
  const ordered = [...messages].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return ordered.flatMap(([, { info, parts }]) =>
    saidIn(
      info,
      parts.toSorted((one, other) => ((stringIn(one, "id") ?? "") < (stringIn(other, "id") ?? "") ? -1 : 1)),
    ),
  );
}

function saidIn(info: JsonObject | undefined, parts: readonly unknown[]): readonly SaidEvent[] {
  const isUser = stringIn(info, "role") === "user";
  const created = numberIn(objectIn(info, "time"), "created");
  const said = parts.flatMap((part): SaidEvent[] => {
    const id = stringIn(part, "id");
    const named = id === undefined ? {} : { id };
    const text = stringIn(part, "text") ?? "";
    switch (stringIn(part, "type") ?? "") {
      case "text":
        // OpenCode adds parts to a message, such as the content of a named file.
        if (text.trim() === "" || fieldIn(part, "synthetic") === true) return [];
        return [
          {
            event: isUser ? { type: "message", text } : { type: "text", text },
            ...named,
            ...at(part, created),
          },
        ];
      case "tool":
        return [...callIn(part, created)];
      case "compaction":
        return [{ event: { type: "notice", message: "the conversation was compacted" }, ...named }];
      default:
        return [];
    }
  });
  const error = objectIn(info, "error");
  const why = stringIn(objectIn(error, "data"), "message") ?? stringIn(error, "name");
  return why === undefined
    ? said
    : [...said, { event: { type: "notice", message: why }, ...at(null, created) }];
}

function callIn(part: unknown, created: number | undefined): readonly SaidEvent[] {
  const name = stringIn(part, "tool") ?? "tool";
  const call = objectIn(part, "state");
  const input = objectIn(call, "input");
  const detail = stringIn(input, "command") ?? stringIn(input, "filePath") ?? stringIn(input, "description");
  const known = {
    id: stringIn(part, "callID") ?? name,
    name,
    ...(detail === undefined ? {} : { detail: detail.slice(0, 200) }),
  };
  const began: SaidEvent = { event: { type: "tool", state: "started", ...known }, ...at(call, created) };
  const status = stringIn(call, "status");
  if (status !== "completed" && status !== "error") return [began];
  const output = outputOf(stringIn(call, "output") ?? stringIn(call, "error"));
  const endedAt = numberIn(objectIn(call, "time"), "end") ?? created;
  return [
    began,
    {
      event: { type: "tool", state: "ended", ...known, ok: status === "completed", ...output },
      ...at(null, endedAt),
    },
  ];
}

function at(part: unknown, otherwise: number | undefined): { readonly at?: string } {
  const ms = numberIn(objectIn(part, "time"), "start") ?? otherwise;
  return ms === undefined || !(Math.abs(ms) <= 8.64e15) ? {} : { at: new Date(ms).toISOString() };
}
