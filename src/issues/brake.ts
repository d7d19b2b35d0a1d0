/**
 * How a batch is asked to stop: drain, then interrupt, then end. Once pressed it is never let go. One issue of it has a
 * brake of its own, which others press by a file beside the batch's metadata. What a live batch is not done with is here,
 * too: who looks runs up must not load what works on issues.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readRecord, removeQuietly, writeAtomic } from "../state/state.ts";
import { Fault } from "../core/faults.ts";
import type { ProcessIdentity, RunRecord } from "../core/records.ts";
import { objectIn, stringIn } from "../lib/json.ts";
import type { BatchLease, Deps, StopRequest } from "../run/run.ts";
import { identityIn } from "../store/store.ts";
import type { IssueState } from "./metadata.ts";

/** 1: nothing new begins. 2: agents are asked to stop. 3: they are ended. */
export type StopForce = 0 | 1 | 2 | 3;

/** What a timer can hold. */
const MAX_TIMER = 2 ** 31 - 1;

export class Brake implements Disposable {
  #force: StopForce = 0;
  #signal: "SIGTERM" | "SIGHUP" | null = null;
  readonly #listeners = new Set<() => void>();
  readonly #whole: Brake | null;
  readonly #forget: () => void;

  /** `whole`: the batch's brake, for one issue of it, which stops with the batch or alone. */
  constructor(whole: Brake | null = null) {
    this.#whole = whole;
    this.#forget = whole === null ? () => {} : whole.on(() => this.#tell());
  }

