/**
 * A sandbox whose programs can be put under a fault. The engine keeps its sessions and the agents their journal outside of the state
 * directory: they are the judges, and no fault touches them.
 */
import { existsSync, readdirSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { AgentBox } from "../e2e/agent-box.ts";
import { collect, type Result } from "../e2e/sandbox.ts";

/** What a command said, whether or not it lived to its end. */
export interface Said extends Result {
  readonly args: readonly string[];
  readonly pid: number;
}

export interface EngineSession {
  readonly id: string;
  /** What the user said, as the engine has stored it. */
  readonly user: readonly string[];
}

const HANG_MS = 60_000;

export class IoBox extends AgentBox {
  readonly engineHome = join(this.home, "demo-engine");

  override env(extra: Record<string, string | undefined> = {}): NodeJS.ProcessEnv {
    return super.env({ REPRISE_DEMO_HOME: this.engineHome, GIT_CONFIG_NOSYSTEM: "1", ...extra });
  }

  /** Like `run`; a command that hangs is ended and said to have been. */
  async say(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Said> {
    const child = this.spawn(args, { env });
    child.stdin?.on("error", () => {});
    child.stdin?.end();
    const timer = setTimeout(() => child.kill("SIGTERM"), HANG_MS);
    const last = setTimeout(() => child.kill("SIGKILL"), HANG_MS + 5_000);
    const result = await collect(child);
    clearTimeout(timer);
    clearTimeout(last);
    const hung = result.signal === "SIGTERM" || result.code === 143 ? "\nit hung and was ended" : "";
    return { ...result, stderr: result.stderr + hung, args, pid: child.pid ?? 0 };
  }

  /** The messages that the agents report as received and stored. */
  engineSessions(): EngineSession[] {
    const told = new Map<number, string>();
    const kept = new Map<string, string[]>();
    for (const { event, pid, session, text } of this.journalEntries()) {
      if (event === "message") told.set(Number(pid), String(text));
      const message = told.get(Number(pid));
      if (event !== "kept" || message === undefined) continue;
      kept.set(String(session), [...(kept.get(String(session)) ?? []), message]);
    }
    return [...kept].map(([id, user]) => ({ id, user }));
  }

  /** True: there is a file of this session in the homes of the engines. */
  engineHas(session: string): boolean {
    return readdirSync(this.home, { recursive: true, encoding: "utf8" }).some((name) =>
      name.includes(session),
    );
  }

  /** Files that a writer makes and renames, made two minutes older so that their writer's end can be told. */
  temporaryFiles(): string[] {
    if (!existsSync(this.state)) return [];
    const long = Date.now() / 1_000 - 120;
    const found = readdirSync(this.state, { recursive: true, encoding: "utf8" })
      .filter((name) => /(^|\/)\.(tmp|trash)-[^/]*$/.test(name))
      .map((name) => join(this.state, name));
    for (const path of found) utimesSync(path, long, long);
    return found;
  }

  /** Waits until nothing but the daemon lives, or so many milliseconds. */
  async quiet(ms = 20_000): Promise<number[]> {
    const end = Date.now() + ms;
    for (;;) {
      const busy = this.leftovers().filter((pid) => !commandLine(pid).includes("daemon.js"));
      if (busy.length === 0 || Date.now() > end) return busy;
      await sleep(20);
    }
  }

  /** Stops the daemon and tells who lives on. */
  async strays(): Promise<string[]> {
    if (this.leftovers().length > 0) await this.run(["daemon", "stop"]);
    const end = Date.now() + 10_000;
    for (;;) {
      const left = this.leftovers();
      if (left.length === 0) return [];
      if (Date.now() > end) return left.map((pid) => `${pid} ${commandLine(pid)}`);
      await sleep(20);
    }
  }
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
