/** Whether a run can be resumed: every hint asks here before it offers `reprise resume`. */
import { checkOwnDirectory, ensureIdentity, isDirectory, settleState, stateOrigin } from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Deps } from "./deps.ts";

/** Why this run cannot be resumed, as the end of a sentence. Null: as far as its record tells, it can be. */
export function whyNotResumable(run: RunRecord): string | null {
  const { launch, sessions, session } = run;
  const [option] = launch.redacted;
  if (option !== undefined) return `it was started with a secret in ${option}, which is not stored`;
  if (launch.unresumable !== undefined) return launch.unresumable;
  if (run.empty === true) return "its UI was closed before anything was said";
  const hasSession = session.value !== null || sessions.some(({ foreign }) => foreign === undefined);
  return hasSession || run.status === "running" ? null : "no session id is known";
}

/** The same for a run that was not worked on just now: its directory may be gone. */
export function whyNotResumableNow(run: RunRecord): string | null {
  return isDirectory(run.runDirectory) ? whyNotResumable(run) : "its run directory is gone";
}

/** Without its directory an attempt could not be recorded, so none is begun. */
export function assertRunDirectory(run: RunRecord): void {
  const { handle, runDirectory, agentName, session } = run;
  if (checkOwnDirectory(runDirectory)) return;
  // Killed between the index and the directory: nobody was told of it, and no agent was started.
  if (run.attempts === 0 && session.value === null)
    throw new Fault(
      "run_dir_missing",
      `Run ${handle} was never begun: its start was cut off before an agent was started. Remove it: reprise rm ${handle}`,
      { facts: { handle, path: runDirectory } },
    );
  const adopt =
    session.value === null
      ? ""
      : ` Then \`reprise adopt ${agentName} ${session.value}\` makes a new run of the conversation, if the engine still has it.`;
  throw new Fault(
    "run_dir_missing",
    `The directory of run ${handle} is gone: ${runDirectory}. Nothing was started. ` +
      `Put the directory back, or remove what is left of the run: reprise rm ${handle}.${adopt}`,
    { facts: { handle, path: runDirectory } },
  );
}

/**
 * The runs of a copied state directory are the original's as well, whose agents may be at work on the same sessions. They are
 * resumed, stopped and removed only after the user says that the copy is to be used. A directory that was moved goes on.
 */
export function assertOwnState({ state, machine, log }: Pick<Deps, "state" | "machine" | "log">): void {
  const origin = stateOrigin(state, machine);
  if (origin === null && state.writable) ensureIdentity(state, machine);
  if (origin?.is === "moved" && state.writable) {
    log.info(`the state directory was moved here from ${origin.original.path}`);
    settleState(state, machine);
  }
  if (origin?.is !== "copy") return;
  const { path, machine: on } = origin.original;
  const where = `${path}${on === machine ? "" : ` on ${on}`}`;
  throw new Fault(
    "state_copied",
    `The state directory ${state.root} is a copy. The original, ${where}, may be at work on the same sessions, so its runs are left alone here; ` +
      "new runs can be started. To use them here from now on, and no longer there: reprise doctor --accept-copy",
    { facts: { path: state.root, original: path, machine: on } },
  );
}

/** `doctor --accept-copy`. False: the directory is no copy. */
export function acceptCopy({ state, machine }: Pick<Deps, "state" | "machine">): boolean {
  if (stateOrigin(state, machine)?.is !== "copy") return false;
  if (state.refusal !== null) throw state.refusal;
  settleState(state, machine, true);
  return true;
}
