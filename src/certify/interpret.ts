/**
 * Runs one case: start, resume, interrupt, tamper, and checks each step. Knows no engine: the lab provides the
 * differences, the case the steps.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { act } from "./acts.ts";
import type { CaseInstance, CaseStep, CaseTalk } from "./case.ts";
import { commandLine } from "./command-line.ts";
import { check, type CheckFacts, isMeantToResume, type Shown, sightOf } from "./checks.ts";
import type { Lab, LabPlace } from "./lab.ts";
import { type ModelServer, startModelServer } from "./model-server/server.ts";
import { interrupt, isKept, messageOf, runDirectory, STEP_DEADLINE_MS } from "./interrupt.ts";
import {
  type Bench,
  commandOf,
  type Ended,
  environment,
  headOf,
  Late,
  makePlace,
  processesOf,
  run,
  settle,
  signal,
  tail,
  until,
  within,
} from "./place.ts";
import type { Extras, Order, LabWorld } from "./world.ts";

const LEFTOVER_DEADLINE_MS = 5_000;
const CLOSED_PORT = 9;
/** Groups whose cases check the copy of the session. */
const THOROUGH: ReadonlySet<string> = new Set(["resume", "stale", "escrow"]);

export interface CaseResult {
  readonly id: string;
  readonly name: string;
  readonly group: string;
  readonly lab: string;
  readonly verdict: "passed" | "failed" | "skipped";
  /** Failures, or why the case does not apply. */
  readonly notes: readonly string[];
  readonly ms: number;
  /** The end of the output of a failed case. */
  readonly log: string;
  readonly requests: number;
  /** Resumes that should have worked, and resumes that did. */
  readonly resumes: { readonly meant: number; readonly worked: number };
}

export interface CaseOptions {
  readonly keep: boolean;
  /** Makes fixtures of the steps that name one. */
  readonly record: boolean;
  readonly extras: Extras | null;
}

export async function runCase(
  bench: Bench,
  one: CaseInstance,
  lab: Lab,
  options: CaseOptions,
): Promise<CaseResult> {
  const began = Date.now();
  const place = makePlace(bench, one.id.replaceAll(/[^\w@-]/g, "_"));
  seedVersions(place, lab);
  await using server = await startModelServer();
  const resumes = { meant: 0, worked: 0 };
  const world: LabWorld = {
    bench,
    place,
    lab,
    server,
    messages: [],
    log: [],
    extras: options.extras,
    resumes,
    thrifty: !THOROUGH.has(one.group),
    shown: null,
    code: null,
    screen: null,
    program: null,
    widened: false,
    rights: {},
    decoy: null,
  };
  const notes: string[] = [];
  for (const [index, step] of one.steps.entries()) {
    const wrong = await runStep(world, step).catch((error: unknown) => [explain(error)]);
    if (isMeantToResume(step, lab)) {
      resumes.meant++;
      if (wrong.length === 0 && world.code === 0) resumes.worked++;
      // If the engine had kept nothing, a refusal is right and not a resume.
      else if (wrong.length === 0) resumes.meant--;
    }
    notes.push(...wrong.map((text) => `step ${index + 1}: ${text}`));
    if (options.record && step.record !== undefined && world.shown !== null)
      extrasOf(world).record(world, step.record);
    if (wrong.length > 0) break;
  }
  notes.push(...(await leftovers(place)));
  keepVersions(place, lab);
  if (!options.keep) await remove(place.root);
  const verdict = notes.length === 0 ? "passed" : "failed";
  const log = verdict === "failed" ? [...world.log, sentTo(server)].join("\n") : "";
  const { id, name, group } = one;
  const counted = { requests: server.requests.length, resumes };
  return { id, name, group, lab: lab.id, verdict, notes, ms: Date.now() - began, log, ...counted };
}

/** Asks for `--version` once per engine, not per case: some engines take as long to start as for a turn. */
const versions = new Map<string, string>();

function keepVersions(place: LabPlace, lab: Lab): void {
  const file = join(place.state, "versions.json");
  if (!versions.has(lab.id) && existsSync(file)) versions.set(lab.id, readFileSync(file, "utf8"));
}

function seedVersions(place: LabPlace, lab: Lab): void {
  const known = versions.get(lab.id);
  if (known === undefined) return;
  mkdirSync(place.state, { mode: 0o700 });
  writeFileSync(join(place.state, "versions.json"), known, { mode: 0o600 });
}

/** A process that is about to end may still write; its files go with the suite's folder. */
async function remove(folder: string): Promise<void> {
  const isGone = () => {
    try {
      rmSync(folder, { recursive: true, force: true });
      return true;
    } catch {
      return false;
    }
  };
  await until("the folder is gone", isGone, LEFTOVER_DEADLINE_MS).catch(() => {});
}

