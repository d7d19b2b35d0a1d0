/**
 * The transcript of one review session: every line to and from Codex, as JSON lines, across all attempts. Append-only;
 * a line that a crash cut off is ended before the next one.
 *
 * A line is `{"t", "dir": "in" | "out", "message"}` for JSON, with `"text"` in place of `"message"` for anything else,
 * or `{"t", "type", …}` for Reprise's own remarks. Exact, and therefore sensitive, like the tape.
 */
import { closeSync, existsSync, fdatasyncSync } from "node:fs";
import type { StateDir } from "../state/directory.ts";
import { checkOwnDirectory, makeDirectory, storageFault, writeFully, openNew } from "../state/files.ts";
import { openLog } from "../state/tape.ts";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import type { Clock } from "../core/deps.ts";
import type { QuestionAnswer, FileChange } from "../core/events.ts";
import { parseObject } from "../lib/json.ts";

/** Separates two attempts in one transcript. */
export const RESUMED = "--- session resumed ---";
const MAX_LINE = 16 * 1024 * 1024;

export type TranscriptRemark =
  | {
      readonly type: "session_resumed";
      readonly text: typeof RESUMED;
      readonly thread_id: string;
      readonly handle: string;
      /** Of `reprise resume`: the number of the run's attempt, and when it began. Absent: a review continued. */
      readonly attempt?: number;
      readonly started_at?: string;
    }
  /** Of an attempt that no review made: its message (the beginning, redacted) and its outcome. */
  | { readonly type: "message"; readonly attempt: number; readonly text: string }
  | {
      readonly type: "attempt_ended";
      readonly attempt: number;
      readonly status: string;
      readonly reason: string;
      readonly ended_at: string | null;
    }
  | {
      readonly type: "approval";
      readonly id: string;
      readonly key: string;
      readonly about: string;
      readonly what: string;
      /** The diff of each file, cut and without secrets; the line with Codex's announcement has it in full. */
      readonly changes?: readonly FileChange[];
      readonly decision: QuestionAnswer;
      /** `kept`: by an earlier approval of the session; `policy`: by --approve, without asking. */
      readonly by: "user" | "kept" | "policy";
    }
  | { readonly type: "note"; readonly text: string };

/** The directory of transcripts and sidecars; made on first use, if it can be made. */
export function reviewsDirectory(state: StateDir): string {
  const directory = join(state.root, "reviews");
  if (state.writable) makeDirectory(directory);
  else checkOwnDirectory(directory);
  return directory;
}

/** False: it exists already. */
export function createTranscript(path: string): boolean {
  try {
    closeSync(openNew(path));
    return true;
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false;
    throw storageFault(error, "create", path);
  }
}

/** If the transcript is missing, begins a new one with a note about it. */
export function openTranscript(path: string, clock: Clock): Transcript {
  const missing = !existsSync(path);
  const transcript = new Transcript(path, openLog(path), clock);
  if (missing) transcript.remark({ type: "note", text: "the earlier transcript is missing" });
  return transcript;
}

export class Transcript implements Disposable {
  readonly #path: string;
  readonly #fd: number;
  readonly #clock: Clock;
  /** The disk took only a part of the last line. */
  #torn = false;
  #open = true;

  constructor(path: string, fd: number, clock: Clock) {
    this.#path = path;
    this.#fd = fd;
    this.#clock = clock;
  }

  /** A line `out` to Codex or `in` from it. Survives the death of this process when it returns. */
  line(dir: "in" | "out", line: string): void {
    const start = `{"t":${this.#now()},"dir":"${dir}"`;
    const text = line.trim();
    if (text.length > MAX_LINE) {
      this.#write(
        `${start},"text":${JSON.stringify(text.slice(0, MAX_LINE))},"cut":${text.length - MAX_LINE}}`,
      );
    } else if (parseObject(text) !== undefined && !/[\r\n]/.test(text)) {
      this.#write(`${start},"message":${text}}`);
    } else this.#write(`${start},"text":${JSON.stringify(line)}}`);
  }

  /** On disk when it returns. */
  remark(remark: TranscriptRemark): void {
    this.#write(`{"t":${this.#now()},${JSON.stringify(remark).slice(1)}`);
    this.#sync();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    try {
      this.#sync();
    } finally {
      closeSync(this.#fd);
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #write(line: string): void {
    const data = Buffer.from(`${this.#torn ? "\n" : ""}${line}\n`);
    let written = 0;
    try {
      writeFully(this.#fd, data, (bytes) => {
        written += bytes;
      });
      this.#torn = false;
    } catch (error) {
      this.#torn ||= written > 0;
      throw storageFault(error, "write", this.#path);
    }
  }

  #sync(): void {
    try {
      fdatasyncSync(this.#fd);
    } catch (error) {
      throw storageFault(error, "write", this.#path);
    }
  }

  #now(): string {
    return JSON.stringify(new Date(this.#clock.now()).toISOString());
  }
}
