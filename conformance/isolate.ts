/**
 * No connection but loopback, no file but ours. Where the system allows it, the suite runs itself again in separate
 * namespaces: a network that has only loopback, and empty temporary and home folders, so that every file there at the
 * end comes from a case. Elsewhere a refusing proxy replaces the network, and the report says so.
 */
import { spawn } from "node:child_process";
import { existsSync, lstatSync, mkdirSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { INSIDE, isAllowed, LOOPBACK, NETWORK_WAYS } from "../src/certify/network.ts";
import { endAll } from "../src/certify/place.ts";
import { Mistake } from "./options.ts";

/** Takes the choice: `namespace` (as the administrator), `user-namespace`, `network` (files are shared) or `proxy`. */
const FORCED = "CONFORMANCE_ISOLATION";
const REPOSITORY = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
/** Options of `unshare`, best first. */
const WAYS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  namespace: [["-n", "-m"]],
  "user-namespace": [["-r", "-n", "-m"]],
  network: NETWORK_WAYS,
  proxy: [],
};

/** How long the examiner may take to obey a signal. */
const OBEY_MS = 5_000;

/**
 * Runs this program again, inside namespaces where there are any, and returns its exit code. `root` stays visible at its
 * own path. When `stop` is aborted, with the name of a signal, that signal is passed on.
 */
export async function runIsolated(root: string, stop: AbortSignal): Promise<number> {
  const how = wayIn();
  const files = how?.includes("-m") === true;
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const script = `${files ? hide(hiddenFolders(), keptFolders(root)) : ""}${LOOPBACK} && cd "$0" && exec "$@"`;
  const inside = how === null ? "" : files ? "network,files" : "network";
  // The loader of TypeScript writes its cache in its own time: a file that is there later was left by nobody else.
  const loader = { TSX_DISABLE_CACHE: "1" };
  const env = { ...process.env, ...loader, [INSIDE]: inside, CONFORMANCE_ROOT: root };
  const words = how === null ? [] : ["unshare", ...how, "--", "sh", "-c", script, REPOSITORY];
  const [file = "", ...args] = [...words, ...again];
  const child = spawn(file, args, { stdio: ["ignore", "inherit", "inherit"], env });
  let timer: NodeJS.Timeout | undefined;
  const pass = () => {
    child.kill(stop.reason as NodeJS.Signals);
    timer = setTimeout(() => child.kill("SIGKILL"), OBEY_MS);
  };
  if (stop.aborted) pass();
  else stop.addEventListener("abort", pass, { once: true });
  const code = await new Promise<number | null>((ended, failed) => {
    child.once("error", failed);
    child.once("exit", ended);
  });
  clearTimeout(timer);
  return code ?? 1;
}

/** The options of `unshare` that this system allows; null: none, and a proxy must do. */
function wayIn(): readonly string[] | null {
  const forced = process.env[FORCED];
  const ways = forced === undefined ? Object.values(WAYS).flat() : WAYS[forced];
  if (ways === undefined) throw new Mistake(`${FORCED} is one of ${Object.keys(WAYS).join(", ")}`);
  const how = ways.find(works);
  if (how === undefined && forced !== undefined && forced !== "proxy")
    throw new Mistake(`this system does not allow ${FORCED}=${forced}`);
  return how ?? null;
}

/** Folders that are empty inside. */
export function hiddenFolders(): readonly string[] {
  const home = real(homedir());
  const all = ["/tmp", "/var/tmp", "/dev/shm", ...(home === "/" ? [] : [home])];
  return outermost(all.filter((folder) => existsSync(folder)).map(real));
}

/** What a run needs of its surroundings, wherever it lies: its own folder, the repository, what that links to, Node. */
export function keptFolders(root: string): readonly string[] {
  const modules = [
    join(REPOSITORY, "node_modules"),
    join(REPOSITORY, "conformance", "engines", "node_modules"),
  ];
  const node = dirname(dirname(process.execPath));
  const all = [root, REPOSITORY, ...modules, node].filter((folder) => existsSync(folder) && folder !== "/");
  return outermost(all.flatMap((folder) => [folder, real(folder)]));
}

function real(folder: string): string {
  return existsSync(folder) ? realpathSync(folder) : folder;
}

/** Without those that lie in another one. */
export function outermost(folders: readonly string[]): readonly string[] {
  const all = [...new Set(folders)];
  return all.filter((one) => !all.some((other) => other !== one && one.startsWith(`${other}/`)));
}

/**
 * The kept folders are held open while the hidden ones become empty, and are put back by their descriptors: no other
 * place is needed to keep them meanwhile.
 */
function hide(hidden: readonly string[], kept: readonly string[]): string {
  const inside = kept.filter((folder) => hidden.some((one) => folder.startsWith(`${one}/`)));
  // The plain shell has descriptors of one digit only.
  if (inside.length > 6) throw new Error(`too many folders below ${hidden.join(", ")}: ${inside.join(", ")}`);
  const lines = [
    ...inside.map((folder, n) => `exec ${n + 3}<${quote(folder)}`),
    ...hidden.map((folder) => `mount -t tmpfs -o mode=1777 none ${quote(folder)}`),
    ...inside.map(
      (folder, n) =>
        `mkdir -p ${quote(folder)} && mount -c --rbind /proc/self/fd/${n + 3} ${quote(folder)} && exec ${n + 3}<&-`,
    ),
  ];
  return `{ ${lines.join(" && ")}; } || exit 1; `;
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** Tries exactly what will be done. */
function works(how: readonly string[]): boolean {
  const files = how.includes("-m") ? hide(hiddenFolders(), keptFolders(REPOSITORY)) : "";
  return isAllowed(how, `${files}${LOOPBACK}`);
}

/** The folder of this run. Those of runs that died with nobody to clean up are removed, with what they had started. */
export async function makeRoot(folder: string): Promise<string> {
  for (const name of readdirSync(folder)) {
    const pid = Number(/^rc-(\d+)$/.exec(name)?.[1] ?? 0);
    const left = join(folder, name);
    if (pid === 0 || (pid !== process.pid && isAlive(pid)) || existsSync(join(left, "kept"))) continue;
    const stat = lstatSync(left, { throwIfNoEntry: false });
    if (stat?.isDirectory() !== true || stat.uid !== process.getuid?.()) continue;
    await endAll(left);
    rmSync(left, { recursive: true, force: true, maxRetries: 10 });
  }
  const root = join(folder, `rc-${process.pid}`);
  mkdirSync(root, { mode: 0o700 });
  return root;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
