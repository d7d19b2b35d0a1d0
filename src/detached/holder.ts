/**
 * The holder's body: runs one attempt without a terminal and serves a control socket.
 *
 * The run core owns the agent and its records. This file only replaces the terminal: viewers, typed input, stop
 * requests. Apart from typed input, nothing that a client does or fails to do affects the agent.
 */
import { randomBytes } from "node:crypto";
import { unlinkSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readRecord, writeAtomic } from "../state/files.ts";
import { readStream } from "../state/logs.ts";
import { attemptDir } from "../state/runs.ts";
import { runtimeDir } from "../state/runtime.ts";
import type { Observed, Stream } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { fieldIn, type JsonObject, numberIn, stringIn } from "../lib/json.ts";
import { Latch } from "../lib/latch.ts";
import {
  type AttemptResult,
  type Deps,
  type LiveControls,
  resumeRun,
  type ResumeRequest,
  startRun,
  type StartRequest,
  type StopRequest,
  type Watch,
} from "../run/run.ts";
import { VERSION } from "../version.ts";
import { type Channel, listen, type Peer } from "../ipc/ipc.ts";
import { Modes } from "./modes.ts";
import { type SendResult, MessageTyper } from "./message-typer.ts";
import { type Viewer, Viewers } from "./viewers.ts";

export type HoldRequest =
  | { readonly do: "start"; readonly request: StartRequest }
  /** asAttempt: the holder refuses with `run_busy` if the attempt would get another number. Null: any number. */
  | { readonly do: "resume"; readonly request: ResumeRequest; readonly asAttempt: number | null };

export interface HolderStart {
  readonly handle: string;
  readonly runId: string;
  readonly attempt: number;
  /** The handle of the parent run. Absent: not a fork. */
  readonly parent?: string;
}

/** The size of a UI without an attached terminal. */
const DETACHED_SIZE = { cols: 120, rows: 40 };
/** How often the holder checks its files. */
const KEEP_MS = 5_000;
/** How long viewers may take to read the last output. */
const LAST_WORDS_MS = 5_000;

/** Calls `spawned` once, after the agent was spawned. Resolves when everything is over. */
export async function hold(
  deps: Deps,
  holdRequest: HoldRequest,
  spawned: (launched: HolderStart) => void,
): Promise<AttemptResult> {
  const holding = new HeldAttempt(deps, spawned);
  try {
    const result = await attempt(deps, holdRequest, holding);
    await holding.close();
    await result.finish();
    return result;
  } finally {
    await holding.close();
  }
}

/** A live attempt whose owner is this process. */
export interface OwnAttempt {
  readonly run: RunRecord;
  readonly attempt: AttemptRecord;
  readonly controls: LiveControls;
  /** Null: nothing was observed yet. */
  readonly observed: Observed | null;
  /** The length of its output so far. */
  readonly total: number;
}

/** Serves a control socket for an attempt of this process. Throws, and changes nothing, if there can be no socket. */
export async function holdOwn(deps: Deps, own: OwnAttempt): Promise<HeldAttempt> {
  const holding = new HeldAttempt(deps, () => {});
  try {
    await holding.takeOver(own);
    return holding;
  } catch (error) {
    await holding.close();
    throw error;
  }
}

function attempt(deps: Deps, holdRequest: HoldRequest, watch: Watch): Promise<AttemptResult> {
  const terminal = holdRequest.request.terminal ?? DETACHED_SIZE;
  if (holdRequest.do === "start") return startRun(deps, { ...holdRequest.request, terminal }, watch);
  const number = holdRequest.asAttempt === null ? {} : { asAttempt: holdRequest.asAttempt };
  return resumeRun(deps, { ...holdRequest.request, terminal, hasTerminal: true, ...number }, watch);
}

export class HeldAttempt implements Watch {
  readonly #deps: Deps;
  readonly #spawned: (launched: HolderStart) => void;
  readonly #runtime: string;
  readonly #viewers = new Viewers(() => this.#directory);
  readonly #byPeer = new Map<Peer, Viewer>();
  /** Viewers that are terminals: they answer the queries of the UI. */
  readonly #terminals = new Set<Peer>();
  readonly #modes = new Modes();
  readonly #typer: MessageTyper;
  readonly #subscribers = new Set<Peer>();
  #directory = "";
  #launched: HolderStart | null = null;
  #channel: Promise<Channel> | null = null;
  #controls: LiveControls | null = null;
  #observed: Observed;
  readonly #stops = new Latch<StopRequest>();
  #interrupts = 0;
  /** On the monotonic clock. */
  #personTypedAt: number | null = null;
  #undo: (() => void)[] = [];

