/** A store in memory for tests: the same verbs and answers as the SQLite one. It passes the same contract. */
import { withLaterLabel } from "../../src/core/label.ts";
import { limitOf, type RunLimit } from "../../src/core/limit.ts";
import type { AttemptRecord, RunRecord, RunStatus } from "../../src/core/records.ts";
import { sumTokens } from "../../src/core/tokens.ts";
import { checkFence, decideLease, runLeaseKey, unknownRun, type LeaseState } from "../../src/store/lease.ts";
import type { Document, RunFilter, Store, StoredEvent } from "../../src/store/store.ts";

interface Memory {
  readonly runs: Map<string, RunRecord>;
  /** By run id, then by attempt number. */
  readonly attempts: Map<string, Map<number, AttemptRecord>>;
  readonly leases: Map<string, LeaseState>;
  readonly events: StoredEvent[];
  readonly documents: Document[];
  generation: number;
}

/** Keeps everything in this process and forgets it with the process. */
export function memoryStore(): Store {
  const memory: Memory = {
    runs: new Map(),
    attempts: new Map(),
    leases: new Map(),
    events: [],
    documents: [],
    generation: 0,
  };
  return {
    ...runVerbs(memory),
    ...attemptVerbs(memory),
    ...leaseVerbs(memory),
    ...eventVerbs(memory),
    ...documentVerbs(memory),
    async generation() {
      return memory.generation;
    },
    async raiseGeneration(to) {
      memory.generation = Math.max(memory.generation, to);
    },
    repairing: (work) => work(),
    async verify() {
      return [];
    },
    async about() {
      return { backend: "memory", version: "1", schema: 1, path: null, journal: null, note: null };
    },
    async [Symbol.asyncDispose]() {},
  };
}

type RunVerb =
  | "createRun"
  | "getRun"
  | "findByHandle"
  | "listRuns"
  | "countRuns"
  | "listNames"
  | "unknownRuns"
  | "saveRun"
  | "labelRun"
  | "deleteRun";

function runVerbs(memory: Memory): Pick<Store, RunVerb> {
  const { runs, attempts, leases } = memory;
  const newestFirst = () =>
    [...runs.values()].sort((a, b) => compare(b.createdAt, a.createdAt) || compare(b.runId, a.runId));
  return {
    async createRun(run) {
      if ([...runs.values()].some(({ handle, runId }) => handle === run.handle || runId === run.runId)) {
        return "handle_taken";
      }
      runs.set(run.runId, copy(run));
      memory.generation += 1;
      return "created";
    },
    async getRun(runId) {
      return copy(runs.get(runId) ?? null);
    },
    async findByHandle(prefix) {
      return copy(
        newestFirst()
          .filter(({ handle }) => handle.startsWith(prefix))
          .slice(0, 20),
      );
    },
    async listRuns(filter) {
      const fitting = sorted(memory, newestFirst(), filter.sort).filter(
        (run) => fits(run, filter) && (filter.limited !== true || isLimited(memory, run)),
      );
      return copy(
        fitting
          .filter((run) => follows(run, filter.after, filter.sort) && filter.matches?.(copy(run)) !== false)
          .slice(0, filter.limit ?? 50),
      );
    },
    async countRuns(filter) {
      const counts: Partial<Record<RunStatus, number>> = {};
      for (const run of runs.values())
        if (fits(run, filter) && (filter.limited !== true || isLimited(memory, run)))
          counts[run.status] = (counts[run.status] ?? 0) + 1;
      return counts;
    },
    async listNames() {
      return [...new Set([...runs.values()].flatMap(({ name }) => name ?? []))].toSorted(compare);
    },
    async unknownRuns(runIds) {
      return runIds.filter((runId) => !runs.has(runId));
    },
    async saveRun(run, fence) {
      checkFence(leases.get(runLeaseKey(run.runId)), run.runId, fence);
      const before = runs.get(run.runId);
      if (before === undefined) throw unknownRun(run.runId);
      runs.set(run.runId, copy(withLaterLabel(run, before)));
    },
    async labelRun(runId, label) {
      const run = runs.get(runId);
      if (run === undefined) throw unknownRun(runId);
      runs.set(runId, copy(withLaterLabel(run, label)));
    },
    async deleteRun(runId) {
      runs.delete(runId);
      attempts.delete(runId);
      leases.delete(runLeaseKey(runId));
      memory.generation += 1;
    },
  };
}

