/**
 * stdout and stderr of the scripted agent, written synchronously so that output before a death really arrives, and
 * distorted on request (CRLF, split lines, silence, a closed stdout).
 */
import { closeSync, writeSync } from "node:fs";
import { isErrno } from "../core/errno.ts";

export interface Output {
  /** One line on stdout. */
  line(text: string): void;
  /** One JSON line on stdout. */
  json(value: unknown): void;
  /** Unchanged bytes on stdout. */
  raw(bytes: string | Uint8Array): void;
  err(text: string): void;
  bend(how: "crlf" | "split" | "silent"): void;
  /** Closes stdout for good; later output is dropped. */
  close(): void;
}

export function makeOutput(): Output {
  let eol = "\n";
  let split = false;
  let dropped = false;
  const raw = (bytes: string | Uint8Array): void => {
    if (!dropped) writeAll(1, typeof bytes === "string" ? Buffer.from(bytes) : bytes);
  };
  const line = (text: string): void => {
    if (!split) return raw(text + eol);
    split = false;
    const half = Math.floor(text.length / 2);
    raw(text.slice(0, half));
    pause(50);
    raw(text.slice(half) + eol);
  };
  return {
    line,
    raw,
    json: (value) => line(JSON.stringify(value)),
    err: (text) => writeAll(2, Buffer.from(text.endsWith("\n") ? text : `${text}\n`)),
    bend(how) {
      if (how === "crlf") eol = "\r\n";
      else if (how === "split") split = true;
      else dropped = true;
    },
    close() {
      if (!dropped) closeSync(1);
      dropped = true;
    },
  };
}

/** A terminal that another process made non-blocking answers EAGAIN, so this waits. */
function writeAll(fd: number, bytes: Uint8Array): void {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += writeSync(fd, bytes, at);
    } catch (error) {
      if (!isErrno(error, "EAGAIN")) throw error;
      pause(2);
    }
  }
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
