/** A run as it is where its directory is now, which may have been recorded under another path. */
import { dirname } from "node:path";
import type { RunRecord } from "./records.ts";

/**
 * The record names the run directory, and so the state directory as it was then: an engine home inside that one has moved with
 * it. Nothing else follows. The working directory stays as recorded, since the conversation holds to its path.
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
