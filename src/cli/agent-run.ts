/** `reprise agent run NAME`: starts an agent of a runbook, which the daemon then supervises. */
import { Fault } from "../core/faults.ts";
import { allEngines } from "../run/engine-setup.ts";
import { findAgent } from "../runbooks/runbooks.ts";
import { ensureDaemon, startAgent } from "../supervisor/supervisor.ts";
import { list, makeCommand, parse } from "./command.ts";
import type { Context } from "./context.ts";
import { engineTraits } from "./runbook.ts";
import { workingDirectory } from "./start.ts";

interface RunOptions {
  readonly var?: readonly string[];
  readonly attach?: true;
  readonly trustCwd?: true;
  readonly json?: true;
}

const command = () =>
  makeCommand({
    name: "agent run",
    summary:
      "Start an agent of a runbook in the background. The runbook reacts when the agent idles, fails or dies.",
    examples: [
      "reprise agent run worker",
      'reprise agent run worker --var issue=42 --var branch="fix/42"',
      "reprise agent run worker --attach",
    ],
  })
    .usage("[options] <name>")
    .argument("[name]", "agent.NAME in a runbook of this project or in your own runbooks")
    .addOption(list("--var <name=value>", "runbook variable (repeatable)"))
    .option("--attach", "attach to the agent at once")
    .option("--trust-cwd", "trust this directory and the project's runbooks in their present form")
    .option("--json", "print one JSON object");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: RunOptions = parser.opts();
  const [name, ...rest] = parser.args;
  if (name === undefined || rest.length > 0)
    throw new Fault("usage", "Which agent? `reprise runbook list` shows those of the runbooks here.");
  const vars = readVars(options.var ?? []);
  const cwd = workingDirectory(".");
  const trust = { runsAgents: true, trustCwd: options.trustCwd === true };
  const deps = await context.open({ cwd, ...trust });
  const engines = engineTraits(allEngines(deps));
  const found = await findAgent(name, { cwd, env: deps.env, engines, vars });
  if (found.trust !== null) await context.trust(deps, found.trust, trust);
  // Before the start: without its daemon, an agent would not be supervised.
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const agent = await startAgent(deps, found.definition, found.source, {
    vars: found.vars,
    pipeline: null,
    trustCwd: options.trustCwd === true,
  });
  await daemon.poke(agent.id).catch((error: unknown) => {
    if (!(error instanceof Fault)) throw error;
    context.log.warn("the supervisor does not answer. Look after it: reprise daemon start");
  });
  if (options.json === true)
    context.printJson({ ok: true, id: agent.id, name, runId: agent.runId, runbook: found.source.path });
  else {
    context.print(agent.id);
    context.log.info(`${name} runs in the background. Attach: reprise agent attach ${agent.id}`);
  }
  if (options.attach === undefined) return 0;
  const attach = await import("./attach.ts");
  return await attach.run([agent.id], context);
}

/** `name=value`; a repeated name is an error. */
export function readVars(given: readonly string[]): Record<string, string> {
  const vars: Record<string, string> = {};
  for (const pair of given) {
    const equals = pair.indexOf("=");
    const name = pair.slice(0, equals);
    if (equals < 1 || !/^[A-Za-z_][\w-]*$/.test(name))
      throw new Fault("usage", "--var takes name=value, for example --var issue=42.");
    if (Object.hasOwn(vars, name)) throw new Fault("usage", `--var ${name} is given twice.`);
    vars[name] = pair.slice(equals + 1);
  }
  return vars;
}
