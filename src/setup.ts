/**
 * Wires the outside world into `Deps`: state directory, index, config, clock, processes. No other file does.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync, statfsSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorldOptions } from "./cli/cli.ts";
import { configure } from "./config-files.ts";
import { mergeConfig } from "./core/config.ts";
import type { Env, Log, Processes } from "./core/deps.ts";
import { Fault } from "./core/faults.ts";
import { processesOf } from "./owners.ts";
import type { Deps } from "./run/run.ts";
import { openState, type StateDir, stateDirectory } from "./state/directory.ts";
import { indexGuards } from "./state/identity.ts";
import { listRunDirs } from "./state/runs.ts";
import { indexIdentity } from "./state/upkeep.ts";
import { openStore, type Store } from "./store/store.ts";

export { configure, trust } from "./config-files.ts";

export async function openDeps(options: WorldOptions): Promise<Deps> {
  const env = await asExported(process.env, options);
  assertPlace(env);
  if (env["REPRISE_CHECK_RECORDS"] === "1") (await import("./check-records.ts")).checkRecords();
  const found = await openState(stateDirectory(env), options.log);
  const known = await processesOf(found);
  const { state, store } = await openOrEnd(found, { ...options, processes: known });
  const deps: Deps = {
    state,
    store,
    config: mergeConfig({}, {}),
    clock: { now: () => Date.now(), mono: () => performance.now() },
    env,
    log: options.log,
    processes: known,
    machine: hostname(),
    demo: [process.execPath, fileURLToPath(new URL("demo-agent.js", import.meta.url))],
    batchHolds: async (runs) => {
      const issues = runs.filter(({ subject }) => subject?.startsWith("issue:") === true);
      if (issues.length === 0) return new Map();
      return (await import("./issues/live-batch.ts")).batchHolds({ state, processes: known }, issues);
    },
    attemptEnded: async (run, attempt) => {
      // Without a `search.db` nobody searches, and the first search makes it.
      if (!existsSync(join(state.root, "search.db"))) return;
      await (await import("./search/search.ts")).indexAttempt({ state }, run, attempt);
    },
    newHandle: () => randomBytes(4).toString("hex"),
    newSessionId: () => randomUUID(),
  };
  return configure(await inStep(deps), options);
}

/**
 * The run directories are the truth: an index with a lower count than the note beside it is an old copy, and is
 * repaired.
 */
async function inStep(deps: Deps): Promise<Deps> {
  const { state, log } = deps;
  if (!(await isBehind(deps))) return deps;
  try {
    if (state.refusal !== null) throw state.refusal;
    const repaired = await (await import("./run/index/catch-up.ts")).catchUp(deps);
    log.warn(repaired);
    return { ...deps, repaired };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    log.warn(`the index is older than the run directories and could not be repaired: ${error.message}`);
    return deps;
  }
}

async function isBehind({ state, store }: Deps): Promise<boolean> {
  if (state.generation > (await store.generation())) return true;
  // The stamp may be an old copy as well: a run directory that the index does not know reveals it.
  const unknown = state.runIds.length === 0 ? [] : await store.unknownRuns(state.runIds);
  return unknown.length > 0 && (await import("./run/index/unindexed.ts")).areRuns(state, unknown);
}

type IndexOptions = Pick<WorldOptions, "log" | "makesRoom" | "ends" | "ownerGone"> & {
  readonly processes: Processes;
};

/** A live run prevents the rebuild of a lost index. A command that stops this run ends the run first, then opens the index. */
async function openOrEnd(state: StateDir, options: IndexOptions): ReturnType<typeof openIndex> {
  try {
    return await openIndex(state, options);
  } catch (error) {
    const isGone = error instanceof Fault && error.code === "index_damaged" && state.writable;
    if (!isGone || options.ends === undefined) throw error;
    const { ends, log, processes: known } = options;
    const { endUnindexed, forsakeUnindexed } = await import("./run/index/unindexed.ts");
    const isOver =
      options.ownerGone === true
        ? await forsakeUnindexed(state, ends, known)
        : await endUnindexed(state, ends, log, known);
    if (!isOver) throw error;
    return openIndex(state, options);
  }
}

/**
 * On a disk without space or inodes, reading must still work: opens the index read-only. Commands that free space may
 * use the reserve.
 */
async function openIndex(state: StateDir, options: IndexOptions): Promise<{ state: StateDir; store: Store }> {
  const { log, processes: known } = options;
  try {
    return { state, store: await openOrRebuild(state, log, known) };
  } catch (error) {
    const refused = error instanceof Fault && ["storage_full", "storage_failed"].includes(error.code);
    if (!refused || !state.writable) throw error;
    if (options.makesRoom === true && state.releaseReserve())
      return openIndex(state, { log, processes: known });
    const refusal = fullness(state) ?? error;
    const reading = { ...state, writable: false, refusal };
    // A missing index cannot be read either, so the full disk is the error to report.
    const store = await openOrRebuild(reading, log, known).catch(() => {
      throw refusal;
    });
    log.warn(refusal.message);
    return { state: reading, store };
  }
}

