/**
 * Run directories and their records.
 *
 * `runs/<run-id>/` holds `run.json`, `label.json` if its name or tags were changed, `attempts/<n>/`, `escrow/`, for
 * supervised runs `agent.json` and, for isolated runs, `work/` or `worktree/`. These records are enough to rebuild the index (I7). Reprise trusts no file before it
 * has checked the ownership.
 */
import { randomBytes } from "node:crypto";
import { readdirSync, realpathSync, renameSync } from "node:fs";
import { rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { isRunId } from "../core/ids.ts";
import { type Label, labelOf, withLaterLabel } from "../core/label.ts";
import { placedAt } from "../core/placed.ts";
import type { AttemptRecord, Receipt, RunRecord, StartRecord } from "../core/records.ts";
import type * as Schemas from "../core/schemas.ts";
import type { RecordOf } from "../core/schemas.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { objectIn, stringIn } from "../lib/json.ts";
import { isSecretName } from "../lib/secret-names.ts";
import { type Redact, redactor, redactValue } from "../lib/secrets.ts";
import {
  checkOwnDirectory,
  damaged,
  isOurs,
  lstat,
  makeDirectory,
  MAX_RECORD_BYTES,
  readRecord,
  storageFault,
  syncDirectory,
  temporaryPath,
  writeAtomic,
  writeAtomicAsync,
} from "./files.ts";
import { assertNoMounts } from "./mounts.ts";
import type { StateDir } from "./directory.ts";
import { leftOver } from "./upkeep.ts";

/** Even a caller without known secrets stores nothing that looks like one (I11). */
const LOOKS_SECRET = redactor([]);

/** Null: a run with that id has a directory already. */
export function createRunDir(state: StateDir, runId: string): string | null {
  const directory = join(state.runsRoot, runId);
  if (!makeDirectory(directory)) return null;
  makeDirectory(join(directory, "attempts"));
  return directory;
}

/** The run directory for a path that the user typed: a real directory directly below the runs root. */
export function runDirAt(state: StateDir, path: string): string {
  const given = resolve(path);
  const stats = lstat(given);
  if (stats === null) throw missing(given);
  if (stats.isSymbolicLink() || realpathSync(dirname(given)) !== realpathSync(state.runsRoot)) {
    throw outside(given, state);
  }
  checkOwnDirectory(given);
  return join(state.runsRoot, basename(given));
}

export function saveRunFile(run: RunRecord, redact: Redact = LOOKS_SECRET): void {
  requireDirectory(run.runDirectory);
  save(join(run.runDirectory, "run.json"), run, redact);
}

/** Null: the directory has no `run.json`. The directory may have moved: its present place counts. */
export async function loadRunFile(runDirectory: string): Promise<RunRecord | null> {
  requireDirectory(runDirectory);
  const path = join(runDirectory, "run.json");
  const run = await load(path, "runSchema");
  if (run === null) return null;
  if (run.runId !== basename(runDirectory)) throw damaged(path, `it is the record of ${run.runId}`);
  if (!run.runId.endsWith(`-${run.handle}`)) throw damaged(path, "its handle does not match its run id");
  return placedAt(withLaterLabel(run, await loadLabel(runDirectory)), runDirectory);
}

/** The owner of a live run knows nothing of this file, so it never writes an older label over it. */
const labelFile = (runDirectory: string) => join(runDirectory, "label.json");

/** Null: name and tags are those of `run.json`. An unreadable label hides no run. */
export async function loadLabel(runDirectory: string): Promise<Label | null> {
  const path = labelFile(runDirectory);
  if (lstat(path) === null) return null;
  try {
    const label = await load(path, "labelSchema");
    return label === null ? null : labelOf(label);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}

/** Only in turn with other changes of labels. */
export function saveLabel(runDirectory: string, label: Label, redact: Redact = LOOKS_SECRET): void {
  requireDirectory(runDirectory);
  const { name } = label;
  const hidden = name === null ? null : redact(name);
  writeAtomic(
    labelFile(runDirectory),
    `${JSON.stringify(storable({ v: 1, ...label, name: hidden }, redact), null, 2)}\n`,
  );
}

export interface RunDirs {
  /** Run ids, oldest first. */
  readonly runIds: readonly string[];
  /** Other entries of the runs root, which are never followed. */
  readonly odd: readonly { readonly path: string; readonly why: string }[];
}

export function listRunDirs(state: StateDir): RunDirs {
  const runIds: string[] = [];
  const odd: { path: string; why: string }[] = [];
  for (const name of namesIn(state.runsRoot)) {
    const path = join(state.runsRoot, name);
    const stats = lstat(path);
    if (stats === null || /^\.(?:tmp-|trash-|generation\.)/.test(name)) continue;
    if (stats.isSymbolicLink()) odd.push({ path, why: "it is a symbolic link" });
    else if (!stats.isDirectory() || !isRunId(name)) odd.push({ path, why: "it is not a run directory" });
    else if (!isOurs(stats)) odd.push({ path, why: "it belongs to another user" });
    else runIds.push(name);
  }
  return { runIds, odd };
}

interface RemovalOptions {
  /** The parent directory of the run directory, if not the runs root. */
  readonly root?: string;
  /** Called when no other process finds the directory by its path any more. If it throws, the directory goes back. */
  readonly last?: (moved: string) => Promise<void>;
}

/** Disappears at once for other processes, then is deleted. Removes links without following them; refuses mounts. */
export async function removeRunDir(
  state: StateDir,
  runId: string,
  { root = state.runsRoot, last = async () => {} }: RemovalOptions = {},
): Promise<void> {
  const directory = join(root, runId);
  if (!isRunId(runId)) throw outside(directory, state);
  const stats = lstat(directory);
  if (stats === null) return;
  if (stats.isSymbolicLink() || realpathSync(directory) !== join(realpathSync(root), runId)) {
    throw outside(directory, state);
  }
  assertNoMounts(directory, `${directory} was not removed`);
  const trash = temporaryPath(state.runsRoot).replace(".tmp-", ".trash-");
  try {
    renameSync(directory, trash);
  } catch (error) {
    throw storageFault(error, "remove", directory);
  }
  try {
    await last(trash);
  } catch (error) {
    renameSync(trash, directory);
    syncDirectory(root);
    throw error;
  }
  try {
    syncDirectory(state.runsRoot);
    await rm(trash, { recursive: true, force: true });
  } catch (error) {
    throw leftOver(error, trash, `${directory},`);
  }
}

/** Null: that attempt has a directory already. */
export function createAttemptDir(runDirectory: string, n: number): string | null {
  requireDirectory(runDirectory);
  makeDirectory(join(runDirectory, "attempts"));
  const directory = attemptDir(runDirectory, n);
  return makeDirectory(directory) ? directory : null;
}

/**
 * Like `createAttemptDir` for an attempt that begins: its directory is empty. Existing files belong to no known
 * attempt; they are neither replaced nor appended to, but kept beside it under another name.
 */
export function beginAttemptDir(runDirectory: string, n: number): void {
  if (createAttemptDir(runDirectory, n) !== null) return;
  const directory = attemptDir(runDirectory, n);
  if (namesIn(directory).length === 0) return;
  try {
    renameSync(directory, `${directory}.found-${randomBytes(4).toString("hex")}`);
  } catch (error) {
    throw storageFault(error, "move", directory);
  }
  createAttemptDir(runDirectory, n);
}

/**
 * The directory of an attempt, existing or not. Reprise never reads or writes behind a link, or where others may write.
 */
export function attemptDir(runDirectory: string, n: number): string {
  const all = join(runDirectory, "attempts");
  const directory = join(all, String(n));
  if (checkOwnDirectory(all)) checkOwnDirectory(directory);
  return directory;
}

/** Numbers of the attempts with a directory, ascending. */
export function listAttemptDirs(runDirectory: string): number[] {
  const all = join(runDirectory, "attempts");
  return (checkOwnDirectory(all) ? namesIn(all) : [])
    .filter((name) => /^[1-9]\d{0,8}$/.test(name))
    .map(Number)
    .toSorted((one, other) => one - other);
}

/** Locked by the attempt's agent as long as it lives, if it keeps inherited descriptors. */
export function agentLock({ runDirectory }: Pick<RunRecord, "runDirectory">, n: number): string {
  return join(attemptDir(runDirectory, n), "agent.lock");
}

/**
 * Whether an agent is working whose owner had this boot id. The lock file disappears when its agent ends in order, so few files
 * need a check.
 */
export function hasAgentOf(boot: string, state: StateDir, isLocked: (path: string) => boolean): boolean {
  return listRunDirs(state).runIds.some((runId) => {
    const runDirectory = join(state.runsRoot, runId);
    try {
      return listAttemptDirs(runDirectory)
        .slice(-2)
        .filter((n) => lstat(agentLock({ runDirectory }, n)) !== null)
        .filter((n) => bootIn(join(attemptDir(runDirectory, n), "meta.json")) === boot)
        .some((n) => isLocked(agentLock({ runDirectory }, n)));
    } catch (error) {
      // An unreadable file says nothing about any boot.
      if (!(error instanceof Fault)) throw error;
      return false;
    }
  });
}

const bootIn = (path: string) => stringIn(objectIn(readRecord(path), "owner"), "boot");

export function saveAttemptFile(
  runDirectory: string,
  attempt: AttemptRecord,
  redact: Redact = LOOKS_SECRET,
): void {
  save(join(attemptDir(runDirectory, attempt.n), "meta.json"), attempt, redact);
}

/** Null: the attempt has no `meta.json`. */
export async function loadAttemptFile(runDirectory: string, n: number): Promise<AttemptRecord | null> {
  const path = join(attemptDir(runDirectory, n), "meta.json");
  const attempt = await load(path, "attemptSchema");
  if (attempt !== null && attempt.n !== n) throw damaged(path, `it is the record of attempt ${attempt.n}`);
  return attempt;
}

export function saveReceipt(runDirectory: string, receipt: Receipt, redact: Redact = LOOKS_SECRET): void {
  save(join(attemptDir(runDirectory, receipt.attempt), "receipt.json"), receipt, redact);
}

/** Null: the attempt was not a resume, or ended before there was anything to prove. */
export async function loadReceipt(runDirectory: string, n: number): Promise<Receipt | null> {
  return await load(join(attemptDir(runDirectory, n), "receipt.json"), "receiptSchema");
}

/** The caller has checked the attempt's directory. Written while the agent works, so it blocks nothing. */
export async function saveStart(attemptDirectory: string, start: StartRecord): Promise<void> {
  await writeAtomicAsync(join(attemptDirectory, "start.json"), `${JSON.stringify(start)}\n`);
}

/** Null: Reprise took no snapshot, or has not finished it. */
export async function loadStart(attemptDirectory: string): Promise<StartRecord | null> {
  return await load(join(attemptDirectory, "start.json"), "startSchema");
}

export function saveAgentFile(runDirectory: string, agent: AgentRecord, redact: Redact = LOOKS_SECRET): void {
  requireDirectory(runDirectory);
  save(join(runDirectory, "agent.json"), storableAgent(agent, redact), redact);
}

/**
 * In the stored form. Leaves out environment variables with secrets: an attempt takes those from its own environment.
 */
export function storableAgent(agent: AgentRecord, redact: Redact = LOOKS_SECRET): AgentRecord {
  const env = agent.definition.env.filter(([name, value]) => !isSecretName(name) && redact(value) === value);
  const vars = Object.fromEntries(
    Object.entries(agent.vars).map(([name, value]) => [
      name,
      isSecretName(name) ? "[redacted]" : redact(value),
    ]),
  );
  return storable({ ...agent, definition: { ...agent.definition, env }, vars }, redact);
}

/** Null: the run is not supervised. */
export async function readAgentFile(runDirectory: string): Promise<AgentRecord | null> {
  requireDirectory(runDirectory);
  const path = join(runDirectory, "agent.json");
  const agent = await load(path, "agentSchema");
  if (agent === null) return null;
  if (agent.runId !== basename(runDirectory) || !agent.runId.endsWith(`-${agent.id}`)) {
    throw damaged(path, `it is the record of ${agent.id} in ${agent.runId}`);
  }
  return agent;
}

/** Text of people, engines and agents. Everything else is structure: a redacted path or id would be wrong. */
const FREE_TEXT = new Set([
  "message",
  "model",
  "args",
  "given",
  "native",
  "reason",
  "diagnostics",
  "kept",
  "dropped",
  "rewritten",
  "prompt",
  "run",
  "lastWords",
  "title",
  "tags",
]);

/** The record in its stored form, in the index and in its file. */
export function storable<T>(record: T, redact: Redact = LOOKS_SECRET): T {
  return withoutSecrets(record, redact) as T;
}

function withoutSecrets(value: unknown, redact: Redact): unknown {
  if (Array.isArray(value)) return value.map((one) => withoutSecrets(one, redact));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]: [string, unknown]) => [
      key,
      FREE_TEXT.has(key) ? redactValue(one, redact) : withoutSecrets(one, redact),
    ]),
  );
}

