/**
 * The checks of `doctor`: engines, state directory, index and leftovers, and findings that name what to do.
 * Changes nothing, except that it removes unfinished files of crashed processes.
 */
import { copiedFrom, type MovedState, movedState, movedWords, stateOrigin } from "../state/identity.ts";
import { fileSize, readSmallText } from "../state/places.ts";
import { type TrashSize, trashSize } from "../state/trash.ts";
import { stateFacts, stuckTrash, sweepTemp } from "../state/upkeep.ts";
import type { Env } from "../core/deps.ts";
import { Fault, ifFault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Engine, LoginState } from "../engines/engine.ts";
import { plural } from "../lib/plural.ts";
import { shellWord } from "../lib/shell.ts";
import { checkRuns, type Finding, REBUILD } from "./index/check-runs.ts";
import { type Deps, isoNow } from "./deps.ts";
import { allEngines, environmentOf, findProgram, versionOf } from "./engine-setup.ts";
import { isDead } from "./leases.ts";
import { offerFor } from "./resume/resumable.ts";
import { listRuns } from "./select.ts";
import { findLeft } from "./stop.ts";

export interface Health {
  readonly at: string;
  readonly engines: readonly EngineHealth[];
  readonly state: {
    readonly path: string;
    readonly mode: string;
    readonly writable: boolean;
    readonly freeBytes: number | null;
    readonly trash: TrashSize;
  };
  readonly index: {
    readonly backend: string;
    readonly version: string;
    readonly schema: number;
    readonly path: string | null;
    readonly journal: string | null;
    readonly runs: number;
    readonly damaged: number;
  };
  /** Absolute paths. Null: not installed. */
  readonly tools: {
    readonly git: string | null;
    readonly tmux: string | null;
    readonly setpriv: string | null;
  };
  readonly findings: readonly Finding[];
}

export interface EngineHealth {
  readonly id: string;
  readonly title: string;
  /** Null: not installed. */
  readonly program: string | null;
  readonly version: string | null;
  readonly tested: readonly [oldest: string, newest: string] | null;
  readonly fit: Fit;
  readonly home: string | null;
  readonly legacy: string | null;
  readonly login: LoginState;
  /** The newest run that completed. Null: no run of the index. */
  readonly lastCompleted: { readonly handle: string; readonly at: string } | null;
}

/** unknown: the version is unknown, or no tested version is recorded for this engine. */
export type Fit = "tested" | "newer" | "older" | "unknown";

const LITTLE_SPACE = 512 * 1024 * 1024;
/** How many of the newest runs are checked for leftover processes. */
const STRAY_RUNS = 20;

export async function checkHealth(deps: Deps, onProgress: (text: string) => void): Promise<Health> {
  const findings: Finding[] = (deps.config.unread ?? []).map((problem) =>
    attention("config", problem, "correct the file; until then no agent is started with it"),
  );
  onProgress("asking the engines for their versions");
  const found = await Promise.all(allEngines(deps).map((engine) => engineHealth(deps, engine)));
  const rows = await listRuns(deps, { limit: Number.POSITIVE_INFINITY });
  const engines = found.map((engine) => ({ ...engine, lastCompleted: lastCompleted(rows, engine.id) }));
  findings.push(...engines.flatMap(engineFindings));
  if (engines.every(({ id, program }) => program === null || id === "demo")) {
    findings.push(note("engines", "no engine is installed yet", "reprise demo"));
  }
  const { readOnly, ...facts } = stateFacts(deps.state);
  const trash = trashSize(deps.state);
  const state = { path: deps.state.root, writable: deps.state.writable, ...facts, trash };
  findings.push(...stateFindings(state, readOnly), ...copyFindings(deps));
  if (deps.repaired !== undefined) findings.push(note("index", deps.repaired, null));
  onProgress("reading the index");
  findings.push(...undefinedEngines(deps, rows), ...(await movedFindings(deps, rows)));
  const index = await indexHealth(deps, rows, findings);
  onProgress("reading the run directories");
  const offer = (run: RunRecord) => todoFor(deps, run);
  findings.push(...(await checkRuns({ ...deps, offer }, rows, onProgress)));
  onProgress("looking for leftover processes and files");
  await leftovers(deps, findings);
  const find = (name: string) => deps.processes.resolveProgram(name, deps.env);
  const tools = { git: find("git"), tmux: find("tmux"), setpriv: find("setpriv") };
  findings.push(...toolFindings(tools));
  if ((await deps.processes.opensTerminals?.()) === false) findings.push(NO_TERMINALS);
  const shown = readOnly ? findings.map(withoutChange) : findings;
  return { at: isoNow(deps), engines, state, index, tools, findings: shown };
}

