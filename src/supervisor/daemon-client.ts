/**
 * The client of the daemon: finds it, starts it if necessary, replaces a daemon of another version, and calls it.
 *
 * Agents belong to their holders, so they continue while a daemon stops or is replaced.
 */
import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { readOwnText } from "../state/files.ts";
import { assertOwnState } from "../state/identity.ts";
import { daemonLock, runtimeDir } from "../state/runtime.ts";
import { openLog } from "../state/tape.ts";
import { Fault } from "../core/faults.ts";
import { arrayIn, numberIn, parseObject, stringIn } from "../lib/json.ts";
import { detachedEnv } from "../detached/detached.ts";
import { type Connection, connect } from "../ipc/ipc.ts";
import { asUser } from "../process/process.ts";
import type { Deps } from "../run/run.ts";
import type { AgentResumeOptions, AgentResumeResult } from "./agent-resume.ts";
import type { AgentView } from "./snapshot.ts";
import { type ChangedTopic, TOPICS } from "./watchers.ts";

export interface DaemonStatus {
  readonly pid: number;
  readonly sinceMs: number;
  readonly version: string;
  readonly agents: readonly AgentView[];
}

/** The result of a person's request. */
export interface DaemonAnswer {
  readonly done: boolean;
  /** One sentence. */
  readonly why: string;
}

/** The result of a resume. `done`: the agent runs again. */
export type ResumedAgent = DaemonAnswer & AgentResumeResult;

export interface Daemon extends AsyncDisposable {
  readonly pid: number;
  readonly version: string;
  readonly sinceMs: number;
  status(): Promise<DaemonStatus>;
  /**
   * Calls the listener whenever agents, open decisions, open pipelines or runs have changed, at most four times a
   * second. A daemon of an older version refuses.
   */
  watch(changed: (topics: readonly ChangedTopic[]) => void): Promise<void>;
  /** The connection is gone. */
  readonly closed: Promise<void>;
  /** Makes the daemon check this agent now. Null: all agents and pipelines. */
  poke(id: string | null): Promise<void>;
  resume(id: string, options: AgentResumeOptions): Promise<ResumedAgent>;
  stop(id: string): Promise<DaemonAnswer>;
  send(id: string, message: string): Promise<DaemonAnswer>;
  /** Carries out a person's choice, which the caller has stored. */
  resolve(decision: string): Promise<DaemonAnswer>;
  /** Ends the daemon. Resolves when its process has closed the connection. */
  quit(): Promise<void>;
}

const MAX_TOKEN = 1_024;
/** Larger than any daemon log. */
const MAX_LOG = 16 * 1024 * 1024;
const READY_MS = 10_000;
const QUIT_MS = 10_000;
const POLL_MS = 25;
const LOCKED_POLL_MS = 250;
/** Ending an agent or typing a message takes time. */
const ACT_MS = 120_000;
/** The daemon is mostly idle: without the optimizer and with a small nursery it needs less memory. */
const NODE_FLAGS = ["--max-semi-space-size=1", "--no-opt", "--max-lazy", "--optimize-for-size"];

export function daemonPlaces(deps: Deps): {
  readonly socket: string;
  readonly token: string;
  readonly lock: string;
  readonly log: string;
} {
  const directory = runtimeDir(deps.state, deps.env);
  const place = (name: string) => join(directory, name);
  return {
    socket: place("d.sock"),
    token: place("d.token"),
    lock: daemonLock(deps.state),
    log: place("d.log"),
  };
}

/** Null: no daemon runs. */
export async function findDaemon(deps: Deps): Promise<Daemon | null> {
  const places = daemonPlaces(deps);
  // Missing, or not ours, so no daemon would answer us.
  const token = readOwnText(places.token, MAX_TOKEN)?.trim() ?? null;
  const connection = token === null ? null : await connect(places.socket, token);
  return connection === null ? null : daemonAt(connection);
}

/** The daemon of this version; starts it if necessary. `starting` gets a text before each slow step. */
export async function ensureDaemon(
  deps: Deps,
  version: string,
  starting: (text: string) => void = () => {},
): Promise<Daemon> {
  const end = deps.clock.mono() + READY_MS;
  for (;;) {
    const found = await findWhileStarting(deps, end);
    if (found?.version === version) return found;
    if (found === null) {
      assertOwnState(deps);
      starting("starting the daemon");
      return launchDaemon(deps, version, end);
    }
    starting(`replacing the daemon of version ${found.version}; agents continue`);
    await found.quit();
  }
}

