/**
 * `npm run conformance`: installs the pinned engines, runs every case in isolation, prints a table and writes
 * `report.md` and `report.json`. Exit 1 when a case failed or something was left behind, 2 when it could not begin, 130 or
 * 143 when it was stopped; then no report is written. No case is retried.
 */
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism, homedir, hostname, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type CaseInstance, GROUPS } from "../src/certify/case.ts";
import { installEngines, versionOf } from "./install.ts";
import { type CaseResult, runCase } from "../src/certify/interpret.ts";
import { makeBench } from "./bench.ts";
import { suiteCases } from "./cases.ts";
import { EXTRAS } from "./extras.ts";
import { makeRoot, runIsolated } from "./isolate.ts";
import { labNamed, LABS } from "./pinned.ts";
import { isChosen, Mistake, mustFit, oneLine, type Options, readOptions } from "./options.ts";
import { isolation, PROXY } from "../src/certify/network.ts";
import { type Bench, commandOf, endAll, processesOf } from "../src/certify/place.ts";
import { type RecordedCase, recordedCases } from "./recorded.ts";
import { startRefusingProxy } from "../src/certify/proxy.ts";
import {
  closingLine,
  countResults,
  json,
  markdown,
  RECORDED,
  type Report,
  scrubbed,
  summary,
  table,
  unaccounted,
} from "./report.ts";
import { lookAround, openNetwork, traces, watchConnections } from "./traces.ts";

const USAGE = `usage: npm run conformance -- [--engine NAME]… [--group NAME]… [--case TEXT]… [--short] [--jobs N] [--minutes N] [--report DIR] [--keep] [--record] [--verbose]
  --engine   ${LABS.map(({ id }) => id).join(", ")}, iflow (recorded output)
  --group    ${Object.keys(GROUPS).join(", ")}
  --case     cases whose id (name@engine) holds this text
  --short    only the selection of short.json: every group and every engine, in about ten minutes
  --jobs     cases at a time
  --minutes  cases that have not begun by then fail (60)
  --report   where report.md and report.json are written; without it, conformance/ if every case was run
  --keep     leave the folders of the cases and say where they are
  --record   renew the fixtures of the engines (src/engines/*.fixtures/lab-*) from what the engines print`;

const HERE = fileURLToPath(new URL(".", import.meta.url));
const CHOICES = {
  engines: [...LABS.map(({ id }) => id), RECORDED.id],
  groups: Object.keys(GROUPS),
  // Cases wait as often as they compute.
  jobs: Math.max(2, availableParallelism() + 1),
};
/** The exit code of a run that was stopped. */
const STOPPED = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
const LEASH_MS = 1_000;
const say = (text: string) => void process.stdout.write(`${text}\n`);

try {
  const flags = readOptions(process.argv.slice(2), CHOICES);
  process.exitCode = flags.help ? (say(USAGE), 0) : await main(flags);
} catch (error) {
  if (!(error instanceof Mistake)) throw error;
  process.stderr.write(`conformance: ${oneLine(error)}\n`);
  process.exitCode = 2;
}

/** Two processes: the keeper owns the folder and ends leftover processes; the examiner, isolated, runs the cases. */
async function main(flags: Options): Promise<number> {
  const plan = chosen(flags);
  const inside = process.env["CONFORMANCE_ROOT"];
  if (inside !== undefined) {
    const keeper = process.ppid;
    // Without its keeper there is nobody to read the result, nor to end what it starts.
    setInterval(() => process.ppid === keeper || process.kill(process.pid, "SIGKILL"), LEASH_MS).unref();
    return conclude(await examine(inside, plan, flags), inside);
  }
  const folder = reportFolder(flags);
  // Counts from here: the install is part of the time.
  process.env["CONFORMANCE_DEADLINE"] = String(Date.now() + flags.minutes * 60_000);
  if (plan.cases.length > 0) installEngines(say);
  return keep(flags, folder);
}

