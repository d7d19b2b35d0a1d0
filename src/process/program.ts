/** Finds programs, and ensures that an agent does not outlive us on systems that can guarantee it. */
import { spawn, spawnSync } from "node:child_process";
import { accessSync, closeSync, constants, openSync, readSync, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";

/** The absolute path of an executable file. Ignores empty and relative elements of PATH. */
export function resolveProgram(name: string, env: Env): string | null {
  return candidates(name, env).find(isExecutable) ?? null;
}

/**
 * Like `resolveProgram`, but throws a Fault that names the problem; a script without its interpreter counts as missing.
 */
export function requireProgram(name: string, env: Env): string {
  const program = resolveProgram(name, env);
  const facts = { program: program ?? name };
  if (program === null) {
    const found = candidates(name, env).find((path) => statSync(path, { throwIfNoEntry: false })?.isFile());
    const why = found === undefined ? "was not found" : `is at ${found}, which is not executable`;
    const where = found === undefined && !name.includes("/") ? " on PATH" : "";
    throw new Fault(
      "engine_missing",
      `The program ${name} ${why}${where}. Install it, or name its path in the config.`,
      { facts },
    );
  }
  const interpreter = interpreterOf(program);
  if (interpreter !== null && !isExecutable(interpreter)) {
    throw new Fault(
      "engine_missing",
      `${program} needs ${interpreter}, which is missing or not executable. Install it again.`,
      { facts },
    );
  }
  return program;
}

/** The program that locks a file for its heirs (`flock`). Null: not installed. */
export function lockProgram(): string | null {
  return process.platform === "linux" ? resolveProgram("flock", process.env) : null;
}

const LOOK_MS = 5_000;

/** Whether another process holds the lock that `flock` takes. False if the system cannot tell. */
export function isFlocked(path: string): boolean {
  const flock = lockProgram();
  if (flock === null) return false;
  const options = {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: "ignore",
    timeout: LOOK_MS,
  } as const;
  return spawnSync(flock, ["-n", path, "true"], options).status === 1;
}

let prefix: Promise<readonly string[]> | undefined;

/**
 * A command prefix that makes the kernel send SIGTERM to the agent when this process dies. Empty without a capable
 * `setpriv` (macOS, BusyBox). The program replaces `setpriv`, so the pid stays.
 */
export function deathSignalPrefix(): Promise<readonly string[]> {
  prefix ??= findDeathSignal();
  return prefix;
}

async function findDeathSignal(): Promise<readonly string[]> {
  const setpriv = process.platform === "linux" ? resolveProgram("setpriv", process.env) : null;
  if (setpriv === null) return [];
  const words = [setpriv, "--pdeathsig", "SIGTERM", "--"];
  const works = await new Promise<boolean>((resolve) => {
    const probe = spawn(setpriv, [...words.slice(1), "/bin/sh", "-c", ":"], { stdio: "ignore" });
    probe.once("error", () => resolve(false));
    probe.once("exit", (code) => resolve(code === 0));
  });
  return works ? words : [];
}

function candidates(name: string, env: Env): readonly string[] {
  if (name === "" || name.includes("\0")) return [];
  if (name.includes("/")) return isAbsolute(name) ? [name] : [];
  return (env["PATH"] ?? "")
    .split(delimiter)
    .filter(isAbsolute)
    .map((directory) => join(directory, name));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The absolute path after `#!`. Null: not a script, or not readable; execution does not need read permission. */
function interpreterOf(program: string): string | null {
  let file: number | undefined;
  try {
    file = openSync(program, "r");
    const start = Buffer.alloc(256);
    const length = readSync(file, start, 0, start.length, 0);
    const match = /^#![ \t]*(\/[^ \t\r\n]+)/.exec(start.toString("latin1", 0, length));
    return match?.[1] ?? null;
  } catch {
    return null;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
