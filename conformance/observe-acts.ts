/**
 * Real UIs without a viewer, watched by Reprise's own core: it reports their state correctly, pastes are accepted once,
 * and a question is reported while it is open.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openState } from "../src/state/directory.ts";
import { mergeConfig } from "../src/core/config.ts";
import type { Activity, Observed } from "../src/core/events.ts";
import * as processes from "../src/process/process.ts";
import {
  type AttemptResult,
  type Deps,
  type LiveControls,
  resumeRun,
  startRun,
  type StopRequest,
  type Watch,
} from "../src/run/run.ts";
import { memoryStore } from "../test/contracts/memory-store.ts";
import type { LabWorld } from "../src/certify/world.ts";
import { isKept } from "../src/certify/interrupt.ts";
import { labNamed } from "./pinned.ts";
import type { RequestRecord } from "../src/certify/model-server/server.ts";
import { environment, Late, settle, until } from "../src/certify/place.ts";

type Act = (world: LabWorld, words: readonly string[]) => Promise<void>;

const DEADLINE_MS = 60_000;
/** As a UI that has just come to rest wants it. */
const [BEFORE_PASTE_MS, BEFORE_ENTER_MS, VERIFY_MS] = [300, 200, 3_000];
const FILE = "made-by-agent";

export const OBSERVE_ACTS: Readonly<Record<string, Act>> = {
  /** A UI is given its first message by its command line, and the next one with a resume. */
  "observe-message": async (world) => {
    await using ui = await Ui.open(world, "Begin.", []);
    await ui.asks("Begin.");
    await until("the answer is kept", () => isKept(world, "SEEN users=1") && ui.rests(), DEADLINE_MS);
    await ui.leave();
    await using again = await ui.again("-and on");
    const { users, assistants } = await again.asks("-and on");
    must(users.filter((text) => text === "Begin.").length === 1 && assistants > 0, JSON.stringify(users));
  },
  "observe-turns": async (world) => {
    await using ui = await Ui.open(world, "Begin. @@slow:1500", []);
    await ui.does("working", 0);
    await ui.does("idle", 1);
    const message = "The first line,\nand; the second #(one)";
    await ui.says(message);
    await ui.does("idle", 2);
    const turns = world.server.requests.filter(({ users }) => users.at(-1)?.trim() === message);
    must(turns.length === 1, `the model was asked ${turns.length} times about what was pasted`);
  },
  "observe-error": async (world) => {
    await using ui = await Ui.open(world, "Begin. @@usage-limit:3600", []);
    const { activity } = await ui.does("error", 0);
    const trouble = activity.state === "error" ? activity.trouble : null;
    must(trouble?.kind === "rate_limited", `it failed with ${trouble?.kind}: ${trouble?.message}`);
    const resetsAt = Date.parse(trouble?.resetsAt ?? "");
    const announced = world.server.requests.findLast((one) => one.resetsAtMs !== null)?.resetsAtMs ?? 0;
    // Codex names the minute.
    must(Math.abs(resetsAt - announced) <= 60_000, `its limit ends at ${trouble?.resetsAt}`);
    await ui.says("Go on.");
    await ui.does("idle", 1);
  },
  "observe-waiting": async (world) => {
    const [wish, native] = WISHES[world.lab.engine] ?? ["", []];
    await using ui = await Ui.open(world, `Begin. ${wish}`, native);
    const { activity } = await ui.does("waiting", 0);
    must(activity.state === "waiting" && /permission/.test(activity.what), JSON.stringify(activity));
    must(!existsSync(join(world.place.project, FILE)), "it was done before anybody was asked");
    ui.types("\u001b");
    await ui.does("idle", 0);
    must(!existsSync(join(world.place.project, FILE)), "what was declined was done");
  },
};

/** By engine: what makes the model want a permission, and the options under which the UI asks for it. */
const WISHES: Readonly<Record<string, readonly [string, readonly string[]]>> = {
  claude: [`@@tool:touch ${FILE}`, ["--permission-mode", "default"]],
  codex: [`@@escalate:touch ${FILE}`, ["-a", "on-request", "-s", "read-only"]],
};

class Ui implements Watch, AsyncDisposable {
  readonly #world: LabWorld;
  readonly #deps: Deps;
  readonly #seen: Observed[] = [];
  #controls: LiveControls | null = null;
  #stop: (request: StopRequest) => void = () => {};
  #ended: Promise<AttemptResult> | null = null;

  private constructor(world: LabWorld, deps: Deps) {
    this.#world = world;
    this.#deps = deps;
  }

