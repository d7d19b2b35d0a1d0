/** The process table from `ps`, for systems without /proc (macOS). Slow, so called only when needed. */
import { spawnSync } from "node:child_process";

/** One process as the system lists it. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** 0: the system does not report it. */
  readonly session: number;
  readonly start: string;
  /** The process has ended, and its parent has not reaped it yet. */
  readonly zombie: boolean;
}

const COLUMNS = ["-o", "pid=,ppid=,pgid=,stat=,lstart="];

export function listWithPs(): readonly ProcessEntry[] {
  return output("/bin/ps", ["-A", ...COLUMNS])
    .split("\n")
    .map(entry)
    .filter((found) => found !== null);
}

export function find(pid: number): ProcessEntry | null {
  return entry(output("/bin/ps", ["-p", String(pid), ...COLUMNS]));
}

/** `-E` shows the environment after the command, for processes of the same user. */
export function hasVariable(pid: number, assignment: string): boolean {
  const words = output("/bin/ps", ["-p", String(pid), "-Eww", "-o", "command="]).split(/\s+/);
  return words.includes(assignment);
}

/** Environment words with this prefix, of all processes of the same user, in one call. */
export function findVariables(beginning: string): readonly { readonly pid: number; readonly word: string }[] {
  return output("/bin/ps", ["-A", "-Eww", "-o", "pid=,command="])
    .split("\n")
    .flatMap((line) => {
      const [pid, ...words] = line.trim().split(/\s+/);
      const word = words.find((one) => one.startsWith(beginning));
      return word === undefined ? [] : [{ pid: Number(pid), word }];
    });
}

export function bootTime(): string {
  return output("/usr/sbin/sysctl", ["-n", "kern.boottime"]).trim();
}

function entry(line: string): ProcessEntry | null {
  const match = /^(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S[^]*)$/.exec(line.trim());
  if (match === null) return null;
  const [, pid, parent, group, state = "", start = ""] = match;
  return {
    pid: Number(pid),
    parent: Number(parent),
    group: Number(group),
    session: 0,
    start,
    zombie: state.startsWith("Z"),
  };
}

function output(file: string, args: readonly string[]): string {
  const result = spawnSync(file, args, {
    encoding: "utf8",
    env: { LC_ALL: "C", TZ: "UTC" },
    maxBuffer: 64 << 20,
  });
  return result.status === 0 ? result.stdout : "";
}
