/**
 * Counts how often the model received a message. Tool rounds and retries after a failure send the same message again
 * and do not count. Pure.
 */
import type { RequestRecord } from "./model-server/server.ts";

/** Acts of a model that accepted a message, as opposed to failures after which the engine may retry. */
const TAKEN: ReadonlySet<RequestRecord["act"]> = new Set(["answer", "pause", "tool"]);

/** Messages that began a turn of the model, in order. */
export function delivered(turns: readonly RequestRecord[]): readonly string[] {
  return turns
    .filter(({ act, toolOutputs }) => TAKEN.has(act) && toolOutputs.length === 0)
    .map(({ users }) => users.at(-1) ?? "");
}

/** The rights of an engine, by kind. */
export type DeliveredRights = Readonly<Record<string, readonly string[]>>;

/** One sentence per kind that both name and that differs. */
export function changedRights(before: DeliveredRights, now: DeliveredRights): readonly string[] {
  return Object.entries(now).flatMap(([kind, rights]) => {
    const then = before[kind];
    if (then === undefined) return [];
    const gained = rights.filter((one) => !then.includes(one));
    const lost = then.filter((one) => !rights.includes(one));
    if (gained.length + lost.length === 0) return [];
    return [
      `the rights changed: ${kind}: gained ${gained.join(", ") || "none"}; lost ${lost.join(", ") || "none"}`,
    ];
  });
}
