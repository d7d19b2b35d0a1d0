/** The daemon log: one JSON object per line. At 5 MB it becomes `d.log.1`, and a new file starts. */
import { closeSync, fstatSync, renameSync } from "node:fs";
import { writeFully } from "../state/files.ts";
import { openLog } from "../state/tape.ts";
import type { Clock, Log } from "../core/deps.ts";

const MAX_BYTES = 5 * 1024 * 1024;
const MAX_LINE = 4_000;

export interface DaemonLog extends Log {
  /** An event with facts. The facts may hold text of agents: the reader of the log makes it harmless. */
  note(what: string, facts?: Readonly<Record<string, unknown>>): void;
}

/** A failed write loses the line and must not stop the daemon. */
export function openDaemonLog(path: string, clock: Clock, pid: number): DaemonLog {
  let fd: number | null = null;
  let size = 0;
  const open = () => {
    fd = openLog(path);
    ({ size } = fstatSync(fd));
  };
  const write = (level: string, message: string, facts: Readonly<Record<string, unknown>> = {}) => {
    const at = new Date(clock.now()).toISOString();
    const line = JSON.stringify({ at, pid, level, message: message.slice(0, MAX_LINE), ...facts });
    const bytes = Buffer.from(`${line}\n`);
    try {
      if (fd === null) open();
      else if (size + bytes.length > MAX_BYTES) {
        closeSync(fd);
        fd = null;
        renameSync(path, `${path}.1`);
        open();
      }
      if (fd !== null) writeFully(fd, bytes);
      size += bytes.length;
    } catch {
      // A full disk, or a missing directory.
    }
  };
  return {
    warn: (message) => write("warn", message),
    info: (message) => write("info", message),
    note: (what, facts) => write("note", what, facts),
  };
}
