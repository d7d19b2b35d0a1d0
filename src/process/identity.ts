/** Who a pid is: a pid alone is never authority, because pids are used again (I6). */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { ProcessIdentity } from "../core/records.ts";
import * as ps from "./ps.ts";

/** One process as the system lists it. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** 0 where the system does not tell. */
  readonly session: number;
  readonly start: string;
  /** It has ended and waits for its parent to notice. */
  readonly zombie: boolean;
}

export function self(): ProcessIdentity {
  return identityOfChild(process.pid);
}

/** Null: no such process, or it has ended. */
export function identify(pid: number): ProcessIdentity | null {
  const entry = entryOf(pid);
  return entry === null || entry.zombie ? null : identityOf(entry);
}

/** False for a zombie, after a reboot, and for another process that has got the pid since. */
export function isAlive(id: ProcessIdentity): boolean {
  if (id.boot !== boot() || id.space !== space()) return false;
  const entry = entryOf(id.pid);
  return entry !== null && !entry.zombie && entry.start === id.start;
}

/** The identity of a child that may have ended already. One that cannot be read counts as ended from now on. */
export function identityOfChild(pid: number): ProcessIdentity {
  return identityOf(entryOf(pid) ?? { pid, start: "" });
}

export function identityOf(entry: Pick<ProcessEntry, "pid" | "start">): ProcessIdentity {
  return { pid: entry.pid, start: entry.start, boot: boot(), space: space() };
}

export function processTable(): readonly ProcessEntry[] {
  if (!hasProc) return ps.list();
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => entryOf(Number(name)))
    .filter((entry) => entry !== null);
}

/** Is this variable in the environment that the process was started with? */
export function hasVariable(pid: number, assignment: string): boolean {
  if (!hasProc) return ps.hasVariable(pid, assignment);
  try {
    return `\0${readFileSync(`/proc/${pid}/environ`, "latin1")}\0`.includes(`\0${assignment}\0`);
  } catch {
    // It has ended, or it belongs to someone else and so is not ours.
    return false;
  }
}

const hasProc = process.platform === "linux";

function entryOf(pid: number): ProcessEntry | null {
  if (!Number.isSafeInteger(pid) || pid <= 0) return null;
  if (!hasProc) return ps.find(pid);
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may contain anything, so the fields are counted from its end.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state = "", parent, group, session] = fields;
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
      start: fields[19] ?? "",
      zombie: state === "Z" || state === "X",
    };
  } catch {
    return null;
  }
}

let bootId: string | undefined;

function boot(): string {
  bootId ??= hasProc ? readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim() : ps.bootTime();
  return bootId;
}

let spaceId: string | undefined;

function space(): string {
  spaceId ??= hasProc ? readlinkSync("/proc/self/ns/pid") : "all";
  return spaceId;
}
