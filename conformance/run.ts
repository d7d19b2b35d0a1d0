/**
 * `npm run conformance`: installs the pinned engines, runs every case in isolation, prints a table and writes
 * `report.md` and `report.json`. Exit 1 when a case failed or something was left behind.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type CaseInstance, loadCases } from "./case.ts";
import { installEngines, versionOf } from "./install.ts";
import { type CaseResult, runCase } from "./interpret.ts";
import { enterIsolation, isolation, lookAround, makeRoot, traces } from "./isolate.ts";
import { type Lab, LABS } from "./labs.ts";
import { type Bench, commandOf, makeBench, processesOf } from "./place.ts";
import { closingLine, countResults, markdown, type Report, table } from "./report.ts";

const USAGE = `usage: npm run conformance -- [--engine NAME]… [--group NAME]… [--case TEXT]… [--jobs N] [--keep] [--record] [--verbose]
  --engine   ${LABS.map(({ id }) => id).join(", ")}
  --case     cases whose id (name@engine) holds this text
  --keep     leave the folders of the cases and say where they are
  --record   renew the fixtures of the engines (src/engines/*.fixtures/lab-*) from what the engines print`;

const { values: flags } = parseArgs({
  options: {
    engine: { type: "string", multiple: true },
    group: { type: "string", multiple: true },
    case: { type: "string", multiple: true },
    jobs: { type: "string", default: "2" },
    record: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const say = (text: string) => void process.stdout.write(`${text}\n`);

process.exitCode = flags.help ? (say(USAGE), 0) : await main();

async function main(): Promise<number> {
  installEngines(say);
  const root = process.env["CONFORMANCE_ROOT"] ?? makeRoot(join(tmpdir(), `rc-${process.pid}`));
  const inside = enterIsolation(root);
  if (inside !== null) {
    if (!flags.keep) rmSync(root, { recursive: true, force: true });
    else say(`the folders are in ${root}`);
    return inside;
  }
  const before = lookAround();
  const began = Date.now();
  const bench = makeBench(root);
  const engines = LABS.map((lab) => ({ id: lab.id, ...versionOf(lab, root) }));
  for (const { id, problem } of engines) if (problem !== null) say(`${id}: ${problem}`);
  const cases = chosen();
  say(`${cases.length} cases; ${isolation().network}; ${isolation().files}`);
  const results = await runAll(bench, cases, new Map(engines.map(({ id, problem }) => [id, problem])));
  const left = processesOf(root).map((pid) => `a process was left behind: ${pid} ${commandOf(pid)}`);
  const report: Report = {
    reprise: version(),
    engines: engines.filter(({ id }) => cases.some(({ lab }) => lab === id)),
    isolation: isolation(),
    seconds: Math.round((Date.now() - began) / 1000),
    requests: results.reduce((sum, { requests }) => sum + requests, 0),
    traces: [...left, ...traces(before, root)],
    counts: countResults(results),
    results,
  };
  if (!flags.keep && process.env["CONFORMANCE_ROOT"] === undefined)
    rmSync(root, { recursive: true, force: true });
  return conclude(report);
}

function chosen(): readonly CaseInstance[] {
  const fits = (given: readonly string[] | undefined, test: (text: string) => boolean) =>
    given === undefined || given.some(test);
  const all = loadCases(LABS.map(({ id }) => id)).filter(
    (one) =>
      fits(flags.engine, (name) => one.lab === name) &&
      fits(flags.group, (name) => one.group === name) &&
      fits(flags.case, (text) => one.id.includes(text)),
  );
  if (all.length === 0) throw new Error(`no case fits\n${USAGE}`);
  return all;
}

async function runAll(
  bench: Bench,
  cases: readonly CaseInstance[],
  problems: ReadonlyMap<string, string | null>,
): Promise<readonly CaseResult[]> {
  const waiting = [...cases];
  const results: CaseResult[] = [];
  const worker = async () => {
    for (;;) {
      const one = waiting.shift();
      if (one === undefined) return;
      const result = await runOne(bench, one, problems.get(one.lab) ?? null);
      results.push(result);
      tell(result);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, Number(flags.jobs)) }, worker));
  const order = new Map(cases.map(({ id }, n) => [id, n]));
  return results.sort((left, right) => (order.get(left.id) ?? 0) - (order.get(right.id) ?? 0));
}

async function runOne(bench: Bench, one: CaseInstance, problem: string | null): Promise<CaseResult> {
  const { id, name, group, lab: labId } = one;
  const nothing = { id, name, group, lab: labId, ms: 0, log: "", requests: 0 };
  if (one.skipped !== null) return { ...nothing, verdict: "skipped", notes: [one.skipped] };
  // An engine that was not installed proves nothing; that is a failure, not an excuse.
  if (problem !== null) return { ...nothing, verdict: "failed", notes: [problem] };
  return runCase(bench, one, labNamed(labId), flags);
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

function conclude(report: Report): number {
  const isWhole = flags.engine === undefined && flags.group === undefined && flags.case === undefined;
  if (isWhole) {
    const file = (name: string) => fileURLToPath(new URL(`./${name}`, import.meta.url));
    writeFileSync(file("report.md"), markdown(report));
    writeFileSync(file("report.json"), `${JSON.stringify(report, null, 2)}\n`);
  }
  say(`\n${table(report)}\n`);
  for (const trace of report.traces) say(trace);
  say(
    `resumes that became a new conversation unnoticed: ${report.counts.newConversations}; messages delivered twice: ${report.counts.duplicates}`,
  );
  say(closingLine(report));
  return report.counts.failed > 0 || report.traces.length > 0 ? 1 : 0;
}

function version(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}
