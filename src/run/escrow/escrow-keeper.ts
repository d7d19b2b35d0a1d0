/**
 * Protects the conversation of a live attempt from its first line on: a hard link as soon as the engine's file appears, a
 * copy when the file has not changed for a second (an export after five, where the engine keeps no files). A file that is
 * deleted while the agent works is restored at once.
 *
 * No caller waits for it: the end of an attempt takes the last copy after the summary (`takeEscrow`), and after a
 * crash the next resume does (`recoverEscrow`).
 */
import { basename, dirname, join, relative } from "node:path";
import {
  beginLive,
  endLive,
  fileAt,
  linkPiece,
  livePieces,
  liveSession,
  putBackLive,
  wholesOf,
} from "../../state/escrow-live.ts";
import { dropOldEscrow } from "../../state/escrow.ts";
import { Fault } from "../../core/faults.ts";
import { sessionFiles, watchFolder } from "../../drivers/drivers.ts";
import type { Located } from "../../engines/engine.ts";
import type { Deps } from "../deps.ts";
import { copiesOf } from "./copies.ts";
import { keepsEscrow, withCopy } from "./escrow.ts";
import { copyNow } from "./copying.ts";
import type { Job } from "../attempt/job.ts";
import type { Ledger } from "../attempt/ledger.ts";

/** The time between checks for a file that does not exist yet. It doubles from the first value to the last. */
const FIRST_LOOK_MS = 100;
const LAST_LOOK_MS = 5_000;
/** The time between checks of an existing file, in case its folder cannot be watched. */
const CHECK_MS = 2_000;
/** Reprise copies the file when it has not changed for the first time, or has changed all along for the second. */
const REST_MS = 1_000;
const RESTLESS_MS = 10_000;
/** An export starts the engine's program. */
const EXPORT_REST_MS = 5_000;
/** Copying takes at most this part of the time. */
const SHARE = 20;

export const PUT_BACK = "the engine's session file was deleted while the agent worked; Reprise restored it";

export class EscrowKeeper {
  readonly #deps: Deps;
  readonly #job: Job;
  readonly #ledger: Ledger;
  /** Called when the agent has created or changed its session's file, so its start is over. */
  readonly #begun: () => void;
  #session: string | null = null;
  /** The session's own file. Null: not there yet. */
  #file: string | null = null;
  #watched: { readonly folder: string; close(): void } | null = null;
  #timer: NodeJS.Timeout | null = null;
  #searched: string | null = null;
  #patience = FIRST_LOOK_MS;
  #looking: Promise<void> | null = null;
  #again = false;
  #stopped = false;
  readonly #ended = new AbortController();
  /** Changes with the conversation: the size of its file, or the time in the engine's database. */
  #mark = -1;
  #changedAt: number | null = null;
  #restless = 0;
  #nextCopyAt = 0;

  constructor(deps: Deps, job: Job, ledger: Ledger, begun: () => void) {
    this.#deps = deps;
    this.#job = job;
    this.#ledger = ledger;
    this.#begun = begun;
  }

