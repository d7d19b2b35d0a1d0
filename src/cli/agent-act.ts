/**
 * `reprise agent send|stop|resume|rm`: a person's requests to agents. The daemon carries them out, so that only one
 * process acts on an agent.
 */
import { Fault } from "../core/faults.ts";
import { type AgentRecord, PUT_BACK } from "../core/supervision.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { wrap } from "../lib/wrap.ts";
import type { Deps } from "../run/run.ts";
import { finishRemovals } from "../run/clean.ts";
import {
  commandToResume,
  type ResumeCommand,
  getAgent,
  storeStrict,
  listAgents,
  refuseSecretMessage,
  removeAgent,
  selectAgent,
  stopAgent,
  forecastResume,
  type ResumeForecast,
} from "../supervisor/supervisor.ts";
import { ensureDaemon, findDaemon, type ResumedAgent } from "../supervisor/daemon-client.ts";
import { wayWords } from "./agent-look.ts";
import { removeEach } from "./rm.ts";
import type { Context } from "./context.ts";
import { AGENT_ID, defineCommand, flag, JSON_FLAG } from "./define.ts";

const MISSING = 'Missing agent id or message: reprise agent send 1a2b3c4d "message"';

export const send = defineCommand({
  name: "agent send",
  summary: "Send a message to an agent. Reprise types it into an idle UI, or sends it as the next turn.",
  args: {
    id: { ...AGENT_ID, missing: MISSING },
    message: { help: "message to send", required: true, missing: MISSING },
  },
  options: { json: JSON_FLAG },
  examples: ['reprise agent send 1a2b3c4d "now add a test"'],
  run: async ({ args: { id: given, message }, reply }, context) => {
    if (message.trim() === "") throw new Fault("message_invalid", "The message is empty.");
    const deps = await context.open({ cwd: null, badConfig: "refuse" });
    const { record } = await selectAgent(deps, given);
    const { id } = record;
    // Checked here, because the daemon may have been started without these variables.
    refuseSecretMessage(deps, record.definition, message);
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    const { done, why } = await daemon.send(id, message);
    if (!done) throw new Fault("run_busy", `Message not sent to agent ${id}: ${why}.`, { facts: { id } });
    reply({ id, how: why }, `Message sent to agent ${id} (${why}).`);
    return 0;
  },
});

export const stop = defineCommand({
  name: "agent stop",
  summary: "Stop an agent and its supervision. Its conversation stays; `agent resume` continues it.",
  args: { id: { ...AGENT_ID, missing: "Which agent? `reprise agent list` shows them." } },
  options: { json: JSON_FLAG },
  examples: ["reprise agent stop 1a2b3c4d"],
  run: async ({ args, options, reply }, context) => {
    const deps = await context.open({ cwd: null, ends: args.id });
    const { record } = await selectAgent(deps, args.id);
    const { id } = record;
    // Without a daemon no other process acts on the agent, so this one does.
    await using daemon = await findDaemon(deps);
    const stopped = daemon === null ? await stopAgent(deps, id) : (await daemon.stop(id)).done;
    const text =
      !stopped || options.json === true
        ? `Agent ${id} was ${record.phase} already.`
        : stoppedWords(id, await forecastResume(deps, record), await commandToResume(deps, id));
    reply({ id, stopped }, text);
    return 0;
  },
});

/** Only a command that works is offered. */
function stoppedWords(id: string, back: ResumeForecast, { command, pipeline }: ResumeCommand): string {
  const it = pipeline === null ? "it" : "both";
  const also = pipeline === null ? "" : `, and pipeline ${pipeline} fails with it`;
  return `Agent ${id} has stopped${also}. ${backWords(back, command, it)}`;
}

function backWords(back: ResumeForecast, command: string, it: string): string {
  switch (back.way) {
    case "resume":
      return `Resume ${it}: ${command}`;
    case "fresh":
      return `Resume ${it}: ${command} (a new conversation begins: ${back.why})`;
    case "none":
      return `It cannot be resumed${back.later ? " as it is" : ""}: ${wayWords(back, command)}`;
  }
}

