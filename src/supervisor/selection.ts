/** Finds the agent or the pipeline that a user names by its id or a prefix of it. Pure. */
import { Fault } from "../core/faults.ts";
import { isSelected, parseSelector, readSelector } from "../core/ids.ts";
import type { AgentRecord, PipelineRecord } from "../core/supervision.ts";

const WORDS = {
  agent: { a: "an agent's handle", list: "reprise agent list --all", ids: "handles" },
  pipeline: { a: "a pipeline's id", list: "reprise pipeline list --all", ids: "ids" },
} as const;

/** Faults: no match, or several. A name is not an id; the fault then lists the ids with this name. */
export function selectOne<T extends { readonly record: AgentRecord | PipelineRecord }>(
  kind: "agent" | "pipeline",
  given: string,
  stored: readonly T[],
): T {
  const words = WORDS[kind];
  const idsOf = (found: readonly T[]) => found.map(({ record }) => record.id);
  const named = stored.filter(({ record }) => record.definition.name === given);
  const selector = named.length > 0 ? readSelector(given) : parseSelector(given, words);
  const matching =
    selector === null
      ? []
      : stored.filter(({ record }) =>
          isSelected(selector, record.id, "runId" in record ? record.runId : null),
        );
  const [only, ...others] = matching;
  if (only === undefined) {
    const hint =
      named.length === 0
        ? `Run: ${words.list}`
        : `That is a name. Its last ${kind}s: ${idsOf(named).slice(-5).join(", ")}.`;
    const shown = given.slice(0, 80);
    throw new Fault("handle_unknown", `There is no ${kind} ${JSON.stringify(shown)}. ${hint}`, {
      facts: { given: shown },
    });
  }
  if (others.length === 0) return only;
  const ids = idsOf(matching);
  throw new Fault(
    "handle_ambiguous",
    `${given} fits ${ids.length} ${kind}s: ${ids.join(", ")}. Type more characters.`,
    { facts: { given, [words.ids]: ids } },
  );
}
