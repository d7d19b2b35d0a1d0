/** A scripted agent, bundled from the source and run for real, each case in a separate folder. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineEvent, Exit } from "../../src/core/events.ts";
import type { Engine } from "../../src/engines/engine.ts";
import { bundleAgent } from "./bundle.ts";

export interface Ended {
  readonly exit: Exit;
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly out: string;
}

export class AgentProgram implements Disposable {
  readonly #root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-demo-")));
  readonly #file: string;
  readonly #children: ChildProcess[] = [];
  #work = "";
  /** Of the present case; a test may change it. */
  env: Record<string, string> = {};

  constructor(name: "demo" | "actor") {
    this.#file = bundleAgent(name, this.#root);
  }

  nextCase(): { readonly work: string; readonly env: Record<string, string> } {
    const work = mkdtempSync(join(this.#root, "case-"));
    this.#work = work;
    this.env = {
      HOME: join(work, "home"),
      PATH: process.env["PATH"] ?? "",
      TZ: "UTC",
      PWD: work,
      REPRISE_DEMO_HOME: join(work, "demo"),
      REPRISE_DEMO_LOG: join(work, "log.jsonl"),
      CODEX_HOME: join(work, "codex"),
    };
    mkdirSync(join(work, "codex"));
    mkdirSync(join(work, "home"));
    return { work, env: this.env };
  }

  start(args: readonly string[], stdin: string | null): { child: ChildProcess; ended: Promise<Ended> } {
    const options = { cwd: this.#work, env: this.env, stdio: "pipe" } as const;
    const child = spawn(process.execPath, [this.#file, ...args], options);
    this.#children.push(child);
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
    child.stdin.on("error", () => undefined);
    if (stdin !== null) child.stdin.end(stdin);
    const ended = new Promise<Ended>((done) => {
      child.on("close", (code, signal) => {
        const all = Buffer.concat(stdout);
        done({
          exit: { code, signal },
          stdout: all,
          stderr: Buffer.concat(stderr).toString(),
          out: all.toString(),
        });
      });
    });
    return { child, ended };
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) child.kill("SIGKILL");
    rmSync(this.#root, { recursive: true, force: true });
  }
}

export function eventsOf(engine: Engine, { out, stderr, exit }: Ended): readonly EngineEvent[] {
  const reader = engine.reader(() => Date.parse("2026-11-15T02:30:00Z"));
  const lines = (text: string): string[] => text.split("\n").map((line) => line.replace(/\r$/, ""));
  return [
    ...lines(stderr).flatMap((line) => reader.line("stderr", line)),
    ...lines(out).flatMap((line) => reader.line("stdout", line)),
    ...reader.end(exit),
  ];
}

export const textOf = (events: readonly EngineEvent[]): string =>
  events.map((event) => (event.type === "text" ? event.text : "")).join("");
export const idsOf = (events: readonly EngineEvent[]): string[] =>
  events.flatMap((event) => (event.type === "session" ? [event.session] : []));
