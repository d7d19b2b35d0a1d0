/**
 * The certify program, `dist/certify.js engine=program…`: cases of the conformance suite against engines that the user
 * has installed, in a folder of their own, on a loopback model, without the network. Tells what it finds as
 * `CertifyLine`s on stdout. It ends, with all it started, when its stdin does.
 *
 * Two processes: the keeper owns the folder and ends what is left; the examiner, without a network, runs the cases.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { CertifyLine, Check } from "../src/core/certificate.ts";
import type { Exit, Outcome } from "../src/core/events.ts";
import { findEngine } from "../src/engines/engines.ts";
import type { Engine } from "../src/engines/engine.ts";
import { type CaseInstance, loadCases } from "./case.ts";
import { diagnose, type Scene, unknownLines, unknownText } from "./diagnose.ts";
import { type CaseResult, runCase } from "./interpret.ts";
import { isolation, withoutNetwork } from "./isolate.ts";
import { type Lab, LABS } from "./labs.ts";
import {
  type Bench,
  environment,
  makePlace,
  makeProject,
  processesOf,
  run,
  settle,
  signal,
} from "./place.ts";
import { startRefusingProxy } from "./proxy.ts";

const ROOT = "CONFORMANCE_ROOT";
const JOBS = 2;
const VERSION_DEADLINE_MS = 20_000;
const SWEEP_MS = 5_000;
const UNDERSTOOD = "every kind of line it prints is understood";

const root = process.env[ROOT];
process.exitCode = await (root === undefined ? keep() : examine(root));

/** Ends with the examiner, or ends it when nobody wants its answer any more. */
async function keep(): Promise<number> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "certify-")));
  const { words, env } = withoutNetwork();
  const [file = "", ...args] = [
    ...words,
    process.execPath,
    fileURLToPath(import.meta.url),
    ...process.argv.slice(2),
  ];
  const child = spawn(file, args, {
    env: { ...process.env, ...env, [ROOT]: folder },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const stop = () => void child.kill("SIGKILL");
  // Ctrl-C reaches the whole group; the order of the ends is decided here.
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, stop);
  process.stdin.once("end", stop).once("error", stop).resume();
  const code = await new Promise<number>((ended) => {
    child.once("error", () => ended(1));
    child.once("exit", (status) => ended(status ?? 1));
  });
  process.stdin.destroy();
  await sweep(folder);
  return code;
}

