/** `reprise agent list|show|peek`: the state of agents, with or without a daemon. */
import { Fault } from "../core/faults.ts";
import type { Receipt } from "../core/records.ts";
import type { SupervisionEvent } from "../core/supervision.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine, wholeSentences } from "../lib/harmless.ts";
import { type Column, fitTable } from "../lib/table.ts";
import { untilText } from "../lib/until.ts";
import { type HolderLink, openHolder, screenOf } from "../detached/detached.ts";
import type { Deps } from "../run/run.ts";
import { loadReceipt } from "../state/runs.ts";
import {
  type AgentView,
  listAgents,
  type AgentSnapshot,
  takeSnapshot,
  runOf,
  selectAgent,
  viewOf,
  type ResumeForecast,
} from "../supervisor/supervisor.ts";
import { findDaemon } from "../supervisor/daemon-client.ts";
import type { AgentRecord } from "../core/supervision.ts";
import type { Terminal } from "./context.ts";
import { AGENT_ID, defineCommand, flag, JSON_FLAG } from "./define.ts";
import { unprovenWords } from "./summary.ts";
import { labelled, printTable, widthLimit } from "./words.ts";

export const list = defineCommand({
  name: "agent list",
  summary: "List agents: state, time in that state, next action.",
  options: { all: flag("include ended agents"), json: JSON_FLAG },
  examples: ["reprise agent list", "reprise agent list --all --json"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const agents = await listAgents(deps, options.all === true ? {} : { open: true });
    const views: AgentView[] = [];
    for (const { record } of agents) views.push(viewOf(await see(deps, record)));
    reply({ agents: views }, () => {
      if (views.length === 0) context.print("No agents. Start one: reprise agent run NAME");
      else printTable(context, agentTable(views, deps.clock.now(), context.terminal, "with engines"));
    });
    const isActive = views.some(({ phase }) => phase === "active");
    if (isActive && !(await isSupervised(deps))) context.log.warn(UNSUPERVISED);
    return 0;
  },
});

const COLUMNS: readonly Column[] = [
  { head: "AGENT", as: "whole" },
  { head: "NAME", least: 12 },
  { head: "STATE", as: "whole" },
  { head: "FOR", as: "whole" },
  { head: "ATT", as: "whole" },
  { head: "NEXT", as: "wrap" },
];

/** The header, then one text per agent, possibly in several lines. A command without room goes below its agent. */
export function agentTable(
  views: readonly AgentView[],
  nowMs: number,
  terminal: Pick<Terminal, "stdout" | "columns">,
  engines?: "with engines",
): string[] {
  const made = (next: (view: AgentView) => string) => {
    const rows = views.map((view) => [
      view.id,
      harmlessLine(view.name, 64),
      ...(engines === undefined ? [] : [view.engine]),
      view.state,
      formatDuration(nowMs - view.sinceMs),
      String(view.attempts),
      wholeSentences(next(view), MOST_WORDS),
    ]);
    const heads = engines === undefined ? COLUMNS : COLUMNS.toSpliced(2, 0, { head: "ENGINE" });
    return fitTable(heads, rows, widthLimit(terminal));
  };
  return withQuestions(views, made, (view) => nextWords(view, nowMs));
}

/** A command that does not fit goes on a separate line below its row. */
export function withQuestions<T extends { readonly decision: string | null }>(
  views: readonly T[],
  made: (last: (view: T) => string) => string[],
  words: (view: T) => string,
): string[] {
  const [header = "", ...rows] = made(words);
  const isBroken = views.some(({ decision }, at) => decision !== null && rows[at]?.includes("\n") === true);
  if (!isBroken) return [header, ...rows];
  const [short = "", ...others] = made((view) => (view.decision === null ? words(view) : ASKS));
  return [
    short,
    ...others.map((row, at) => {
      const decision = views[at]?.decision ?? null;
      return decision === null ? row : `${row}\n    ${showDecision(decision)}`;
    }),
  ];
}

const ASKS = "asks you:";
export const asksWords = (decision: string) => `${ASKS} ${showDecision(decision)}`;
const showDecision = (id: string) => `reprise decisions show ${harmlessLine(id, 40)}`;

/** Why something is not resumed, what helps, and what to type after that. */
export function wayWords(
  { why, todo, later }: Extract<ResumeForecast, { way: "none" }>,
  resume: string,
): string {
  if (!later) return harmlessLine(`${why}. ${todo}`);
  return [`${why}.`, `  ${todo}`, `  Then: ${resume}`].map((line) => harmlessLine(line)).join("\n");
}

/** Limits a reason in a list. */
export const MOST_WORDS = 400;

export function nextWords(view: AgentView, nowMs: number): string {
  if (view.decision !== null) return asksWords(view.decision);
  if (view.next === null) return view.why;
  const { action, atMs } = view.next;
  return atMs <= nowMs ? `${action} now` : `waits ${untilText(atMs, nowMs)}, then ${action}`;
}

/** Without the daemon, agents and pipelines are not supervised. */
export const UNSUPERVISED = "the daemon is not running. Start it: reprise daemon start";

export async function isSupervised(deps: Deps): Promise<boolean> {
  await using daemon = await findDaemon(deps).catch(() => null);
  return daemon !== null;
}

