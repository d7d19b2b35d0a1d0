/**
 * A started program as the other folders see it, and the only place that starts programs.
 *
 * Arguments are arrays (I10). The given environment is complete: Reprise adds only `PWD`.
 */
import type { TerminalSize } from "../lib/terminal-state.ts";
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, statSync } from "node:fs";
import { errorCode } from "../core/errno.ts";
import type { Exit, Stream } from "../core/events.ts";
import { Fault, wantOf } from "../core/faults.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { identityOfChild, identityOfLeader } from "./identity.ts";
import { deathSignalPrefix, lockProgram, requireProgram } from "./program.ts";
import { MARKER_VARIABLE } from "./tree.ts";
import { asUser } from "./umask.ts";

export interface ChildSpec {
  /** A name to look up on the PATH of `env`, or an absolute path. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Written to stdin, which is then closed. Null: stdin is empty, or the terminal of an interactive child. */
  readonly stdin: string | Uint8Array | null;
  /** Keeps stdin open after that, for `write` and `closeInput`. Only without a terminal. */
  readonly keepInput?: true;
  /** Set in the environment, where `findMarked` and `endTree` look for it. Absent: not marked. */
  readonly marker?: string;
  /**
   * An existing file that the program and all processes that inherit it keep locked as long as they live
   * (`lockProgram`).
   */
  readonly lock?: string;
}

/** Receives every byte in order, as read. A chunk belongs to the receiver. */
export type OnOutput = (stream: Stream, chunk: Buffer) => void;

export interface Child {
  readonly identity: ProcessIdentity;
  /** Resolves when the program has ended and all its output was delivered. Never rejects. */
  readonly ended: Promise<Exit>;
  /** Stops reading, so that a program that keeps writing blocks. */
  pause(): void;
  resume(): void;
  /**
   * Types into the terminal or into a stdin that was kept open. False: the program does not read, its queue is full,
   * and this data was dropped.
   */
  write(data: Buffer | string): boolean;
  /** Closes a stdin that was kept open. */
  closeInput(): void;
  resize(size: TerminalSize): void;
}

/** The state of the output, shared between a reader and the code that waits for its end. */
export interface Flow {
  paused: boolean;
  chunks: number;
}

export interface SpawnedChild {
  readonly process: ChildProcess;
  readonly identity: ProcessIdentity;
  readonly exited: Promise<Exit>;
}

export interface LaunchPlan {
  /** Arguments before the program, such as a shell that opens a terminal for it. */
  readonly prefix: readonly string[];
  readonly output: "pipe" | "ignore";
}

/** Descriptors that exec does not close and that must not reach a child. */
export const privateDescriptors = new Set<number>();

/** Starts the program in a new session and process group. If the system refuses, throws a Fault. */
export async function launch(spec: ChildSpec, plan: LaunchPlan): Promise<SpawnedChild> {
  requireDirectory(spec.cwd);
  const program = requireProgram(spec.file, spec.env);
  const [file = program, ...args] = [...(await deathSignalPrefix()), ...plan.prefix, program, ...spec.args];
  const blank = openSync("/dev/null", "r+");
  try {
    const child = asUser(() =>
      spawn(file, args, {
        cwd: spec.cwd,
        env: environment(spec),
        detached: true,
        stdio: stdio(
          [spec.stdin === null && spec.keepInput === undefined ? "ignore" : "pipe", plan.output, plan.output],
          blank,
        ),
      }),
    );
    const exited = new Promise<Exit>((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
    });
    // Read before the event loop can reap a child that has already ended.
    const identity = child.pid === undefined ? null : knownOrEnded(child, child.pid, spec);
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.on("error", reject);
    });
    if (identity === null) throw new Error("started without a pid");
    // A program may end or close its stdin without reading it.
    child.stdin?.on("error", () => {});
    child.stdin?.write(spec.stdin ?? "");
    if (spec.keepInput === undefined) child.stdin?.end();
    return { process: child, identity, exited };
  } catch (error) {
    throw refusal(error, program);
  } finally {
    closeSync(blank);
  }
}

