/** Whether an issue's last conversation can continue: reads the metadata, the run and the engine's own store. */
import { isDeepStrictEqual } from "node:util";
import { movedWords } from "../state/identity.ts";
import { isDirectory } from "../state/places.ts";
import { loadReceipt } from "../state/runs.ts";
import { Fault, type FaultCode, FAULTS } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Deps, RESUME_DEFAULTS } from "../run/run.ts";
import { dryRun, isUndecided, refusedStart } from "../run/inspect.ts";
import { heldInRun } from "../run/engine-access.ts";
import { selectRun } from "../run/select.ts";
import type { Past } from "./decide.ts";
import { ourBranches } from "./git/branch.ts";
import { type BatchRecord, type IssueRecord, type LeftIssue, NO_GATE } from "./metadata.ts";
import { newsIn } from "./prompt.ts";
import { type PriorEntry, batchHistory } from "./prior.ts";
import type { Issue } from "./sources/source.ts";

export interface KnownPast extends Past {
  /** The record of an earlier batch. Null: none. */
  readonly entry: PriorEntry | null;
  /** The last turn about the issue was completed. */
  readonly turnCompleted: boolean;
  /** Number of attempts of its run, including those that a person began. */
  readonly attempts: number;
  /** Native options for its run, in addition to its own. */
  readonly over: readonly string[];
  /** The engine refused the run's command line, so the run begins with the options of a new run. */
  readonly unbegun?: true;
  /** The option that decides its run's access. Null: the engine's default, or no run. */
  readonly held: string | null;
}

const NO_PAST: KnownPast = {
  session: null,
  state: "none",
  why: "it has no earlier session",
  handle: null,
  isolate: "none",
  next: "agent",
  checked: false,
  entry: null,
  turnCompleted: false,
  attempts: 0,
  over: [],
  held: null,
};

/** The conversation is gone for good. Every other fault may pass. */
const STALE: readonly FaultCode[] = [
  "session_lost",
  "session_unknown",
  "session_damaged",
  "handle_unknown",
  "handle_invalid",
  "run_dir_missing",
  "cwd_missing",
];

/** The options of the next turn. */
export interface PastRequest {
  readonly engine: string;
  /** The user named the engine, and may want a different one than before. */
  readonly engineGiven: boolean;
  readonly fresh: boolean;
  /** Native options for conversations that began in an earlier batch, within I12. */
  readonly over: readonly string[];
  /** The limits of the resumed batch. */
  readonly bound: readonly string[];
  /** For a new run. */
  readonly access: { readonly options: readonly string[] };
  readonly native: readonly string[];
}

/**
 * An open issue continues if it was completed or left before. If it was in progress, a person set it back to open, so it
 * starts over.
 */
export async function pastOf(
  deps: Deps,
  root: string,
  issue: Issue,
  request: PastRequest,
): Promise<KnownPast> {
  const own = issue.status === "in_progress" ? null : newestRun(deps, root, issue.id, request.engine);
  if (issue.status === "in_progress" || own?.status === "completed" || own?.status === "left")
    return pastInProgress(deps, root, issue, request);
  const any = newestRun(deps, root, issue.id, null);
  const run = await runOf(deps, any?.handle ?? null);
  if (any === null || run === null || run.attempts === 0) return NO_PAST;
  return { ...NO_PAST, earlier: earlierRunText(any, request.engine) };
}

function newestRun(deps: Deps, root: string, issueId: string, engine: string | null): PriorEntry | null {
  for (const entry of batchHistory(deps, root).entries(issueId, engine))
    if (entry.handle !== null) return entry;
  return null;
}

/** The run that holds unfinished work on an issue. Null: none. */
export async function keptRun(deps: Deps, root: string, issueId: string): Promise<PriorEntry | null> {
  const entry = newestRun(deps, root, issueId, null);
  if (entry === null || entry.status === "completed") return null;
  return (await runOf(deps, entry.handle)) === null ? null : entry;
}