  /** Follows the agent's conversation, as soon as its id is known. */
  follow(session: string | null): void {
    const { engine, engineHome, command } = this.#job;
    const able = engine.can.readStore && engineHome !== null && command.ephemeral === undefined;
    if (session === null || session === this.#session || !able) return;
    if (this.#stopped || !keepsEscrow(this.#deps, this.#ledger.run)) return;
    this.#session = session;
    this.#file = null;
    this.#patience = FIRST_LOOK_MS;
    try {
      if (liveSession(this.#ledger.run.runDirectory)?.session !== session)
        endLive(this.#ledger.run.runDirectory);
      this.#look();
    } catch (error) {
      this.#failed(error);
    }
  }

  /** A failure is a warning. The conversation continues. */
  #failed(error: unknown): void {
    if (!(error instanceof Fault)) throw error;
    this.#deps.log.warn(`Reprise keeps no copy of the session while the agent works: ${error.message}`);
    this.stop();
  }

  /** Stops at once. Running work ends at its next step; `settled` resolves then. */
  stop(): void {
    this.#stopped = true;
    this.#ended.abort();
    this.#unwatch();
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  async settled(): Promise<void> {
    await this.#looking;
  }

  /** One check at a time. A change during a check leads to another check. */
  #look(): void {
    this.#again = true;
    this.#looking ??= this.#lookAgain().finally(() => (this.#looking = null));
  }

  async #lookAgain(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      try {
        if (this.#file === null) await this.#search();
        else await this.#keepFile(this.#file);
      } catch (error) {
        this.#failed(error);
      }
    }
  }

  async #search(): Promise<void> {
    const { engine, engineHome } = this.#job;
    const session = this.#session;
    const { cwd } = this.#ledger.attempt;
    if (engineHome === null || session === null) return;
    const located = await engine.locate(session, { home: engineHome, cwd }, sessionFiles());
    if (this.#stopped || session !== this.#session) return;
    const path = engine.transfer === undefined ? ownFile(located) : null;
    const { updatedAtMs } = located.state === "present" ? located : { updatedAtMs: null };
    if (engine.transfer !== undefined && updatedAtMs !== null) return this.#keep(updatedAtMs, EXPORT_REST_MS);
    if (path === null) {
      if (located.state === "absent") this.#watchFor(located.searched, engineHome);
      if (this.#file !== null || this.#again) return;
      this.#wakeIn(this.#patience);
      this.#patience = Math.min(LAST_LOOK_MS, this.#patience * 2);
      return;
    }
    beginLive(this.#ledger.run.runDirectory, { session, restoreTo: relative(engineHome, path) });
    this.#found(path);
    this.#mend(path);
    this.#watch(dirname(path));
    // It may have been deleted before the watch began.
    this.#mend(path);
    this.#again = true;
  }

  #found(path: string): void {
    this.#file = path;
    // A resumed conversation already has a file.
    if (this.#job.kind !== "resume") this.#begun();
  }

  /** Links the session's current file, and restores a deleted one. */
  #mend(path: string): void {
    const { runDirectory } = this.#ledger.run;
    const pieces = livePieces(runDirectory);
    const now = fileAt(path);
    if (now !== null) {
      if (now.size > this.#deps.config.escrowLimitBytes) return;
      if (pieces.some(({ ino, dev }) => ino === now.ino && dev === now.dev)) return;
      linkPiece(runDirectory, path);
      return;
    }
    const last = pieces.at(-1);
    // A file with another name was moved, not deleted.
    if (last === undefined || last.names > 1) return;
    const whole = wholesOf(pieces).at(-1) ?? [];
    // A file that was cut short before it was deleted would hide the longer copy.
    const copy = copiesOf(this.#ledger.run).findLast(({ session }) => session === this.#session);
    const copied = copy?.files[0]?.size ?? 0;
    if (whole.reduce((sum, { size }) => sum + size, 0) < copied) return;
    if (putBackLive(runDirectory, whole, path)) this.#note(PUT_BACK);
  }

  /** Recorded at once: Reprise may be killed before the attempt ends. */
  #note(diagnostic: string): void {
    const { diagnostics } = this.#ledger.attempt;
    if (diagnostics.includes(diagnostic)) return;
    this.#ledger.save({ attempt: { diagnostics: [...diagnostics, diagnostic] } });
  }

  #keepFile(path: string): Promise<void> {
    this.#mend(path);
    return this.#keep(fileAt(path)?.size ?? -1, REST_MS);
  }

  async #keep(mark: number, restMs: number): Promise<void> {
    const now = this.#deps.clock.mono();
    if (mark !== this.#mark) {
      if (this.#mark !== -1) this.#begun();
      this.#mark = mark;
      this.#restless ||= now;
      this.#changedAt = now;
    }
    if (this.#changedAt === null) return this.#wakeIn(CHECK_MS);
    const due = Math.max(Math.min(this.#changedAt + restMs, this.#restless + RESTLESS_MS), this.#nextCopyAt);
    if (now < due) return this.#wakeIn(Math.min(CHECK_MS, due - now));
    this.#changedAt = null;
    this.#restless = 0;
    await this.#copy();
    this.#nextCopyAt = this.#deps.clock.mono() + SHARE * (this.#deps.clock.mono() - now);
    this.#wakeIn(CHECK_MS);
  }

  async #copy(): Promise<void> {
    const { engine, engineHome } = this.#job;
    const [session, ledger] = [this.#session, this.#ledger];
    if (engineHome === null || session === null) return;
    const { run } = ledger;
    const taken = await copyNow(
      this.#deps,
      { ...this.#job, home: engineHome },
      { run, session, signal: this.#ended.signal },
    );
    if (!("escrow" in taken) || this.#stopped || session !== this.#session) return;
    // The longer copy counts.
    if (!taken.lacks) {
      const copies = await withCopy(engine, run, taken.escrow);
      if (this.#stopped || session !== this.#session) return;
      ledger.save({ run: copies });
    }
    dropOldEscrow(run.runDirectory, copiesOf(ledger.run));
  }

  /** The nearest existing folder. A new entry in it leads to the next folder. */
  #watchFor(searched: string, home: string): void {
    this.#searched = searched;
    for (let folder = searched; folder.startsWith(home); folder = dirname(folder)) {
      if (this.#watch(folder)) return;
    }
  }

  #watch(folder: string): boolean {
    if (this.#watched?.folder === folder) return true;
    const watcher = watchFolder(folder, (kind, name) => this.#saw(kind, name));
    if (watcher === null) return false;
    this.#unwatch();
    this.#watched = { folder, close: () => watcher.close() };
    // Entries from before the watch.
    this.#again = true;
    return true;
  }

  #saw(kind: "rename" | "change", name: string | null): void {
    const path = this.#file;
    if (this.#stopped || (path !== null && name !== null && name !== basename(path))) return;
    if (path === null && kind === "rename" && !this.#mayBeOurs(name)) return;
    if (path !== null && kind === "rename") this.#mendNow(path);
    // Until the file appears, changes of other files do not matter.
    if (path === null ? kind === "rename" : this.#changedAt === null) this.#look();
  }

  /** Links a file that names its session at once, because another process may delete it at any moment. */
  #mayBeOurs(name: string | null): boolean {
    const { engine, engineHome } = this.#job;
    const [folder, session] = [this.#watched?.folder, this.#session];
    const tells = folder !== undefined && folder === this.#searched && engine.namesFile !== undefined;
    if (!tells || name === null || session === null || engineHome === null) return true;
    if (engine.namesFile?.(session, name) !== true) return false;
    this.#mendNow(join(folder, name), relative(engineHome, join(folder, name)));
    return true;
  }

  /** `restoreTo`: the path of a file that has just appeared. */
  #mendNow(path: string, restoreTo?: string): void {
    try {
      this.#mend(path);
      if (restoreTo === undefined || this.#session === null) return;
      beginLive(this.#ledger.run.runDirectory, { session: this.#session, restoreTo });
      this.#found(path);
    } catch (error) {
      // The next check reports it.
      if (!(error instanceof Fault)) throw error;
    }
  }

  #unwatch(): void {
    this.#watched?.close();
    this.#watched = null;
  }

  #wakeIn(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#stopped) return;
    this.#timer = setTimeout(() => this.#look(), ms);
    this.#timer.unref();
  }
}

/** Includes a conversation without a message: its file may be deleted as well. */
function ownFile(located: Located): string | null {
  if (located.state === "present") return located.files[0]?.path ?? null;
  return located.state === "unusable" ? located.path : null;
}
