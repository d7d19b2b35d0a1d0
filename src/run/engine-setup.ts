/**
 * Everything about an engine that depends on this machine: its program, version, home and environment.
 */
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { saveSettings, sharedLock } from "../state/directory.ts";
import { checkOwnDirectory, readRecordOrNull, writeAtomic } from "../state/files.ts";
import { fileSize, fileStamp, isRootOnly } from "../state/places.ts";
import type { EngineConfig } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { customEngine, DEMO_PROGRAM, ENGINES } from "../engines/engines.ts";
import type { Command, Engine, SettingsFile } from "../engines/engine.ts";
import { nearest } from "../lib/suggest.ts";
import { inTurn } from "../store/store.ts";
import type { Deps } from "./deps.ts";

export { environmentAt, planWorkplace, withoutRepository } from "./isolate.ts";
export { redactorFor, storableArgs } from "./launch.ts";

export interface EngineSetup {
  readonly engine: Engine;
  readonly program: readonly [file: string, ...args: string[]];
  /** Where the engine keeps its sessions when started with `env`. */
  readonly home: string | null;
  /** The complete environment of an agent, without the variables of a single attempt. */
  readonly env: Readonly<Record<string, string>>;
  /** Native arguments from the config, before the user's own arguments of a start. */
  readonly defaultArgs: readonly string[];
}

export function allEngines(deps: Deps): readonly Engine[] {
  const own = Object.entries(deps.config.engines);
  return [...ENGINES, ...own.flatMap(([id, config]) => customEngine(id, config) ?? [])];
}

export function findEngine(deps: Deps, id: string): Engine {
  const engines = allEngines(deps);
  const engine = engines.find((one) => one.id === id);
  if (engine !== undefined) return engine;
  const ids = engines.map((one) => one.id);
  const near = nearest(id, ids);
  throw new Fault(
    "engine_unknown",
    `${JSON.stringify(id)} is not an engine.${near === null ? "" : ` Did you mean ${near}?`} Engines: ${ids.join(", ")}.`,
    { facts: { given: id, engines: ids } },
  );
}

/** As the end of a sentence about a run. */
export function undefinedWords(engine: string): string {
  return `no config file defines its engine ${engine}. Put [engines.${engine}] back into your config file`;
}

/** The engine of a run, which a config file may have defined when it was started. */
export function engineOf(deps: Deps, { agentName, handle }: Pick<RunRecord, "agentName" | "handle">): Engine {
  const engine = allEngines(deps).find(({ id }) => id === agentName);
  if (engine !== undefined) return engine;
  throw new Fault("engine_unknown", `Run ${handle} cannot be resumed: ${undefinedWords(agentName)}.`, {
    facts: { handle, given: agentName },
  });
}

/** Throws `engine_missing` when the program cannot be run. */
export function setUpEngine(
  deps: Deps,
  engine: Engine,
  given: readonly (readonly [string, string])[],
): EngineSetup {
  const program = findProgram(deps, engine);
  if (program === null) throw missing(deps, engine);
  const setup = environmentOf(deps, engine, given);
  assertFixedHome(setup);
  // The demo agent's home is in the state directory, so the same checks apply.
  if (setup.home !== null && dirname(setup.home) === deps.state.root) checkOwnDirectory(setup.home);
  return { ...setup, program };
}

/** Reprise and its agents run in different directories, and a later resume in yet another one. */
function assertFixedHome({ engine, home }: Omit<EngineSetup, "program">): void {
  if (home === null || isAbsolute(home)) return;
  const names = [...Object.keys(engine.homeEnv(home)), "HOME"].join(" or ");
  throw new Fault(
    "usage",
    `${engine.title} would keep its conversations in ${JSON.stringify(home)}, a relative path that differs in every directory, so Reprise would not find them again. Give an absolute path in ${names}.`,
    { facts: { engine: engine.id, home } },
  );
}

/** The same without the program, for lookups in the engine's store. */
export function environmentOf(
  deps: Deps,
  engine: Engine,
  given: readonly (readonly [string, string])[],
): Omit<EngineSetup, "program"> {
  const config = deps.config.engines[engine.id];
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(deps.env)) if (value !== undefined) env[name] = value;
  Object.assign(env, config?.home === undefined ? {} : engine.homeEnv(config.home), config?.env ?? {});
  for (const [name, value] of given) env[name] = value;
  return { engine, home: engine.home(env), env, defaultArgs: config?.args ?? [] };
}