function follows(run: RunRecord, after: RunFilter["after"], sort: RunFilter["sort"]): boolean {
  if (after === undefined) return true;
  if (sort === "updated" && after.updatedAt !== undefined)
    return (compare(run.updatedAt, after.updatedAt) || compare(run.runId, after.runId)) < 0;
  return (compare(run.createdAt, after.createdAt) || compare(run.runId, after.runId)) < 0;
}

function lastLimit({ attempts }: Memory, runId: string): RunLimit | null {
  const all = [...(attempts.get(runId)?.values() ?? [])].sort((a, b) => a.n - b.n);
  return limitOf(all.at(-1));
}

function isLimited(memory: Memory, { runId, status }: RunRecord): boolean {
  return status !== "running" && lastLimit(memory, runId) !== null;
}

type AttemptVerb =
  | "createAttempt"
  | "saveAttempt"
  | "listAttempts"
  | "attemptsSince"
  | "limitsOf"
  | "tokensOf";

function attemptVerbs(memory: Memory): Pick<Store, AttemptVerb> {
  const { runs, attempts, leases } = memory;
  function attemptsOf(runId: string): Map<number, AttemptRecord> {
    const found = attempts.get(runId) ?? new Map<number, AttemptRecord>();
    attempts.set(runId, found);
    return found;
  }
  return {
    async createAttempt(attempt, fence) {
      checkFence(leases.get(runLeaseKey(attempt.runId)), attempt.runId, fence);
      const run = runs.get(attempt.runId);
      if (run === undefined) throw unknownRun(attempt.runId);
      const mine = attemptsOf(attempt.runId);
      if (mine.has(attempt.n)) return false;
      mine.set(attempt.n, copy(attempt));
      runs.set(run.runId, { ...run, attempts: attempt.n, status: "running" });
      memory.generation += 1;
      return true;
    },
    async saveAttempt(attempt, fence) {
      checkFence(leases.get(runLeaseKey(attempt.runId)), attempt.runId, fence);
      if (!runs.has(attempt.runId)) throw unknownRun(attempt.runId);
      attemptsOf(attempt.runId).set(attempt.n, copy(attempt));
    },
    async limitsOf(runIds) {
      return new Map(
        runIds.flatMap((runId) => {
          const limit = lastLimit(memory, runId);
          return limit === null ? [] : [[runId, limit] as const];
        }),
      );
    },
    async tokensOf(runIds) {
      return new Map(
        runIds.flatMap((runId) => {
          const used = [...(attempts.get(runId)?.values() ?? [])].flatMap(({ tokens }) => tokens ?? []);
          const [first, ...more] = used.map(({ input, output, costUsd }) =>
            costUsd === undefined ? { input, output } : { input, output, costUsd },
          );
          return first === undefined ? [] : [[runId, more.reduce(sumTokens, first)] as const];
        }),
      );
    },
    async attemptsSince(startedAt) {
      const oldestFirst = [...runs.values()].sort(
        (a, b) => compare(a.createdAt, b.createdAt) || compare(a.runId, b.runId),
      );
      const all = oldestFirst.flatMap(({ runId, handle, agentName }) =>
        [...(attempts.get(runId)?.values() ?? [])]
          .sort((a, b) => a.n - b.n)
          .map((attempt) => ({ handle, agentName, attempt })),
      );
      return copy(all.filter(({ attempt }) => attempt.startedAt >= startedAt));
    },
    async listAttempts(runId) {
      return copy([...(attempts.get(runId)?.values() ?? [])].sort((a, b) => a.n - b.n));
    },
  };
}

type LeaseVerb = "acquireLease" | "releaseLease" | "renewLease" | "getLease" | "listLeases";

