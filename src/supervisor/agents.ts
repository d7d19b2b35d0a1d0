/**
 * Supervised agents in the store: their documents, their ends, and their first start.
 *
 * A document changes by compare-and-set. Reprise writes it, with the run id, before it starts the agent: after a crash in
 * between, the next daemon starts that agent, and never a second one.
 */
import { isDirectory } from "../state/places.ts";
import { readAgentFile, saveAgentFile, storableAgent } from "../state/runs.ts";
import { Fault } from "../core/faults.ts";
import { makeRunId } from "../core/ids.ts";
import type { AgentDefinition, RunbookSource } from "../core/runbook.ts";
import type { AgentPhase, AgentRecord } from "../core/supervision.ts";
import { type HoldRequest, launchHolder } from "../detached/detached.ts";
import { assertReachable, type Deps, type Limits, stopRun } from "../run/run.ts";
import { forgetAgent, removeRun, type Trashed } from "../run/clean.ts";
import { selectRun } from "../run/select.ts";
import type { Document } from "../store/store.ts";
import { runOf } from "./snapshot.ts";
import { startCommand } from "./pipelines.ts";
import { argsOf, lacksOptions, redactorOf, refuseSecretAgent } from "./secrets.ts";
import { selectOne } from "./selection.ts";

/** A record, and the version that a change must be based on. */
export interface StoredAgent {
  readonly record: AgentRecord;
  readonly version: number;
}

/** How long a headless agent may be silent before Reprise ends its attempt. */
const IDLE_LIMIT_MS = 15 * 60_000;

export async function getAgent(deps: Deps, id: string): Promise<StoredAgent | null> {
  const document = await deps.store.getDocument("agent", id);
  return document === null ? null : readAgent(document);
}

/** Oldest first. */
export async function listAgents(
  deps: Deps,
  filter: { readonly open?: boolean } = {},
): Promise<readonly StoredAgent[]> {
  return (await deps.store.listDocuments("agent", filter)).map(readAgent);
}

function readAgent(document: Document): StoredAgent {
  // Only Reprise writes documents, with a checksum; `agent.json` is checked where it is read.
  return { record: document.data as unknown as AgentRecord, version: document.version };
}

/** `given`: a handle, a unique prefix of 4 to 7 characters, or the id of the agent's run. */
export async function selectAgent(deps: Deps, given: string): Promise<StoredAgent> {
  return selectOne("agent", given, await listAgents(deps));
}

/**
 * Removes an ended agent with its run and its decisions. Returns the trash with its worktree, null: it had none. Throws
 * `run_busy` for an active agent or a live process.
 */
export async function removeAgent(deps: Deps, { record }: StoredAgent): Promise<Trashed | null> {
  const { id, runId, phase } = record;
  if (phase === "active")
    throw new Fault("run_busy", `Agent ${id} has not ended. End it first: reprise agent stop ${id}`, {
      facts: { handle: id },
    });
  const run = await runOf(deps, record);
  if (run !== null) return removeRun(deps, run, { discardWork: false });
  await forgetAgent(deps, { handle: id, runId });
  return null;
}

/** The changed record. Null: the agent had already ended. */
export async function endAgent(
  deps: Deps,
  id: string,
  phase: Exclude<AgentPhase, "active">,
  reason: string,
): Promise<AgentRecord | null> {
  for (;;) {
    const found = await getAgent(deps, id);
    if (found === null || found.record.phase !== "active") return null;
    const endedAt = new Date(deps.clock.now()).toISOString();
    const why = redactorOf(deps, found.record.definition)(reason).slice(0, 1_000);
    const record: AgentRecord = { ...found.record, phase, reason: why, endedAt };
    if ((await save(deps, record, found.version)) === null) continue;
    writeAgentFile(deps, record);
    return record;
  }
}

/** Makes an ended agent active again. Null: another process changed it first. */
export async function reopenAgent(deps: Deps, found: StoredAgent): Promise<StoredAgent | null> {
  if (found.record.phase === "active") return found;
  const record: AgentRecord = { ...found.record, phase: "active", reason: null, endedAt: null };
  const version = await save(deps, record, found.version);
  if (version === null) return null;
  writeAgentFile(deps, record);
  return { record, version };
}

async function save(deps: Deps, record: AgentRecord, expected: number | null): Promise<number | null> {
  const data = { ...storableAgent(record) };
  return deps.store.saveDocument(
    { kind: "agent", id: record.id, open: record.phase === "active", data },
    expected,
  );
}

