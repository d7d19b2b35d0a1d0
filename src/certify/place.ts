/**
 * The environment of one case: folders, variables, the built Reprise, and its processes. A process belongs to a case if
 * its environment names the case's folder.
 */
import { spawn, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  fstatSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Lab, LabPlace } from "./lab.ts";
import { PROXY } from "./network.ts";

export interface Bench {
  /** The suite writes only below this folder. */
  readonly root: string;
  readonly cli: string;
  readonly project: string;
}

/** The repository that cases start from. */
export function makeProject(root: string): string {
  const project = join(root, "template");
  mkdirSync(project);
  writeFileSync(join(project, "README.txt"), "A project for an agent to work in.\n");
  const env = { PATH: process.env["PATH"] ?? "", HOME: root, GIT_CONFIG_NOSYSTEM: "1" };
  const identity = ["-c", "user.name=conformance", "-c", "user.email=conformance@localhost"];
  for (const args of [
    ["init", "-q", "-b", "main"],
    ["add", "."],
    [...identity, "commit", "-q", "-m", "start"],
  ]) {
    const result = spawnSync("git", args, { cwd: project, env, encoding: "utf8" });
    if (result.status !== 0) throw new Error(`git ${args.join(" ")}: ${result.stderr}`);
  }
  return project;
}

export function makePlace(bench: Bench, name: string): LabPlace {
  const root = join(bench.root, name);
  const place: LabPlace = {
    root,
    home: join(root, "home"),
    state: join(root, "state"),
    project: join(root, "project"),
    extra: join(root, "extra"),
    more: join(root, "more"),
    tmp: join(root, "tmp"),
  };
  for (const folder of [place.home, place.extra, place.more, place.tmp])
    mkdirSync(folder, { recursive: true });
  cpSync(bench.project, place.project, { recursive: true });
  return place;
}

export function environment(place: LabPlace, lab: Lab, url: string): Record<string, string> {
  return {
    PATH: `${dirname(process.execPath)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
    HOME: place.home,
    REPRISE_HOME: place.state,
    TMPDIR: place.tmp,
    LANG: "C.UTF-8",
    TERM: "xterm-256color",
    SHELL: "/bin/bash",
    ...proxies(),
    ...lab.env(place, url),
  };
}

/** Without a network namespace, all requests except loopback go to a proxy that refuses. */
function proxies(): Record<string, string> {
  const url = process.env[PROXY];
  if (url === undefined) return {};
  const names = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"];
  const none = "127.0.0.1,localhost";
  return { ...Object.fromEntries(names.map((name) => [name, url])), NO_PROXY: none, no_proxy: none };
}

/** Settings of Reprise and of the engine. */
export function settle(place: LabPlace, lab: Lab, url: string): void {
  const folder = join(place.home, ".config", "reprise");
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, "config.toml"),
    `[engines.${lab.engine}]\nprogram = ${JSON.stringify(lab.program)}\n`,
  );
  lab.prepare(place, url);
}

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  /** Only of a terminal: closes it, or kills it with SIGKILL. */
  close?(name: NodeJS.Signals): void;
}

export interface LabLaunch {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: string | null;
}

export function run(file: string, args: readonly string[], launch: LabLaunch): Running {
  const child = spawn(file, args, {
    cwd: launch.cwd,
    env: { ...launch.env, PWD: launch.cwd },
    stdio: [launch.stdin === null ? "ignore" : "pipe", "pipe", "pipe"],
  });
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => out.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => err.push(chunk));
  child.stdin?.on("error", () => {});
  if (launch.stdin !== null) child.stdin?.end(launch.stdin);
  const text = (chunks: readonly Buffer[]) => Buffer.concat(chunks).toString();
  const ended = new Promise<Ended>((done, failed) => {
    child.once("error", failed);
    // `exit`, not `close`: an agent that outlived Reprise still holds the pipes, and the case handles it.
    child.once("exit", (code, name) => {
      setTimeout(() => done({ code, signal: name, stdout: text(out), stderr: text(err) }), 20);
    });
  });
  return { pid: child.pid ?? -1, ended };
}

/** Processes whose environment names this folder, without zombies. */
export function processesOf(root: string): readonly number[] {
  if (!existsSync("/proc/self/environ")) return processesInPs(root);
  const mine: number[] = [];
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
    try {
      if (!readFileSync(`/proc/${name}/environ`, "latin1").includes(`${root}/`)) continue;
      if (!/\) [ZX] /.test(readFileSync(`/proc/${name}/stat`, "latin1"))) mine.push(Number(name));
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return mine;
}

/** For systems without /proc (macOS): `-E` shows the environment after the command, for processes of the same user. */
function processesInPs(root: string): readonly number[] {
  const { stdout } = spawnSync("ps", ["-AEww", "-o", "pid=,stat=,command="], {
    encoding: "utf8",
    env: { LC_ALL: "C", PATH: "/bin:/usr/bin" },
    maxBuffer: 64 << 20,
  });
  const lines = (stdout ?? "").split("\n").filter((line) => line.includes(`=${root}/`));
  const entries = lines.map((line) => /^\s*(\d+)\s+(\S+)/.exec(line));
  return entries
    .filter((entry) => entry !== null && !entry[2]?.startsWith("Z"))
    .map((entry) => Number(entry?.[1]))
    .filter((pid) => pid !== process.pid);
}

export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim().slice(0, 160);
  } catch {
    return "gone";
  }
}

export function signal(pid: number, name: NodeJS.Signals): void {
  // 0 and below are process groups, or all processes.
  if (!(pid > 1)) throw new Error(`there is no process to signal: ${pid}`);
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended meanwhile.
  }
}

/** The beginning of a file of any size; "" if it does not exist. */
export function headOf(file: string, maxBytes: number): string {
  try {
    const fd = openSync(file, "r");
    try {
      const bytes = Buffer.alloc(Math.min(maxBytes, fstatSync(fd).size));
      return bytes.toString("utf8", 0, readSync(fd, bytes, 0, bytes.length, 0));
    } finally {
      closeSync(fd);
    }
  } catch {
    return "";
  }
}

const END_ALL_MS = 5_000;

/** Ends every process that belongs to this folder, including processes that they start meanwhile. */
export async function endAll(root: string): Promise<void> {
  const end = Date.now() + END_ALL_MS;
  for (let left = processesOf(root); left.length > 0 && Date.now() < end; left = processesOf(root)) {
    for (const pid of left) signal(pid, "SIGKILL");
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

export class Late extends Error {}

/** Polls until the value exists, or fails with the name of what never happened. */
export async function until<T>(
  what: string,
  look: () => T | null | undefined | false,
  deadlineMs: number,
): Promise<T> {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = look();
    if (value !== null && value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Late(`never happened within ${deadlineMs / 1000} s: ${what}`);
    await new Promise((wake) => setTimeout(wake, 5));
  }
}

export async function within<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, failed) => {
    timer = setTimeout(() => failed(new Late(`never happened within ${ms / 1000} s: ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** The end of a long text. */
export function tail(text: string): string {
  return text.length > 4_000 ? `…${text.slice(-4_000)}` : text;
}