export const resume = defineCommand({
  name: "agent resume",
  summary:
    "Resume the conversation of one agent, or of every agent that has not ended. If a conversation is lost, Reprise starts a new one and reports it.",
  args: { id: { help: AGENT_ID.help, values: "handles" } },
  options: {
    all: flag("all agents that have not ended"),
    kill: flag("stop live agents first"),
    strict: flag("skip agents whose conversation is lost, instead of starting a new one"),
    json: JSON_FLAG,
  },
  examples: [
    "reprise agent resume 1a2b3c4d",
    "reprise agent resume --all",
    "reprise agent resume --all --strict",
    "reprise agent resume --all --kill",
  ],
  run: async ({ args: { id: given }, options }, context) => {
    if ((given === undefined) === (options.all === undefined))
      throw new Fault("usage", "Name one agent or give --all: reprise agent resume 1a2b3c4d");
    const deps = await context.open({ cwd: null, badConfig: "refuse" });
    const agents =
      given === undefined ? await listAgents(deps, { open: true }) : [await selectAgent(deps, given)];
    const { kill = false, strict = false } = options;
    const told = await resumeEach(deps, context, agents, { kill, strict, isNamed: given !== undefined });
    const failed =
      given === undefined ? told.some(({ result }) => result === "strict") : told.every(({ done }) => !done);
    report(context, told, { json: options.json === true, ok: !failed });
    if (options.json !== true) await sayPipelines(deps, context, told);
    return failed ? 1 : 0;
  },
});

interface AgentReport extends ResumedAgent {
  readonly id: string;
  readonly runId: string;
  readonly engine: string;
}

async function resumeEach(
  deps: Deps,
  context: Context,
  agents: readonly { readonly record: AgentRecord }[],
  { kill, strict, isNamed }: { kill: boolean; strict: boolean; isNamed: boolean },
): Promise<readonly AgentReport[]> {
  if (strict) for (const { record } of agents) await keepActive(deps, record);
  // A daemon that starts now applies its runbooks at once.
  const seen = new Map<string, number | null>();
  for (const { record } of agents)
    seen.set(record.id, (await deps.store.getRun(record.runId))?.attempts ?? null);
  await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
  const told: AgentReport[] = [];
  for (const [at, { record }] of agents.entries()) {
    const { id, runId, definition } = record;
    if (agents.length > 1 && context.terminal.stderr)
      context.log.info(`${at + 1} of ${agents.length}: ${id}`);
    // Without an id, an agent that has ended meanwhile stays ended.
    const how = {
      ...{ kill, strict, ended: isNamed },
      wasActive: record.phase === "active",
      seen: seen.get(id) ?? null,
    };
    const answer = await orReason(daemon.resume(id, how));
    if (!isNamed && answer.result === "refused" && (await hasEnded(deps, id))) continue;
    told.push({ ...answer, id, runId, engine: definition.engine });
  }
  return told;
}

/** A pipeline that has ended does not continue with its agent. */
async function sayPipelines(deps: Deps, context: Context, told: readonly AgentReport[]): Promise<void> {
  for (const { id, done } of told) {
    const { command, pipeline } = done ? await commandToResume(deps, id) : NO_PIPELINE;
    if (pipeline === null) continue;
    const line = `Pipeline ${pipeline} of agent ${id} has ended and does not continue with it: ${command}`;
    context.print(fitted(context, line));
  }
}

const NO_PIPELINE: ResumeCommand = { command: "", pipeline: null };

/** Before a daemon acts on the agent. Only this command brings back an ended agent. */
async function keepActive(deps: Deps, record: AgentRecord): Promise<void> {
  if (record.phase === "active") await storeStrict(deps, record);
}

/** It ended meanwhile, and the request does not include ended agents. */
async function hasEnded(deps: Deps, id: string): Promise<boolean> {
  return (await getAgent(deps, id))?.record.phase !== "active";
}

/** One failure must not keep the other agents from being resumed. */
async function orReason(answer: Promise<ResumedAgent>): Promise<ResumedAgent> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const nothing = { attempt: null, session: null, verified: false, already: false };
    return { done: false, result: "refused", why: error.message, ...nothing };
  }
}

const SKIPPED: readonly ResumedAgent["result"][] = ["refused", "strict"];

