/** What can be done with an issue's last conversation: asks the metadata, the run and, through it, the engine's own store. */
import { isDeepStrictEqual } from "node:util";
import { isDirectory, loadReceipt, movedWords } from "../state/state.ts";
import { Fault, type FaultCode, FAULTS } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Deps } from "../run/run.ts";
import { dryRun, isUndecided, refusedStart } from "../run/inspect.ts";
import { heldInRun } from "../run/engine-access.ts";
import { selectRun } from "../run/select.ts";
import type { Past } from "./decide.ts";
import { type BatchRecord, type IssueRecord, type Leave, NO_GATE } from "./metadata.ts";
import { ourBranches } from "./git.ts";
import { newsIn } from "./prompt.ts";
import { type PriorEntry, priorRuns } from "./prior.ts";
import { GONE, type Issue, type IssueSource } from "./source.ts";

export interface KnownPast extends Past {
  /** What was carried over from; null: nothing. */
  readonly entry: PriorEntry | null;
  /** The last turn about the issue came to its own end. */
  readonly spoken: boolean;
  /** How many its run has, whoever began them. */
  readonly attempts: number;
  /** Native options that its run gets besides its own. */
  readonly over: readonly string[];
  /** Its engine refused the command line of its run, so that the run begins with the options of a new one. */
  readonly unbegun?: true;
  /** The option that says what its run may do with these; null: the engine's own default, or there is no run. */
  readonly held: string | null;
}

const NO_PAST: KnownPast = {
  session: null,
  state: "none",
  why: "there is no prior session",
  handle: null,
  isolate: "none",
  next: "agent",
  checked: false,
  entry: null,
  spoken: false,
  attempts: 0,
  over: [],
  held: null,
};

/** The conversation is gone for good. Everything else may be different tomorrow. */
const STALE: readonly FaultCode[] = [
  "session_lost",
  "session_unknown",
  "session_damaged",
  "handle_unknown",
  "handle_invalid",
  "run_dir_missing",
  "cwd_missing",
];

/** What the next turn would be asked with. */
export interface PastRequest {
  readonly engine: string;
  /** A person has named the engine, and so may want another one than before. */
  readonly engineGiven: boolean;
  readonly fresh: boolean;
  /** Native options for conversations that began in an earlier batch, within I12. */
  readonly over: readonly string[];
  /** What the batch that goes on was held to. */
  readonly bound: readonly string[];
  /** What a run begins with. */
  readonly access: { readonly options: readonly string[] };
  readonly native: readonly string[];
}

/**
 * Of an issue that is open, what was completed or left goes on. Anything else was in progress, and a person who sets that
 * back to open begins it anew.
 */
export async function pastOf(deps: Deps, root: string, issue: Issue, wish: PastRequest): Promise<KnownPast> {
  const own = issue.status === "in_progress" ? null : newestRun(deps, root, issue.id, wish.engine);
  if (issue.status === "in_progress" || own?.status === "completed" || own?.status === "left")
    return pastInProgress(deps, root, issue, wish);
  const any = newestRun(deps, root, issue.id, null);
  const run = await runOf(deps, any?.handle ?? null);
  if (any === null || run === null || run.attempts === 0) return NO_PAST;
  return { ...NO_PAST, earlier: earlierWords(any, wish.engine) };
}

function newestRun(deps: Deps, root: string, issueId: string, engine: string | null): PriorEntry | null {
  for (const entry of priorRuns(deps, root).entries(issueId, engine)) if (entry.handle !== null) return entry;
  return null;
}

/** The run that holds unfinished work on an issue; null: there is none. */
async function keptRun(deps: Deps, root: string, issueId: string): Promise<PriorEntry | null> {
  const entry = newestRun(deps, root, issueId, null);
  if (entry === null || entry.status === "completed") return null;
  return (await runOf(deps, entry.handle)) === null ? null : entry;
}

