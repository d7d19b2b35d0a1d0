/** A sandbox with runbooks, a daemon and supervised agents, all of which are gone when the test is over. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type RunOptions, Sandbox, until } from "./sandbox.ts";

export interface View {
  readonly id: string;
  readonly name: string;
  readonly phase: string;
  readonly state: string;
  readonly attempts: number;
  readonly why: string;
  readonly next: { readonly action: string; readonly atMs: number } | null;
  readonly decision: string | null;
}

export interface Shown {
  readonly agent: { readonly runId: string; readonly phase: string; readonly reason: string | null };
  readonly view: View;
  readonly attempts: readonly {
    readonly n: number;
    readonly kind: string;
    readonly agent: { readonly pid: number } | null;
    readonly owner: { readonly pid: number };
    readonly outcome: { readonly result: string; readonly reason: string } | null;
  }[];
  readonly history: readonly Record<string, unknown>[];
}

export class AgentBox extends Sandbox implements AsyncDisposable {
  runbook(text: string): void {
    const folder = join(this.cwd, "runbooks");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "test.toml"), text);
  }

  /** Starts an agent of the runbook and returns its id. */
  async start(name: string, ...more: readonly string[]): Promise<string> {
    const result = await this.run(["agent", "run", name, "--trust-cwd", "--json", ...more]);
    if (result.code !== 0)
      throw new Error(`agent run ${name}: exit ${result.code}\n${result.stdout}${result.stderr}`);
    return (JSON.parse(result.stdout) as { id: string }).id;
  }

  async agent<T>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    return this.json<T>(["agent", ...args], options);
  }

  show(id: string): Promise<Shown> {
    return this.agent<Shown>(["show", id]);
  }

  /** Polls `agent show` until it fits. */
  async shown(
    id: string,
    what: string,
    fits: (shown: Shown) => boolean,
    deadlineMs = 30_000,
  ): Promise<Shown> {
    const end = Date.now() + deadlineMs;
    for (;;) {
      const shown = await this.show(id);
      if (fits(shown)) return shown;
      if (Date.now() > end)
        throw new Error(`never ${what}: ${JSON.stringify(shown, null, 1)}\n${this.daemonLog()}`);
      await sleep(100);
    }
  }

  /** What the agents themselves wrote down. */
  events(event: string): Record<string, any>[] {
    return this.journalEntries().filter((entry) => entry["event"] === event);
  }

  /** The pid of the newest agent, once its engine has stored its message: killed before, it would have lost it. */
  async told(times = 1): Promise<number> {
    return this.until(`message ${times} of the agent`, () => {
      const told = this.events("message");
      const last = told.at(-1);
      if (last === undefined || told.length < times) return null;
      return this.#stored(String(last["session"]), times) ? Number(last["pid"]) : null;
    });
  }

  #stored(session: string, times: number): boolean {
    return this.storedTurns(`${session}.jsonl`) >= times;
  }

  /** What users said in conversations that the engine has stored. */
  storedTurns(ending = ".jsonl"): number {
    return readdirSync(this.home, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(ending))
      .flatMap((name) => readFileSync(join(this.home, name), "utf8").split("\n"))
      .filter((line) => line.includes('"type":"user"')).length;
  }

  messages(): string[] {
    return this.events("message").map((entry) => String(entry["text"]));
  }

  until<T>(what: string, look: () => T | null | undefined | false, deadlineMs = 30_000): Promise<T> {
    return until(`${what}\n${this.daemonLog()}`, look, deadlineMs);
  }

  async daemonPid(): Promise<number | null> {
    const { pid } = await this.json<{ pid?: number }>(["daemon", "status"]);
    return pid ?? null;
  }

  daemonLog(): string {
    const path = join(this.state, "run", "d.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  /** Processes that were started for agents of this sandbox, and their holders and daemons. */
  leftovers(): number[] {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
      .filter((pid) => environment(pid).includes(`REPRISE_HOME=${this.state}\0`))
      .map(Number);
  }

  /** By pid, one by one: these were all started by this sandbox. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (let round = 0; round < 200; round += 1) {
      const left = this.leftovers();
      if (left.length === 0) break;
      for (const pid of left) endQuietly(pid);
      await sleep(20);
    }
    this[Symbol.dispose]();
  }
}

function environment(pid: string): string {
  try {
    return `${readFileSync(`/proc/${pid}/environ`, "latin1")}\0`;
  } catch {
    return "";
  }
}

function endQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It was faster.
  }
}
