/**
 * How often the model was handed a message, told from what it was sent: rounds of tools and retries after a failure send
 * the same message again and are no delivery. Pure.
 */
import type { RequestRecord } from "./model-server/server.ts";

/** What the model did when it took a message, as opposed to when it failed in some way and the engine may try again. */
const TAKEN: ReadonlySet<RequestRecord["act"]> = new Set(["answer", "pause", "tool"]);

/** Messages that began a turn of the model, in order. */
export function delivered(turns: readonly RequestRecord[]): readonly string[] {
  return turns
    .filter(({ act, toolOutputs }) => TAKEN.has(act) && toolOutputs.length === 0)
    .map(({ users }) => users.at(-1) ?? "");
}

/** What an engine may do, by the name of the kind of right. */
export type Rights = Readonly<Record<string, readonly string[]>>;

/** Kinds that both name and that are not the same, one sentence each. */
export function changedRights(before: Rights, now: Rights): readonly string[] {
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
