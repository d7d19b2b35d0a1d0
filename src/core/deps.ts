/** What the outside world gives to code that must be testable: wired in `setup.ts` and in one test helper. */
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

/** Tells the user what happened besides the result. Callers pass plain text; the sink makes it harmless. */
export interface Log {
  warn(message: string): void;
  info(message: string): void;
}

/** doubt: it is in another pid namespace or on another machine, and nothing proves that it is gone. */
export type Standing = "lives" | "gone" | "doubt";

/**
 * A process that an agent has left. denied: it runs as another user, and this one may not end it. doubtful: its session has the
 * number of the agent's, and may be a later one; it is never signalled.
 */
export interface Stray {
  readonly identity: ProcessIdentity;
  readonly standing: "ours" | "denied" | "doubtful";
}

/** The operating system's processes, as far as a run needs to know them. */
export interface Processes {
  self(): ProcessIdentity;
  /** This process as an owner, with a life that others can look at; made on first use. */
  owner(): ProcessIdentity;
  /** False: it is certainly gone. True also where that cannot be told (`examine`). */
  isAlive(identity: ProcessIdentity): boolean;
  /** The same, with the doubt told apart. */
  examine(identity: ProcessIdentity & { readonly machine?: string }): Standing;
  /** Does another process hold a life here that none of these owners has? Absent: nobody knows. */
  hasOtherOwner?(known: readonly ProcessIdentity[]): boolean;
  identify(pid: number): ProcessIdentity | null;
  /** False when the process is not that one any more; then nothing was signalled. */
  signal(identity: ProcessIdentity, signal: "SIGINT" | "SIGTERM" | "SIGKILL"): boolean;
  /** Live processes that carry `REPRISE_ATTEMPT=<marker>` in their environment. */
  findMarked(marker: string): readonly ProcessIdentity[];
  /**
   * The same, with the agent's descendants and everyone in the session that the agent began, whatever their environment and
   * their user. The agent itself may be gone.
   */
  findStrays(marker: string, agent: ProcessIdentity | null): readonly Stray[];
  /** Those whose marker begins so, and the rest of it. */
  findMarkedBy(beginning: string): readonly { readonly identity: ProcessIdentity; readonly rest: string }[];
  /** SIGINT, SIGTERM, SIGKILL in turn to the tree, its session and everything marked; returns what is left. */
  endTree(
    root: ProcessIdentity | null,
    marker: string,
    from?: "interrupt" | "terminate" | "kill",
  ): Promise<{ readonly survivors: readonly number[] }>;
  resolveProgram(name: string, env: Env): string | null;
  /** False: the package that opens them is missing or not built for this system. Absent: nobody knows. */
  opensTerminals?(): Promise<boolean>;
  runTool(file: string, args: readonly string[], options: ToolOptions): Promise<ToolResult>;
}

export interface ToolOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxBytes?: number;
  /** How its output becomes text; latin1: one character per byte, where names or files need not be UTF-8. */
  readonly encoding?: "utf8" | "latin1";
  /** Written to its stdin, which is then closed. Absent: stdin is empty. */
  readonly stdin?: string;
  /** Ends it with all its children. */
  readonly signal?: AbortSignal;
}

export interface ToolResult {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}