  static async open(world: LabWorld, message: string, native: readonly string[]): Promise<Ui> {
    const { lab, place, server } = world;
    settle(place, lab, server.url);
    labNamed(lab.id).ui?.trust(place);
    const ui = new Ui(world, await depsOf(world));
    const given = { engine: lab.engine, message, native: [...lab.native, ...native], env: [] };
    const cwd = { cwd: place.project, cwdGiven: true, isolate: null };
    const records = { runDir: null, name: null, subject: null, escrow: false };
    return ui.#begins(startRun(ui.#deps, { ...ui.#options(), ...given, ...cwd, ...records }, ui));
  }

  /** The same run in its UI again, with another message. This one must have been left. */
  async again(message: string): Promise<Ui> {
    const ui = new Ui(this.#world, this.#deps);
    const selector = (await this.#ended)?.run.handle ?? "";
    const given = { selector, message, want: "resume", damage: "refuse", native: [], env: [] } as const;
    const wish = { ...ui.#options(), ...given, keep: false, hasTerminal: false };
    return ui.#begins(resumeRun(ui.#deps, wish, ui));
  }

  #options() {
    const limits = { idleMs: null, toolMs: null, totalMs: DEADLINE_MS * 3 };
    const trustCwd = this.#world.lab.flags.includes("--trust-cwd");
    return { mode: "auto", limits, terminal: null, ui: true, trustCwd } as const;
  }

  #begins(ended: Promise<AttemptResult>): Ui {
    // Only a caller that waits for the UI gets the error.
    ended.catch(() => {});
    this.#ended = ended;
    return this;
  }

  raw(): undefined {}
  events(): void {}
  status(): void {}
  mute(): void {}
  live(controls: LiveControls): void {
    this.#controls = controls;
  }
  onStop(listener: (request: StopRequest) => void): void {
    this.#stop = listener;
  }
  activity(observed: Observed): void {
    this.#seen.push(observed);
    const { activity, turns, certain } = observed;
    this.#world.log.push(`  ${activity.state} turns=${turns} certain=${certain}`);
  }

  async does(state: Activity["state"], turns: number): Promise<Observed> {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
      const last = this.#seen.at(-1);
      if (last !== undefined && last.activity.state === state && last.turns === turns) {
        must(last.certain, "it is only guessed");
        return last;
      }
      if (Date.now() > end)
        throw new Late(`it was never ${state} after ${turns} turns: ${JSON.stringify(last)}`);
      await sleep(20);
    }
  }

  /** What the model was sent with this message, once it has answered it. */
  async asks(message: string): Promise<RequestRecord> {
    const turns = () =>
      this.#world.server.requests.filter(
        (one) => one.kind === "turn" && one.users.at(-1)?.includes(message) === true,
      );
    const turn = await until(`the model was asked ${message}`, () => turns()[0], DEADLINE_MS);
    await until("the model has answered", () => turn.state === "ended", DEADLINE_MS);
    must(turns().length === 1, `the model was asked ${turns().length} times`);
    return turn;
  }

  /** Its turn is over; a UI that does not tell has been quiet for a while. */
  rests(): boolean {
    const last = this.#seen.at(-1);
    return last?.activity.state === "idle" && (last.turns === 1 || !last.certain);
  }

  types(keys: string): void {
    this.#controls?.write(Buffer.from(keys));
  }

  /** Pastes it into a UI at rest, and presses Enter until the UI has accepted it. */
  async says(message: string): Promise<void> {
    await sleep(BEFORE_PASTE_MS);
    const typedAtMs = Date.now();
    this.types(`\u001b[200~${message}\u001b[201~`);
    for (let tries = 0; tries < 3; tries += 1) {
      await sleep(BEFORE_ENTER_MS);
      this.types("\r");
      const end = Date.now() + VERIFY_MS;
      while (Date.now() < end) {
        if ((await this.#controls?.tookUp(message, typedAtMs)) === true) return;
        await sleep(50);
      }
    }
    throw new Late("what was pasted was never taken up");
  }

  async leave(): Promise<void> {
    this.#stop("SIGTERM");
    const result = await this.#ended;
    await result?.finish();
    this.#world.log.push(`  ${JSON.stringify(result?.attempt.outcome)}`);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.leave();
  }
}

async function depsOf({ lab, place, server, log }: LabWorld): Promise<Deps> {
  const ladder = { interruptMs: 2_000, terminateMs: 2_000 };
  return {
    state: await openState(place.state),
    store: memoryStore(),
    config: mergeConfig({ engines: { [lab.engine]: { program: lab.program } } }, {}),
    clock: { now: () => Date.now(), mono: () => performance.now() },
    env: environment(place, lab, server.url),
    log: { warn: (text) => void log.push(`  ${text}`), info: () => {} },
    processes: {
      ...processes,
      endTree: (root, marker, from) => processes.endTree(root, marker, ladder, from),
    },
    machine: "lab",
    demo: ["demo"],
    newHandle: () => randomBytes(4).toString("hex"),
    newSessionId: () => randomUUID(),
  };
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Late(what);
}
