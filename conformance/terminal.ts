/**
 * A real terminal for Reprise: a separate tmux server with one pane, and how a person uses an engine's UI in it. Types
 * only when the screen shows that it is ready, and waits only for visible changes.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { spawn as spawnPty } from "@lydell/node-pty";
import type { LabPlace } from "../src/certify/lab.ts";
import type { LabUi } from "./pinned.ts";
import { type Ended, type LabLaunch, Late, type Running, signal, until } from "../src/certify/place.ts";

interface Size {
  readonly columns: number;
  readonly rows: number;
}

const SIZE: Size = { columns: 160, rows: 50 };
const SCREEN_DEADLINE_MS = 60_000;
/** A look at the screen is a process; it is taken this often. */
const LOOK_MS = 50;
/** Enter that a UI has not heard while it was starting is pressed again; on an empty line it does nothing. */
const AGAIN_MS = 2_000;

export class Terminal implements Running {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  readonly #socket: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #server: number;
  readonly #shell: number;
  #seen = { at: 0, text: "" };

  private constructor(files: Files, env: Readonly<Record<string, string>>, pid: number) {
    this.#socket = files.socket;
    this.#env = env;
    this.pid = pid;
    const [server = "", shell = ""] = this.#tmux("display-message", "-p", "#{pid} #{pane_pid}").split(" ");
    this.#server = Number(server);
    this.#shell = Number(shell);
    this.ended = this.#end(files.exit);
  }

  static async open(
    place: LabPlace,
    command: readonly string[],
    launch: Omit<LabLaunch, "stdin"> & { readonly size?: Size },
  ): Promise<Terminal> {
    const files: Files = {
      socket: join(place.root, "tty"),
      pid: join(place.root, "pid"),
      exit: join(place.root, "exit"),
    };
    for (const file of [files.pid, files.exit]) rmSync(file, { force: true });
    const options = ["remain-on-exit on", "default-terminal screen-256color", "history-limit 5000"];
    const { columns, rows } = launch.size ?? SIZE;
    const size = ["-x", String(columns), "-y", String(rows)];
    tmux(files.socket, launch.env, [
      "start-server",
      ...options.flatMap((option) => [";", "set-option", "-g", ...option.split(" ")]),
      ...[";", "new-session", "-d", ...size, "-c", launch.cwd],
      ...["sh", "-c", SHELL, files.exit, files.pid, ...command],
    ]);
    const pid = await until("the terminal is open", () => numberIn(files.pid), SCREEN_DEADLINE_MS);
    return new Terminal(files, launch.env, pid);
  }

  /** What the screen shows, and what it showed last when it is gone. */
  text(): string {
    if (Date.now() - this.#seen.at < LOOK_MS) return this.#seen.text;
    const text = this.#tmux("capture-pane", "-p", "-J", "-S", "-").trimEnd();
    this.#seen = { at: Date.now(), text: text === "" ? this.#seen.text : text };
    return this.#seen.text;
  }

  async shows(what: string | RegExp): Promise<void> {
    const found = () => (typeof what === "string" ? this.text().includes(what) : what.test(this.text()));
    await until(`the screen shows ${String(what)}`, () => found() || this.#isOver(), SCREEN_DEADLINE_MS);
    if (!found()) throw new Late(`Reprise ended before the screen showed ${String(what)}`);
  }

  press(key: string): void {
    this.#tmux("send-keys", key);
  }

  write(text: string): void {
    this.#tmux("send-keys", "-l", "--", text);
  }

  /** SIGHUP: the pane is closed. SIGKILL: the terminal program is gone at once. */
  close(name: NodeJS.Signals): void {
    this.text();
    if (name === "SIGKILL") signal(this.#server, name);
    else this.#tmux("kill-pane");
  }

  #isOver(): boolean {
    return !isAlive(this.pid);
  }

  async #end(exit: string): Promise<Ended> {
    // The case has its own deadline, and ends the processes with it.
    const isOver = () => this.#isOver() && (numberIn(exit) !== null || !isAlive(this.#shell));
    await until("Reprise ended", isOver, 2 * 60 * 60_000);
    this.#seen.at = 0;
    const stdout = this.text();
    this.#tmux("kill-server");
    await until("the terminal is gone", () => !isAlive(this.#server), SCREEN_DEADLINE_MS);
    return { code: numberIn(exit), signal: null, stdout, stderr: "" };
  }

  #tmux(...args: readonly string[]): string {
    return tmux(this.#socket, this.#env, args);
  }
}

interface Files {
  readonly socket: string;
  readonly pid: string;
  readonly exit: string;
}

/** The shell in the terminal. tmux itself does not always tell how a process ended, so the shell writes it down. */
const SHELL = `sh -c 'echo $$ >"$0"; exec "$@"' "$@"; echo $? >"$0"`;

function tmux(socket: string, env: Readonly<Record<string, string>>, args: readonly string[]): string {
  const options = { env, encoding: "utf8" } as const;
  const { stdout, error } = spawnSync("tmux", ["-S", socket, "-f", "/dev/null", ...args], options);
  if (error !== undefined) throw new Error(`cases in a terminal need tmux: ${error.message}`);
  return stdout;
}

/** Null: nothing was written yet. */
function numberIn(file: string): number | null {
  try {
    const [, number] = /^(\d+)\n/.exec(readFileSync(file, "utf8")) ?? [];
    return number === undefined ? null : Number(number);
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Types a message as soon as the UI takes it, and sends it. */
export async function say(
  terminal: Terminal,
  ui: LabUi,
  message: string,
  isSent: () => boolean,
): Promise<void> {
  await terminal.shows(ui.ready);
  terminal.write(message);
  await terminal.shows(message);
  const end = Date.now() + SCREEN_DEADLINE_MS;
  for (;;) {
    terminal.press("Enter");
    const isHeard = await until("Enter was heard", isSent, AGAIN_MS).catch(() => false);
    if (isHeard) return;
    if (Date.now() > end) throw new Late("the message that was typed was never sent");
  }
}

/**
 * Ctrl-C, and a second time where the UI asks for it. Never once more than it takes: a UI that is about to end would be
 * killed by it, and so would Reprise.
 */
export async function leave(terminal: Terminal, ui: LabUi, agent: number): Promise<void> {
  const isGone = () => !isAlive(agent);
  const { again } = ui;
  const asksAgain = () => again?.test(terminal.text()) === true;
  const hasForgotten = () => again !== null && !asksAgain() && ui.ready.test(terminal.text());
  while (!isGone()) {
    terminal.press("C-c");
    if (again !== null) {
      await until("the UI heard Ctrl-C", () => isGone() || asksAgain(), SCREEN_DEADLINE_MS);
      if (!isGone()) terminal.press("C-c");
    }
    await until("the UI was left", () => isGone() || hasForgotten(), SCREEN_DEADLINE_MS);
  }
}

/** Runs a program on a bare terminal: what a person sees, both streams in one, as bytes. */
export function runOnTerminal(file: string, args: readonly string[], launch: LabLaunch): Running {
  const env = { ...launch.env, PWD: launch.cwd };
  const pty = spawnPty(file, [...args], { cwd: launch.cwd, env, cols: 120, rows: 40 });
  const out: string[] = [];
  pty.onData((text) => out.push(text));
  const ended = new Promise<Ended>((done) => {
    pty.onExit(({ exitCode, signal: name }) => {
      const signalName = name === undefined || name === 0 ? null : String(name);
      done({ code: exitCode, signal: signalName, stdout: out.join(""), stderr: "" });
    });
  });
  return { pid: pty.pid, ended };
}
