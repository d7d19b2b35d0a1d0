/**
 * A terminal as the UIs of real agents use it: keys one by one, bracketed paste, an Enter that goes unheard. Text typed
 * before the UI is ready stays as a draft.
 */
import type { Output } from "../../src/demo/output.ts";

export const ESCAPE = "\u001b";
const [PASTE, PASTED] = ["\u001b[200~", "\u001b[201~"];
// oxlint-disable-next-line no-control-regex
const SEQUENCE = /^\u001b\[[0-9;?<>=]*[A-Za-z~]/;

export class Keys {
  readonly #out: Output;
  readonly #lines: string[] = [];
  #wanted: ((line: string | null) => void) | null = null;
  #answer: ((line: string) => void) | null = null;
  #draft = "";
  #pending = "";
  #pasting = false;
  #ended = false;
  /** Enters that are still to go unheard. */
  #deaf: number;
  #ready = false;

  constructor(out: Output, deaf: number) {
    this.#out = out;
    this.#deaf = deaf;
    process.stdin.setRawMode(true);
    process.stdin.setEncoding("utf8");
    process.stdin.on("data", (text: string) => this.#read(text));
    process.stdin.on("end", () => this.#end());
    out.raw("\u001b[?2004h");
    process.once("exit", () => out.raw("\u001b[?2004l"));
  }

  ready(): void {
    this.#ready = true;
  }

  /** What was sent, in order; null at the end. */
  line(): Promise<string | null> {
    const line = this.#lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    return this.#ended ? Promise.resolve(null) : new Promise((take) => (this.#wanted = take));
  }

  /** The next sent message, before anything that waits. A draft does not count. */
  answer(): Promise<string> {
    this.#draft = "";
    return new Promise((take) => (this.#answer = take));
  }

  #read(text: string): void {
    this.#pending += text;
    while (this.#pending !== "" && this.#step());
  }

  /** False: the rest must come first. */
  #step(): boolean {
    if (this.#pasting) return this.#paste();
    if (this.#pending.startsWith(PASTE)) {
      this.#pasting = true;
      return this.#skip(PASTE.length);
    }
    if (this.#pending.length > 1 && PASTE.startsWith(this.#pending)) return false;
    const sequence = SEQUENCE.exec(this.#pending);
    if (sequence !== null) return this.#skip(sequence[0].length);
    const [key = ""] = this.#pending;
    this.#press(key);
    return this.#skip(key.length);
  }

  #paste(): boolean {
    const end = this.#pending.indexOf(PASTED);
    if (end === -1) return false;
    this.#add(this.#pending.slice(0, end).replace(/\r\n?/g, "\n"));
    this.#pasting = false;
    return this.#skip(end + PASTED.length);
  }

  #skip(length: number): true {
    this.#pending = this.#pending.slice(length);
    return true;
  }

  #press(key: string): void {
    switch (key) {
      case "\r":
      case "\n":
        return this.#enter();
      case "\u0003":
        return void process.kill(process.pid, "SIGINT");
      case "\u0004":
        return this.#draft === "" ? this.#end() : undefined;
      case "\u0015":
        this.#draft = this.#draft.slice(0, this.#draft.lastIndexOf("\n") + 1);
        return;
      case "\u007f":
        this.#draft = this.#draft.slice(0, -1);
        return;
      case ESCAPE:
        return this.#answer === null ? undefined : this.#send(ESCAPE);
      default:
        return this.#add(key);
    }
  }

  #add(text: string): void {
    this.#draft += text;
    this.#out.raw(text);
  }

  #enter(): void {
    if (!this.#ready) return;
    if (this.#deaf > 0) {
      this.#deaf -= 1;
      return;
    }
    this.#out.line("");
    const line = this.#draft;
    this.#draft = "";
    this.#send(line);
  }

  #send(line: string): void {
    const [answer, wanted] = [this.#answer, this.#wanted];
    if (answer !== null) {
      this.#answer = null;
      answer(line);
    } else if (wanted !== null) {
      this.#wanted = null;
      wanted(line);
    } else this.#lines.push(line);
  }

  #end(): void {
    this.#ended = true;
    this.#wanted?.(null);
    this.#wanted = null;
  }
}
