/**
 * Converts supervision events to stored events and back. Pure.
 *
 * Events of older and newer versions must stay readable, so unknown kinds, fields and payloads are skipped (I9). Each
 * event has a key, so that no process writes it twice (I8).
 */
import { ACTIONS, type ActionName, type Trigger, TRIGGERS } from "../core/runbook.ts";
import type { SupervisionEvent } from "../core/supervision.ts";
import type { NewEvent, StoredEvent } from "../store/store.ts";

type WithoutSeq<T> = T extends unknown ? Omit<T, "seq"> : never;
type Kind<K extends SupervisionEvent["kind"]> = Extract<SupervisionEvent, { readonly kind: K }>;

/** `turn` numbers the completed turns of an attempt, so that each counts once. */
export type NewSupervisionEvent =
  | WithoutSeq<Exclude<SupervisionEvent, Kind<"progress">>>
  | (WithoutSeq<Kind<"progress">> & { readonly turn: number });

export function toStored(runId: string, event: NewSupervisionEvent): NewEvent {
  const { kind, at, attempt, ...payload } = event;
  return { runId, attempt, kind, at: new Date(at).toISOString(), key: keyOf(runId, event), payload };
}

function keyOf(runId: string, event: NewSupervisionEvent): string {
  switch (event.kind) {
    case "decided":
      return event.key;
    case "carried_out":
      return `${event.key}/carried_out`;
    case "begun_again":
      return `${event.key}/begun_again/${event.time}`;
    case "progress":
      return `${runId}/${event.attempt}/progress/${event.turn}`;
    case "escalated":
    case "answered":
      return `${runId}/${event.kind}/${event.decision}`;
    case "strict":
      return `${runId}/${event.attempt}/strict`;
  }
}

export function fromStored(events: readonly StoredEvent[]): readonly SupervisionEvent[] {
  return events.flatMap((event) => read(event) ?? []);
}

function read(event: StoredEvent): SupervisionEvent | null {
  const { payload } = event;
  const base = { seq: event.seq, at: Date.parse(event.at), attempt: event.attempt ?? 0 };
  if (!Number.isFinite(base.at)) return null;
  switch (event.kind) {
    case "progress":
      return { ...base, kind: "progress" };
    case "decided":
      return readDecided(base, event);
    case "carried_out": {
      const { key, result, detail } = payload;
      if (typeof key !== "string" || (result !== "ok" && result !== "failed" && result !== "refused"))
        return null;
      return { ...base, kind: "carried_out", key, result, detail: textOf(detail) ?? "" };
    }
    case "begun_again": {
      const { key, time } = payload;
      if (typeof key !== "string" || typeof time !== "number") return null;
      return { ...base, kind: "begun_again", key, time };
    }
    case "escalated": {
      const decision = textOf(payload["decision"]);
      return decision === null ? null : { ...base, kind: "escalated", decision };
    }
    case "answered": {
      const [decision, choice] = [textOf(payload["decision"]), textOf(payload["choice"])];
      return decision === null || choice === null ? null : { ...base, kind: "answered", decision, choice };
    }
    case "strict":
      return { ...base, kind: "strict" };
    default:
      return null;
  }
}

function readDecided(
  base: Pick<SupervisionEvent, "seq" | "at" | "attempt">,
  { key, payload }: StoredEvent,
): Kind<"decided"> | null {
  const { position, newAttempt, how } = payload;
  const trigger = triggerOf(payload["trigger"]);
  const action = actionOf(payload["action"]);
  if (key === null || trigger === null || action === null || typeof position !== "number") return null;
  return {
    ...base,
    kind: "decided",
    key,
    trigger,
    position,
    action,
    message: textOf(payload["message"]),
    newAttempt: typeof newAttempt === "number" ? newAttempt : null,
    ...(how === "kill" || how === "fresh" ? { how } : {}),
    ...(payload["strict"] === true ? { strict: true } : {}),
  };
}

/** `recover` is the old name of `resume`. */
function actionOf(value: unknown): ActionName | null {
  const name = textOf(value)?.toLowerCase();
  return name === "recover" ? "resume" : (ACTIONS.find((action) => action === name) ?? null);
}

function triggerOf(value: unknown): Trigger | "user" | null {
  return [...TRIGGERS, "user" as const].find((trigger) => trigger === value) ?? null;
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
