/** Which issues a batch works on, in which order, and why it skips the others. Pure. */
import { Fault } from "../core/faults.ts";
import { type Issue, unknownIssue } from "./sources/source.ts";

export type BatchScope =
  | { readonly of: "all" }
  | { readonly of: "ids"; readonly ids: readonly string[] }
  | { readonly of: "epic"; readonly id: string };

export interface PlanOptions {
  readonly scope: BatchScope;
  readonly order: "priority" | "input";
  readonly resume: boolean;
  /** Null: no limit. */
  readonly maxIssues: number | null;
  /** Ids that an earlier part of the batch began: they count towards the limit. */
  readonly begun: readonly string[];
  /** The scope comes from a resumed batch: skip ids that the source has lost since. */
  readonly mayLack: boolean;
  /** Include issues of authors without a role in the repository. */
  readonly includeStrangers: boolean;
}

export interface BatchPlan {
  /** In starting order, as far as dependencies allow. */
  readonly take: readonly Issue[];
  readonly skip: readonly { readonly id: string; readonly why: string }[];
  /** Ids of the scope that the source no longer has. */
  readonly gone: readonly string[];
}

/** Why a batch without `--resume` skips an issue. */
export const IN_PROGRESS = "it is in progress; --resume continues it";

/** `all`, `ids:a,b`, `epic:X` */
export function parseScope(text: string): BatchScope {
  if (text === "all") return { of: "all" };
  const [, kind, rest = ""] = /^(ids|epic):(.+)$/.exec(text) ?? [];
  const ids = [...new Set(rest.split(",").map((id) => id.trim()))].filter((id) => id !== "");
  if (kind === "ids" && ids.length > 0) return { of: "ids", ids };
  if (kind === "epic" && ids[0] !== undefined && ids.length === 1) return { of: "epic", id: ids[0] };
  throw new Fault("usage", "--scope takes all, ids:a,b or epic:X.");
}

/** For each issue, the ids of open issues that it depends on. Ignores unknown ids. */
export function readiness(issues: readonly Issue[]): ReadonlyMap<string, readonly string[]> {
  const open = new Set(issues.filter(({ status }) => status !== "closed").map(({ id }) => id));
  return new Map(issues.map(({ id, dependencies }) => [id, dependencies.filter((other) => open.has(other))]));
}

export function plan(issues: readonly Issue[], options: PlanOptions): BatchPlan {
  const gone = options.mayLack ? lacking(issues, options.scope) : [];
  const scoped = inScope(issues, without(options.scope, gone));
  const skip: { id: string; why: string }[] = gone.map((id) => ({ id, why: "the source no longer has it" }));
  const able = scoped.filter((issue) => {
    const why = whyNot(issue, options);
    if (why !== null && why !== "") skip.push({ id: issue.id, why });
    return why === null;
  });
  const waits = readiness(issues);
  const ordered = inOrder(able, options);
  const take: Issue[] = [];
  const taken = new Set<string>();
  const counted = new Set(options.begun);
  // Dependencies come before the requested order.
  for (let again = true; again;) {
    again = false;
    for (const issue of ordered) {
      const full = options.maxIssues !== null && counted.size >= options.maxIssues;
      if (taken.has(issue.id) || (full && !counted.has(issue.id))) continue;
      if (!(waits.get(issue.id) ?? []).every((id) => taken.has(id))) continue;
      take.push(issue);
      taken.add(issue.id);
      counted.add(issue.id);
      // Start over: an issue that waited for this one may be more urgent than the next.
      again = true;
      break;
    }
  }
  for (const { id } of ordered.filter((issue) => !taken.has(issue.id))) {
    const missing = (waits.get(id) ?? []).filter((other) => !taken.has(other));
    const why = missing.length === 0 ? "the batch is full" : `it waits for ${missing.join(", ")}`;
    skip.push({ id, why });
  }
  return { take, skip, gone };
}

function lacking(issues: readonly Issue[], scope: BatchScope): readonly string[] {
  const known = new Set(issues.map(({ id }) => id));
  return scope.of === "ids" ? scope.ids.filter((id) => !known.has(id)) : [];
}

function without(scope: BatchScope, gone: readonly string[]): BatchScope {
  return scope.of === "ids" ? { of: "ids", ids: scope.ids.filter((id) => !gone.includes(id)) } : scope;
}

function inScope(issues: readonly Issue[], scope: BatchScope): readonly Issue[] {
  const byId = new Map(issues.map((issue) => [issue.id, issue]));
  const find = (id: string): Issue => {
    const found = byId.get(id);
    if (found === undefined) throw unknownIssue(id, "The source");
    return found;
  };
  switch (scope.of) {
    case "all":
      return issues;
    case "ids":
      return scope.ids.map(find);
    case "epic": {
      find(scope.id);
      const inside = new Set([scope.id]);
      for (let size = 0; size !== inside.size;) {
        size = inside.size;
        for (const { id, parent } of issues) if (parent !== null && inside.has(parent)) inside.add(id);
      }
      return issues.filter(({ id }) => id !== scope.id && inside.has(id));
    }
  }
}

/** Null: the batch can work on it. Empty: no reason worth showing. */
function whyNot(issue: Issue, { resume, includeStrangers }: PlanOptions): string | null {
  if (issue.status === "closed") return "";
  if (issue.epic) return "";
  if (issue.status === "blocked") return "it is blocked";
  if (issue.status === "in_progress" && !resume) return IN_PROGRESS;
  if (issue.stranger === true && !includeStrangers)
    return "its author is not an owner, member or collaborator; --include-all includes it";
  return null;
}

function inOrder(issues: readonly Issue[], { order, resume }: PlanOptions): readonly Issue[] {
  const begun = ({ status }: Issue) => (resume && status === "in_progress" ? 0 : 1);
  return issues.toSorted(
    (one, other) => begun(one) - begun(other) || (order === "input" ? 0 : one.priority - other.priority),
  );
}
