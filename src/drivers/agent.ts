/** A live agent as its owner sees it, whatever the driver, and the output handling that all drivers share. */
import type { TerminalSize } from "../lib/terminal-state.ts";
import type { QuestionAnswer, EngineEvent, Exit, SeenEvent, Stream } from "../core/events.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { plain } from "../lib/harmless.ts";
import type { EndingTimes, EndingStep } from "../process/process.ts";

export interface AgentHooks {
  /** Every chunk, before it is interpreted (I7). */
  raw(stream: Stream, chunk: Buffer): void;
  events(events: readonly SeenEvent[]): void;
}

export interface LiveAgent {
  readonly identity: ProcessIdentity;
  /** Resolves after the last chunk and the last event. Never rejects. */
  readonly ended: Promise<Exit>;
  pause(): void;
  resume(): void;
  /** Types into the agent's terminal, if it has one. */
  write(data: Buffer | string): void;
  resize(size: TerminalSize): void;
  /** Answers a question of the agent; does nothing without an open question. */
  answer(id: string, decision: QuestionAnswer): void;
  /** Asks the agent to stop, as Ctrl-C does, without force. Returns the processes that may not be signalled. */
  interrupt(): readonly number[];
  /** Like `interrupt`, then SIGTERM, then SIGKILL, starting at `from`, to the whole tree. */
  end(from?: EndingStep): Promise<{ readonly survivors: readonly number[] }>;
  /** The last `TAIL_BYTES` of stderr, without control sequences. */
  stderrTail(): string;
  /** The same of stdout; empty if stdout is not prose. */
  stdoutTail(): string;
}

export const LADDER: EndingTimes = { interruptMs: 5000, terminateMs: 5000 };
export const TAIL_BYTES = 8192;

/** Events to report together. A flood of unknown lines costs one event, not millions. */
export class EventBatch {
  readonly #stream: Stream;
  readonly #report: AgentHooks["events"];
  #seen: SeenEvent[] = [];
  #unknown = 0;
  #line = 0;

  constructor(stream: Stream, report: AgentHooks["events"]) {
    this.#stream = stream;
    this.#report = report;
  }

  add(event: EngineEvent, line: number): void {
    if (event.type === "unknown") {
      this.#unknown += event.lines ?? 1;
      this.#line = line;
      return;
    }
    this.#closeUnknown();
    this.#seen.push({ event, stream: this.#stream, line });
  }

  flush(): void {
    this.#closeUnknown();
    const seen = this.#seen;
    this.#seen = [];
    if (seen.length > 0) this.#report(seen);
  }

  #closeUnknown(): void {
    if (this.#unknown === 0) return;
    this.#seen.push({
      event: { type: "unknown", lines: this.#unknown },
      stream: this.#stream,
      line: this.#line,
    });
    this.#unknown = 0;
  }
}

export class Tail {
  #bytes = Buffer.alloc(0);

  /** Copies, so that the last bytes do not keep a chunk alive. */
  add(chunk: Buffer): void {
    const fresh = chunk.subarray(-TAIL_BYTES);
    const old = this.#bytes.subarray(Math.max(0, this.#bytes.length + fresh.length - TAIL_BYTES));
    this.#bytes = Buffer.concat([old, fresh]);
  }

  text(): string {
    return plain(this.#bytes.toString("utf8"));
  }
}
