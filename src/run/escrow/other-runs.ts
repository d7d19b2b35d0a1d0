/** Copies of a session in other runs: several runs may record one conversation, and each has its own copies. */
import { isDirectory } from "../../state/places.ts";
import { ifFault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import type { Engine } from "../../engines/engine.ts";
import type { Deps } from "../deps.ts";
import type { OtherCopy } from "../resume/plan.ts";
import { copiesOf, copyId, holdsAllOf, lastCopyOf } from "./copies.ts";
import { expectedEscrow } from "./escrow.ts";
import { damageOf } from "./look-up.ts";

interface RunCopy {
  readonly run: RunRecord;
  readonly copy: Escrow;
}

/** For each session: another run's copy with something that `own`, the copy of this run, lacks. */
export async function copiesElsewhere(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  sought: readonly { readonly session: string; readonly own: Escrow | null }[],
): Promise<readonly OtherCopy[]> {
  if (sought.length === 0 || run.engineHome === null) return [];
  const runs = await deps.store.listRuns({ engine: run.agentName, limit: Number.POSITIVE_INFINITY });
  const others = runs.filter(
    ({ runId, engineHome, runDirectory }) =>
      runId !== run.runId && engineHome === run.engineHome && isDirectory(runDirectory),
  );
  const found: OtherCopy[] = [];
  for (const { session, own } of sought) {
    let best: RunCopy | null = null;
    for (const theirs of await wholeCopies(deps, others, session)) {
      if (own !== null && (await holdsAllOf(engine, { run, copy: own }, theirs))) continue;
      if (best === null || (await holdsAllOf(engine, theirs, best))) best = theirs;
    }
    if (best === null) continue;
    const holdsOwn = own === null || (await holdsAllOf(engine, best, { run, copy: own }));
    found.push({ ...described(session, best, holdsOwn), own: own === null ? null : copyId(own).slice(0, 8) });
  }
  return found;
}

/** `holdsOwn`: a plain resume of that run restores it. Otherwise both runs have something that the other one lacks. */
function described(session: string, { run, copy }: RunCopy, holdsOwn: boolean): Omit<OtherCopy, "own"> {
  const { handle } = run;
  const isNext = run.session.value === session && lastCopyOf(run, session) === copy;
  return {
    session,
    handle,
    takenAt: copy.takenAt,
    ...(holdsOwn && isNext ? {} : { copy: copyId(copy).slice(0, 8) }),
    holdsOwn,
  };
}

async function wholeCopies(
  deps: Deps,
  runs: readonly RunRecord[],
  session: string,
): Promise<readonly RunCopy[]> {
  const whole: RunCopy[] = [];
  for (const other of runs) {
    if (other.session.value !== session && !other.sessions.some(({ value }) => value === session)) continue;
    // After a crash, links may hold what no copy has.
    const run = await expectedEscrow(deps, other).catch(ifFault(other));
    for (const copy of copiesOf(run))
      if (copy.session === session && (await damageOf(run, copy)) === null) whole.push({ run, copy });
  }
  return whole;
}
