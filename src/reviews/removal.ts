/**
 * Removes the files of review sessions together with their runs. If a sidecar is damaged or missing, its rest or the
 * transcript identifies the run. Unidentified files stay and are reported.
 */
import { closeSync, fstatSync, readdirSync, readSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { StateDir } from "../state/directory.ts";
import { checkOwnDirectory, storageFault, openToRead } from "../state/files.ts";
import type { Log } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { nameStart, openSession, SIDECAR_END } from "./sidecar.ts";

type Removed = Pick<RunRecord, "handle" | "subject" | "sessions">;

/** The sidecar last: until then it identifies the transcript. `doctor` names the damaged one. */
const ENDS = [".jsonl", `${SIDECAR_END}.damaged`, SIDECAR_END] as const;
/** Codex names the conversation at the beginning of a transcript. */
const MAX_LOOKED = 1024 * 1024;

interface Known {
  readonly owned: ReadonlyMap<string, readonly string[]>;
  /** Stems of files without a readable sidecar. */
  readonly loose: readonly string[];
}

/** For any number of removed runs: reads all sidecars once, with the first run of a review. */
export function sessionRemoval(state: StateDir, log: Pick<Log, "warn">): (run: Removed) => void {
  const directory = join(state.root, "reviews");
  let known: Known | null = null;
  return (run) => {
    known ??= checkOwnDirectory(directory) ? look(directory) : { owned: new Map(), loose: [] };
    for (const stem of known.owned.get(run.handle) ?? []) remove(stem);
    const start = startOf(run);
    for (const stem of known.loose) {
      if (start === null || !stem.toLowerCase().startsWith(join(directory, start).toLowerCase())) continue;
      const owner = isOf(stem, run);
      if (owner === true) remove(stem);
      else if (owner === null)
        log.warn(
          `${stem}.jsonl stays where it is: Reprise cannot read its sidecar, so it cannot tell whether the file belongs to run ${run.handle}.`,
        );
    }
  };
}

function remove(stem: string): void {
  for (const end of ENDS) {
    try {
      rmSync(`${stem}${end}`, { force: true });
    } catch (error) {
      throw storageFault(error, "remove", `${stem}${end}`);
    }
  }
}

function look(directory: string): Known {
  const owned = new Map<string, string[]>();
  const loose: string[] = [];
  for (const stem of stemsIn(directory)) {
    try {
      const { handle } = openSession(`${stem}${SIDECAR_END}`).record;
      owned.set(handle, [...(owned.get(handle) ?? []), stem]);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      loose.push(stem);
    }
  }
  return { owned, loose };
}

function stemsIn(directory: string): ReadonlySet<string> {
  let names: readonly string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    throw storageFault(error, "read", directory);
  }
  const stems = names.flatMap((name) => {
    const end = ENDS.find((one) => name.endsWith(one));
    return end === undefined ? [] : [join(directory, name.slice(0, -end.length))];
  });
  return new Set(stems);
}

/** The prefix of its file names. Null: not a pull request's run. */
function startOf({ subject }: Removed): string | null {
  const [, owner, repository, number] = /^pr:([^/]+)\/(.+)#(\d+)$/.exec(subject ?? "") ?? [];
  if (owner === undefined || repository === undefined) return null;
  return nameStart({ owner, repository, number: Number(number) });
}

/** Null: unknown. */
function isOf(stem: string, { handle, sessions }: Removed): boolean | null {
  for (const end of [SIDECAR_END, `${SIDECAR_END}.damaged`]) {
    const named = /"handle"\s*:\s*"([0-9a-f]{8})"/.exec(beginningOf(`${stem}${end}`))?.[1];
    if (named !== undefined) return named === handle;
  }
  const transcript = beginningOf(`${stem}.jsonl`);
  if (sessions.some(({ value }) => transcript.includes(`"${value}"`))) return true;
  return /"threadId"\s*:\s*"/.test(transcript) ? false : null;
}

/** Empty: unreadable, or not a file. */
function beginningOf(path: string): string {
  let fd: number;
  try {
    fd = openToRead(path);
  } catch {
    return "";
  }
  try {
    if (!fstatSync(fd).isFile()) return "";
    const bytes = Buffer.alloc(MAX_LOOKED);
    return bytes.subarray(0, readSync(fd, bytes, 0, MAX_LOOKED, 0)).toString("utf8");
  } catch {
    return "";
  } finally {
    closeSync(fd);
  }
}
