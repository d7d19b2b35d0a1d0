/** Carries out the reducer's effects on the service, and reports the results. Knows no screen. */
import type { ReviewService, ReviewTurn, TurnResult, TurnUpdate } from "../reviews/reviews.ts";
import { CODE_AROUND } from "./panes.ts";
import type { ServiceEffect, Message } from "./state.ts";

/** Streamed text is passed on in batches, thirty times per second. */
const BATCH_MS = 33;

export class EffectRunner {
  readonly #service: ReviewService;
  readonly #post: (message: Message) => void;
  #turn: ReviewTurn | null = null;

  constructor(service: ReviewService, post: (message: Message) => void) {
    this.#service = service;
    this.#post = post;
  }

  perform(effect: ServiceEffect): void {
    switch (effect.do) {
      case "load":
        return this.#load(effect.ticket, effect.fresh);
      case "findInterrupted": {
        const { ticket } = effect;
        this.#service.findInterrupted().then(
          (session) => this.#post({ type: "found", ticket, session }),
          (error: unknown) => this.#post({ type: "find_failed", ticket, reason: reasonOf(error) }),
        );
        return;
      }
      case "decline":
        this.#service.decline(effect.session).catch((error: unknown) => this.#trouble(error));
        return;
      case "begin":
        try {
          this.#begin(effect);
        } catch (error) {
          this.#post({ type: "ended", ticket: effect.ticket, result: failed(error) });
        }
        return;
      case "answer":
        return this.#turn?.answer(effect.id, effect.decision);
      case "interrupt":
        return this.#turn?.interrupt();
      case "discard":
        return this.#turn?.discard();
      case "codeAround": {
        const { comment } = effect;
        this.#service.codeAround(comment, CODE_AROUND).then(
          (lines) => this.#post({ type: "code_found", comment, lines }),
          (error: unknown) => {
            this.#post({ type: "code_found", comment, lines: null });
            this.#trouble(error);
          },
        );
      }
    }
  }

  /** Settles when no turn is running, or after this time. */
  async turnEnded(waitMs: number): Promise<void> {
    if (this.#turn === null || waitMs === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => void (timer = setTimeout(resolve, waitMs)));
    await Promise.race([this.#turn.done.catch(() => {}), late]);
    clearTimeout(timer);
  }

  #load(ticket: number, fresh: boolean): void {
    this.#service.load(fresh).then(
      (loaded) => {
        const trusted = new Set(loaded.comments.filter((comment) => this.#service.trusts(comment)));
        this.#post({ type: "loaded", ticket, loaded, trusted });
      },
      (error: unknown) => this.#post({ type: "load_failed", ticket, reason: reasonOf(error) }),
    );
  }

  #begin({ ticket, order }: Extract<ServiceEffect, { do: "begin" }>): void {
    const batch: TurnUpdate[] = [];
    let timer: NodeJS.Timeout | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (batch.length > 0) this.#post({ type: "updates", ticket, updates: batch.splice(0) });
    };
    const turn = this.#service.begin(order, (update) => {
      batch.push(update);
      timer ??= setTimeout(flush, BATCH_MS);
    });
    this.#turn = turn;
    const end = (result: TurnResult) => {
      if (this.#turn === turn) this.#turn = null;
      flush();
      this.#post({ type: "ended", ticket, result });
    };
    turn.done.then(end, (error: unknown) => end(failed(error)));
  }

  #trouble(error: unknown): void {
    this.#post({ type: "trouble", reason: reasonOf(error) });
  }
}

function failed(error: unknown): TurnResult {
  return { status: "failed", reason: reasonOf(error), handle: "", exitCode: 70, refused: null };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
