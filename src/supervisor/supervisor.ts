/** The door of `supervisor`: what is decided about supervised agents, and what is remembered of it. */
export { chanceOf } from "./delay.ts";
export { decide, type Decision, type Facts } from "./decide.ts";
export { fromStored, type NewSupervisionEvent, toStored } from "./history.ts";
export { type EndedAttempt, endedAttempt, occurrenceOf, type Seen } from "./occurrence.ts";
export { type Alive, CONTINUE, planResume, type ResumeFacts, type ResumePlan } from "./plan.ts";
export { inFlight } from "./tally.ts";
