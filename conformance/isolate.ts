/**
 * No connection but loopback, no file but ours. Where the system allows it, the suite runs itself again in namespaces of
 * its own: a network that has only loopback, and empty temporary folders, so that whatever stands there in the end was
 * left by a case. Elsewhere a proxy that refuses takes the place of the network, and the report says so.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { homedir, networkInterfaces } from "node:os";

export interface Isolation {
  readonly network: "own network namespace, loopback only" | "refusing proxy";
  readonly files: "own temporary folders" | "shared temporary folders";
}

const INSIDE = "CONFORMANCE_INSIDE";
/** Set where the network could not be taken away: programs are told to use a proxy on which nobody listens. */
const PROXY = "CONFORMANCE_PROXY";
const TEMPORARY = ["/tmp", "/var/tmp", "/dev/shm"];

/**
 * Runs this program again inside namespaces; returns its exit code, or null when it already runs there, or must run here.
 * `root` stays visible at its own path.
 */
export function enterIsolation(root: string): number | null {
  if (process.env[INSIDE] !== undefined) return null;
  const how = [["-n", "-m"], ["-r", "-n", "-m"], ["-n"], ["-r", "-n"]].find(works);
  if (how === undefined) {
    process.env[PROXY] = "http://127.0.0.1:9";
    return null;
  }
  const files = how.includes("-m");
  const script = `${files ? hideTemporary(root) : ""}ip link set lo up || ifconfig lo up; exec "$@"`;
  const env = { ...process.env, [INSIDE]: files ? "network,files" : "network", CONFORMANCE_ROOT: root };
  const args = [
    ...how,
    "--",
    "sh",
    "-c",
    script,
    "sh",
    process.execPath,
    ...process.execArgv,
    ...process.argv.slice(1),
  ];
  const { status, error } = spawnSync("unshare", args, { stdio: "inherit", env });
  if (error !== undefined) throw error;
  return status ?? 1;
}

/** The suite's folder is put back after the temporary folders have become empty. */
function hideTemporary(root: string): string {
  const outside = "/mnt";
  const mounts = TEMPORARY.map((folder) => `mount -t tmpfs -o mode=1777 none ${folder}`).join(" && ");
  const put = `mkdir -p ${quote(root)} && mount --bind ${outside} ${quote(root)} && umount ${outside}`;
  return `mount --bind ${quote(root)} ${outside} && ${mounts} && ${put} && cd "$PWD" || exit 1; `;
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function works(how: readonly string[]): boolean {
  const probe = how.includes("-m") ? "mount -t tmpfs none /mnt && " : "";
  const script = `${probe}(ip link set lo up || ifconfig lo up)`;
  return spawnSync("unshare", [...how, "--", "sh", "-c", script], { stdio: "ignore" }).status === 0;
}

export function isolation(): Isolation {
  const inside = process.env[INSIDE] ?? "";
  return {
    network: inside.includes("network") ? "own network namespace, loopback only" : "refusing proxy",
    files: inside.includes("files") ? "own temporary folders" : "shared temporary folders",
  };
}

/** What there is to find besides the suite's own folder. */
export interface Surroundings {
  readonly entries: ReadonlySet<string>;
}

export function lookAround(): Surroundings {
  const folders = isolation().files === "own temporary folders" ? [...TEMPORARY, homedir()] : [homedir()];
  return {
    entries: new Set(folders.flatMap((folder) => namesIn(folder).map((name) => `${folder}/${name}`))),
  };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Traces outside the suite's folder, and any sign of a network beyond loopback. */
export function traces(before: Surroundings, root: string): readonly string[] {
  const files = [...lookAround().entries].filter(
    (path) => !before.entries.has(path) && !root.startsWith(path),
  );
  const found = files.map((path) => `a file was left outside the folder of the suite: ${path}`);
  if (!isolation().network.startsWith("own")) return found;
  const names = Object.keys(networkInterfaces()).filter((name) => name !== "lo");
  if (names.length > 0) found.push(`there is a network besides loopback: ${names.join(", ")}`);
  const routes = readFileSync("/proc/net/route", "utf8").trim().split("\n").length - 1;
  if (routes > 0) found.push(`there are ${routes} routes to other networks`);
  return found;
}

export function makeRoot(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  return path;
}
