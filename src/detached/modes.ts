/**
 * The terminal modes of a UI and its queries to the terminal, read from its output. Pure.
 *
 * While no client is attached no terminal can answer, and some UIs give up without an answer. A terminal that attaches
 * later must get the modes that the UI assumes, and must not answer old queries.
 */

import { TerminalState } from "../lib/terminal-state.ts";

/** Control sequences, and operating system commands with a text. */
const SEQUENCE =
  /\x1b(?:\[([?>=<]?)([0-9;:]{0,64})([ -/]{0,4})([@-~])|\](\d{1,4});([^\x07\x1b]{0,256})(?:\x07|\x1b\\))/g;
/** An incomplete sequence. Longer ones are not waited for. */
const UNFINISHED = /\x1b(?:\[[?>=<]?[0-9;:]{0,64}[ -/]{0,4}|\](?:\d{1,4}(?:;[^\x07\x1b]{0,256}\x1b?)?)?)?$/;

interface Sequence {
  readonly private: string;
  readonly numbers: string;
  readonly end: string;
  /** `]`: the number and the text of the command. */
  readonly command: number | null;
  readonly text: string;
}

export class Modes {
  readonly #scanner = new Scanner();
  readonly #state = new TerminalState();

  /** Reads a chunk, and returns a plain terminal's answers to its queries. */
  read(chunk: Buffer): string {
    this.#state.read(chunk);
    let answers = "";
    for (const part of this.#scanner.read(chunk))
      if (typeof part !== "string") answers += answerTo(part.sequence) ?? "";
    return answers;
  }

  get bracketedPaste(): boolean {
    return this.#state.isOn(2004);
  }

  /** Puts a fresh terminal into the active modes. */
  preamble(): string {
    return this.#state.enter();
  }
}

/** Removes the queries from output that a terminal shows later: the UI no longer waits for answers. */
export class QueryFilter {
  readonly #scanner = new Scanner();

  read(chunk: Buffer): Buffer {
    const kept = this.#scanner
      .read(chunk)
      .map((part) => (typeof part === "string" ? part : isQuestion(part.sequence) ? "" : part.raw));
    return Buffer.from(kept.join(""), "latin1");
  }

  /** Output that was held back at the end. */
  rest(): Buffer {
    return Buffer.from(this.#scanner.rest(), "latin1");
  }
}

type Part = string | { readonly raw: string; readonly sequence: Sequence };

/** Splits output into text and sequences, however the chunks fall. One character is one byte. */
class Scanner {
  #held = "";

  read(chunk: Buffer): readonly Part[] {
    if (this.#held === "" && !chunk.includes(0x1b)) return [chunk.toString("latin1")];
    const all = this.#held + chunk.toString("latin1");
    const unfinished = UNFINISHED.exec(all.slice(-400));
    const end = unfinished === null ? all.length : all.length - unfinished[0].length;
    this.#held = all.slice(end);
    const parts: Part[] = [];
    let from = 0;
    for (const match of all.slice(0, end).matchAll(SEQUENCE)) {
      const [raw, mark = "", numbers = "", between = "", last = "", command, text = ""] = match;
      parts.push(all.slice(from, match.index));
      const sequence = {
        private: mark,
        numbers,
        end: between + last,
        command: command === undefined ? null : Number(command),
        text,
      };
      parts.push({ raw, sequence });
      from = match.index + raw.length;
    }
    parts.push(all.slice(from, end));
    return parts;
  }

  rest(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}

/** Null: a plain terminal does not answer it. */
function answerTo({ private: mark, numbers, end, command, text }: Sequence): string | null {
  if (command !== null) {
    // White on black: no terminal shows the colours yet.
    if (command === 10 && text === "?") return "\x1b]10;rgb:ffff/ffff/ffff\x1b\\";
    if (command === 11 && text === "?") return "\x1b]11;rgb:0000/0000/0000\x1b\\";
    return null;
  }
  const first = numbers === "" || numbers === "0";
  if (mark === "" && end === "c" && first) return "\x1b[?62;22c";
  if (mark === ">" && end === "c" && first) return "\x1b[>0;10;0c";
  if (mark === "" && end === "n" && numbers === "5") return "\x1b[0n";
  // The cursor position is unknown without a screen; the home position is always valid.
  if (mark === "" && end === "n" && numbers === "6") return "\x1b[1;1R";
  return null;
}

function isQuestion(sequence: Sequence): boolean {
  const { private: mark, end, command, text } = sequence;
  if (command !== null) return text === "?" || text.endsWith(";?");
  if (end === "c" || end === "n") return true;
  return (mark === "?" && end === "u") || (mark === ">" && end === "q") || end === "$p";
}
