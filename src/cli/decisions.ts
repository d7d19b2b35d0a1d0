/** `reprise decisions list|show|resolve`: questions of agents to a person, and the answers. */
import { Fault } from "../core/faults.ts";
import type { DecisionOption, DecisionRecord } from "../core/supervision.ts";
import { localTime } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { table } from "../lib/table.ts";
import type { Deps } from "../run/run.ts";
import { ensureDaemon, getAgent, listDecisions, resolveDecision } from "../supervisor/supervisor.ts";
import { makeCommand, once, parse } from "./command.ts";
import { type Context, paint } from "./context.ts";
import { readMessage } from "./message.ts";
import { type Family, onlyArgument, runVerb } from "./verbs.ts";
import { age } from "./words.ts";

const FAMILY: Family = {
  name: "decisions",
  about: "What agents need to know from you (docs/daemon.md).",
  verbs: {
    list: { summary: "list open decisions", run: list },
    show: { summary: "show one with the facts, the agent's last words and your options", run: show },
    resolve: { summary: "choose an option", run: resolve },
  },
  examples: [
    "reprise decisions list",
    "reprise decisions show 1a2b3c4d",
    'reprise decisions resolve 1a2b3c4d 1 -m "use the other key"',
  ],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(FAMILY, args, context);
}

async function list(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions list",
    summary: "List decisions that are open, oldest first.",
    examples: ["reprise decisions list", "reprise decisions list --all --json"],
  })
    .option("--all", "also those that were made")
    .option("--json", "print one JSON object")
    .option("--ids", "print bare ids, one a line");
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
    const name = harmlessLine(await nameOf(deps, agentId), 24);
    rows.push([
      id,
      name,
      state,
      age(createdAt, deps.clock.now()),
      harmlessLine(what, terminal.stdout ? 120 : 400),
    ]);
  }
  const [header = "", ...lines] = table(
    [["DECISION", "AGENT", "STATE", "FOR", "WHAT"], ...rows],
    terminal.stdout ? terminal.columns : undefined,
  );
  context.print(paint(terminal, "dim", header));
  for (const line of lines) context.print(line);
}

async function show(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions show",
    summary: "Show a decision: what happened, the agent's last words, your options.",
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
  else for (const line of await describe(deps, decision)) context.print(line);
  return 0;
}

async function describe(deps: Deps, decision: DecisionRecord): Promise<readonly string[]> {
  const { id, agentId, attempt, trigger, what, trouble, tried, lastWords, options, state, choice } = decision;
  const line = (name: string, text: string) => `${name.padEnd(7)} ${text}`;
  return [
    `${id}  ${state}  ${localTime(decision.createdAt, deps.clock.now())}`,
    line(
      "agent",
      `${harmlessLine(await nameOf(deps, agentId), 64)} (${agentId}), attempt ${attempt}, on ${trigger}`,
    ),
    line("what", harmlessLine(what, 600)),
    ...(trouble === null ? [] : [line("trouble", harmlessLine(`${trouble.kind}: ${trouble.message}`, 600))]),
    ...(trouble?.resetsAt === undefined
      ? []
      : [line("resets", localTime(harmlessLine(trouble.resetsAt, 40), deps.clock.now()))]),
    ...quoted("tried", tried ?? ""),
    ...quoted("last words", lastWords),
    "",
    ...options.map((option) => `${sayOption(option)}${choice?.n === option.n ? "  <- chosen" : ""}`),
    ...(choice?.message == null ? [] : [line("message", harmlessLine(choice.message, 300))]),
    ...(state === "open" ? ["", `Choose: reprise decisions resolve ${id} <n> [-m "message"]`] : []),
  ];
}

function quoted(title: string, text: string): readonly string[] {
  const words = harmless(text).trimEnd();
  if (words === "") return [];
  const lines = words.split("\n").slice(-40);
  return ["", `${title}:`, ...lines.map((line) => `  | ${line}`)];
}

function sayOption({ n, label }: DecisionOption): string {
  return `  ${n}  ${harmlessLine(label, 200)}`;
}

interface ResolveOptions {
  readonly message?: string;
  readonly json?: true;
}

async function resolve(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "decisions resolve",
    summary: "Choose an option of a decision. Without a number, on a terminal, you are asked.",
    examples: [
      "reprise decisions resolve 1a2b3c4d-17",
      "reprise decisions resolve 1a2b3c4d-17 2",
      'reprise decisions resolve 1a2b 1 -m "go on without the network"',
    ],
  })
    .usage("[options] <id> [n]")
    .argument("[id]", "decision, agent, or a unique prefix")
    .argument("[n]", "the number of an option")
    .addOption(once("-m, --message <text>", "what the agent is told", (given) => given))
    .option("--json", "print one JSON object");
  parse(parser, args);
  const options: ResolveOptions = parser.opts();
  const [given, chosen, ...rest] = parser.args;
  if (given === undefined || rest.length > 0)
    throw new Fault("usage", "Which decision? As in: reprise decisions resolve 1a2b3c4d-17 2");
  const message = await readMessage({ words: options.message ?? null, file: undefined, stdin: false });
  const deps = await context.open({ cwd: null });
  const decision = await select(deps, given);
  if (decision.state !== "open")
    throw new Fault("usage", `Decision ${decision.id} is ${decision.state} already.`, {
      facts: { id: decision.id, state: decision.state },
    });
  const option = optionOf(decision, chosen ?? (await ask(deps, context, decision, options.json === true)));
  if (message !== null && !["resume", "nudge", "fresh"].includes(option.does))
    throw new Fault("usage", `Option ${option.n} (${option.label}) takes no message.`);
  await resolveDecision(deps, decision.id, option.n, message);
  return carryOut(deps, context, { decision, option, json: options.json === true });
}

/** Null: nothing was chosen. */
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
  for (const line of (await describe(deps, decision)).slice(0, -2)) process.stderr.write(`${line}\n`);
  const { createInterface } = await import("node:readline/promises");
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  // Ctrl-C and Ctrl-D close it, and the question would wait for ever.
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

/** The choice is stored: whatever happens here, the supervisor acts upon it when it runs. */
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

function sentence(text: string): string {
  const line = harmlessLine(text, 300);
  return line === ""
    ? ""
    : `${line.charAt(0).toUpperCase()}${line.slice(1)}${/[.!?]$/.test(line) ? "" : "."}`;
}

/** A decision's id or the beginning of one; of an agent's several, the one that is open, else the last. */
async function select(deps: Deps, given: string): Promise<DecisionRecord> {
  const all = await listDecisions(deps);
  const exact = all.find(({ id }) => id === given);
  if (exact !== undefined) return exact;
  const fitting = /^[0-9a-f]{4,8}(-\d*)?$/.test(given) ? all.filter(({ id }) => id.startsWith(given)) : [];
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
