/** The attempts of a run as a timeline. Each resume shows its receipt: the proof of which conversation it continued. */
import type { ComponentChildren } from "preact";
import { count, duration, moment, safeLine, tokenWords } from "../format.ts";
import { State, useNow } from "../parts/common.tsx";
import { Icon } from "../parts/icons.tsx";
import type { Attempt, Receipt, Run } from "../types.ts";

export function Attempts({ run }: { readonly run: Run }) {
  const newestFirst = run.history.toReversed();
  return (
    <div class="attempts">
      <Copy run={run} />
      <ol class="timeline" reversed>
        {newestFirst.map((attempt) => (
          <AttemptItem key={attempt.n} run={run} attempt={attempt} />
        ))}
      </ol>
    </div>
  );
}

const COPY_WORDS: Readonly<Record<string, readonly [level: "good" | "warn" | "bad", text: string]>> = {
  whole: ["good", "Reprise has a whole copy of the session"],
  damaged: ["bad", "The copy of the session is damaged"],
  none: ["warn", "Reprise has no copy of the session"],
};

function Copy({ run }: { readonly run: Run }) {
  const now = useNow();
  const [level, text] =
    COPY_WORDS[run.escrowState ?? "none"] ?? (["warn", `Copy of the session: ${run.escrowState}`] as const);
  return (
    <div class={`copy-state is-${level}`}>
      <Icon name="shield" />
      <p>
        {text}
        {run.escrow === null || run.escrow === undefined ? "" : `, taken ${moment(run.escrow.takenAt, now)}`}.
        <br />
        <span class="mono dim">{safeLine(run.session?.value ?? "No session id is known yet", 80)}</span>
      </p>
    </div>
  );
}

function AttemptItem({ run, attempt }: { readonly run: Run; readonly attempt: Attempt }) {
  const now = useNow();
  const { outcome, receipt } = attempt;
  const isLive = attempt.endedAt === null || attempt.endedAt === undefined;
  const took = (isLive ? now : Date.parse(attempt.endedAt ?? "")) - Date.parse(attempt.startedAt);
  return (
    <li class="attempt" id={`attempt-${attempt.n}`}>
      <div class="attempt-head">
        <span class="attempt-n">{attempt.n}</span>
        <strong>{safeLine(attempt.kind, 20)}</strong>
        <State state={outcome?.result ?? attempt.state} isLive={isLive} />
        <span class="grow" />
        <span class="dim" title={new Date(attempt.startedAt).toLocaleString()}>
          {moment(attempt.startedAt, now)} · {duration(took)}
        </span>
      </div>
      {attempt.message === null || attempt.message === undefined || attempt.message === "" ? null : (
        <p class="attempt-message">{safeLine(attempt.message, 240)}</p>
      )}
      {outcome === null || outcome === undefined || outcome.result === "completed" ? null : (
        <p class="attempt-why">
          {safeLine(outcome.reason, 300)}
          {outcome.trouble === null || outcome.trouble === undefined ? null : (
            <>
              <br />
              {safeLine(outcome.trouble.message, 400)}
              {typeof outcome.trouble.resetsAt === "string"
                ? ` (until ${moment(outcome.trouble.resetsAt, now)})`
                : ""}
            </>
          )}
        </p>
      )}
      <p class="attempt-facts">
        {tokenWords(attempt.tokens) === "" ? null : <span>{tokenWords(attempt.tokens)} tokens</span>}
        {typeof attempt.engineVersion === "string" ? (
          <span>{safeLine(`${run.agentName} ${attempt.engineVersion}`, 40)}</span>
        ) : null}
        <a href={`/runs/${run.handle}/replay/${attempt.n}`}>Replay</a>
      </p>
      {receipt === null ? null : <ReceiptCard receipt={receipt} />}
    </li>
  );
}

/** The same verdicts as `reprise show`. */
const VERDICTS: Readonly<
  Record<string, readonly [level: "good" | "warn" | "bad", title: string, how: string]>
> = {
  engine_reported: ["good", "Same conversation, proven", "The engine itself reported the id"],
  store_confirmed: ["good", "Same conversation, proven", "The engine's store shows that it continued"],
  forked: ["good", "A copy of the conversation, proven", "The engine reported a new id for the copy"],
  not_verified: ["warn", "No proof", "The engine did not confirm the conversation"],
  diverged: ["bad", "Diverged", "The engine answered in another conversation"],
};

export function ReceiptCard({ receipt }: { readonly receipt: Receipt }) {
  const [level, title, how] =
    VERDICTS[receipt.verified] ?? (["warn", receipt.verified, receipt.verified] as const);
  const { kept, rewritten, dropped } = receipt.options;
  return (
    <details class={`receipt is-${level}`} open>
      <summary>
        <Icon name={level === "good" ? "check" : "warn"} />
        {safeLine(title, 60)}
      </summary>
      <dl>
        <Fact name="Asked for">
          <span class="mono">{safeLine(receipt.asked, 200)}</span>
        </Fact>
        <Fact name="Reported">
          <span class="mono">{safeLine(receipt.reported ?? "nothing", 200)}</span>
        </Fact>
        <Fact name="Verified">{safeLine(how, 80)}</Fact>
        <Fact name="Copy">
          {receipt.restoredFromEscrow
            ? "Restored: the engine had lost the conversation"
            : "Not needed: the engine still had the conversation"}
        </Fact>
        {(receipt.lacks ?? []).map((lack) => (
          <Fact key={lack} name="Lacks">
            {safeLine(lack, 200)}
          </Fact>
        ))}
        <Options name="Options kept" list={kept} />
        <Options name="Rewritten" list={rewritten} />
        <Options name="Dropped" list={dropped} />
      </dl>
    </details>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Options({ name, list }: { readonly name: string; readonly list: readonly string[] }) {
  if (list.length === 0) return <Fact name={name}>none</Fact>;
  return (
    <Fact name={`${name} (${count(list.length)})`}>
      {list.map((option, at) => (
        <code key={at}>{safeLine(option, 160)}</code>
      ))}
    </Fact>
  );
}
