/**
 * The certify program, `dist/certify.js engine=program…`: runs its cases (`cases/certify.json`) against the user's
 * installed engines, in a private folder, on a loopback model, without the network. It reports `CertifyLine`s on
 * stdout, and ends with everything it started when its stdin closes.
 *
 * Two processes: the keeper owns the folder and ends leftover processes; the examiner, without a network, runs the
 * cases.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isErrno } from "../core/errno.ts";
import type { CertifyLine, Check } from "../core/certificate.ts";
import type { Exit, Outcome } from "../core/events.ts";
import { builtInEngine } from "../engines/engines.ts";
import type { Engine } from "../engines/engine.ts";
import { type CaseInstance, CERTIFY_CASES, loadCases } from "./case.ts";
import { diagnose, NOTHING_SEEN, type Scene, type Survey, surveyOf, unknownText } from "./diagnose.ts";
import { type CaseResult, runCase } from "./interpret.ts";
import type { Lab } from "./lab.ts";
import { LABS } from "./labs.ts";
import { isolation, PROXY, withoutNetwork } from "./network.ts";
import { type Bench, endAll, environment, headOf, makePlace, makeProject, settle } from "./place.ts";
import { startRefusingProxy } from "./proxy.ts";

const ROOT = "CERTIFY_ROOT";
const JOBS = 2;
/** A program that has not printed its version by then is stuck. */
const VERSION_DEADLINE_MS = 10_000;
const VERSION_CHARACTERS = 10_000;
/** More than its steps can take together if one of them fails. */
const CHECK_DEADLINE_MS = 180_000;
/** No check of an engine begins after this. */
const ENGINE_DEADLINE_MS = 480_000;
/** More than the examiner needs for one engine in the worst case. */
const KEEPER_DEADLINE_MS = 720_000;
/** How long output may take to arrive after the end. */
const PIPE_MS = 200;
/** Far more than a case prints. */
const MAX_STDOUT = 8 << 20;
const MAX_STDERR = 1 << 20;
const UNDERSTOOD = "Reprise understands every kind of output line";

const root = process.env[ROOT];
void (root === undefined ? keep() : examine(root)).then((code) => {
  // A process that holds one of our pipes open does not delay the exit.
  process.stdout.write("", () => process.exit(code));
});

/** Ends with the examiner, or ends it when the caller is gone. */
async function keep(): Promise<number> {
  const folder = makeFolder();
  if (folder === null) return 1;
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
  // Ctrl-C reaches the whole group; this decides the order in which the processes end.
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, stop);
  process.stdin.once("end", stop).once("error", stop).resume();
  const minutes = (KEEPER_DEADLINE_MS / 60_000) * Math.max(1, process.argv.length - 2);
  const message = `it did not end within ${minutes} minutes`;
  const timer = setTimeout(() => {
    tell({ type: "fatal", code: "engine_cannot", message });
    stop();
  }, minutes * 60_000);
  const status = await new Promise<number>((ended) => {
    child.once("error", () => ended(1));
    child.once("exit", (exit) => ended(exit ?? 1));
  });
  clearTimeout(timer);
  process.stdin.destroy();
  await endAll(folder);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  return status;
}

function makeFolder(): string | null {
  try {
    return realpathSync(mkdtempSync(join(tmpdir(), "certify-")));
  } catch (error) {
    tellFatal(error);
    return null;
  }
}

/** File system errors are storage faults; any other error prevents the checks. */
function tellFatal(error: unknown): void {
  const said = error instanceof Error ? error.message : String(error);
  if (!isErrno(error) || error.syscall?.startsWith("spawn") === true)
    return tell({ type: "fatal", code: "engine_cannot", message: said });
  const isFull = isErrno(error, "ENOSPC", "EDQUOT");
  const message = `the temporary folder ${tmpdir()} cannot be written to (${error.code}). ${isFull ? "Make room there, or set" : "Set"} TMPDIR to a folder that can be.`;
  tell({ type: "fatal", code: isFull ? "storage_full" : "storage_failed", message });
}

