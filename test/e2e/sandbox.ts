/**
 * A separate machine for one test: HOME, state directory, a PATH with scripted engines, and the built CLI. Imports
 * nothing from `src/`: the tests see what a user sees.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const CLI = resolve("dist/reprise.js");
/** Plays any engine: `--as ENGINE -- ARGS`. */
export const ACTOR = resolve("test/actors/dist/actor.js");

export const ENGINES = ["codex", "claude", "gemini", "iflow", "opencode"] as const;
export type EngineName = (typeof ENGINES)[number];

export interface Result {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Record<string, string | undefined>;
  readonly cwd?: string;
  readonly stdin?: string | Buffer;
}

export class Sandbox implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-e2e-")));
  readonly home = join(this.root, "home");
  readonly state = join(this.root, "state");
  readonly bin = join(this.root, "bin");
  readonly cwd = join(this.root, "project");
  /** What the scripted agents themselves wrote about their starts, messages and ends. */
  readonly journal = join(this.root, "journal.jsonl");

  constructor() {
    for (const directory of [this.home, this.bin, this.cwd]) mkdirSync(directory, { recursive: true });
    for (const engine of ENGINES) {
      this.program(engine, `exec ${quote(process.execPath)} ${quote(ACTOR)} --as ${engine} -- "$@"`);
    }
  }

  /** Puts an executable shell script on the PATH of this sandbox. */
  program(name: string, script: string): string {
    const file = join(this.bin, name);
    writeFileSync(file, `#!/bin/sh\n${script}\n`);
    chmodSync(file, 0o755);
    return file;
  }

  env(extra: Record<string, string | undefined> = {}): NodeJS.ProcessEnv {
    return {
      PATH: `${this.bin}:${process.env["PATH"] ?? ""}`,
      HOME: this.home,
      REPRISE_HOME: this.state,
      REPRISE_DEMO_LOG: this.journal,
      // Every record is read back as it is written; a record that its own reader rejects ends the program (exit 70).
      REPRISE_CHECK_RECORDS: "1",
      TERM: "xterm-256color",
      LANG: "C.UTF-8",
      ...extra,
    };
  }

  spawn(args: readonly string[], options: RunOptions = {}): ChildProcess {
    return spawn(process.execPath, [CLI, ...args], {
      cwd: options.cwd ?? this.cwd,
      env: this.env(options.env),
      stdio: "pipe",
    });
  }

  async run(args: readonly string[], options: RunOptions = {}): Promise<Result> {
    const child = this.spawn(args, options);
    child.stdin?.on("error", () => {});
    child.stdin?.end(options.stdin ?? "");
    return collect(child);
  }

  /** Runs with `--json` and parses the one object that stdout holds. */
  async json<T = Record<string, any>>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    const [command = "", ...rest] = args;
    const all = [command, "--json", ...rest];
    const result = await this.run(all, options);
    try {
      return JSON.parse(result.stdout) as T;
    } catch {
      throw new Error(
        `no JSON from ${all.join(" ")}: exit ${result.code}\n${result.stdout}\n${result.stderr}`,
      );
    }
  }

  runDirectories(): string[] {
    const root = join(this.state, "runs");
    return existsSync(root)
      ? readdirSync(root)
          .filter((name) => !name.startsWith("."))
          .map((name) => join(root, name))
      : [];
  }

  journalEntries(): Record<string, any>[] {
    if (!existsSync(this.journal)) return [];
    return readFileSync(this.journal, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, any>);
  }

  [Symbol.dispose](): void {
    removeTree(this.root);
  }
}

/** Also where an agent, whose owner was killed a moment ago, still writes. */
function removeTree(path: string): void {
  const end = Date.now() + 20_000;
  for (;;) {
    try {
      rmSync(path, { recursive: true, force: true });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOTEMPTY" || Date.now() > end) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    }
  }
}

export function collect(child: ChildProcess): Promise<Result> {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  child.stdout?.on("data", (chunk: Buffer) => out.push(chunk));
  child.stderr?.on("data", (chunk: Buffer) => err.push(chunk));
  return new Promise((done) => {
    child.on("close", (code, signal) => {
      done({ code, signal, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
    });
  });
}

/** Polls until the value is there, or fails by name. */
export async function until<T>(
  what: string,
  look: () => T | null | undefined | false,
  deadlineMs = 20_000,
): Promise<T> {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = look();
    if (value !== null && value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Error(`never happened within ${deadlineMs} ms: ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
