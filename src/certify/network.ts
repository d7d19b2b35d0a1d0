/** Allows only loopback connections: a network namespace if the system allows one, otherwise a proxy that refuses. */
import { spawnSync } from "node:child_process";

export interface Isolation {
  readonly network: "own network namespace, loopback only" | "refusing proxy";
  readonly files: "own temporary and home folders" | "shared temporary and home folders";
}

/** The variable that lists what the surrounding namespaces hide. */
export const INSIDE = "CERTIFY_INSIDE";
/** The variable with the address of the refusing proxy, if there is one. */
export const PROXY = "CERTIFY_PROXY";
/** In a new network namespace of Linux, loopback is down. */
export const LOOPBACK = `{ ip link set lo up || ifconfig lo up || python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))'; } 2>/dev/null`;
/** Options of `unshare` that remove the network, best first. */
export const NETWORK_WAYS: readonly (readonly string[])[] = [["-n"], ["-r", "-n"]];

/** Tries exactly the later command. */
export function isAllowed(how: readonly string[], script: string): boolean {
  return spawnSync("unshare", [...how, "--", "sh", "-c", script], { stdio: "ignore" }).status === 0;
}

/**
 * Words to put before a program, and its environment, to run it with loopback only and unchanged files. No words if the
 * system does not allow it.
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
