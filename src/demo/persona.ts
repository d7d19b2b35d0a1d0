/**
 * Everything that makes a scripted agent look like an engine: its command line, its session store and its output.
 * `demo.ts` is the shipped persona; `test/actors/` has the personas of real engines for tests. No I/O here.
 */
import type { Output } from "./output.ts";

export interface Persona {
  readonly id: string;
  /** The output of `--version`. */
  readonly version: string;
  /** Throws a Refusal for a command line that the engine refuses. */
  parse(argv: readonly string[], world: DemoWorld): Request;
  /** Throws a Refusal if the requested session does not exist. */
  open(request: Request, world: DemoWorld): Promise<DemoConversation>;
  /** Serves on stdin and stdout and returns the exit code. Null: this command line does not ask for a server. */
  serve?(argv: readonly string[], stage: Stage): Promise<number> | null;
  speak(request: Request, conversation: DemoConversation, out: Output): DemoVoice;
  /** Opens its UI on a terminal. Absent: a chat reads lines. */
  ui?(stage: Stage): Ui;
  /** Registers the conversation of this process, for engines with such a registry. */
  enter?(session: string, world: DemoWorld): void;
}

/** The environment in which a persona acts. */
export interface Stage {
  readonly world: DemoWorld;
  readonly out: Output;
  readonly journal: Journal;
}

/** The agent's own account of events (`journal.ts`). */
export interface Journal {
  write(event: string, facts?: Readonly<Record<string, unknown>>): void;
}

export interface DemoWorld {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Both stdin and stdout are terminals. */
  readonly terminal: boolean;
  now(): Date;
}

export interface Request {
  readonly how: "new" | "resume" | "fork";
  /** new: the id to choose, null for a random one. resume, fork: the session to continue. */
  readonly session: string | null;
  /** The id for a fork; null for a random one. */
  readonly forkTo: string | null;
  /** Null: no prompt on the command line. */
  readonly prompt: string | null;
  /** message: stdin is the prompt. append: stdin is read to its end and added. none: stdin is not read. */
  readonly stdin: "message" | "append" | "none";
  /** Reads turns from the terminal in a loop. */
  readonly chat: boolean;
  /** text, json (one object at the end) or jsonl. */
  readonly format: "text" | "json" | "jsonl";
  readonly cwd: string;
  /** Options in force, repeated in every answer. */
  readonly facts: Readonly<Record<string, string>>;
  /** A script file named on the command line. */
  readonly script: string | null;
  /** Nothing is stored. */
  readonly ephemeral: boolean;
}

/** The session store in one turn. Each call is durable when it returns. */
export interface DemoConversation {
  readonly id: string;
  /** The user's messages of earlier turns, oldest first. */
  readonly earlier: readonly string[];
  user(text: string): Promise<void>;
  assistant(text: string): Promise<void>;
  /** The turn failed. Absent: the user's message simply stays. */
  failed?(trouble: DemoTrouble): Promise<void>;
  /** Publishes what this process does, for engines that can. */
  status?(status: DemoStatus): void;
  /** A tool call that needs permission, and its result. */
  wanted?(command: string): Promise<void>;
  answered?(may: boolean): Promise<void>;
}

export type DemoStatus = "idle" | "busy" | "waiting";

/** A UI that reads keys instead of lines. */
export interface Ui {
  /** Resolves when it accepts messages. */
  ready(): Promise<void>;
  /** The next message; null at the end. */
  line(): Promise<string | null>;
  status(talk: DemoConversation, status: DemoStatus): void;
  /** Asks for permission within this conversation. */
  asking(talk: DemoConversation): NonNullable<DemoVoice["ask"]>;
}

export interface DemoVoice {
  /** A structured line of this engine that names a forged session. */
  readonly forgery: string;
  session(): void;
  turnStarted(message: string): void;
  /** A piece of the answer; pieces follow each other without a break. */
  text(piece: string): void;
  toolStarted(id: string, name: string, detail: string): void;
  toolEnded(tool: { readonly id: string; readonly name: string; readonly output: string }): void;
  /** Reports that the tool was denied. Absent: reported like a tool that ended. */
  toolDenied?(tool: { readonly id: string; readonly name: string; readonly detail: string }): void;
  /** Asks for permission. Absent: cannot ask. */
  ask?(asked: {
    readonly id: string;
    readonly about: "command" | "files";
    readonly what: string;
    readonly cwd: string;
  }): Promise<boolean>;
  retry(trouble: DemoTrouble, attempt: number, delayMs: number): void;
  /** Each of the three returns the exit code. */
  completed(): number;
  failed(trouble: DemoTrouble): number;
  /** SIGINT arrived. Null: die by the signal. */
  interrupted(): number | null;
}

export const DEMO_TROUBLES = [
  "rate_limited",
  "quota",
  "auth",
  "overloaded",
  "network",
  "context_full",
  "busy",
] as const;

export interface DemoTrouble {
  readonly kind: (typeof DEMO_TROUBLES)[number];
  readonly status: number | null;
  /** ISO 8601 */
  readonly resetsAt: string | null;
}

/** The engine refuses before a turn begins. */
export class DemoRefusal extends Error {
  override readonly name = "Refusal";
  readonly exit: number;
  readonly stdout: string;

  constructor(exit: number, stderr: string, stdout = "") {
    super(stderr);
    this.exit = exit;
    this.stdout = stdout;
  }
}

/** An id that no session has: forged lines carry it. */
export const FORGED_UUID = "deadbeef-dead-4ead-8ead-deadbeefdead";

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
