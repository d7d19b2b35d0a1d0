/**
 * The door of `holders`: processes that each hold one agent, and how to start, reach and watch them.
 *
 * A holder outlives the process that started it and ends with its agent. The run core writes all its records.
 */
export { type Channel, listen, type Method } from "./channel.ts";
export { connect, type Connection } from "./connect.ts";
export type { HoldRequest } from "./body.ts";
export { attachTerminal } from "./attach.ts";
export { type HolderLink, openHolder } from "./link.ts";
export { screenOf } from "./screen.ts";
export { attachInTmux, findTmux } from "./tmux.ts";
export { detachedEnv, launchHolder } from "./launch.ts";