function leaseVerbs({ leases }: Memory): Pick<Store, LeaseVerb> {
  return {
    async acquireLease(key, owner, isAlive) {
      const answer = decideLease(leases.get(key), { key, owner, isAlive });
      if (answer.held) leases.set(key, copy({ fence: answer.lease.fence, owner }));
      return copy(answer);
    },
    async releaseLease(key, fence) {
      if (leases.get(key)?.fence === fence) leases.set(key, { fence, owner: null });
    },
    async renewLease(key, fence, atMs) {
      const lease = leases.get(key);
      if (lease?.fence !== fence || lease.owner === null) return false;
      leases.set(key, { fence, owner: { ...lease.owner, renewedAtMs: atMs } });
      return true;
    },
    async getLease(key) {
      const lease = leases.get(key);
      return lease === undefined || lease.owner === null
        ? null
        : copy({ key, fence: lease.fence, owner: lease.owner });
    },
    async listLeases() {
      return copy(
        [...leases].flatMap(([key, { fence, owner }]) => (owner === null ? [] : { key, fence, owner })),
      );
    },
  };
}

function eventVerbs(memory: Memory): Pick<Store, "appendEvent" | "listEvents"> {
  const { events } = memory;
  return {
    async appendEvent(event) {
      if (event.key !== null && events.some(({ key }) => key === event.key)) return null;
      events.push({ ...copy(event), seq: events.length + 1 });
      memory.generation += 1;
      return events.length;
    },
    async listEvents(runId, afterSeq = 0) {
      return copy(events.filter((event) => event.runId === runId && event.seq > afterSeq));
    },
  };
}

type DocumentVerb = "saveDocument" | "getDocument" | "deleteDocument" | "listDocuments";

function documentVerbs(memory: Memory): Pick<Store, DocumentVerb> {
  const { documents } = memory;
  const placeOf = (kind: string, id: string) =>
    documents.findIndex((document) => document.kind === kind && document.id === id);
  return {
    async saveDocument({ kind, id, open, data }, expected) {
      const at = placeOf(kind, id);
      if ((documents[at]?.version ?? null) !== expected) return null;
      const version = (expected ?? 0) + 1;
      documents[at === -1 ? documents.length : at] = copy({ kind, id, open, data, version });
      memory.generation += 1;
      return version;
    },
    async getDocument(kind, id) {
      return copy(documents[placeOf(kind, id)] ?? null);
    },
    async deleteDocument(kind, id) {
      const at = placeOf(kind, id);
      if (at === -1) return;
      documents.splice(at, 1);
      memory.generation += 1;
    },
    async listDocuments(kind, { open } = {}) {
      const fitting = documents.filter(
        (document) => document.kind === kind && (open === undefined || document.open === open),
      );
      return copy(fitting);
    },
  };
}

function sorted(memory: Memory, newestFirst: readonly RunRecord[], sort: RunFilter["sort"]): RunRecord[] {
  if (sort === undefined || sort === "created") return [...newestFirst];
  const recent = newestFirst.toSorted(
    (a, b) => compare(b.updatedAt, a.updatedAt) || compare(b.runId, a.runId),
  );
  if (sort === "updated") return recent;
  const amount = ({ runId }: RunRecord) =>
    [...(memory.attempts.get(runId)?.values() ?? [])]
      .map(({ tokens, startedAt, endedAt }) =>
        sort === "tokens"
          ? (tokens?.input ?? 0) + (tokens?.output ?? 0)
          : (endedAt === null ? Date.now() : Date.parse(endedAt)) - Date.parse(startedAt),
      )
      .reduce((sum, one) => sum + one, 0);
  return recent.toSorted((a, b) => amount(b) - amount(a));
}

function fits(run: RunRecord, filter: RunFilter): boolean {
  const { engine, status, cwd, cwds, below, subject, name, tags = [], mentions, updatedBefore } = filter;
  return (
    (engine === undefined || run.agentName === engine) &&
    (status === undefined || run.status === status) &&
    (cwd === undefined || run.cwd === cwd) &&
    (cwds === undefined || cwds.includes(run.cwd)) &&
    tags.every((tag) => run.tags?.includes(tag) === true) &&
    (mentions === undefined || JSON.stringify(run).toLowerCase().includes(mentions.toLowerCase())) &&
    (below === undefined || run.cwd.startsWith(`${below}/`)) &&
    (subject === undefined || run.subject === subject) &&
    (name === undefined || run.name === name) &&
    (updatedBefore === undefined || run.updatedAt < updatedBefore)
  );
}

/** By JSON, as a database would keep it: no two callers share an object, and what JSON drops is dropped. */
function copy<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
