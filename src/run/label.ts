/**
 * Changes the name and the tags of a run, live or not. The owner of a live run keeps its record in memory and writes it
 * again, so a label has its own file, which owners never write, and a number: the later label counts.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import { type Label, labelOf, withLaterLabel } from "../core/label.ts";
import type { RunRecord } from "../core/records.ts";
import { titleOf } from "../core/title.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { assertOwnState } from "../state/identity.ts";
import { loadLabel, saveLabel } from "../state/runs.ts";
import { batchHoldOf, type Deps } from "./deps.ts";
import { excerpt, redactorFor } from "./launch.ts";
import { liveOwner, takeLease } from "./leases.ts";

/** First the run directory, then the index (I7). */
export async function relabel(
  deps: Deps,
  run: RunRecord,
  change: (label: Label) => Pick<Label, "name" | "tags">,
): Promise<RunRecord> {
  assertOwnState(deps);
  const redact = redactorFor(deps.env, []);
  return inTurnFor(deps, `label:${run.runId}`, async () => {
    const known = withLaterLabel(
      (await deps.store.getRun(run.runId)) ?? run,
      await loadLabel(run.runDirectory),
    );
    const { name, tags } = change(labelOf(known));
    const label = {
      ...labelOf({ name: excerpt(name, redact), ...(tags === undefined ? {} : { tags: tags.map(redact) }) }),
      relabelled: (known.relabelled ?? 0) + 1,
    };
    saveLabel(run.runDirectory, label, redact);
    await deps.store.labelRun(run.runId, label);
    return withLaterLabel(known, label);
  });
}

export async function renameRun(deps: Deps, run: RunRecord, name: string | null): Promise<RunRecord> {
  const change = () => relabel(deps, run, (label) => ({ ...label, name }));
  return name === null ? change() : withName(deps, name, run.runId, change);
}

/** Gives a name to a run while no other process gives it. Throws `name_taken` if another live run has it. */
export async function withName<T>(
  deps: Deps,
  name: string,
  runId: string,
  work: () => Promise<T>,
): Promise<T> {
  return inTurnFor(deps, `name:${name}`, async () => {
    for (const other of await deps.store.listRuns({ name, limit: Number.POSITIVE_INFINITY }))
      if (other.runId !== runId && (await isLive(deps, other))) throw taken(name, other);
    return work();
  });
}

/** Its agent works, or a batch or a supervised agent goes on in it. */
export async function isLive(deps: Deps, run: RunRecord): Promise<boolean> {
  if ((await liveOwner(deps, run.runId)) !== null || (await batchHoldOf(deps, run)) !== null) return true;
  return (await deps.store.getDocument("agent", run.handle))?.open === true;
}

function taken(name: string, { handle, agentName, cwd }: RunRecord): Fault {
  return new Fault(
    "name_taken",
    `Run ${handle} (${agentName} in ${cwd}) is live and has the name ${JSON.stringify(name)}. Choose another name, ` +
      `or rename that run: reprise rename ${handle} NAME`,
    { facts: { name, handle } },
  );
}

const LOOK_MS = 20;
const PATIENCE_MS = 10_000;

/** A process that dies releases its turn. */
async function inTurnFor<T>(deps: Deps, key: string, work: () => Promise<T>): Promise<T> {
  const deadline = deps.clock.mono() + PATIENCE_MS;
  for (;;) {
    const lease = await takeLease(deps, key);
    if (lease !== null) {
      try {
        return await work();
      } finally {
        await deps.store.releaseLease(key, lease.fence);
      }
    }
    if (deps.clock.mono() > deadline)
      throw new Fault("run_busy", "Another process is changing the same name. Try again.", {
        facts: { key },
      });
    await sleep(LOOK_MS);
  }
}

/** Several runs fit: the user, or a screen that knows the fault, chooses one. */
export function ambiguous(deps: Deps, given: string, runs: readonly RunRecord[]): Fault {
  const ago = (iso: string) => `${formatDuration(Math.max(0, deps.clock.now() - Date.parse(iso)))} ago`;
  const shown = runs.slice(0, MOST_NAMED).map((run) => {
    const title = harmlessLine(titleOf(run) ?? "no title", 40);
    return `${run.handle} (${title}, ${harmlessLine(run.agentName)}, ${ago(run.updatedAt)})`;
  });
  const more = runs.length > MOST_NAMED ? `; and ${runs.length - MOST_NAMED} more` : "";
  return new Fault(
    "handle_ambiguous",
    `${JSON.stringify(given.slice(0, 100))} fits ${runs.length} runs: ${shown.join("; ")}${more}. Type a handle.`,
    { facts: { given, handles: runs.map(({ handle }) => handle) } },
  );
}

const MOST_NAMED = 5;
