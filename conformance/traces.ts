/**
 * Looks for what a run must not leave: files outside its folder, changes of the checkout, a network besides loopback,
 * connections that got out. Attempts that were refused are counted; they are not traces.
 */
import { spawnSync } from "node:child_process";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { homedir, networkInterfaces } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isolation } from "../src/certify/network.ts";
import { hiddenFolders, keptFolders } from "./isolate.ts";
import { processesOf } from "../src/certify/place.ts";

const REPOSITORY = fileURLToPath(new URL("..", import.meta.url));

/** Where the engines and Reprise keep things below a home. */
const PLACES = [
  ...[".codex", ".claude", ".claude.json", ".gemini", ".opencode", ".config/opencode", ".config/reprise"],
  ...[".cache/opencode", ".cache/claude", ".cache/claude-cli-nodejs", ".cache/gemini", ".cache/reprise"],
  ...[".local/share/opencode", ".local/share/claude", ".local/share/reprise"],
  ...[".local/state/opencode", ".local/state/claude", ".local/state/reprise"],
];

/** In place of a time: a folder with nothing in it. */
const EMPTY = 0;
/** Codex 0.166 makes it, whatever TMPDIR says, when it changes a file, and puts nothing there. */
const OWN_FOLDER = /^\/tmp\/codex-daemon-\d+$/;

/** What there is to find besides the suite's own folder. */
export interface Surroundings {
  /** Path → time of the last change, in ms. */
  readonly files: ReadonlyMap<string, number>;
  /** `git status` of the checkout; null where it is none. */
  readonly checkout: string | null;
  /** Connections that the kernel refused for want of a route. */
  readonly noRoutes: number;
}

export function lookAround(root: string): Surroundings {
  const kept = keptFolders(root);
  const isOwn = isolation().files.startsWith("own");
  const home = homedir();
  const folders = isOwn ? hiddenFolders() : PLACES.map((place) => join(home, place));
  const files = new Map<string, number>();
  for (const folder of folders) collect(folder, kept, files);
  if (!isOwn) for (const name of namesIn(home)) files.set(join(home, name), 0);
  return { files, checkout: checkoutState(), noRoutes: countNoRoutes() };
}

/** Everything below a folder that is not below a kept one. A folder on the way to a kept one does not count either. */
function collect(path: string, kept: readonly string[], files: Map<string, number>): void {
  if (kept.includes(path)) return;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isDirectory()) return void files.set(path, stat.mtimeMs);
  const names = namesIn(path);
  if (names.length === 0) files.set(path, EMPTY);
  for (const name of names) collect(join(path, name), kept, files);
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function checkoutState(): string | null {
  const args = ["-c", "core.fsmonitor=false", "status", "--porcelain"];
  const { status, stdout } = spawnSync("git", args, { cwd: REPOSITORY, encoding: "utf8" });
  if (status !== 0) return null;
  return stdout
    .split("\n")
    .filter((line) => !/ conformance\/report\.(md|json)$/.test(line))
    .join("\n");
}

function countNoRoutes(): number {
  if (!isolation().network.startsWith("own")) return 0;
  return noRoutesIn(readFileSync("/proc/net/snmp", "utf8"), readFileSync("/proc/net/snmp6", "utf8"));
}

/** `OutNoRoutes` of both versions of IP: the kernel counts each connection for which it knows no way. */
export function noRoutesIn(snmp: string, snmp6: string): number {
  const [names = [], values = []] = snmp
    .split("\n")
    .filter((line) => line.startsWith("Ip: "))
    .map((line) => line.split(" "));
  const v4 = Number(values[names.indexOf("OutNoRoutes")] ?? 0);
  const v6 = Number(/^Ip6OutNoRoutes\s+(\d+)/m.exec(snmp6)?.[1] ?? 0);
  return v4 + v6;
}

/** Traces, one sentence each. Neither names anything of the machine but the path below the folder that was watched. */
export function traces(before: Surroundings, after: Surroundings): readonly string[] {
  const files = [...after.files]
    .filter(([path, at]) => before.files.get(path) !== at && !(at === EMPTY && OWN_FOLDER.test(path)))
    .map(([path]) => path);
  const found = files.map((path) => `a file was left outside the folder of the suite: ${path}`);
  if (before.checkout !== after.checkout) found.push(`the checkout was changed: ${after.checkout ?? "gone"}`);
  return found;
}

/** Signs of a network besides loopback, in a separate namespace. */
export function openNetwork(): readonly string[] {
  if (!isolation().network.startsWith("own")) return [];
  const found: string[] = [];
  const names = Object.keys(networkInterfaces()).filter((name) => name !== "lo");
  if (names.length > 0) found.push(`there is a network besides loopback: ${names.join(", ")}`);
  const routes = readFileSync("/proc/net/route", "utf8").trim().split("\n").length - 1;
  if (routes > 0) found.push(`there are ${routes} routes to other networks`);
  return found;
}

/** Watches the sockets of the suite's processes for any that is connected to another machine, where there is one. */
export function watchConnections(root: string): Disposable & { readonly seen: ReadonlySet<string> } {
  const seen = new Set<string>();
  const look = () => {
    for (const pid of processesOf(root)) for (const remote of remotesOf(pid)) seen.add(remote);
  };
  const timer = isolation().network.startsWith("own") ? undefined : setInterval(look, 200);
  return { seen, [Symbol.dispose]: () => clearInterval(timer) };
}

function remotesOf(pid: number): readonly string[] {
  const own = new Set(
    namesIn(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  return ["tcp", "tcp6", "udp", "udp6"].flatMap((kind) => {
    try {
      return remotesIn(readFileSync(`/proc/${pid}/net/${kind}`, "utf8"), own);
    } catch {
      return [];
    }
  });
}

const LOOPBACK = /^(?:[0-9A-F]{6}7F|0{16}FFFF0000[0-9A-F]{6}7F|0{24}01000000|0+):/;

/** Remote addresses besides loopback in a table of the kernel, as it writes them, of the sockets with these numbers. */
export function remotesIn(table: string, sockets: ReadonlySet<string>): readonly string[] {
  return table
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((cells) => sockets.has(cells[9] ?? "") && !LOOPBACK.test(cells[2] ?? ""))
    .map((cells) => cells[2] ?? "");
}
