/** `reprise status [--watch]`: all agents and pipelines at a glance, with or without a daemon. */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { cutToColumns } from "../lib/width.ts";
import type { Deps } from "../run/run.ts";
import { type AgentView, getAgent, listAgents, listDecisions, viewOf } from "../supervisor/supervisor.ts";
import { type Daemon, findDaemon } from "../supervisor/daemon-client.ts";
import { listPipelines } from "../supervisor/pipelines.ts";
import { agentTable, MOST_WORDS, nextWords, see } from "./agent-look.ts";
import { openScheduled, scheduledLines } from "./scheduled-lines.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { defineCommand, flag, JSON_FLAG } from "./define.ts";
import { pipelineTable, type PipelineView, pipelineWords, viewsOf } from "./pipeline.ts";
import { labelled, paintState } from "./words.ts";

const EVERY_MS = 1_000;
const NOT_RUNNING =
  "The daemon is not running: these agents are not supervised. Start it: reprise daemon start";

export const command = defineCommand({
  name: "status",
  summary: "Show all agents and pipelines: state, time in that state, next action.",
  options: {
    watch: flag("keep updating until Ctrl-C; in a pipe or dumb terminal, print one line per change", "-w"),
    json: JSON_FLAG,
  },
  examples: ["reprise status", "reprise status --watch", "reprise status --json | jq '.agents[].state'"],
  run: async ({ options, reply }, context) => {
    if (options.watch === true && options.json === true)
      throw new Fault("usage", "Give --watch or --json, not both: --json prints one object.");
    const deps = await context.open({ cwd: null });
    await using source = new Source(deps);
    if (options.watch === true) {
      const { stdin, stdout } = context.terminal;
      if (stdin && stdout && deps.env["TERM"] !== "dumb")
        return await (await import("./home.ts")).openScreen(context, deps, "agents");
      await watchLines(context, source);
      return 0;
    }
    const status = await source.read();
    const scheduled = await openScheduled(deps);
    reply({ ...status, scheduled: [...scheduled.values()] }, () => {
      for (const line of frameOf(status, context.terminal, deps.clock.now())) context.print(line);
      for (const line of scheduledLines(scheduled.values(), deps.clock.now())) context.print(line);
    });
    return 0;
  },
});

/** The content of `--json`. */
export interface AgentStatus {
  readonly daemon: { readonly pid: number; readonly version: string; readonly sinceMs: number } | null;
  readonly agents: readonly AgentView[];
  readonly pipelines: readonly PipelineView[];
}

