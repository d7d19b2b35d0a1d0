/** Which issues a batch takes, in which order, and what the others wait for. Pure. */
import type { Issue } from "./source.ts";

/** For each issue the ids of those that must be closed before it; an id that is nowhere is not waited for. */
export function readiness(issues: readonly Issue[]): ReadonlyMap<string, readonly string[]> {
  const open = new Set(issues.filter(({ status }) => status !== "closed").map(({ id }) => id));
  return new Map(issues.map(({ id, dependencies }) => [id, dependencies.filter((other) => open.has(other))]));
}