function report(
  context: Context,
  told: readonly AgentReport[],
  { json, ok }: { readonly json: boolean; readonly ok: boolean },
): void {
  if (!json) {
    for (const one of told) context.print(fitted(context, lineOf(one)));
    if (told.length === 0) context.print("There is no agent to resume: all agents have ended.");
    return;
  }
  const of = (...results: readonly ResumedAgent["result"][]) =>
    told.filter(({ result }) => results.includes(result));
  const withReason = ({ id, why }: AgentReport) => ({ id, reason: why });
  context.printJson({
    ok,
    resumed: of("resumed", "told").map(({ id }) => id),
    restarted: of("restarted").map(withReason),
    running: of("running").map(({ id }) => id),
    skipped: of(...SKIPPED).map(withReason),
    agents: told.map(({ id, runId, result, why, already, attempt, session, verified, restored }) => ({
      ...{ id, runId, result: SKIPPED.includes(result) ? "skipped" : result, reason: why },
      ...{ already, attempt, session, verified, lacks: restored?.lacks ?? [] },
    })),
  });
}

function lineOf(told: AgentReport): string {
  const { id, result, why, already, attempt } = told;
  const by = already
    ? `; the supervisor had brought it back, and ${result === "resumed" ? why : "it runs"}`
    : "";
  switch (result) {
    case "resumed":
      return `resumed ${id}: ${goesOn(told)}${lossOf(told)}${by}`;
    case "restarted":
      return `restarted ${id} (new conversation: ${why}): attempt ${attempt}${by}`;
    case "told":
      return `resumed ${id}: it is alive with ${conversationOf(told)}, and got a message to continue`;
    case "running":
      return `running ${id}: attempt ${attempt} with ${conversationOf(told)}; ${why}${killHint(told)}`;
    case "strict":
      if (already)
        return `skipped ${id}: the supervisor had begun a new conversation before you asked: attempt ${attempt} (${why})`;
      return `skipped ${id}: ${why} Without --strict a new conversation begins.`;
    case "refused":
      return `skipped ${id}: ${why}`;
  }
}

/** Until the engine names the conversation, nothing shows that it goes on there. */
function goesOn(told: AgentReport): string {
  const { attempt, engine, verified } = told;
  return verified
    ? `${conversationOf(told)} goes on in attempt ${attempt}, confirmed by ${engine}`
    : `attempt ${attempt} asked for ${conversationOf(told)}, not confirmed yet`;
}

function lossOf({ restored }: AgentReport): string {
  return restored === undefined ? "" : `; ${[PUT_BACK, ...restored.lacks].join("; ")}`;
}

/** Offers only what `--kill` would do. */
function killHint({ kill }: AgentReport): string {
  if (kill === undefined) return "";
  return `; --kill would end it and ${kill === "resume" ? "resume it" : "begin a new conversation"}`;
}

function fitted({ terminal }: Context, line: string): string {
  const text = harmlessLine(line);
  return terminal.stdout ? wrap(text, { width: terminal.columns, indent: 2 }).join("\n") : text;
}

function conversationOf({ session }: AgentReport): string {
  return session === null ? "its conversation" : `conversation ${session}`;
}

export const rm = defineCommand({
  name: "agent rm",
  summary:
    "Remove ended agents: records, decisions, and runs with their recordings. The engine keeps its session.",
  usage: "[options] <id…>",
  args: { ids: { ...AGENT_ID, help: "handles or unique prefixes of 4 to 7 characters", many: true } },
  options: { json: JSON_FLAG },
  examples: ["reprise agent rm 1a2b3c4d", "reprise agent rm 1a2b3c4d 5e6f7a8b --json"],
  run: async ({ args, options }, context) => {
    const deps = await context.open({ cwd: null, makesRoom: true });
    await finishRemovals(deps);
    return removeEach(context, args.ids, { json: options.json === true }, async (given) => {
      const agent = await selectAgent(deps, given);
      const kept = await removeAgent(deps, agent);
      const { id, runId } = agent.record;
      return { text: `agent ${id}`, kept, json: { id, runId, trash: kept?.path ?? null } };
    });
  },
});
