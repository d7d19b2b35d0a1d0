/**
 * `npm run conformance`: installs the pinned engines, runs every case in isolation, prints a table and writes
 * `report.md` and `report.json`. Exit 1 when a case failed or something was left behind. No case is tried twice.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, homedir, hostname, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type CaseInstance, loadCases } from "./case.ts";
import { installEngines, versionOf } from "./install.ts";
import { type CaseResult, runCase } from "./interpret.ts";
import { enterIsolation, isolation, makeRoot } from "./isolate.ts";
import { type Lab, LABS } from "./labs.ts";
import { type Bench, commandOf, makeBench, processesOf } from "./place.ts";
import { recordedCases } from "./recorded.ts";
import { startRefusingProxy } from "./proxy.ts";
import {
  closingLine,
  countResults,
  json,
  markdown,
  type Report,
  scrubbed,
  summary,
  table,
} from "./report.ts";
import { lookAround, openNetwork, traces, watchConnections } from "./traces.ts";

const USAGE = `usage: npm run conformance -- [--engine NAME]… [--group NAME]… [--case TEXT]… [--jobs N] [--minutes N] [--report DIR] [--keep] [--record] [--verbose]
  --engine   ${LABS.map(({ id }) => id).join(", ")}, iflow (recorded output)
  --case     cases whose id (name@engine) holds this text
  --minutes  cases that have not begun by then fail (22)
  --report   where report.md and report.json are written; without it, conformance/ if every case was run
  --keep     leave the folders of the cases and say where they are
  --record   renew the fixtures of the engines (src/engines/*.fixtures/lab-*) from what the engines print`;

const { values: flags } = parseArgs({
  options: {
    engine: { type: "string", multiple: true },
    group: { type: "string", multiple: true },
    case: { type: "string", multiple: true },
    // Cases wait as often as they compute.
    jobs: { type: "string", default: String(Math.max(2, availableParallelism() + 1)) },
    minutes: { type: "string", default: "22" },
    report: { type: "string" },
    record: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const HERE = fileURLToPath(new URL(".", import.meta.url));
const say = (text: string) => void process.stdout.write(`${text}\n`);

process.exitCode = flags.help ? (say(USAGE), 0) : await main();

async function main(): Promise<number> {
  // Counts from the first start of this program: the install is part of the time.
  const deadline = Number(
    (process.env["CONFORMANCE_DEADLINE"] ??= String(Date.now() + Number(flags.minutes) * 60_000)),
  );
  installEngines(say);
  const root = process.env["CONFORMANCE_ROOT"] ?? makeRoot(join(tmpdir(), `rc-${process.pid}`));
  try {
    return enterIsolation(root) ?? conclude(await examine(root, deadline), root);
  } finally {
    if (process.env["CONFORMANCE_ROOT"] === undefined) finish(root);
  }
}

/** Outside of the isolation, where the folder for the report is the one that was meant. */
function finish(root: string): void {
  const isWhole = flags.engine === undefined && flags.group === undefined && flags.case === undefined;
  const folder = flags.report === undefined ? (isWhole ? HERE : null) : resolve(flags.report);
  if (folder !== null && existsSync(join(root, "report")))
    cpSync(join(root, "report"), folder, { recursive: true });
  if (flags.keep) say(`the folders are in ${root}`);
  else rmSync(root, { recursive: true, force: true, maxRetries: 10 });
}

async function examine(root: string, deadline: number): Promise<Report> {
  await using proxy = await startRefusingProxy();
  const isProxied = isolation().network === "refusing proxy";
  if (isProxied) process.env["CONFORMANCE_PROXY"] = proxy.url;
  using watch = watchConnections(root);
  const before = lookAround(root);
  const began = Date.now();
  const bench = makeBench(root);
  const engines = LABS.map((lab) => ({ id: lab.id, ...versionOf(lab, root), lacking: lab.options.lacking }));
  for (const { id, problem } of engines) if (problem !== null) say(`${id}: ${problem}`);
  const cases = chosen();
  say(`${cases.length} cases; ${isolation().network}; ${isolation().files}`);
  const problems = new Map(engines.map(({ id, problem }) => [id, problem]));
  const results = await runAll(bench, cases, { problems, deadline });
  const recorded = await Promise.all(
    recordedCases()
      .filter(isChosen)
      .map((one) => one.run(bench)),
  );
  for (const result of recorded) tell(result);
  const left = processesOf(root).map((pid) => `a process was left behind: ${commandOf(pid)}`);
  const connected = [...watch.seen].map((remote) => `a connection got out: ${remote}`);
  const after = lookAround(root);
  const changes = flags.record ? [] : traces(before, after);
  return {
    reprise: version(),
    engines: engines.filter(({ id }) => cases.some(({ lab }) => lab === id)),
    isolation: isolation(),
    seconds: Math.round((Date.now() - began) / 1000),
    requests: results.reduce((sum, { requests }) => sum + requests, 0),
    traces: [...left, ...connected, ...changes, ...openNetwork()],
    refused: isProxied ? tally(proxy.refused) : noRoutes(after.noRoutes - before.noRoutes),
    counts: countResults(results),
    results,
    recorded,
  };
}

