/**
 * The conversation in a chat file of Gemini: one record per line. Seen in 0.61: an answer with tool calls is written
 * twice, first without them; a resume writes all messages once more in one `$set`.
 */
import { outputOf } from "../lib/bounded.ts";
import { arrayIn, fieldIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { isContent, wordsOf } from "./gemini-store.ts";
import type { SaidEvent } from "./session-store.ts";

export function geminiSaid(line: string): readonly SaidEvent[] {
  const message = parseObject(line);
  if (message === undefined) return [];
  if (stringIn(message, "$rewindTo") !== undefined)
    return [{ event: { type: "notice", message: "the conversation went back to an earlier message" } }];
  const id = stringIn(message, "id");
  if (id === undefined) return [];
  const at = stringIn(message, "timestamp");
  const when = at === undefined ? {} : { at };
  const text = wordsOf(message);
  const type = stringIn(message, "type");
  if (type === "error" || type === "warning")
    return text === "" ? [] : [{ event: { type: "notice", message: text }, id, ...when }];
  if (!isContent(message)) return [];
  if (type === "user") return [{ event: { type: "message", text }, id, ...when }];
  const answer: SaidEvent[] = text.trim() === "" ? [] : [{ event: { type: "text", text }, id, ...when }];
  return [...answer, ...arrayIn(message, "toolCalls").flatMap((call) => callIn(call, at))];
}

/** Gemini writes a call when it is over, or when it was cancelled. */
function callIn(call: unknown, at: string | undefined): readonly SaidEvent[] {
  const name = stringIn(call, "name") ?? "tool";
  const id = stringIn(call, "id") ?? name;
  const given = objectIn(call, "args");
  const detail = stringIn(given, "command") ?? stringIn(given, "file_path") ?? stringIn(given, "pattern");
  const words = [name, ...Object.values(given ?? {}).filter((value) => typeof value === "string")].join(" ");
  const known = { id, name, ...(detail === undefined ? {} : { detail: detail.slice(0, 200) }) };
  const status = stringIn(call, "status");
  const ended = stringIn(call, "timestamp") ?? at;
  const when = at === undefined ? {} : { at };
  const start: SaidEvent = {
    event: { type: "tool", state: "started", ...known },
    words: words.slice(0, 400),
  };
  if (status === undefined) return [{ ...start, ...when }];
  const output = outputOf(stringIn(call, "resultDisplay") ?? resultIn(call));
  return [
    { ...start, ...when },
    {
      event: { type: "tool", state: "ended", ...known, ok: status === "success", ...output },
      ...(ended === undefined ? {} : { at: ended }),
    },
  ];
}

/** The result for the model; other results, such as a change of a file, are objects for Gemini's UI. */
function resultIn(call: unknown): string | undefined {
  const [first] = arrayIn(call, "result");
  const response = objectIn(objectIn(first, "functionResponse"), "response");
  return (
    stringIn(response, "output") ?? stringIn(response, "error") ?? stringIn(fieldIn(first, "text"), "text")
  );
}
