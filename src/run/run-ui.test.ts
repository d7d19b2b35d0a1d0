/** UIs that nobody looks at: opened with a message, watched, continued. Claude is played by the scripted agent. */
import {
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
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type CodexWorld, openCodexWorld } from "../../test/codex-world.ts";
import { bundleAgent } from "../../test/actors/bundle.ts";
import { mergeConfig } from "../core/config.ts";
import type { Activity, Observed } from "../core/events.ts";
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
  agent = bundleAgent("actor", folder);
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
  readonly seen: Observed[] = [];
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
  activity(observed: Observed): void {
    this.seen.push(observed);
  }
  /** Waits until this is what the agent does, since the last time something else was waited for. */
  async does(what: Partial<Activity>, turns: number): Promise<Observed> {
    const end = Date.now() + 20_000;
    for (;;) {
      const last = this.seen.at(-1);
      if (last?.turns === turns && last.activity.state === what.state) return last;
      if (Date.now() > end) throw new Error(`never ${what.state}: ${JSON.stringify(this.seen.slice(-3))}`);
      await new Promise((again) => setTimeout(again, 20));
    }
  }
  paste(text: string): void {
    this.controls?.write(Buffer.from(`\u001b[200~${text}\u001b[201~\r`));
  }
  type(line: string): void {
    this.controls?.write(Buffer.from(`${line}\r`));
  }
}

/** Waits for the answer to the message, leaves the UI, and returns the attempt's end. */
async function visit(begun: Promise<AttemptResult>, desk: Desk, answer: RegExp): Promise<AttemptResult> {
  await Promise.race([begun, desk.shows(answer)]);
  desk.type("/exit");
  const result = await begun;
  await result.finish();
  return result;
}

/** The engine's registry has told which session the UI is in. */
async function named(runDirectory: string, attempt: number, sessions = 1): Promise<void> {
  const end = Date.now() + 20_000;
  const meta = join(runDirectory, "attempts", `${attempt}`, "meta.json");
  while (JSON.parse(readFileSync(meta, "utf8")).reported.length < sessions) {
    if (Date.now() > end) throw new Error("the session was never seen");
    await new Promise((again) => setTimeout(again, 20));
  }
}

const said = () =>
  world.journal().flatMap(({ event, text }) => (event === "message" ? [text as string] : []));

describe("a UI with a first message", () => {
  test("starts without a terminal, resumes with another message, and proves nothing when left without a message", async () => {
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
    const alone = resumeRun(deps(), resuming({ selector: handle }), last);
    await last.shows(/claude is here/);
    await named(first.run.runDirectory, 3);
    const third = await visit(alone, last, /claude is here/);
    expect(said()).toEqual(["-first", "second"]);
    // The engine's registry names the session also for a UI that writes nothing to it.
    expect([second, third].map(({ receipt }) => receipt?.verified)).toEqual([
      "store_confirmed",
      "not_verified",
    ]);
  });

  test("has a default size until a client lends its terminal", async () => {
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
    ["no --ui, no terminal", { message: null }, "usage"],
  ])("is refused: %s", async (_what, more, code) => {
    const { ui, ...request } = starting(more);
    const wanted = more.message === null ? request : { ...request, ui: ui as true };
    await expect(startRun(deps(), wanted, new Desk())).rejects.toSatisfy(
      (fault) => fault instanceof Fault && fault.code === code,
    );
  });
});

