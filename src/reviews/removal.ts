/** Takes the files of review sessions away with their runs. A file that is not a good sidecar belongs to no run and stays. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { checkOwnDirectory, type StateDir, storageFault } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import { sidecarsIn } from "./discovery.ts";
import { openSession, type SessionFile } from "./sidecar.ts";

/** For as many runs as there are to be removed: all sidecars are read once, when the first run of a review comes. */
export function sessionRemoval(state: StateDir): (run: { readonly handle: string }) => void {
  const directory = join(state.root, "reviews");
  let known: ReadonlyMap<string, readonly SessionFile[]> | null = null;
  return ({ handle }) => {
    known ??= checkOwnDirectory(directory) ? byHandle(directory) : new Map();
    for (const session of known.get(handle) ?? []) {
      // The sidecar last: as long as it is there, it tells whose the transcript is.
      for (const path of [session.transcript, session.path]) {
        try {
          rmSync(path, { force: true });
        } catch (error) {
          throw storageFault(error, "remove", path);
        }
      }
    }
  };
}

function byHandle(directory: string): ReadonlyMap<string, readonly SessionFile[]> {
  const found = new Map<string, SessionFile[]>();
  for (const name of sidecarsIn(directory)) {
    try {
      const session = openSession(join(directory, name));
      const { handle } = session.record;
      found.set(handle, [...(found.get(handle) ?? []), session]);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
    }
  }
  return found;
}
