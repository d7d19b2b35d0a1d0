/** `reprise agent send|stop|resume`: what a person wants of agents. The daemon does it, so that nobody fights over one. */
import { Fault } from "../core/faults.ts";
import { ensureDaemon, findDaemon, listAgents, selectAgent, stopAgent } from "../supervisor/supervisor.ts";
import { makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";

const sendCommand = () =>
  makeCommand({
    name: "agent send",
    summary: "Tell an agent something: typed into its UI when it is idle, or as its next turn.",
    examples: ['reprise agent send 1a2b3c4d "now add a test"'],
  })
    .usage("[options] <id> <message>")
    .argument("[id]", "handle or unique prefix")
    .argument("[message]", "what it is told")
    .option("--json", "print one JSON object");

export async function send(args: readonly string[], context: Context): Promise<number> {
  const parser = sendCommand();
  parse(parser, args);
  const { json }: { json?: true } = parser.opts();
  const [given, message, ...rest] = parser.args;
  if (given === undefined || message === undefined || rest.length > 0)
    throw new Fault("usage", 'Say whom and what: reprise agent send 1a2b3c4d "message"');
  if (message.trim() === "") throw new Fault("message_invalid", "The message is empty.");
  const deps = await context.open({ cwd: null, badConfig: "refuse" });
  const { record } = await selectAgent(deps, given);
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const { done, why } = await daemon.send(record.id, message);
  if (!done)
    throw new Fault("run_busy", `Agent ${record.id} was told nothing: ${why}.`, { facts: { id: record.id } });
  if (json === true) context.printJson({ ok: true, id: record.id, how: why });
  else context.print(`Agent ${record.id} was told (${why}).`);
  return 0;
}

const stopCommand = () =>
  makeCommand({
    name: "agent stop",
    summary: "End an agent and its supervision. Its conversation stays, and `agent resume` brings it back.",
    examples: ["reprise agent stop 1a2b3c4d"],
  })
    .usage("[options] <id>")
    .argument("[id]", "handle or unique prefix")
    .option("--json", "print one JSON object");

export async function stop(args: readonly string[], context: Context): Promise<number> {
  const parser = stopCommand();
  parse(parser, args);
  const { json }: { json?: true } = parser.opts();
  const [given, ...rest] = parser.args;
  if (given === undefined || rest.length > 0)
    throw new Fault("usage", "Which agent? `reprise agent list` shows them.");
  const deps = await context.open({ cwd: null });
  const { record } = await selectAgent(deps, given);
  // Without a daemon nobody else acts upon it, so it is done here.
  await using daemon = await findDaemon(deps);
  const stopped = daemon === null ? await stopAgent(deps, record.id) : (await daemon.stop(record.id)).done;
  if (json === true) context.printJson({ ok: true, id: record.id, stopped });
  else
    context.print(
      stopped
        ? `Agent ${record.id} has stopped. Bring it back: reprise agent resume ${record.id}`
        : `Agent ${record.id} was ${record.phase} already.`,
    );
  return 0;
}

const resumeCommand = () =>
  makeCommand({
    name: "agent resume",
    summary: "Bring back an agent, or all that are not running, with their conversations.",
    examples: [
      "reprise agent resume 1a2b3c4d",
      "reprise agent resume --all",
      "reprise agent resume --all --kill",
    ],
  })
    .usage("[options] [id]")
    .argument("[id]", "handle or unique prefix")
    .option("--all", "every agent that has not ended")
    .option("--kill", "end live ones first")
    .option("--json", "print one JSON object");

interface Skipped {
  readonly id: string;
  readonly reason: string;
}

export async function resume(args: readonly string[], context: Context): Promise<number> {
  const parser = resumeCommand();
  parse(parser, args);
  const options: { all?: true; kill?: true; json?: true } = parser.opts();
  const [given, ...rest] = parser.args;
  if ((given === undefined) === (options.all === undefined) || rest.length > 0)
    throw new Fault("usage", "Name one agent, or say --all: reprise agent resume 1a2b3c4d");
  const deps = await context.open({ cwd: null, badConfig: "refuse" });
  const agents = given === undefined ? await listAgents(deps) : [await selectAgent(deps, given)];
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const resumed: string[] = [];
  const skipped: Skipped[] = [];
  for (const [at, agent] of agents.entries()) {
    const { id } = agent.record;
    if (agents.length > 1 && context.terminal.stderr)
      context.log.info(`${at + 1} of ${agents.length}: ${id}`);
    // One of all that has ended, also meanwhile, stays so.
    const how = { kill: options.kill === true, ended: given !== undefined };
    const reason = await notResumed(daemon.resume(id, how));
    if (reason === null) resumed.push(id);
    else skipped.push({ id, reason });
  }
  const ok = given === undefined || resumed.length > 0;
  report(context, options.json === true, { ok, resumed, skipped });
  return ok ? 0 : 1;
}

/** Null: it was. One that fails must not keep the others from being brought back. */
async function notResumed(answer: Promise<{ done: boolean; why: string }>): Promise<string | null> {
  try {
    const { done, why } = await answer;
    return done ? null : why;
  } catch (error) {
    if (error instanceof Fault) return error.message;
    throw error;
  }
}

function report(
  context: Context,
  json: boolean,
  result: { readonly ok: boolean; readonly resumed: readonly string[]; readonly skipped: readonly Skipped[] },
): void {
  if (json) {
    context.printJson(result);
    return;
  }
  for (const id of result.resumed) context.print(`resumed ${id}`);
  for (const { id, reason } of result.skipped) context.print(`skipped ${id}: ${reason}`);
  if (result.resumed.length + result.skipped.length === 0) context.print("There are no agents.");
}
