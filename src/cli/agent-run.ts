/** `reprise agent run NAME`: starts an agent of a runbook, which the daemon then supervises. */
import { Fault } from "../core/faults.ts";
import { allEngines } from "../run/engine-setup.ts";
import { findAgent } from "../runbooks/runbooks.ts";
import { startAgent } from "../supervisor/supervisor.ts";
import { ensureDaemon } from "../supervisor/daemon-client.ts";
import type { Context } from "./context.ts";
import { defineCommand, flag, JSON_FLAG, repeatable } from "./define.ts";
import { engineTraits } from "./runbook.ts";
import { workingDirectory } from "./start.ts";

export const VAR = repeatable("<name=value>", "runbook variable (repeatable)");

export const run = defineCommand({
  name: "agent run",
  summary:
    "Start an agent of a runbook in the background. Reprise follows the runbook when the agent idles, fails or dies.",
  args: {
    name: {
      help: "agent.NAME in a runbook of this project or in your own runbooks",
      required: true,
      missing: "Which agent? `reprise runbook list` shows the agents of the runbooks here.",
      values: "agent names",
    },
  },
  options: {
    var: VAR,
    attach: flag("attach to the agent at once"),
    trustCwd: flag("trust this directory and the project's runbooks as they are now"),
    json: JSON_FLAG,
  },
  examples: [
    "reprise agent run worker",
    'reprise agent run worker --var issue=42 --var branch="fix/42"',
    "reprise agent run worker --attach",
  ],
  run: async ({ args: { name }, options, reply }, context) => {
    const { deps, trust, place } = await openForRunbook(context, options);
    const found = await findAgent(name, place);
    if (found.trust !== null) await context.trust(deps, found.trust, trust);
    // Before the start: without its daemon, an agent would not be supervised.
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    const agent = await startAgent(deps, found.definition, found.source, {
      vars: found.vars,
      pipeline: null,
      trustCwd: trust.trustCwd,
    });
    await daemon.poke(agent.id).catch((error: unknown) => {
      if (!(error instanceof Fault)) throw error;
      context.log.warn("the daemon does not answer. Start it again: reprise daemon start");
    });
    const { id, runId } = agent;
    reply({ id, name, runId, runbook: found.source.path }, id);
    if (options.json === undefined)
      context.log.info(`${name} runs in the background. Attach: reprise agent attach ${id}`);
    if (options.attach === undefined) return 0;
    const attach = await import("./attach.ts");
    return await attach.command.execute([id], context);
  },
});

/** `place` is where a runbook is looked for, and the values for its variables. */
export async function openForRunbook(
  context: Context,
  options: { readonly var?: readonly string[]; readonly trustCwd?: true },
) {
  const vars = readVars(options.var ?? []);
  const cwd = workingDirectory(".");
  const trust = { runsAgents: true, trustCwd: options.trustCwd === true };
  const deps = await context.open({ cwd, ...trust });
  const engines = engineTraits(allEngines(deps));
  return { deps, trust, place: { cwd, env: deps.env, engines, vars } };
}

/** `name=value`; a repeated name is an error. */
function readVars(given: readonly string[]): Record<string, string> {
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