describe("the state of a UI", () => {
  test.each(["claude", "codex"])(
    "%s reports working, idle, waiting, error, and the accepted message",
    async (engine) => {
      const desk = new Desk();
      const begun = startRun(deps(), starting({ engine, message: "go @@wait:2500" }), desk);
      const all = async () => {
        await desk.does({ state: "working" }, 0);
        const idle = await desk.does({ state: "idle" }, 1);
        expect(idle).toMatchObject({ certain: true });
        desk.paste("think\nagain @@ask:pwd");
        const typedAtMs = Date.now();
        const waiting = await desk.does({ state: "waiting" }, 1);
        expect(waiting.sinceMs).toBeGreaterThanOrEqual(idle.sinceMs);
        expect(await desk.controls?.tookUp("think\nagain @@ask:pwd", typedAtMs)).toBe(true);
        expect(await desk.controls?.tookUp("something else", typedAtMs)).toBe(false);
        desk.type("2");
        await desk.does({ state: "idle" }, 2);
        desk.type("now @@429:reset=2030-01-01T00:00:00Z");
        const failed = await desk.does({ state: "error" }, 2);
        expect(failed.activity).toMatchObject({ trouble: { kind: "rate_limited" } });
        desk.type("and on");
        await desk.does({ state: "idle" }, 3);
      };
      await Promise.race([begun, all()]);
      await visit(begun, desk, /./);
      expect(said()).toEqual([
        "go @@wait:2500",
        "think\nagain @@ask:pwd",
        "now @@429:reset=2030-01-01T00:00:00Z",
        "and on",
      ]);
      const answers = world.journal().filter(({ event }) => ["approved", "declined"].includes(event));
      expect(answers.map(({ event, what, by }) => [event, what, by])).toEqual([["declined", "pwd", "2"]]);
    },
  );

  test("keeps typed text when the UI starts slowly and misses the first Enter", async () => {
    const desk = new Desk();
    const env = [
      ["REPRISE_DEMO_STARTUP", "1200"],
      ["REPRISE_DEMO_DEAF", "1"],
    ] as const;
    const begun = startRun(deps(), starting({ message: null, env }), desk);
    await desk.does({ state: "starting" }, 0);
    await desk.shows(/\[\?2004h/);
    desk.type("too early");
    await desk.does({ state: "idle" }, 0);
    desk.type("");
    expect(said()).toEqual([]);
    desk.type("");
    await desk.does({ state: "idle" }, 1);
    await visit(begun, desk, /./);
    expect(said()).toEqual(["too early"]);
  });

  test("follows /clear into another conversation, and counts the turns of both", async () => {
    const desk = new Desk();
    const begun = startRun(deps(), starting({}), desk);
    await desk.does({ state: "idle" }, 1);
    desk.type("/clear");
    await desk.shows(/new conversation begins/);
    desk.type("again");
    await desk.does({ state: "idle" }, 2);
    const result = await visit(begun, desk, /./);
    expect(result.run.sessions.map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  test("a conversation that is left by /clear while it is being written has a copy as well", async () => {
    const desk = new Desk();
    const shop = deps();
    const begun = startRun(shop, starting({ message: null }), desk);
    await desk.does({ state: "idle" }, 0);
    const [name = ""] = readdirSync(shop.state.runsRoot).filter((one) => !one.startsWith("."));
    const directory = join(shop.state.runsRoot, name);
    await named(directory, 1);
    desk.type("first");
    await desk.shows(/our first exchange/);
    desk.type("/clear");
    await desk.shows(/new conversation begins/);
    desk.type("again");
    await desk.shows(/You said "again"/);
    await named(directory, 1, 2);
    const { run } = await visit(begun, desk, /./);
    const { escrow, kept } = JSON.parse(readFileSync(join(directory, "run.json"), "utf8"));
    expect([...(kept ?? []), escrow].map(({ session }) => session)).toEqual(
      run.sessions.map(({ value }) => value),
    );
  });

  test("a new conversation that was left without a word: a resume goes back to the one before it", async () => {
    const desk = new Desk();
    const first = await visit(
      startRun(deps(), starting({ escrow: false }), desk),
      desk,
      /our first exchange/,
    );
    const { handle, runDirectory, session } = first.run;
    const left = new Desk();
    const anew = resumeRun(deps(), resuming({ selector: handle, want: "fresh" }), left);
    await left.shows(/claude is here/);
    await named(runDirectory, 2);
    const { run } = await visit(anew, left, /claude is here/);
    expect(run.session).toMatchObject({ value: run.sessions.at(-1)?.value, verifiedAt: null });
    const then = new Desk();
    const again = resumeRun(deps(), resuming({ selector: handle, message: "second" }), then);
    const { attempt } = await visit(again, then, /I remember 1 earlier/);
    expect(attempt.diagnostics).toEqual([
      `session ${run.session.value} never began; going back to ${session.value}`,
    ]);
  });

  test("leaves no hook file behind", async () => {
    const desk = new Desk();
    const { run } = await visit(startRun(deps(), starting({}), desk), desk, /our first exchange/);
    expect(existsSync(join(run.runDirectory, "attempts", "1", "hooks.jsonl"))).toBe(false);
    const start = world.journal().find(({ event }) => event === "start");
    expect(start?.["env"]).toMatchObject({
      REPRISE_HOOKS: expect.stringMatching(/attempts\/1\/hooks\.jsonl$/),
    });
  });
});