function explain(error: unknown): string {
  if (error instanceof Late) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

function sentTo(server: ModelServer): string {
  return server.requests
    .map(
      (one) =>
        `  model saw ${one.n} ${one.kind} ${one.model} users=${JSON.stringify(one.users).slice(0, 300)} ${one.act} ${one.state}`,
    )
    .join("\n");
}

async function leftovers(place: LabPlace): Promise<readonly string[]> {
  try {
    await until(
      "every process of the case is gone",
      () => processesOf(place.root).length === 0,
      LEFTOVER_DEADLINE_MS,
    );
    return staleSockets(place).map((name) => `a socket was left behind: ${name}`);
  } catch {
    const left = processesOf(place.root);
    const names = left.map((pid) => `${pid} ${commandOf(pid)}`);
    for (const pid of left) signal(pid, "SIGKILL");
    return left.length === 0 ? [] : [`processes were left behind: ${names.join(" | ")}`];
  }
}

/** Of holders and the daemon: the last of each ended in order, and removes its own. */
function staleSockets({ state }: LabPlace): readonly string[] {
  const folder = join(state, "run");
  return existsSync(folder) ? readdirSync(folder).filter((name) => /^(?:d|h-.*)\.sock$/.test(name)) : [];
}

async function runStep(world: LabWorld, step: CaseStep): Promise<readonly string[]> {
  if (step.do !== undefined) {
    await act(world, step.do);
    return [];
  }
  const talk = step.start ?? step.resume;
  if (talk === undefined) throw new Error("a step starts, resumes or does something");
  const firstRequest = world.server.requests.length;
  const sessionBefore = world.shown?.session.value ?? null;
  const persisted = world.messages.filter((one) => isKept(world, one));
  const message = messageOf(world, talk, step.interrupt);
  if (message !== null) world.messages.push(message);
  const env = environmentOf(world, talk);
  world.code = null;
  world.screen = talk.terminal === "ui" ? "" : null;
  const ended = await launch(world, { step, talk, message, env });
  world.code = ended.code;
  world.log.push(`  exit ${ended.code ?? ended.signal}\n${tail(ended.stdout)}\n${tail(ended.stderr)}`);
  world.shown = await show(
    world,
    talk.home === "other" ? environment(world.place, world.lab, world.server.url) : env,
  );
  const turns = world.server.requests.slice(firstRequest).filter(({ kind }) => kind === "turn");
  const looked = {
    screen: world.screen,
    stdoutLog: lastTape(world.shown),
    turnLog: world.lab.turnLog(world.place),
  };
  const [turn] = turns;
  const rights = turn === undefined ? {} : world.lab.rights(sightOf(looked, turn));
  const rightsBefore = world.rights;
  world.rights = { ...rights, ...rightsBefore };
  const facts: CheckFacts = {
    ...looked,
    ended,
    shown: world.shown,
    fault: faultIn(ended),
    sessionBefore,
    turns,
    messages: world.messages,
    persisted,
    pages: talk.human === true ? await extrasOf(world).pages(world, env) : {},
    rightsBefore,
    rights,
    conversations: world.lab.conversations(world.place),
    decoy: world.decoy,
  };
  return check(step, facts, world.lab, world.place);
}

/** Points the engine at the model, or at a closed port. */
function environmentOf(
  { place, lab, server, program, widened }: LabWorld,
  talk: CaseTalk,
): Record<string, string> {
  const url = talk.model === "closed" ? `http://127.0.0.1:${CLOSED_PORT}` : server.url;
  const at = talk.home === "other" ? { ...place, home: place.extra } : place;
  settle(at, program === null ? lab : { ...lab, program }, url);
  if (widened) lab.widen?.(at);
  return environment(at, lab, url);
}

async function launch(world: LabWorld, order: Order): Promise<Ended> {
  const { step } = order;
  const deadline = step.deadlineMs ?? STEP_DEADLINE_MS;
  const { args, stdin } = commandLine(world, order);
  world.log.push(`$ reprise ${args.map((word) => JSON.stringify(word)).join(" ")}`);
  const { talk, env } = order;
  const cwd = world.place[talk.from ?? "project"];
  const running =
    talk.terminal === undefined && talk.human === undefined
      ? run(process.execPath, [world.bench.cli, ...args], { cwd, env, stdin })
      : await extrasOf(world).onTerminal(world, order, args);
  try {
    if (talk.terminal === "ui") await extrasOf(world).useUi(world, order, running);
    else if (step.interrupt !== undefined) await interrupt(world, step.interrupt, running);
    return await within(running.ended, deadline, `\`reprise ${args[0] ?? ""}\` ended`);
  } catch (error) {
    for (const pid of processesOf(world.place.root)) signal(pid, "SIGKILL");
    const { stdout, stderr } = await running.ended;
    world.log.push(tail(stdout), tail(stderr));
    throw error;
  }
}

function extrasOf({ extras }: LabWorld): Extras {
  if (extras === null) throw new Error("this step is for the conformance suite");
  return extras;
}

async function show(world: LabWorld, env: Readonly<Record<string, string>>): Promise<Shown | null> {
  const directory = runDirectory(world);
  if (directory === null) return null;
  const cwd = world.place.root;
  const running = run(process.execPath, [world.bench.cli, "show", "--json", directory.slice(-8)], {
    cwd,
    env,
    stdin: null,
  });
  const { stdout, stderr } = await within(running.ended, STEP_DEADLINE_MS, "`reprise show` ended");
  try {
    return JSON.parse(stdout) as Shown;
  } catch {
    throw new Error(`\`reprise show\` printed no JSON: ${stdout} ${stderr}`);
  }
}

function faultIn({ stdout }: Ended): string | null {
  try {
    const { error } = JSON.parse(stdout) as { error?: { code?: string } };
    return error?.code ?? null;
  } catch {
    return null;
  }
}

const MAX_TAPE = 16 << 20;

function lastTape(shown: Shown | null): string {
  if (shown === null) return "";
  return headOf(join(shown.runDirectory, "attempts", String(shown.attempts), "stdout.log"), MAX_TAPE);
}
