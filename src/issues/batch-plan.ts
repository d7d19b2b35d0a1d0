/** The plan of a batch: for each issue the decision, its past, and the options of its agent. Changes nothing. */
import { engineDefaults, secretOptions } from "../run/engine-access.ts";
import type { Deps } from "../run/run.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { WorkOptions } from "./batch-types.ts";
import { type BatchPolicy, decide, type IssueDecision, withDependencies } from "./decide.ts";
import type { LeftIssue } from "./metadata.ts";
import { orphans } from "./orphans.ts";
import { type KnownPast, pastOf } from "./past.ts";
import { plan, type PlanOptions, readiness } from "./plan.ts";
import type { Issue, IssueSource } from "./sources/source.ts";

export interface BatchOptions extends PlanOptions, BatchPolicy, WorkOptions {
  readonly maxAgents: number;
  readonly engineGiven: boolean;
  /** Where the access of new runs comes from. */
  readonly accessFrom: AccessFrom;
  /** Keep looking for issues when all are done. */
  readonly watch: boolean;
  readonly version: string;
}

export type AccessFrom = "option" | "config" | "default";

export interface PlannedIssue {
  readonly issue: Issue;
  readonly decision: IssueDecision;
  readonly past: KnownPast;
  /** Native options for its agent, those of the config first. A continued conversation also keeps its own. */
  readonly options: readonly string[];
  /** The option that decides its agent's access. Null: the engine's default, or no agent works. */
  readonly held: string | null;
}

export interface PlannedBatch {
  /** For runs that begin with this batch. */
  readonly access: WorkOptions["access"];
  /** A changed file counts as work on an issue, whichever program changed it. */
  readonly anyChange: boolean;
  readonly take: readonly PlannedIssue[];
  readonly skip: readonly { readonly id: string; readonly why: string }[];
  /** Work on issues that the source has lost. */
  readonly orphans: readonly LeftIssue[];
}

export interface BatchPlace {
  readonly root: string;
  readonly source: IssueSource;
}

/** A dry run ends here; a batch continues with the result. */
export async function planBatch(
  deps: Deps,
  { root, source }: BatchPlace,
  options: BatchOptions,
): Promise<PlannedBatch> {
  assertNoSecret(deps, options);
  const { issues, warnings } = await source.list();
  for (const warning of warnings) deps.log.warn(warning);
  const { take, skip, gone } = plan(issues, options);
  if (gone.length > 0)
    deps.log.warn(
      `The source does not have ${harmlessLine(gone.join(", "), 300)} any more. The batch continues without ${gone.length === 1 ? "it" : "them"}.`,
    );
  const lost = options.resume ? await orphans(deps, { root, source }, issues, gone) : [];
  for (const { id, why } of lost) deps.log.warn(`${id}: ${why}`);
  const planned: PlannedIssue[] = [];
  const { args } = engineDefaults(deps, options.engine);
  const waits = readiness(issues);
  for (const issue of take) {
    const past = await pastOf(deps, root, issue, options);
    const decision = withDependencies(decide(issue, past, options), waits.get(issue.id) ?? []);
    const native = nativeOptionsFor(decision, past, options, args);
    planned.push({ issue, past, decision, options: native, held: accessOptionFor(decision, past, options) });
  }
  // A plan omits a gate that the user has not trusted; the command itself does not begin without it.
  const isHidden = deps.config.untrusted?.includes("issues.gate") === true;
  const anyChange = options.isolate === "none" && options.gate === null && !isHidden;
  return { take: planned, skip, access: options.access, anyChange, orphans: lost };
}

/** An agent may need a second turn after a limit, a failed gate, a crash or a change of its issue. */
function assertNoSecret(deps: Deps, { engine, native }: BatchOptions): void {
  const found = [...new Set(secretOptions(deps, engine, native))];
  if (found.length === 0) return;
  throw new Fault(
    "usage",
    `The value of ${found.join(", ")} is a secret, or looks like one. Reprise does not store secrets, so no issue of this batch could have a second turn or be resumed. ` +
      "Set the secret in the environment, which agents inherit (NAME=value reprise issues run …), or in the engine's own settings. " +
      "To restart an issue in progress that began with such an option, set its status to open.",
    { facts: { engine, options: found } },
  );
}

/** Its agent works in an existing run, with the options of that run. */
export function continuesRun({ decision, past }: Pick<PlannedIssue, "decision" | "past">): boolean {
  if (decision.do === "fresh") return decision.handle !== null && past.unbegun !== true;
  return decision.do === "resume" || decision.do === "gate";
}

function nativeOptionsFor(
  decision: IssueDecision,
  past: KnownPast,
  { access, native }: BatchOptions,
  args: readonly string[],
): readonly string[] {
  if (continuesRun({ decision, past })) return past.over;
  return decision.do === "fresh" ? [...args, ...access.options, ...native] : [];
}

function accessOptionFor(decision: IssueDecision, past: KnownPast, { access }: BatchOptions): string | null {
  if (continuesRun({ decision, past })) return past.held;
  if (decision.do !== "fresh") return null;
  return access.by ?? (access.options.length === 0 ? null : access.options.join(" "));
}
