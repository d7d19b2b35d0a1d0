/** What can be done with an issue's last conversation: asks the metadata, the run and, through it, the engine's own store. */
import { isDirectory } from "../audit/audit.ts";
import { Fault, type FaultCode } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { type Deps, dryRun, selectRun } from "../run/run.ts";
import type { Past } from "./decide.ts";
import { type PriorEntry, priorRuns } from "./prior.ts";

export interface KnownPast extends Past {
  /** What was carried over from; null: nothing. */
  readonly entry: PriorEntry | null;
}

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

export async function pastOf(deps: Deps, root: string, issueId: string, engine: string): Promise<KnownPast> {
  let newest: KnownPast | null = null;
  for (const entry of priorRuns(deps, root).entries(issueId, engine)) {
    if (entry.handle === null && entry.session_id === null) continue;
    const found = await look(deps, entry);
    newest ??= found;
    if (found.session !== null) return found;
  }
  const none = {
    session: null,
    state: "none",
    why: "there is no prior session",
    handle: null,
    isolate: "none",
    next: "agent",
  } as const;
  return newest ?? { ...none, entry: null };
}

async function look(deps: Deps, entry: PriorEntry): Promise<KnownPast> {
  const run = await runOf(deps, entry.handle);
  if (run === null) {
    const gone = `its run ${entry.handle ?? ""} is gone`;
    const none = { handle: null, isolate: "none", next: "agent" } as const;
    return { session: entry.session_id, state: "stale", why: gone, ...none, entry };
  }
  // Before the first attempt its place may be half made.
  const handle = run.attempts > 0 && isDirectory(run.cwd) ? run.handle : null;
  const session = run.session.value ?? entry.session_id;
  const isolate = run.launch.isolate === "worktree" ? "worktree" : "none";
  const next = nextOf(entry, run);
  try {
    await dryRun(deps, run, {
      want: "resume",
      damage: "refuse",
      message: "",
      native: [],
      keep: false,
      env: [],
      hasTerminal: false,
      trustCwd: run.launch.trustCwd,
    });
    return { session, state: "alive", why: "", handle, isolate, next, entry };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const state = STALE.includes(error.code) ? (session === null ? "none" : "stale") : "trouble";
    return { session, state, why: error.message.replace(/\.$/, ""), handle, isolate, next, entry };
  }
}

/** A turn that was completed need not be repeated because of a crash of ours after it. */
function nextOf(entry: PriorEntry, run: RunRecord): Past["next"] {
  // The gate is forgotten when a new turn begins, so what it said is about the work as it is.
  if (entry.gate?.passed === true) return "close";
  return run.status === "completed" && entry.gate === null ? "gate" : "agent";
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
