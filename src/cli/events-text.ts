/** Events in readable form: joined text, one line per tool call, retry, notice and failure (I11). */
import { type EngineEvent, TROUBLE_KINDS } from "../core/events.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { paint, type Terminal } from "./context.ts";

export class EventText {
  readonly #terminal: Terminal;
  #midLine = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  /** The last output was text that may continue. */
  get midLine(): boolean {
    return this.#midLine;
  }

  /** The text for this event; empty: not worth a line. */
  show(event: EngineEvent): string {
    if (event.type === "text") {
      const before = event.delta === undefined ? this.endLine() : "";
      if (event.text !== "") this.#midLine = !event.text.endsWith("\n");
      return before + harmless(event.text);
    }
    const line = describe(this.#terminal, event);
    return line === null ? "" : `${this.endLine()}${line}\n`;
  }

  endLine(): string {
    const end = this.#midLine ? "\n" : "";
    this.#midLine = false;
    return end;
  }
}

/**
 * An event of `events.jsonl` that `EventText` shows. Null: not shown. The file is ours, but any process of the user may
 * have changed it.
 */
export function eventFrom(found: JsonObject): EngineEvent | null {
  const has = (...names: string[]) => names.every((name) => stringIn(found, name) !== undefined);
  const optional = (name: string) => found[name] === undefined || stringIn(found, name) !== undefined;
  const troubled = () => {
    const trouble = objectIn(found, "trouble");
    const kind = stringIn(trouble, "kind");
    return stringIn(trouble, "message") !== undefined && TROUBLE_KINDS.some((known) => known === kind);
  };
  const fits = {
    text: () => has("text"),
    message: () => has("text"),
    tool: () => has("name", "state") && optional("detail"),
    retry: () => troubled() && (found["delayMs"] === undefined || numberIn(found, "delayMs") !== undefined),
    notice: () => has("message"),
    turn_ended: () => has("result") && (!isObject(found["trouble"]) || troubled()),
  };
  const type = stringIn(found, "type") ?? "";
  if (!Object.hasOwn(fits, type) || !fits[type as keyof typeof fits]()) return null;
  return found as unknown as EngineEvent;
}

/** A message as people know it from mail. */
export function asked(text: string): string {
  return text
    .split("\n")
    .map((line) => `> ${harmlessLine(line)}`)
    .join("\n");
}

/** One line for everything except assistant text and messages. Null: not worth one. */
function describe(terminal: Terminal, event: Exclude<EngineEvent, { type: "text" }>): string | null {
  const width = Math.max(20, terminal.columns - 4);
  switch (event.type) {
    case "tool": {
      const what = harmlessLine(
        event.detail === undefined ? event.name : `${event.name} ${event.detail}`,
        width,
      );
      if (event.state === "started") return paint(terminal, "cyan", `⚙ ${what}`);
      return event.ok === false ? paint(terminal, "red", `✗ ${what}`) : null;
    }
    case "retry": {
      const wait = event.delayMs === undefined ? "" : ` in ${formatDuration(event.delayMs)}`;
      return paint(
        terminal,
        "yellow",
        `↻ ${event.trouble.kind}, the engine tries again${wait}: ${harmlessLine(event.trouble.message, width)}`,
      );
    }
    case "notice":
      return paint(terminal, "dim", `· ${harmlessLine(event.message, width)}`);
    case "turn_ended":
      if (event.result === "completed") return null;
      return paint(
        terminal,
        "red",
        `✗ ${harmlessLine(event.trouble?.message ?? `turn ${event.result}`, width)}`,
      );
    // The header of the attempt has the message with which it began.
    case "message":
      return event.opening === true ? null : paint(terminal, "dim", asked(event.text));
    case "usage":
    case "session":
    case "session_changed":
    case "turn_started":
    case "unknown":
      return null;
  }
}
