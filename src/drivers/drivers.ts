/**
 * Drivers: start an agent on pipes or on a terminal, read it line by line, end it as a whole.
 *
 * The door of the folder. It knows an engine's reader, not runs or stores.
 */
import type { TerminalSize } from "../lib/terminal-state.ts";
import type { EngineEvent, Exit, Stream } from "../core/events.ts";
import type { Mode } from "../core/records.ts";
import type { OutputReader } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import {
  AgentProcesses,
  spawnPiped,
  spawnPty,
  type Child,
  type ChildSpec,
  type EndingTimes,
} from "../process/process.ts";
import { type AgentHooks, EventBatch, LADDER, type LiveAgent, Tail } from "./agent.ts";

export { type LiveAgent, TAIL_BYTES } from "./agent.ts";
export { type DialogueHooks, openDialogue } from "./app-server.ts";
export { runsUnmarked, writtenBy } from "../process/process.ts";
export {
  linesFrom,
  restoreFile,
  sessionFiles,
  sessionFilesWith,
  setAside,
  watchFolder,
} from "./session-files.ts";
export { Typed } from "./typed.ts";

export interface AgentOptions {
  readonly mode: Mode;
  /** Only with `pty`: the terminal is also stdin. */
  readonly interactive: boolean;
  /** Of the terminal. Absent: 80 by 24. */
  readonly size?: TerminalSize;
  readonly child: ChildSpec;
  /** Identifies the attempt in the environment of the agent and its descendants. */
  readonly marker: string;
  /** Null: output is captured, not interpreted. */
  readonly reader: OutputReader | null;
  readonly hooks: AgentHooks;
  /** Time limits of `end`. Absent: 5 s each for SIGINT and SIGTERM. */
  readonly ladder?: EndingTimes;
}

const SIZE: TerminalSize = { cols: 80, rows: 24 };

export async function openAgent(options: AgentOptions): Promise<LiveAgent> {
  const { hooks, marker, ladder = LADDER } = options;
  const hearing = options.reader === null ? null : new Hearing(options.reader, hooks);
  const tails = { stdout: new Tail(), stderr: new Tail() };
  const child = await start(options, (stream, chunk) => {
    hooks.raw(stream, chunk);
    tails[stream].add(chunk);
    hearing?.take(stream, chunk);
  });
  const ended = child.ended.then((exit) => {
    hearing?.end(exit);
    return exit;
  });
  const family = new AgentProcesses(child.identity, marker);
  return {
    identity: child.identity,
    ended,
    pause: () => child.pause(),
    resume: () => child.resume(),
    write: (data) => void child.write(data),
    resize: (size) => child.resize(size),
    answer: () => {},
    interrupt: () => family.interrupt(),
    end: (from) => family.end(ladder, from),
    stderrTail: () => tails.stderr.text(),
    stdoutTail: () => tails.stdout.text(),
  };
}

function start(options: AgentOptions, onOutput: AgentHooks["raw"]): Promise<Child> {
  const { mode, interactive, size = SIZE, marker } = options;
  const child = { ...options.child, marker };
  return mode === "pty" ? spawnPty({ ...child, interactive, size }, onOutput) : spawnPiped(child, onOutput);
}

/** A longer line is captured but not interpreted. */
const MAX_LINE_BYTES = 1 << 20;

/** Turns chunks into lines and lines into events. */
class Hearing {
  readonly #reader: OutputReader;
  readonly #hooks: AgentHooks;
  readonly #lines = {
    stdout: { splitter: new LineSplitter(MAX_LINE_BYTES), count: 0 },
    stderr: { splitter: new LineSplitter(MAX_LINE_BYTES), count: 0 },
  };

  constructor(reader: OutputReader, hooks: AgentHooks) {
    this.#reader = reader;
    this.#hooks = hooks;
  }

  take(stream: Stream, chunk: Buffer): void {
    this.#read(stream, this.#lines[stream].splitter.push(chunk));
  }

  end(exit: Exit): void {
    for (const stream of ["stdout", "stderr"] as const) {
      this.#read(stream, this.#lines[stream].splitter.end());
    }
    const last = understood(() => this.#reader.end(exit));
    const { namesLastOn = "stdout" } = this.#reader;
    const seen = last.map((event) => {
      const stream = event.type === "session" ? namesLastOn : "stdout";
      return { event, stream, line: this.#lines[stream].count };
    });
    if (seen.length > 0) this.#hooks.events(seen);
  }

  /** One report per chunk. */
  #read(stream: Stream, lines: readonly string[]): void {
    const batch = new EventBatch(stream, (seen) => this.#hooks.events(seen));
    for (const text of lines) {
      const line = (this.#lines[stream].count += 1);
      for (const event of understood(() => this.#reader.line(stream, text))) batch.add(event, line);
    }
    batch.flush();
  }
}

/** A reader must not throw; if it does, the line counts as unknown and the capture continues (I9). */
function understood(read: () => readonly EngineEvent[]): readonly EngineEvent[] {
  try {
    return read();
  } catch {
    return [{ type: "unknown" }];
  }
}