/** Asks the daemon; without one it looks itself. */
class Source implements AsyncDisposable {
  readonly #deps: Deps;
  #daemon: Daemon | null = null;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get nowMs(): number {
    return this.#deps.clock.now();
  }

  async read(): Promise<AgentStatus> {
    const pipelines = await viewsOf(this.#deps, await listPipelines(this.#deps, { open: true }));
    const told = await this.#ask();
    if (told !== null) return { ...told, agents: await this.#asked(told.agents), pipelines };
    const agents: AgentView[] = [];
    for (const { record } of await listAgents(this.#deps, { open: true })) {
      agents.push(viewOf(await see(this.#deps, record)));
    }
    return { daemon: null, agents, pipelines };
  }

  /** A person may have gone on with an agent that asked, and the supervisor has not looked since. */
  async #asked(views: readonly AgentView[]): Promise<readonly AgentView[]> {
    if (views.every(({ decision }) => decision === null)) return views;
    const open = new Set((await listDecisions(this.#deps, { open: true })).map(({ id }) => id));
    const isPast = ({ decision }: AgentView) => decision !== null && !open.has(decision);
    const seen: AgentView[] = [];
    for (const view of views) {
      const agent = isPast(view) ? await getAgent(this.#deps, view.id) : null;
      if (agent === null) seen.push(view);
      else if (agent.record.phase === "active") seen.push(viewOf(await see(this.#deps, agent.record)));
    }
    return seen;
  }

  async #ask(): Promise<Pick<AgentStatus, "daemon" | "agents"> | null> {
    try {
      this.#daemon ??= await findDaemon(this.#deps);
      if (this.#daemon === null) return null;
      const { pid, version, sinceMs, agents } = await this.#daemon.status();
      return { daemon: { pid, version, sinceMs }, agents: agents.filter(({ phase }) => phase === "active") };
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      // The daemon is gone or being replaced: the next look finds the next one.
      await this[Symbol.asyncDispose]();
      return null;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = null;
    await daemon?.[Symbol.asyncDispose]();
  }
}

/** Lines for a terminal or a pipe; on a terminal none is wider than it. */
export function frameOf(status: AgentStatus, terminal: Terminal, nowMs: number): readonly string[] {
  const { agents, pipelines, daemon } = status;
  if (agents.length === 0 && pipelines.length === 0) return ["No agents. Start one: reprise agent run NAME"];
  // Agents of other versions may have any text.
  const fit = (lines: readonly string[]) =>
    terminal.stdout ? lines.map((line) => cutToColumns(line, terminal.columns)) : lines;
  const tableOf = (rows: readonly string[], states: readonly string[]) =>
    rows.flatMap((row, at) =>
      painted(terminal, fit(row.split("\n")), at === 0 ? null : (states[at - 1] ?? "")),
    );
  const known = agents.map((view) => ({ ...view, id: harmlessLine(view.id, 8) }));
  return [
    ...(daemon === null ? fit(notRunning(terminal)).map((line) => paint(terminal, "yellow", line)) : []),
    ...(agents.length === 0
      ? []
      : tableOf(
          agentTable(known, nowMs, terminal),
          agents.map(({ state }) => state),
        )),
    ...(agents.length === 0 || pipelines.length === 0 ? [] : [""]),
    ...(pipelines.length === 0 ? [] : tableOf(pipelineTable(pipelines, nowMs, terminal), [])),
  ];
}

/** On one line if there is room; otherwise the command gets a separate line. */
function notRunning(terminal: Terminal): readonly string[] {
  if (!terminal.stdout || NOT_RUNNING.length <= terminal.columns) return [NOT_RUNNING];
  return NOT_RUNNING.split(/(?<=\.) /).flatMap((sentence) => labelled(terminal, "", sentence));
}

/** The lines of one row. Null: the header. */
function painted(
  terminal: Terminal,
  [first = "", ...more]: readonly string[],
  state: string | null,
): readonly string[] {
  if (state === null) return [paint(terminal, "dim", first), ...more];
  return [first.replace(` ${state} `, () => ` ${paintState(terminal, state)} `), ...more];
}

/** The table once, then a line for each change. */
async function watchLines(context: Context, source: Source): Promise<void> {
  using stop = new Stop();
  let before = await source.read();
  for (const line of frameOf(before, context.terminal, source.nowMs)) context.print(line);
  while (!stop.asked && !process.stdout.destroyed) {
    await stop.or(EVERY_MS);
    if (stop.asked) return;
    const now = await source.read();
    const at = new Date(source.nowMs).toISOString();
    for (const change of changesBetween(before, now, source.nowMs)) context.print(`${at}  ${change}`);
    before = now;
  }
}

/** One line for each changed agent and pipeline. */
export function changesBetween(before: AgentStatus, now: AgentStatus, nowMs: number): readonly string[] {
  const supervisor =
    (before.daemon === null) === (now.daemon === null)
      ? []
      : [now.daemon === null ? NOT_RUNNING : `The supervisor runs (pid ${now.daemon.pid}).`];
  const agents = changed(before.agents, now.agents, (view) => {
    const name = `${view.id}  ${harmlessLine(view.name, 24)}`;
    const next = harmlessLine(nextWords(view, nowMs), MOST_WORDS);
    return {
      name,
      state: view.state,
      key: `${view.state} ${view.decision ?? ""} ${view.next?.action ?? ""}`,
      next,
    };
  });
  const pipelines = changed(before.pipelines, now.pipelines, (view) => {
    const { id, name, phase, step, decision } = view;
    const state = harmlessLine(`${phase}, step ${step ?? "none"}`, 60);
    const next = harmlessLine(pipelineWords(view), MOST_WORDS);
    return { name: `${id}  ${harmlessLine(name, 24)}`, state, key: `${state} ${decision ?? ""}`, next };
  });
  return [...supervisor, ...agents, ...pipelines];
}

interface Said {
  readonly name: string;
  readonly state: string;
  /** Equal: no change worth a line. */
  readonly key: string;
  readonly next: string;
}

function changed<T extends { readonly id: string }>(
  before: readonly T[],
  now: readonly T[],
  say: (one: T) => Said,
): readonly string[] {
  const gone = before
    .filter(({ id }) => !now.some((one) => one.id === id))
    .map((one) => `${say(one).name}  ended`);
  const moved = now.flatMap((one) => {
    const earlier = before.find(({ id }) => id === one.id);
    const said = say(one);
    if (earlier !== undefined && say(earlier).key === said.key) return [];
    return [[said.name, said.state, said.next].filter((text) => text !== "").join("  ")];
  });
  return [...gone, ...moved];
}

/** Ctrl-C and similar signals end the watching, not the process. */
class Stop implements Disposable {
  readonly #signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  readonly #abort = new AbortController();
  readonly #stop = () => this.#abort.abort();

  constructor() {
    for (const signal of this.#signals) process.on(signal, this.#stop);
  }

  get asked(): boolean {
    return this.#abort.signal.aborted;
  }

  async or(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#abort.signal }).catch(() => {});
  }

  [Symbol.dispose](): void {
    for (const signal of this.#signals) process.off(signal, this.#stop);
  }
}