/** A daemon that starts at this moment replaces its token, so the old token may be denied for a short time. */
async function findWhileStarting(deps: Deps, end: number): Promise<Daemon | null> {
  for (;;) {
    try {
      return await findDaemon(deps);
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "denied" || deps.clock.mono() >= end) throw error;
      await sleep(POLL_MS);
    }
  }
}

async function launchDaemon(deps: Deps, version: string, end: number): Promise<Daemon> {
  const { log } = daemonPlaces(deps);
  // The daemon could not even log why it does not start.
  if (deps.state.refusal !== null) throw deps.state.refusal;
  let child = spawnDaemon(deps, log);
  for (;;) {
    const found = await findWhileStarting(deps, end);
    if (found?.version === version) return found;
    await found?.[Symbol.asyncDispose]();
    const ended = child.ended();
    // Another daemon has the lock: it will answer soon, or it is about to end.
    if (ended === LOCKED) child = spawnDaemon(deps, log);
    else if (ended === STORAGE) {
      const { root } = deps.state;
      const what = `The daemon did not start: it could not write to ${root}. Find out why: reprise doctor`;
      throw new Fault("storage_failed", what, { facts: { path: root } });
    } else if (ended !== null || deps.clock.mono() >= end) {
      throw new Fault("no_answer", `The daemon did not start. Find out why: reprise daemon logs (${log})`, {
        facts: { path: log },
      });
    }
    await sleep(ended === LOCKED ? LOCKED_POLL_MS : POLL_MS);
  }
}

/** The daemon's exit codes: another daemon runs, and the state directory is not writable. */
const LOCKED = 4;
const STORAGE = 7;

/** `ended`: the exit code. Null: it runs. */
export function spawnDaemon(deps: Deps, log: string): { ended(): number | null } {
  let exit: number | null = null;
  const stderr = openLog(log);
  try {
    const file = fileURLToPath(new URL("daemon.js", import.meta.url));
    const child = asUser(() =>
      spawn(process.execPath, [...NODE_FLAGS, file], {
        cwd: deps.state.root,
        env: detachedEnv(deps.env),
        detached: true,
        stdio: ["ignore", "ignore", stderr],
      }),
    );
    child.once("error", () => (exit = 1));
    child.once("exit", (code) => (exit = code ?? 1));
    child.unref();
  } finally {
    closeSync(stderr);
  }
  return { ended: () => exit };
}

function daemonAt(connection: Connection): Daemon {
  const { hello } = connection;
  const act = async (method: string, params: Readonly<Record<string, unknown>>): Promise<DaemonAnswer> => {
    const answer = await connection.call(method, params, ACT_MS);
    const done = typeof answer === "object" && answer !== null && "done" in answer && answer.done === true;
    return { done, why: stringIn(answer, "why") ?? "" };
  };
  return {
    pid: numberIn(hello, "pid") ?? 0,
    version: stringIn(hello, "version") ?? "unknown",
    sinceMs: numberIn(hello, "sinceMs") ?? 0,
    status: async () => (await connection.call("status")) as DaemonStatus,
    watch: async (changed) => {
      connection.onEvent((event, data) => {
        const topics = event === "changed" ? arrayIn(data, "topics") : [];
        if (topics.length > 0) changed(TOPICS.filter((topic) => topics.includes(topic)));
      });
      await connection.call("watch");
    },
    closed: connection.closed,
    poke: async (id) => void (await connection.call("poke", { id })),
    resume: async (id, options) =>
      (await connection.call("resume", { id, ...options }, ACT_MS)) as ResumedAgent,
    stop: (id) => act("stop", { id }),
    send: (id, message) => act("send", { id, message }),
    resolve: (decision) => act("resolve", { decision }),
    quit: async () => {
      await connection.call("quit");
      const late = sleep(QUIT_MS, "late" as const, { ref: false });
      if ((await Promise.race([connection.closed, late])) === "late")
        throw new Fault(
          "no_answer",
          `The daemon (pid ${numberIn(hello, "pid") ?? 0}) does not stop. Agents continue if you end it: kill ${numberIn(hello, "pid") ?? 0}`,
        );
    },
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}

/** The last lines of the log, oldest first. Lines in another format stay as they are. */
export function readDaemonLog(deps: Deps, lines: number): readonly string[] {
  const { log } = daemonPlaces(deps);
  const text = [`${log}.1`, log].map((path) => readOwnText(path, MAX_LOG) ?? "").join("");
  return text.split("\n").filter(Boolean).slice(-lines).map(formatLogLine);
}

function formatLogLine(line: string): string {
  const entry = parseObject(line);
  if (entry === undefined) return line;
  const { at, pid, level, message, ...facts } = entry;
  const more = Object.entries(facts).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return [at, pid, level, message, ...more].map(String).join(" ");
}
