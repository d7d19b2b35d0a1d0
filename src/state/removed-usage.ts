/**
 * `removed-usage.jsonl`: what the attempts of removed runs used, one line each. Only grows. A line counts as long as its
 * run is not in the index, and the last line of an attempt counts, so a restore or a repeated removal counts nothing twice.
 */
import { closeSync, constants, fstatSync, fsyncSync, openSync } from "node:fs";
import { join } from "node:path";
import type { UsedAttempt } from "../core/records.ts";
import { usedSchema } from "../core/schemas.ts";
import { parseObject } from "../lib/json.ts";
import type { StateDir } from "./directory.ts";
import { isOurs, notOurs, readOwnText, storageFault, syncDirectory, writeFully } from "./files.ts";
import { storable } from "./runs.ts";

const MAX_BYTES = 256 * 1024 * 1024;
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;

export function removedUsagePath({ root }: Pick<StateDir, "root">): string {
  return join(root, "removed-usage.jsonl");
}

/** On disk when it returns. One write, so that another process's lines are never cut in two. */
export function keepUsage(state: StateDir, used: readonly UsedAttempt[]): void {
  if (used.length === 0) return;
  const path = removedUsagePath(state);
  try {
    const fd = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
    try {
      const stats = fstatSync(fd);
      if (!stats.isFile() || !isOurs(stats))
        throw notOurs(path, "it is not a file of yours", "Move it away, and try again.");
      // An earlier write may have been cut off: an empty line ends it.
      const lines = used.map((one) => `${JSON.stringify(storable(one))}\n`).join("");
      writeFully(fd, Buffer.from(stats.size === 0 ? lines : `\n${lines}`));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    syncDirectory(state.root);
  } catch (error) {
    throw storageFault(error, "write", path);
  }
}

export interface RemovedUsage {
  readonly attempts: readonly UsedAttempt[];
  /** Lines that cannot be read. */
  readonly damaged: number;
}

/** Each attempt once, in the order of the file. */
export function readRemovedUsage(state: StateDir): RemovedUsage {
  const attempts = new Map<string, UsedAttempt>();
  let damaged = 0;
  for (const line of (readOwnText(removedUsagePath(state), MAX_BYTES) ?? "").split("\n")) {
    if (line === "") continue;
    const value = parseObject(line);
    if (value === undefined || !usedSchema.safeParse(value).success) {
      damaged += 1;
      continue;
    }
    const one = value as unknown as UsedAttempt;
    attempts.set(`${one.runId} ${one.n}`, one);
  }
  return { attempts: [...attempts.values()], damaged };
}
