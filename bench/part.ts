/** What the parts of the bench share: the shape of a figure, a place to work in, and how figures are written. */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { RunRecord } from "../src/core/records.ts";

export const CLI = resolve("dist/reprise.js");

export interface Row {
  readonly what: string;
  readonly measured: string;
  /** What the same takes without Reprise, measured in the same run: `node -e 0`, `script -q`, the bare agent. */
  readonly floor?: string;
  /** Measured in parts of the floor. */
  readonly ratio?: number;
  readonly target: string;
  readonly ok: boolean;
}

/** Measures and returns its rows; cleans up after itself. */
export type Part = (progress: (text: string) => void) => Promise<readonly Row[]>;

/** Against a floor: `limit` is the most, or the least, that the ratio may be. */
export function against(
  what: string,
  { measured, floor, ratio }: { readonly measured: string; readonly floor: string; readonly ratio: number },
  { most, least }: { readonly most?: number; readonly least?: number },
): Row {
  const ok = ratio <= (most ?? Infinity) && ratio >= (least ?? 0);
  const target = most === undefined ? `≥ ${least} ×` : `≤ ${most} ×`;
  return { what, measured, floor, ratio, target, ok };
}

export function makeRoot(): string {
  return realpathSync(mkdtempSync(join(tmpdir(), "reprise-bench-")));
}

/** A separate home and state directory. */
export function environment(root: string, name: string): Record<string, string> {
  const home = join(root, name, "home");
  mkdirSync(home, { recursive: true });
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    REPRISE_HOME: join(root, name, "state"),
    LANG: "C.UTF-8",
  };
}

/** A run as the index holds it; the number gives its handle and its time. */
export function sampleRun(state: string, at: number): RunRecord {
  const handle = (((at * 2_654_435_761) % 2 ** 32) >>> 0).toString(16).padStart(8, "0");
  const when = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
  const runId = `${when.replace(/[-:]|\.\d{3}/g, "")}-codex-${handle}`;
  return {
    v: 1,
    handle,
    runId,
    runDirectory: join(state, "runs", runId),
    agentName: "codex",
    session: {
      field: "thread_id",
      value: `01a1dd0a-a544-73b2-b8f5-${handle}17f0`,
      source: "stdout",
      verifiedAt: when,
    },
    sessions: [],
    launch: {
      args: ["exec", "--json", "-"],
      given: [],
      redacted: [],
      env: [],
      rights: [],
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      program: "/usr/bin/codex",
      version: "0.166.0",
      message: "fix the flaky test in the shop",
    },
    cwd: "/home/user/shop",
    engineHome: "/home/user/.codex",
    status: "completed",
    attempts: 1,
    subject: null,
    name: null,
    escrow: null,
    createdAt: when,
    updatedAt: when,
  };
}

/** Zero: it has ended. */
export function residentBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}

export function mib(bytes: number): string {
  return `${(bytes / 1024 ** 2).toFixed(0)} MiB`;
}