/** Nothing that was started outlives the folder, and nothing of the folder is left. */
async function sweep(folder: string): Promise<void> {
  const end = Date.now() + SWEEP_MS;
  for (;;) {
    const left = processesOf(folder);
    for (const pid of left) signal(pid, "SIGKILL");
    if (left.length === 0 || Date.now() > end) break;
    await new Promise((wake) => setTimeout(wake, 20));
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

function tell(line: CertifyLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function examine(folder: string): Promise<number> {
  // A signal to the group is the keeper's to obey.
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => {});
  let bench: Bench;
  try {
    const cli = fileURLToPath(new URL("./reprise.js", import.meta.url));
    bench = { root: folder, cli, project: makeProject(folder) };
  } catch (error) {
    tell({ type: "fatal", message: error instanceof Error ? error.message : String(error) });
    return 1;
  }
  await using proxy = await startRefusingProxy();
  if (isolation().network === "refusing proxy") process.env["CONFORMANCE_PROXY"] = proxy.url;
  const patients = process.argv.slice(2).map(patient);
  tell({ type: "begin", network: isolation().network });
  for (const one of patients) {
    const checks = [...one.cases.map(({ certify }) => certify ?? ""), UNDERSTOOD];
    tell({ type: "engine", engine: one.engine.id, version: await versionOf(bench, one), checks });
    await examineEngine(bench, one);
  }
  return 0;
}

/** One engine of the user's: the lab of that engine with the user's program in it. */
interface Patient {
  readonly engine: Engine;
  readonly lab: Lab;
  readonly cases: readonly CaseInstance[];
}

function patient(argument: string): Patient {
  const cut = argument.indexOf("=");
  const [id, program] = [argument.slice(0, cut), argument.slice(cut + 1)];
  const [engine, lab] = [findEngine(id), LABS.find((one) => one.engine === id)];
  if (engine === undefined || lab === undefined) throw new Error(`there is no lab for ${id}`);
  // A wrapper of the user's may need any program that the user has.
  const path = process.env["PATH"] ?? "";
  const own: Lab = { ...lab, program, env: (place, url) => ({ PATH: path, ...lab.env(place, url) }) };
  const cases = loadCases(LABS.map((one) => one.id)).filter(
    (one) => one.lab === lab.id && one.certify !== null && one.skipped === null,
  );
  return { engine, lab: own, cases };
}

async function versionOf(bench: Bench, { engine, lab }: Patient): Promise<string | null> {
  const place = makePlace(bench, `version-${lab.id}`);
  settle(place, lab, "http://127.0.0.1:9");
  const env = environment(place, lab, "http://127.0.0.1:9");
  const running = run(lab.program, ["--version"], { cwd: place.project, env, stdin: null });
  const timer = setTimeout(() => signal(running.pid, "SIGKILL"), VERSION_DEADLINE_MS);
  const ended = await running.ended.catch(() => null).finally(() => clearTimeout(timer));
  return ended?.code === 0 ? engine.version(ended.stdout) : null;
}

/** The first case alone: where not even a start works, the others have nothing to tell. */
async function examineEngine(bench: Bench, one: Patient): Promise<void> {
  const [first, ...others] = one.cases;
  if (first === undefined) return;
  const unknown: string[] = [];
  const opening = await examineCase(bench, one, first, unknown);
  tell({ type: "check", ...opening.check });
  const waiting = [...others];
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      tell({ type: "check", ...(await examineCase(bench, one, next, unknown)).check });
  };
  if (opening.started) await Promise.all(Array.from({ length: JOBS }, worker));
  else for (const { certify } of others) tell({ type: "check", ...notChecked(one.engine, certify ?? "") });
  tell({ type: "check", ...understood(one.engine, unknown) });
}

function notChecked(engine: Engine, check: string): Check {
  const why = "it begins with a start, and that does not work";
  return { engine: engine.id, check, result: "not checked", why, evidence: [], ms: 0 };
}

function understood(engine: Engine, unknown: readonly string[]): Check {
  const [line] = unknown;
  return {
    engine: engine.id,
    check: UNDERSTOOD,
    result: line === undefined ? "passed" : "new",
    why: line === undefined ? null : unknownText(engine, line),
    evidence: [],
    ms: 0,
  };
}

/** Adds to `unknown` the lines that nobody understood. */
async function examineCase(
  bench: Bench,
  { engine, lab }: Patient,
  one: CaseInstance,
  unknown: string[],
): Promise<{ readonly check: Check; readonly started: boolean }> {
  const result = await runCase(bench, one, lab, { keep: true, record: false });
  const folder = join(bench.root, one.id);
  const scenes = scenesIn(join(folder, "state", "runs"));
  unknown.push(...scenes.flatMap(({ stdout }) => unknownLines(engine, stdout)));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  const common = { engine: engine.id, check: one.certify ?? one.name, ms: result.ms };
  if (result.verdict === "passed")
    return { check: { ...common, result: "passed", why: null, evidence: [] }, started: true };
  const notes = result.notes.map((note) => note.replace(/^step \d+: /, ""));
  const diagnosis = diagnose(engine, { notes, scenes, refusal: refusalIn(result) });
  const started = !result.notes.some((note) => note.startsWith("step 1: "));
  return { check: { ...common, result: "broke", ...diagnosis }, started };
}

/** What Reprise printed instead of an attempt. */
function refusalIn({ log }: CaseResult): string | null {
  for (const line of log.split("\n").toReversed()) {
    if (!line.startsWith('{"ok":')) continue;
    const { error } = JSON.parse(line) as { error?: { message?: string } };
    return error?.message ?? null;
  }
  return null;
}

function scenesIn(runs: string): readonly Scene[] {
  return namesIn(runs)
    .flatMap((name) => {
      const attempts = join(runs, name, "attempts");
      const numbers = namesIn(attempts).toSorted((one, other) => Number(one) - Number(other));
      return numbers.map((n) => join(attempts, n));
    })
    .map(sceneIn);
}

function sceneIn(folder: string): Scene {
  const meta = JSON.parse(textOf(join(folder, "meta.json")) || "{}") as {
    readonly args?: readonly string[];
    readonly exit?: Exit | null;
    readonly outcome?: Outcome | null;
  };
  return {
    args: meta.args ?? [],
    exit: meta.exit ?? null,
    trouble: meta.outcome?.trouble ?? null,
    stdout: textOf(join(folder, "stdout.log")),
    stderr: textOf(join(folder, "stderr.log")),
  };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => !name.startsWith("."));
  } catch {
    return [];
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
