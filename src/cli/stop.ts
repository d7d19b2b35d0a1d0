/** `reprise stop <handle>` */
import type { RunRecord } from "../core/records.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { StoppedIssue } from "../issues/issues.ts";
import { type Deps, forsakeUnrecorded, type Stopped, stopRun } from "../run/run.ts";
import { offerFor } from "../run/inspect.ts";
import { selectRun } from "../run/select.ts";
import { defineCommand, flag, JSON_FLAG, LIVE_HANDLE } from "./define.ts";
import { withEngineOf } from "./summary.ts";

export const command = defineCommand({
  name: "stop",
  summary: "Stop a live run. Its recordings stay, and you can resume it if the engine kept the session.",
  args: { handle: LIVE_HANDLE },
  options: {
    ownerGone: flag(
      "release a run whose process has certainly ended, in another container or on another machine",
    ),
    json: JSON_FLAG,
  },
  examples: ["reprise stop 1a2b3c4d", "reprise stop 1a2b --json"],
  run: async ({ args: { handle }, options, reply }, context) => {
    const { ownerGone = false } = options;
    const deps = await context.open({ cwd: null, ends: handle, ownerGone });
    const unrecorded = ownerGone ? await forsakeUnrecorded(deps, handle) : null;
    if (unrecorded !== null) {
      reply(
        { handle, runId: unrecorded, status: null, how: "not_running", strays: 0 },
        `No run has the handle ${handle}. Reprise released what its process held.`,
      );
      return 0;
    }
    const onProgress = (text: string) => context.log.info(text);
    const issue = ownerGone ? null : await stopIssue(deps, handle, onProgress);
    // The batch has ended the agent of an issue and recorded it.
    const stopped: Stopped =
      issue === null
        ? await stopRun(deps, handle, onProgress, { ownerGone })
        : { run: await selectRun(deps, handle), how: "asked", strays: 0 };
    if (ownerGone) await forsakeIssue(deps, stopped.run);
    const { run: record, how, strays } = stopped;
    const text =
      options.json === true ? "" : await stoppedText(await withEngineOf(context, deps, record), stopped);
    reply(
      {
        ...{ handle: record.handle, runId: record.runId, status: record.status, how, strays },
        ...(issue === null ? {} : { issue }),
      },
      issue === null ? text : `${text}\n${issueText(issue)}`,
    );
    return 0;
  },
});

/** One process runs a batch and can stop this issue alone. Null: not a batch's run. */
async function stopIssue(
  deps: Deps,
  handle: string,
  onProgress: (text: string) => void,
): Promise<StoppedIssue | null> {
  const found = await selectRun(deps, handle);
  if (found.subject?.startsWith("issue:") !== true) return null;
  const { stopInBatch } = await import("../issues/issues.ts");
  return stopInBatch(deps, found, onProgress);
}

async function forsakeIssue(deps: Deps, { subject }: RunRecord): Promise<void> {
  if (subject?.startsWith("issue:") === true)
    (await import("../issues/live-batch.ts")).forgetBatchOwner(deps, { subject });
}

function issueText({ batch, issue, state }: StoppedIssue): string {
  const stays =
    state === "completed" ? "" : " It stays in progress: a later `reprise issues run --resume` continues it.";
  return `Issue ${harmlessLine(issue, 100)} is ${state}.${stays} Batch ${batch} itself was not stopped.`;
}

async function stoppedText(deps: Deps, { run: record, how, strays }: Stopped): Promise<string> {
  const { handle, status } = record;
  const were = strays === 1 ? "was still there and has" : "were still there and have";
  const left = strays === 0 ? "" : ` ${strays} of its processes ${were} been ended.`;
  if (how === "not_running") return `Run ${handle} is not running (${status}).`;
  if (how === "strays") return `Run ${handle} was not running (${status}).${left}`;
  const { why, next } = await offerFor(deps, record);
  const again = why === null ? `Continue it: ${next}` : `It cannot be resumed: ${harmlessLine(why, 1_000)}.`;
  switch (how) {
    case "asked":
      return `Run ${handle} has stopped (${status}).${left} ${again}`;
    case "killed":
      return `Run ${handle} did not stop by itself and was ended (${status}).${left} ${again}`;
  }
}
