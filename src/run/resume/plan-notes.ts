/** What the user reads about a plan before it is carried out. Pure. */
import type { AttemptKind } from "../../core/records.ts";
import { resumeCommand, type ResumeFacts, type ResumePlan } from "./plan.ts";

/** Whether the attempt continues a session that lacks something in its copy. */
export function leavesCopy({ known }: ResumeFacts, plan: ResumePlan): boolean {
  if (plan.do === "fresh" || plan.restore) return false;
  return known.some(({ id, state }) => id === plan.session && state === "torn");
}

/** Notes for the user before the plan is carried out. */
export function notesFor(facts: ResumeFacts, plan: ResumePlan, kind: AttemptKind): readonly string[] {
  const { run } = facts;
  if (plan.do === "fresh") {
    const back = wayBack(facts);
    return [`starting a new conversation in run ${run.handle}${back === null ? "" : `; ${back}`}`];
  }
  const notes: string[] = [];
  if (plan.restore) notes.push(restoreNote(facts, plan.session));
  if (leavesCopy(facts, plan))
    notes.push(`continuing with the rest of session ${plan.session}; ${copyStays(facts, plan.session)}`);
  if (kind === "fork") {
    const parent = plan.restore ? "gets its session back from the copy" : "stays as it is";
    notes.push(`the fork becomes a new run in the same directory, ${run.cwd}; run ${run.handle} ${parent}`);
  }
  return notes;
}

/** Names the conversation that continues instead of the newest one. It becomes part of the attempt's record. */
export function goingBack(plan: ResumePlan): readonly string[] {
  if (plan.do === "fresh" || plan.passedOver.length === 0) return [];
  const what = plan.passedOver.length === 1 ? "session" : "sessions";
  return [`${what} ${plan.passedOver.join(", ")} never began; going back to ${plan.session}`];
}

function copyStays({ run, known, session }: ResumeFacts, id: string): string {
  const stuck = known.find((one) => one.id === id)?.stuck;
  if (stuck !== undefined) return `the copy stays: ${stuck}`;
  return `the longer copy stays: \`${resumeCommand(run.handle, { want: "resume", session }, "--restore-copy")}\` puts it back`;
}

function restoreNote({ engine: { title }, known }: ResumeFacts, session: string): string {
  const state = known.find(({ id }) => id === session)?.state;
  const copy = "putting back the copy from the run directory";
  if (state === "absent") return `${title} has lost session ${session}; ${copy}`;
  if (state === "unusable") return `${title} cannot read session ${session}; ${copy}`;
  return `${title}'s session ${session} lacks a part that a copy of it has; ${copy}`;
}

/** How to return from a new conversation to the run's current one. Null: no conversation to return to. */
function wayBack({ run, engine: { title }, known, escrow, kept = [] }: ResumeFacts): string | null {
  const session = known.find(({ id }) => id === run.session.value);
  if (session === undefined || run.launch.unresumable !== undefined || run.empty === true) return null;
  const { id, state, note } = session;
  const hasCopy = escrow === id || kept.includes(id);
  const back = (option: string) =>
    `\`reprise resume ${run.handle} --session ${id}${option} "…"\` returns to the earlier one`;
  if (state === "present" || state === "unknown" || (state === "absent" && hasCopy)) return back("");
  if (state === "torn")
    return back(hasCopy && session.stuck === undefined ? " --restore-copy" : " --ignore-copy");
  if (session.damaged === true && hasCopy) return back(" --restore-copy");
  return state === "absent"
    ? `neither ${title} nor the run has the earlier one, ${id}`
    : `${title} cannot continue the earlier one, ${id}: ${note}`;
}
