/** Memory and descriptors of a process over time. */
import { readdirSync, readFileSync } from "node:fs";

export interface Sample {
  readonly atMs: number;
  readonly rssKib: number;
  readonly fds: number;
}

/** Memory in use without garbage, in KiB. */
interface Live {
  readonly atMs: number;
  readonly kib: number;
}

/** Samples of one process; another pid starts over. */
export class Gauge {
  #pid = 0;
  #samples: Sample[] = [];
  #live: Live[] = [];

  read(pid: number | null): void {
    const sample = pid === null ? null : look(pid);
    if (pid === null || sample === null) return;
    if (pid !== this.#pid) [this.#samples, this.#live] = [[], []];
    this.#pid = pid;
    this.#samples.push(sample);
  }

  /** `kib`: what this process says is in use; null: it did not say. */
  readLive(pid: number, kib: number | null): void {
    if (pid === this.#pid && kib !== null) this.#live.push({ atMs: Date.now(), kib });
  }

  get lastLive(): number {
    return this.#live.at(-1)?.kib ?? 0;
  }

  get last(): Sample | undefined {
    return this.#samples.at(-1);
  }

  /** KiB a minute over the last two thirds: a process takes its time to grow to its size. */
  slope(): number {
    return slopeOf(this.#samples.map(({ atMs, rssKib }) => ({ atMs, kib: rssKib })));
  }

  /** The same for memory in use. Null: too few samples. */
  liveSlope(): number | null {
    return this.#live.length < 4 ? null : slopeOf(this.#live);
  }

  minutes(): number {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    return first === undefined || last === undefined ? 0 : (last.atMs - first.atMs) / 60_000;
  }

  /** Medians of the first and the last fifth: the daemon has one for each holder that it hears, so it goes up and down. */
  fds(): { readonly first: number; readonly last: number } {
    const part = Math.max(1, Math.floor(this.#samples.length / 5));
    const median = (of: readonly Sample[]) =>
      of.map(({ fds }) => fds).toSorted((a, b) => a - b)[Math.floor(of.length / 2)] ?? 0;
    return { first: median(this.#samples.slice(0, part)), last: median(this.#samples.slice(-part)) };
  }
}

/** By least squares. */
function slopeOf(points: readonly Live[]): number {
  const settled = points.slice(Math.floor(points.length / 3));
  const n = settled.length;
  if (n < 3) return 0;
  const mean = (of: (one: Live) => number) => settled.reduce((sum, one) => sum + of(one), 0) / n;
  const [x, y] = [mean(({ atMs }) => atMs), mean(({ kib }) => kib)];
  const over = settled.reduce((sum, { atMs, kib }) => sum + (atMs - x) * (kib - y), 0);
  const under = settled.reduce((sum, { atMs }) => sum + (atMs - x) ** 2, 0);
  return under === 0 ? 0 : (over / under) * 60_000;
}

function look(pid: number): Sample | null {
  try {
    const rss = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    const fds = readdirSync(`/proc/${pid}/fd`).length;
    return rss === undefined ? null : { atMs: Date.now(), rssKib: Number(rss), fds };
  } catch {
    return null;
  }
}
