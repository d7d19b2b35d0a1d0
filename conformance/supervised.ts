/**
 * Supervised agents of one case: their runbooks, the supervisor and its log, the commands that a person uses, and the
 * messages that reached the model. Reports the facts; the act knows the expectations.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { delivered } from "../src/certify/deliveries.ts";
import type { LabWorld } from "../src/certify/world.ts";
import { isKept } from "../src/certify/interrupt.ts";
import type { RequestRecord } from "../src/certify/model-server/server.ts";
import { type Ended, environment, Late, run, settle, until } from "../src/certify/place.ts";
import { labNamed } from "./pinned.ts";
import { Terminal } from "./terminal.ts";

export const DEADLINE_MS = 60_000;
/** A look is a process; it is taken this often. */
const LOOK_MS = 250;
/** Of what a command prints, for the log of a case that failed. */
const MAX_SAID = 300;

export interface ShownAgent {
  readonly agent: { readonly phase: string; readonly reason: string | null };
  readonly view: {
    readonly state: string;
    readonly decision: string | null;
    readonly next: { readonly action: string; readonly atMs: number } | null;
  };
  readonly attempts: readonly {
    readonly n: number;
    readonly agent: { readonly pid: number } | null;
    readonly owner: { readonly pid: number };
  }[];
}

export interface ShownDecision {
  readonly id: string;
  readonly agentId: string;
  readonly trigger: string;
  readonly state: string;
  readonly trouble: { readonly kind: string } | null;
  readonly lastWords: string;
  readonly options: readonly { readonly n: number; readonly does: string }[];
}

export class Supervised implements AsyncDisposable {
  readonly #world: LabWorld;
  readonly #env: Readonly<Record<string, string>>;

  constructor(world: LabWorld) {
    const { place, lab, server } = world;
    this.#world = world;
    this.#env = environment(place, lab, server.url);
    settle(place, lab, server.url);
    labNamed(lab.id).ui?.trust(place);
  }

