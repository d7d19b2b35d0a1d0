/**
 * The door of `ipc`: framed calls over a Unix socket between the CLI, holders and the daemon.
 *
 * Knows no method: each side names its own.
 */
export { connect, type Connection } from "./client.ts";
export { type Channel, listen, type Method, type Peer } from "./server.ts";
export { decodeFault, encode, encodeFault, FrameReader } from "./wire.ts";