  get force(): StopForce {
    return Math.max(this.#force, this.#whole?.force ?? 0) as StopForce;
  }

  get signal(): "SIGTERM" | "SIGHUP" | null {
    return this.#whole?.signal ?? this.#signal;
  }

  /** The issue stops, and the batch does not. */
  get isAlone(): boolean {
    return this.#force >= 2 && (this.#whole?.force ?? 0) < 2;
  }

  /** The agent of this issue is interrupted; a second time it is ended. */
  pressAlone(): void {
    this.#force = this.#force < 2 ? 2 : 3;
    this.#tell();
  }

  [Symbol.dispose](): void {
    this.#forget();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Harder than before; `by`: the system wants it, and at once. */
  press(by: "SIGTERM" | "SIGHUP" | null = null): StopForce {
    this.#force =
      by === null ? (Math.min(3, this.#force + 1) as StopForce) : (Math.max(2, this.#force) as StopForce);
    this.#signal ??= by;
    this.#tell();
    return this.#force;
  }

  /** Tells a live attempt, now and later; the result forgets it again. */
  onStop(listener: (request: StopRequest) => void): () => void {
    let told: StopForce = 1;
    const tell = () => {
      if (this.force <= told) return;
      told = this.force;
      listener(told === 3 ? "end" : (this.signal ?? "interrupt"));
    };
    tell();
    return this.on(tell);
  }

  on(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** False: the brake was pressed before that time. */
  async waitUntil(atMs: number, now: () => number): Promise<boolean> {
    while (this.force === 0 && now() < atMs) {
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer);
          forget();
          resolve();
        };
        const timer = setTimeout(done, Math.min(MAX_TIMER, Math.max(0, atMs - now())));
        const forget = this.on(done);
      });
    }
    return this.force === 0;
  }
}

const LOOK_MS = 200;
/** An agent that was interrupted and is still there is ended. */
const PATIENCE_MS = 10_000;

/** Where a request to stop one run of a batch lies. The batch's id makes it nobody else's. */
function requestFile(directory: string, batch: string, handle: string): string {
  return join(directory, `${batch}.stop-${handle}`);
}

/** Asks the batch to stop this run and no other; the result takes the request back. */
export function requestStop(directory: string, batch: string, handle: string): () => void {
  const file = requestFile(directory, batch, handle);
  writeAtomic(file, "");
  return () => removeQuietly(file);
}

/** Presses the issue's brake when its run is asked to stop. */
export function obeyRequests(
  brake: Brake,
  { directory, batch, handle }: { directory: string; batch: string; handle: () => string | null },
): Disposable {
  let askedMs: number | null = null;
  const look = () => {
    const now = handle();
    const file = now === null ? null : requestFile(directory, batch, now);
    if (file !== null && existsSync(file)) {
      removeQuietly(file);
      askedMs ??= performance.now();
      if (brake.force < 2) brake.pressAlone();
    }
    if (askedMs !== null && performance.now() - askedMs > PATIENCE_MS && brake.force < 3) brake.pressAlone();
  };
  const timer = setInterval(look, LOOK_MS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

type World = Pick<Deps, "state" | "processes">;

export interface LiveBatch {
  readonly batch: string;
  readonly who: ProcessIdentity;
}

/** Where a batch that works on the run's issue keeps its files; null: the run is about no issue. */
export function directoryFor({ state }: Pick<Deps, "state">, subject: string | null): string | null {
  const slug = /^issue:([\w.-]+)#/.exec(subject ?? "")?.[1];
  return slug === undefined ? null : join(state.root, "issues", slug);
}

const ownerFile = (directory: string) => join(directory, "runner.owner");

export function liveOwnerIn({ processes }: Pick<Deps, "processes">, directory: string): LiveBatch | null {
  const record = recordOrNone(ownerFile(directory));
  const who = identityIn(record);
  if (who === null || !processes.isAlive(who)) return null;
  return { batch: stringIn(record, "run_id") ?? "", who };
}

/** The user says that the batch is gone: it holds nothing then, unless the kernel says that it lives. */
export function forsakeBatch({ state, processes }: World, { subject }: Pick<RunRecord, "subject">): void {
  const directory = directoryFor({ state }, subject);
  const live = directory === null ? null : liveOwnerIn({ processes }, directory);
  if (directory !== null && live !== null && processes.examine(live.who) !== "lives")
    removeQuietly(ownerFile(directory));
}

const UNDONE: readonly string[] = ["running", "waiting", "checking", "passed"] satisfies IssueState[];

interface Works {
  readonly issue: string;
  readonly state: string;
  readonly isOver: boolean;
}

/** What a batch says of the issues that it works on or has worked on, by the handles of their runs. */
export function stopWorkIn(directory: string, batch: string): ReadonlyMap<string, Works> {
  const issues = objectIn(recordOrNone(join(directory, `${batch}.json`)), "issues") ?? {};
  return new Map(
    Object.entries(issues).flatMap(([issue, entry]) => {
      const handle = stringIn(entry, "handle");
      const state = stringIn(entry, "status") ?? "";
      return handle === undefined ? [] : [[handle, { issue, state, isOver: !UNDONE.includes(state) }]];
    }),
  );
}

/** The metadata names a run before the batch takes it, and tells until the end that the batch is not done with it. */
export function batchHolds(
  world: World,
  runs: readonly Pick<RunRecord, "handle" | "subject">[],
): ReadonlyMap<string, BatchLease> {
  const found = new Map<string, BatchLease>();
  for (const directory of new Set(runs.map(({ subject }) => directoryFor(world, subject)))) {
    const live = directory === null ? null : liveOwnerIn(world, directory);
    if (directory === null || live === null || isSelf(world, live.who)) continue;
    const certain = world.processes.examine(live.who) === "lives";
    for (const [handle, { issue, state, isOver }] of stopWorkIn(directory, live.batch))
      if (!isOver) found.set(handle, { batch: live.batch, pid: live.who.pid, issue, state, certain });
  }
  return found;
}

function isSelf({ processes }: Pick<Deps, "processes">, who: ProcessIdentity): boolean {
  const { pid, start, boot, space } = processes.self();
  return who.pid === pid && who.start === start && who.boot === boot && who.space === space;
}

function recordOrNone(path: string): ReturnType<typeof readRecord> {
  try {
    return readRecord(path);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return null;
  }
}
