/** Review sessions for `doctor`: unusable sidecars. Reads only. */
import { join } from "node:path";
import { checkOwnDirectory, type StateDir } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import { sidecarsIn } from "./discovery.ts";
import { openSession } from "./sidecar.ts";

export interface DamagedSidecar {
  readonly path: string;
  readonly why: string;
}

export function damagedSidecars(state: StateDir): readonly DamagedSidecar[] {
  const directory = join(state.root, "reviews");
  try {
    if (!checkOwnDirectory(directory)) return [];
  } catch (error) {
    return [damageOf(error, directory)];
  }
  return sidecarsIn(directory).flatMap((name) => {
    const path = join(directory, name);
    try {
      openSession(path);
      return [];
    } catch (error) {
      return [damageOf(error, path)];
    }
  });
}

function damageOf(error: unknown, path: string): DamagedSidecar {
  if (!(error instanceof Fault)) throw error;
  const { why } = error.facts;
  return { path, why: typeof why === "string" ? why : error.message };
}