type Stored = RunRecord | AttemptRecord | Receipt | AgentRecord;

function save(path: string, record: Stored, redact: Redact): void {
  writeAtomic(path, `${JSON.stringify(storable(record, redact), null, 2)}\n`);
}

/** The value itself, not the schema's result, so that fields of later versions survive. */
async function load<Name extends keyof typeof Schemas>(
  path: string,
  schema: Name,
): Promise<RecordOf<(typeof Schemas)[Name]> | null> {
  const value = readRecord(path, MAX_RECORD_BYTES);
  if (value === null) return null;
  if (typeof value["v"] === "number" && value["v"] > 1) throw newer(path, `it has version ${value["v"]}`);
  const schemas = await import("../core/schemas.ts");
  const checked = schemas[schema].safeParse(value);
  if (checked.success) return value as RecordOf<(typeof Schemas)[Name]>;
  const { issues } = checked.error;
  const [issue] = issues;
  // Later versions add words; damage seldom turns one word into another.
  const words = issues.map(({ code, path: at }) => (code === "invalid_value" ? wordAt(value, at) : null));
  if (issue !== undefined && words.every((word) => word !== null))
    throw newer(
      path,
      `${issue.path.join(".")} is ${JSON.stringify(words[0])}, which this version does not know`,
    );
  throw damaged(path, `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "wrong shape"}`);
}

/** Null: no word is there. */
function wordAt(value: unknown, path: readonly PropertyKey[]): string | null {
  let at = value;
  for (const key of path) at = typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined;
  return typeof at === "string" && /^\w[\w-]{0,63}$/.test(at) ? at : null;
}

function newer(path: string, because: string): Fault {
  const why = `it needs a newer Reprise: ${because}`;
  return new Fault("schema_newer", `${path} was not changed: ${why}. Update Reprise to use this run.`, {
    facts: { path, why },
  });
}

function requireDirectory(runDirectory: string): void {
  if (!checkOwnDirectory(runDirectory)) throw missing(runDirectory);
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory).toSorted();
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return [];
    throw storageFault(error, "read", directory);
  }
}

function missing(path: string): Fault {
  const handle = basename(path).slice(-8);
  const next = isRunId(basename(path))
    ? ` Put it back, or remove the rest of the run: reprise rm ${handle}`
    : "";
  return new Fault("run_dir_missing", `The run directory ${path} is gone.${next}`, { facts: { path } });
}

function outside(path: string, state: StateDir): Fault {
  return new Fault("outside_root", `${path} is not a directory right below ${state.runsRoot}.`, {
    facts: { path, runsRoot: state.runsRoot },
  });
}
