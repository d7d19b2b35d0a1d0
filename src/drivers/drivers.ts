/**
 * How a live agent is talked to: started on pipes or on a terminal, heard line by line, ended as a whole.
 *
 * The door of the folder. It knows what an engine's reader understands, and nothing of runs or stores.
 */
import type { EngineEvent, Exit, SeenEvent, Stream } from "../core/events.ts";
import type { Mode, ProcessIdentity } from "../core/records.ts";
import type { OutputReader } from "../engines/engine.ts";
import { plain } from "../lib/harmless.ts";
import { LineSplitter } from "../lib/lines.ts";
import {
  endTree,
  spawnPiped,
  spawnPty,
  type Child,
  type ChildSpec,
  type Ladder,
  type Rung,
  type TerminalSize,
} from "../process/process.ts";

export { restoreFile, sessionFiles, setAside } from "./session-files.ts";

export interface AgentHooks {
  /** Every chunk, before anything is made of it (I7). */
  raw(stream: Stream, chunk: Buffer): void;
  events(events: readonly SeenEvent[]): void;
}

export interface AgentOptions {
  readonly mode: Mode;
  /** Only with `pty`: the terminal is stdin too. */
  readonly interactive: boolean;
  /** Of the terminal; 80 by 24 when absent. */
  readonly size?: TerminalSize;
  readonly child: ChildSpec;
  /** Names the attempt in the environment of the agent and of all that it starts. */
  readonly marker: string;
  /** Null: nothing is understood, only captured. */
  readonly reader: OutputReader | null;
  readonly hooks: AgentHooks;
  /** How patient `end` is; 5 s each for SIGINT and SIGTERM when absent. */
  readonly ladder?: Ladder;
}

export interface LiveAgent {
  readonly identity: ProcessIdentity;
  /** Resolves after the last chunk and the last event. Never rejects. */
  readonly ended: Promise<Exit>;
  pause(): void;
  resume(): void;
  write(data: Buffer | string): void;
  resize(size: TerminalSize): void;
  /** Asks the agent to stop, as Ctrl-C does; nobody is forced. */
  interrupt(): void;
  /** SIGINT, SIGTERM, SIGKILL, from `from` on, to the whole tree. */
  end(from?: Rung): Promise<{ readonly survivors: readonly number[] }>;
  /** The last 8 KiB of stderr, without control sequences. */
  stderrTail(): string;
}

const LADDER: Ladder = { interruptMs: 5000, terminateMs: 5000 };
const SIZE: TerminalSize = { cols: 80, rows: 24 };
const TAIL_BYTES = 8192;

export async function openAgent(options: AgentOptions): Promise<LiveAgent> {
  const { hooks, marker, ladder = LADDER } = options;
  const hearing = options.reader === null ? null : new Hearing(options.reader, hooks);
  let tail = Buffer.alloc(0);
  const child = await start(options, (stream, chunk) => {
    hooks.raw(stream, chunk);
    if (stream === "stderr") tail = lastBytes(tail, chunk);
    hearing?.take(stream, chunk);
  });
  const ended = child.ended.then((exit) => {
    hearing?.end(exit);
    return exit;
  });
  return {
    identity: child.identity,
    ended,
    pause: () => child.pause(),
    resume: () => child.resume(),
    write: (data) => child.write(data),
    resize: (size) => child.resize(size),
    interrupt: () => child.interrupt(),
    end: (from) => endTree(child.identity, marker, ladder, from),
    stderrTail: () => plain(tail.toString("utf8")),
  };
}

function start(options: AgentOptions, onOutput: AgentHooks["raw"]): Promise<Child> {
  const { mode, interactive, size = SIZE, marker } = options;
  const child = { ...options.child, marker };
  return mode === "pty" ? spawnPty({ ...child, interactive, size }, onOutput) : spawnPiped(child, onOutput);
}

/** A longer line is captured but not understood. */
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
    const line = this.#lines.stdout.count;
    if (last.length > 0) this.#hooks.events(last.map((event) => ({ event, stream: "stdout", line })));
  }

  /** One report a chunk. A flood of lines that nobody understands costs one event, not millions. */
  #read(stream: Stream, lines: readonly string[]): void {
    const seen: SeenEvent[] = [];
    let unknown = 0;
    const flush = (line: number) => {
      if (unknown > 0) seen.push({ event: { type: "unknown", lines: unknown }, stream, line });
      unknown = 0;
    };
    for (const text of lines) {
      const line = (this.#lines[stream].count += 1);
      for (const event of understood(() => this.#reader.line(stream, text))) {
        if (event.type === "unknown") unknown += 1;
        else {
          flush(line - 1);
          seen.push({ event, stream, line });
        }
      }
    }
    flush(this.#lines[stream].count);
    if (seen.length > 0) this.#hooks.events(seen);
  }
}

/** A reader must not throw; if one does, the line counts as not understood and the capture goes on (I9). */
function understood(read: () => readonly EngineEvent[]): readonly EngineEvent[] {
  try {
    return read();
  } catch {
    return [{ type: "unknown" }];
  }
}

/** A copy, so that no chunk is kept alive by its last bytes. */
function lastBytes(before: Buffer, chunk: Buffer): Buffer<ArrayBuffer> {
  const fresh = chunk.subarray(-TAIL_BYTES);
  const old = before.subarray(Math.max(0, before.length + fresh.length - TAIL_BYTES));
  return Buffer.concat([old, fresh]);
}
