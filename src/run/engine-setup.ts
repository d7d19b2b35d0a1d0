/**
 * Everything about an engine that depends on this machine: its program, version, home and environment.
 */
import { readFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import {
  checkOwnDirectory,
  fileSize,
  fileStamp,
  isRootOnly,
  readRecord,
  realPath,
  saveSettings,
  sharedLock,
  writeAtomic,
} from "../state/state.ts";
import type { Access } from "../core/config-issues.ts";
import type { EngineConfig } from "../core/config.ts";
import type { DeniedCall } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { Launch, RightsVariable, RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import {
  accessOptions,
  customEngine,
  DEMO_PROGRAM,
  ENGINES,
  type HeldAccess,
  keepNative,
  widerStart,
} from "../engines/engines.ts";
import type { AttemptRequest, Command, Engine, SettingsFile } from "../engines/engine.ts";
import { nearest } from "../lib/suggest.ts";
import { inTurn } from "../store/store.ts";
import type { Deps } from "./deps.ts";
import { checkoutsOf } from "./git.ts";
import { redactorFor, rightsVariables, storableArgs } from "./launch.ts";

export interface EngineSetup {
  readonly engine: Engine;
  readonly program: readonly [file: string, ...args: string[]];
  /** Where the engine keeps its sessions when started with `env`. */
  readonly home: string | null;
  /** The complete environment of an agent, without what is particular to one attempt. */
  readonly env: Readonly<Record<string, string>>;
  /** Native arguments that the config puts in front of what the user gives at a start. */
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
  // The demo agent's home is in the state directory, and treated like all that is.
  if (setup.home !== null && dirname(setup.home) === deps.state.root) checkOwnDirectory(setup.home);
  return { ...setup, program };
}

/** Reprise and its agents run in different directories, and a later resume in yet another one. */
function assertFixedHome({ engine, home }: Omit<EngineSetup, "program">): void {
  if (home === null || isAbsolute(home)) return;
  const names = [...Object.keys(engine.homeEnv(home)), "HOME"].join(" or ");
  throw new Fault(
    "usage",
    `${engine.title} would keep its conversations in ${JSON.stringify(home)}, which means another place in every directory, so Reprise would not find them again. Give an absolute path in ${names}.`,
    { facts: { engine: engine.id, home } },
  );
}

/** The same without the program, for looking things up in the engine's store. */
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
  return file === null ? null : [file, ...(engine.programArgs ?? [])];
}

interface Settled {
  readonly env: Readonly<Record<string, string>>;
  /** What was not set, and why. */
  readonly notes: readonly string[];
  /** Starts in one folder must not overlap, as a setting that would allow it could not be set. */
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
    // An agent that starts Reprise hands our own file on.
    if (env[variable] !== undefined && env[variable] !== path)
      notes.push(`${purpose} was left as it is: ${variable} is set`);
    else if (path !== null) added[variable] = path;
    else if (hidden !== undefined) notes.push(`${purpose} was left as it is: ${hidden} exists`);
    if (added[variable] === undefined && setting.otherwiseApart === true) apart = true;
  }
  return { env: added, notes, apart };
}

/** Null: no place that the engine would believe. */
function placeOf(deps: Deps, setting: SettingsFile): string | null {
  const save = () => saveSettings(deps.state, setting.name, setting.content);
  if (setting.rootOnly === undefined) return save();
  // A system-wide installation belongs to root, whoever runs it.
  const shipped = fileURLToPath(new URL(`./settings/${setting.name}`, import.meta.url));
  if (isRootOnly(shipped)) return shipped;
  return isRootOnly(deps.state.root) ? save() : null;
}

/**
 * What `program --version` says, from a cache that holds as long as the file is the same. A version is a fact
 * for the record: not knowing it stops nothing.
 */
export async function versionOf(
  deps: Deps,
  engine: Engine,
  program: readonly [string, ...string[]],
): Promise<string | null> {
  // Nobody knows what a program of the user's own does when it is asked.
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

function readCache(file: string): Record<string, string> {
  try {
    const cache = readRecord(file);
    return cache === null ? {} : (cache as Record<string, string>);
  } catch (error) {
    // A damaged cache is only slower.
    if (error instanceof Fault) return {};
    throw error;
  }
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
      `Install it, or name it in the config: [engines.${engine.id}] program = "/path/to/${engine.program}". \`reprise doctor\` lists what is found.`,
    { facts: { engine: engine.id, program: name } },
  );
}

