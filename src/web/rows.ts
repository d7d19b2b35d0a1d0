/** A run as a row of a list: what a page shows of thousands of runs. */
import { limitOf } from "../core/limit.ts";
import { titleOf } from "../core/title.ts";
import type { RunRecord } from "../core/records.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Deps } from "../run/run.ts";

export interface RunRow extends JsonObject {
  readonly handle: string;
  readonly updatedAt: string;
}

export function rowOf(run: RunRecord): RunRow {
  const { handle, runId, agentName, status, name, tags = [], subject, cwd, attempts } = run;
  const { createdAt, updatedAt } = run;
  const title = titleOf(run);
  return {
    ...{ handle, runId, agentName, status, title, name, tags, subject, cwd, attempts },
    ...{ createdAt, updatedAt, live: status === "running" },
  };
}

/** Of the last attempt: the limit that it hit, and the tokens of all attempts. */
export async function detailOf({ store }: Pick<Deps, "store">, run: RunRecord): Promise<JsonObject> {
  const attempts = await store.listAttempts(run.runId).catch(() => []);
  const used = attempts.flatMap(({ tokens }) => (tokens === null ? [] : [tokens.input + tokens.output]));
  return {
    tokens: used.length === 0 ? null : used.reduce((sum, count) => sum + count, 0),
    limit: run.status === "running" ? null : limitOf(attempts.at(-1)),
    interactive: attempts.at(-1)?.interactive ?? false,
  };
}
