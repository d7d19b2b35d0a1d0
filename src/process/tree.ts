/**
 * Ends an agent with everything it started: its group and session, even after its own end; its descendants; and strays
 * that left all three but carry the marker in their environment. Checks the identity before every signal.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isErrno } from "../core/errno.ts";
import type { Stray } from "../core/deps.ts";
import type { ProcessIdentity } from "../core/records.ts";
import { findVariables, hasVariable, identityOf, isAlive, membersOf, processTable } from "./identity.ts";
import type { ProcessEntry } from "./ps.ts";

/** The variable in every agent's environment that holds its attempt's marker. */
export const MARKER_VARIABLE = "REPRISE_ATTEMPT";

/** How long the agent may take to obey SIGINT, and then SIGTERM. */
export interface EndingTimes {
  readonly interruptMs: number;
  readonly terminateMs: number;
}

export type EndingStep = "interrupt" | "terminate" | "kill";

/** How long the kernel may take to carry out SIGKILL; a process in uninterruptible sleep takes longer. */
const KILL_MS = 3000;

/** Ends an agent that has received no signal yet. An empty marker matches no process. */
export async function endTree(
  root: ProcessIdentity | null,
  marker: string,
  ladder: EndingTimes,
  from?: EndingStep,
): Promise<{ readonly survivors: readonly number[] }> {
  return new AgentProcesses(root, marker).end(ladder, from);
}

/** False: the pid no longer belongs to that process, or we may not signal it. Nothing was sent. */
export function signal(id: ProcessIdentity, name: NodeJS.Signals): boolean {
  if (id.pid <= 1 || id.pid === process.pid || !isAlive(id)) return false;
  try {
    return process.kill(id.pid, name);
  } catch {
    // The process ended meanwhile, or runs as another user.
    return false;
  }
}

/** Live processes whose environment has this marker, except this process. */
export function findMarked(marker: string): readonly ProcessIdentity[] {
  return lookAround(marker).marked.map(identityOf);
}

/** Live leftovers of an agent with this marker; its pid may be gone. Null: its pid is unknown. */
export function findStrays(marker: string, agent: ProcessIdentity | null): readonly Stray[] {
  return new AgentProcesses(agent, marker).strays();
}

/** Live processes whose marker has this prefix, except this process, with the rest of the marker. */
export function findMarkedBy(
  beginning: string,
): readonly { readonly identity: ProcessIdentity; readonly rest: string }[] {
  const assignment = `${MARKER_VARIABLE}=${beginning}`;
  return findVariables(assignment)
    .filter(({ entry }) => mayBeSignalled(entry))
    .map(({ entry, word }) => ({ identity: identityOf(entry), rest: word.slice(assignment.length) }));
}

interface Member {
  readonly identity: ProcessIdentity;
  readonly entry: ProcessEntry;
}

/** Every process ever seen as part of the agent. Members are identities, so a reused pid is not a member. */
export class AgentProcesses {
  readonly #root: ProcessIdentity | null;
  readonly #marker: string;
  readonly #members = new Map<number, Member>();
  /** Found by the last scan, never signalled. */
  #doubtful: readonly ProcessEntry[] = [];

  constructor(root: ProcessIdentity | null, marker: string) {
    this.#root = root;
    this.#marker = marker;
  }

