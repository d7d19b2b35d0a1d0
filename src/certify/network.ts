/** No connection but loopback: a network namespace where the system allows one, elsewhere a proxy that refuses. */
import { spawnSync } from "node:child_process";

export interface Isolation {
  readonly network: "own network namespace, loopback only" | "refusing proxy";
  readonly files: "own temporary and home folders" | "shared temporary and home folders";
}

/** The variable that says what the namespaces around this process hide. */
export const INSIDE = "CERTIFY_INSIDE";
/** The variable that names the proxy that refuses, where there is one. */
export const PROXY = "CERTIFY_PROXY";
/** Linux has no loopback in a new network until somebody turns it on. */
export const LOOPBACK = `{ ip link set lo up || ifconfig lo up || python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))'; } 2>/dev/null`;
/** Options of `unshare` that take the network away, best first. */
export const NETWORK_WAYS: readonly (readonly string[])[] = [["-n"], ["-r", "-n"]];

/** Tries exactly what will be done. */
export function isAllowed(how: readonly string[], script: string): boolean {
  return spawnSync("unshare", [...how, "--", "sh", "-c", script], { stdio: "ignore" }).status === 0;
}

/**
 * How to run a program without a network but loopback, its files left as they are: words to put before it, and what its
 * environment must say. No words where the system does not allow it.
 */
export function withoutNetwork(): { words: readonly string[]; env: Readonly<Record<string, string>> } {
  const how = NETWORK_WAYS.find((one) => isAllowed(one, LOOPBACK));
  if (how === undefined) return { words: [], env: {} };
  const words = ["unshare", ...how, "--", "sh", "-c", `${LOOPBACK} && exec "$@"`, "sh"];
  return { words, env: { [INSIDE]: "network" } };
}

export function isolation(): Isolation {
  const inside = process.env[INSIDE] ?? "";
  return {
    network: inside.includes("network") ? "own network namespace, loopback only" : "refusing proxy",
    files: inside.includes("files") ? "own temporary and home folders" : "shared temporary and home folders",
  };
}
