/** UIs that nobody looks at: opened with a message, watched, continued. Claude is played by the scripted agent. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type CodexWorld, openCodexWorld } from "../../test/codex-world.ts";
import { bundleDemoAgent } from "../../test/demo-bundle.ts";
import { mergeConfig } from "../core/config.ts";
import { Fault } from "../core/faults.ts";
import {
  type AttemptResult,
  type Deps,
  type LiveControls,
  type ResumeRequest,
  resumeRun,
  type StartRequest,
  startRun,
  type StopRequest,
  type Watch,
} from "./run.ts";

let folder: string;
let agent: string;
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "reprise-ui-")));
  agent = bundleDemoAgent(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let world: CodexWorld;
beforeEach(async () => {
  world = await openCodexWorld();
});
afterEach(() => world[Symbol.dispose]());

const NO_LIMITS = { idleMs: null, toolMs: null, totalMs: null };

function deps(): Deps {
  const bin = join(world.root, "bin");
  mkdirSync(bin, { recursive: true });
  const engines = Object.fromEntries(
    ["claude", "codex"].map((id) => {
      const program = join(bin, id);
      writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${agent}" --as ${id} -- "$@"\n`, {
        mode: 0o755,
      });
      return [id, { program }];
    }),
  );
  const env = { REPRISE_DEMO_LOG: join(world.codexHome, "journal.jsonl") };
  return { ...world.deps({}, env), config: mergeConfig({ engines }, {}) };
}

const OPTIONS = { mode: "auto", limits: NO_LIMITS, terminal: null } as const;

function starting(more: Partial<StartRequest>): StartRequest {
  return {
    ...{ ...OPTIONS, engine: "claude", message: "go", native: [], env: [], ui: true },
    ...{ cwd: world.cwd, cwdGiven: true, isolate: null, runDir: null, name: null, subject: null },
    ...{ trustCwd: false, escrow: true },
    ...more,
  };
}

function resuming(more: Partial<ResumeRequest>): ResumeRequest {
  return {
    ...{ ...OPTIONS, selector: "", want: "resume", damage: "refuse", message: null, native: [] },
    ...{ keep: false, env: [], hasTerminal: false, trustCwd: false, ui: true },
    ...more,
  };
}

/** A UI that nobody looks at, and a hand on it. */
class Desk implements Watch {
  text = "";
  controls: LiveControls | null = null;
  stop: (request: StopRequest) => void = () => {};
  raw(_stream: unknown, chunk: Buffer): undefined {
    this.text += chunk.toString();
  }
  events(): void {}
  status(): void {}
  mute(): void {}
  live(controls: LiveControls): void {
    this.controls = controls;
  }
  onStop(listener: (request: StopRequest) => void): void {
    this.stop = listener;
  }
  async shows(what: RegExp): Promise<void> {
    const end = Date.now() + 20_000;
    while (!what.test(this.text)) {
      if (Date.now() > end) throw new Error(`never shown: ${what} in ${this.text}`);
      await new Promise((again) => setTimeout(again, 20));
    }
  }
  type(line: string): void {
    this.controls?.write(Buffer.from(`${line}\r`));
  }
}

/** Waits for the answer to what was said, leaves the UI, and returns the attempt's end. */
async function visit(begun: Promise<AttemptResult>, desk: Desk, answer: RegExp): Promise<AttemptResult> {
  await Promise.race([begun, desk.shows(answer)]);
  desk.type("/exit");
  const result = await begun;
  await result.finish();
  return result;
}

const said = () =>
  world.journal().flatMap(({ event, text }) => (event === "message" ? [text as string] : []));

describe("a UI with a first message", () => {
  test("without anybody's terminal: started, resumed with another message, resumed alone", async () => {
    const desk = new Desk();
    const request = starting({ message: "-first", native: ["--permission-mode", "plan"] });
    const first = await visit(startRun(deps(), request, desk), desk, /our first exchange/);
    const { handle, session } = first.run;
    expect(first.attempt).toMatchObject({ interactive: true, mode: "pty", message: "-first" });
    expect(first.attempt.args.slice(-2)).toEqual(["--", "[message]"]);
    const then = new Desk();
    const again = resumeRun(deps(), resuming({ selector: handle, message: "second" }), then);
    const second = await visit(again, then, /I remember 1 earlier/);
    expect(second.run.session.value).toBe(session.value);
    expect(second.attempt.args).toEqual(
      expect.arrayContaining(["--resume", session.value, "--permission-mode", "plan", "[message]"]),
    );
    const last = new Desk();
    await visit(resumeRun(deps(), resuming({ selector: handle }), last), last, /claude is here/);
    expect(said()).toEqual(["-first", "second"]);
  });

  test("its terminal has a size of its own until somebody lends one", async () => {
    const desk = new Desk();
    const begun = startRun(deps(), starting({}), desk);
    await desk.shows(/our first exchange/);
    desk.type("/size");
    await visit(begun, desk, /size 120x40/);
    const lent = new Desk();
    const again = startRun(deps(), starting({ terminal: { cols: 91, rows: 17 } }), lent);
    await lent.shows(/our first exchange/);
    lent.type("/size");
    await visit(again, lent, /size 91x17/);
  });

  test.each<[string, Partial<StartRequest>, string]>([
    ["arguments that open no UI", { native: ["-p"] }, "usage"],
    ["no ui asked for, no terminal", { message: null }, "usage"],
  ])("refused: %s", async (_what, more, code) => {
    const { ui, ...request } = starting(more);
    const wanted = more.message === null ? request : { ...request, ui: ui as true };
    await expect(startRun(deps(), wanted, new Desk())).rejects.toSatisfy(
      (fault) => fault instanceof Fault && fault.code === code,
    );
  });
});