/** SQLite has no error code for a disk without inodes. Null: there is room. */
function fullness({ root, indexPath }: StateDir): Fault | null {
  const { bavail, files, ffree } = statfsSync(root);
  const lacking = bavail === 0 ? "space" : files > 0 && ffree === 0 ? "inodes" : null;
  if (lacking === null) return null;
  return new Fault(
    "storage_full",
    `No room to write ${indexPath}: the disk has no ${lacking} left. Free some space and try again.`,
    { facts: { path: indexPath } },
  );
}

/** The index is disposable: a damaged one is set aside and rebuilt from the run directories, with a warning. */
async function openOrRebuild(state: StateDir, log: Log, known: Processes): Promise<Store> {
  const open = (path: string) =>
    openStore(path, {
      readOnly: state.refusal ?? false,
      runDirectory: (runId) => join(state.runsRoot, runId),
      ...(path === state.indexPath ? indexGuards({ state, machine: hostname() }) : {}),
      onDamage: (damage) =>
        log.warn(
          `the index has a damaged row: ${damage.table} ${damage.key}. \`reprise doctor --rebuild-index\` repairs it.`,
        ),
    });
  const renewed = async (what: (setAside: string | null) => string) => {
    const { runs, setAside } = await (
      await import("./run/index/rebuild.ts")
    ).rebuildIndex(state, open, log, known);
    log.warn(
      `${what(setAside)} rebuilt with ${runs} ${runs === 1 ? "run" : "runs"} from the run directories.`,
    );
    return open(state.indexPath);
  };
  // A new index would hide existing runs.
  if (state.writable && indexIdentity(state) === null && listRunDirs(state).runIds.length > 0)
    return renewed(() => "the index was gone; it was");
  try {
    return await open(state.indexPath);
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "index_damaged" || !state.writable) throw error;
    return renewed((aside) => `the index was damaged; it was set aside as ${aside ?? "nothing"} and`);
  }
}

/** Variables that locate Reprise's files. */
const PLACES: readonly string[] = ["HOME", "REPRISE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"];

/**
 * Node alters variables that are not UTF-8, so no agent gets them: commands that start agents refuse, others drop them.
 */
async function asExported(env: Env, options: WorldOptions): Promise<Env> {
  // Names that are not UTF-8 are not entries: Node does not find their values.
  const isSuspect = (name: string) => `${name}${env[name]}`.includes("\uFFFD");
  if (!Object.getOwnPropertyNames(env).some(isSuspect)) return env;
  const { alteredVariables } = await import("./process/raw.ts");
  const found = alteredVariables(env);
  const untold = found.filter(({ bad }) => bad === null).map(({ what }) => what);
  if (untold.length > 0)
    options.log.warn(
      `the character U+FFFD is in the environment: ${untold.join(", ")}. If you did not put it there, the bytes were not valid UTF-8.`,
    );
  // `PWD` is always the agent's directory.
  const names = found.flatMap(({ what, bad }) => (bad === null || what === "PWD" ? [] : [what])).toSorted();
  if (names.length === 0) return env;
  const [which, them] =
    names.length === 1
      ? [`variable ${names.join("")} is`, "it"]
      : [`variables ${names.join(", ")} are`, "them"];
  const fault = new Fault(
    "usage",
    `The environment ${which} not valid UTF-8, and Reprise could not pass ${them} on unchanged. ` +
      `Export UTF-8, or leave ${them} out: env ${names.map((name) => `-u ${shellName(name)}`).join(" ")} reprise …`,
    { facts: { variables: names } },
  );
  const needed = options.runsAgents === true || options.badConfig === "refuse";
  if (needed || names.some((name) => PLACES.includes(name))) throw fault;
  if (options.badConfig === "report") options.log.warn(fault.message);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !names.includes(name)));
}

/** A name with its bytes, for shells that know `$'…'`. */
function shellName(name: string): string {
  return name.includes("\\x") ? `$'${name}'` : name;
}

function assertPlace(env: Env): void {
  if (process.platform === "win32") {
    throw new Fault("platform_unsupported", "Reprise does not run on Windows itself. It runs in WSL.");
  }
  // Root's files in another user's home would lock that user out of their runs.
  const home = env["HOME"];
  const sudo = process.getuid?.() === 0 && env["SUDO_UID"] !== undefined && env["SUDO_UID"] !== "0";
  if (
    sudo &&
    env["REPRISE_HOME"] === undefined &&
    home !== undefined &&
    existsSync(home) &&
    statSync(home).uid !== 0
  ) {
    throw new Fault(
      "denied",
      `Reprise runs as root with the home of another user (${home}). Run it without sudo, or with sudo -H.`,
      { facts: { home } },
    );
  }
}