  constructor(deps: Deps, spawned: (launched: HolderStart) => void) {
    this.#deps = deps;
    this.#spawned = spawned;
    // Reports a path that is too long before it starts anything.
    this.#runtime = runtimeDir(deps.state, deps.env);
    const now = deps.clock.now();
    this.#observed = {
      activity: { state: "starting" },
      sinceMs: now,
      grewAtMs: now,
      turns: 0,
      certain: false,
    };
    this.#typer = new MessageTyper({
      clock: deps.clock,
      look: async () => {
        await this.#controls?.look();
        return this.#observed;
      },
      bracketedPaste: () => this.#modes.bracketedPaste,
      personTypedAt: () => this.#personTypedAt,
      sending: (message) => this.#controls?.sending(message) ?? false,
      write: (keys) => this.#controls?.write(Buffer.from(keys)),
      tookUp: async (message, typedAtMs) => (await this.#controls?.tookUp(message, typedAtMs)) ?? null,
    });
    this.#listenToSignals();
  }

  recorded(run: RunRecord, record: AttemptRecord): void {
    this.#directory = attemptDir(run.runDirectory, record.n);
    const parent = run.parent === undefined ? {} : { parent: run.parent.handle };
    this.#launched = { handle: run.handle, runId: run.runId, attempt: record.n, ...parent };
    this.#channel = this.#open(record.interactive);
    // Awaited once the agent lives.
    this.#channel.catch(() => {});
  }

  live(controls: LiveControls): void {
    this.#controls = controls;
    void this.#answer();
  }

  async takeOver({ run, attempt: record, controls, observed, total }: OwnAttempt): Promise<void> {
    this.recorded(run, record);
    await this.#channel;
    for await (const chunk of readStream(this.#directory, "pty-output")) {
      const rest = total - this.#viewers.total;
      if (rest > 0) this.shown(chunk.subarray(0, rest));
    }
    this.#controls = controls;
    this.#observed = observed ?? this.#observed;
  }

  /** Output that a terminal showed, and whose queries it answered. */
  shown(chunk: Buffer): void {
    this.#viewers.grew(chunk);
    this.#modes.read(chunk);
  }

  raw(_stream: Stream, chunk: Buffer): undefined {
    this.#viewers.grew(chunk);
    if (this.#controls?.interactive !== false) this.#readModes(chunk);
  }

  activity(observed: Observed): void {
    this.#observed = observed;
    for (const peer of this.#subscribers) peer.notify("observed", { observed });
  }

  events(): void {}

  status(): void {}

  mute(): void {}

  onStop(listener: (request: StopRequest) => void): void {
    this.#stops.listen(listener);
  }

  /** The attempt is over or never began: notifies clients, and removes the socket before the lease is released. */
  async close(): Promise<void> {
    for (const undo of this.#undo.splice(0)) undo();
    const channel = await this.#channel?.catch(() => null);
    this.#channel = null;
    if (channel === null || channel === undefined) return;
    await Promise.race([this.#viewers.settled(), sleep(LAST_WORDS_MS, undefined, { ref: false })]);
    for (const peer of this.#subscribers) peer.notify("ended", {});
    removeIfThere(this.#place("json"));
    await channel.close();
  }

  async #answer(): Promise<void> {
    try {
      await this.#channel;
    } catch (error) {
      // Without a socket no user could watch or stop the agent, so it must not run.
      this.#deps.log.warn(`the control socket could not be opened: ${String(error)}`);
      // No user asked for this, so it counts as an interruption, and a retry is possible.
      this.#request("SIGTERM");
    }
    if (this.#launched !== null) this.#spawned(this.#launched);
  }

  async #open(interactive: boolean): Promise<Channel> {
    const token = randomBytes(32).toString("hex");
    const identity = this.#deps.processes.owner();
    const { handle = "", attempt: n = 0 } = this.#launched ?? {};
    const hello = { pid: identity.pid, handle, attempt: n, interactive, version: VERSION };
    const channel = await listen(this.#place("sock"), token, this.#methods(), {
      hello: () => hello,
      onBug: (error) =>
        this.#deps.log.warn(
          `a bug in a call: ${error instanceof Error ? (error.stack ?? "") : String(error)}`,
        ),
    });
    const record = `${JSON.stringify({ v: 1, identity, attempt: n, token, version: VERSION })}\n`;
    writeAtomic(this.#place("json"), record);
    const keeping = setInterval(() => void this.#keep(channel, record), KEEP_MS);
    this.#undo.push(() => clearInterval(keeping));
    return channel;
  }

  /** A user who clears the runtime directory must not cut off the agent: recreates missing files. */
  async #keep(channel: Channel, record: string): Promise<void> {
    try {
      runtimeDir(this.#deps.state, this.#deps.env);
      await channel.renew();
      if (this.#channel !== null && !hasToken(this.#place("json"))) writeAtomic(this.#place("json"), record);
    } catch (error) {
      // A full disk, for example: the next check follows soon.
      if (!(error instanceof Fault)) throw error;
    }
  }

  #place(ending: "sock" | "json"): string {
    return join(this.#runtime, `h-${this.#launched?.handle ?? ""}.${ending}`);
  }

  #methods() {
    return {
      subscribe: (_params: JsonObject, peer: Peer) => {
        this.#subscribers.add(peer);
        peer.onClosed(() => this.#subscribers.delete(peer));
        return this.#observed;
      },
      send: (params: JsonObject) => this.#send(params),
      stop: (params: JsonObject) => this.#request(stopRequest(params)),
      attach: (params: JsonObject, peer: Peer) => this.#attach(params, peer),
      detach: (_params: JsonObject, peer: Peer) => this.#detach(peer),
      write: (params: JsonObject) => this.#write(params),
      resize: (params: JsonObject) => this.#resize(params),
    };
  }

  #attach(params: JsonObject, peer: Peer) {
    const { total } = this.#viewers;
    const tail = numberIn(params, "tail");
    const from = whole(
      tail === undefined ? (numberIn(params, "from") ?? 0) : Math.max(0, total - tail),
      0,
      total,
    );
    const hasSize = numberIn(params, "cols") !== undefined;
    if (hasSize) this.#resize(params);
    this.#detach(peer);
    if (hasSize || fieldIn(params, "answers") === true) this.#terminals.add(peer);
    peer.onClosed(() => this.#terminals.delete(peer));
    // The answer goes first, so that the client knows where the output begins.
    setImmediate(() => this.#byPeer.set(peer, this.#viewers.add(peer, from)));
    return { from, total, preamble: this.#modes.preamble(), ...this.#controls?.size() };
  }

  /** Answers terminal queries of the UI while no terminal is attached. */
  #readModes(chunk: Buffer): void {
    const answers = this.#modes.read(chunk);
    if (answers !== "" && this.#terminals.size === 0) this.#controls?.write(Buffer.from(answers, "latin1"));
  }

  #send(params: JsonObject): Promise<SendResult> | SendResult {
    if (this.#controls?.interactive !== true)
      return { sent: "refused", why: "the agent has no UI to type into; resume it with the message" };
    return this.#typer.send(stringIn(params, "message") ?? "", stringIn(params, "key"));
  }

  #detach(peer: Peer): void {
    const viewer = this.#byPeer.get(peer);
    if (viewer !== undefined) this.#viewers.remove(viewer);
    this.#byPeer.delete(peer);
    this.#terminals.delete(peer);
  }

  #write(params: JsonObject): void {
    const data = Buffer.from(stringIn(params, "data") ?? "", "base64");
    if (this.#controls?.interactive !== true) return;
    // Mouse reports and query answers come from the terminal, not from a person.
    if (!/^\x1b[[\]PO]/.test(data.toString("latin1"))) this.#personTypedAt = this.#deps.clock.mono();
    this.#controls.write(data);
  }

  #resize(params: JsonObject): void {
    const [cols, rows] = [
      whole(numberIn(params, "cols"), 1, 1_000),
      whole(numberIn(params, "rows"), 1, 1_000),
    ];
    if (this.#controls?.interactive !== true) return;
    const before = this.#controls.size();
    this.#controls.resize(cols, rows);
    if (before?.cols === cols && before.rows === rows) return;
    const at = this.#viewers.total;
    for (const viewer of this.#byPeer.keys()) viewer.notify("resized", { cols, rows, at });
  }

  #listenToSignals(): void {
    const handlers = {
      // As from a terminal: the first asks, the second ends the agent. A UI does not end at the first.
      SIGINT: () => {
        this.#interrupts += 1;
        const first = this.#controls?.interactive === true ? "terminate" : "interrupt";
        this.#request(this.#interrupts > 1 ? "end" : first);
      },
      SIGTERM: () => this.#request("SIGTERM"),
      SIGHUP: () => {},
      SIGPIPE: () => {},
    } as const;
    for (const [signal, handler] of Object.entries(handlers)) process.on(signal, handler);
    this.#undo.push(() => {
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.off(signal, handlers[signal]);
    });
  }

  #request(request: StopRequest): void {
    this.#stops.send(request);
  }
}

const STOP_REQUESTS: readonly StopRequest[] = ["interrupt", "terminate", "end", "SIGTERM", "SIGHUP"];

function stopRequest(params: JsonObject): StopRequest {
  const found = STOP_REQUESTS.find((one) => one === stringIn(params, "request"));
  if (found === undefined) throw new Fault("usage", "Unknown stop request.");
  return found;
}

function whole(value: number | undefined, least: number, most: number): number {
  if (value !== undefined && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new Fault("usage", `The parameter must be a whole number from ${least} to ${most}.`);
}

/** Accepts any token: the token of another holder means that the run is no longer ours. */
function hasToken(path: string): boolean {
  try {
    return stringIn(readRecord(path), "token") !== undefined;
  } catch (error) {
    if (error instanceof Fault && error.code === "record_damaged") return false;
    throw error;
  }
}

function removeIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Gone already; a stale record is recognizable by its dead owner.
  }
}