/** The native options by which a start of this engine is held to the level; the user's own come before it. */
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

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Rules of the user's own, in the engine's config, that an option of ours would switch off; null: there are none. */
export function ownRules(deps: Deps, engineId: string): string | null {
  const engine = findEngine(deps, engineId);
  const { home } = environmentOf(deps, engine, []);
  const profile = engine.access?.profile;
  for (const file of profile?.files ?? []) {
    const path = home === null ? file : resolve(home, file);
    const rules = isAbsolute(path) ? (profile?.in(textOf(path)) ?? null) : null;
    if (rules !== null) return `${rules} in ${path}`;
  }
  return null;
}

export interface EnginePlace {
  readonly cwd: string;
  /** Where its repository is, if `cwd` is yet to be made. */
  readonly checkout: string;
  readonly args: readonly string[];
  readonly interactive: boolean;
}

/** What a start of now finds: whether the engine's own settings, and the options over them, trust the folder. */
export function trustNow(
  { engine, home }: Pick<EngineSetup, "engine" | "home">,
  place: EnginePlace,
): Pick<Launch, "folderTrust"> {
  const trust = engine.folderTrust;
  const { folders } = foldersIn(engine, place);
  if (trust === undefined || folders === undefined) return {};
  const files = trust.files.map((file) => (home === null ? file : resolve(home, file)));
  const said = trust.in(files.filter(isAbsolute).map(textOf), folders, place.args);
  return { folderTrust: said === "unset" && place.interactive ? "trusted" : said };
}

/** The folder of a run that begins, as its record and as its engine's command need it. */
export function startFolder(
  setup: Pick<EngineSetup, "engine" | "home">,
  request: { readonly cwd: string; readonly isolate: Launch["isolate"] },
  part: Omit<EnginePlace, "checkout">,
) {
  const place = { ...part, checkout: request.isolate === "worktree" ? request.cwd : part.cwd };
  const trust = trustNow(setup, place);
  const own: Pick<AttemptRequest, "ownFolder"> = request.isolate === "dir" ? { ownFolder: true } : {};
  return { trust, folder: { ...trust, ...foldersIn(setup.engine, place), ...own } };
}

/** The folders by which the engine's settings may know the one that it works in. */
export function foldersIn(
  { folderTrust: trust }: Engine,
  { cwd, checkout, args }: Omit<EnginePlace, "interactive">,
): Pick<AttemptRequest, "folders"> {
  if (trust === undefined) return {};
  const given = trust.workplace(args, cwd);
  const place = realPath(given) ?? given;
  const isNew = checkout !== cwd && (place === cwd || place.startsWith(`${cwd}${sep}`));
  // A worktree that is yet to be made shares with the checkout nothing but the main one.
  return { folders: [place, ...(isNew ? checkoutsOf(checkout).slice(-1) : checkoutsOf(place))] };
}

/** What every start of an engine has besides what the user gives. */
export interface EngineDefaults {
  /** Native arguments of the config. */
  readonly args: readonly string[];
  /** Variables that bear on what the engine may do. */
  readonly rights: readonly RightsVariable[];
}

export function engineDefaults(deps: Deps, engineId: string): EngineDefaults {
  const engine = findEngine(deps, engineId);
  const { env, defaultArgs } = environmentOf(deps, engine, []);
  const rights = rightsVariables(engine, env).map(({ name, sha256 }) => ({ name, sha256 }));
  return { args: defaultArgs, rights };
}

/** By which option of the config a start may get more than it would have had with the arguments `had`; null: by none. */
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
 * Options of a start, the user's and those of the config, with a secret in them. It is not stored, so a run that begins
 * with them never has a second attempt.
 */
export function secretOptions(deps: Deps, engineId: string, native: readonly string[]): readonly string[] {
  const engine = findEngine(deps, engineId);
  const { env, defaultArgs } = environmentOf(deps, engine, []);
  return storableArgs([...defaultArgs, ...native], redactorFor(env, []), engine).redacted;
}

/** The option that says what a later attempt of the run may do, with these native ones; null: the engine's own default. */
export function heldInRun(deps: Deps, run: RunRecord, native: readonly string[]): string | null {
  const engine = findEngine(deps, run.agentName);
  const { given, message } = run.launch;
  return accessOptions(engine, "edit", keepNative(engine, given, native, message !== null)).by;
}

/** Whether every tool call of an attempt with these native arguments is seen in its output. */
export function tellsTools(deps: Deps, engineId: string, args: readonly string[]): boolean {
  const words = findEngine(deps, engineId).tellsTools;
  return words?.every((word) => args.includes(word)) ?? false;
}

/** Tool calls of the last turn that the engine refused, from its own store; null: only its output tells. */
export async function storedDenials(deps: Deps, run: RunRecord): Promise<readonly DeniedCall[] | null> {
  const engine = findEngine(deps, run.agentName);
  const session = run.session.value;
  if (engine.denied === undefined || session === null || run.engineHome === null) return null;
  return engine.denied(session, { home: run.engineHome, cwd: run.cwd }, sessionFiles());
}