function earlierRunText(entry: PriorEntry, engine: string): string {
  const other = entry.engine === engine ? null : harmlessLine(entry.engine, 60);
  const where = entry.branch === null ? "" : ` on branch ${harmlessLine(entry.branch, 200)}`;
  const flag = other === null ? "" : ` --engine ${other}`;
  const again = entry.status === "completed" || entry.status === "left";
  const how = again ? `use${flag}` : `set it to in_progress and use --resume${flag}`;
  return `it is open; its earlier run ${entry.handle ?? ""}${other === null ? "" : ` of ${other}`}${where} is kept (to continue it, ${how})`;
}

async function pastInProgress(
  deps: Deps,
  root: string,
  issue: Issue,
  request: PastRequest,
): Promise<KnownPast> {
  let newest: KnownPast | null = null;
  for (const entry of batchHistory(deps, root).entries(issue.id, request.engine)) {
    if (entry.handle === null && entry.session_id === null) continue;
    const found = await pastOfEntry(deps, entry, issue, request);
    newest ??= found;
    // A turn was completed there, so an older conversation is not the newest one (I3).
    if (found.session !== null || found.turnCompleted) return found;
  }
  if (newest !== null) return newest;
  const other = otherEngine(deps, root, issue, request.engine);
  if (other === null) return { ...NO_PAST, ...(await branchWithoutRecord(deps, root, issue)) };
  const why = `it has no earlier session of ${request.engine}: its session is one of ${other}, and --engine ${other} continues it`;
  if (request.engineGiven) return { ...NO_PAST, why };
  return { ...NO_PAST, state: "trouble", why, with: ["--engine", other] };
}

/** Records belong to the repository's path, so a branch without one may be older than a move of the repository. */
async function branchWithoutRecord(deps: Deps, root: string, { id }: Issue): Promise<{ why?: string }> {
  const branches = [...(await ourBranches(deps, root))].filter((name) => name.startsWith(`reprise/${id}-`));
  if (branches.length === 0) return {};
  const named = harmlessLine(branches.join(", "), 300);
  const why = `it has no earlier session for ${root}, but there is a branch ${named} of this issue; if the repository was moved, move it back to continue the conversation`;
  return { why };
}

/** Another engine that has a conversation about the issue. Null: none. */
function otherEngine(deps: Deps, root: string, issue: Issue, engine: string): string | null {
  for (const entry of batchHistory(deps, root).entries(issue.id, null)) {
    if (entry.engine !== engine && entry.session_id !== null) return harmlessLine(entry.engine, 60);
  }
  return null;
}

async function pastOfEntry(
  deps: Deps,
  entry: PriorEntry,
  issue: Issue,
  request: PastRequest,
): Promise<KnownPast> {
  const run = await runOf(deps, entry.handle);
  const ended = {
    ...(entry.status === "completed" ? { reopened: true as const } : {}),
    ...(entry.status === "left" ? { left: true as const } : {}),
  };
  if (run === null) {
    const isMade = entry.attempts > 0 || entry.session_id !== null;
    const gone = isMade ? `its run ${entry.handle ?? ""} is gone` : "its agent never started";
    return { ...NO_PAST, session: entry.session_id, state: "stale", why: gone, entry, ...ended };
  }
  // Before the first attempt, its directory may be incomplete.
  const handle = run.attempts > 0 && isDirectory(run.cwd) ? run.handle : null;
  const session = run.session.value ?? entry.session_id;
  const isolate = run.launch.isolate === "worktree" ? "worktree" : "none";
  const turnCompleted = await turnIsDone(deps, entry, run);
  const next = nextOf(entry, turnCompleted, issue);
  const { over, fault } = await withinRights(deps, run, request);
  const held = fault === null ? heldInRun(deps, run, over) : null;
  const checked = entry.gate?.passed === true && entry.gate.detail !== NO_GATE;
  const { attempts } = run;
  const isUnproven = turnCompleted && (await isUnverified(run, entry.attempts));
  const unverified = isUnproven ? { unverified: true as const } : {};
  const facts = { session, handle, isolate, next, checked, turnCompleted, attempts, ...unverified } as const;
  const known = { ...facts, entry, over, held, ...ended } as const;
  // A requested new conversation needs no earlier one.
  const asked = request.fresh ? await faultOf(deps, run, "resume", []) : fault;
  const refused = asked?.facts["refused"];
  if (handle !== null && typeof refused === "string")
    return await pastOfRefusedRun(deps, run, request, { ...known, session: null, over: [], why: refused });
  if (fault === null) return { ...known, state: "alive", why: "" };
  const why = secretOptionText(run) ?? movedAway(run, fault) ?? fault.message.replace(/\.$/, "");
  const passing = isTemporary(fault) ? { with: [] } : {};
  if (fault.code === "would_widen" && over.length > 0 && (await faultOf(deps, run, "resume", [])) === null)
    return {
      ...known,
      state: "trouble",
      why: `${NEW_RUN.reduce(withoutEnd, why)}. ${LEAVE_OUT}`,
      with: ["--engine", request.engine],
    };
  if (!STALE.includes(fault.code)) return { ...known, state: "trouble", why, ...passing };
  if (isUndecided(fault)) return { ...known, state: "damaged", why };
  // A new conversation in the same run also has the run's options.
  const other = handle === null ? null : await faultOf(deps, run, "fresh", over);
  if (other !== null && !STALE.includes(other.code))
    return { ...known, state: "trouble", why: other.message.replace(/\.$/, "") };
  const anew = handle === null || other !== null ? null : heldInRun(deps, run, over);
  return { ...known, held: anew, state: session === null ? "none" : "stale", why };
}

