/** What an agent may do and what it was refused, for callers that know no engine. */
import type { Access } from "../core/config-issues.ts";
import type { DeniedCall } from "../core/events.ts";
import type { RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import { accessOptions, type HeldAccess } from "../engines/engines.ts";
import type { Deps } from "./deps.ts";
import { environmentOf, findEngine } from "./engine-setup.ts";

/** The native options by which a start of this engine is held to the level; the user's own come before it. */
export function heldAccess(
  deps: Deps,
  engineId: string,
  level: Access,
  native: readonly string[],
): HeldAccess {
  const engine = findEngine(deps, engineId);
  return accessOptions(engine, level, [...environmentOf(deps, engine, []).defaultArgs, ...native]);
}

/** Tool calls of the last turn that the engine refused, from its own store; null: only its output tells. */
export async function storedDenials(deps: Deps, run: RunRecord): Promise<readonly DeniedCall[] | null> {
  const engine = findEngine(deps, run.agentName);
  const session = run.session.value;
  if (engine.denied === undefined || session === null || run.engineHome === null) return null;
  return engine.denied(session, { home: run.engineHome, cwd: run.cwd }, sessionFiles());
}
