/**
 * The view of an engine's UI that the user may leave with Ctrl-], which gives the terminal back to the shell.
 *
 * This process stays the owner of the agent, so nothing changes for the agent: the process becomes its holder, as a
 * background job of the shell.
 */
import type { Observed, SeenEvent, Stream } from "../core/events.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { HeldAttempt } from "../detached/detached.ts";
import { detachAt } from "../lib/sequences.ts";
import type { Deps, LiveControls, LiveStatus, StopRequest, Watch } from "../run/run.ts";
import type { Context } from "./context.ts";
import type { View } from "./live.ts";

export class LeavableView implements Watch {
  readonly #context: Context;
  readonly #deps: Deps;
  readonly #view: View;
  #record: { readonly run: RunRecord; readonly attempt: AttemptRecord } | null = null;
  #observed: Observed | null = null;
  #stop: (request: StopRequest) => void = () => {};
  /** The length of the output so far. */
  #total = 0;
  /** Output since the user pressed the key. */
  #since: Buffer[] = [];
  #leaving: Promise<void> | null = null;
  #held: HeldAttempt | null = null;
  #isOver = false;

  constructor(context: Context, deps: Deps, view: View) {
    this.#context = context;
    this.#deps = deps;
    this.#view = view;
  }

  get left(): boolean {
    return this.#held !== null;
  }

  recorded(run: RunRecord, attempt: AttemptRecord): void {
    this.#record = { run, attempt };
    this.#view.recorded?.(run, attempt);
  }

  live(controls: LiveControls): void {
    if (!controls.interactive) return this.#view.live(controls);
    this.#view.live({ ...controls, write: (data) => this.#type(controls, data) });
  }

  raw(stream: Stream, chunk: Buffer): Promise<void> | undefined {
    if (this.#held !== null) return this.#held.raw(stream, chunk);
    this.#total += chunk.length;
    if (this.#leaving !== null) this.#since.push(chunk);
    return this.#view.raw(stream, chunk);
  }

  activity(observed: Observed): void {
    this.#observed = observed;
    this.#held?.activity(observed);
  }

  events(seen: readonly SeenEvent[]): void {
    if (!this.left) this.#view.events(seen);
  }

  status(status: LiveStatus): void {
    if (!this.left) this.#view.status(status);
  }

  mute(): void {
    if (!this.left) this.#view.mute();
  }

  onStop(listener: (request: StopRequest) => void): void {
    this.#stop = listener;
    this.#view.onStop(listener);
  }

  /** The attempt has ended: too late to leave, and clients get the rest of the output. */
  async over(): Promise<void> {
    this.#isOver = true;
    await this.#leaving;
    await this.#held?.close();
  }

  #type(controls: LiveControls, data: Buffer): void {
    const at = detachAt(data);
    if (at === -1) return controls.write(data);
    if (this.#leaving !== null) return;
    if (at > 0) controls.write(data.subarray(0, at));
    this.#leaving = this.#leave(controls).then((left) => {
      this.#leaving = left ? this.#leaving : null;
      this.#since = [];
      // A key like any other where the terminal cannot be left.
      if (!left) controls.write(data.subarray(at));
    });
  }

  /** False: the terminal stays with the UI. */
  async #leave(controls: LiveControls): Promise<boolean> {
    if (this.#record === null) return false;
    const { run, attempt } = this.#record;
    const { holdOwn, leaveTerminal } = await import("../detached/detached.ts");
    // Without a wait in between, so that each byte is counted once.
    this.#since = [];
    const held = await holdOwn(this.#deps, {
      run,
      attempt,
      controls,
      observed: this.#observed,
      total: this.#total,
    });
    if (held === null) return false;
    if (this.#isOver) {
      await held.close();
      return false;
    }
    for (const chunk of this.#since) held.shown(chunk);
    held.onStop(this.#stop);
    this.#held = held;
    this.#view.close();
    this.#context.log.info(`${run.handle} keeps running. Attach again: reprise attach ${run.handle}`);
    await leaveTerminal();
    return true;
  }
}
