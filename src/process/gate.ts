/**
 * A gate: a command whose exit code decides whether work is good. No shell sees it (I10), and no process that it
 * started outlives it.
 *
 * This file knows commands and their limits, not agents, runbooks, pipelines or issues.
 */
import { isAbsolute, join } from "node:path";
import type { Env, Processes } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine, plain } from "../lib/harmless.ts";
import type { Redact } from "../lib/secrets.ts";
import { shellLine } from "../lib/shell.ts";
import type { Child } from "./child.ts";
import { spawnPiped } from "./pipe.ts";

export interface GateRequest {
  /** One argument per element. Looks for a relative program with a slash in `cwd`, for others on PATH. */
  readonly command: readonly string[];
  readonly cwd: string;
  /** Complete: Reprise adds only the marker and `PWD`. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Reprise ends a gate that prints more, and the gate has failed. Absent: no limit. */
  readonly maxBytes?: number;
  readonly redact: Redact;
  /** Identifies this gate among all processes. Reprise ends a leftover run of the gate before the next one. */
  readonly marker: string;
}

export interface GateResult {
  readonly passed: boolean;
  /** One sentence with the reason, then the end of its output: harmless, without secrets, at most 4 KiB. */
  readonly detail: string;
}

const MAX_DETAIL = 4 * 1024;
/** Longer than the detail, so that redaction sees a secret whole even if only its end is shown. */
const KEPT_OUTPUT = 64 * 1024;
/** The largest delay of a timer; a longer one fires at once. */
const MAX_TIMER = 2 ** 31 - 1;

export async function runGate(processes: Processes, request: GateRequest): Promise<GateResult> {
  const [name = "", ...args] = request.command;
  const shown = harmlessLine(request.redact(shellLine(request.command.map(request.redact))), 120);
  const left = await endMarked(processes, request.marker);
  if (left.survivors.length > 0) {
    return {
      passed: false,
      detail: `An earlier ${shown} cannot be ended (pid ${left.survivors.join(", ")}).`,
    };
  }
  const file = name.includes("/") && !isAbsolute(name) ? join(request.cwd, name) : name;
  const output = new Tail(KEPT_OUTPUT);
  const limits = new Limits(processes, request);
  let child: Child;
  try {
    const { cwd, env, marker } = request;
    child = await spawnPiped({ file, args, cwd, env, stdin: null, marker }, (_, chunk) => {
      output.add(chunk);
      limits.printed(chunk.length);
    });
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { passed: false, detail: endOf(`${shown} could not be run: ${whyNot(error, name)}`, MAX_DETAIL) };
  }
  const verdict = await verdictOf(processes, child, request.marker, limits);
  const words = request.redact(plain(output.text())).trim();
  const first = `${shown} ${verdict.says}`;
  const room = MAX_DETAIL - Buffer.byteLength(first) - 1;
  return { passed: verdict.passed, detail: words === "" ? first : `${first}\n${endOf(words, room)}` };
}

/** The environment of a gate that defines none. */
export function plainEnv(env: Env): Record<string, string> {
  const set = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(set);
}

async function verdictOf(
  processes: Processes,
  child: Child,
  marker: string,
  limits: Limits,
): Promise<{ readonly passed: boolean; readonly says: string }> {
  limits.begin(child);
  const exit = await child.ended;
  const over = await limits.end();
  if (over !== null) return { passed: false, says: `${over} and was ended.` };
  // Leftover processes hold files and ports that the next step may need.
  await endMarked(processes, marker);
  if (exit.code === 0) return { passed: true, says: "passed." };
  const how =
    exit.code === null ? `was killed by ${exit.signal ?? "a signal"}` : `failed with exit code ${exit.code}`;
  return { passed: false, says: `${how}.` };
}

/** Ends a gate that exceeds its time or output limit. */
class Limits {
  readonly #processes: Processes;
  readonly #request: GateRequest;
  #child: Child | null = null;
  #timer: NodeJS.Timeout | null = null;
  #bytes = 0;
  #over: string | null = null;
  #ending: Promise<unknown> | null = null;

  constructor(processes: Processes, request: GateRequest) {
    this.#processes = processes;
    this.#request = request;
  }

  begin(child: Child): void {
    const { timeoutMs } = this.#request;
    this.#child = child;
    this.#timer = setTimeout(
      () => this.#stop(`took longer than ${formatDuration(timeoutMs)}`),
      Math.min(timeoutMs, MAX_TIMER),
    );
    if (this.#over !== null) this.#stop(this.#over);
  }

  printed(bytes: number): void {
    const { maxBytes } = this.#request;
    this.#bytes += bytes;
    if (maxBytes !== undefined && this.#bytes > maxBytes)
      this.#stop(`printed more than ${maxBytes / 1024 / 1024} MiB`);
  }

  /** The limit that was exceeded. Null: no limit. */
  async end(): Promise<string | null> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#ending;
    return this.#over;
  }

  #stop(why: string): void {
    this.#over ??= why;
    if (this.#child === null) return;
    this.#ending ??= this.#processes.endTree(this.#child.identity, this.#request.marker, "terminate");
  }
}

/** Usually no process is left, and one scan of the process table shows that for a third of the cost. */
async function endMarked(
  processes: Processes,
  marker: string,
): Promise<{ readonly survivors: readonly number[] }> {
  if (processes.findMarked(marker).length === 0) return { survivors: [] };
  return processes.endTree(null, marker, "terminate");
}

function whyNot(fault: Fault, name: string): string {
  if (fault.code !== "engine_missing" || name.includes("/")) return fault.message;
  return name === "" ? "the command is empty." : `there is no program ${harmlessLine(name, 80)} on PATH.`;
}

/** The last bytes of a stream. */
class Tail {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #length = 0;
  #cut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < 2 * this.#limit) return;
    this.#chunks = [Buffer.concat(this.#chunks).subarray(-this.#limit)];
    this.#length = this.#limit;
    this.#cut = true;
  }

  /** Begins with a whole line, if possible, when the start was dropped. */
  text(): string {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    return this.#cut ? text.slice(text.indexOf("\n") + 1) : text;
  }
}

/** The end of a text, at most the given number of bytes. */
function endOf(text: string, bytes: number): string {
  const all = Buffer.from(text);
  if (all.length <= bytes) return text;
  let from = all.length - bytes + Buffer.byteLength("…");
  // Skips the rest of a split character.
  while (((all[from] ?? 0) & 0xc0) === 0x80) from += 1;
  return `…${all.toString("utf8", from)}`;
}
