/** Supervised agents and pipelines: state, why, and what Reprise does next and when. */
import { useGet } from "../api.ts";
import { duration, moment, plural, safeLine } from "../format.ts";
import { Command, Empty, Failure, Note, Skeleton, State, useNow } from "../parts/common.tsx";

interface Agent {
  readonly id: string;
  readonly name: string;
  readonly engine: string;
  readonly phase: string;
  readonly state: string;
  readonly sinceMs: number;
  readonly attempts: number;
  readonly why: string;
  readonly next: { readonly action: string; readonly atMs: number } | null;
  readonly decision: string | null;
  readonly pipeline?: { readonly id: string; readonly step: string } | null;
}

interface Pipeline {
  readonly id: string;
  readonly name: string;
  readonly phase: string;
  readonly step: string | null;
  readonly reason: string | null;
  readonly decision: string | null;
  readonly workspace: string;
  readonly createdAt: string;
  readonly endedAt: string | null;
}

interface Status {
  /** Null: nothing supervises. Absent: the server does not say. */
  readonly daemon?: { readonly pid: number } | null;
  readonly agents?: readonly Agent[];
  readonly pipelines?: readonly Pipeline[];
}

export function Agents() {
  const agents = useGet<Status>("/agents", ["agents"]);
  const pipelines = useGet<Status>("/pipelines", ["agents"]);
  const now = useNow(1_000);
  const error = agents.error ?? pipelines.error;
  const list = agents.data?.agents ?? [];
  const lines = pipelines.data?.pipelines ?? [];
  const isLoaded = agents.data !== undefined && pipelines.data !== undefined;
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Agents</h1>
        <span class="count" role="status">
          {isLoaded ? `${plural(list.length, "agent")}, ${plural(lines.length, "pipeline")}` : ""}
        </span>
      </header>
      {error === undefined ? null : <Failure error={error} onRetry={agents.reload} />}
      {isLoaded || error !== undefined ? null : <Skeleton />}
      {agents.data?.daemon === null && list.length > 0 ? (
        <Note level="warn">
          The daemon is not running: these agents are not supervised. Start it:{" "}
          <Command>reprise daemon start</Command>
        </Note>
      ) : null}
      {isLoaded && list.length + lines.length === 0 ? (
        <Empty title="No agents">
          <p>
            Start one in a terminal: <Command>reprise agent run NAME</Command>
          </p>
        </Empty>
      ) : null}
      {list.length === 0 ? null : (
        <section aria-label="Agents">
          <ul class="cards">
            {list.map((agent) => (
              <AgentItem key={agent.id} agent={agent} now={now} />
            ))}
          </ul>
        </section>
      )}
      {lines.length === 0 ? null : (
        <section aria-labelledby="h-pipelines">
          <h2 id="h-pipelines">Pipelines</h2>
          <ul class="cards">
            {lines.map((pipeline) => (
              <PipelineItem key={pipeline.id} pipeline={pipeline} now={now} />
            ))}
          </ul>
        </section>
      )}
    </main>
  );
}

function AgentItem({ agent, now }: { readonly agent: Agent; readonly now: number }) {
  const state = agent.decision === null ? agent.state : "asks";
  return (
    <li>
      <a class="fact-card" href={agent.decision === null ? `/runs/${agent.id}` : "/"}>
        <span class="fact-head">
          <State state={state} isLive={agent.phase === "active"} />
          <strong class="cut">{safeLine(agent.name, 60)}</strong>
          <span class="is-engine">{safeLine(agent.engine, 16)}</span>
          <span class="grow" />
          <span class="dim">
            {plural(agent.attempts, "attempt")} · {duration(now - agent.sinceMs)}
          </span>
        </span>
        <span class="dim">{safeLine(agent.why, 300)}</span>
        {agent.next === null ? null : (
          <span>
            Next: {safeLine(agent.next.action, 60)}
            {agent.next.atMs <= now ? " now" : ` in ${duration(agent.next.atMs - now)}`}
          </span>
        )}
        {agent.decision === null ? null : <span class="is-warn">Asks you: answer it in the inbox</span>}
      </a>
    </li>
  );
}

function PipelineItem({ pipeline, now }: { readonly pipeline: Pipeline; readonly now: number }) {
  return (
    <li class="fact-card">
      <span class="fact-head">
        <State
          state={pipeline.decision === null ? pipeline.phase : "asks"}
          isLive={pipeline.phase === "active"}
        />
        <strong class="cut">{safeLine(pipeline.name, 60)}</strong>
        <span class="mono dim">{safeLine(pipeline.id, 20)}</span>
        <span class="grow" />
        <span class="dim">begun {moment(pipeline.createdAt, now)}</span>
      </span>
      {pipeline.step === null ? null : <span>Step: {safeLine(pipeline.step, 80)}</span>}
      {pipeline.reason === null ? null : <span class="dim">{safeLine(pipeline.reason, 300)}</span>}
      {pipeline.decision === null ? null : (
        <span class="is-warn">
          Asks you: <a href="/">answer it in the inbox</a>
        </span>
      )}
    </li>
  );
}
