/** `reprise daemon start|stop|status|logs`: controls the daemon. Agents live without it. */
import type { PipelineRecord } from "../core/supervision.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { daemonPlaces, ensureDaemon, findDaemon, readDaemonLog } from "../supervisor/daemon-client.ts";
import { listPipelines } from "../supervisor/pipelines.ts";
import { count, defineCommand, type CommandGroup, JSON_FLAG, withValue } from "./define.ts";

const start = defineCommand({
  name: "daemon start",
  summary: "Start the daemon, unless it is running.",
  options: { json: JSON_FLAG },
  examples: ["reprise daemon start"],
  run: async ({ reply }, context) => {
    // Starting the daemon resumes agents; the other subcommands need no config.
    const deps = await context.open({ cwd: null, badConfig: "refuse" });
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    const { pid, version } = daemon;
    reply({ running: true, pid, version }, `The daemon is running (pid ${pid}).`);
    return 0;
  },
});

const stop = defineCommand({
  name: "daemon stop",
  summary: "Stop the daemon. Agents keep running without supervision.",
  options: { json: JSON_FLAG },
  examples: ["reprise daemon stop"],
  run: async ({ reply }, context) => {
    const deps = await context.open({ cwd: null });
    await using daemon = await findDaemon(deps);
    const agents = daemon === null ? 0 : (await daemon.status()).agents.length;
    await daemon?.quit();
    const pipelines = daemon === null ? [] : await listPipelines(deps, { open: true });
    const halted = pipelines.map(({ id }) => id);
    const are = agents === 1 ? "is" : "are";
    const left = agents === 0 ? "" : ` ${plural(agents, "agent")} ${are} not supervised until it runs again.`;
    reply({ stopped: daemon !== null, pid: daemon?.pid ?? null, agents, pipelines: halted }, () => {
      if (daemon === null) context.print("The daemon is not running.");
      else context.print(`The daemon (pid ${daemon.pid}) has stopped.${left}`);
      for (const pipeline of pipelines) context.print(haltedWords(pipeline));
    });
    return 0;
  },
});

function haltedWords({ id, definition, step, steps }: PipelineRecord): string {
  const entry = steps.find(({ name }) => name === step);
  const isCommand = definition.steps.find(({ name }) => name === step)?.run != null;
  const where = step === null ? "" : ` at step ${harmlessLine(step, 64)}`;
  const ended = " Its command has ended with the daemon and will run again.";
  return `Pipeline ${id} (${harmlessLine(definition.name, 64)}) waits${where} until the daemon runs again.${isCommand && entry?.state === "running" ? ended : ""}`;
}

const status = defineCommand({
  name: "daemon status",
  summary: "Show whether the daemon is running. Exits with 3 if it is not running.",
  options: { json: JSON_FLAG },
  examples: ["reprise daemon status", "reprise daemon status --json"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    await using daemon = await findDaemon(deps);
    if (daemon === null) {
      if (options.json === true) context.printJson({ ok: false, running: false });
      else context.print("The daemon is not running. The next `reprise agent run` starts it.");
      return 3;
    }
    const { pid, sinceMs, version, agents } = await daemon.status();
    const age = formatDuration(deps.clock.now() - sinceMs);
    reply(
      { running: true, pid, since: new Date(sinceMs).toISOString(), version, agents: agents.length },
      `The daemon is running: pid ${pid}, for ${age}, version ${version}, ${plural(agents.length, "agent")}.`,
    );
    return 0;
  },
});

const logs = defineCommand({
  name: "daemon logs",
  summary: "Print the end of the daemon log.",
  options: {
    lines: withValue("<n>", "number of lines to print (default 100)", count(1, 100_000)),
    json: JSON_FLAG,
  },
  examples: ["reprise daemon logs --lines 50"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const lines = readDaemonLog(deps, options.lines ?? 100);
    reply({ path: daemonPlaces(deps).log, lines }, () => {
      for (const line of lines) context.print(line);
    });
    return 0;
  },
});

export const command: CommandGroup = {
  name: "daemon",
  summary:
    "The daemon that supervises agents. The first command that needs it starts it; agents keep running without it.",
  commands: {
    start: { summary: "start the daemon", load: async () => start },
    stop: { summary: "stop the daemon; agents keep running", load: async () => stop },
    status: { summary: "show whether the daemon is running", load: async () => status },
    logs: { summary: "print the end of the daemon log", load: async () => logs },
  },
  examples: [
    "reprise daemon status",
    "reprise daemon stop       (agents keep running)",
    "reprise daemon logs --lines 50",
  ],
};
