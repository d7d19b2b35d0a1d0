/**
 * What every command gets: the terminal it prints to, and a way to the state directory when it needs one.
 */
import type { Env, Log } from "../core/deps.ts";
import type { RunbookSource } from "../core/runbook.ts";
import { harmless } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";

export interface Context {
  readonly env: Env;
  readonly version: string;
  readonly terminal: Terminal;
  readonly log: Log;
  /** Prints to stdout; the text is made harmless first. Our own colours go through `paint`. */
  print(text: string): void;
  /** One JSON value on stdout. */
  printJson(value: unknown): void;
  /** Opens the state directory and the index; closed by `main` when the command ends. */
  open(options?: OpenOptions): Promise<Deps>;
  /** Nobody takes what is still to be written to stdout: the process ends without waiting for it. */
  abandonOutput(): void;
  /** The same with the config of another directory. */
  configure(deps: Deps, options: OpenOptions): Promise<Deps>;
  /** Files of a project that decide what is executed: the user must have trusted them as they are. */
  trust(deps: Deps, files: readonly RunbookSource[], options: OpenOptions): Promise<void>;
}

export interface OpenOptions {
  /** Whose project config applies; null: none. */
  readonly cwd?: string | null;
  /** Starts agents, so a project config that could run programs must be trusted. */
  readonly runsAgents?: boolean;
  readonly trustCwd?: boolean;
  /** Only says what a start would do: `trustCwd` is obeyed and not recorded, and a lack of trust is named. */
  readonly plans?: boolean;
  /**
   * A config file that cannot be read: refuse (what starts agents, or says what a start would do), warn and go on with
   * defaults (everything else), or report (the command itself says it).
   */
  readonly badConfig?: "refuse" | "warn" | "report";
  /** It removes things, and so may use the room that is kept in reserve for a full disk. */
  readonly makesRoom?: boolean;
  /** The handle of a run that it ends: also where the index is gone, which a live run keeps from being rebuilt. */
  readonly ends?: string;
  /** The user says that the owner of that run is gone. */
  readonly ownerGone?: boolean;
}

export interface Terminal {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  /** Columns to print in; 80 when nobody knows. */
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

type Paint = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";
const CODES: Record<Paint, number> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 };

/** Colours text of ours or text that was made harmless before. */
export function paint(terminal: Terminal, how: Paint, text: string): string {
  return terminal.color && text !== "" ? `\x1b[${CODES[how]}m${text}\x1b[0m` : text;
}

export function readTerminal(env: Env): Terminal {
  const plain = (env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb";
  const stdin = isTerminal(process.stdin);
  const stdout = isTerminal(process.stdout);
  const stderr = isTerminal(process.stderr);
  return {
    stdin,
    stdout,
    stderr,
    columns: positive(process.stdout.columns) ?? positive(Number(env["COLUMNS"])) ?? 80,
    rows: positive(process.stdout.rows) ?? 24,
    color: stdout && stderr && !plain,
  };
}

/** Node's types say boolean, but `isTTY` is undefined on a file, a pipe and /dev/null. */
function isTerminal(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true;
}

/** Warnings and notes, to stderr, one line each. A warning is worth saying once. */
export function stderrLog(quiet: boolean): Log {
  const warned = new Set<string>();
  const line = (label: string, message: string) =>
    process.stderr.write(`reprise: ${label}${harmless(message)}\n`);
  return {
    warn: (message) => {
      if (warned.has(message)) return;
      warned.add(message);
      line("warning: ", message);
    },
    info: (message) => void (quiet || line("", message)),
  };
}

function positive(value: number | undefined): number | null {
  return value !== undefined && Number.isSafeInteger(value) && value > 0 ? value : null;
}
