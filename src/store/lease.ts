/** The rules of a lease, the same for every backend: who may take it, and which fence may write (I6). Pure. */
import { Fault } from "../core/faults.ts";
import type { Lease, LeaseAnswer, LeaseOwner } from "./store.ts";

/** What a backend keeps for a key. A released lease stays with its fence, so that fences only grow. */
export interface LeaseState {
  readonly fence: number;
  /** Null: released. */
  readonly owner: LeaseOwner | null;
}

export interface LeaseRequest {
  readonly key: string;
  readonly owner: LeaseOwner;
  readonly isAlive: (owner: LeaseOwner) => boolean;
}

/**
 * The owner's own process is busy too: a second acquire inside one process means two holders.
 * It is never asked for its liveness, since it is the one asking.
 */
export function decideLease(present: LeaseState | undefined, request: LeaseRequest): LeaseAnswer {
  const { key, owner, isAlive } = request;
  const by = present?.owner ?? null;
  if (present !== undefined && by !== null && (isSameProcess(by, owner) || isAlive(by))) {
    return { held: false, by: { key, fence: present.fence, owner: by } };
  }
  const lease: Lease = { key, fence: (present?.fence ?? 0) + 1, owner };
  return { held: true, lease };
}

/** The key of the lease that fenced writes to a run are checked against. */
export function runLeaseKey(runId: string): string {
  return `run:${runId}`;
}

/** A released lease with this fence still counts: nobody else has taken over. */
export function checkFence(lease: LeaseState | undefined, runId: string, fence: number | undefined): void {
  if (fence === undefined || fence === lease?.fence) return;
  const text = `Another process took over run ${runId} in the meantime. Type \`reprise show ${runId.slice(-8)}\`.`;
  throw new Fault("lease_lost", text, { facts: { runId, fence, now: lease?.fence ?? null } });
}

export function unknownRun(runId: string): Fault {
  return new Fault("handle_unknown", `There is no run ${runId}. Type \`reprise list\` to see the runs.`, {
    facts: { runId },
  });
}

function isSameProcess(a: LeaseOwner, b: LeaseOwner): boolean {
  return (
    a.pid === b.pid &&
    a.start === b.start &&
    a.boot === b.boot &&
    a.space === b.space &&
    a.machine === b.machine
  );
}
