/** Identifies processes: a pid alone is never authority, because the system reuses pids (I6). */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { errorCode } from "../core/errno.ts";
import type { OwnerState } from "../core/deps.ts";
import { Fault, wantOf } from "../core/faults.ts";
import type { ProcessIdentity } from "../core/records.ts";
import * as ps from "./ps.ts";
import type { ProcessEntry } from "./ps.ts";

export function self(): ProcessIdentity {
  return identityOfChild(process.pid);
}

/** Null: no such process, or it has ended. */
export function identify(pid: number): ProcessIdentity | null {
  const entry = entryOf(pid);
  return entry === null || entry.zombie ? null : identityOf(entry);
}

/** False for a zombie, after a reboot, and if another process has the pid. */
export function isAlive(id: ProcessIdentity): boolean {
  if (id.boot !== boot() || id.space !== space()) return false;
  const entry = entryOf(id.pid);
  return entry !== null && !entry.zombie && entry.start === id.start;
}

/** Judged by the process table. */
export function examine(id: ProcessIdentity): OwnerState {
  if (isAlive(id)) return "lives";
  return id.boot === boot() && id.space !== space() ? "doubt" : "gone";
}

/** The identity of a child that may have ended already. If it cannot be read, the child counts as ended. */
export function identityOfChild(pid: number): ProcessIdentity {
  return identityOf(entryOf(pid) ?? { pid, start: "" });
}

/**
 * Like `identityOfChild` for a session leader, with the name that tells its session from a later one with the same
 * number.
 */
export function identityOfLeader(pid: number): ProcessIdentity {
  const autogroup = autogroupOf(pid);
  return { ...identityOfChild(pid), ...(autogroup === null ? {} : { autogroup }) };
}

export function identityOf(entry: Pick<ProcessEntry, "pid" | "start">): ProcessIdentity {
  return { pid: entry.pid, start: entry.start, boot: boot(), space: space() };
}

/** All processes that are not in `known`. Adds them to `known`, including processes that ended meanwhile. */
export function processTable(known: Set<number>): readonly ProcessEntry[] {
  const isNew = (pid: number) => !known.has(pid) && known.add(pid);
  if (!hasProc) return ps.listWithPs().filter((entry) => isNew(entry.pid));
  const listed = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return listed
    .map(Number)
    .filter(isNew)
    .map(entryOf)
    .filter((entry) => entry !== null);
}

/** Processes found by a session number: members, and processes that may be in a later session with that number. */
export interface SessionMembers {
  readonly ours: readonly ProcessEntry[];
  readonly doubtful: readonly ProcessEntry[];
}

/**
 * The members of the session that this process leads or led. While a member lives, no other process gets the number as
 * its pid. After that a new process may get it, begin a session and end: the kernel's name tells the two sessions
 * apart.
 */
export function membersOf(leader: ProcessIdentity, table: readonly ProcessEntry[]): SessionMembers {
  const { pid, start, autogroup } = leader;
  const none = { ours: [], doubtful: [] };
  if (leader.boot !== boot() || leader.space !== space()) return none;
  const found = table.filter((entry) => [entry.pid, entry.group, entry.session].includes(pid));
  if (found.length === 0) return none;
  const now = entryOf(pid);
  if (now !== null) return now.start === start ? { ours: found, doubtful: [] } : none;
  const named = found.map((entry) => ({ entry, name: autogroupOf(entry.pid) }));
  const isOurs = (name: string | null) => autogroup !== undefined && name === autogroup;
  const isDoubtful = (entry: ProcessEntry, name: string | null) =>
    (autogroup === undefined || name === null) && !(Number(entry.start) < Number(start));
  return {
    ours: named.filter(({ name }) => isOurs(name)).map(({ entry }) => entry),
    doubtful: named.filter(({ entry, name }) => isDoubtful(entry, name)).map(({ entry }) => entry),
  };
}

/** Linux names every new session, never twice; processes inherit the name with the session. */
function autogroupOf(pid: number): string | null {
  if (!hasProc) return null;
  try {
    return /^\/autogroup-\d+/.exec(readFileSync(`/proc/${pid}/autogroup`, "latin1"))?.[0] ?? null;
  } catch (error) {
    assertLooked(error);
    return null;
  }
}

