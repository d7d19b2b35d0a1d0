/** What waits for a person, of all agents: questions, UIs that ask, ended runs, limits. */
import { useState } from "preact/hooks";
import { act, type Fetched } from "../api.ts";
import { duration, isLive, moment, plural, safe, safeLine, stateOf, titleOf } from "../format.ts";
import { Age, Button, Empty, Failure, Skeleton, State, useAction, useNow } from "../parts/common.tsx";
import { useNotifyRequest } from "../notify.ts";
import { Icon } from "../parts/icons.tsx";
import type { Decision, DecisionOption, Inbox, RunRow } from "../types.ts";

interface InboxScreenProps {
  readonly inbox: Fetched<Inbox>;
  readonly mayWrite: boolean;
}

export function InboxScreen({ inbox, mayWrite }: InboxScreenProps) {
  const { data, error, reload } = inbox;
  const now = useNow(1_000);
  const askToNotify = useNotifyRequest();
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1>Inbox</h1>
        <span class="count" role="status">
          {data === undefined ? "" : waitingWords(data)}
        </span>
        <span class="grow" />
        {askToNotify === null ? null : (
          <Button onClick={askToNotify} title="While the page is open, when an agent begins to wait for you">
            Notify me
          </Button>
        )}
      </header>
      {error === undefined ? null : <Failure error={error} onRetry={reload} />}
      {data === undefined && error === undefined ? <Skeleton /> : null}
      {data === undefined ? null : <Sections inbox={data} now={now} mayWrite={mayWrite} onDone={reload} />}
    </main>
  );
}

function waitingWords({ decisions, waiting }: Inbox): string {
  const n = decisions.length + waiting.length;
  return n === 0 ? "nothing waits for you" : `${plural(n, "thing")} for you`;
}

interface SectionsProps {
  readonly inbox: Inbox;
  readonly now: number;
  readonly mayWrite: boolean;
  readonly onDone: () => void;
}

