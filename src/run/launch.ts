/**
 * What a run was started with, stored without secrets, and put together again for every later attempt.
 *
 * A secret's value is never stored. A variable is taken from the environment again; an option must be given
 * again by `--native`. Guessing would run the agent with something else than it was started with.
 */
import { createHash } from "node:crypto";
import { basename, dirname, join, resolve } from "node:path";
import { realPath } from "../state/places.ts";
import { contentDigest } from "../state/tree.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, LaunchEnv, RightsFile, RightsVariable, RunRecord } from "../core/records.ts";
import type { Command, Engine } from "../engines/engine.ts";
import { isGuarded, namedPaths, secretsAt } from "../engines/engines.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { isPlainOption, isSecretName, isSecretOption } from "../lib/secret-names.ts";
import { MIN_KNOWN, type Redact, redactor, urlPasswords } from "../lib/secrets.ts";
import { type DaemonWork, inSupervisor } from "./resume/plan.ts";

/** Hides the values of all secret-named variables, passwords of URLs in others, and everything that looks like a secret by itself. */
export function redactorFor(env: Env, given: readonly (readonly [string, string])[]): Redact {
  return redactor(secretsIn(env, given));
}

/** The variables whose values a redactor of these knows, and a sum of each value. */
export function hiddenVariables(
  env: Env,
  given: readonly (readonly [string, string])[],
): { readonly hidden: readonly string[]; readonly hiddenSums: Readonly<Record<string, string>> } {
  const known = secretsIn(env, given).filter(({ value }) => value.length >= MIN_KNOWN);
  const hidden = [...new Set(known.map(({ name }) => name))].toSorted();
  const values = { ...env, ...Object.fromEntries(given) };
  return {
    hidden,
    hiddenSums: Object.fromEntries(hidden.map((name) => [name, sumOf(name, values[name] ?? "")])),
  };
}

/** The same for the same value in every run, so that many records tell no more than one. */
function sumOf(name: string, value: string): string {
  return digest(`${name}=${value}`).slice(0, 4);
}

function secretsIn(env: Env, given: readonly (readonly [string, string])[]) {
  return [...Object.entries(env), ...given].flatMap(([name, value]) => {
    if (value === undefined) return [];
    const values = [...(isSecretName(name) ? [value] : []), ...urlPasswords(value)];
    return values.map((one) => ({ name, value: one }));
  });
}

/** A recorded run's secrets, as far as today's environment and config still tell them. */
export interface Recognition {
  readonly redact: Redact;
  /**
   * Variables that some attempt had and that are not set today, or to another value: the values of the attempt are not
   * recognized in the raw logs. A variable that the user has set to nothing is not among them.
   */
  readonly unknown: readonly string[];
  /** All variables whose value is not known to be that of every attempt. Text that stays for good needs this proof. */
  readonly unproven: readonly string[];
}

export function recognition(env: Env, run: RunRecord, attempts: readonly AttemptRecord[]): Recognition {
  const given = run.launch.env.flatMap(({ name, value }) => (value === null ? [name] : []));
  const names = [...new Set([...given, ...attempts.flatMap(({ hidden }) => hidden ?? [])])].toSorted();
  const sums = (name: string) =>
    attempts.flatMap(({ hidden, hiddenSums }) =>
      hidden?.includes(name) === true ? [hiddenSums?.[name]] : [],
    );
  const isOther = (name: string) => {
    const now = env[name] === undefined ? null : sumOf(name, env[name]);
    return sums(name).some((sum) => sum !== undefined && sum !== now);
  };
  return {
    redact: redactorFor(env, []),
    unknown: names.filter((name) => env[name] === undefined || (env[name] !== "" && isOther(name))),
    unproven: names.filter((name) => isOther(name) || !env[name] || sums(name).includes(undefined)),
  };
}

/** Every user of the machine can read the arguments of a process; a secret must not stand there by our doing. */
export function assertHiddenMessage(command: Command, message: string | null, redact: Redact): void {
  const isArgument = command.storedArgs !== undefined;
  if (!isArgument || message === null || redact(message) === message) return;
  throw new Fault(
    "message_invalid",
    "The message seems to contain a secret. This engine gets the message as an argument, which every user of this machine can read. " +
      "Name the variable or the file that holds the secret instead, or type the message in the engine's UI.",
  );
}

/**
 * Arguments as they may be stored, and the options whose value is not in them. Without the engine that they are for, its
 * secret options are known by their names alone.
 */
