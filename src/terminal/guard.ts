/**
 * Restores the terminal if this process is killed: a small shell waits for the end of a pipe that only this process
 * holds. Without it, `kill -9` leaves a raw terminal without echo on the alternate screen.
 */
import { spawn, spawnSync } from "node:child_process";
import { LEAVE } from "./paint.ts";

/**
 * A word on the pipe means a normal end. Otherwise leaves the alternate screen, and sets the old modes unless a shell has
 * set its own (interactive shells keep signals on, a raw terminal does not).
 */
const SCRIPT = `trap '' INT QUIT HUP TSTP TTOU TTIN
read -r word && exit 0
printf '%s' "$LEAVE" >/dev/tty
case $(stty -a </dev/tty) in *-isig*) stty "$MODES" </dev/tty ;; esac`;

export interface TerminalGuard {
  release(): void;
}

/** For the terminal on stdin, before it becomes raw. Null: this system has no `stty`. */
export function guardTerminal(): TerminalGuard | null {
  const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LEAVE };
  const { status, stdout } = spawnSync("stty", ["-g"], {
    stdio: ["inherit", "pipe", "ignore"],
    encoding: "utf8",
    timeout: 1_000,
    env,
  });
  if (status !== 0) return null;
  const child = spawn("/bin/sh", ["-c", SCRIPT], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { ...env, MODES: stdout.trim() },
  });
  child.on("error", () => {});
  child.stdin.on("error", () => {});
  child.unref();
  return { release: () => void child.stdin.end("done\n") };
}
