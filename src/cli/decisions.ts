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
import {
  ensureDaemon,
  getAgent,
  listDecisions,
  resolveDecision,
  lateAnswerFault,
} from "../supervisor/supervisor.ts";
import { makeCommand, once, parse } from "./command.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { readMessage } from "./message.ts";
import { type VerbGroup, onlyArgument, runVerb } from "./verbs.ts";
import { age, labelled } from "./words.ts";

const GROUP: VerbGroup = {
  name: "decisions",
  about: "Questions from agents that need your answer (docs/daemon.md).",
  verbs: {
    list: { summary: "list open decisions", run: list },
    show: { summary: "show one: facts, last output of the agent, options", run: show },
    resolve: { summary: "choose an option", run: resolve },
  },
  alone: "list",
  examples: [
    "reprise decisions list",
    "reprise decisions show 1a2b3c4d",
    'reprise decisions resolve 1a2b3c4d 1 -m "use the other key"',
  ],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(GROUP, args, context);
}

async function list(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions list",
    summary: "List open decisions, oldest first.",
    examples: ["reprise decisions list", "reprise decisions list --all --json"],
  })
    .option("--all", "include decisions that were made")
    .option("--json", "print one JSON object")
    .option("--ids", "print only ids, one per line");
  parse(parser, args);
  const options: { all?: true; json?: true; ids?: true } = parser.opts();
  const deps = await context.open({ cwd: null });
  const decisions = await listDecisions(deps, options.all === true ? {} : { open: true });
  if (options.json === true) context.printJson({ ok: true, decisions });
  else if (options.ids === true) for (const { id } of decisions) context.print(id);
  else if (decisions.length === 0)
    context.print(options.all === true ? "No agent has asked anything yet." : "No agent needs a decision.");
  else await printTable(deps, context, decisions);
  return 0;
}

async function printTable(deps: Deps, context: Context, decisions: readonly DecisionRecord[]): Promise<void> {
  const { terminal } = context;
  const rows: string[][] = [];
  for (const decision of decisions) {
    const { id, agentId, state, createdAt, what } = decision;
    const name = harmlessLine(await nameOf(deps, agentId), 64);
    rows.push([id, name, state, age(createdAt, deps.clock.now()), wholeSentences(what, 400)]);
  }
  const [header = "", ...lines] = decisionTable(rows, terminal);
  context.print(paint(terminal, "dim", header));
  for (const line of lines) context.print(line);
}

export function decisionTable(
  rows: readonly (readonly string[])[],
  { stdout, columns }: Pick<Terminal, "stdout" | "columns">,
): string[] {
  const heads: readonly Column[] = [
    { head: "DECISION", as: "whole" },
    { head: "AGENT", least: 12 },
    { head: "STATE", as: "whole" },
    { head: "FOR", as: "whole" },
    { head: "WHAT", as: "wrap" },
  ];
  return fitTable(heads, rows, stdout ? columns : undefined);
}

async function show(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions show",
    summary: "Show a decision: facts, last output of the agent, options.",
    examples: ["reprise decisions show 1a2b3c4d-17", "reprise decisions show 1a2b --json"],
  })
    .usage("[options] <id>")
    .argument("[id]", "decision, agent, or a unique prefix")
    .option("--json", "print one JSON object");
  parse(parser, args);
  const { json }: { json?: true } = parser.opts();
  const deps = await context.open({ cwd: null });
  const decision = await select(
    deps,
    onlyArgument(parser.args, "Which decision? `reprise decisions list --all` shows them."),
  );
  if (json === true) context.printJson({ ok: true, decision });
  else for (const line of await describe(deps, decision, context.terminal)) context.print(line);
  return 0;
}

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
  return atMs > nowMs ? untilText(atMs, nowMs) : `over since ${localTime(resetsAt, nowMs)}`;
}

interface ResolveOptions {
  readonly message?: string;
  readonly json?: true;
}

async function resolve(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions resolve",
    summary: "Choose an option of a decision. Without a number, ask on the terminal.",
    examples: [
      "reprise decisions resolve 1a2b3c4d-17",
      "reprise decisions resolve 1a2b3c4d-17 2",
      'reprise decisions resolve 1a2b 1 -m "go on without the network"',
    ],
  })
    .usage("[options] <id> [n]")
    .argument("[id]", "decision, agent, or a unique prefix")
    .argument("[n]", "number of the option")
    .addOption(once("-m, --message <text>", "message to the agent", (given) => given))
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: ResolveOptions = parser.opts();
  const [given, chosen, ...rest] = parser.args;
  if (given === undefined || rest.length > 0)
    throw new Fault("usage", "Which decision? As in: reprise decisions resolve 1a2b3c4d-17 2");
  const message = await readMessage({ words: options.message ?? null, file: undefined, stdin: false });
  const deps = await context.open({ cwd: null });
  const decision = await select(deps, given);
  if (decision.state !== "open") throw lateAnswerFault(decision);
  const option = optionOf(decision, chosen ?? (await ask(deps, context, decision, options.json === true)));
  if (message !== null && !["resume", "nudge", "fresh"].includes(option.does))
    throw new Fault("usage", `Option ${option.n} (${option.label}) takes no message.`);
  await resolveDecision(deps, decision.id, option.n, message);
  return carryOut(deps, context, { decision, option, json: options.json === true });
}

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

/** The choice is stored: whatever happens here, the daemon acts on it when it runs. */
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
    throw new Fault(error.code, `${stored} It is carried out when the supervisor runs: ${error.message}`, {
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
      `There is no decision ${JSON.stringify(given.slice(0, 80))}. \`reprise decisions list --all\` shows them.`,
      { facts: { given: given.slice(0, 80) } },
    );
  if (others.length === 0) return only;
  const ids = [only, ...others].map(({ id }) => id);
  throw new Fault(
    "handle_ambiguous",
    `${given} fits ${ids.length} decisions: ${ids.join(", ")}. Type more.`,
    {
      facts: { given, ids },
    },
  );
}

async function nameOf(deps: Deps, agentId: string): Promise<string> {
  return (await getAgent(deps, agentId))?.record.definition.name ?? agentId;
}