export function storableArgs(
  args: readonly string[],
  redact: Redact,
  engine?: Pick<Engine, "grammar">,
): { readonly args: readonly string[]; readonly redacted: readonly string[] } {
  const redacted: string[] = [];
  const secrets = engine === undefined ? null : secretsAt(engine.grammar, args);
  const stored = args.map((arg, at) => {
    const before = args[at - 1];
    const kept = secrets?.get(at);
    if (kept !== undefined) {
      redacted.push(kept === 0 ? (before ?? "a word") : arg.slice(0, kept).replace(/=$/, ""));
      return `${arg.slice(0, kept)}[redacted]`;
    }
    if (before !== undefined && isSecretOption(before) && !isPlainOption(arg)) {
      redacted.push(before);
      return "[redacted]";
    }
    const hidden = hide(arg, redact);
    if (hidden !== arg) redacted.push(arg.startsWith("-") ? nameOf(arg, redact) : (before ?? "a word"));
    return hidden;
  });
  return { args: stored, redacted };
}

export function storableEnv(
  given: readonly (readonly [string, string])[],
  redact: Redact,
): readonly LaunchEnv[] {
  return given.map(([name, value]) => ({
    name,
    value: isSecretName(name) || redact(value) !== value ? null : value,
  }));
}

/** The recorded variables with their values, those that were secrets from today's environment. */
export function recordedEnv(
  run: RunRecord,
  env: Env,
  given: readonly (readonly [string, string])[],
  supervised?: DaemonWork,
): readonly (readonly [string, string])[] {
  const fresh = new Map(given);
  const values: [string, string][] = [];
  for (const { name, value } of run.launch.env) {
    if (fresh.has(name)) continue;
    const known = value ?? env[name];
    if (known === undefined) {
      throw new Fault(
        "option_unkept",
        `Run ${run.handle} was started with the variable ${name}, a secret that Reprise does not store. ` +
          (supervised !== undefined
            ? inSupervisor(run, supervised, `set ${name}`)
            : `Set it in the environment or give it again: --env ${name}=…`),
        { facts: { handle: run.handle, variable: name } },
      );
    }
    values.push([name, known]);
  }
  return [...values, ...given];
}

/**
 * Digests, since such a variable may hold a whole config with keys in it. HOME stands for the settings places that
 * follow it.
 */
