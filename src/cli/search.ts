/** `reprise search <words…>`: finds words in past conversations: messages, answers and tool calls. */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import { titleOf } from "../core/title.ts";
import { beginsWithDay, parseDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { shellLine } from "../lib/shell.ts";
import { widthOf } from "../lib/width.ts";
import type { Deps } from "../run/run.ts";
import { excerpt, type HitRange, parseQuery, searchConversations, type SearchHit } from "../search/search.ts";
import { resolveDirectory } from "../state/places.ts";
import type { Line, Piece } from "../terminal/terminal.ts";
import { canAsk, type Context, paint, type Terminal } from "./context.ts";
import { count, defineCommand, flag, JSON_FLAG, LEFT, text, withValue } from "./define.ts";
import { age } from "./words.ts";

const DEFAULT_LIMIT = 20;
/** Characters of a line in JSON. */
const JSON_LINE = 500;
/** The matching line stands below the title. */
const INDENT = 10;

export const command = defineCommand({
  name: "search",
  summary:
    "Search everything said and done in all runs: messages, answers, tool calls, file names. Finds conversations that contain all words.",
  usage: "[options] <words…>",
  args: {
    words: {
      help: 'words, a "quoted phrase", or a prefix such as migrat*',
      required: true,
      missing: 'Search for what? For example: reprise search "flaky cart test"',
      many: true,
    },
  },
  options: {
    engine: withValue("<engine>", "only conversations of this engine", text, { values: "engines" }),
    since: withValue("<when>", "only text since this age (7d) or date (2026-11-01)", sinceOf),
    here: flag("only runs of the current directory and below"),
    limit: withValue("<n>", `maximum number (default ${DEFAULT_LIMIT})`, count(1, 1_000)),
    all: flag("all conversations that fit, without a maximum"),
    everywhere: flag("include conversations started outside Reprise; see `reprise adopt`"),
    json: JSON_FLAG,
  },
  examples: [
    'reprise search "flaky cart test"',
    "reprise search renameCart --since 7d --here",
    "reprise search '\"exit code 137\"' --engine codex",
    "reprise search cart.test.ts --everywhere",
    "reprise search 'migrat*' --json | jq -r '.results[].handle'",
  ],
  run: async ({ args, options, reply }, context) => {
    if (options.all === true && options.limit !== undefined)
      throw new Fault("usage", "Give --all or --limit, not both.");
    const terms = parseQuery(args.words.join(" "));
    if (terms.length === 0)
      throw new Fault(
        "usage",
        'There is no word to search for. For example: reprise search "flaky cart test"',
      );
    const deps = await context.open({ cwd: null });
    const { engine = null, since, everywhere: outside = false } = options;
    const limit = options.all === true ? Number.MAX_SAFE_INTEGER : (options.limit ?? DEFAULT_LIMIT);
    if (engine !== null && deps.config.unread === undefined)
      (await import("../run/engine-setup.ts")).findEngine(deps, engine);
    const { hits, total } = await searchConversations(
      deps,
      {
        ...{ terms, engine, outside, limit },
        below: options.here === true ? resolveDirectory(".") : null,
        sinceMs: since === undefined ? null : since(deps.clock.now()),
      },
      progressOf(context, deps),
    );
    const results = await resultsOf(deps, hits);
    const isCut = total === null || total > hits.length;
    reply({ results: results.map(toJson), total: isCut ? total : results.length }, () => {
      if (results.length === 0) context.print(nothingFound(options));
      else print(context, results, deps.clock.now());
      if (isCut) context.log.info(moreThan(results.length, total));
    });
    return options.json !== true && canAsk(context) ? takeOne(context, deps, results) : 0;
  },
});

const moreThan = (shown: number, total: number | null) =>
  total === null
    ? `these are ${shown} of very many conversations. More words, --since or --here narrow the search.`
    : `these are ${shown} of ${total} conversations; --all shows them all.`;

/**
 * At a terminal, the user picks a result to resume, as `reprise resume HANDLE` does. A conversation from outside becomes a
 * run first. The results stay on the terminal.
 */
async function takeOne(context: Context, deps: Deps, results: readonly SearchResult[]): Promise<number> {
  if (results.length === 0) return 0;
  const hits = new Map(results.map((result) => [nameOf(result.hit), result]));
  const outside = [...hits].filter(([, { hit }]) => hit.handle === null);
  const { pickRuns } = await import("./pick.ts");
  const picked = await pickRuns(context, {
    question: outside.length === 0 ? "Resume which run?" : "Resume which conversation?",
    many: false,
    offers: "any",
    message: null,
    only: [...hits.keys()],
    outside: new Map(outside.map(([name, result]) => [name, conversationOf(result)])),
    lines: new Map([...hits].map(([name, { hit }]) => [name, marked(context.terminal, hit)])),
  });
  const [name = ""] = picked?.handles ?? [];
  const hit = hits.get(name)?.hit;
  if (hit === undefined) return LEFT;
  const handle = hit.handle ?? (await adopted(context, deps, hit));
  return (await import("./resume.ts")).command.execute([handle], context);
}

/** Unique among the results. */
const nameOf = ({ handle, engine, session }: SearchHit) => handle ?? `${engine} ${session ?? ""}`;

function conversationOf({ hit, title }: SearchResult) {
  const { engine, cwd, atMs } = hit;
  return { title, engine, cwd, updatedAt: new Date(atMs).toISOString() };
}

/** The handle of the conversation as a run. A fault says what to type instead. */
async function adopted(context: Context, deps: Deps, hit: SearchHit): Promise<string> {
  const { adoptSession } = await import("../run/run.ts");
  try {
    const { run } = await adoptSession(deps, {
      ...{ engine: hit.engine, session: hit.session ?? "", cwd: null, name: null },
    });
    context.log.info(`adopted as run ${run.handle}.`);
    return run.handle;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const where = error.code === "usage" ? " --cwd DIR" : "";
    const next = error.code === "session_lost" ? "" : ` Then type: ${adoptCommand(hit)}${where}`;
    const words = `The conversation was not adopted: ${error.message}${next}`;
    throw new Fault(error.code, words, { facts: error.facts, cause: error });
  }
}

const adoptCommand = ({ engine, session }: SearchHit) =>
  `reprise adopt ${shellLine([engine, session ?? ""])}`;

/** The words are not alone to blame if a filter was given. */
function nothingFound(options: { engine?: string; since?: unknown; here?: true }): string {
  const filters = (["engine", "since", "here"] as const).filter((name) => options[name] !== undefined);
  if (filters.length === 0)
    return "No conversation has all of these words. Type fewer words, or the beginning of a word: 'renam*'";
  const given = filters.map((name) => `--${name}`).join(" and ");
  return `With ${given}, no conversation has all of these words. Without ${given}, more are searched.`;
}

/** The moment, once the present time is known. */
function sinceOf(given: string): (nowMs: number) => number {
  const ms = parseDuration(given);
  if (ms !== null && ms > 0) return (nowMs) => nowMs - ms;
  const [, year, month, day] = /^(\d{4})-(\d{2})-(\d{2})$/.exec(given) ?? [];
  const isMoment = /^\d{4}-\d{2}-\d{2}T[\d:.]+(?:Z|[+-]\d{2}:\d{2})?$/.test(given);
  const at =
    year === undefined
      ? Date.parse(isMoment ? given : "")
      : new Date(Number(year), Number(month) - 1, Number(day)).getTime();
  if (Number.isNaN(at) || !beginsWithDay(given))
    throw new InvalidArgumentError("It must be an age such as 7d or 12h, or a date such as 2026-11-01.");
  return () => at;
}

/** Silent for the first second. */
function progressOf(context: Context, { clock }: Deps): (done: number, of: number) => void {
  let nextMs = clock.mono() + 1_000;
  return (done, of) => {
    if (clock.mono() < nextMs) return;
    nextMs = clock.mono() + 2_000;
    context.log.info(`reading conversations for the search: ${done} of ${of}`);
  };
}

interface SearchResult {
  readonly hit: SearchHit;
  readonly title: string;
}

/** Leaves out runs that were removed a moment ago. */
async function resultsOf(deps: Deps, hits: readonly SearchHit[]): Promise<readonly SearchResult[]> {
  const results: SearchResult[] = [];
  for (const hit of hits) {
    const run = hit.runId === null ? null : await deps.store.getRun(hit.runId).catch(() => null);
    if (hit.runId === null) results.push({ hit, title: hit.title ?? "" });
    else if (run !== null) results.push({ hit, title: titleOf(run) ?? "" });
  }
  return results;
}

function toJson({ hit, title }: SearchResult) {
  const { handle, runId, engine, session, cwd, attempt, kind } = hit;
  const shown = excerpt(hit, JSON_LINE);
  const adopt = session === null ? {} : { session, adopt: adoptCommand(hit) };
  const at = new Date(hit.atMs).toISOString();
  return {
    handle,
    runId,
    engine,
    ...adopt,
    cwd,
    title,
    attempt,
    at,
    kind,
    line: shown.line,
    ranges: shown.ranges,
  };
}

function print(context: Context, results: readonly SearchResult[], nowMs: number): void {
  const { terminal } = context;
  const engines = Math.max(...results.map(({ hit }) => widthOf(harmlessLine(hit.engine, 20))));
  for (const { hit, title } of results) {
    const engine = harmlessLine(hit.engine, 20);
    const facts = `${hit.handle ?? "-".padEnd(8)}  ${age(new Date(hit.atMs).toISOString(), nowMs).padEnd(5)}  ${engine.padEnd(engines)}  `;
    const room = Math.max(10, terminal.columns - widthOf(facts));
    const [handle, rest] = [facts.slice(0, 8), facts.slice(8)];
    context.print(
      `${paint(terminal, "bold", handle)}${paint(terminal, "dim", rest)}${harmlessLine(title, room)}`.trimEnd(),
    );
    const pieces = marked(terminal, hit).map(({ text: part, style }) =>
      style === undefined ? part : paint(terminal, style, part),
    );
    context.print(`${" ".repeat(INDENT)}${pieces.join("")}`);
    if (hit.session !== null)
      context.print(paint(terminal, "dim", `${" ".repeat(INDENT)}${adoptCommand(hit)}`));
  }
  if (!terminal.stdout) return;
  const first = results.find(({ hit }) => hit.handle !== null)?.hit.handle;
  const next = first === undefined || first === null ? "" : ` Continue one: reprise resume ${first} "…"`;
  context.print(paint(terminal, "dim", `${plural(results.length, "conversation")}.${next}`));
}

/** The line with its hits in colour, cut to the terminal. Wide characters need more than one column. */
function marked(terminal: Terminal, hit: SearchHit): Line {
  const room = Math.max(20, terminal.columns - INDENT);
  let shown = excerpt(flat(hit), room);
  for (let characters = room; widthOf(shown.line) > room && characters > 4; characters -= 4)
    shown = excerpt(flat(hit), characters);
  return withMarks(shown.line, shown.ranges);
}

/** A tab would take an unknown number of columns. */
function flat({ line, ranges }: SearchHit): Pick<SearchHit, "line" | "ranges"> {
  return { line: line.replaceAll("\t", " "), ranges };
}

function withMarks(line: string, ranges: readonly HitRange[]): Line {
  let at = 0;
  const pieces: Piece[] = [];
  for (const [from, to] of ranges) {
    pieces.push({ text: harmlessLine(line.slice(at, from)) });
    pieces.push({ text: harmlessLine(line.slice(from, to)), style: "warn" });
    at = to;
  }
  return [...pieces, { text: harmlessLine(line.slice(at)) }];
}
