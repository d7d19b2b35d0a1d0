/** `reprise wait <handle…>`: blocks until a condition holds for all runs, for scripts. */
import { setTimeout as sleep } from "node:timers/promises";
import { openHolder } from "../detached/detached.ts";
import { Fault } from "../core/faults.ts";
import { limitOf, limitWords, type RunLimit } from "../core/limit.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { plural } from "../lib/plural.ts";
import { type Deps, exitCodeFor } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { getAgent, viewOf } from "../supervisor/supervisor.ts";
import { see } from "./agent-look.ts";
import type { Context } from "./context.ts";
import { choice, defineCommand, duration, JSON_FLAG, RUN_HANDLE, withValue } from "./define.ts";

const EVERY_MS = 500;
const CONDITIONS = ["end", "idle", "decision", "reset"] as const;
type Condition = (typeof CONDITIONS)[number];

export const command = defineCommand({
  name: "wait",
  summary:
    "Wait until all named runs have ended, are idle, ask a question, or can continue after a limit. The exit code is that of the first run that did not complete.",
  usage: "[options] <handle…>",
  args: {
    handles: { ...RUN_HANDLE, help: "handles of runs or agents, unique prefixes, or run ids", many: true },
  },
  options: {
    for: choice(
      "<condition>",
      "end (default), idle (at its prompt), decision (a question to you), reset (the end of a limit)",
      CONDITIONS,
    ),
    timeout: withValue("<duration>", "give up after this time with exit code 124", duration),
    json: JSON_FLAG,
  },
  examples: [
    "reprise wait 1a2b3c4d && make deploy",
    "reprise wait 1a2b3c4d 5e6f7a8b --timeout 10m",
    'reprise wait 1a2b3c4d --for reset && reprise resume 1a2b3c4d "go on"',
    "reprise wait 1a2b3c4d --for decision --json | jq -r '.runs[].decision'",
  ],
  run: async ({ args, options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const runs: RunRecord[] = [];
    for (const given of args.handles) runs.push(await selectRun(deps, given));
    const interrupt = new AbortController();
    const onInterrupt = () => interrupt.abort();
    process.once("SIGINT", onInterrupt);
    try {
      const condition = options.for ?? "end";
      const request = { runs, condition, timeoutMs: options.timeout ?? null, signal: interrupt.signal };
      const results = await untilAll(context, deps, request);
      if (results === null) return 130;
      reply({ for: condition, runs: results }, () => {
        for (const { handle, status, decision, limit } of results) {
          const state = limit === null ? status : limitWords(limit, deps.clock.now()).text;
          context.print(
            `${handle}  ${state}${decision === null ? "" : `  reprise decisions show ${decision}`}`,
          );
        }
      });
      return results.find(({ exitCode }) => exitCode !== 0)?.exitCode ?? 0;
    } finally {
      process.off("SIGINT", onInterrupt);
    }
  },
});

interface WaitRequest {
  readonly runs: readonly RunRecord[];
  readonly condition: Condition;
  /** Null: no limit. */
  readonly timeoutMs: number | null;
  readonly signal: AbortSignal;
}

interface WaitResult {
  readonly handle: string;
  readonly runId: string;
  readonly status: string;
  /** False: the run ended before the condition could hold. */
  readonly met: boolean;
  /** The id of the open question. */
  readonly decision: string | null;
  /** The limit that ended the run. Null: none did, or an agent goes on by itself. */
  readonly limit: RunLimit | null;
  readonly exitCode: number;
}

/** Null: interrupted. */
async function untilAll(
  context: Context,
  deps: Deps,
  { runs, condition, timeoutMs, signal }: WaitRequest,
): Promise<readonly WaitResult[] | null> {
  const done = new Map<string, WaitResult>();
  const deadline = timeoutMs === null ? Number.POSITIVE_INFINITY : deps.clock.mono() + timeoutMs;
  for (let look = 0; !signal.aborted; look += 1) {
    for (const run of runs) {
      if (done.has(run.runId)) continue;
      const result = await lookAt(deps, run, condition);
      if (result !== null) done.set(run.runId, result);
    }
    const pending = runs.filter(({ runId }) => !done.has(runId));
    if (pending.length === 0) return runs.flatMap(({ runId }) => done.get(runId) ?? []);
    const left = deadline - deps.clock.mono();
    if (left <= 0) throw tooLate(pending, condition, timeoutMs ?? 0);
    if (look === 2 && context.terminal.stderr)
      context.log.info(
        `Waiting for ${plural(pending.length, "run")}. Ctrl-C ends the waiting, not the agents.`,
      );
    await sleep(Math.min(EVERY_MS, left), undefined, { signal }).catch(() => {});
  }
  return null;
}

function tooLate(pending: readonly RunRecord[], condition: Condition, timeoutMs: number): Fault {
  const handles = pending.map(({ handle }) => handle);
  return new Fault(
    "wait_timeout",
    `After ${formatDuration(timeoutMs)}, --for ${condition} does not hold for ${handles.join(", ")}. Wait longer, or look: reprise show ${handles[0] ?? ""}`,
    { facts: { handles, for: condition } },
  );
}

/** Null: not yet. */
async function lookAt(deps: Deps, before: RunRecord, condition: Condition): Promise<WaitResult | null> {
  // Corrects the record of a run whose owner died: such a run is interrupted.
  const run = await selectRun(deps, before.runId);
  const agent = await getAgent(deps, run.handle);
  const view = agent === null ? null : viewOf(await see(deps, agent.record));
  const last = (await deps.store.listAttempts(run.runId)).at(-1);
  const result = (
    met: boolean,
    exitCode: number,
    status: string = view?.state ?? run.status,
  ): WaitResult => ({
    ...{ handle: run.handle, runId: run.runId, status, met, exitCode },
    decision: view?.decision ?? null,
    limit: view === null && run.status !== "running" ? limitOf(last) : null,
  });
  if (condition === "reset") return hasReset(deps, run, last) ? result(true, 0) : null;
  if (condition === "decision" && view !== null && view.decision !== null) return result(true, 0);
  if (condition === "idle" && (await isIdle(deps, run, view?.state ?? null))) return result(true, 0, "idle");
  // A supervised agent goes on after an attempt has ended.
  if (view === null ? run.status === "running" : view.phase === "active") return null;
  const exitCode = view?.phase === "done" ? 0 : exitCodeOfRun(run, last);
  const met = condition === "end" || (condition === "idle" && exitCode === 0 && !run.launch.interactive);
  return result(met, met ? exitCode : Math.max(1, exitCode));
}

function exitCodeOfRun({ status }: RunRecord, last: AttemptRecord | undefined): number {
  if (last !== undefined && last.outcome !== null) return exitCodeFor(last.outcome, null);
  return status === "completed" ? 0 : 1;
}

/** `state`: of a supervised agent. Any other run answers through its holder, if it runs in the background. */
async function isIdle(deps: Deps, run: RunRecord, state: string | null): Promise<boolean> {
  if (state !== null) return state === "idle";
  if (run.status !== "running") return false;
  try {
    await using link = await openHolder(deps, run);
    return link?.observed().activity.state === "idle";
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

/** Throws if the run waits for no limit. */
function hasReset(deps: Deps, run: RunRecord, last: AttemptRecord | undefined): boolean {
  const trouble = last?.outcome?.trouble;
  const atMs = Date.parse(trouble?.resetsAt ?? "");
  const { handle } = run;
  if (run.status === "running" || trouble === undefined || !["rate_limited", "quota"].includes(trouble.kind))
    throw new Fault(
      "limit_unknown",
      `The last attempt of run ${handle} hit no limit. Look at it: reprise show ${handle}`,
      { facts: { handle } },
    );
  if (Number.isNaN(atMs))
    throw new Fault(
      "limit_unknown",
      `The last attempt of run ${handle} hit a limit, but the engine did not say when it ends. Try: reprise resume ${handle}`,
      { facts: { handle } },
    );
  return atMs <= deps.clock.now();
}
