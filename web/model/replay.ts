/** The clock of a replay: which bytes a recording had shown at a time, with long silences shortened. Pure. */

export type Frame =
  | { readonly t: number; readonly at: number; readonly n: number }
  | { readonly t: number; readonly at: number; readonly cols: number; readonly rows: number };

export interface TimingLine {
  readonly t: number;
  readonly s: string;
  readonly n?: number;
  readonly cols?: number;
  readonly rows?: number;
}

export interface Recording {
  readonly frames: readonly Frame[];
  /** Milliseconds. */
  readonly length: number;
}

/** Silences longer than this are shortened to it when they are skipped. */
const LONGEST_SILENCE_MS = 2_000;

/** `skipIdle`: a long silence takes two seconds. Bytes without a time come at the end. */
export function recordingOf(lines: readonly TimingLine[], total: number, skipIdle: boolean): Recording {
  const frames: Frame[] = [];
  let [at, last, cut] = [0, 0, 0];
  for (const line of lines) {
    const isSize = line.cols !== undefined && line.rows !== undefined;
    const n = Math.min(line.n ?? 0, total - at);
    if (!isSize && n <= 0) continue;
    const silence = line.t - last;
    if (skipIdle && silence > LONGEST_SILENCE_MS) cut += silence - LONGEST_SILENCE_MS;
    last = Math.max(last, line.t);
    const t = last - cut;
    if (line.cols !== undefined && line.rows !== undefined)
      frames.push({ t, at, cols: line.cols, rows: line.rows });
    else {
      frames.push({ t, at, n });
      at += n;
    }
  }
  if (at < total) frames.push({ t: last - cut, at, n: total - at });
  return { frames, length: frames.at(-1)?.t ?? 0 };
}

/** How many frames the recording had shown at this time. */
export function framesAt({ frames }: Recording, ms: number): number {
  let [low, high] = [0, frames.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((frames[middle]?.t ?? 0) <= ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The time after the clock ran on: never beyond the end. */
export function advance(ms: number, elapsedMs: number, speed: number, length: number): number {
  return Math.min(length, ms + Math.max(0, elapsedMs) * speed);
}
