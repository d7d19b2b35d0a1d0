/** The rules of a lease for every backend: who may take it, and which fence may write (I6). Pure. */
import type { OwnerState } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { Life, ProcessIdentity } from "../core/records.ts";
import { fieldIn, numberIn, objectIn, stringIn } from "../lib/json.ts";
import type { Lease, LeaseAnswer, LeaseOwner, Lives } from "./contract.ts";

/** A backend's state of a key. A released lease keeps its fence, so that fences only grow. */
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
 * The owner's own process also counts as busy: a second acquire inside one process means two holders. Its liveness
 * needs no check, since it is the caller.
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

/** What this process can observe of an owner. */
export interface OwnerSight {
  readonly self: ProcessIdentity;
  readonly machine: string;
  /** Whether it is in the process table with the same start time. */
  readonly isListed: (owner: ProcessIdentity) => boolean;
  readonly lives: Pick<Lives, "look" | "shared">;
  /** Whether anything proves that this boot still runs. */
  readonly runs: (boot: string) => boolean;
}

/**
 * Whether the owner is gone. Only the kernel decides, never a clock. A held lock proves a life, wherever it is. If the process
 * table shows the owner, the table decides. On a disk that only one machine can have, processes of another boot are
 * gone, unless that boot is seen to run: a container may have another boot id. On a disk that several machines may
 * share, the owner stays in doubt.
 */
export function judgeOwner(
  owner: ProcessIdentity & { readonly machine?: string },
  sight: OwnerSight,
): OwnerState {
  const { self, lives } = sight;
  const { life } = owner;
  const seen = life === undefined ? "unknown" : lives.look(life);
  if (seen === "held") return "lives";
  if (owner.boot === self.boot) {
    if (owner.space === self.space) return sight.isListed(owner) ? "lives" : "gone";
    return seen === "free" ? "gone" : "doubt";
  }
  // An owner without a life is from an older version, and only the machine's name shows whether this is a reboot.
  const isOther = life?.shared ?? (owner.machine !== undefined && owner.machine !== sight.machine);
  if (isOther || lives.shared) return "doubt";
  return seen !== "free" && sight.runs(owner.boot) ? "doubt" : "gone";
}

/** A recorded process identity. Null: not an identity. */
export function identityIn(record: unknown): ProcessIdentity | null {
  const pid = numberIn(record, "pid");
  const [start, boot, space] = ["start", "boot", "space"].map((key) => stringIn(record, key));
  if (pid === undefined || start === undefined || boot === undefined || space === undefined) return null;
  const life = lifeIn(objectIn(record, "life"));
  return { pid, start, boot, space, ...(life === null ? {} : { life }) };
}

function lifeIn(record: unknown): Life | null {
  const [file, inode, shared] = [
    stringIn(record, "file"),
    numberIn(record, "inode"),
    fieldIn(record, "shared"),
  ];
  return file === undefined || inode === undefined || typeof shared !== "boolean"
    ? null
    : { file, inode, shared };
}

/** The key of the lease that fenced writes to a run are checked against. */
export function runLeaseKey(runId: string): string {
  return `run:${runId}`;
}

/** A released lease with this fence still counts: no other process has taken over. */
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
