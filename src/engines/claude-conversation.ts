/** The conversation in a transcript of Claude Code: one record per line. Seen in 2.1.197 and 2.1.325. */
import { outputOf } from "../lib/bounded.ts";
import { arrayIn, fieldIn, type JsonObject, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { detailOf, resultText, wordsIn } from "./claude-output.ts";
import type { SaidEvent } from "./session-store.ts";

const TOOL_FIELDS = ["command", "file_path", "path", "pattern", "query", "url", "description"];

export function claudeSaid(line: string): readonly SaidEvent[] {
  // Most lines are attachments and bookkeeping, some of them large.
  if (!/"type":\s?"(?:user|assistant|system)"/.test(line)) return [];
  const record = parseObject(line);
  if (record === undefined) return [];
  const at = stringIn(record, "timestamp");
  return eventsIn(record).map((said) => (at === undefined ? said : { ...said, at }));
}

function eventsIn(record: JsonObject): readonly SaidEvent[] {
  switch (stringIn(record, "type") ?? "") {
    case "user":
      return heard(record);
    case "assistant":
      return answered(record);
    case "system":
      return stringIn(record, "subtype") === "compact_boundary"
        ? [notice("the conversation was compacted")]
        : [];
    default:
      return [];
  }
}

/** A message, or results of tools in the user's role. The summary of a compacted conversation is neither. */
function heard(record: JsonObject): readonly SaidEvent[] {
  const content = fieldIn(objectIn(record, "message"), "content");
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : partsOf(record);
  const results = parts.flatMap(resultIn);
  if (results.length > 0) return results;
  const isOwn = ["isMeta", "isSidechain", "isCompactSummary"].every((name) => record[name] !== true);
  const text = parts
    .map(wordsIn)
    .filter((words) => words !== "")
    .join("\n");
  if (!isOwn || text.trim() === "") return [];
  if (text.startsWith("[Request interrupted")) return [notice(text)];
  // Commands of the UI and their output, and reminders, stand in elements.
  return /^\s*</.test(text) ? [] : [{ event: { type: "message", text }, ...idOf(record) }];
}

function resultIn(part: unknown): readonly SaidEvent[] {
  const id = stringIn(part, "tool_use_id");
  if (stringIn(part, "type") !== "tool_result" || id === undefined) return [];
  const ok = fieldIn(part, "is_error") !== true;
  return [{ event: { type: "tool", state: "ended", id, name: "tool", ok, ...outputOf(resultText(part)) } }];
}

/** One line per part of an answer. A sub-agent's words are for the agent; an API error is not the model's. */
function answered(record: JsonObject): readonly SaidEvent[] {
  const isError = record["isApiErrorMessage"] === true;
  return partsOf(record).flatMap((part, at): SaidEvent[] => {
    const text = stringIn(part, "type") === "text" ? stringIn(part, "text") : undefined;
    if (text !== undefined) {
      if (isError) return [notice(text)];
      return record["isSidechain"] === true ? [] : [{ event: { type: "text", text }, ...idOf(record, at) }];
    }
    if (stringIn(part, "type") !== "tool_use") return [];
    const name = stringIn(part, "name") ?? "tool";
    const given = objectIn(part, "input");
    const detail = detailOf(given);
    const words = [name, ...TOOL_FIELDS.flatMap((field) => stringIn(given, field) ?? [])].join(" ");
    const call = { type: "tool", state: "started", id: stringIn(part, "id") ?? name, name } as const;
    return [{ event: { ...call, ...(detail === undefined ? {} : { detail }) }, words }];
  });
}

function partsOf(record: JsonObject): readonly unknown[] {
  return arrayIn(objectIn(record, "message"), "content");
}

function notice(message: string): SaidEvent {
  return { event: { type: "notice", message } };
}

function idOf(record: JsonObject, part = 0): { readonly id?: string } {
  const id = stringIn(record, "uuid");
  return id === undefined ? {} : { id: part === 0 ? id : `${id}.${part}` };
}
