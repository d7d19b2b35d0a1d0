/**
 * The door of `detached`: holders of background attempts, and how to start, reach and watch them.
 *
 * A holder outlives the process that started it and ends with its agent. The run core writes all its records.
 */
export type { HeldAttempt, HoldRequest } from "./holder.ts";
export { attachTerminal } from "./attach.ts";
export { holdOwn, leaveTerminal } from "./shell-job.ts";
export { type HolderLink, openHolder } from "./link.ts";
export { screenOf } from "./screen.ts";
export { attachInTmux, findTmux } from "./tmux.ts";
export { detachedEnv, launchHolder } from "./launch-holder.ts";
