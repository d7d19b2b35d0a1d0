/** The conversation in a rollout of Codex: one record per line. Seen in 0.166. */
import { outputOf } from "../lib/bounded.ts";
import { arrayIn, fieldIn, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { callIn, isContext } from "./codex-store.ts";
import type { SaidEvent } from "./session-store.ts";

export function codexSaid(line: string): readonly SaidEvent[] {
  const record = parseObject(line);
  const payload = objectIn(record, "payload");
  if (payload === undefined) return [];
  const at = stringIn(record, "timestamp");
  return eventsIn(stringIn(record, "type") ?? "", payload).map((said) =>
    at === undefined ? said : { ...said, at },
  );
}

/** Of both forms that a rollout has for messages and calls, only the items for the model: older versions have no other. */
function eventsIn(kind: string, payload: JsonObject): readonly SaidEvent[] {
  if (kind === "compacted") return [notice("the conversation was compacted")];
  const type = stringIn(payload, "type") ?? "";
  if (kind === "event_msg") return turnEvents(type, payload);
  if (kind !== "response_item") return [];
  switch (type) {
    case "message":
      return spoken(payload);
    case "function_call":
    case "custom_tool_call":
      return called(payload, callIn(payload));
    case "local_shell_call": {
      const command = arrayIn(objectIn(payload, "action"), "command").join(" ");
      return called(payload, { name: "shell", detail: command.slice(0, 200) });
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return returned(payload);
    default:
      return [];
  }
}

function turnEvents(type: string, payload: JsonObject): readonly SaidEvent[] {
  if (type === "turn_aborted") return [{ event: { type: "turn_ended", result: "interrupted" } }];
  if (type === "error") return [notice(stringIn(payload, "message") ?? "Codex reported an error.")];
  if (type !== "task_complete") return [];
  const why = stringIn(objectIn(payload, "error"), "message");
  return why === undefined ? [{ event: { type: "turn_ended", result: "completed" } }] : [notice(why)];
}

function spoken(payload: JsonObject): readonly SaidEvent[] {
  const role = stringIn(payload, "role");
  if (role !== "user" && role !== "assistant") return [];
  const parts = arrayIn(payload, "content").filter((part) => role === "assistant" || !isContext(part));
  const text = parts.map((part) => stringIn(part, "text") ?? imageIn(part)).join("\n");
  if (text.trim() === "") return [];
  const id = stringIn(payload, "id");
  const type = role === "user" ? "message" : "text";
  return [{ event: { type, text }, ...(id === undefined ? {} : { id }) }];
}

function imageIn(part: unknown): string {
  return stringIn(part, "type") === "input_image" ? "[image]" : "";
}

function called(payload: JsonObject, call: { name: string; detail?: string }): readonly SaidEvent[] {
  return [
    { event: { type: "tool", state: "started", id: stringIn(payload, "call_id") ?? call.name, ...call } },
  ];
}

/** Text, or an object with the text and the exit code. In front of a command's own output stand facts about it. */
function returned(payload: JsonObject): readonly SaidEvent[] {
  const id = stringIn(payload, "call_id");
  if (id === undefined) return [];
  const raw = stringIn(payload, "output") ?? textIn(fieldIn(payload, "output"));
  const wrapped = parseObject(raw);
  const text = stringIn(wrapped, "output") ?? raw;
  const [head = "", ...rest] = text.split(/^Output:\n/m);
  const isCommand = /^(?:Chunk ID|Exit code|Wall time)\b/.test(head) && rest.length > 0;
  const told = /^(?:Process exited with code|Exit code:) (\d{1,10})$/m.exec(isCommand ? head : "")?.[1];
  const code =
    numberIn(objectIn(wrapped, "metadata"), "exit_code") ?? (told === undefined ? null : Number(told));
  const output = outputOf(isCommand ? rest.join("Output:\n") : text);
  const ok = code === null ? {} : { ok: code === 0 };
  return [{ event: { type: "tool", state: "ended", id, name: "tool", ...ok, ...output } }];
}

/** Some tools return a list of parts. */
function textIn(output: unknown): string {
  return arrayIn({ output }, "output")
    .map((part) => stringIn(part, "text") ?? imageIn(part))
    .join("\n");
}

function notice(message: string): SaidEvent {
  return { event: { type: "notice", message } };
}
