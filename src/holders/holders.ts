/**
 * The door of `holders`: processes that hold an agent each, and how they are started, reached and watched.
 *
 * A holder outlives whoever started it and ends with its agent. What it records, the run core records.
 */
export { type Channel, listen, type Method } from "./channel.ts";
export { connect, type Connection } from "./connect.ts";
export type { HoldRequest } from "./body.ts";
export { attachTerminal } from "./attach.ts";
export { type HolderLink, openHolder } from "./link.ts";
export { screenOf } from "./screen.ts";
export { attachInTmux, findTmux } from "./tmux.ts";
export { detachedEnv, launchHolder } from "./launch.ts";