function earlierWords(entry: PriorEntry, engine: string): string {
  const other = entry.engine === engine ? null : harmlessLine(entry.engine, 60);
  const where = entry.branch === null ? "" : ` on branch ${harmlessLine(entry.branch, 200)}`;
  const flag = other === null ? "" : ` --engine ${other}`;
  const again = entry.status === "completed" || entry.status === "left";
  const how = again ? `use${flag}` : `set it to in_progress and use --resume${flag}`;
  return `it is open; its earlier run ${entry.handle ?? ""}${other === null ? "" : ` of ${other}`}${where} is kept (to go on with that, ${how})`;
}

async function pastInProgress(deps: Deps, root: string, issue: Issue, wish: PastRequest): Promise<KnownPast> {
  let newest: KnownPast | null = null;
  for (const entry of priorRuns(deps, root).entries(issue.id, wish.engine)) {
    if (entry.handle === null && entry.session_id === null) continue;
    const found = await look(deps, entry, issue, wish);
    newest ??= found;
    // A turn was completed there, so an older conversation is not the newest one (I3).
    if (found.session !== null || found.spoken) return found;
  }
  if (newest !== null) return newest;
  const other = otherEngine(deps, root, issue, wish.engine);
  if (other === null) return { ...NO_PAST, ...(await branchWithoutRecord(deps, root, issue)) };
  const why = `there is no prior session of ${wish.engine}: its session is one of ${other}, and --engine ${other} goes on with it`;
  if (wish.engineGiven) return { ...NO_PAST, why };
  return { ...NO_PAST, state: "trouble", why, with: ["--engine", other] };
}

/** Records are kept by the repository's path: a branch without one may be from before the repository was moved. */
async function branchWithoutRecord(deps: Deps, root: string, { id }: Issue): Promise<{ why?: string }> {
  const branches = [...(await ourBranches(deps, root))].filter((name) => name.startsWith(`reprise/${id}-`));
  if (branches.length === 0) return {};
  const named = harmlessLine(branches.join(", "), 300);
  const why = `there is no prior session for ${root}, but there is a branch ${named} of this issue; if the repository was moved, move it back to continue the conversation`;
  return { why };
}

/** Whose conversation about the issue there is instead; null: nobody's. */
function otherEngine(deps: Deps, root: string, issue: Issue, engine: string): string | null {
  for (const entry of priorRuns(deps, root).entries(issue.id, null)) {
    if (entry.engine !== engine && entry.session_id !== null) return harmlessLine(entry.engine, 60);
  }
  return null;
}

async function look(deps: Deps, entry: PriorEntry, issue: Issue, wish: PastRequest): Promise<KnownPast> {
  const run = await runOf(deps, entry.handle);
  const ended = {
    ...(entry.status === "completed" ? { reopened: true as const } : {}),
    ...(entry.status === "left" ? { left: true as const } : {}),
  };
  if (run === null) {
    const isMade = entry.attempts > 0 || entry.session_id !== null;
    const gone = isMade ? `its run ${entry.handle ?? ""} is gone` : "its agent never began";
    return { ...NO_PAST, session: entry.session_id, state: "stale", why: gone, entry, ...ended };
  }
  // Before the first attempt its place may be half made.
  const handle = run.attempts > 0 && isDirectory(run.cwd) ? run.handle : null;
  const session = run.session.value ?? entry.session_id;
  const isolate = run.launch.isolate === "worktree" ? "worktree" : "none";
  const spoken = await turnIsDone(deps, entry, run);
  const next = nextOf(entry, spoken, issue);
  const { over, fault } = await withinRights(deps, run, wish);
  const held = fault === null ? heldInRun(deps, run, over) : null;
  const checked = entry.gate?.passed === true && entry.gate.detail !== NO_GATE;
  const { attempts } = run;
  const unverified = spoken && (await isUnverified(run, entry.attempts)) ? { unverified: true as const } : {};
  const facts = { session, handle, isolate, next, checked, spoken, attempts, ...unverified } as const;
  const known = { ...facts, entry, over, held, ...ended } as const;
  // A new conversation that was asked for needs none before it.
  const asked = wish.fresh ? await faultOf(deps, run, "resume", []) : fault;
  const refused = asked?.facts["refused"];
  if (handle !== null && typeof refused === "string")
    return await begins(deps, run, wish, { ...known, session: null, over: [], why: refused });
  if (fault === null) return { ...known, state: "alive", why: "" };
  const why = secretWords(run) ?? movedAway(run, fault) ?? fault.message.replace(/\.$/, "");
  const passing = passes(fault) ? { with: [] } : {};
  if (fault.code === "would_widen" && over.length > 0 && (await faultOf(deps, run, "resume", [])) === null)
    return {
      ...known,
      state: "trouble",
      why: `${NEW_RUN.reduce(cutOff, why)}. ${LEAVE_OUT}`,
      with: ["--engine", wish.engine],
    };
  if (!STALE.includes(fault.code)) return { ...known, state: "trouble", why, ...passing };
  if (isUndecided(fault)) return { ...known, state: "damaged", why };
  // A new conversation where the work is has the run's options too.
  const other = handle === null ? null : await faultOf(deps, run, "fresh", over);
  if (other !== null && !STALE.includes(other.code))
    return { ...known, state: "trouble", why: other.message.replace(/\.$/, "") };
  const anew = handle === null || other !== null ? null : heldInRun(deps, run, over);
  return { ...known, held: anew, state: session === null ? "none" : "stale", why };
}

