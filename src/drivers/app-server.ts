/**
 * Talks with an agent over its open stdin and stdout: one JSON object per line, each way. The dialogue interprets the
 * lines; the owner answers questions and keeps records.
 *
 * This order survives a crash: raw bytes, the line as kept, its events, and only then the reply (I2, I7).
 */
import type { QuestionAnswer, Question } from "../core/events.ts";
import type { Dialogue, DialogueMessage } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import {
  type Child,
  type ChildSpec,
  endTree,
  type EndingTimes,
  type EndingStep,
  spawnPiped,
} from "../process/process.ts";
import { type AgentHooks, EventBatch, LADDER, type LiveAgent, Tail } from "./agent.ts";

export interface DialogueHooks extends AgentHooks {
  /** Each line, before Reprise acts on it (`in`) or sends it (`out`). False: it must not. */
  wire(direction: "in" | "out", line: string): boolean;
  /** Answered through `LiveAgent.answer`. */
  question(question: Question): void;
  /** A question that no longer needs an answer. */
  settled(id: string): void;
  /** The conversation cannot continue, with the reason; the owner ends the agent. */
  stuck(why: string): void;
}

export interface DialogueOptions {
  readonly child: Omit<ChildSpec, "stdin" | "keepInput" | "marker">;
  /** Identifies the attempt in the environment of the agent and its descendants. */
  readonly marker: string;
  readonly dialogue: Dialogue;
  readonly hooks: DialogueHooks;
  readonly ladder?: EndingTimes;
  readonly patience?: Patience;
}

/** Time limits for the agent, in milliseconds. */
export interface Patience {
  /** To answer a request. */
  readonly answer: number;
  /** To end its turn on request, and then to exit. */
  readonly stop: number;
  /** The same, in a hurry. */
  readonly hurry: number;
  /** To exit after the conversation. */
  readonly leave: number;
}

const PATIENCE: Patience = { answer: 30_000, stop: 3_000, hurry: 750, leave: 5_000 };
/** Counts timer ticks, so that a process that stood still does not mistake its own delay for silence. */
const TICKS = 30;
/** A completed item holds all output of its command. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;

export async function openDialogue(options: DialogueOptions): Promise<LiveAgent> {
  const { marker, hooks, ladder = LADDER, patience = PATIENCE } = options;
  const tail = new Tail();
  let talk: Talk | null = null;
  const early: Buffer[] = [];
  const child = await spawnPiped(
    { ...options.child, stdin: null, keepInput: true, marker },
    (stream, chunk) => {
      hooks.raw(stream, chunk);
      if (stream === "stderr") tail.add(chunk);
      else if (talk === null) early.push(chunk);
      else talk.take(chunk);
    },
  );
  const live = new Talk(child, options, patience);
  talk = live;
  const ended = child.ended.then((exit) => {
    live.end();
    return exit;
  });
  const kill = (from: EndingStep) => endTree(child.identity, marker, ladder, from);
  void live.over.then(async () => {
    child.closeInput();
    if (!(await within(ended, patience.leave))) await kill("terminate");
  });
  live.open();
  for (const chunk of early) live.take(chunk);
  return {
    identity: child.identity,
    ended,
    pause() {
      live.paused = true;
      child.pause();
    },
    resume() {
      live.paused = false;
      child.resume();
    },
    write() {},
    resize() {},
    answer: (id, decision) => live.answer(id, decision),
    interrupt: () => live.interrupt(),
    async end(from = "interrupt") {
      if (from === "kill") {
        live.hush();
        return kill(from);
      }
      // A server that is killed during a turn keeps less of it than a server that is asked first, however briefly.
      const wait = from === "interrupt" ? patience.stop : patience.hurry;
      live.interrupt();
      await within(Promise.race([live.over, ended]), wait);
      live.hush();
      child.closeInput();
      await within(ended, wait);
      return kill("terminate");
    },
    stderrTail: () => tail.text(),
    stdoutTail: () => "",
  };
}

/** One conversation: lines in, events and lines out, and deadlines for pending requests. */
class Talk {
  /** Resolves when nothing more will arrive. */
  readonly over: Promise<void>;
  /** Reading is paused, so no answer can arrive. */
  paused = false;
  readonly #child: Child;
  readonly #dialogue: Dialogue;
  readonly #hooks: DialogueHooks;
  readonly #patience: Patience;
  readonly #splitter = new LineSplitter(MAX_LINE_BYTES);
  readonly #batch: EventBatch;
  readonly #watching: NodeJS.Timeout;
  #leaving: NodeJS.Timeout | undefined;
  #isOver: () => void = () => {};
  #line = 0;
  #silent = false;
  #interrupting = false;
  #waiting = { what: "", ticks: 0 };