export function rightsVariables(engine: Engine, env: Env): readonly RightsVariable[] {
  const opening = engine.openingEnv?.names ?? [];
  const known = new Set([...(engine.rightsEnv ?? []), ...opening]);
  const names = Object.keys(env).filter((name) => known.has(name) || isUnknown(engine, name));
  const places = engine.settingsPlaces?.(env);
  const home = places === undefined ? [] : [{ name: "HOME", sha256: digest(places.join("\0")) }];
  const variables = [...known, ...names.filter((name) => !known.has(name)).toSorted()].flatMap((name) => {
    const value = env[name];
    if (value === undefined) return [];
    // A link may take the place of the folder later, or of one above it.
    const leads = opening.includes(name) && value !== "" ? { leads: digest(realFolder(value)) } : {};
    return [{ name, sha256: digest(value), ...leads }];
  });
  return [...variables, ...home];
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Without links, also where the folder is yet to be made. */
function realFolder(path: string): string {
  const real = realPath(path);
  if (real !== null || dirname(path) === path) return real ?? path;
  return join(realFolder(dirname(path)), basename(path));
}

/** A variable with the engine's prefix whose effect is unknown. */
function isUnknown({ guardedEnv, rightsEnv }: Engine, name: string): boolean {
  return guardedEnv !== undefined && rightsEnv?.includes(name) !== true && isGuarded(guardedEnv, name);
}

export interface LaterEnv {
  readonly env: Env;
  /** The user says that unknown variables may differ. */
  readonly allowEnv?: true;
  /** The user says that files with rules may differ. */
  readonly allowFiles?: true;
  /** It is the supervisor's own. */
  readonly supervised?: DaemonWork;
}

/** Variables and files affect what an engine may do, so a resume must see them as the first start did (I12). */
export function assertSameRights(engine: Engine, run: RunRecord, later: LaterEnv): void {
  const { env, allowEnv, supervised } = later;
  const { now, began, differ } = differences(engine, run, env);
  const opening = engine.openingEnv?.names ?? [];
  for (const name of differ) {
    const unknown = isUnknown(engine, name);
    // Runs of earlier versions have no record of these.
    if (name === "HOME" && !began.has(name)) continue;
    if (opening.includes(name) || (unknown && (allowEnv === true || run.launch.guarded === undefined)))
      continue;
    const was = began.has(name) ? (now.has(name) ? "had another value" : "was set") : "was not set";
    const controls = unknown ? "may control" : "controls";
    const way = unknown ? "give --allow-env if it is harmless" : "start a new run";
    throw new Fault(
      "would_widen",
      `The variable ${name} ${controls} what ${engine.title} may do, and it ${was} when run ${run.handle} was started. ` +
        (supervised !== undefined
          ? inSupervisor(run, supervised, began.has(name) ? `set ${name} as it was` : `unset ${name}`)
          : `Put it back as it was, then resume again; or ${way}.`),
      { facts: { handle: run.handle, variable: name } },
    );
  }
  assertSameOpened(engine, run);
  assertSameFiles(engine, run, later);
}

/** The run with the files and folders that decide on its rights, as its first attempt finds them. */
export function withRightsFiles(
  engine: Engine,
  run: RunRecord,
  given: readonly string[],
  env: Env,
): RunRecord {
  const noPrompt = run.launch.message !== null;
  const at = (path: string) => {
    const home = env["HOME"];
    return home !== undefined && /^~(?:\/|$)/.test(path) ? join(home, path.slice(1)) : resolve(run.cwd, path);
  };
  const variables = (engine.rulesEnv?.names ?? []).flatMap((by) => (env[by] ? [{ by, path: env[by] }] : []));
  const named = [...namedPaths(engine, given, { as: "reads", noPrompt }), ...variables];
  const files = named.map(({ by, path }): RightsFile => {
    const sha256 = contentDigest(at(path), engine.rulesEnv?.unchanged);
    return { by, path: at(path), sha256 };
  });
  const opened = namedPaths(engine, given, { as: "opens", noPrompt });
  const folders = opened.map(({ by, path }) => ({ by, path: at(path), leads: realFolder(at(path)) }));
  return {
    ...run,
    launch: {
      ...run.launch,
      ...(files.length === 0 ? {} : { files }),
      ...(folders.length === 0 ? {} : { folders }),
    },
  };
}

/** A link that took the place of such a folder, or of one above it, would open another one to the agent (I12). */
function assertSameOpened(engine: Engine, { handle, launch }: RunRecord): void {
  const other = (launch.folders ?? []).find(({ path, leads }) => realFolder(path) !== leads);
  if (other === undefined) return;
  const { by, path, leads } = other;
  const [typed, was, now] = [path, leads, realFolder(path)].map((one) => harmlessLine(one, MOST_CHARACTERS));
  throw new Fault(
    "would_widen",
    `${typed}, which ${by} opens to ${engine.title}, led to ${was} when run ${handle} was started, and now leads to ${now}. ` +
      "Put the folder itself back, then resume again; or start a new run.",
    { facts: { handle, option: by, path } },
  );
}

/** A process that may write to such a file can give the next attempt more rights. The agent often may (I12). */
function assertSameFiles(engine: Engine, { handle, launch }: RunRecord, later: LaterEnv): void {
  const changed = (launch.files ?? []).find(
    ({ path, sha256 }) => contentDigest(path, engine.rulesEnv?.unchanged) !== sha256,
  );
  if (later.allowFiles === true || changed === undefined) return;
  const { by, path, sha256 } = changed;
  const what =
    sha256 === null
      ? "is new since run"
      : sha256.startsWith("uncomparable")
        ? "cannot be compared with its state when run"
        : "has changed since run";
  const accept = later.supervised !== undefined ? "" : "; or give --allow-files if the change is yours";
  throw new Fault(
    "would_widen",
    `${harmlessLine(path, MOST_CHARACTERS)} controls what ${engine.title} may do (${by}) and ${what} ${handle} started. ` +
      `Restore it, then resume again${accept}; or start a new run.`,
    { facts: { handle, option: by, path } },
  );
}

/** A folder that a variable opens to the agent is the one of the start, or none (I12). */
export function assertSameFolders(
  engine: Engine,
  run: RunRecord,
  { args }: Command,
  { env, allowEnv, supervised }: LaterEnv,
): void {
  const { openingEnv } = engine;
  if (openingEnv === undefined || allowEnv === true || run.launch.guarded === undefined) return;
  const { now, differ } = differences(engine, run, env);
  const name = openingEnv.names.find((one) => differ.includes(one) && now.has(one));
  if (name === undefined || !openingEnv.matters(args)) return;
  throw new Fault(
    "would_widen",
    `${engine.title} lets its agent write to the folder in ${name}, and that was another one when run ${run.handle} was started, or a link leads elsewhere now. ` +
      (supervised !== undefined
        ? inSupervisor(run, supervised, `unset ${name} or set it as it was`)
        : `Unset ${name} or put it back as it was, then resume again; or give --allow-env to let the agent write there.`),
    { facts: { handle: run.handle, variable: name } },
  );
}

function differences(engine: Engine, run: RunRecord, env: Env) {
  const now = new Map(rightsVariables(engine, env).map((variable) => [variable.name, variable]));
  const began = new Map(run.launch.rights.map((variable) => [variable.name, variable]));
  const known = [...(engine.rightsEnv ?? []), ...(engine.openingEnv?.names ?? [])];
  const names = [...new Set([...now.keys(), ...began.keys()])].filter(
    (name) => known.includes(name) || isUnknown(engine, name) || name === "HOME",
  );
  const isSame = (one?: RightsVariable, other?: RightsVariable) =>
    one?.sha256 === other?.sha256 && (one?.leads ?? other?.leads) === (other?.leads ?? one?.leads);
  return { now, began, differ: names.filter((name) => !isSame(now.get(name), began.get(name))) };
}

export function assertNothingRedacted(run: RunRecord): void {
  const [option] = run.launch.redacted;
  if (option === undefined) return;
  throw new Fault(
    "option_unkept",
    `Run ${run.handle} was started with a secret in ${option}. Reprise does not store secrets, so it cannot pass the option again. ` +
      "Pass secrets in the environment (--env NAME=value) and start a new run.",
    { facts: { handle: run.handle, option } },
  );
}

/** The first words of a message, for `list`, `show` and `logs`. */
export const EXCERPT_CHARACTERS = 200;
const MOST_READ = 4_096;

export function excerpt(message: string | null, redact: Redact): string | null {
  if (message === null) return null;
  // Cut after redaction: half a secret is still a secret.
  const text = redact(message.slice(0, MOST_READ));
  if (text.length <= EXCERPT_CHARACTERS && message.length <= MOST_READ) return text;
  const beginning = text.slice(0, EXCERPT_CHARACTERS - 1).replace(/[\ud800-\udbff]$/, " ");
  return `${beginning.padEnd(EXCERPT_CHARACTERS - 1)}…`;
}

/** What of the message itself is in its excerpt. Excerpts of earlier versions have no mark. */
export function withoutMark(stored: string): string {
  return stored.length >= EXCERPT_CHARACTERS ? stored.replace(/ ?…$/, "") : stored;
}

function hide(arg: string, redact: Redact): string {
  const equals = arg.indexOf("=");
  if (equals > 0 && isSecretOption(arg.slice(0, equals))) return `${arg.slice(0, equals)}=[redacted]`;
  const hidden = redact(arg);
  if (hidden !== arg || !/^-[A-Za-z]/.test(arg)) return hidden;
  // What a short option is given may stand right behind its letter.
  return `${arg.slice(0, 2)}${redact(arg.slice(2))}`;
}

function nameOf(arg: string, redact: Redact): string {
  const equals = arg.indexOf("=");
  const name = equals === -1 ? arg : arg.slice(0, equals);
  return hide(name, redact) === name ? name : name.slice(0, 2);
}

const MOST_LINES = 5;
const MOST_CHARACTERS = 300;

/**
 * What an agent wrote to stderr last, as it may be stored and shown: the reason of a crash is often nowhere else. `isWhole`: the tail begins where stderr began.
 */
export function lastWords(tail: string, isWhole: boolean, redact: Redact): readonly string[] {
  // A line whose beginning was cut off may begin inside a secret. Without a line end, nothing is left.
  const lines = isWhole ? tail : tail.replace(/^[^\n]*\n?/, "");
  // Redacted before it is split and shortened: a secret may have several lines, and half of one is still a secret.
  return redact(lines)
    .split("\n")
    .map((line) => harmlessLine(line, MOST_CHARACTERS).trimEnd())
    .filter((line) => line !== "")
    .slice(-MOST_LINES);
}