/** How faults about one run end. An issue may have another run. */
const NEW_RUN = [". Start a new run instead", "; start a new run instead"];
const cutOff = (text: string, end: string) => (text.endsWith(end) ? text.slice(0, -end.length) : text);
const LEAVE_OUT =
  "To go on with its run, give no option that adds rights; to begin it anew with more, set its status to open";

/** Of a run whose engine refused its command line: no conversation goes on in it. */
async function begins(
  deps: Deps,
  run: RunRecord,
  wish: PastRequest,
  known: Omit<KnownPast, "state">,
): Promise<KnownPast> {
  const { why } = known;
  const anew = [...wish.access.options, ...wish.native];
  const fault = await faultWith(deps, run, { want: "fresh", native: [], anew });
  if (fault === null) return { ...known, state: "none", unbegun: true };
  const more = NEW_RUN.reduce(cutOff, fault.message.replace(/\.$/, ""));
  return { ...known, state: "trouble", why: `${why}. ${more}. To begin it anew, set its status to open` };
}

/** The same command may fare better later, or when the user has put right what is outside of the run. */
function passes({ code }: Fault): boolean {
  return FAULTS[code].retryable || ["engine_home_missing", "engine_missing", "state_moved"].includes(code);
}

/** Null: the state directory has the path that its run was made under. */
function movedAway({ handle }: RunRecord, { code, facts }: Fault): string | null {
  if (code !== "state_moved") return null;
  const { original, path, back } = facts;
  const where = movedWords({ from: String(original), to: String(path) });
  return `its run ${handle} works ${where}. Rename it back first (\`${String(back)}\`)`;
}

/** Null: it began without a secret in its options. No batch begins runs with one. */
function secretWords({ handle, launch }: RunRecord): string | null {
  const [option] = launch.redacted;
  if (option === undefined) return null;
  return `run ${handle} was started with a secret in ${option}, which is not stored, so it cannot be resumed. To begin the issue anew, set its status to open`;
}

/** What its run gets for now. A bound that is wider than the run's own rights is none. */
async function withinRights(
  deps: Deps,
  run: RunRecord,
  wish: PastRequest,
): Promise<{ readonly over: readonly string[]; readonly fault: Fault | null }> {
  const want = wish.fresh ? "fresh" : "resume";
  const over = endsWith(run.launch.given, wish.over) ? [] : wish.over;
  const bound = endsWith(run.launch.given, wish.bound) ? [] : wish.bound;
  if (bound.length > 0) {
    const fault = await faultOf(deps, run, want, [...bound, ...over]);
    if (fault?.code !== "would_widen") return { over: [...bound, ...over], fault };
  }
  return { over, fault: await faultOf(deps, run, want, over) };
}

/** The run began with them, and nothing that it began with comes behind them. */
function endsWith(given: readonly string[], words: readonly string[]): boolean {
  return words.length > 0 && isDeepStrictEqual(given.slice(-words.length), words);
}