/** `agent.json` follows the document. If it is missing, the next check of the agent writes it. */
function writeAgentFile(deps: Deps, record: AgentRecord): void {
  const directory = directoryOf(deps, record);
  if (!isDirectory(directory)) return;
  try {
    saveAgentFile(directory, record);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`Reprise could not write agent.json of agent ${record.id}: ${error.message}`);
  }
}

/** Writes an `agent.json` that is missing after a crash. Leaves a damaged file as it is (I9). */
export async function restoreAgentFile(deps: Deps, record: AgentRecord): Promise<void> {
  const directory = directoryOf(deps, record);
  try {
    if (isDirectory(directory) && (await readAgentFile(directory)) === null) writeAgentFile(deps, record);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(error.message);
  }
}

function directoryOf(deps: Deps, record: AgentRecord): string {
  return `${deps.state.runsRoot}/${record.runId}`;
}

export interface StartOptions {
  readonly vars: Readonly<Record<string, string>>;
  readonly pipeline: AgentRecord["pipeline"];
  readonly trustCwd?: boolean;
}

/** Records the agent and starts its first attempt. If the start is refused, ends the record and throws the Fault. */
export async function startAgent(
  deps: Deps,
  definition: AgentDefinition,
  source: RunbookSource,
  options: StartOptions,
): Promise<AgentRecord> {
  assertName(definition.name);
  refuseSecretAgent(deps, definition);
  const id = await freeHandle(deps);
  const record: AgentRecord = {
    v: 1,
    id,
    runId: makeRunId(deps.clock.now(), definition.engine, id),
    definition,
    runbook: source,
    vars: options.vars,
    ...(options.trustCwd === true ? { trustCwd: true } : {}),
    phase: "active",
    reason: null,
    pipeline: options.pipeline,
    createdAt: new Date(deps.clock.now()).toISOString(),
    endedAt: null,
  };
  await using _starting = await acquireStart(deps, id);
  const known = { ...record, definition: { ...definition, args: argsOf(deps, definition).args } };
  const stored = storableAgent(known, redactorOf(deps, definition));
  if ((await save(deps, stored, null)) === null)
    throw new Fault("run_busy", `The handle ${id} is already in use. Run the command again.`, {
      facts: { id },
    });
  await launchFirst(deps, record, stored);
  return stored;
}

/**
 * Starts an agent whose record has no run, because the process that recorded it died. False: that process still lives,
 * or another one started the agent first.
 */
export async function finishStart(deps: Deps, record: AgentRecord): Promise<boolean> {
  const hold = await tryAcquireStart(deps, record.id);
  if (hold === null) return false;
  try {
    if ((await deps.store.getRun(record.runId)) !== null || !(await isActive(deps, record))) return false;
    if (lacksOptions(record.definition)) {
      const why = `it never started, and an option contained a secret, which Reprise does not store. Start it again: ${await startCommand(deps, record)}`;
      await endAgent(deps, record.id, "failed", why);
      return false;
    }
    await launchFirst(deps, record, record);
    return true;
  } finally {
    await hold[Symbol.asyncDispose]();
  }
}

/** `record` has the secret variables; `stored` has none. */
async function launchFirst(deps: Deps, record: AgentRecord, stored: AgentRecord): Promise<void> {
  try {
    await launchHolder(deps, startRequest(deps, record));
  } catch (error) {
    // Another process may have the run, because it starts the agent at the same time.
    if (error instanceof Fault && error.code !== "run_busy" && error.code !== "session_busy")
      await endAgent(deps, record.id, "failed", `it did not start: ${error.message}`);
    throw error;
  }
  writeAgentFile(deps, stored);
  await endIfStopped(deps, record);
}

function startRequest(deps: Deps, { definition, runId, trustCwd }: AgentRecord): HoldRequest {
  return {
    do: "start",
    request: {
      ...agentAttemptOptions(deps, definition),
      engine: definition.engine,
      message: definition.prompt,
      native: definition.args,
      env: definition.env,
      cwd: definition.cwd,
      cwdGiven: true,
      isolate: null,
      runDir: null,
      name: null,
      subject: `agent:${definition.name}`,
      trustCwd: trustCwd === true,
      escrow: true,
      runId,
      ...(definition.mode === "interactive" ? { ui: true } : {}),
    },
  };
}

