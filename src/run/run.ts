/** The door to the life of a run: start it, resume it, stop it. `inspect.ts` looks at runs and changes nothing. */
export { adoptSession } from "./adopt.ts";
export type { AttemptOptions, AttemptResult } from "./attempt.ts";
export type { BatchLease, Deps } from "./deps.ts";
export type { LiveControls, LiveStatus, StopRequest, Watch } from "./job.ts";
export { forsakeUnrecorded } from "./leases.ts";
export type { Limits } from "./liveness.ts";
export { exitCodeFor } from "./outcome.ts";
export { renewIndex } from "./rebuild.ts";
export { type ResumeRequest, resumeRun } from "./resume.ts";
export { type StartRequest, startRun } from "./start.ts";
export { assertReachable, type Stopped, stopRun } from "./stop.ts";
