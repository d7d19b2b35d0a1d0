/**
 * Types messages into an idle UI, one at a time, and checks whether the conversation received them.
 *
 * Never types into a permission prompt, where any text is an answer. So the UI must be known to be idle before the
 * message and again before the Enter; if its state is unknown, the typist types nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Observed } from "../core/events.ts";
import type { Clock } from "../core/deps.ts";
import { keysFor, typeable } from "./paste.ts";

export type SendResult =
  | { readonly sent: "ok" | "unverified" }
  | { readonly sent: "refused"; readonly why: string };

/** The typist's view of the agent. */
export interface TypingHost {
  readonly clock: Clock;
  /** The current state, not the last observed one. */
  look(): Promise<Observed>;
  bracketedPaste(): boolean;
  /** When a person last typed here, on the monotonic clock. Null: never. */
  personTypedAt(): number | null;
  /** The message is about to be typed. False: it must not be. */
  sending(message: string): boolean;
  write(keys: string): void;
  /** Null: the engine cannot tell. */
  tookUp(message: string, typedAtMs: number): Promise<boolean | null>;
}

const SETTLE_MS = 300;
/** A UI that is still idle this long after a message has not received it. */
const BEGIN_MS = 3_000;
const BEFORE_ENTER_MS = 200;
const VERIFY_MS = 5_000;
const LOOK_MS = 200;
/** A person who just typed is likely to continue; the typist waits, but not for long. */
const PERSON_MS = 5_000;
const PATIENCE_MS = 15_000;
/** Ctrl-U, for each line of a draft. */
const CLEAR = "\x15".repeat(8);

export class MessageTyper {
  readonly #host: TypingHost;
  #last: Promise<unknown> = Promise.resolve();
  /** Results of messages with a key, including messages still being typed. */
  readonly #known = new Map<string, Promise<SendResult>>();
  /** When the last message was typed. Null: none yet. */
  #typedAtMs: number | null = null;

  constructor(host: TypingHost) {
    this.#host = host;
  }

  /** Types messages in the order of arrival, and each key once. */
  send(message: string, key?: string): Promise<SendResult> {
    const known = key === undefined ? undefined : this.#known.get(key);
    if (known !== undefined) return known;
    const turn = this.#last.then(() => this.#type(message));
    this.#last = turn.catch(() => {});
    if (key !== undefined) this.#known.set(key, turn);
    return turn;
  }

  async #type(message: string): Promise<SendResult> {
    const given = typeable(message);
    if ("refused" in given) return { sent: "refused", why: given.refused };
    const refusal = await this.#readiness();
    if (refusal !== null) return { sent: "refused", why: refusal };
    const typedAtMs = this.#host.clock.now();
    this.#typedAtMs = typedAtMs;
    if (!this.#host.sending(given.text)) return { sent: "refused", why: "the message cannot be recorded" };
    this.#host.write(CLEAR);
    this.#host.write(keysFor(given.text, this.#host.bracketedPaste()));
    await sleep(BEFORE_ENTER_MS);
    // A prompt that opened meanwhile may have received the text; an Enter would answer it.
    const changed = unfit(await this.#host.look());
    if (changed !== null)
      return { sent: "refused", why: `${changed}; the message is in its input line, not sent` };
    this.#host.write("\r");
    const first = await this.#verified(given.text, typedAtMs);
    if (first !== false) return { sent: first === true ? "ok" : "unverified" };
    // A UI that was drawing may have read the first Enter as part of the paste.
    if (unfit(await this.#host.look()) === null) this.#host.write("\r");
    return { sent: (await this.#verified(given.text, typedAtMs)) === true ? "ok" : "unverified" };
  }

  /** Waits until the UI has been idle for a moment. Returns the reason why not, or null. */
  async #readiness(): Promise<string | null> {
    const { clock } = this.#host;
    const deadline = clock.mono() + PATIENCE_MS;
    for (;;) {
      const observed = await this.#host.look();
      const why = unfit(observed);
      if (why !== null) return why;
      const personMs = this.#personFor();
      if (personMs > 0 && clock.mono() + personMs > deadline) return "a person is typing there";
      const waitMs = Math.max(personMs, this.#waitFor(observed));
      if (waitMs <= 0) return null;
      await sleep(waitMs);
    }
  }

  /** A UI that has been idle since before the last message may begin with that message any moment. */
  #waitFor({ sinceMs }: Observed): number {
    const now = this.#host.clock.now();
    const typedAtMs = this.#typedAtMs ?? sinceMs;
    if (sinceMs < typedAtMs && now - typedAtMs < BEGIN_MS) return LOOK_MS;
    return now < sinceMs ? 0 : SETTLE_MS - (now - sinceMs);
  }

  /** How long to wait for a person who is typing. */
  #personFor(): number {
    const at = this.#host.personTypedAt();
    return at === null ? 0 : PERSON_MS - (this.#host.clock.mono() - at);
  }

  /** Null: the engine cannot tell. */
  async #verified(text: string, typedAtMs: number): Promise<boolean | null> {
    const { clock } = this.#host;
    const deadline = clock.mono() + VERIFY_MS;
    for (;;) {
      const taken = await this.#host.tookUp(text, typedAtMs);
      if (taken !== false || clock.mono() >= deadline) return taken;
      await sleep(LOOK_MS);
    }
  }
}

function unfit({ activity, certain }: Observed): string | null {
  if (!certain) return "the engine does not say whether it is idle";
  switch (activity.state) {
    case "idle":
    case "error":
      return null;
    case "starting":
      return "the agent is still starting";
    case "working":
      return "the agent is working";
    case "waiting":
      return "the agent is waiting for permission, and typed text would answer it";
  }
}
