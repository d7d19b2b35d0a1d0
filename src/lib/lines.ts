/** Splits a byte stream into lines in bounded memory, whatever the chunks. */

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/**
 * Lines are UTF-8 text without line feed and trailing carriage return; invalid UTF-8 becomes U+FFFD. A line of more
 * than `maxBytes` becomes "", so that line numbers stay right. The caller may reuse chunks.
 */
export class LineSplitter {
  readonly #maxBytes: number;
  #held = Buffer.alloc(0);
  /** Length of the unfinished line. Beyond `maxBytes` its content is dropped. */
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let from = 0;
    for (let to = chunk.indexOf(LINE_FEED); to !== -1; to = chunk.indexOf(LINE_FEED, from)) {
      if (this.#length === 0) {
        lines.push(to - from > this.#maxBytes ? "" : lineText(chunk, from, to));
      } else {
        this.#hold(chunk, from, to);
        lines.push(this.#take());
      }
      from = to + 1;
    }
    this.#hold(chunk, from, chunk.length);
    return lines;
  }

  /** The last line, if the stream does not end with a line feed. */
  end(): string[] {
    return this.#length === 0 ? [] : [this.#take()];
  }

  #hold(chunk: Buffer, from: number, to: number): void {
    const start = this.#length;
    this.#length += to - from;
    if (this.#length > this.#maxBytes) return;
    if (this.#length > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(4096, this.#length * 2)));
      this.#held.copy(grown, 0, 0, start);
      this.#held = grown;
    }
    chunk.copy(this.#held, start, from, to);
  }

  #take(): string {
    const line = this.#length > this.#maxBytes ? "" : lineText(this.#held, 0, this.#length);
    this.#length = 0;
    return line;
  }
}

function lineText(bytes: Buffer, from: number, to: number): string {
  return bytes.toString("utf8", from, to > from && bytes[to - 1] === CARRIAGE_RETURN ? to - 1 : to);
}
