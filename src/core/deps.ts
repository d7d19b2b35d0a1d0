/** The outside world as interfaces, so that code is testable. `setup.ts` and one test helper wire them. */
import type { ProcessIdentity } from "./records.ts";

export interface Clock {
  /** Wall clock, milliseconds since 1970, UTC. */
  now(): number;
  /** Monotonic milliseconds from an arbitrary origin, for durations and deadlines within one process. */
  mono(): number;
}

export interface Env {
  readonly [name: string]: string | undefined;
}

/** Messages to the user besides the result. Callers pass plain text; the sink makes it harmless. */
export interface Log {
  warn(message: string): void;
  info(message: string): void;
}

/** doubt: the process is in another pid namespace or on another machine, and nothing proves its end. */
export type OwnerState = "lives" | "gone" | "doubt";

/**
 * A process that outlived its agent. denied: another user's process, which we may not end. doubtful: its session number
 * is the agent's but may belong to a later session; Reprise never signals it.
 */
export interface Stray {
  readonly identity: ProcessIdentity;
  readonly standing: "ours" | "denied" | "doubtful";
}

/** The operating system's processes, as far as a run needs them. */
export interface Processes {
  self(): ProcessIdentity;
  /** This process as an owner, with a life that others can check; made on first use. */
  owner(): ProcessIdentity;
  /** False: it is certainly gone. True also in doubt (see `examine`). */
  isAlive(identity: ProcessIdentity): boolean;
  /** Like `isAlive`, but reports doubt separately. */
  examine(identity: ProcessIdentity & { readonly machine?: string }): OwnerState;
  /** Whether another process holds a life here that belongs to none of these owners. Absent: unknown. */
  hasOtherOwner?(known: readonly ProcessIdentity[]): boolean;
  identify(pid: number): ProcessIdentity | null;
  /** False: the pid no longer belongs to that process, and nothing was signalled. */
  signal(identity: ProcessIdentity, signal: "SIGINT" | "SIGTERM" | "SIGKILL"): boolean;
  /** Live processes that carry `REPRISE_ATTEMPT=<marker>` in their environment. */
  findMarked(marker: string): readonly ProcessIdentity[];
  /**
   * Like `findMarked`, with the agent's descendants and all members of the session that the agent began, whatever their
   * environment and user. The agent itself may be gone.
   */
  findStrays(marker: string, agent: ProcessIdentity | null): readonly Stray[];
  /** Processes whose marker has this prefix, with the rest of the marker. */
  findMarkedBy(beginning: string): readonly { readonly identity: ProcessIdentity; readonly rest: string }[];
  /**
   * Sends SIGINT, SIGTERM, SIGKILL in turn to the tree, its session and all marked processes; returns the survivors.
   */
  endTree(
    root: ProcessIdentity | null,
    marker: string,
    from?: "interrupt" | "terminate" | "kill",
  ): Promise<{ readonly survivors: readonly number[] }>;
  resolveProgram(name: string, env: Env): string | null;
  /** False: the package that opens terminals is missing or not built for this system. Absent: unknown. */
  opensTerminals?(): Promise<boolean>;
  runTool(file: string, args: readonly string[], options: ToolOptions): Promise<ToolResult>;
}

export interface ToolOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxBytes?: number;
  /** How output becomes text. latin1 keeps one character per byte, for names and files that may not be UTF-8. */
  readonly encoding?: "utf8" | "latin1";
  /** Written to its stdin, which is then closed. Absent: stdin is empty. */
  readonly stdin?: string | Uint8Array;
  /** Ends the program with all its children. */
  readonly signal?: AbortSignal;
}

export interface ToolResult {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}