function tell(line: CertifyLine): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function examine(folder: string): Promise<number> {
  // Only the keeper obeys signals to the group.
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => {});
  let bench: Bench;
  try {
    const cli = fileURLToPath(new URL("./reprise.js", import.meta.url));
    bench = { root: folder, cli, project: makeProject(folder) };
  } catch (error) {
    tellFatal(error);
    return 1;
  }
  await using proxy = await startRefusingProxy();
  if (isolation().network === "refusing proxy") process.env[PROXY] = proxy.url;
  const patients = process.argv.slice(2).map(patient);
  tell({ type: "begin", network: isolation().network });
  try {
    for (const one of patients) {
      const checks = [...one.cases.map(({ certify }) => certify ?? ""), UNDERSTOOD];
      const said = await versionOf(bench, one);
      tell({ type: "engine", engine: one.engine.id, version: said?.version ?? null, checks });
      if (said === null) tellSilent(one.engine, checks);
      else await examineEngine(bench, one);
    }
    return 0;
  } catch (error) {
    if (!isErrno(error)) throw error;
    tellFatal(error);
    return 1;
  }
}

/** One engine of the user: its lab with the user's program. */
interface Patient {
  readonly engine: Engine;
  readonly lab: Lab;
  readonly cases: readonly CaseInstance[];
}

function patient(argument: string): Patient {
  const cut = argument.indexOf("=");
  const [id, program] = [argument.slice(0, cut), argument.slice(cut + 1)];
  const [engine, lab] = [builtInEngine(id), LABS.find((one) => one.engine === id)];
  if (engine === undefined || lab === undefined) throw new Error(`there is no lab for ${id}`);
  // A user's wrapper may need any program on the user's PATH.
  const path = process.env["PATH"] ?? "";
  const own: Lab = { ...lab, program, env: (place, url) => ({ PATH: path, ...lab.env(place, url) }) };
  const ids = LABS.map((one) => one.id);
  const cases = loadCases(ids, [CERTIFY_CASES]).filter(
    (one) => one.lab === lab.id && one.certify !== null && one.skipped === null,
  );
  return { engine, lab: own, cases };
}

/** Null: the program did not answer in time. A null version: its answer has no version. */
async function versionOf(
  bench: Bench,
  { engine, lab }: Patient,
): Promise<{ readonly version: string | null } | null> {
  const place = makePlace(bench, `version-${lab.id}`);
  settle(place, lab, "http://127.0.0.1:9");
  const env = { ...environment(place, lab, "http://127.0.0.1:9"), PWD: place.project };
  // A separate group: its processes end with it, whatever they do to their environment.
  const child = spawn(lab.program, ["--version"], {
    cwd: place.project,
    env,
    stdio: ["ignore", "pipe", "ignore"],
    detached: true,
  });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => {
    if (text.length < VERSION_CHARACTERS) text += chunk.toString();
  });
  const exit = await new Promise<number | "late">((ended) => {
    const timer = setTimeout(() => ended("late"), VERSION_DEADLINE_MS);
    const end = (status: number) => {
      clearTimeout(timer);
      ended(status);
    };
    child.once("error", () => end(1));
    child.once("close", (status) => end(status ?? 1));
    child.once("exit", (status) => setTimeout(() => end(status ?? 1), PIPE_MS));
  });
  child.stdout.destroy();
  endGroup(child.pid);
  await endAll(place.root);
  if (exit === "late") return null;
  return { version: exit === 0 ? engine.version(text) : null };
}

function endGroup(leader: number | undefined): void {
  try {
    if (leader !== undefined) process.kill(-leader, "SIGKILL");
  } catch {
    // The group is empty.
  }
}

function tellSilent(engine: Engine, checks: readonly string[]): void {
  const why = `${engine.id} does not answer --version`;
  const [first = "", ...others] = checks;
  tell({
    type: "check",
    engine: engine.id,
    check: first,
    result: "broke",
    why: `${why} within ${VERSION_DEADLINE_MS / 1000} s`,
    evidence: [`${engine.id} --version`],
    ms: VERSION_DEADLINE_MS,
  });
  for (const check of others) tell({ type: "check", ...notChecked(engine, check, why) });
}

