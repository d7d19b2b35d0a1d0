/** `reprise decisions list|show|resolve`: agents' questions to a person, and the answers. */
import { Fault } from "../core/faults.ts";
import { isRunId, isSelected, parseSelector } from "../core/ids.ts";
import type { DecisionOption, DecisionRecord } from "../core/supervision.ts";
import { localTime } from "../lib/duration.ts";
import { harmless, harmlessLine, wholeSentences } from "../lib/harmless.ts";
import { type Column, fitTable } from "../lib/table.ts";
import { untilText } from "../lib/until.ts";
import { widthOf } from "../lib/width.ts";
import type { Deps } from "../run/run.ts";
import { getAgent, listDecisions, resolveDecision, lateAnswerFault } from "../supervisor/supervisor.ts";
import { ensureDaemon } from "../supervisor/daemon-client.ts";
import type { Context, Terminal } from "./context.ts";
import {
  type Argument,
  defineCommand,
  type CommandGroup,
  flag,
  JSON_FLAG,
  withValue,
  IDS_FLAG,
} from "./define.ts";
import { readMessage } from "./message.ts";
import { age, labelled, printTable, widthLimit } from "./words.ts";

export const command: CommandGroup = {
  name: "decisions",
  summary: "Questions from agents that need your answer.",
  commands: {
    list: { summary: "list open decisions", load: async () => list },
    show: { summary: "show a decision: facts, last output of the agent, options", load: async () => show },
    resolve: { summary: "choose an option", load: async () => resolve },
  },
  alone: "list",
  examples: [
    "reprise decisions list",
    "reprise decisions show 1a2b3c4d",
    'reprise decisions resolve 1a2b3c4d 1 -m "use the other key"',
  ],
};

const ID = {
  help: "decision, agent, or a unique prefix",
  required: true,
  missing: "Which decision? `reprise decisions list --all` shows them.",
  values: "decisions",
} as const satisfies Argument;

