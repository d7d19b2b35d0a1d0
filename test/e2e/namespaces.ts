/** Places that see the same state directory and not each other's processes, or not the same clock. Built CLI alone. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { CLI, collect, type Result, type Sandbox } from "./sandbox.ts";

const USER = process.getuid?.() === 0 ? [] : ["-r"];
const PIDS = [...USER, "-m", "-p", "-f", "--mount-proc", "--kill-child"];

/**
 * here: no namespace. time: the same processes, another time since boot. boot: a container that has another boot id.
 */
export const PLACES = {
  here: [],
  pids: PIDS,
  "pids and network": [...PIDS, "-n"],
  "pids and time": [...PIDS, "-T", "--boottime", "7000000", "--monotonic", "7000000"],
  boot: PIDS,
  time: [...USER, "-f", "-T", "--boottime", "5000000", "--monotonic", "5000000", "--kill-child"],
} as const;
export type Place = keyof typeof PLACES;

/** Why namespaces cannot be had here; null: they can. */
export function whyNoNamespaces(): string | null {
  for (const place of ["pids and network", "pids and time", "time"] as const) {
    const { status, stderr } = spawnSync("unshare", [...PLACES[place], "true"], { encoding: "utf8" });
    if (status !== 0) return `unshare is not allowed to make a namespace of ${place}: ${stderr ?? ""}`.trim();
  }
  return null;
}

export interface There {
  readonly place: Place;
  /** By how much the wall clock is ahead there, as after a suspend or a correction. */
  readonly aheadMs?: number;
  readonly env?: Record<string, string>;
  /** The place stays when the command has ended: its first process is another one. */
  readonly stays?: true;
}

/** The CLI in another place. Killing the child ends everything in its namespace, where it has one of pids. */
export function spawnThere(box: Sandbox, there: There, args: readonly string[]): ChildProcess {
  const { place, aheadMs = 0, env = {}, stays } = there;
  const words = [
    ...(PLACES[place].length === 0 ? [] : ["unshare", ...PLACES[place]]),
    ...(place === "boot" ? bootId(box) : []),
    ...(stays === undefined ? [] : ["sh", "-c", '"$@"; exec sleep 1000', "sh"]),
    process.execPath,
    ...jump(box, aheadMs),
    CLI,
    ...args,
  ];
  const [file = "", ...rest] = words;
  return spawn(file, rest, { cwd: box.cwd, env: box.env(env), stdio: "pipe" });
}

export function runThere(box: Sandbox, there: There, args: readonly string[]): Promise<Result> {
  const child = spawnThere(box, there, args);
  child.stdin?.on("error", () => {});
  child.stdin?.end();
  return collect(child);
}

/** The CLI without the rights of root: permissions count, whichever user runs the tests. */
export function plainly(box: Sandbox, ...args: string[]): Promise<Result> {
  const drop = process.getuid?.() === 0 ? ["--bounding-set=-all"] : [];
  const words = [...drop, process.execPath, CLI, ...args];
  return collect(
    spawn("setpriv", words, { cwd: box.cwd, env: box.env(), stdio: ["ignore", "pipe", "pipe"] }),
  );
}

function bootId(box: Sandbox): readonly string[] {
  const file = join(box.root, `boot-${randomUUID()}`);
  writeFileSync(file, `${randomUUID()}\n`);
  const mount = 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"';
  return ["sh", "-c", mount, "sh", file];
}

function jump(box: Sandbox, aheadMs: number): readonly string[] {
  if (aheadMs === 0) return [];
  const file = join(box.root, `jump-${aheadMs}.cjs`);
  writeFileSync(file, `const now = Date.now;\nDate.now = () => now() + ${aheadMs};\n`);
  return ["--require", file];
}
