/** Runs in which no conversation ever began: how they are recognized, and what to do instead of a resume. Pure. */
import { Fault } from "../../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../../core/records.ts";

/** For a run whose record says `empty`. */
export const NOTHING_SAID = "its UI was closed before anything was said";
export const NEVER_STARTED = "its agent was never started";

/** An agent that was never started has no conversation. */
export function isUnbegun({ attempts, session }: Pick<RunRecord, "attempts" | "session">): boolean {
  return attempts === 0 && session.value === null;
}

/**
 * The engine's message when it refused the command line of every attempt, so that no conversation can have begun. Null: one
 * may have begun. The caller checks the engine's store.
 */
export function refusedStart(run: RunRecord, attempts: readonly AttemptRecord[]): string | null {
  const { escrow, session, sessions, parent } = run;
  const isOurs = sessions.every(({ source }) => source === "chosen");
  if (escrow !== null || session.verifiedAt !== null || parent !== undefined || !isOurs) return null;
  const isRefused = ({ outcome, reported, tokens }: AttemptRecord) =>
    outcome?.result === "failed" &&
    outcome.trouble?.kind === "usage" &&
    reported.length === 0 &&
    tokens === null;
  if (attempts.length !== run.attempts || !attempts.every(isRefused)) return null;
  return attempts.at(-1)?.outcome?.trouble?.message ?? null;
}

/** As the end of a sentence about the run. */
export function refusalWords({ title }: { readonly title: string }, said: string): string {
  const what = asksTrust(said) ? "refused to start" : "refused its command line";
  return `no conversation ever began: ${title} ${what} (${said.replace(/\.$/, "")})`;
}

/** The command to type instead. `inRun`: this run may begin with its options once the folder is trusted. */
export function beginInstead({ handle, agentName }: RunRecord, said: string, inRun: boolean): string {
  if (inRun) return `reprise resume ${handle} --force-fresh --trust-cwd "…"`;
  return `reprise start ${agentName}${asksTrust(said) ? " --trust-cwd" : ""} "…"`;
}

export const asksTrust = (said: string) => said.includes("--trust-cwd");

export function neverBegan(
  engine: { readonly title: string },
  run: RunRecord,
  said: string,
  inRun: boolean,
): Fault {
  const { handle } = run;
  const what = inRun ? "Begin in this run, with its options" : "Start a new run with the right options";
  return new Fault(
    "session_unknown",
    `Run ${handle} cannot be resumed: ${refusalWords(engine, said)}. ${what}: ${beginInstead(run, said, inRun)}`,
    { facts: { handle, refused: refusalWords(engine, said) } },
  );
}
