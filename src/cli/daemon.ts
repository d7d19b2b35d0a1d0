/** `reprise daemon start|stop|status|logs`: controls the daemon. Agents live without it. */
import { Fault } from "../core/faults.ts";
import type { PipelineRecord } from "../core/supervision.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import type { Deps } from "../run/run.ts";
import {
  daemonPlaces,
  ensureDaemon,
  findDaemon,
  listPipelines,
  readDaemonLog,
} from "../supervisor/supervisor.ts";
import { count, makeCommand, once, parse } from "./command.ts";
import type { Context } from "./context.ts";

interface DaemonOptions {
  readonly json?: true;
  readonly lines?: number;
}

const VERBS = ["start", "stop", "status", "logs"] as const;
type Verb = (typeof VERBS)[number];

const command = () =>
  makeCommand({
    name: "daemon",
    summary:
      "The daemon that supervises agents. The first command that needs it starts it; agents keep running without it.",
    examples: [
      "reprise daemon status",
      "reprise daemon stop       (agents stay)",
      "reprise daemon logs --lines 50",
    ],
  })
    .usage("[options] <start|stop|status|logs>")
    .argument("[verb]", VERBS.join(", "))
    .addOption(once("--lines <n>", "logs: number of lines to print (default 100)", count(1, 100_000)))
    .option("--json", "print one JSON object");

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: DaemonOptions = parser.opts();
  const [given = "", ...rest] = parser.args;
  const verb = VERBS.find((one) => one === given);
  if (verb === undefined || rest.length > 0)
    throw new Fault("usage", `Say what to do: reprise daemon ${VERBS.join("|")}.`);
  // Starting the daemon resumes agents; status and stop need no config.
  const deps = await context.open({ cwd: null, badConfig: verb === "start" ? "refuse" : "warn" });
  return DO[verb](deps, context, options);
}

const DO: Readonly<Record<Verb, (deps: Deps, context: Context, options: DaemonOptions) => Promise<number>>> =
  { start, stop, status, logs };

async function start(deps: Deps, context: Context, options: DaemonOptions): Promise<number> {
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const { pid, version } = daemon;
  if (options.json === true) context.printJson({ ok: true, running: true, pid, version });
  else context.print(`The supervisor is running (pid ${pid}).`);
  return 0;
}

async function stop(deps: Deps, context: Context, options: DaemonOptions): Promise<number> {
  await using daemon = await findDaemon(deps);
  const agents = daemon === null ? 0 : (await daemon.status()).agents.length;
  await daemon?.quit();
  const pipelines = daemon === null ? [] : await listPipelines(deps, { open: true });
  if (options.json === true) {
    const halted = pipelines.map(({ id }) => id);
    context.printJson({
      ...{ ok: true, stopped: daemon !== null, pid: daemon?.pid ?? null },
      ...{ agents, pipelines: halted },
    });
  } else if (daemon === null) context.print("The supervisor is not running.");
  else {
    const left =
      agents === 0 ? "" : ` Nobody keeps its ${plural(agents, "agent")} moving until it runs again.`;
    context.print(`The supervisor (pid ${daemon.pid}) has stopped.${left}`);
    for (const pipeline of pipelines) context.print(haltedWords(pipeline));
  }
  return 0;
}

function haltedWords({ id, definition, step, steps }: PipelineRecord): string {
  const entry = steps.find(({ name }) => name === step);
  const isCommand = definition.steps.find(({ name }) => name === step)?.run != null;
  const where = step === null ? "" : ` at step ${harmlessLine(step, 64)}`;
  const ended = " Its command has ended with the supervisor and will run again.";
  return `Pipeline ${id} (${harmlessLine(definition.name, 64)}) stands still${where} until the supervisor runs again.${isCommand && entry?.state === "running" ? ended : ""}`;
}

async function status(deps: Deps, context: Context, options: DaemonOptions): Promise<number> {
  await using daemon = await findDaemon(deps);
  if (daemon === null) {
    if (options.json === true) context.printJson({ ok: false, running: false });
    else context.print("The supervisor is not running. The next `reprise agent run` starts it.");
    return 3;
  }
  const { pid, sinceMs, version, agents } = await daemon.status();
  if (options.json === true) {
    const since = new Date(sinceMs).toISOString();
    context.printJson({ ok: true, running: true, pid, since, version, agents: agents.length });
    return 0;
  }
  const age = formatDuration(deps.clock.now() - sinceMs);
  context.print(
    `The supervisor is running: pid ${pid}, for ${age}, version ${version}, ${plural(agents.length, "agent")}.`,
  );
  return 0;
}

async function logs(deps: Deps, context: Context, options: DaemonOptions): Promise<number> {
  const lines = readDaemonLog(deps, options.lines ?? 100);
  if (options.json === true) context.printJson({ ok: true, path: daemonPlaces(deps).log, lines });
  else for (const line of lines) context.print(line);
  return 0;
}