/** Reprise could not end a child later that it cannot identify. */
function knownOrEnded(child: ChildProcess, pid: number, { lock }: ChildSpec): ProcessIdentity {
  try {
    // Only agents are recorded with their session.
    return lock === undefined ? identityOfChild(pid) : identityOfLeader(pid);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** How long to wait for output after the program's end: 250 ms of silence, 5 s in total. */
const TICK_MS = 25;
const QUIET_TICKS = 10;
const MOST_TICKS = 200;

/**
 * Waits for `done`, but a descendant that keeps the output open does not delay it forever. Counts turns of the event
 * loop instead of time, so that a busy process does not mistake its own delay for silence.
 */
export async function settle(done: Promise<unknown>, flow: Flow): Promise<void> {
  let finished = false;
  let seen = flow.chunks;
  let quiet = 0;
  let ticks = 0;
  const over = done.then(() => {
    finished = true;
  });
  while (!finished && quiet < QUIET_TICKS && ticks < MOST_TICKS) {
    let timer: NodeJS.Timeout | undefined;
    const tick = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, TICK_MS);
    });
    await Promise.race([over, tick]);
    clearTimeout(timer);
    if (flow.paused) continue;
    ticks += 1;
    quiet = flow.chunks === seen ? quiet + 1 : 0;
    seen = flow.chunks;
  }
}

function environment(spec: ChildSpec): NodeJS.ProcessEnv {
  const mark = spec.marker === undefined ? {} : { [MARKER_VARIABLE]: spec.marker };
  return { ...spec.env, ...mark, PWD: spec.cwd };
}

type Stdio = "pipe" | "ignore" | number;

/** Private descriptors become /dev/null in the child: Node cannot set close-on-exec on them. */
function stdio(standard: readonly Stdio[], blank: number): Stdio[] {
  const all: Stdio[] = [...standard];
  for (const descriptor of privateDescriptors) {
    while (all.length < descriptor) all.push("ignore");
    all[descriptor] = blank;
  }
  return all;
}

function requireDirectory(cwd: string): void {
  const found = statSync(cwd, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return;
  throw new Fault("cwd_missing", `The working directory ${cwd} is gone or is not a directory.`, {
    facts: { cwd },
  });
}

function refusal(error: unknown, program: string): unknown {
  if (error instanceof Fault || !(error instanceof Error)) return error;
  const want = wantOf(error);
  if (want !== null) return want;
  const code = errorCode(error) ?? error.message;
  const facts = { program, code };
  switch (code) {
    case "ENOENT":
    case "EACCES":
    case "ENOEXEC":
      return new Fault("engine_missing", `${program} cannot be run (${code}). Install it again.`, {
        facts,
        cause: error,
      });
    case "E2BIG":
      return new Fault(
        "message_invalid",
        "The message or another argument is too long for a command line. Use --message-file.",
        { facts, cause: error },
      );
    case "ERR_INVALID_ARG_VALUE":
      return new Fault("message_invalid", "An argument or a variable contains a zero byte.", {
        facts,
        cause: error,
      });
    default:
      return new Fault("spawn_failed", `The system refused to start ${program} (${code}). Try again later.`, {
        facts,
        cause: error,
      });
  }
}

/**
 * Shell code that runs just before the shell becomes the program: it takes a lock that the program inherits. The lock
 * is shared between processes of one agent; a checker tries to lock exclusively. `$2`: the locking program, or empty;
 * `$3`: the file.
 */
export const TAKE_LOCK = `[ -z "$2" ] || { exec 7<"$3"; "$2" -s 7; }`;

export function lockWords({ lock }: ChildSpec): readonly [program: string, file: string] {
  const program = lock === undefined ? null : lockProgram();
  return [program ?? "", lock ?? ""];
}

/** Variables with names that no shell accepts, such as exported functions: `env` restores them after the shell. */
export function shellUnsafeEnv(env: Readonly<Record<string, string>>): readonly string[] {
  const lost = Object.entries(env).filter(([name]) => !/^[A-Za-z_]\w*$/.test(name));
  return lost.length === 0 ? [] : ["/usr/bin/env", "--", ...lost.map(([name, value]) => `${name}=${value}`)];
}
