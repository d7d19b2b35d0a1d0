/** What an attempt used, for engines that report totals of the whole conversation (Codex; the cost of Claude Code). */
import type { Tokens } from "../../core/events.ts";
import type { AttemptRecord } from "../../core/records.ts";
import { NO_TOKENS, ownTokens, type ReportedUsage } from "../../core/tokens.ts";
import type { Deps } from "../deps.ts";
import type { Job } from "./job.ts";

export async function countTokens(
  deps: Deps,
  job: Job,
  attempt: AttemptRecord,
  usage: ReportedUsage | null,
): Promise<Pick<AttemptRecord, "tokens" | "sessionTokens">> {
  if (usage?.session === undefined) return { tokens: usage?.tokens ?? null };
  const before = await totalsBefore(deps, job, attempt.n);
  return { tokens: ownTokens(usage, before), sessionTokens: usage.session };
}

/** The totals of the continued conversation as last recorded. Null: unknown, because part of it is in no record. */
async function totalsBefore(deps: Deps, { kind, continues, run }: Job, n: number): Promise<Tokens | null> {
  if (continues === null) return NO_TOKENS;
  // A fork takes over the totals of its original (Codex 0.166, Claude Code 2.1.325).
  const runId = kind === "fork" && run.parent !== undefined ? run.parent.runId : run.runId;
  const attempts = await deps.store.listAttempts(runId);
  const earlier = attempts.filter((one) => runId !== run.runId || one.n < n);
  const isIn = ({ asked, reported }: AttemptRecord) =>
    asked === continues || reported.some(({ value, foreign }) => value === continues && foreign !== true);
  const last = earlier.findLast((one) => one.sessionTokens !== undefined && isIn(one));
  if (last?.sessionTokens !== undefined) return last.sessionTokens;
  return earlier.some((one) => isBeginning(one) && isIn(one)) ? NO_TOKENS : null;
}

function isBeginning({ kind }: AttemptRecord): boolean {
  return kind === "start" || kind === "fresh";
}
