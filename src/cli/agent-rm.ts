/** `reprise agent rm <id…>`: removes agents that have ended, with their runs. */
import { exitCodeOf, Fault } from "../core/faults.ts";
import type { Deps } from "../run/run.ts";
import { finishRemovals } from "../run/clean.ts";
import { removeAgent, selectAgent } from "../supervisor/supervisor.ts";
import { makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";

const command = () =>
  makeCommand({
    name: "agent rm",
    summary:
      "Remove ended agents: records, decisions, and runs with their recordings. The engine keeps its session.",
    examples: ["reprise agent rm 1a2b3c4d", "reprise agent rm 1a2b3c4d 5e6f7a8b --json"],
  })
    .usage("[options] <id…>")
    .argument("[ids...]", "handles or unique prefixes of 4 to 7 characters")
    .option("--json", "print one JSON object");

interface Removed {
  readonly id: string;
  readonly runId: string;
}

export async function rm(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const { json }: { json?: true } = parser.opts();
  if (parser.args.length === 0)
    throw new Fault("usage", "Which agent? `reprise agent list --all` shows them.");
  const deps = await context.open({ cwd: null, makesRoom: true });
  await finishRemovals(deps);
  const removed: Removed[] = [];
  const failed: { given: string; fault: Fault }[] = [];
  for (const given of new Set(parser.args)) {
    const result = await remove(deps, given);
    if (result instanceof Fault) failed.push({ given, fault: result });
    else removed.push(result);
  }
  const [first] = failed;
  // With one agent, or no success at all, the fault itself is the message.
  if (first !== undefined && removed.length === 0 && failed.length === 1) throw first.fault;
  if (json === true) {
    context.printJson({
      ok: failed.length === 0,
      removed,
      failed: failed.map(({ given, fault }) => ({ given, code: fault.code, message: fault.message })),
    });
  } else {
    for (const { id } of removed) context.print(`Removed agent ${id}.`);
    for (const { fault } of failed) context.log.warn(fault.message);
  }
  if (first === undefined) return 0;
  return removed.length === 0 ? exitCodeOf(first.fault) : 10;
}

async function remove(deps: Deps, given: string): Promise<Removed | Fault> {
  try {
    const agent = await selectAgent(deps, given);
    await removeAgent(deps, agent);
    const { id, runId } = agent.record;
    return { id, runId };
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}