export function findProgram(deps: Deps, engine: Engine): readonly [string, ...string[]] | null {
  const name = programName(deps.config.engines[engine.id], engine);
  if (name === DEMO_PROGRAM) return deps.demo;
  const file = deps.processes.resolveProgram(name, deps.env);
  return file === null ? null : [file];
}

interface Settled {
  readonly env: Readonly<Record<string, string>>;
  /** Which settings were not made, and why. */
  readonly notes: readonly string[];
  /** Starts in one folder must not overlap, because the setting that allows it could not be made. */
  readonly apart: boolean;
}

/** The settings files that a command needs, and the variables that name them. A variable that the user set stays. */
export function settingsEnv(deps: Deps, command: Command, env: Readonly<Record<string, string>>): Settled {
  const added: Record<string, string> = {};
  const notes: string[] = [];
  let apart = false;
  for (const setting of command.settings ?? []) {
    const { variable, purpose } = setting;
    const hidden = setting.hides?.(env).find((path) => fileSize(path) !== null);
    const path = hidden === undefined ? placeOf(deps, setting) : null;
    // An agent that starts Reprise passes on Reprise's own file.
    if (env[variable] !== undefined && env[variable] !== path)
      notes.push(`${purpose} was left as it is: ${variable} is set`);
    else if (path !== null) added[variable] = path;
    else if (hidden !== undefined) notes.push(`${purpose} was left as it is: ${hidden} exists`);
    if (added[variable] === undefined && setting.otherwiseApart === true) apart = true;
  }
  return { env: added, notes, apart };
}

/** Null: no place that the engine accepts. */
function placeOf(deps: Deps, setting: SettingsFile): string | null {
  const save = () => saveSettings(deps.state, setting.name, setting.content);
  if (setting.rootOnly === undefined) return save();
  // A system-wide installation belongs to root.
  const shipped = fileURLToPath(new URL(`./settings/${setting.name}`, import.meta.url));
  if (isRootOnly(shipped)) return shipped;
  return isRootOnly(deps.state.root) ? save() : null;
}

/**
 * The version that `program --version` prints, cached until the program's file changes. It is only recorded, so an
 * unknown version stops nothing.
 */
export async function versionOf(
  deps: Deps,
  engine: Engine,
  program: readonly [string, ...string[]],
): Promise<string | null> {
  // A custom engine's program may not support `--version`.
  if (ENGINES.every((one) => one.id !== engine.id)) return null;
  const [file, ...args] = program;
  const stamp = fileStamp(file);
  const cacheFile = join(deps.state.root, "versions.json");
  const cache = readCache(cacheFile);
  const key = [...program, stamp].join("\u0000");
  if (cache[key] !== undefined) return cache[key];
  const { env } = environmentOf(deps, engine, []);
  const result = await deps.processes.runTool(file, [...args, "--version"], {
    cwd: deps.state.root,
    env: { ...env },
    timeoutMs: 5_000,
    maxBytes: 16_384,
  });
  const version = result.code === 0 ? engine.version(result.stdout) : null;
  if (version !== null && deps.state.writable) {
    await inTurn(sharedLock(deps.state), () => {
      writeAtomic(cacheFile, `${JSON.stringify({ ...readCache(cacheFile), [key]: version })}\n`);
    });
  }
  return version;
}

/** A damaged cache only costs time. */
function readCache(file: string): Record<string, string> {
  return (readRecordOrNull(file) ?? {}) as Record<string, string>;
}

function programName(config: EngineConfig | undefined, engine: Engine): string {
  return config?.program ?? engine.program;
}

function missing(deps: Deps, engine: Engine): Fault {
  const name = programName(deps.config.engines[engine.id], engine);
  const legacy = engine.legacy === undefined ? "" : ` ${engine.legacy}`;
  return new Fault(
    "engine_missing",
    `${engine.title} cannot be run: ${JSON.stringify(name)} is not an executable program on PATH.${legacy} ` +
      `Install it, or name it in the config: [engines.${engine.id}] program = "/path/to/${engine.program}". \`reprise doctor\` lists the engines that it finds.`,
    { facts: { engine: engine.id, program: name } },
  );
}
