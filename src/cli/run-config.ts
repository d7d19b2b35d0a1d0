/** The config that decides about a run: its engine may be defined by the project of its directory. */
import type { RunRecord } from "../core/records.ts";
import { allEngines } from "../run/engine-setup.ts";
import type { Deps } from "../run/run.ts";
import type { Context } from "./context.ts";

/** Reads the project's file only where the user's does not define the engine. */
export async function withEngineOf(
  context: Context,
  deps: Deps,
  { agentName, cwd }: Pick<RunRecord, "agentName" | "cwd">,
): Promise<Deps> {
  if (allEngines(deps).some(({ id }) => id === agentName)) return deps;
  return context.configure(deps, { cwd });
}
