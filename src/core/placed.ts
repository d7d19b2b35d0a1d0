/** A run in the present place of its directory, which may have had another path when it was recorded. */
import { dirname } from "node:path";
import type { RunRecord } from "./records.ts";

/**
 * The record names the run directory, and so the state directory of that time: an engine home inside it has moved along.
 * Nothing else changes. The working directory stays as recorded, since the conversation depends on its path.
 */
export function placedAt<R extends Pick<RunRecord, "runDirectory" | "engineHome">>(
  run: R,
  runDirectory: string,
): R {
  const { engineHome } = run;
  const was = `${stateOf(run.runDirectory)}/`;
  if (run.runDirectory === runDirectory || was === "/" || engineHome?.startsWith(was) !== true)
    return { ...run, runDirectory };
  return { ...run, runDirectory, engineHome: `${stateOf(runDirectory)}/${engineHome.slice(was.length)}` };
}

/** `<state directory>/runs/<run id>` */
const stateOf = (runDirectory: string) => dirname(dirname(runDirectory));