/** Ends with the examiner, or ends it when a signal says so. Whichever it is, nothing is left. */
async function keep(flags: Options, folder: string | null): Promise<number> {
  const stop = new AbortController();
  for (const name of Object.keys(STOPPED)) process.on(name, () => stop.abort(name));
  const root = await makeRoot(tmpdir());
  try {
    const code = await runIsolated(root, stop.signal);
    if (stop.signal.aborted) return STOPPED[stop.signal.reason as keyof typeof STOPPED];
    const report = join(root, "report");
    if (existsSync(report) && folder !== null) cpSync(report, folder, { recursive: true });
    if (code === 0 && !existsSync(report)) throw new Error("the run ended before its cases did");
    return code;
  } finally {
    await endAll(root);
    if (flags.keep && !stop.signal.aborted) {
      // A later run leaves it alone.
      writeFileSync(join(root, "kept"), "");
      say(`the folders are in ${root}`);
    } else rmSync(root, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** Null: this run writes no report. Found to be writable before the cases are run, not after. */
function reportFolder(flags: Options): string | null {
  const isWhole =
    flags.engine === undefined && flags.group === undefined && flags.case === undefined && !flags.short;
  if (flags.report === undefined) return isWhole ? HERE : null;
  const folder = resolve(flags.report);
  let there = folder;
  while (!existsSync(there)) there = dirname(there);
  try {
    if (!statSync(there).isDirectory()) throw new Error(`${there} is no folder`);
    accessSync(there, constants.W_OK);
  } catch (error) {
    throw new Mistake(`--report: nothing can be written to ${folder}: ${oneLine(error)}`);
  }
  return folder;
}

interface Plan {
  readonly cases: readonly CaseInstance[];
  readonly recorded: readonly RecordedCase[];
}

function chosen(flags: Options): Plan {
  const [cases, recorded] = [casesOfFiles(), recordedCases()];
  mustFit([...cases, ...recorded], flags);
  return {
    cases: cases.filter((one) => isChosen(one, flags)),
    recorded: recorded.filter((one) => isChosen(one, flags)),
  };
}

function casesOfFiles(): readonly CaseInstance[] {
  try {
    return suiteCases();
  } catch (error) {
    throw new Mistake(oneLine(error));
  }
}

async function examine(root: string, plan: Plan, flags: Options): Promise<Report> {
  await using proxy = await startRefusingProxy();
  const isProxied = isolation().network === "refusing proxy";
  if (isProxied) process.env[PROXY] = proxy.url;
  using watch = watchConnections(root);
  const before = lookAround(root);
  const began = Date.now();
  const bench = makeBench(root);
  const { cases } = plan;
  const labs = LABS.filter(({ id }) => cases.some(({ lab }) => lab === id));
  const engines = labs.map((lab) => ({ id: lab.id, ...versionOf(lab, root), lacking: lab.options.lacking }));
  for (const { id, problem } of engines) if (problem !== null) say(`${id}: ${problem}`);
  say(`${cases.length + plan.recorded.length} cases; ${isolation().network}; ${isolation().files}`);
  const problems = new Map(engines.map(({ id, problem }) => [id, problem]));
  const deadline = Number(process.env["CONFORMANCE_DEADLINE"]);
  const results = await runAll(bench, cases, { problems, deadline, flags });
  const recorded = await Promise.all(plan.recorded.map((one) => one.run(bench)));
  for (const result of recorded) tell(result, flags);
  const missing = unaccounted([...cases, ...plan.recorded], [...results, ...recorded]);
  if (missing.length > 0) throw new Error(`without a result of its own: ${missing.join(", ")}`);
  const left = processesOf(root).map((pid) => `a process was left behind: ${commandOf(pid)}`);
  const connected = [...watch.seen].map((remote) => `a connection got out: ${remote}`);
  const after = lookAround(root);
  const changes = flags.record ? [] : traces(before, after);
  return {
    reprise: version(),
    engines,
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

interface Conditions {
  /** What stands in the way of an engine; null: nothing. */
  readonly problems: ReadonlyMap<string, string | null>;
  readonly deadline: number;
  readonly flags: Options;
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
      tell(result, conditions.flags);
    }
  };
  await Promise.all(Array.from({ length: conditions.flags.jobs }, worker));
  const order = new Map(cases.map(({ id }, n) => [id, n]));
  return results.sort((left, right) => (order.get(left.id) ?? 0) - (order.get(right.id) ?? 0));
}

async function runOne(
  bench: Bench,
  one: CaseInstance,
  { problems, deadline, flags }: Conditions,
): Promise<CaseResult> {
  const { id, name, group, lab: labId } = one;
  const resumes = { meant: 0, worked: 0 };
  const nothing = { id, name, group, lab: labId, ms: 0, log: "", requests: 0, resumes };
  if (one.skipped !== null) return { ...nothing, verdict: "skipped", notes: [one.skipped] };
  // An engine that was not installed proves nothing, nor does a case that was not run; that is no excuse.
  const problem = problems.get(labId) ?? (Date.now() > deadline ? "no time left" : null);
  if (problem !== null) return { ...nothing, verdict: "failed", notes: [problem] };
  // A mistake in the suite fails the case that met it, not the run.
  return runCase(bench, one, labNamed(labId), { ...flags, extras: EXTRAS }).catch((error: unknown) => ({
    ...nothing,
    verdict: "failed",
    notes: [error instanceof Error ? (error.stack ?? error.message) : String(error)],
  }));
}

function tell({ verdict, id, ms, notes, log }: CaseResult, flags: Options): void {
  if (verdict === "skipped") return;
  say(`${verdict === "passed" ? "ok  " : "FAIL"} ${id} (${(ms / 1000).toFixed(1)} s)`);
  for (const note of notes) say(`     ${note}`);
  if (verdict === "failed" && flags.verbose) say(log);
}

function conclude(report: Report, root: string): number {
  const names = {
    suite: root,
    repository: join(HERE, ".."),
    node: process.execPath,
    home: homedir(),
    host: hostname(),
  };
  const unfinished = join(root, "report-unfinished");
  mkdirSync(unfinished);
  writeFileSync(join(unfinished, "report.md"), scrubbed(markdown(report), names));
  writeFileSync(join(unfinished, "report.json"), scrubbed(json(report), names));
  renameSync(unfinished, join(root, "report"));
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