function Sections({ inbox, now, mayWrite, onDone }: SectionsProps) {
  const { decisions, waiting, limits, ended } = inbox;
  if (decisions.length + waiting.length + limits.length + ended.length === 0)
    return (
      <Empty title="All clear">
        <p>Questions of agents, limits and runs that ended in the last 24 hours appear here.</p>
      </Empty>
    );
  return (
    <>
      {decisions.length === 0 ? null : (
        <section aria-labelledby="h-decisions">
          <h2 id="h-decisions">Questions</h2>
          {decisions.map((decision) => (
            <DecisionCard
              key={decision.id}
              decision={decision}
              now={now}
              mayWrite={mayWrite}
              onDone={onDone}
            />
          ))}
        </section>
      )}
      {waiting.length === 0 ? null : (
        <section aria-labelledby="h-waiting">
          <h2 id="h-waiting">Waiting in their own UI</h2>
          <ul class="cards">
            {waiting.map((run) => (
              <li key={run.handle}>
                <RunLine run={run} now={now} href={`/runs/${run.handle}/terminal`} detail={whatOf(run)} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {limits.length === 0 ? null : (
        <section aria-labelledby="h-limits">
          <h2 id="h-limits">Limits</h2>
          <ul class="cards">
            {limits.map((limit) => (
              <li key={limit.handle} class="line-card">
                <Icon name="clock" />
                <span class="is-engine">{safeLine(limit.engine ?? limit.agentName, 16)}</span>
                <span class="grow">
                  {safeLine((limit.kind ?? limit.limit?.kind ?? "limit").replaceAll("_", " "), 40)}
                </span>
                <span class="dim">{resetWords(limit.resetsAt ?? limit.limit?.resetsAt ?? null, now)}</span>
                <a href={`/runs/${limit.handle}`} class="mono">
                  {limit.handle}
                </a>
              </li>
            ))}
          </ul>
        </section>
      )}
      {ended.length === 0 ? null : (
        <section aria-labelledby="h-ended">
          <h2 id="h-ended">Ended in the last 24 hours</h2>
          <ul class="cards">
            {ended.map((run) => (
              <li key={run.handle}>
                <RunLine
                  run={run}
                  now={now}
                  href={`/runs/${run.handle}`}
                  detail={run.outcome?.reason ?? ""}
                />
              </li>
            ))}
          </ul>
        </section>
      )}
    </>
  );
}

const whatOf = ({ live, what }: RunRow): string => what ?? (typeof live === "object" ? live?.what : "") ?? "";

function resetWords(resetsAt: string | null, now: number): string {
  if (resetsAt === null) return "no reset time is known";
  const left = Date.parse(resetsAt) - now;
  if (left <= 0) return `was reset ${moment(resetsAt, now)}`;
  return `resets ${moment(resetsAt, now)}, in ${duration(left)}`;
}

interface RunLineProps {
  readonly run: RunRow;
  readonly now: number;
  readonly href: string;
  readonly detail: string;
}

export function RunLine({ run, now, href, detail }: RunLineProps) {
  return (
    <a class="line-card" href={href}>
      <State state={stateOf(run)} isLive={isLive(run)} />
      <span class="grow cut">
        {titleOf(run)}
        {detail === "" ? null : <span class="dim"> · {safeLine(detail, 160)}</span>}
      </span>
      <span class="is-engine">{safeLine(run.agentName, 16)}</span>
      <span class="dim is-number">
        <Age at={run.updatedAt} now={now} />
      </span>
    </a>
  );
}

const TAKES_MESSAGE: readonly string[] = ["resume", "nudge", "fresh"];

/** The command line's words about its options mean nothing here. */
const labelOf = ({ label }: DecisionOption): string => {
  return capital(safeLine(label.replace(/ \(with -m[^)]*\)$/, ""), 80));
};

const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

interface DecisionCardProps {
  readonly decision: Decision;
  readonly now: number;
  readonly mayWrite: boolean;
  readonly onDone: () => void;
}

/** Answered in place, with the facts that the CLI shows. */
function DecisionCard({ decision, now, mayWrite, onDone }: DecisionCardProps) {
  const [message, setMessage] = useState("");
  const action = useAction();
  const takesMessage = decision.options.some(({ does }) => TAKES_MESSAGE.includes(does));
  const choose = (option: DecisionOption) =>
    action.run(async () => {
      const isTold = message.trim() !== "" && TAKES_MESSAGE.includes(option.does);
      await act(`/decisions/${decision.id}`, { choice: option.n, ...(isTold ? { message } : {}) });
      onDone();
    });
  return (
    <article class="decision" aria-label={`Question of agent ${decision.agentId}`}>
      <header>
        <Icon name="inbox" />
        <a href={`/runs/${decision.agentId}`} class="mono">
          {safeLine(decision.agentId, 16)}
        </a>
        <span class="dim">attempt {decision.attempt}</span>
        <span class="grow" />
        <span class="dim">
          <Age at={decision.createdAt} now={now} />
        </span>
      </header>
      <p class="decision-what">{capital(safeLine(decision.what, 400))}</p>
      {decision.trouble === null ? null : (
        <p class="is-bad">
          {safeLine(decision.trouble.kind.replaceAll("_", " "), 40)}:{" "}
          {safeLine(decision.trouble.message, 400)}
        </p>
      )}
      {decision.tried === undefined ? null : <pre class="plain quote">{safe(decision.tried)}</pre>}
      {decision.lastWords === "" ? null : (
        <blockquote class="quote">
          <pre class="plain">{safe(decision.lastWords)}</pre>
        </blockquote>
      )}
      {mayWrite && takesMessage ? (
        <label class="field-block">
          <span>Message to the agent (optional)</span>
          <textarea rows={2} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
      ) : null}
      {action.error === undefined ? null : <Failure error={action.error} />}
      {mayWrite ? (
        <div class="actions">
          {decision.options.map((option, at) => (
            <Button
              key={option.n}
              kind={at === 0 ? "primary" : "plain"}
              disabled={action.busy}
              onClick={() => choose(option)}
            >
              {option.n}. {labelOf(option)}
            </Button>
          ))}
        </div>
      ) : null}
    </article>
  );
}
