/** What one page listens to: lists, single runs and conversations. */
import type { WebSocket } from "ws";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { type JsonObject, stringIn } from "../lib/json.ts";
import { selectRun } from "../run/select.ts";
import type { Core } from "./core.ts";
import type { RunsChange, Feed } from "./feed.ts";
import { conversationFrom, hasMore, isInSession, showRun } from "./reading.ts";
import { say } from "./socket.ts";

const MOST_TOPICS = 32;
/** Once a second. */
const SESSION_TICKS = 10;
/** Topics whose message only says that something changed. */
const HINTS: readonly string[] = ["inbox", "agents", "batches", "usage"];
/** Leases are renewed all the time, which changes the index as well. */
const HINT_MS = 500;

export class Subscriptions {
  readonly #ws: WebSocket;
  readonly #core: Core;
  readonly #feed: Feed;
  readonly #topics = new Set<string>();
  /** By topic: where a conversation is read on, and the run that was last seen. */
  readonly #conversations = new Map<string, { from: string | undefined; run: RunRecord | null }>();
  /** By topic. True: it changed while it was read, so it is read again. */
  readonly #reading = new Map<string, boolean>();
  #hint: NodeJS.Timeout | null = null;
  #ticks = 0;
  #undo: (() => void)[] = [];

  constructor(ws: WebSocket, core: Core, feed: Feed) {
    this.#ws = ws;
    this.#core = core;
    this.#feed = feed;
  }

  heard(message: JsonObject | undefined): void {
    const [sub, unsub] = [stringIn(message, "sub"), stringIn(message, "unsub")];
    if (unsub !== undefined) {
      this.#topics.delete(unsub);
      this.#conversations.delete(unsub);
    }
    if (sub === undefined || this.#topics.size >= MOST_TOPICS || !isTopic(sub)) return;
    if (this.#undo.length === 0)
      this.#undo = [
        this.#feed.listen((change) => this.#changed(change)),
        this.#feed.onTick(() => this.#grown()),
      ];
    this.#topics.add(sub);
    if (sub.startsWith("conversation/")) {
      this.#conversations.set(sub, { from: stringIn(message, "from"), run: null });
      this.#sendEvents(sub);
    }
    if (sub.startsWith("run/")) this.#sendRun(sub);
  }

  close(): void {
    for (const undo of this.#undo.splice(0)) undo();
    if (this.#hint !== null) clearTimeout(this.#hint);
  }

  #changed({ rows, gone }: RunsChange): void {
    if (this.#topics.has("runs") && rows.length + gone.length > 0)
      say(this.#ws, { topic: "runs", rows, gone });
    for (const { handle } of rows) {
      if (this.#topics.has(`run/${handle}`)) this.#sendRun(`run/${handle}`);
      if (this.#conversations.has(`conversation/${handle}`)) this.#sendEvents(`conversation/${handle}`);
    }
    if (!HINTS.some((topic) => this.#topics.has(topic))) return;
    this.#hint ??= setTimeout(() => {
      this.#hint = null;
      for (const topic of HINTS) if (this.#topics.has(topic)) say(this.#ws, { topic });
    }, HINT_MS);
  }

  #sendRun(topic: string): void {
    void this.#alone(topic, async () => {
      say(this.#ws, { topic, run: await showRun(this.#core, handleIn(topic)) });
    });
  }

  /** Reads conversations on whose events have grown. */
  #grown(): void {
    this.#ticks += 1;
    for (const [topic, { from, run }] of this.#conversations) {
      if (run === null || from === undefined) continue;
      // A session is looked up and parsed, so it is read less often.
      const isTurn = !isInSession(from) || this.#ticks % SESSION_TICKS === 0;
      if (isTurn && hasMore(run, from)) this.#sendEvents(topic);
    }
  }

  #sendEvents(topic: string): void {
    void this.#alone(topic, async () => {
      const known = this.#conversations.get(topic);
      if (known === undefined) return;
      const run = await selectRun(this.#core.deps, handleIn(topic));
      const from = known.from === undefined ? {} : { from: known.from };
      const { events, next, reset } = await conversationFrom(this.#core, run, from);
      if (!this.#conversations.has(topic)) return;
      this.#conversations.set(topic, { from: next, run });
      const isNews = next !== known.from || events.length > 0;
      if (isNews) say(this.#ws, { topic, events, next, ...(reset === undefined ? {} : { reset }) });
    });
  }

  /** One reader per topic at a time. A fault ends the subscription, and the page hears why. */
  async #alone(topic: string, work: () => Promise<void>): Promise<void> {
    if (this.#reading.has(topic)) return void this.#reading.set(topic, true);
    this.#reading.set(topic, false);
    try {
      await work();
    } catch (error) {
      this.#topics.delete(topic);
      this.#conversations.delete(topic);
      const { code, message } =
        error instanceof Fault ? error : { code: "bug", message: "It cannot be read." };
      say(this.#ws, { topic, error: { code, message } });
    }
    const isStale = this.#reading.get(topic) === true && this.#topics.has(topic);
    this.#reading.delete(topic);
    if (isStale) await this.#alone(topic, work);
  }
}

const handleIn = (topic: string) => topic.slice(topic.indexOf("/") + 1);

function isTopic(topic: string): boolean {
  return topic === "runs" || HINTS.includes(topic) || /^(?:run|conversation)\/[0-9a-f]{8}$/.test(topic);
}
