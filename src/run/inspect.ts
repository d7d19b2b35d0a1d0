/**
 * The door for looking at runs without changing them: records, offers to resume, health. The run directory counts before
 * the index. A damaged record becomes a warning, and the rest is shown (I9).
 */
import { checkEscrow } from "../state/escrow.ts";
import { listAttemptDirs, loadAttemptFile, loadReceipt, loadRunFile } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, Escrow, Receipt, RunRecord } from "../core/records.ts";
import { type BatchLease, batchHoldOf, type Deps } from "./deps.ts";
import { allEngines, environmentOf } from "./engine-setup.ts";
import { type Recognition, recognition } from "./launch.ts";
import { liveOwner } from "./leases.ts";
import { selectRun } from "./select.ts";

export {
  type Conversation,
  conversationWords,
  copyWords,
  findConversations,
  type SessionWords,
} from "./adopt.ts";
export { isUnnamed } from "./conversation.ts";
export { copyId } from "./escrow/copies.ts";
export { type Explanation, explainOutput } from "./explain.ts";
export { checkHealth, type Health } from "./health.ts";
export { liveOwner } from "./leases.ts";
export { type DryRun, dryRun } from "./resume/dry-run.ts";
export { refusedStart } from "./resume/never-began.ts";
export { isUndecided } from "./resume/plan.ts";
export { offerFor, type ParentOffer, type ResumeOffer, whyNotResumable } from "./resume/resumable.ts";

export interface Inspection {
  readonly run: RunRecord;
  /** The process that works on it right now. */
  readonly live: { readonly pid: number } | null;
  /** The live batch that it belongs to, even between its turns. */
  readonly batch: BatchLease | null;
  /** Oldest first. */
  readonly attempts: readonly InspectedAttempt[];
  readonly escrow: CopyState | "none";
  /** The state of each earlier copy, in order. */
  readonly kept: readonly CopyState[];
  /** One sentence per missing or damaged record. */
  readonly warnings: readonly string[];
}

type CopyState = "whole" | "damaged";

export interface InspectedAttempt {
  readonly n: number;
  /** Null: neither the run directory nor the index has a readable record. */
  readonly record: AttemptRecord | null;
  readonly receipt: Receipt | null;
}

/** The secrets of the run's attempts, as far as today's environment and config know them. */
export function recognize(deps: Deps, { run, attempts }: Inspection): Recognition {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  const env = engine === undefined ? deps.env : environmentOf(deps, engine, []).env;
  return recognition(
    env,
    run,
    attempts.flatMap(({ record }) => record ?? []),
  );
}

export async function inspectRun(deps: Deps, selector: string): Promise<Inspection> {
  const warnings: string[] = [];
  const run = await selectRun(deps, selector);
  const mirror = await orWarn(warnings, () => loadRunFile(run.runDirectory));
  const owner = await liveOwner(deps, run.runId);
  const attempts =
    mirror === undefined ? await fromIndex(deps, run, warnings) : await attemptsOf(deps, run, warnings);
  return {
    run,
    live: owner === null ? null : { pid: owner.pid },
    batch: await batchHoldOf(deps, run),
    attempts,
    escrow: run.escrow === null ? "none" : await stateOf(run, run.escrow, warnings),
    kept: await Promise.all((run.kept ?? []).map((copy) => stateOf(run, copy, warnings))),
    warnings,
  };
}

async function attemptsOf(
  deps: Deps,
  run: RunRecord,
  warnings: string[],
): Promise<readonly InspectedAttempt[]> {
  const indexed = await fromIndex(deps, run, warnings);
  const directories = (await orWarn(warnings, async () => listAttemptDirs(run.runDirectory))) ?? [];
  const numbers = new Set([...indexed.map(({ n }) => n), ...directories]);
  const attempts: InspectedAttempt[] = [];
  for (const n of [...numbers].toSorted((one, other) => one - other)) {
    const file = await orWarn(warnings, () => loadAttemptFile(run.runDirectory, n));
    if (file === null) warnings.push(`Attempt ${n} has no meta.json.`);
    const receipt = await orWarn(warnings, () => loadReceipt(run.runDirectory, n));
    const record = file ?? indexed.find((attempt) => attempt.n === n)?.record ?? null;
    attempts.push({ n, record, receipt: receipt ?? null });
  }
  return attempts;
}

async function fromIndex(
  deps: Deps,
  run: RunRecord,
  warnings: string[],
): Promise<readonly InspectedAttempt[]> {
  const records = (await orWarn(warnings, () => deps.store.listAttempts(run.runId))) ?? [];
  return records.map((record) => ({ n: record.n, record, receipt: null }));
}

async function stateOf(run: RunRecord, copy: Escrow, warnings: string[]): Promise<CopyState> {
  const copies = await orWarn(warnings, () => checkEscrow(run.runDirectory, copy));
  return copies === undefined ? "damaged" : "whole";
}

/** Undefined: unreadable, and `warnings` says why. */
async function orWarn<T>(warnings: string[], work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (!warnings.includes(error.message)) warnings.push(error.message);
    return undefined;
  }
}
