/**
 * This process as a job of the user's shell, and how it leaves the terminal without ending: it stops like a job at
 * Ctrl-Z, so that the shell takes the terminal back, and a helper continues it at once in the background.
 */
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import type { Deps } from "../run/run.ts";
import type { HeldAttempt, OwnAttempt } from "./holder.ts";

interface ShellJob {
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The process group that has the terminal. */
  readonly foreground: number;
}

/**
 * Waits until the process has stopped and the shell has the terminal: a job that continues earlier stays in the
 * foreground. Fields after the name: state, parent, group, session, terminal, foreground group.
 */
const CONTINUE = `tries=0
while [ $tries -lt 150 ]; do
  read -r line <"/proc/$1/stat" || exit 0
  set -- "$1" \${line##*) }
  [ "$2" = T ] && [ "$4" != "$7" ] && break
  tries=$((tries + 1))
  sleep 0.02
done
kill -s CONT -- "-$4"`;
const STOPPED_MS = 5_000;

/** Makes this process the holder of the attempt that it runs. Null: no shell would take the terminal, or no socket can be made. */
export async function holdOwn(deps: Deps, own: OwnAttempt): Promise<HeldAttempt | null> {
  if (!isShellJob()) return null;
  const holder = await import("./holder.ts");
  return holder.holdOwn(deps, own).catch((error: unknown) => {
    if (!(error instanceof Fault)) throw error;
    return null;
  });
}

/** A shell with job control waits for the group of this process, which has the terminal. False without `/proc`. */
function isShellJob(): boolean {
  const own = jobOf("self");
  if (own === null || own.group !== own.foreground) return false;
  const leader = jobOf(own.group);
  const shell = leader === null ? null : jobOf(leader.parent);
  return shell !== null && shell.session === own.session && shell.group !== own.group;
}

/** Resolves in the background. From now on, nothing of this process reaches the terminal. */
export async function leaveTerminal(): Promise<void> {
  const helper = spawn("/bin/sh", ["-c", CONTINUE, "sh", String(process.pid)], {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
    detached: true,
    stdio: "ignore",
  });
  const isReady = await new Promise<boolean>((resolve) => {
    helper.once("spawn", () => resolve(true));
    helper.once("error", () => resolve(false));
  });
  helper.unref();
  letGo();
  // Without a helper nothing would continue this process: it keeps the terminal, and works on.
  if (!isReady) return;
  const continued = new Promise<void>((resolve) => process.once("SIGCONT", resolve));
  // The whole job, as the terminal does it.
  process.kill(0, "SIGTSTP");
  await Promise.race([continued, sleep(STOPPED_MS, undefined, { ref: false })]);
}

/**
 * Node gives the terminal at its descriptors the modes of the start when it ends. By then, the terminal belongs to the
 * shell or another program, so the descriptors must lead elsewhere.
 */
function letGo(): void {
  process.stdin.destroy();
  for (const stream of [process.stdout, process.stderr]) stream.write = () => true;
  for (const fd of [0, 1, 2]) {
    closeSync(fd);
    openSync("/dev/null", "r+");
  }
}

/** Null: there is no such process, or no `/proc`. */
function jobOf(pid: number | "self"): ShellJob | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return null;
  }
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [, parent = 0, group = 0, session = 0, , foreground = 0] = fields.map(Number);
  return { parent, group, session, foreground };
}
