/** Forty agents under one daemon, each with its habits, and two people who start and resume runs by hand. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CrashBox } from "../crash/crash-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

const again = `on_dead = { action = "resume", message = "again @@long-tool:30000", append = true, attempts = 1000 }
on_error = { match = "any", action = "resume", message = "again @@long-tool:30000", append = true, attempts = 1000, cooldown = "5s" }`;

/** Turns are long, so that forty agents cost little: the tested events happen between them. */
const RUNBOOK = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "begin @@long-tool:30000"
on_idle = { action = "nudge", message = "next @@long-tool:40000", attempts = 1000, cooldown = "2s" }
${again}

[agent.limited]
engine = "claude"
mode = "headless"
prompt = "begin @@long-tool:30000"
on_idle = { action = "nudge", message = "next @@429", attempts = 1000, cooldown = "2s" }
${again}

[agent.hanger]
engine = "claude"
mode = "headless"
prompt = "begin @@long-tool:30000"
on_idle = { action = "nudge", message = "next @@hang", attempts = 1000, cooldown = "2s" }
${again}

[agent.ui]
run = "claude"
prompt = "begin"
idle_after = "15s"
on_idle = { action = "nudge", message = "next", attempts = 1000, cooldown = "5s" }
on_dead = { action = "resume", message = "again", append = true, attempts = 1000 }
on_error = { match = "any", action = "resume", append = true, attempts = 1000, cooldown = "5s" }
`;

/** Of ten agents. */
const HABITS = [
  "worker",
  "ui",
  "worker",
  "limited",
  "worker",
  "ui",
  "worker",
  "hanger",
  "worker",
  "ui",
] as const;

export class Town extends CrashBox {
  readonly ids: string[] = [];
  /** The run of the first agent with a UI: its holder is left alone, so that its memory can be watched. */
  witness = "";
  /** Messages from people; each of these words is sent once. */
  #words = 0;

  constructor() {
    super();
    this.runbook(RUNBOOK);
    const config = join(this.home, ".config", "reprise");
    mkdirSync(config, { recursive: true });
    writeFileSync(join(config, "config.toml"), 'idle_timeout = "20s"\n');
  }

  /** The next daemon reports its memory (`live-heap.cjs`). Any command may start another one first. */
  async replaceDaemon(): Promise<void> {
    for (let tries = 0; tries < 10; tries += 1) {
      // With the options that Reprise gives it.
      const [, ...options] = commandOf(this.daemon() ?? 0)
        .split("\0")
        .slice(0, -1);
      if (options.length === 0) {
        await this.run(["daemon", "start"]);
        continue;
      }
      await this.run(["daemon", "stop"]);
      const words = ["--require", resolve("test/soak/live-heap.cjs"), ...options];
      const env = this.env({ SOAK_HEAPS: this.root });
      const child = spawn(process.execPath, words, { cwd: this.state, env, detached: true, stdio: "ignore" });
      const ended = once(child, "exit");
      child.unref();
      for (let asked = 0; asked < 50 && child.exitCode === null; asked += 1) {
        const { stdout } = await this.run(["daemon", "status", "--json"]);
        if ((JSON.parse(stdout) as { pid?: number }).pid === child.pid) return;
      }
      child.kill();
      await ended;
    }
    throw new Error("a daemon that tells what it uses could not be started");
  }

  /** What the daemon still uses when its garbage is collected. Null: it does not say, as when it is stopped. */
  async liveKib(pid: number): Promise<number | null> {
    const file = join(this.root, String(pid));
    const read = () => JSON.parse(readFileSync(file, "utf8")) as { asked: number; bytes: number };
    try {
      const { asked } = read();
      process.kill(pid, "SIGUSR2");
      const answered = () => (read().asked > asked ? Math.round(read().bytes / 1024) : null);
      return await until("the daemon tells what it uses", answered, 10_000);
    } catch {
      return null;
    }
  }

  async settle(count: number): Promise<void> {
    const todo = Array.from({ length: count }, (_, n) => HABITS[n % HABITS.length] ?? "worker");
    const work = async () => {
      for (let habit = todo.shift(); habit !== undefined; habit = todo.shift()) {
        const id = await this.start(habit);
        this.ids.push(id);
        if (habit === "ui" && this.witness === "") this.witness = id;
      }
    };
    await Promise.all([work(), work(), work()]);
  }

  /** A person who resumes one run again and again; `chance` tells when the terminal is closed under it. */
  async person(isOver: () => boolean, chance: () => number): Promise<void> {
    let handle = "";
    while (!isOver()) {
      this.#words += 1;
      const message = `person w${this.#words} @@wait:${Math.floor(chance() * 3_000)}`;
      const child = this.spawn(
        handle === "" ? ["start", "--json", "claude", message] : ["resume", "--json", handle, message],
      );
      child.stdin?.end();
      const done = collect(child);
      const closing = setTimeout(() => child.kill("SIGKILL"), chance() < 0.3 ? chance() * 4_000 : 60_000);
      const { stdout } = await done;
      clearTimeout(closing);
      if (handle === "") handle = /"handle":\s*"([0-9a-f]{8})"/.exec(stdout)?.[1] ?? "";
      await new Promise((wake) => setTimeout(wake, 5_000 + chance() * 10_000));
    }
    this.#people.push(handle);
  }

  readonly #people: string[] = [];

  people(): readonly string[] {
    return this.#people.filter((handle) => handle !== "");
  }

  /** The daemon that runs, by its command line: nobody is asked. */
  daemon(): number | null {
    return this.leftovers().find((pid) => commandOf(pid).includes("dist/daemon.js")) ?? null;
  }

  holders(): { readonly handle: string; readonly pid: number }[] {
    const runtime = join(this.state, "run");
    return readdirSync(runtime)
      .filter((name) => /^h-[0-9a-f]{8}\.json$/.test(name))
      .flatMap((name) => {
        try {
          const record = JSON.parse(readFileSync(join(runtime, name), "utf8")) as {
            identity: { pid: number };
          };
          return [{ handle: name.slice(2, 10), pid: record.identity.pid }];
        } catch {
          return [];
        }
      });
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