/** Endings of faults about one run: an issue may get another run. */
const NEW_RUN = [". Start a new run instead", "; start a new run instead"];
const withoutEnd = (text: string, end: string) => (text.endsWith(end) ? text.slice(0, -end.length) : text);
const LEAVE_OUT =
  "To continue its run, omit options that add rights; to restart it with more, set its status to open";

/** For a run whose command line the engine refused: it has no conversation to continue. */
async function pastOfRefusedRun(
  deps: Deps,
  run: RunRecord,
  request: PastRequest,
  known: Omit<KnownPast, "state">,
): Promise<KnownPast> {
  const { why } = known;
  const anew = [...request.access.options, ...request.native];
  const fault = await faultWith(deps, run, { want: "fresh", native: [], anew });
  if (fault === null) return { ...known, state: "none", unbegun: true };
  const more = NEW_RUN.reduce(withoutEnd, fault.message.replace(/\.$/, ""));
  return { ...known, state: "trouble", why: `${why}. ${more}. To restart it, set its status to open` };
}

/** The same command may work later, or after the user fixed something outside the run. */
function isTemporary({ code }: Fault): boolean {
  return FAULTS[code].retryable || ["engine_home_missing", "engine_missing", "state_moved"].includes(code);
}

/** Null: the state directory was not moved. */
function movedAway({ handle }: RunRecord, { code, facts }: Fault): string | null {
  if (code !== "state_moved") return null;
  const { original, path, back } = facts;
  const where = movedWords({ from: String(original), to: String(path) });
  return `its run ${handle} works ${where}. Rename it back first (\`${String(back)}\`)`;
}

/** Null: its options had no secret. Batches refuse secrets; other starts do not. */
function secretOptionText({ handle, launch }: RunRecord): string | null {
  const [option] = launch.redacted;
  if (option === undefined) return null;
  return `run ${handle} was started with a secret in ${option}, which Reprise does not store, so it cannot be resumed. To restart the issue, set its status to open`;
}

/** Options for its run in this batch. Ignores limits wider than the run's own rights. */
async function withinRights(
  deps: Deps,
  run: RunRecord,
  request: PastRequest,
): Promise<{ readonly over: readonly string[]; readonly fault: Fault | null }> {
  const want = request.fresh ? "fresh" : "resume";
  const over = endsWith(run.launch.given, request.over) ? [] : request.over;
  const bound = endsWith(run.launch.given, request.bound) ? [] : request.bound;
  if (bound.length > 0) {
    const fault = await faultOf(deps, run, want, [...bound, ...over]);
    if (fault?.code !== "would_widen") return { over: [...bound, ...over], fault };
  }
  return { over, fault: await faultOf(deps, run, want, over) };
}