  constructor(child: Child, { dialogue, hooks }: DialogueOptions, patience: Patience) {
    this.#child = child;
    this.#dialogue = dialogue;
    this.#hooks = hooks;
    this.#patience = patience;
    this.#batch = new EventBatch("stdout", (seen) => hooks.events(seen));
    this.over = new Promise((resolve) => {
      this.#isOver = resolve;
    });
    this.#watching = setInterval(() => this.#tick(), patience.answer / TICKS);
  }

  open(): void {
    this.#act(() => this.#dialogue.open());
    this.#batch.flush();
  }

  take(chunk: Buffer): void {
    this.#hear(this.#splitter.push(chunk));
  }

  answer(id: string, decision: QuestionAnswer): void {
    this.#act(() => this.#dialogue.answer(id, decision));
    this.#batch.flush();
  }

  /** Gives the turn time to end or not to begin, even if there was nothing to send; then lets the agent exit. */
  interrupt(): readonly number[] {
    // The agent is gone, and waiting would only keep this process alive.
    if (this.#interrupting || this.#silent) return [];
    this.#interrupting = true;
    this.#act(() => this.#dialogue.interrupt());
    this.#batch.flush();
    this.#leaving = setTimeout(() => {
      this.hush();
      this.#isOver();
    }, this.#patience.stop);
    // The request was a message, which needs no permission to signal.
    return [];
  }

  /** Stops all sending. */
  hush(): void {
    this.#silent = true;
  }

  end(): void {
    clearInterval(this.#watching);
    clearTimeout(this.#leaving);
    this.hush();
    this.#hear(this.#splitter.end());
  }

  #hear(lines: readonly string[]): void {
    for (const line of lines) {
      this.#line += 1;
      if (this.#hooks.wire("in", line)) this.#act(() => this.#dialogue.heard(line));
    }
    this.#batch.flush();
  }

  #act(say: () => DialogueMessage): void {
    const said = understood(say);
    for (const event of said.events) this.#batch.add(event, this.#line);
    // Later lines depend on earlier events, which go to disk first (I2).
    if (said.send.length + said.questions.length + said.settled.length > 0 || said.over) this.#batch.flush();
    for (const id of said.settled) this.#hooks.settled(id);
    for (const question of said.questions) this.#hooks.question(question);
    for (const line of said.send) this.#send(line);
    if (said.over) this.#isOver();
  }

  #send(line: string): void {
    if (this.#silent || !this.#hooks.wire("out", line)) return;
    if (this.#child.write(`${line}\n`)) return;
    this.hush();
    this.#hooks.stuck("the agent does not read what it is sent");
  }

  #tick(): void {
    const what = this.#dialogue.waitsFor();
    const key = what.join("\n");
    if (key === "" || this.paused || key !== this.#waiting.what) this.#waiting = { what: key, ticks: 0 };
    else this.#waiting.ticks += 1;
    if (this.#waiting.ticks !== TICKS) return;
    clearInterval(this.#watching);
    this.#hooks.stuck(
      `the agent did not answer ${what[0] ?? ""} within ${Math.round(this.#patience.answer / 1000)} s`,
    );
  }
}

/** A dialogue must not throw; if it does, the line counts as unknown and the capture continues (I9). */
function understood(say: () => DialogueMessage): DialogueMessage {
  try {
    return say();
  } catch {
    return { send: [], events: [{ type: "unknown" }], questions: [], settled: [], over: false };
  }
}

/** False: not done in time. */
async function within(done: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const result = await Promise.race([done.then(() => true), late]);
  clearTimeout(timer);
  return result;
}