/** Null: such a turn could begin now. */
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
      ...asked,
      damage: "refuse",
      message: "",
      keep: false,
      env: [],
      hasTerminal: false,
      trustCwd: run.launch.trustCwd,
    });
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error;
  }
}

/** A turn that was completed need not be repeated because of a crash of ours after it, unless more is wanted by now. */
function nextOf(entry: PriorEntry, spoken: boolean, issue: Issue): Past["next"] {
  if (["completed", "no_change", "left"].includes(entry.status)) return "agent";
  if (newsIn(issue, entry.sent) !== null) return "agent";
  // The gate is forgotten when a new turn begins, so what it said is about the work as it is.
  if (entry.gate?.passed === true) return "close";
  // What was found in its work is for the agent.
  if (entry.status === "failed" && entry.findings.length > 0) return "agent";
  return spoken && entry.gate === null ? "gate" : "agent";
}

/** What somebody else asked in the same conversation is no turn about the issue. */
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

/** What a batch could not go on with now: sessions that are damaged, until a person has decided. */
export async function undecided(
  deps: Deps,
  { issues, leaves = [] }: Pick<BatchRecord, "issues" | "leaves">,
  only?: string,
): Promise<readonly Leave[]> {
  const all = Object.entries(issues).map(([name, record]) => ({ id: name, ...record }));
  const begun = all.filter(({ status }) => !["completed", "left"].includes(status));
  const found: Leave[] = [];
  for (const { id, handle, branch } of [...leaves, ...begun]) {
    const run = only === undefined || only === id ? await runOf(deps, handle) : null;
    const fault = run === null ? null : await faultOf(deps, run, "resume", []);
    if (fault === null || !isUndecided(fault)) continue;
    found.push({ id, why: fault.message.replace(/\.$/, ""), handle, branch, go_on: null });
  }
  return found;
}

/** What is shown of a record: a run that was named and never made is none, and a conversation that never began has no session. */
export async function actualOf<T extends IssueRecord>(deps: Pick<Deps, "store">, record: T): Promise<T> {
  const { handle, attempts, session_id: session } = record;
  if (handle === null) return record;
  const [run] = await deps.store.findByHandle(handle);
  if (run === undefined) return attempts === 0 ? { ...record, handle: null, session_id: null } : record;
  if (session === null || run.status !== "failed") return record;
  const refused = refusedStart(run, await deps.store.listAttempts(run.runId));
  return refused === null ? record : { ...record, session_id: null };
}

const LOST = "the source has it no more";

/** At that time, the source had lost it. */
export const isOrphan = ({ why, go_on: words }: Leave) => words === null && why.startsWith(LOST);

/** Work on issues that the source has lost since: nobody goes on with it, and it is still there. */
export async function orphans(
  deps: Deps,
  { root, source }: { readonly root: string; readonly source: Pick<IssueSource, "one"> },
  listed: readonly Issue[],
  gone: readonly string[],
): Promise<readonly Leave[]> {
  const found: Leave[] = [];
  const known = new Set(listed.map(({ id }) => id));
  for (const id of new Set([...gone, ...begunLast(deps, root)])) {
    if (known.has(id)) continue;
    const run = await keptRun(deps, root, id);
    if (run === null || !(gone.includes(id) || (await isGone(source, id)))) continue;
    const { handle, branch } = run;
    const where = branch === null ? "" : ` on branch ${branch}`;
    const why = `${LOST}; its run ${handle}${where} is kept: reprise show ${handle}`;
    found.push({ id, why, handle, branch, go_on: null });
  }
  return found;
}

/** What the newest batch that began something did not complete. */
function begunLast(deps: Deps, root: string): readonly string[] {
  for (const { issues } of priorRuns(deps, root).batches()) {
    const all = Object.entries(issues);
    if (all.length > 0) return all.filter(([, { status }]) => status !== "completed").map(([id]) => id);
  }
  return [];
}

/** A source may list less than it has. */
async function isGone(source: Pick<IssueSource, "one">, id: string): Promise<boolean> {
  try {
    await source.one(id);
    return false;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return GONE.includes(error.code);
  }
}
