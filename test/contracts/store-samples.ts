/** Records that the contract cases and the backends' own tests write, and small steps that they share. */
import assert from "node:assert/strict";
import type { AttemptRecord, RunRecord } from "../../src/core/records.ts";
import type { LeaseOwner, NewDocument, NewEvent, Store } from "../../src/store/contract.ts";

/** A case by its name. `store` is empty; `again` opens the same data a second time. */
export type Cases = Readonly<Record<string, (store: Store, again: () => Promise<Store>) => Promise<void>>>;

/** The n-th run of a series, newer than those before it. */
export function runLike(n: number, fields: Partial<RunRecord> = {}): RunRecord {
  const handle = fields.handle ?? n.toString(16).padStart(8, "0");
  const at = new Date(Date.UTC(2026, 0, 1) + n * 1000).toISOString();
  const runId = `${at.replace(/[-:]|\.\d{3}/g, "")}-codex-${handle}`;
  return {
    v: 1,
    handle,
    runId,
    runDirectory: `/state/runs/${runId}`,
    agentName: "codex",
    session: { field: "thread_id", value: null, source: null, verifiedAt: null },
    sessions: [],
    launch: {
      args: ["exec", "--json"],
      given: [],
      redacted: [],
      env: [{ name: "KEY", value: null }],
      rights: [],
      mode: "pipe",
      interactive: false,
      isolate: null,
      escrow: true,
      trustCwd: false,
      program: "/usr/bin/codex",
      version: "0.142.0",
      message: "fix the flaky test",
    },
    cwd: "/home/user/project",
    engineHome: null,
    status: "running",
    attempts: 0,
    subject: null,
    name: null,
    escrow: null,
    createdAt: at,
    updatedAt: at,
    ...fields,
  };
}

export function attemptLike(run: RunRecord, n: number, fields: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    v: 1,
    runId: run.runId,
    n,
    kind: n === 1 ? "start" : "resume",
    state: "intended",
    mode: "pipe",
    interactive: false,
    program: "/usr/bin/codex",
    args: ["exec", "--json"],
    native: [],
    cwd: run.cwd,
    message: "go on",
    owner: { pid: 10, start: "100", boot: "b", space: "s" },
    agent: null,
    asked: null,
    reported: [],
    engineVersion: null,
    startedAt: run.createdAt,
    endedAt: null,
    exit: null,
    outcome: null,
    tokens: null,
    bytes: { stdout: 0, stderr: 0 },
    diagnostics: [],
    ...fields,
  };
}

export function ownerLike(pid: number, fields: Partial<LeaseOwner> = {}): LeaseOwner {
  return { pid, start: "100", boot: "b", space: "s", machine: "m", renewedAtMs: 1, ...fields };
}

export function eventLike(fields: Partial<NewEvent> = {}): NewEvent {
  const at = "2026-01-01T00:00:00.000Z";
  return {
    runId: runLike(1).runId,
    attempt: 1,
    kind: "decided",
    at,
    key: null,
    payload: { n: 1 },
    ...fields,
  };
}

export function documentLike(fields: Partial<NewDocument> = {}): NewDocument {
  return { kind: "agent", id: "00000001", open: true, data: { v: 1, phase: "active" }, ...fields };
}

export const alive = () => true;
export const dead = () => false;
export const refused = (code: string) => (error: unknown) =>
  error instanceof Error && "code" in error && error.code === code;

/** Takes the run's lease and gives its fence. */
export async function hold(store: Store, run: RunRecord, pid = 1): Promise<number> {
  const answer = await store.acquireLease(`run:${run.runId}`, ownerLike(pid), dead);
  assert(answer.held);
  return answer.lease.fence;
}

export async function fill(store: Store, runs: readonly RunRecord[]): Promise<void> {
  for (const run of runs) assert.equal(await store.createRun(run), "created");
}

/** Text that breaks what escapes it carelessly. */
export const NASTY = "päth \u{1f600} \u0000 \u0001 \u001b[31m \n \r\n \u2028 \" ' \\ \ud800 ' OR 1=1 --";