function tally(hosts: readonly string[]): readonly string[] {
  const count = (host: string) => hosts.filter((one) => one === host).length;
  return [...new Set(hosts)].sort().map((host) => `${host} (${count(host)} ×)`);
}

function noRoutes(count: number): readonly string[] {
  return count === 0 ? [] : [`for want of a route (${count} ×)`];
}

function chosen(): readonly CaseInstance[] {
  const all = loadCases(LABS.map(({ id }) => id)).filter(isChosen);
  if (all.length === 0 && recordedCases().filter(isChosen).length === 0)
    throw new Error(`no case fits\n${USAGE}`);
  return all;
}

function isChosen({ id, group }: Pick<CaseInstance, "id" | "group">): boolean {
  const fits = (given: readonly string[] | undefined, test: (text: string) => boolean) =>
    given === undefined || given.some(test);
  return (
    fits(flags.engine, (name) => id.endsWith(`@${name}`)) &&
    fits(flags.group, (name) => group === name) &&
    fits(flags.case, (text) => id.includes(text))
  );
}

interface Conditions {
  /** What stands in the way of an engine; null: nothing. */
  readonly problems: ReadonlyMap<string, string | null>;
  readonly deadline: number;
}

async function runAll(
  bench: Bench,
  cases: readonly CaseInstance[],
  conditions: Conditions,
): Promise<readonly CaseResult[]> {
  const waiting = [...cases];
  const results: CaseResult[] = [];
  const worker = async () => {
    for (;;) {
      const one = waiting.shift();
      if (one === undefined) return;
      const result = await runOne(bench, one, conditions);
      results.push(result);
      tell(result);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Number(flags.jobs)) }, worker));
  const order = new Map(cases.map(({ id }, n) => [id, n]));
  return results.sort((left, right) => (order.get(left.id) ?? 0) - (order.get(right.id) ?? 0));
}

async function runOne(
  bench: Bench,
  one: CaseInstance,
  { problems, deadline }: Conditions,
): Promise<CaseResult> {
  const { id, name, group, lab: labId } = one;
  const resumes = { meant: 0, worked: 0 };
  const nothing = { id, name, group, lab: labId, ms: 0, log: "", requests: 0, resumes };
  if (one.skipped !== null) return { ...nothing, verdict: "skipped", notes: [one.skipped] };
  // An engine that was not installed proves nothing, nor does a case that was not run; that is no excuse.
  const problem = problems.get(labId) ?? (Date.now() > deadline ? "no time left" : null);
  if (problem !== null) return { ...nothing, verdict: "failed", notes: [problem] };
  // A mistake in the suite fails the case that met it, not the run.
  return runCase(bench, one, labNamed(labId), flags).catch((error: unknown) => ({
    ...nothing,
    verdict: "failed",
    notes: [error instanceof Error ? (error.stack ?? error.message) : String(error)],
  }));
}

function labNamed(id: string): Lab {
  const lab = LABS.find((one) => one.id === id);
  if (lab === undefined) throw new Error(`no such engine: ${id}`);
  return lab;
}

function tell({ verdict, id, ms, notes, log }: CaseResult): void {
  if (verdict === "skipped") return;
  say(`${verdict === "passed" ? "ok  " : "FAIL"} ${id} (${(ms / 1000).toFixed(1)} s)`);
  for (const note of notes) say(`     ${note}`);
  if (verdict === "failed" && flags.verbose) say(log);
}

function conclude(report: Report, root: string): number {
  const names = { suite: root, repository: join(HERE, ".."), home: homedir(), host: hostname() };
  mkdirSync(join(root, "report"), { recursive: true });
  writeFileSync(join(root, "report", "report.md"), scrubbed(markdown(report), names));
  writeFileSync(join(root, "report", "report.json"), scrubbed(json(report), names));
  say(`\n${table(report)}\n`);
  for (const trace of report.traces) say(trace);
  for (const attempt of report.refused) say(`refused: ${attempt}`);
  for (const line of summary(report)) say(line);
  say(closingLine(report));
  const failed = [...report.results, ...report.recorded].some(({ verdict }) => verdict === "failed");
  return failed || report.traces.length > 0 ? 1 : 0;
}

function version(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
