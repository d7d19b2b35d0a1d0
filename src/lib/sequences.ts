/**
 * Splits terminal output into the operations of a terminal, however the chunks fall. Pure.
 *
 * The states are those of the VT500 parser that terminals share. It steps over sequences that it does not name.
 */

export interface Obey {
  /** Printable bytes, as their number of characters. */
  print(characters: number): void;
  /** A C0 control, or a C1 control as its 7-bit code (`D` for IND). */
  control(code: number): void;
  /** `ESC`, intermediates and the final character, together: `=`, `(0`, `7`. */
  escape(sequence: string): void;
  /** `CSI`: private mark, parameters, intermediates with the final character. */
  csi(mark: string, parameters: string, final: string): void;
  /** `OSC`: its text, truncated. */
  osc(text: string): void;
}

const ESC = 0x1b;
const CAN = 0x18;
const SUB = 0x1a;
const BEL = 0x07;
const ST = 0x9c;

/** No relevant sequence is longer. */
const MAX_HELD = 256;

type State = "ground" | "escape" | "csi" | "ignore" | "osc" | "string";

export class SequenceReader {
  readonly #obey: Obey;
  #state: State = "ground";
  #held = "";
  /** The first byte of a UTF-8 C1 control was read. */
  #c1 = false;

  constructor(obey: Obey) {
    this.#obey = obey;
  }

  /** The output ended inside a sequence, which would swallow the next write. */
  get unfinished(): boolean {
    return this.#state !== "ground";
  }

  read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#state === "ground" && !this.#c1) at = this.#text(chunk, at);
      if (at >= chunk.length) return;
      this.#byte(chunk[at] ?? 0);
      at += 1;
    }
  }

  /** Steps over plain characters. */
  #text(chunk: Buffer, from: number): number {
    let characters = 0;
    let at = from;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at] ?? 0;
      if (byte < 0x20 || byte === 0xc2) break;
      if (byte !== 0x7f && (byte & 0xc0) !== 0x80) characters += 1;
    }
    if (characters > 0) this.#obey.print(characters);
    return at;
  }

  #byte(byte: number): void {
    if (this.#c1) {
      this.#c1 = false;
      if (byte >= 0x80 && byte <= 0x9f) return this.#enter(byte);
      // An ordinary character whose first byte was not counted.
      if (this.#state === "ground") this.#obey.print(1);
      else if (this.#state === "escape" || this.#state === "csi") this.#state = "ground";
      if (byte >= 0x80) return undefined;
    } else if (byte === 0xc2) {
      this.#c1 = true;
      return undefined;
    }
    if (byte === ESC) return this.#enter(ESC);
    if (byte === CAN || byte === SUB) return this.#abort();
    return this.#within(byte);
  }

  #within(byte: number): void {
    switch (this.#state) {
      case "ground":
        if (byte < 0x20) this.#obey.control(byte);
        else if (byte < 0x7f) this.#obey.print(1);
        return;
      case "escape":
        return this.#escape(byte);
      case "csi":
      case "ignore":
        return this.#csi(byte);
      case "osc":
        if (byte === BEL) this.#endString();
        else if (byte >= 0x20 && this.#held.length < MAX_HELD) this.#held += String.fromCharCode(byte);
        return;
      case "string":
    }
  }

  #enter(introducer: number): void {
    this.#endString();
    const begun = { 0x1b: "escape", 0x9b: "csi", 0x9d: "osc" } as const;
    this.#held = "";
    if (introducer in begun) this.#state = begun[introducer as keyof typeof begun];
    else if ([0x90, 0x98, 0x9e, 0x9f].includes(introducer)) this.#state = "string";
    else {
      this.#state = "ground";
      if (introducer !== ST) this.#obey.escape(String.fromCharCode(introducer - 0x40));
    }
  }

  #abort(): void {
    this.#state = "ground";
    this.#held = "";
  }

  #endString(): void {
    if (this.#state === "osc") this.#obey.osc(this.#held);
    this.#abort();
  }

  #escape(byte: number): void {
    if (byte < 0x20) return this.#obey.control(byte);
    if (byte === 0x7f) return undefined;
    if (byte > 0x7f) return this.#abort();
    if (byte < 0x30) {
      this.#held = (this.#held + String.fromCharCode(byte)).slice(0, 4);
      return undefined;
    }
    const introducer = byte + 0x40;
    if (this.#held === "" && [0x90, 0x98, 0x9b, 0x9d, 0x9e, 0x9f].includes(introducer))
      return this.#enter(introducer);
    const sequence = this.#held + String.fromCharCode(byte);
    this.#abort();
    if (sequence !== "\\") this.#obey.escape(sequence);
    return undefined;
  }

  #csi(byte: number): void {
    if (byte < 0x20) return this.#obey.control(byte);
    if (byte === 0x7f) return undefined;
    if (byte > 0x7f) return this.#abort();
    if (byte < 0x40) {
      this.#held += String.fromCharCode(byte);
      if (!GROWING.test(this.#held) || this.#held.length > MAX_HELD) {
        this.#state = "ignore";
        this.#held = "";
      }
      return undefined;
    }
    const found = this.#state === "ignore" ? null : GROWING.exec(this.#held);
    this.#abort();
    if (found === null) return undefined;
    const [, mark = "", parameters = "", between = ""] = found;
    return this.#obey.csi(mark, parameters, between + String.fromCharCode(byte));
  }
}

/** The characters allowed between `CSI` and its final character. */
const GROWING = /^([<-?]?)([0-9:;]*)([ -/]*)$/;

/** Ctrl-] as a byte, and in the keyboard protocols of some terminals. */
const DETACH_KEYS = ["\x1d", "\x1b[93;5u", "\x1b[27;5;93~"];

/** Offset of the detach key; -1: not pressed. */
export function detachAt(data: Buffer): number {
  const text = data.toString("latin1");
  const found = DETACH_KEYS.map((key) => text.indexOf(key)).filter((at) => at !== -1);
  return found.length === 0 ? -1 : Math.min(...found);
}