  runbook(text: string, ending: "toml" | "hcl" = "toml"): void {
    const folder = join(this.#world.place.project, "runbooks");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `case.${ending}`), text);
  }

  /** The id of the agent that was started. */
  async start(name: string): Promise<string> {
    return (await this.json<{ id: string }>("agent", "run", name, "--trust-cwd")).id;
  }

  async reprise(...args: readonly string[]): Promise<Ended> {
    const { bench, place, log } = this.#world;
    log.push(`$ reprise ${args.join(" ")}`);
    const launch = { cwd: place.project, env: this.#env, stdin: null };
    const running = run(process.execPath, [bench.cli, ...args], launch);
    let over: Ended | null = null;
    void running.ended.then((ended) => (over = ended));
    const ended = await until<Ended>(`\`reprise ${args.join(" ")}\` ended`, () => over, DEADLINE_MS);
    log.push(`  exit ${ended.code ?? ended.signal} ${ended.stdout.slice(0, MAX_SAID)}${ended.stderr}`);
    return ended;
  }

  /** Of a command that must succeed. */
  async json<T>(...args: readonly string[]): Promise<T> {
    const { code, stdout, stderr } = await this.reprise(...args, "--json");
    if (code !== 0) throw new Late(`reprise ${args.join(" ")}: exit ${code}: ${stdout} ${stderr}`);
    return JSON.parse(stdout) as T;
  }

  async show(id: string): Promise<ShownAgent> {
    const { log } = this.#world;
    const before = log.length;
    const shown = await this.json<ShownAgent>("agent", "show", id);
    // It is looked at again and again: one line each time.
    log.splice(before, log.length, `  ${id}: ${JSON.stringify(shown.view)}`);
    return shown;
  }

  async shows(id: string, what: string, fits: (shown: ShownAgent) => boolean): Promise<ShownAgent> {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
      const shown = await this.show(id);
      if (fits(shown)) return shown;
      if (Date.now() > end) throw new Late(`agent ${id} was never ${what}: ${JSON.stringify(shown.view)}`);
      await sleep(LOOK_MS);
    }
  }

  isDone(id: string): Promise<ShownAgent> {
    return this.shows(id, "done", ({ agent }) => agent.phase === "done");
  }

  /** The process of its newest attempt. */
  async pid(id: string): Promise<number> {
    return (await this.show(id)).attempts.at(-1)?.agent?.pid ?? -1;
  }

  /** `reprise attach` in a terminal; with `nested`, in the tmux that Reprise opens itself there. */
  attach(id: string, nested = false): Promise<Terminal> {
    const { bench, place } = this.#world;
    const plain = nested ? ["env", "-u", "TMUX", "-u", "TMUX_PANE"] : [];
    const command = [...plain, process.execPath, bench.cli, "attach", id];
    return Terminal.open(place, command, { cwd: place.project, env: this.#env });
  }

  async decision(id: string): Promise<ShownDecision> {
    const shown = await this.shows(id, "in need of a decision", ({ view }) => view.decision !== null);
    const named = shown.view.decision ?? "";
    return (await this.json<{ decision: ShownDecision }>("decisions", "show", named)).decision;
  }

  /** Two of them at once; one is enough, and no more than one stays. */
  async startDaemons(): Promise<void> {
    const both = await Promise.all([this.reprise("daemon", "start"), this.reprise("daemon", "start")]);
    if (both.some(({ code }) => code !== 0)) throw new Late("the supervisor was not started again");
  }

  /** Whether the supervisor has written down that it was about to do this. */
  hasDecided(action: string): boolean {
    const log = join(this.runtime, "d.log");
    if (!existsSync(log)) return false;
    const lines = readFileSync(log, "utf8").split("\n");
    return lines.some((line) => line.includes('"decided"') && line.includes(`"action":"${action}"`));
  }

  /** Whether a UI has drawn this. */
  hasDrawn(text: string): boolean {
    const runs = join(this.#world.place.state, "runs");
    const tapes = readdirSync(runs, { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith("stdout.log"),
    );
    return tapes.some((name) => readFileSync(join(runs, name), "utf8").includes(text));
  }

  /** Holders that can be reached. */
  holders(): readonly string[] {
    return readdirSync(this.runtime).filter((name) => /^h-.*\.json$/.test(name));
  }

  get runtime(): string {
    return join(this.#world.place.state, "run");
  }

  turns(): readonly RequestRecord[] {
    return this.#world.server.requests.filter(({ kind }) => kind === "turn");
  }

  /** The request with which this message reached the model for the first time. */
  asked(message: string, deadlineMs = DEADLINE_MS): Promise<RequestRecord> {
    const is = ({ users }: RequestRecord) => users.at(-1)?.trim() === message;
    return until(`the model was asked ${JSON.stringify(message)}`, () => this.turns().find(is), deadlineMs);
  }

  /** The same, once the answer was sent and the engine has written it down. */
  async answered(message: string): Promise<RequestRecord> {
    const turn = await this.asked(message);
    await until("the model has answered", () => turn.state === "ended", DEADLINE_MS);
    const answer = `SEEN users=${turn.users.length} `;
    await until("the answer is kept", () => isKept(this.#world, answer), DEADLINE_MS);
    return turn;
  }

  /** The model has begun an answer that it does not end, and the engine has written the message down. */
  async streams(message: string): Promise<void> {
    const turn = await this.asked(message);
    await until("the model answers", () => turn.state === "streaming", DEADLINE_MS);
    await until("the message is kept", () => isKept(this.#world, message), DEADLINE_MS);
  }

  /** Messages that began a turn, of all agents together. */
  delivered(): readonly string[] {
    return delivered(this.turns()).map((text) => text.trim());
  }

  /** Everything ends as a person ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { log } = this.#world;
    const listed = await this.reprise("agent", "list", "--json");
    const { agents } = JSON.parse(listed.stdout) as { agents: readonly { readonly id: string }[] };
    for (const { id } of agents) await this.reprise("agent", "stop", id);
    await this.reprise("daemon", "stop");
    const path = join(this.runtime, "d.log");
    if (existsSync(path)) log.push(readFileSync(path, "utf8").slice(-8_000));
  }
}
