/** Runs the gate on an agent's work, and notices an agent that no longer changes anything. */
import type { GateCommand } from "../core/config-issues.ts";
import { plainEnv, runGate } from "../process/process.ts";
import { recordGateFiles } from "./git/snapshot.ts";
import type { IssueProgress } from "./issue-progress.ts";

const MAX_GATE_OUTPUT = 16 * 1024 * 1024;
const MAX_SAME = 2;

/** Runs the commands in order until one fails. Returns why, with the end of its output. Null: all passed. */
export async function checkWork(
  { context, baseline, handle, issue, stopControl }: IssueProgress,
  commands: readonly GateCommand[],
  cwd: string,
): Promise<string | null> {
  const { deps, batch, redact, options } = context;
  // Every batch uses the same marker, so that it finds processes of a batch that was killed.
  const marker = `${handle ?? batch.runId}/${issue.id}/gate`;
  const env = {
    ...plainEnv(deps.env),
    REPRISE_ISSUE: issue.id,
    ...(baseline === null ? {} : { REPRISE_BASELINE: baseline }),
  };
  const unlisten = stopControl.on(
    () => void (stopControl.level >= 2 && deps.processes.endTree(null, marker, "terminate")),
  );
  const isolated = options.isolate === "worktree";
  if (isolated) await recordGateFiles(deps, cwd, "begins");
  try {
    for (const { run: command, timeoutMs } of commands) {
      const request = { command, cwd, env, timeoutMs, maxBytes: MAX_GATE_OUTPUT, redact, marker };
      const { passed, detail } = await runGate(deps.processes, request);
      if (!passed) return detail;
    }
    return null;
  } finally {
    unlisten();
    if (isolated) await recordGateFiles(deps, cwd, "ended");
  }
}

/** Notices the same files at several failing gates in a row. */
export class StuckCheck {
  #fingerprint: string | null = null;
  #same = 0;

  isStuck(fingerprint: string | null): boolean {
    this.#same = fingerprint !== null && fingerprint === this.#fingerprint ? this.#same + 1 : 0;
    this.#fingerprint = fingerprint;
    return this.#same >= MAX_SAME;
  }
}