/** A project's own file may define the engine of runs in its directory, so this is only a note. */
function undefinedEngines(deps: Deps, rows: readonly RunRecord[]): readonly Finding[] {
  const known = new Set(allEngines(deps).map(({ id }) => id));
  const others = rows.filter(({ agentName }) => !known.has(agentName));
  return [...new Set(others.map(({ agentName }) => agentName))].map((engine) => {
    const handles = others.filter(({ agentName }) => agentName === engine).map(({ handle }) => handle);
    const more = handles.length > MOST_NAMED ? ` and ${handles.length - MOST_NAMED} more` : "";
    const what = `no config file that applies here defines engine ${engine}; without it these runs cannot be resumed: ${handles.slice(0, MOST_NAMED).join(", ")}${more}`;
    return note("engines", what, `put [engines.${engine}] back into your config file`);
  });
}

const MOST_NAMED = 10;

/** Offers no command that writes to a read-only file system. */
export function withoutChange(finding: Finding): Finding {
  return finding.todo !== null && CHANGES.test(finding.todo) ? { ...finding, todo: null } : finding;
}

const CHANGES = /^(?:reprise (?:rm|prune|resume|doctor --(?:rebuild-index|accept-copy))|mv|mkdir|chmod|rm)\b/;

/** The command that `show` offers. If it is unknown, `show` says why. */
async function todoFor(deps: Deps, run: RunRecord): Promise<string> {
  const offer = await offerFor(deps, run).catch(ifFault(null));
  return offer?.next ?? `reprise show ${run.handle}`;
}

function lastCompleted(rows: readonly RunRecord[], engine: string): EngineHealth["lastCompleted"] {
  let last: RunRecord | null = null;
  for (const run of rows)
    if (run.agentName === engine && run.status === "completed" && run.updatedAt > (last?.updatedAt ?? ""))
      last = run;
  return last === null ? null : { handle: last.handle, at: last.updatedAt };
}

async function engineHealth(deps: Deps, engine: Engine): Promise<Omit<EngineHealth, "lastCompleted">> {
  const { home, env } = environmentOf(deps, engine, []);
  const program = findProgram(deps, engine);
  // An unknown version does not stop the checks.
  const version = program === null ? null : await versionOf(deps, engine, program).catch(() => null);
  return {
    id: engine.id,
    title: engine.title,
    program: program?.[0] ?? null,
    version,
    tested: engine.tested,
    fit: fitOf(version, engine.tested),
    home,
    legacy: engine.legacy ?? null,
    login: loginOf(engine, home, env),
  };
}

/** An empty object is no login. */
const LEAST_LOGIN = 3;

function loginOf(engine: Engine, home: string | null, env: Env): LoginState {
  if (engine.login === undefined || home === null) return "unknown";
  return engine.login({
    ...{ home, env, hasKeyStore: process.platform === "darwin" },
    has: (path) => (fileSize(path) ?? 0) >= LEAST_LOGIN,
    settings: (path) => readSmallText(path),
  });
}

export function fitOf(version: string | null, tested: readonly [string, string] | null): Fit {
  const [at, oldest, newest] = [version, tested?.[0], tested?.[1]].map((text) => numbersIn(text ?? ""));
  if (at === undefined || oldest === undefined || newest === undefined) return "unknown";
  if (at.length === 0 || newest.length === 0) return "unknown";
  if (compare(at, oldest) < 0) return "older";
  return compare(at, newest) > 0 ? "newer" : "tested";
}

function numbersIn(version: string): readonly number[] {
  return (/\d+(?:\.\d+)*/.exec(version)?.[0] ?? "").split(".").filter(Boolean).map(Number);
}

