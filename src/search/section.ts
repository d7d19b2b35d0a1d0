/**
 * The text of a conversation in sections, the rows of the search: some kilobytes of messages, answers and tool calls in a
 * row, one kind per line. Pure.
 */
import { type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { readable } from "./text.ts";

/** In a section, each line has the first letter of its kind. */
export const HIT_KINDS = { m: "message", a: "answer", t: "tool", n: "notice" } as const;
export type HitKind = (typeof HIT_KINDS)[keyof typeof HIT_KINDS];

export interface Section {
  readonly fromMs: number;
  readonly untilMs: number;
  /** One letter per line of `text`. */
  readonly kinds: string;
  readonly text: string;
}

/** Words of one section are found together. Larger sections are faster to index, and slower to remove. */
const SECTION_CHARACTERS = 8_192;
/** A longer line, such as encoded data, is several lines. */
const MAX_LINE = 4_096;

export class Sections {
  readonly #emit: (section: Section) => void;
  readonly #started = new Set<string>();
  #lines: string[] = [];
  #kinds = "";
  #size = 0;
  #fromMs = 0;
  #untilMs = 0;
  /** Assistant text whose end has not been seen. */
  #open = "";
  #openAtMs = 0;

  constructor(emit: (section: Section) => void) {
    this.#emit = emit;
  }

  add(kind: HitKind, text: string, atMs: number): void {
    this.#endText();
    this.#add(kind, text, atMs);
  }

  /** One line of `events.jsonl`. */
  event(event: JsonObject, startedMs: number): void {
    const atMs = startedMs + (numberIn(event, "t") ?? 0);
    switch (stringIn(event, "type") ?? "") {
      case "text":
        if (event["delta"] !== true) this.#endText();
        if (this.#open === "") this.#openAtMs = atMs;
        this.#open += stringIn(event, "text") ?? "";
        if (this.#open.length > SECTION_CHARACTERS) this.#endText();
        return;
      case "tool":
        return this.#tool(event, atMs);
      case "notice":
        return this.add("notice", stringIn(event, "message") ?? "", atMs);
      case "turn_ended":
        return this.add("notice", stringIn(objectIn(event, "trouble"), "message") ?? "", atMs);
      default:
    }
  }

  /** What was added so far becomes a section. */
  end(): void {
    this.#endText();
    this.#endSection();
  }

  /** An engine may report only the end of a call. */
  #tool(event: JsonObject, atMs: number): void {
    const id = stringIn(event, "id") ?? "";
    const isStart = event["state"] === "started";
    if (!isStart && this.#started.delete(id)) return;
    if (isStart) this.#started.add(id);
    this.add("tool", `${stringIn(event, "name") ?? ""} ${stringIn(event, "detail") ?? ""}`, atMs);
  }

  #endText(): void {
    if (this.#open === "") return;
    const text = this.#open;
    this.#open = "";
    this.#add("answer", text, this.#openAtMs);
  }

  #add(kind: HitKind, text: string, atMs: number): void {
    for (const line of readable(text).split("\n")) {
      for (let at = 0; at < line.length; at += MAX_LINE)
        this.#line(kind, line.slice(at, at + MAX_LINE), atMs);
    }
  }

  #line(kind: HitKind, line: string, atMs: number): void {
    if (line.trim() === "") return;
    if (this.#size === 0) this.#fromMs = atMs;
    this.#untilMs = Math.max(this.#fromMs, atMs);
    this.#lines.push(line);
    this.#kinds += kind.charAt(0);
    this.#size += line.length + 1;
    if (this.#size >= SECTION_CHARACTERS) this.#endSection();
  }

  #endSection(): void {
    if (this.#size === 0) return;
    const section = { fromMs: this.#fromMs, untilMs: this.#untilMs, kinds: this.#kinds };
    this.#emit({ ...section, text: this.#lines.join("\n") });
    this.#lines = [];
    this.#kinds = "";
    this.#size = 0;
  }
}
