/** What an engine may do on this machine: its access level, the options and variables that widen it, the calls it refused. */
import { isAbsolute, resolve } from "node:path";
import type { Access } from "../core/config-issues.ts";
import type { DeniedCall } from "../core/events.ts";
import type { RightsVariable, RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import { accessOptions, type HeldAccess, keepNative, widerStart } from "../engines/engines.ts";
import type { Deps } from "./deps.ts";
import { environmentOf, findEngine } from "./engine-setup.ts";
import { settingsText } from "./folder-trust.ts";
import { redactorFor, rightsVariables, storableArgs } from "./launch.ts";

export type { HeldAccess } from "../engines/engines.ts";

/** The native options that limit a start of this engine to the level. The user's own options take precedence. */
export function heldAccess(
  deps: Deps,
  engineId: string,
  level: Access,
  native: readonly string[],
): HeldAccess {
  const engine = findEngine(deps, engineId);
  const { defaultArgs } = environmentOf(deps, engine, []);
  return accessOptions(engine, level, [...defaultArgs, ...native], ownRules(deps, engineId));
}

/** The user's own rules in the engine's config that Reprise's options would disable. Null: none. */
export function ownRules(deps: Deps, engineId: string): string | null {
  const engine = findEngine(deps, engineId);
  const { home } = environmentOf(deps, engine, []);
  const profile = engine.access?.profile;
  for (const file of profile?.files ?? []) {
    const path = home === null ? file : resolve(home, file);
    const rules = isAbsolute(path) ? (profile?.in(settingsText(path)) ?? null) : null;
    if (rules !== null) return `${rules} in ${path}`;
  }
  return null;
}

/** Arguments and variables of every start of an engine, in addition to the user's. */
export interface EngineDefaults {
  /** Native arguments of the config. */
  readonly args: readonly string[];
  /** Variables that affect the engine's rights. */
  readonly rights: readonly RightsVariable[];
}

export function engineDefaults(deps: Deps, engineId: string): EngineDefaults {
  const engine = findEngine(deps, engineId);
  const { env, defaultArgs } = environmentOf(deps, engine, []);
  const rights = rightsVariables(engine, env).map(({ name, sha256 }) => ({ name, sha256 }));
  return { args: defaultArgs, rights };
}

/** The config option that may give a start more rights than the arguments `had`. Null: none. */
export function widerNow(
  deps: Deps,
  engineId: string,
  level: Access,
  args: Pick<Parameters<typeof widerStart>[2], "had" | "native" | "asked" | "refused">,
): ReturnType<typeof widerStart> {
  const engine = findEngine(deps, engineId);
  return widerStart(engine, level, { ...args, now: environmentOf(deps, engine, []).defaultArgs });
}

/**
 * Options of a start, from the user or the config, that contain a secret. Reprise stores no secret, so a run that begins
 * with such an option never has a second attempt.
 */
export function secretOptions(deps: Deps, engineId: string, native: readonly string[]): readonly string[] {
  const engine = findEngine(deps, engineId);
  const { env, defaultArgs } = environmentOf(deps, engine, []);
  return storableArgs([...defaultArgs, ...native], redactorFor(env, []), engine).redacted;
}

/** The option that sets the rights of a later attempt with these native options. Null: the engine's default. */
export function heldInRun(deps: Deps, run: RunRecord, native: readonly string[]): string | null {
  const engine = findEngine(deps, run.agentName);
  const { given, message } = run.launch;
  return accessOptions(engine, "edit", keepNative(engine, given, native, message !== null)).by;
}

/** Whether the output of an attempt with these native arguments shows every tool call. */
export function tellsTools(deps: Deps, engineId: string, args: readonly string[]): boolean {
  const words = findEngine(deps, engineId).tellsTools;
  return words?.every((word) => args.includes(word)) ?? false;
}

/** Tool calls of the last turn that the engine refused, from its own store. Null: only the output shows them. */
export async function storedDenials(deps: Deps, run: RunRecord): Promise<readonly DeniedCall[] | null> {
  const engine = findEngine(deps, run.agentName);
  const session = run.session.value;
  if (engine.denied === undefined || session === null || run.engineHome === null) return null;
  return engine.denied(session, { home: run.engineHome, cwd: run.cwd }, sessionFiles());
}