function compare(one: readonly number[], other: readonly number[]): number {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function engineFindings(engine: EngineHealth): readonly Finding[] {
  if (engine.program === null) return [];
  const range = engine.tested === null ? "" : ` (tested: ${engine.tested.join(" to ")})`;
  if (engine.version === null) {
    return [
      attention(
        "engines",
        `${engine.title} is installed but does not report its version: ${engine.program}`,
        `${engine.program} --version`,
      ),
    ];
  }
  if (engine.fit === "newer" || engine.fit === "older") {
    return [
      note(
        "engines",
        `${engine.title} ${engine.version} is ${engine.fit} than what was tested${range}; it probably works`,
        `reprise doctor --certify ${engine.id}`,
      ),
    ];
  }
  // A missing login is in the engine's row: an engine that the user does not use needs no attention.
  return [];
}

/** On a read-only file system the directory cannot be changed. */
export function stateFindings(state: Omit<Health["state"], "trash">, readOnly: boolean): readonly Finding[] {
  const findings: Finding[] = [];
  const close = readOnly ? null : `chmod 700 '${state.path}'`;
  if (!state.writable) {
    const why = readOnly ? "is on a read-only file system" : "cannot be written to";
    const todo = state.mode.startsWith("7") ? null : close;
    findings.push(attention("state", `${state.path} ${why}; runs can be read but not started`, todo));
  }
  if ((Number.parseInt(state.mode, 8) & 0o077) !== 0)
    findings.push(attention("state", `${state.path} has mode ${state.mode}, others may look into it`, close));
  if (state.freeBytes !== null && state.freeBytes < LITTLE_SPACE) {
    findings.push(
      attention(
        "state",
        `only ${Math.floor(state.freeBytes / 1_048_576)} MiB are free at ${state.path}`,
        "reprise prune --older-than 30d",
      ),
    );
  }
  return findings;
}

function copyFindings({ state, machine }: Deps): readonly Finding[] {
  const origin = stateOrigin(state, machine);
  if (origin?.is !== "copy") return [];
  const what = `${state.root} ${copiedFrom(origin, state.root, machine)}; runs of the copy are not resumed, stopped or removed`;
  return [attention("state", what, "reprise doctor --accept-copy")];
}

/** Runs and pipelines that worked inside the state directory at an earlier path, by that path. */
async function movedFindings(deps: Deps, rows: readonly RunRecord[]): Promise<readonly Finding[]> {
  const { root } = deps.state;
  const pipelines = await deps.store.listDocuments("pipeline", {});
  const placed = [
    ...rows.map(({ handle, cwd }) => ({ name: `run ${handle}`, place: cwd })),
    ...pipelines.map(({ id, data }) => ({ name: `pipeline ${id}`, place: data["workspace"] })),
  ];
  const groups = new Map<string, { readonly moved: MovedState; readonly names: string[] }>();
  for (const { name, place } of placed) {
    const moved = typeof place === "string" ? movedState(root, place) : null;
    if (moved === null) continue;
    const group = groups.get(moved.from) ?? { moved, names: [] };
    group.names.push(name);
    groups.set(moved.from, group);
  }
  return [...groups.values()].map(({ moved, names }) => {
    const some =
      names.length <= 5 ? names.join(", ") : `${names.slice(0, 5).join(", ")} and ${names.length - 5} more`;
    const [places, all] = names.length === 1 ? ["directory", "is"] : ["directories", "are"];
    const what = `the working ${places} of ${some} ${all} ${movedWords(moved)}; conversations continue only at the earlier path`;
    return attention("state", what, `${moved.back} && export REPRISE_HOME=${shellWord(moved.from)}`);
  });
}

async function indexHealth(
  deps: Deps,
  rows: readonly RunRecord[],
  findings: Finding[],
): Promise<Health["index"]> {
  const about = await deps.store.about();
  const damage = await deps.store.verify();
  for (const { table, key, what } of damage.slice(0, 20))
    findings.push(attention("index", `${table} ${key}: ${what}`, REBUILD));
  if (damage.length > 20)
    findings.push(attention("index", `and ${damage.length - 20} more damaged rows`, REBUILD));
  if (about.note !== null) findings.push(note("index", about.note, null));
  const { note: _note, ...facts } = about;
  return { ...facts, runs: rows.length, damaged: damage.length };
}

async function leftovers(deps: Deps, findings: Finding[]): Promise<void> {
  const swept = deps.state.writable ? await sweepTemp(deps.state, deps.clock, isDead(deps)) : 0;
  if (swept > 0)
    findings.push(
      note(
        "state",
        `${plural(swept, "unfinished file")} of crashed processes ${swept === 1 ? "was" : "were"} removed`,
        null,
      ),
    );
  for (const path of await stuckTrash(deps.state, deps.clock, isDead(deps)))
    findings.push(
      attention(
        "state",
        `${path} is left of a run that was removed, and cannot be removed by this user`,
        `rm -rf ${shellWord(path)}`,
      ),
    );
  for (const run of await listRuns(deps, { limit: STRAY_RUNS })) {
    if (run.status === "running" || run.attempts === 0) continue;
    const left = await findLeft(deps, run).catch(damaged);
    if (left.length === 0) continue;
    const pids = left.join(", ");
    findings.push(
      attention(
        "runs",
        `run ${run.handle} has ended but left processes behind: pid ${pids}`,
        `reprise stop ${run.handle}`,
      ),
    );
  }
}

/** The check of the runs reports unreadable records. */
function damaged(error: unknown): readonly number[] {
  if (!(error instanceof Fault)) throw error;
  return [];
}

function toolFindings(tools: Health["tools"]): readonly Finding[] {
  const findings: Finding[] = [];
  if (tools.git === null)
    findings.push(note("tools", "git is not installed; --isolate worktree needs it", null));
  if (tools.setpriv === null && process.platform === "linux") {
    findings.push(
      note(
        "tools",
        "setpriv (util-linux) is not installed; if Reprise is killed, its agent is ended only by the next command",
        null,
      ),
    );
  }
  return findings;
}

const NO_TERMINALS = note(
  "tools",
  "terminals cannot be opened: the package @lydell/node-pty is missing or has no build for this system. UIs, attach and --mode pty need it; headless runs do not",
  "install Reprise again with its optional packages",
);

function attention(about: Finding["about"], what: string, todo: string | null): Finding {
  return { level: "attention", about, what, todo };
}

function note(about: Finding["about"], what: string, todo: string | null): Finding {
  return { level: "note", about, what, todo };
}
