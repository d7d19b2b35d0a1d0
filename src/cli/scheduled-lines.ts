/** Open scheduled resumes, as `list` and `status` mention them. On the fast path: loads nothing unless there are some. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { ScheduledResume } from "../core/supervision.ts";
import { ifFault } from "../core/faults.ts";
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";
import { unbroken } from "./words.ts";

/** By run id. */
export async function openScheduled(deps: Deps): Promise<ReadonlyMap<string, ScheduledResume>> {
  if (!existsSync(join(deps.state.root, "scheduled"))) return new Map();
  const { isOpen, listScheduled } = await import("../schedule/files.ts");
  const open = (await listScheduled(deps.state, (text) => deps.log.warn(text))).filter(isOpen);
  return new Map(open.map((one) => [one.runId, one]));
}

/** Those that failed, unless the run was resumed since. */
export async function failedOf(
  deps: Deps,
  scheduled: readonly ScheduledResume[],
): Promise<readonly ScheduledResume[]> {
  const found: ScheduledResume[] = [];
  for (const one of scheduled) {
    if (one.state !== "failed" && one.state !== "unsure") continue;
    const last = (await deps.store.listAttempts(one.runId)).at(-1);
    if (last === undefined || last.startedAt < one.updatedAt) found.push(one);
  }
  return found;
}

/** The failed scheduled resume of a run. Null: none, or the run was resumed since. */
export async function failedScheduled(deps: Deps, runId: string): Promise<ScheduledResume | null> {
  if (!existsSync(join(deps.state.root, "scheduled"))) return null;
  const { readScheduled } = await import("../schedule/files.ts");
  const one = await readScheduled(deps.state, runId).catch(ifFault(null));
  return one === null ? null : ((await failedOf(deps, [one]))[0] ?? null);
}

/** `the one of 07:30 failed: why. Forget it: reprise scheduled cancel 1a2b3c4d`. */
export function failedText({ handle, dueAt, state, reason }: ScheduledResume, nowMs: number): string {
  const what = state === "failed" ? "failed" : "may have failed";
  const why = reason === null ? "." : `: ${harmlessLine(reason, 1_000)}`;
  const forget = unbroken(`reprise scheduled cancel ${handle}`);
  return `the one of ${localTime(dueAt, nowMs)} ${what}${why.replace(/\.?$/, ".")} Forget it: ${forget}`;
}

/** `resumes at 07:30: "go on" (cancel it: reprise scheduled cancel 1a2b3c4d)`. */
export function scheduledText({ handle, dueAt, message }: ScheduledResume, nowMs: number): string {
  const isLate = Date.parse(dueAt) <= nowMs;
  const when = `${isLate ? "was due at" : "resumes at"} ${localTime(dueAt, nowMs)}`;
  const what = message === null ? "" : `: ${JSON.stringify(harmlessLine(message, 100))}`;
  return `${when}${what} (cancel it: ${unbroken(`reprise scheduled cancel ${handle}`)})`;
}

/** `1a2b3c4d is resumed at 07:30; see reprise scheduled`. */
export function scheduledLines(scheduled: Iterable<ScheduledResume>, nowMs: number): readonly string[] {
  return [...scheduled].map(({ handle, dueAt }) => {
    const isLate = Date.parse(dueAt) <= nowMs;
    const when = isLate ? `was due at ${localTime(dueAt, nowMs)}` : `waits until ${localTime(dueAt, nowMs)}`;
    return `The scheduled resume of ${handle} ${when}: reprise scheduled`;
  });
}