/** The current state of an agent, from its holder if it has one. */
export async function see(deps: Deps, record: AgentRecord): Promise<AgentSnapshot> {
  const run = await runOf(deps, record);
  let link: HolderLink | null = null;
  let unreachableSinceMs: number | null = null;
  try {
    link = run?.status === "running" ? await openHolder(deps, run) : null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    unreachableSinceMs = deps.clock.now();
  }
  try {
    return await takeSnapshot(deps, record, run, { link, unreachableSinceMs, clockJumpMs: null });
  } finally {
    await link?.[Symbol.asyncDispose]();
  }
}

export const show = defineCommand({
  name: "agent show",
  summary: "Show one agent: definition, attempts, decisions with reasons, next action.",
  args: { id: AGENT_ID },
  options: { json: JSON_FLAG },
  examples: ["reprise agent show 1a2b3c4d", "reprise agent show 1a2b --json"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const { record } = await selectAgent(deps, args.id);
    const look = await see(deps, record);
    const view = viewOf(look);
    const { attempts, history } = look;
    const receipts = await receiptsOf(look);
    const proved = attempts.map((attempt) => ({
      ...attempt,
      verified: receipts.get(attempt.n)?.verified ?? null,
    }));
    reply({ agent: record, view, attempts: proved, history }, () => {
      const at = { nowMs: deps.clock.now(), receipts };
      for (const line of describe(look, view, at, context.terminal)) context.print(line);
    });
    if (record.phase === "active" && !(await isSupervised(deps))) context.log.warn(UNSUPERVISED);
    return 0;
  },
});

/** By the number of their attempt. A receipt that cannot be read proves nothing. */
async function receiptsOf({ run, attempts }: AgentSnapshot): Promise<ReadonlyMap<number, Receipt>> {
  const found = new Map<number, Receipt>();
  if (run === null) return found;
  for (const { n } of attempts) {
    const receipt = await loadReceipt(run.runDirectory, n).catch(() => null);
    if (receipt !== null) found.set(n, receipt);
  }
  return found;
}

export function describe(
  look: AgentSnapshot,
  view: AgentView,
  { nowMs, receipts }: { readonly nowMs: number; readonly receipts: ReadonlyMap<number, Receipt> },
  terminal: Pick<Terminal, "stdout" | "columns">,
): readonly string[] {
  const { agent, attempts } = look;
  const { definition } = agent;
  const line = (name: string, text: string) => labelled(terminal, `${name.padEnd(9)} `, text);
  return [
    `${agent.id}  ${agent.definition.name}  ${view.state} for ${formatDuration(nowMs - view.sinceMs)}`,
    ...line("engine", harmlessLine([definition.engine, ...definition.args].join(" "), 400)),
    ...line("mode", definition.mode),
    ...line("cwd", harmlessLine(definition.cwd)),
    ...line("runbook", harmlessLine(agent.runbook.path)),
    ...(definition.prompt === null ? [] : line("prompt", harmlessLine(definition.prompt, 200))),
    ...(view.why === "" ? [] : line("why", harmlessLine(view.why, 1_000))),
    ...line("next", harmlessLine(nextWords(view, nowMs), 1_000)),
    "",
    ...attempts.flatMap(({ n, kind, startedAt, outcome }) =>
      labelled(
        terminal,
        `attempt ${n}  `,
        `${kind}  ${startedAt}  ${outcome === null ? "running" : harmlessLine(`${outcome.result}: ${outcome.reason}`, 1_000)}${proofWords(receipts.get(n))}`,
      ),
    ),
    "",
    ...look.history.flatMap((event) => sayEvent(event, terminal)),
  ];
}

/** Only what a reader would not expect of a resume. */
function proofWords(receipt: Receipt | undefined): string {
  if (receipt === undefined) return "";
  const unproven = receipt.verified === "not_verified" ? [unprovenWords(receipt)] : [];
  return [...unproven, ...(receipt.lacks ?? [])].map((text) => `; ${harmlessLine(text, 400)}`).join("");
}

function sayEvent(
  event: SupervisionEvent,
  terminal: Pick<Terminal, "stdout" | "columns">,
): readonly string[] {
  const when = `${new Date(event.at).toISOString()}  attempt ${event.attempt}  `;
  const indent = event.kind === "begun_again" || event.kind === "carried_out" ? "  " : "";
  return labelled(terminal, `${when}${indent}`, eventWords(event));
}

function eventWords(event: SupervisionEvent): string {
  switch (event.kind) {
    case "progress":
      return "a turn was completed";
    case "decided":
      return `on ${event.trigger}: ${event.action}${event.message === null ? "" : ` ${JSON.stringify(harmlessLine(event.message, 80))}`}`;
    case "begun_again":
      return "begun again: the supervisor ended meanwhile";
    case "carried_out":
      return `${event.result}: ${harmlessLine(event.detail, 1_000)}`;
    case "escalated":
      return `asked: decision ${event.decision}`;
    case "answered":
      return `answered: ${event.choice}`;
    case "strict":
      return "resume --strict: no new conversation";
  }
}

export const peek = defineCommand({
  name: "agent peek",
  summary: "Print an agent's current screen as plain text.",
  args: { id: AGENT_ID },
  options: { json: JSON_FLAG },
  examples: ["reprise agent peek 1a2b3c4d"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const { record } = await selectAgent(deps, args.id);
    const run = await runOf(deps, record);
    if (run === null || run.attempts === 0)
      throw new Fault("attempt_unknown", `Agent ${record.id} has not been started yet.`);
    const screen = await screenOf(deps, run, run.attempts, { cols: 120, rows: 40 });
    reply({ id: record.id, attempt: run.attempts, screen }, harmless(screen));
    return 0;
  },
});