/** Time limits and terminal of every attempt of an agent. */
export function agentAttemptOptions(
  deps: Deps,
  definition: AgentDefinition,
): { readonly mode: "auto"; readonly limits: Limits; readonly terminal: null } {
  const { idleTimeoutMs, toolTimeoutMs, timeoutMs } = deps.config;
  return {
    mode: "auto",
    limits: {
      idleMs:
        definition.mode === "interactive"
          ? null
          : idleTimeoutMs === undefined
            ? IDLE_LIMIT_MS
            : idleTimeoutMs,
      toolMs: toolTimeoutMs ?? null,
      totalMs: timeoutMs ?? null,
    },
    terminal: null,
  };
}

/**
 * Ends the supervision, then the agent. False: it had already ended. Changes nothing if no signal can reach the agent's
 * process, which would continue unsupervised.
 */
export async function stopAgent(deps: Deps, id: string, reason = "stopped by the user"): Promise<boolean> {
  const found = await getAgent(deps, id);
  if (found?.record.phase === "active")
    await assertReachable(deps, { handle: id, runId: found.record.runId });
  const ended = await endAgent(deps, id, "stopped", reason);
  // An earlier stop may have died before it ended the process.
  const record = ended ?? (await getAgent(deps, id))?.record;
  // An interrupted run may have left processes that no owner ends.
  if (record?.phase === "stopped" && (await deps.store.getRun(record.runId)) !== null)
    await stopRun(deps, record.runId, (text) => deps.log.info(text));
  return ended !== null;
}

/**
 * Ends the process of an agent, if it runs. SIGTERM ends only the process: the attempt is interrupted, and the runbook
 * decides what follows.
 */
export async function endRun(
  deps: Deps,
  { runId }: AgentRecord,
  signal: "SIGINT" | "SIGTERM" = "SIGINT",
): Promise<void> {
  if ((await deps.store.getRun(runId)) === null) return;
  const run = await selectRun(deps, runId);
  if (run.status === "running") await stopRun(deps, runId, (text) => deps.log.info(text), { signal });
}

export async function isActive(deps: Deps, { id }: AgentRecord): Promise<boolean> {
  return (await getAgent(deps, id))?.record.phase === "active";
}

/** A person may have stopped the agent while its process started. */
export async function endIfStopped(deps: Deps, agent: AgentRecord): Promise<void> {
  if (!(await isActive(deps, agent))) await endRun(deps, agent);
}

/**
 * Ends live processes of stopped agents, which remain if the stopping process died. Leaves alone an attempt that a
 * person started by hand after the stop.
 */
export async function finishStops(deps: Deps): Promise<void> {
  for (const run of await deps.store.listRuns({ status: "running", limit: Number.POSITIVE_INFINITY })) {
    const record = (await getAgent(deps, run.handle))?.record;
    if (record?.runId !== run.runId || record.phase !== "stopped" || record.endedAt === null) continue;
    const begun = (await deps.store.listAttempts(run.runId)).at(-1)?.startedAt;
    if (begun !== undefined && begun <= record.endedAt) await endRun(deps, record);
  }
}

function assertName(name: string): void {
  if (/^[a-z0-9][a-z0-9-]{0,63}$/.test(name)) return;
  throw new Fault(
    "usage",
    `${JSON.stringify(name.slice(0, 80))} is not a valid agent name. Use lower-case letters, digits and -, at most 64, with a letter or digit first.`,
    { facts: { given: name.slice(0, 80) } },
  );
}

async function freeHandle(deps: Deps): Promise<string> {
  for (;;) {
    const handle = deps.newHandle();
    const taken = await deps.store.findByHandle(handle);
    if (taken.length === 0 && (await deps.store.getDocument("agent", handle)) === null) return handle;
  }
}

/** Takes the start lease, so that no daemon starts the agent at the same time. */
async function acquireStart(deps: Deps, id: string): Promise<AsyncDisposable> {
  const hold = await tryAcquireStart(deps, id);
  if (hold === null)
    throw new Fault(
      "run_busy",
      `Another process is starting agent ${id}. Look at it: reprise agent show ${id}`,
    );
  return hold;
}

async function tryAcquireStart(deps: Deps, id: string): Promise<AsyncDisposable | null> {
  const key = `agent:${id}`;
  const owner = { ...deps.processes.owner(), machine: deps.machine, renewedAtMs: deps.clock.now() };
  const answer = await deps.store.acquireLease(key, owner, (other) => deps.processes.isAlive(other));
  if (!answer.held) return null;
  return { [Symbol.asyncDispose]: () => deps.store.releaseLease(key, answer.lease.fence) };
}