/** Runs the first case alone: if not even a start works, the others show nothing. */
async function examineEngine(bench: Bench, one: Patient): Promise<void> {
  const [first, ...others] = one.cases;
  if (first === undefined) return;
  const end = Date.now() + ENGINE_DEADLINE_MS;
  const seen = { survey: NOTHING_SEEN };
  const opening = await examineCase(bench, one, first, seen);
  tell({ type: "check", ...opening.check });
  const waiting = [...others];
  const skip = ({ certify }: CaseInstance, why: string) =>
    tell({ type: "check", ...notChecked(one.engine, certify ?? "", why) });
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      if (Date.now() > end) skip(next, "no time was left");
      else tell({ type: "check", ...(await examineCase(bench, one, next, seen)).check });
    }
  };
  if (opening.started) await Promise.all(Array.from({ length: JOBS }, worker));
  else for (const other of others) skip(other, "it begins with a start, and that does not work");
  tell({ type: "check", ...understood(one.engine, seen.survey) });
}

function notChecked(engine: Engine, check: string, why: string): Check {
  return { engine: engine.id, check, result: "not checked", why, evidence: [], ms: 0 };
}

function understood(engine: Engine, survey: Survey): Check {
  if (survey.lines === 0) return notChecked(engine, UNDERSTOOD, "it printed no line");
  const why = unknownText(engine, survey);
  const result = why === null ? "passed" : "new";
  return { engine: engine.id, check: UNDERSTOOD, result, why, evidence: [], ms: 0 };
}

/** Adds to the survey. */
async function examineCase(
  bench: Bench,
  { engine, lab }: Patient,
  one: CaseInstance,
  seen: { survey: Survey },
): Promise<{ readonly check: Check; readonly started: boolean }> {
  const folder = join(bench.root, one.id);
  const result = await inTime(runCase(bench, one, lab, { keep: true, record: false, extras: null }), folder);
  const scenes = scenesIn(join(folder, "state", "runs"));
  seen.survey = surveyOf(engine, scenes, seen.survey);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  const common = { engine: engine.id, check: one.certify ?? one.name, ms: result.ms };
  if (result.verdict === "passed")
    return { check: { ...common, result: "passed", why: null, evidence: [] }, started: true };
  const notes = result.notes.map((note) => note.replace(/^step \d+: /, ""));
  const diagnosis = diagnose(engine, { notes, scenes, refusal: refusalIn(result) });
  const started = !result.notes.some((note) => note.startsWith("step 1: "));
  return { check: { ...common, result: "broke", ...diagnosis }, started };
}

type CaseReport = Pick<CaseResult, "verdict" | "notes" | "log" | "ms">;

/** A case that waits forever fails here, and its processes are ended. */
async function inTime(running: Promise<CaseResult>, folder: string): Promise<CaseReport> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<CaseReport>((ended) => {
    timer = setTimeout(() => {
      const notes = [`step 1: never happened within ${CHECK_DEADLINE_MS / 1000} s: the check ended`];
      void endAll(folder).then(() => ended({ verdict: "failed", notes, log: "", ms: CHECK_DEADLINE_MS }));
    }, CHECK_DEADLINE_MS);
  });
  running.catch(() => {});
  return Promise.race([running, late]).finally(() => clearTimeout(timer));
}

/** Reprise's output in place of an attempt. */
function refusalIn({ log }: CaseReport): string | null {
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
  const meta = JSON.parse(headOf(join(folder, "meta.json"), MAX_STDOUT) || "{}") as {
    readonly args?: readonly string[];
    readonly exit?: Exit | null;
    readonly outcome?: Outcome | null;
  };
  return {
    args: meta.args ?? [],
    exit: meta.exit ?? null,
    trouble: meta.outcome?.trouble ?? null,
    stdout: headOf(join(folder, "stdout.log"), MAX_STDOUT),
    stderr: headOf(join(folder, "stderr.log"), MAX_STDERR),
  };
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => !name.startsWith("."));
  } catch {
    return [];
  }
}
