/** A real terminal of fixed size: a separate tmux server with one pane in which a shell of the sandbox runs. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { CLI, type Sandbox, until } from "./sandbox.ts";

export const HAS_TMUX = spawnSync("tmux", ["-V"]).status === 0;

export class Screen implements Disposable {
  readonly #socket: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #name: string;

  constructor(
    box: Sandbox,
    options: { name?: string; cols?: number; rows?: number; env?: Record<string, string> } = {},
  ) {
    const { name = "screen", cols = 100, rows = 40, env = {} } = options;
    this.#name = name;
    this.#socket = join(box.root, `${name}.sock`);
    this.#env = { ...box.env(env), PS1: "READY> " };
    box.program("reprise", `exec '${process.execPath}' '${CLI}' "$@"`);
    this.tmux("new-session", "-d", "-s", name, "-x", String(cols), "-y", String(rows), "-c", box.cwd, "sh");
    this.tmux("set-option", "-g", "set-clipboard", "on");
    this.tmux("set-option", "-g", "history-limit", "5000");
  }

  tmux(...args: string[]): string {
    const result = spawnSync("tmux", ["-S", this.#socket, "-f", "/dev/null", ...args], {
      env: this.#env,
      encoding: "utf8",
    });
    return result.stdout;
  }

  /** What the pane shows, scrolled-off lines included. */
  text(): string {
    return this.tmux("capture-pane", "-p", "-J", "-S", "-", "-t", this.#name);
  }

  /** The same with its attributes as escape sequences: tmux's rendering, so every one of them took effect. */
  painted(): string {
    return this.tmux("capture-pane", "-p", "-e", "-S", "-", "-t", this.#name);
  }

  type(text: string): void {
    this.tmux("send-keys", "-t", this.#name, "-l", text);
    this.key("Enter");
  }

  key(name: string): void {
    this.tmux("send-keys", "-t", this.#name, name);
  }

  resize(cols: number, rows: number): void {
    this.tmux("resize-window", "-t", this.#name, "-x", String(cols), "-y", String(rows));
  }

  facts(format: string): string {
    return this.tmux("display-message", "-p", "-t", this.#name, format).trimEnd();
  }

  async shows(what: string | RegExp, deadlineMs = 20_000): Promise<string> {
    const matches = (text: string) => (typeof what === "string" ? text.includes(what) : what.test(text));
    let last = "";
    try {
      return await until(
        `the terminal shows ${String(what)}`,
        () => {
          last = this.text();
          return matches(last) ? last : null;
        },
        deadlineMs,
      );
    } catch (error) {
      throw new Error(`${String(error)}; it shows:\n${last.trimEnd()}`, { cause: error });
    }
  }

  /** Asks until the answer is this: a new size comes beside typed text, not before it. */
  async answers(question: string, answer: string): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      this.type(question);
      try {
        await this.shows(answer, 2_000);
        return;
      } catch (error) {
        if (tries === 10) throw error;
      }
    }
  }

  /** Types a shell command and waits for its end. The exit code is printed by the shell itself. */
  async command(line: string, deadlineMs = 20_000): Promise<{ text: string; code: number }> {
    this.clear();
    this.type(`${line}; echo "ENDED $?"`);
    const text = await this.shows(/^ENDED \d+$/m, deadlineMs);
    return { text, code: Number(/^ENDED (\d+)$/m.exec(text)?.[1]) };
  }

  clear(): void {
    this.tmux("send-keys", "-t", this.#name, "-R");
    this.tmux("clear-history", "-t", this.#name);
  }

  [Symbol.dispose](): void {
    this.tmux("kill-server");
  }
}