/** Whether the environment that the process started with contains this variable. */
export function hasVariable(pid: number, assignment: string): boolean {
  if (!hasProc) return ps.hasVariable(pid, assignment);
  try {
    return `\0${environmentOf(pid)}\0`.includes(`\0${assignment}\0`);
  } catch (error) {
    assertLooked(error);
    // The process has ended, or it belongs to another user and so is not ours.
    return false;
  }
}

/** Processes that started with a variable of this prefix in their environment, and its value. */
export function findVariables(
  beginning: string,
): readonly { readonly entry: ProcessEntry; readonly word: string }[] {
  if (!hasProc)
    return ps.findVariables(beginning).flatMap(({ pid, word }) => {
      const entry = ps.find(pid);
      return entry === null ? [] : [{ entry, word }];
    });
  return processTable(new Set()).flatMap((entry) => {
    const word = entry.zombie ? null : variableOf(entry.pid, beginning);
    return word === null ? [] : [{ entry, word }];
  });
}

function variableOf(pid: number, beginning: string): string | null {
  try {
    const environment = `\0${environmentOf(pid)}\0`;
    const at = environment.indexOf(`\0${beginning}`) + 1;
    return at === 0 ? null : environment.slice(at, environment.indexOf("\0", at));
  } catch (error) {
    assertLooked(error);
    return null;
  }
}

/** How long a process may be between two programs; a system without overload needs microseconds. */
const EXEC_MS = 200;

/** A process has no environment for a moment while it executes another program, so this waits. */
function environmentOf(pid: number): string {
  const read = () => readFileSync(`/proc/${pid}/environ`, "latin1");
  let environment = read();
  if (environment !== "") return environment;
  const deadline = performance.now() + EXEC_MS;
  while (environment === "" && betweenPrograms(pid) && performance.now() < deadline) environment = read();
  return environment === "" ? read() : environment;
}

/** A process with an empty environment still has an address for it; a kernel thread never has one. */
function betweenPrograms(pid: number): boolean {
  const fields = statOf(pid);
  const isKernel = (Number(fields[6]) & 0x00200000) !== 0;
  return !isKernel && !isOver(fields) && fields[47] === "0";
}

const hasProc = process.platform === "linux";

function entryOf(pid: number): ProcessEntry | null {
  if (!Number.isSafeInteger(pid) || pid <= 0) return null;
  if (!hasProc) return ps.find(pid);
  try {
    const fields = statOf(pid);
    const [, parent, group, session] = fields;
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
      start: fields[19] ?? "",
      zombie: isOver(fields),
    };
  } catch (error) {
    assertLooked(error);
    return null;
  }
}

/** A process that we could not check for lack of descriptors may be alive. */
function assertLooked(error: unknown): void {
  const want = wantOf(error);
  if (want !== null) throw want;
}

/** The fields after the name. The name in parentheses may contain anything, so fields count from its end. */
function statOf(pid: number): readonly string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function isOver([state]: readonly string[]): boolean {
  return state === "Z" || state === "X";
}

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
const PID_SPACE = "/proc/self/ns/pid";

/** Without these files Reprise cannot tell a live owner from a dead one, so it starts nothing (I6). */
function needed(path: string, read: (path: string) => string): string {
  try {
    return read(path);
  } catch (error) {
    assertLooked(error);
    const code = errorCode(error);
    const why = code === null ? "" : ` (${code})`;
    throw new Fault(
      "platform_unsupported",
      `${path} cannot be read${why}. Without it, Reprise cannot tell processes apart, so it started nothing. ` +
        "Mount all of /proc: mount -t proc proc /proc (in a systemd unit: ProcSubset=all)",
      { facts: { path }, cause: error },
    );
  }
}

let bootId: string | undefined;

function boot(): string {
  bootId ??= hasProc ? needed(BOOT_ID, (path) => readFileSync(path, "latin1").trim()) : ps.bootTime();
  return bootId;
}

let spaceId: string | undefined;

function space(): string {
  spaceId ??= hasProc ? `${needed(PID_SPACE, readlinkSync)}${timeSpace()}` : "all";
  return spaceId;
}

/** The system's time namespace, a constant of the kernel. */
const SYSTEM_TIME = "time:[4026531834]";

/** A process in another time namespace reads other start times, its own included. */
function timeSpace(): string {
  try {
    const found = readlinkSync("/proc/self/ns/time");
    return found === SYSTEM_TIME ? "" : ` ${found}`;
  } catch {
    // A kernel without time namespaces.
    return "";
  }
}