/** The run's own options end with these. */
function endsWith(given: readonly string[], words: readonly string[]): boolean {
  return words.length > 0 && isDeepStrictEqual(given.slice(-words.length), words);
}

/** Null: the turn could begin now. */
function faultOf(
  deps: Deps,
  run: RunRecord,
  want: "resume" | "fresh",
  native: readonly string[],
): Promise<Fault | null> {
  return faultWith(deps, run, { want, native });
}

async function faultWith(
  deps: Deps,
  run: RunRecord,
  asked: {
    readonly want: "resume" | "fresh";
    readonly native: readonly string[];
    readonly anew?: readonly string[];
  },
): Promise<Fault | null> {
  try {
    await dryRun(deps, run, {
      ...RESUME_DEFAULTS,
      ...asked,
      message: "",
      trustCwd: run.launch.trustCwd,
    });
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error;
  }
}

/** After a crash of Reprise, a completed turn is not repeated unless the issue has changed. */
function nextOf(entry: PriorEntry, turnCompleted: boolean, issue: Issue): Past["next"] {
  if (["completed", "no_change", "left"].includes(entry.status)) return "agent";
  if (newsIn(issue, entry.sent) !== null) return "agent";
  // A new turn clears the gate's result, so a stored result is about the present work.
  if (entry.gate?.passed === true) return "close";
  // The agent gets the findings.
  if (entry.status === "failed" && entry.findings.length > 0) return "agent";
  return turnCompleted && entry.gate === null ? "gate" : "agent";
}

/** A turn that a person took in the same conversation does not count. */
async function turnIsDone(deps: Deps, entry: PriorEntry, run: RunRecord): Promise<boolean> {
  if (run.status !== "completed" || entry.attempts === 0) return false;
  const own = (await deps.store.listAttempts(run.runId)).find(({ n }) => n === entry.attempts);
  return own?.outcome?.result === "completed";
}

async function isUnverified({ runDirectory }: RunRecord, attempt: number): Promise<boolean> {
  const receipt = await loadReceipt(runDirectory, attempt).catch(() => null);
  return receipt?.verified === "not_verified";
}

async function runOf(deps: Deps, handle: string | null): Promise<RunRecord | null> {
  if (handle === null) return null;
  try {
    return await selectRun(deps, handle);
  } catch (error) {
    if (error instanceof Fault && STALE.includes(error.code)) return null;
    throw error;
  }
}

/** Issues whose sessions are damaged: a person must decide before a batch can continue them. */
export async function damagedSessions(
  deps: Deps,
  { issues, leaves = [] }: Pick<BatchRecord, "issues" | "leaves">,
  only?: string,
): Promise<readonly LeftIssue[]> {
  const all = Object.entries(issues).map(([name, record]) => ({ id: name, ...record }));
  const begun = all.filter(({ status }) => !["completed", "left"].includes(status));
  const found: LeftIssue[] = [];
  for (const { id, handle, branch } of [...leaves, ...begun]) {
    const run = only === undefined || only === id ? await runOf(deps, handle) : null;
    const fault = run === null ? null : await faultOf(deps, run, "resume", []);
    if (fault === null || !isUndecided(fault)) continue;
    found.push({ id, why: fault.message.replace(/\.$/, ""), handle, branch, go_on: null });
  }
  return found;
}

/** A record as shown: without a run that never started, and without a session that never began. */
export async function shownRecord<T extends IssueRecord>(deps: Pick<Deps, "store">, record: T): Promise<T> {
  const { handle, attempts, session_id: session } = record;
  if (handle === null) return record;
  const [run] = await deps.store.findByHandle(handle);
  if (run === undefined) return attempts === 0 ? { ...record, handle: null, session_id: null } : record;
  if (session === null || run.status !== "failed") return record;
  const refused = refusedStart(run, await deps.store.listAttempts(run.runId));
  return refused === null ? record : { ...record, session_id: null };
}
