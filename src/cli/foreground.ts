/** An attempt of `start` or `resume` in the foreground, up to its exit code. */
import type { AttemptResult, Deps, Watch } from "../run/run.ts";
import type { Context } from "./context.ts";
import { openView, type View, type ViewOptions } from "./live.ts";
import { finishAttempt } from "./summary.ts";

interface Foreground {
  /** The attempt may open the engine's UI on this terminal. */
  readonly opensUi: boolean;
  /** Gets the record of the attempt as well. */
  readonly also?: Pick<Watch, "recorded">;
  readonly attempt: (watch: Watch) => Promise<AttemptResult>;
}

export async function inForeground(
  context: Context,
  options: ViewOptions,
  deps: Deps,
  { opensUi, also = {}, attempt }: Foreground,
): Promise<number> {
  const view = Object.assign(openView(context, options), also);
  const front = opensUi ? await leavable(context, deps, view) : null;
  let result: AttemptResult;
  try {
    result = await attempt(front ?? view);
  } finally {
    await front?.over();
    view.close();
  }
  if (front?.left === true) return endInBackground(deps, result);
  return finishAttempt(context, options, result, { view, deps });
}

async function leavable(context: Context, deps: Deps, view: View) {
  return new (await import("./leavable-view.ts")).LeavableView(context, deps, view);
}

/** As a holder ends. */
async function endInBackground(deps: Deps, result: AttemptResult): Promise<number> {
  const { run, attempt } = result;
  await result.finish();
  const { endNotice, limitNotice, notify } = await import("../notify/notify.ts");
  const notice = limitNotice(run, attempt, deps.clock.now()) ?? endNotice(run, attempt);
  if (notice !== null) await notify(deps, notice, `run ${run.handle}`);
  return result.exitCode;
}
