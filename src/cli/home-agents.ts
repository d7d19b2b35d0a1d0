/** Supervised agents, pipelines and open decisions, as rows of the home screen. */
import { Fault } from "../core/faults.ts";
import type { DecisionRecord } from "../core/supervision.ts";
import type { HomeRow } from "../home/home.ts";
import type { Deps } from "../run/run.ts";
import { type AgentView, listAgents, listDecisions, viewOf } from "../supervisor/supervisor.ts";
import { type Daemon, findDaemon } from "../supervisor/daemon-client.ts";
import { listPipelines } from "../supervisor/pipelines.ts";
import { nextWords, see } from "./agent-look.ts";
import { type PipelineView, pipelineWords, viewsOf } from "./pipeline.ts";

export interface Supervised extends AsyncDisposable {
  /** `runIds`: runs that are shown as agents. */
  read(): Promise<{ rows: readonly HomeRow[]; note: string; runIds: ReadonlySet<string> }>;
  /** The text below a decision or pipeline. Null: the row has recorded output. */
  words(row: HomeRow): string | null;
  runIdOf(row: HomeRow): string;
}

/** Without a daemon each agent is asked itself, which is expensive. */
const ASK_EVERY_MS = 5_000;

export function agentsAndQuestions(deps: Deps): Supervised {
  let daemon: Daemon | null = null;
  let agents: readonly AgentView[] = [];
  let askedAt = 0;
  const texts = new Map<string, string>();
  const close = async () => {
    const open = daemon;
    daemon = null;
    await open?.[Symbol.asyncDispose]();
  };
  const look = async () => {
    try {
      daemon ??= await findDaemon(deps);
      if (daemon !== null) return (await daemon.status()).agents.filter(({ phase }) => phase === "active");
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      await close();
    }
    if (deps.clock.now() - askedAt < ASK_EVERY_MS) return agents;
    askedAt = deps.clock.now();
    const seen: AgentView[] = [];
    for (const { record } of await listAgents(deps, { open: true }))
      seen.push(viewOf(await see(deps, record)));
    return seen;
  };
  return {
    async read() {
      agents = await look();
      const decisions = await listDecisions(deps, { open: true });
      const pipelines = await viewsOf(deps, await listPipelines(deps, { open: true }));
      const now = deps.clock.now();
      texts.clear();
      for (const one of decisions) texts.set(`decision:${one.id}`, decisionText(one));
      for (const one of pipelines) texts.set(`pipeline:${one.id}`, pipelineWords(one));
      const isAlone = agents.length > 0 && daemon === null;
      return {
        rows: [
          ...decisions.map(decisionRow),
          ...agents.map((view) => agentRow(view, now)),
          ...pipelines.map((view) => pipelineRow(view)),
        ],
        note: isAlone ? "The daemon is not running: reprise daemon start" : "",
        runIds: new Set(agents.map(({ runId }) => runId)),
      };
    },
    words: ({ key }) => texts.get(key) ?? null,
    runIdOf: ({ id }) => agents.find((view) => view.id === id)?.runId ?? id,
    [Symbol.asyncDispose]: close,
  };
}

const searched = (...parts: readonly string[]) => parts.join(" ").toLowerCase();

function decisionRow({ id, what, options, createdAt }: DecisionRecord): HomeRow {
  const at = Date.parse(createdAt);
  return {
    ...{ key: `decision:${id}`, kind: "decision", id, title: what, engine: "", state: "asks" },
    ...{ sinceMs: at, createdMs: at, next: "d answers it", tokens: null, live: true, hasUi: false },
    ...{ decision: id, choices: options.map(choiceText), text: searched(id, what) },
  };
}

const choiceText = ({ n, label }: DecisionRecord["options"][number]) => `${n}. ${label}`;

function decisionText({ what, lastWords, options }: DecisionRecord): string {
  return [what, lastWords, "", ...options.map(choiceText)].join("\n");
}

function agentRow(view: AgentView, nowMs: number): HomeRow {
  const { id, name, engine, state, sinceMs, decision, attempts } = view;
  return {
    ...{ key: `agent:${id}`, kind: "agent", id, title: name, engine, state, sinceMs, createdMs: sinceMs },
    ...{ next: nextWords(view, nowMs), tokens: null, live: true, hasUi: true, decision },
    text: searched(id, name, engine, state, String(attempts)),
  };
}

function pipelineRow(view: PipelineView): HomeRow {
  const { id, name, phase, createdAt, decision } = view;
  const at = Date.parse(createdAt);
  return {
    ...{ key: `pipeline:${id}`, kind: "pipeline", id, title: name, engine: "", state: phase, sinceMs: at },
    ...{ createdMs: at, next: pipelineWords(view), tokens: null, live: phase === "active", hasUi: false },
    ...{ decision, text: searched(id, name, phase) },
  };
}
