/** Which rows of a long list to draw, and where. Pure. */

export interface Window {
  /** Rows `from` up to, not including, `to`. */
  readonly from: number;
  readonly to: number;
  /** Pixels above the first and below the last drawn row. */
  readonly before: number;
  readonly after: number;
}

interface View {
  readonly top: number;
  readonly height: number;
}

/** All rows have the same height. */
export function evenWindow(count: number, rowHeight: number, view: View, spare = 8): Window {
  const first = Math.floor(Math.max(0, view.top) / rowHeight);
  const shown = Math.ceil(view.height / rowHeight);
  const to = Math.min(count, first + shown + spare);
  const from = Math.max(0, Math.min(first - spare, to));
  return { from, to, before: from * rowHeight, after: (count - to) * rowHeight };
}

/** Heights become known as rows are drawn; until then, a guess by the caller. */
export class Heights {
  readonly #known: (number | undefined)[] = [];
  #sums: Float64Array = new Float64Array(1);
  #valid = 0;
  #count = 0;
  readonly #guess: (row: number) => number;

  constructor(guess: (row: number) => number) {
    this.#guess = guess;
  }

  get total(): number {
    return this.offset(this.#count);
  }

  resize(count: number): void {
    if (count < this.#count) {
      this.#known.length = count;
      this.#valid = Math.min(this.#valid, count);
    }
    this.#count = count;
    if (this.#sums.length >= count + 1) return;
    const grown = new Float64Array(Math.max(count + 1, this.#sums.length * 2));
    grown.set(this.#sums);
    this.#sums = grown;
  }

  /** Returns how much the row grew. */
  measured(row: number, height: number): number {
    const old = this.#known[row] ?? this.#guess(row);
    this.#known[row] = height;
    if (height !== old) this.#valid = Math.min(this.#valid, row);
    return height - old;
  }

  /** The distance of a row's top from the list's top. */
  offset(row: number): number {
    while (this.#valid < row) {
      const at = this.#valid;
      this.#sums[at + 1] = (this.#sums[at] ?? 0) + (this.#known[at] ?? this.#guess(at));
      this.#valid += 1;
    }
    return this.#sums[row] ?? 0;
  }

  window(view: View, spare = 600): Window {
    const from = this.#rowAt(view.top - spare);
    const to = Math.min(this.#count, this.#rowAt(view.top + view.height + spare) + 1);
    return { from, to, before: this.offset(from), after: this.total - this.offset(to) };
  }

  #rowAt(y: number): number {
    let low = 0;
    let high = Math.max(0, this.#count - 1);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.offset(middle) <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
