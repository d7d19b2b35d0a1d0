/** The files of scheduled resumes, one per run, in `scheduled/` of the state directory. */
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import type { ScheduledResume } from "../core/supervision.ts";
import type { JsonObject } from "../lib/json.ts";
import { namesIn, scheduledFile, type StateDir } from "../state/directory.ts";
import { readRecord, removeQuietly, storageFault, writeAtomic } from "../state/files.ts";
import { inTurn } from "../store/store.ts";

const directoryOf = (state: Pick<StateDir, "root">) => join(state.root, "scheduled");

export const isOpen = ({ state }: Pick<ScheduledResume, "state">): boolean =>
  state === "waiting" || state === "starting";

/** It ended without an attempt that counts as it. */
export const isFailed = ({ state }: Pick<ScheduledResume, "state">): boolean =>
  state === "failed" || state === "unsure";

/** All of them, the first due first. A damaged file is a warning. */
export async function listScheduled(
  state: Pick<StateDir, "root">,
  warn: (text: string, fault: Fault) => void = () => {},
): Promise<readonly ScheduledResume[]> {
  const found: ScheduledResume[] = [];
  for (const name of namesIn(directoryOf(state))) {
    const runId = name.replace(/\.json$/, "");
    if (runId === name || !isRunId(runId)) continue;
    try {
      const record = await readScheduled(state, runId);
      if (record !== null) found.push(record);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      warn(error.message, error);
    }
  }
  return found.toSorted((a, b) => a.dueAt.localeCompare(b.dueAt));
}

/** Null: no resume of this run was ever scheduled. */
export async function readScheduled(
  state: Pick<StateDir, "root">,
  runId: string,
): Promise<ScheduledResume | null> {
  const path = scheduledFile(state, runId);
  const value = readRaw(state, runId);
  if (value === null) return null;
  const { scheduledSchema } = await import("../core/schemas.ts");
  const checked = scheduledSchema.safeParse(value);
  if (checked.success && checked.data.runId === runId) return value as unknown as ScheduledResume;
  if (typeof value["v"] === "number" && value["v"] > 1)
    throw new Fault("schema_newer", `${path} was written by a newer Reprise.`, { facts: { path } });
  throw damagedFile(path, runId, "it is no scheduled resume of its run");
}

function readRaw(state: Pick<StateDir, "root">, runId: string): JsonObject | null {
  const path = scheduledFile(state, runId);
  try {
    return readRecord(path);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "record_damaged") throw error;
    const { why } = error.facts;
    throw damagedFile(path, runId, typeof why === "string" ? why : error.message);
  }
}

function damagedFile(path: string, runId: string, why: string): Fault {
  const cure = `Move it aside, and nothing is scheduled for the run: reprise scheduled cancel ${runId.slice(-8)}`;
  return new Fault("record_damaged", `${path} is damaged: ${why}. ${cure}`, { facts: { path, why } });
}

/** Moves a damaged record aside. Returns where it is now; null: no record, or a sound one. */
export async function setDamagedAside(state: Pick<StateDir, "root">, runId: string): Promise<string | null> {
  const path = scheduledFile(state, runId);
  try {
    await readScheduled(state, runId);
    return null;
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "record_damaged") throw error;
  }
  return inTurn(join(directoryOf(state), "lock"), () => {
    let aside = `${path}.damaged`;
    for (let n = 2; existsSync(aside); n += 1) aside = `${path}.damaged-${n}`;
    try {
      renameSync(path, aside);
    } catch (error) {
      throw storageFault(error, "move", path);
    }
    return aside;
  });
}

/**
 * Reads, changes and replaces the record while no other process does. Null from `change`: nothing to write. Returns the
 * record as it is now.
 */
export async function changeScheduled(
  state: Pick<StateDir, "root">,
  runId: string,
  change: (now: ScheduledResume | null) => ScheduledResume | null,
): Promise<ScheduledResume | null> {
  const directory = directoryOf(state);
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw storageFault(error, "write", directory);
  }
  // Read before the lock for its schema; read again under the lock for its content.
  await readScheduled(state, runId);
  return inTurn(join(directory, "lock"), () => {
    const now = readRaw(state, runId) as unknown as ScheduledResume | null;
    const next = change(now);
    if (next !== null) writeAtomic(scheduledFile(state, runId), `${JSON.stringify(next)}\n`);
    return next ?? now;
  });
}

/** For a run that no longer exists. */
export function forgetScheduled(state: Pick<StateDir, "root">, runId: string): void {
  removeQuietly(scheduledFile(state, runId));
}
