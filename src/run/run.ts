/** The door to the life of a run: start it, resume it, stop it. `inspect.ts` looks at runs and changes nothing. */
export { adoptSession } from "./adopt.ts";
export type { AttemptOptions, AttemptResult } from "./attempt/attempt.ts";
export type { BatchLease, Deps } from "./deps.ts";
export type { LiveControls, LiveStatus, StopRequest, Watch } from "./attempt/job.ts";
export { forsakeUnrecorded } from "./leases.ts";
export type { Limits } from "./attempt/liveness.ts";
export { exitCodeFor } from "./attempt/outcome.ts";
export { renewIndex } from "./index/rebuild.ts";
export { RESUME_DEFAULTS } from "./resume/options.ts";
export { type ResumeRequest, resumeRun } from "./resume/resume.ts";
export { type StartRequest, startRun } from "./start.ts";
export { assertReachable, type Stopped, stopRun } from "./stop.ts";