const list = defineCommand({
  name: "decisions list",
  summary: "List open decisions, oldest first.",
  options: {
    all: flag("include resolved decisions"),
    json: JSON_FLAG,
    ids: IDS_FLAG,
  },
  examples: ["reprise decisions list", "reprise decisions list --all --json"],
  run: async ({ options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const decisions = await listDecisions(deps, options.all === true ? {} : { open: true });
    const none = options.all === true ? "No agent has asked anything yet." : "No agent needs a decision.";
    const rows = options.json === true || options.ids === true ? [] : await rowsOf(deps, decisions);
    reply({ decisions }, () => {
      if (options.ids === true) for (const { id } of decisions) context.print(id);
      else if (decisions.length === 0) context.print(none);
      else printTable(context, decisionTable(rows, context.terminal));
    });
    return 0;
  },
});

async function rowsOf(deps: Deps, decisions: readonly DecisionRecord[]): Promise<readonly string[][]> {
  const rows: string[][] = [];
  for (const { id, agentId, state, createdAt, what } of decisions) {
    const name = harmlessLine(await nameOf(deps, agentId), 64);
    rows.push([id, name, state, age(createdAt, deps.clock.now()), wholeSentences(what, 400)]);
  }
  return rows;
}

export function decisionTable(
  rows: readonly (readonly string[])[],
  terminal: Pick<Terminal, "stdout" | "columns">,
): string[] {
  const heads: readonly Column[] = [
    { head: "DECISION", as: "whole" },
    { head: "AGENT", least: 12 },
    { head: "STATE", as: "whole" },
    { head: "FOR", as: "whole" },
    { head: "WHAT", as: "wrap" },
  ];
  return fitTable(heads, rows, widthLimit(terminal));
}

const show = defineCommand({
  name: "decisions show",
  summary: "Show a decision: facts, last output of the agent, options.",
  args: { id: ID },
  options: { json: JSON_FLAG },
  examples: ["reprise decisions show 1a2b3c4d-17", "reprise decisions show 1a2b --json"],
  run: async ({ args, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const decision = await select(deps, args.id);
    const lines = await describe(deps, decision, context.terminal);
    reply({ decision }, () => {
      for (const line of lines) context.print(line);
    });
    return 0;
  },
});

async function describe(
  deps: Deps,
  decision: DecisionRecord,
  terminal: Pick<Terminal, "stdout" | "columns">,
): Promise<readonly string[]> {
  const { id, agentId, attempt, trigger, what, trouble, tried, lastWords, options, state, choice } = decision;
  const line = (name: string, text: string) => labelled(terminal, `${name.padEnd(7)} `, text);
  const now = deps.clock.now();
  return [
    `${id}  ${state}  ${localTime(decision.createdAt, deps.clock.now())}`,
    ...line(
      "agent",
      `${harmlessLine(await nameOf(deps, agentId), 64)} (${agentId}), attempt ${attempt}, on ${trigger}`,
    ),
    ...line("what", harmlessLine(what)),
    ...(trouble === null ? [] : line("trouble", harmlessLine(`${trouble.kind}: ${trouble.message}`, 1_000))),
    ...(trouble?.resetsAt === undefined ? [] : line("limit", resetWords(trouble.resetsAt, now))),
    ...quoted("tried", tried ?? "", terminal),
    ...quoted("last words", lastWords, terminal),
    "",
    ...options.flatMap(({ n, label }) =>
      labelled(terminal, `  ${n}  `, `${harmlessLine(label, 400)}${choice?.n === n ? "  <- chosen" : ""}`),
    ),
    ...(choice?.message == null ? [] : line("message", harmlessLine(choice.message, 1_000))),
    ...(state === "open" ? ["", `Choose: reprise decisions resolve ${id} <n> [-m "message"]`] : []),
  ];
}

function quoted(
  title: string,
  text: string,
  terminal: Pick<Terminal, "stdout" | "columns">,
): readonly string[] {
  const words = harmless(text).trimEnd();
  if (words === "") return [];
  const lines = words.split("\n").slice(-40);
  return ["", `${title}:`, ...lines.flatMap((line) => quotedLine(line, terminal))];
}

/** Lines that fit stay unchanged, with their blanks. */
function quotedLine(line: string, terminal: Pick<Terminal, "stdout" | "columns">): readonly string[] {
  const fits = widthOf(line) + QUOTE.length <= terminal.columns;
  return fits ? [`${QUOTE}${line}`] : labelled(terminal, QUOTE, line);
}

const QUOTE = "  | ";

function resetWords(resetsAt: string, nowMs: number): string {
  const atMs = Date.parse(resetsAt);
  if (Number.isNaN(atMs)) return harmlessLine(resetsAt, 40);
  return atMs > nowMs ? untilText(atMs, nowMs) : `ended ${localTime(resetsAt, nowMs)}`;
}

const resolve = defineCommand({
  name: "decisions resolve",
  summary: "Choose an option of a decision. Without a number, Reprise asks in the terminal.",
  args: {
    id: { ...ID, missing: "Which decision? Example: reprise decisions resolve 1a2b3c4d-17 2" },
    n: { help: "number of the option" },
  },
  options: {
    message: withValue("<text>", "message to the agent", (given) => given, { short: "-m" }),
    json: JSON_FLAG,
  },
  examples: [
    "reprise decisions resolve 1a2b3c4d-17",
    "reprise decisions resolve 1a2b3c4d-17 2",
    'reprise decisions resolve 1a2b 1 -m "go on without the network"',
  ],
  run: async ({ args, options }, context) => {
    const json = options.json === true;
    const message = await readMessage({ words: options.message ?? null, file: undefined, stdin: false });
    const deps = await context.open({ cwd: null });
    const decision = await select(deps, args.id);
    if (decision.state !== "open") throw lateAnswerFault(decision);
    const option = optionOf(decision, args.n ?? (await ask(deps, context, decision, json)));
    if (message !== null && !["resume", "nudge", "fresh"].includes(option.does))
      throw new Fault("usage", `Option ${option.n} (${option.label}) takes no message.`);
    await resolveDecision(deps, decision.id, option.n, message);
    return carryOut(deps, context, { decision, option, json });
  },
});

/** Null: no choice. */
function optionOf({ id, options }: DecisionRecord, chosen: string | null): DecisionOption {
  const found = options.find(
    ({ n, does }) => String(n) === chosen || (does === "dismiss" && chosen === "dismiss"),
  );
  if (found !== undefined) return found;
  const said = options.map(({ n, label }) => `${n} ${label}`);
  const what =
    chosen === null
      ? `Nothing was chosen, and decision ${id} stays open.`
      : `Decision ${id} has no option ${JSON.stringify(chosen.slice(0, 20))}.`;
  throw new Fault("usage", `${what} Its options: ${said.join("; ")}.`, { facts: { id, options: said } });
}

async function ask(
  deps: Deps,
  context: Context,
  decision: DecisionRecord,
  json: boolean,
): Promise<string | null> {
  if (json || !context.terminal.stdin || !context.terminal.stderr) return null;
  for (const line of (
    await describe(deps, decision, { stdout: context.terminal.stderr, columns: context.terminal.columns })
  ).slice(0, -2))
    process.stderr.write(`${line}\n`);
  const { createInterface } = await import("node:readline/promises");
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C and Ctrl-D close it, and the question would wait forever.
  const closed = new Promise<null>((give) => prompt.once("close", () => give(null)));
  try {
    const answer = await Promise.race([prompt.question(`Which? [1-${decision.options.length}] `), closed]);
    return answer === null || answer.trim() === "" ? null : answer.trim();
  } finally {
    prompt.close();
  }
}

interface Choice {
  readonly decision: DecisionRecord;
  readonly option: DecisionOption;
  readonly json: boolean;
}

/** The choice is stored, so the daemon acts on it when it runs, even if this fails. */
async function carryOut(deps: Deps, context: Context, { decision, option, json }: Choice): Promise<number> {
  const { id } = decision;
  const stored = `Decision ${id} is made: ${harmlessLine(option.label, 120)}.`;
  try {
    await using daemon = await ensureDaemon(deps, context.version, (text) => context.log.info(text));
    const { done, why } = await daemon.resolve(id);
    if (json) context.printJson({ ok: done, id, n: option.n, does: option.does, done, why });
    else
      context.print(done ? `${stored} ${sentence(why)}` : `${stored} It could not be done: ${sentence(why)}`);
    return done ? 0 : 1;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Fault(error.code, `${stored} The daemon carries it out when it runs: ${error.message}`, {
      facts: { ...error.facts, id },
      cause: error,
    });
  }
}

/** Enough for any refusal with its commands. */
const MAX_WHY = 4_000;

function sentence(text: string): string {
  const line = wholeSentences(text, MAX_WHY);
  return line === ""
    ? ""
    : `${line.charAt(0).toUpperCase()}${line.slice(1)}${/[.!?]$/.test(line) ? "" : "."}`;
}

const DECISIONS = { a: "the id of a decision or of an agent", list: "reprise decisions list --all" };

/** A decision's id or a prefix; of an agent's several decisions the open one, otherwise the last. */
async function select(deps: Deps, given: string): Promise<DecisionRecord> {
  const all = await listDecisions(deps);
  const lower = given.toLowerCase();
  const exact = all.find(({ id }) => id === lower);
  if (exact !== undefined) return exact;
  const [head = "", ordinal] = isRunId(given) ? [given] : lower.split(/(?=-\d*$)/);
  const selector = parseSelector(head, DECISIONS);
  const fitting = all.filter(
    ({ id, agentId, runId }) =>
      isSelected(selector, agentId, runId) && (ordinal === undefined || id === `${agentId}${ordinal}`),
  );
  const open = fitting.filter(({ state }) => state === "open");
  const agents = new Set(fitting.map(({ agentId }) => agentId));
  const [only, ...others] = open.length > 0 ? open : agents.size === 1 ? fitting.slice(-1) : fitting;
  if (only === undefined)
    throw new Fault(
      "handle_unknown",
      `No decision matches ${JSON.stringify(given.slice(0, 80))}. List all: reprise decisions list --all`,
      { facts: { given: given.slice(0, 80) } },
    );
  if (others.length === 0) return only;
  const ids = [only, ...others].map(({ id }) => id);
  throw new Fault(
    "handle_ambiguous",
    `${given} matches ${ids.length} decisions: ${ids.join(", ")}. Type more characters.`,
    {
      facts: { given, ids },
    },
  );
}

async function nameOf(deps: Deps, agentId: string): Promise<string> {
  return (await getAgent(deps, agentId))?.record.definition.name ?? agentId;
}