  /**
   * Asks the agent's group to stop, as Ctrl-C on a terminal does. Does not wait or force. Returns the processes of
   * other users, which it may not signal.
   */
  interrupt(): readonly number[] {
    // Snapshot the members before signalling: descendants show only while their parents live.
    const members = this.#alive();
    signalAll(
      members.filter((member) => member.entry.group === this.#root?.pid),
      "SIGINT",
    );
    return members.filter(({ identity }) => isDenied(identity)).map(({ identity }) => identity.pid);
  }

  /**
   * Climbs from `from` to SIGKILL, and stops as soon as no member is left. SIGINT goes only to the agent's group, as
   * from a terminal; the other signals go to all members.
   */
  async end(
    ladder: EndingTimes,
    from: EndingStep = "interrupt",
  ): Promise<{ readonly survivors: readonly number[] }> {
    this.#alive();
    if (from === "interrupt" && this.#root !== null && isAlive(this.#root)) {
      this.interrupt();
      // Leftovers need no gentle interrupt, and a process that we may not signal is not worth waiting for.
      if (!isDenied(this.#root)) await untilDead([this.#root], ladder.interruptMs);
    }
    if (from !== "kill") await untilDead(signalAll(this.#alive(), "SIGTERM"), ladder.terminateMs);
    const deadline = performance.now() + KILL_MS;
    let left = this.#alive();
    while (left.some(({ identity }) => !isDenied(identity)) && performance.now() < deadline) {
      await untilDead(signalAll(left, "SIGKILL"), 100);
      left = this.#alive();
    }
    return { survivors: left.map((member) => member.identity.pid) };
  }

  alive(): readonly ProcessIdentity[] {
    return this.#alive().map((member) => member.identity);
  }

  strays(): readonly Stray[] {
    const members = this.#alive();
    return [
      ...members.map(({ identity }) => ({
        identity,
        standing: isDenied(identity) ? ("denied" as const) : ("ours" as const),
      })),
      ...this.#doubtful
        .map((entry) => ({ identity: identityOf(entry), standing: "doubtful" as const }))
        .filter(({ identity }) => isAlive(identity)),
    ];
  }

  /** Scans for new members, then lists the live ones. */
  #alive(): readonly Member[] {
    const { table, marked } = lookAround(this.#marker);
    const session = this.#root === null ? null : membersOf(this.#root, table);
    for (const entry of [...(session?.ours ?? []), ...marked]) this.#add(entry);
    this.#addDescendants(table);
    this.#doubtful = (session?.doubtful ?? []).filter((entry) => this.#memberOf(entry) === undefined);
    return table.map((entry) => this.#memberOf(entry)).filter((member) => member !== undefined);
  }

  #addDescendants(table: readonly ProcessEntry[]): void {
    const children = new Map<number, ProcessEntry[]>();
    for (const entry of table) children.set(entry.parent, [...(children.get(entry.parent) ?? []), entry]);
    const todo = table.filter((entry) => this.#memberOf(entry) !== undefined);
    for (let parent = todo.pop(); parent !== undefined; parent = todo.pop()) {
      for (const child of children.get(parent.pid) ?? []) {
        if (this.#memberOf(child) !== undefined) continue;
        this.#add(child);
        todo.push(child);
      }
    }
  }

  #add(entry: ProcessEntry): void {
    this.#members.set(entry.pid, { identity: identityOf(entry), entry });
  }

  #memberOf(entry: ProcessEntry): Member | undefined {
    const member = this.#members.get(entry.pid);
    return member?.entry.start === entry.start ? member : undefined;
  }
}

function signalAll(members: readonly Member[], name: NodeJS.Signals): readonly ProcessIdentity[] {
  for (const { identity } of members) {
    signal(identity, name);
    // A stopped process receives only SIGKILL before it continues.
    if (name !== "SIGKILL") signal(identity, "SIGCONT");
  }
  return members.map((member) => member.identity).filter((identity) => !isDenied(identity));
}

/** The process lives and runs as another user. */
function isDenied({ pid }: ProcessIdentity): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return isErrno(error, "EPERM");
  }
}

async function untilDead(identities: readonly ProcessIdentity[], waitMs: number): Promise<void> {
  const deadline = performance.now() + waitMs;
  while (identities.some(isAlive) && performance.now() < deadline) {
    await sleep(Math.min(10, Math.max(1, deadline - performance.now())));
  }
}

/** Enough for a chain of short processes that each start the next; an endless chain cannot be caught. */
const MOST_LOOKS = 20;

/**
 * All processes that may be signalled, and which of them are marked. A process may start another and end between the
 * listing and the check, so that neither is seen; therefore the scan repeats until it finds no new process.
 */
function lookAround(marker: string): { readonly table: ProcessEntry[]; readonly marked: ProcessEntry[] } {
  const assignment = `${MARKER_VARIABLE}=${marker}`;
  const known = new Set<number>();
  const table: ProcessEntry[] = [];
  const marked: ProcessEntry[] = [];
  for (let looks = 0; looks < MOST_LOOKS; looks += 1) {
    const before = known.size;
    for (const entry of processTable(known).filter(mayBeSignalled)) {
      table.push(entry);
      if (marker !== "" && hasVariable(entry.pid, assignment)) marked.push(entry);
    }
    if (known.size === before || marker === "") break;
  }
  return { table, marked };
}

function mayBeSignalled(entry: ProcessEntry): boolean {
  return entry.pid > 1 && entry.pid !== process.pid && !entry.zombie;
}
