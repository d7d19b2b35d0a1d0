/** `reprise stop <handle>` */
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Deps, liveOwner, offerFor, selectRun, type Stopped, stopRun } from "../run/run.ts";
import { makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";

const command = () =>
  makeCommand({
    name: "stop",
    summary: "Stop a live run. What was said stays recorded, and can be resumed where the engine keeps it.",
    examples: ["reprise stop 1a2b3c4d", "reprise stop 1a2b --json"],
  })
    .usage("[options] <handle>")
    .argument("[handle]", "handle, unique prefix of 4 to 7 characters, or run id")
    .option("--owner-gone", "its process is in another container or on another machine, and certainly gone")
    .option("--json", "print one JSON object");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const { json, ownerGone = false }: { json?: true; ownerGone?: boolean } = parser.opts();
  const [handle] = parser.args;
  if (handle === undefined) {
    throw new Fault("usage", "Which run? `reprise list --status running` shows the live ones.");
  }
  const deps = await context.open({ cwd: null, ends: handle });
  await sayBatch(context, deps, handle);
  const stopped = await stopRun(deps, handle, (text) => context.log.info(text), { ownerGone });
  if (json === true) {
    const { run: record, how, strays } = stopped;
    context.printJson({
      ok: true,
      handle: record.handle,
      runId: record.runId,
      status: record.status,
      how,
      strays,
    });
  } else context.print(await say(deps, stopped));
  return 0;
}

/** A batch works on issues in one process: what stops one of them stops all, and that is said before. */
async function sayBatch(context: Context, deps: Deps, handle: string): Promise<void> {
  const { subject, runId, handle: whole } = await selectRun(deps, handle);
  if (subject?.startsWith("issue:") !== true) return;
  const { batchOfSubject } = await import("../issues/issues.ts");
  const batch = batchOfSubject(deps, subject);
  if (batch === null || (await liveOwner(deps, runId))?.pid !== batch.pid) return;
  context.log.warn(
    `Run ${whole} is part of batch ${batch.batch} (pid ${batch.pid}), which stops as a whole: no new issue is begun, and its other agents are interrupted too.`,
  );
}

async function say(deps: Deps, { run: record, how, strays }: Stopped): Promise<string> {
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
