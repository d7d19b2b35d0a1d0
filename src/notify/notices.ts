/** The notifications about background runs. Pure. */
import type { NOTICE_EVENTS } from "../core/kinds.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { untilText } from "../lib/until.ts";

/** The events that people are notified of. `[notify] events` chooses among them. */
export type NoticeEvent = (typeof NOTICE_EVENTS)[number] | "test";

/** One notification. Its texts may come from an agent; secrets are redacted here. */
export interface Notice {
  readonly event: NoticeEvent;
  /** One sentence that names the run or agent. Chat services show it. */
  readonly text: string;
  /** Further keys of the JSON that commands and webhooks get. */
  readonly facts: Readonly<Record<string, unknown>>;
}

type Ended = Pick<AttemptRecord, "n" | "outcome" | "exit" | "endedAt">;

/** A background run has ended. */
export function endNotice(run: RunRecord, attempt: Ended): Notice {
  const { handle, agentName, name } = run;
  const { outcome } = attempt;
  const who = name === null ? `${agentName} ${handle}` : `${name} (${handle})`;
  const why = outcome === null || outcome.result === "completed" ? "" : `: ${outcome.reason}`;
  return {
    event: "ended",
    text: `${who}: ${outcome?.result ?? run.status}${why}`,
    facts: { run: factsOf(run, attempt), next: `reprise show ${handle}` },
  };
}

/** The attempt ended at a limit of the engine's account. Null: it did not. */
export function limitNotice(run: RunRecord, attempt: Ended, nowMs: number): Notice | null {
  const trouble = attempt.outcome?.trouble;
  if (trouble?.kind !== "rate_limited" && trouble?.kind !== "quota") return null;
  const atMs = Date.parse(trouble.resetsAt ?? "");
  const until = Number.isNaN(atMs) ? "" : ` ${untilText(atMs, nowMs)}`;
  const { handle, agentName, name } = run;
  const who = name === null ? `${agentName} ${handle}` : `${name} (${handle})`;
  const goOn = Number.isNaN(atMs)
    ? `reprise resume ${handle} "go on"`
    : `reprise resume ${handle} --when-reset "go on"`;
  return {
    event: "limit",
    text: `${who}: limited${until}: ${trouble.message}`,
    facts: { run: factsOf(run, attempt), resetsAt: trouble.resetsAt ?? null, next: goOn },
  };
}

function factsOf({ handle, runId, agentName, name, cwd, status }: RunRecord, attempt: Ended) {
  const { n, outcome, exit, endedAt } = attempt;
  return { handle, runId, engine: agentName, name, cwd, status, attempt: n, outcome, exit, endedAt };
}
