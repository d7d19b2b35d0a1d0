/**
 * A child on two terminals: stdout (its controlling terminal) and stderr.
 *
 * The only file that knows node-pty, and only how to open and resize a terminal. The child starts like any other and
 * opens the terminals by path.
 */
import type { TerminalSize } from "../lib/terminal-state.ts";
import { randomInt } from "node:crypto";
import { closeSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { ReadStream } from "node:tty";
import type { Exit, Stream } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import {
  launch,
  lockWords,
  privateDescriptors,
  settle,
  TAKE_LOCK,
  type Child,
  type ChildSpec,
  type Flow,
  type SpawnedChild,
  type OnOutput,
  shellUnsafeEnv,
} from "./child.ts";

/** `interactive`: the terminal is also stdin, and `spec.stdin` must be null. */
export interface PtySpec extends ChildSpec {
  readonly size: TerminalSize;
  readonly interactive: boolean;
}

/**
 * Constant: everything that varies is a positional parameter. The first terminal that a session leader opens becomes
 * its controlling terminal. The check of the parent is needed because it may have died before its death signal was set
 * up.
 */
const SCRIPT = `
[ "$PPID" = "$1" ] || exit 143
${TAKE_LOCK}
exec 1<>"$4" 2<>"$5"
[ "$6" = pipe ] || exec 0<&1
shift 6
exec "$@"
`;

export async function spawnPty(spec: PtySpec, onOutput: OnOutput): Promise<Child> {
  const native = loadNative();
  const flow: Flow = { paused: false, chunks: 0 };
  const deliver = (stream: Stream) => (chunk: Buffer) => {
    flow.chunks += 1;
    onOutput(stream, chunk);
  };
  const terminals: Terminal[] = [];
  try {
    for (const stream of ["stdout", "stderr"] as const) {
      terminals.push(new Terminal(native, spec.size, deliver(stream)));
    }
    const [out = "", err = ""] = terminals.map((terminal) => terminal.path);
    const shell = ["/bin/sh", "-c", SCRIPT, "sh", String(process.pid), ...lockWords(spec), out, err];
    const launched = await launch(
      { ...spec, env: { TERM: "xterm-256color", ...spec.env } },
      {
        prefix: [...shell, spec.interactive ? "terminal" : "pipe", ...shellUnsafeEnv(spec.env)],
        output: "ignore",
      },
    );
    return live(launched, terminals, flow);
  } catch (error) {
    for (const terminal of terminals) terminal.close();
    throw error;
  }
}

function live(launched: SpawnedChild, terminals: readonly Terminal[], flow: Flow): Child {
  return {
    identity: launched.identity,
    ended: end(launched, terminals, flow),
    pause() {
      flow.paused = true;
      for (const terminal of terminals) terminal.pause();
    },
    resume() {
      flow.paused = false;
      for (const terminal of terminals) terminal.resume();
    },
    write(data) {
      terminals[0]?.write(data);
      return true;
    },
    closeInput() {},
    resize(size) {
      for (const terminal of terminals) terminal.resize(size);
    },
  };
}

async function end(launched: SpawnedChild, terminals: readonly Terminal[], flow: Flow): Promise<Exit> {
  const exit = await launched.exited;
  await settle(Promise.all(terminals.map((terminal) => terminal.drained())), flow);
  for (const terminal of terminals) terminal.close();
  return exit;
}

/** How often to offer the end mark to a full terminal. */
const OFFER_MS = 5;

/**
 * One terminal with both ends. While this process also holds the child's end, the system reports no hang-up, at which
 * libuv before 1.52 drops unread output.
 */
class Terminal {
  readonly path: string;
  readonly #native: Native;
  readonly #descriptor: number;
  readonly #childEnd: number;
  readonly #stream: ReadStream;
  readonly #deliver: (chunk: Buffer) => void;
  #endMark: EndMark | null = null;
  #open = true;

  constructor(native: Native, size: TerminalSize, deliver: (chunk: Buffer) => void) {
    const opened = openNative(native, size);
    this.path = opened.pty;
    this.#native = native;
    this.#descriptor = opened.master;
    this.#childEnd = opened.slave;
    this.#deliver = deliver;
    privateDescriptors.add(opened.master).add(opened.slave);
    this.#stream = new ReadStream(opened.master);
    this.#stream.on("error", () => this.#endMark?.found());
    this.#stream.on("data", (chunk: Buffer) => this.#take(chunk));
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  write(data: Buffer | string): void {
    if (this.#open) this.#stream.write(data);
  }

  resize(size: TerminalSize): void {
    if (this.#open) this.#native.resize(this.#descriptor, size.cols, size.rows);
  }

  /**
   * Writes a mark after all output of the child and resolves when it arrives at our end. The mark is all digits, which
   * no terminal mode changes; it is not delivered.
   */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      const mark = Buffer.from(Array.from({ length: 32 }, () => randomInt(10)).join(""));
      this.#endMark = { mark, held: Buffer.alloc(0), found: resolve };
      this.#offer(mark);
    });
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    if (this.#endMark !== null && this.#endMark.held.length > 0) this.#deliver(this.#endMark.held);
    this.#stream.once("close", () => privateDescriptors.delete(this.#descriptor));
    this.#stream.destroy();
    privateDescriptors.delete(this.#childEnd);
    closeSync(this.#childEnd);
  }

  #take(chunk: Buffer): void {
    if (this.#endMark === null) return this.#deliver(chunk);
    const { mark, held, found } = this.#endMark;
    const all = Buffer.concat([held, chunk]);
    const at = all.indexOf(mark);
    const sure = at === -1 ? Math.max(0, all.length - mark.length + 1) : at;
    this.#endMark.held = at === -1 ? all.subarray(sure) : Buffer.alloc(0);
    if (sure > 0) this.#deliver(all.subarray(0, sure));
    if (at !== -1) found();
    return undefined;
  }

  /** The descriptor does not block: a full terminal accepts a part or nothing, and the rest is offered again. */
  #offer(rest: Buffer): void {
    if (!this.#open) return;
    let written = 0;
    try {
      written = writeSync(this.#childEnd, rest);
    } catch {
      // Full (EAGAIN), or stopped by flow control. Silence ends the wait.
    }
    if (written < rest.length) setTimeout(() => this.#offer(rest.subarray(written)), OFFER_MS);
  }
}

interface EndMark {
  readonly mark: Buffer;
  /** Possibly the beginning of the mark. */
  held: Buffer;
  readonly found: () => void;
}

/** The used part of node-pty's binding. It is private to node-pty, so its version is pinned. */
interface Native {
  open(cols: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string };
  resize(descriptor: number, cols: number, rows: number): void;
}

export function opensTerminals(): boolean {
  try {
    loadNative();
    return true;
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

function loadNative(): Native {
  const require = createRequire(import.meta.url);
  try {
    const loader = require("@lydell/node-pty/requireBinary.js") as { requireBinary(file: string): Native };
    return loader.requireBinary("pty.node");
  } catch (cause) {
    throw new Fault(
      "platform_unsupported",
      "Reprise cannot open a terminal: the package @lydell/node-pty has no build for this system. Use --mode pipe.",
      { facts: { platform: `${process.platform}-${process.arch}` }, cause },
    );
  }
}

function openNative(native: Native, size: TerminalSize): ReturnType<Native["open"]> {
  try {
    return native.open(size.cols, size.rows);
  } catch (cause) {
    throw new Fault("spawn_failed", "The system has no free terminal. Try again later or use --mode pipe.", {
      cause,
    });
  }
}
