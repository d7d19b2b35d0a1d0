/**
 * What every command gets: its terminal, and access to the state directory on request.
 */
import type { Env, Log } from "../core/deps.ts";
import type { RunbookSource } from "../core/runbook.ts";
import { harmless } from "../lib/harmless.ts";
import { codeOf, type Style } from "../lib/palette.ts";
import type { Deps } from "../run/run.ts";

export interface Context {
  readonly env: Env;
  readonly version: string;
  readonly terminal: Terminal;
  readonly log: Log;
  /** Prints to stdout, after making the text harmless. Our own colours go through `paint`. */
  print(text: string): void;
  printJson(value: unknown): void;
  /** Opens the state directory and the index; `main` closes them when the command ends. */
  open(options?: ContextOptions): Promise<Deps>;
  /** Ends the process without waiting for pending writes to stdout. */
  abandonOutput(): void;
  /** The same, with the config of another directory. */
  configure(deps: Deps, options: ContextOptions): Promise<Deps>;
  /** A project's files that decide what runs: the user must have trusted their current content. */
  trust(deps: Deps, files: readonly RunbookSource[], options: ContextOptions): Promise<void>;
}

export interface ContextOptions {
  /** The directory whose project config applies. Null: no project config. */
  readonly cwd?: string | null;
  /** Starts agents, so a project config that could run programs must be trusted. */
  readonly runsAgents?: boolean;
  readonly trustCwd?: boolean;
  /** Only describes a start: obeys `trustCwd` without recording it, and reports missing trust. */
  readonly plans?: boolean;
  /**
   * For an unreadable config file. refuse: commands that start agents or describe a start. warn: use defaults (all
   * others). report: the command reports it itself.
   */
  readonly badConfig?: "refuse" | "warn" | "report";
  /** Removes things, so it may use the reserve for a full disk. */
  readonly makesRoom?: boolean;
  /** The handle of a run to end, even if the index is lost; the live run prevents its rebuild. */
  readonly ends?: string;
  /** The user states that the owner of that run is gone. */
  readonly ownerGone?: boolean;
}

export interface Terminal {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  /** Width for printing; 80 if unknown. */
  readonly columns: number;
  readonly rows: number;
  readonly color: boolean;
}

/** A person sits at a terminal that can draw a screen. */
export function canAsk({ terminal, env }: Pick<Context, "terminal" | "env">): boolean {
  return terminal.stdin && terminal.stdout && env["TERM"] !== "dumb";
}

/** A meaning of the palette, or the colour that has it. */
type Paint = Style | keyof typeof COLOURS;
const COLOURS = { red: "bad", green: "good", yellow: "warn", cyan: "accent" } as const;

/** Colours our own text or text that is already harmless. */
export function paint(terminal: Terminal, how: Paint, text: string): string {
  if (!terminal.color || text === "") return text;
  return `\x1b[${codeOf(how in COLOURS ? COLOURS[how as keyof typeof COLOURS] : (how as Style))}m${text}\x1b[0m`;
}

/** `--color`: by the terminal and its environment, always, or never. */
export type ColorWish = "auto" | "always" | "never";

export function readTerminal(env: Env, wish: ColorWish = "auto"): Terminal {
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
    color: wish === "auto" ? stdout && stderr && !plain : wish === "always",
  };
}

/** Node's types say boolean, but `isTTY` is undefined on a file, a pipe and /dev/null. */
function isTerminal(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true;
}

/** Warnings and notes to stderr, one line each, each warning once. */
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

/** Null: the directory is gone, together with its config. */
export function currentDirectory(): string | null {
  try {
    return process.cwd();
  } catch {
    return null;
  }
}
