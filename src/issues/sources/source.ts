/**
 * The interface of issue sources, and checks that all sources share.
 *
 * Every source must pass `test/contracts/source.ts`. A source changes only the requested fields; everything else in a
 * file or on a server stays. All texts of an issue are untrusted.
 */
import { Fault, type FaultCode } from "../../core/faults.ts";

export type IssueStatus = "open" | "in_progress" | "closed" | "blocked";

export interface Issue {
  readonly id: string;
  readonly title: string;
  readonly body: string;
  readonly status: IssueStatus;
  /** The source's own word, if different. */
  readonly statusWord?: string;
  /** From 0, the most urgent, to 4. Default: 2. */
  readonly priority: number;
  /** Ids of issues that must be closed first. */
  readonly dependencies: readonly string[];
  readonly parent: string | null;
  /** Groups other issues; batches do not work on it. */
  readonly epic: boolean;
  /** The author has no role in the repository. Absent: the author has. */
  readonly stranger?: true;
  /** Oldest first, without Reprise's notes. Absent: none, or `IssueSource.comments` has them. */
  readonly comments?: readonly IssueComment[];
}

/** A comment on an issue that Reprise did not write. */
export interface IssueComment {
  /** Null: unknown. */
  readonly author: string | null;
  readonly text: string;
  /** As of an issue. */
  readonly stranger?: true;
}

export interface IssueSource {
  /** For people: `.beads/issues.jsonl`, `issues/`, `GitHub acme/shop`. */
  readonly name: string;
  /** Time between two lists with `--watch`: short for files, longer for servers. */
  readonly restMs: number;
  /** In the source's own order. */
  list(): Promise<IssueList>;
  /** The present issue, even if others are invalid. Faults: `issue_unknown`, `issues_missing`. */
  one(id: string): Promise<Issue>;
  /** False: its status is no longer `from`; nothing changed. */
  claim(id: string, from: IssueStatus): Promise<boolean>;
  close(id: string, reason: string): Promise<void>;
  /** Adds a note for people. */
  note(id: string, text: string): Promise<void>;
  /** As `Issue.comments`. Absent: a listed issue has them all. */
  comments?(id: string): Promise<readonly IssueComment[]>;
  /** The issue's own file, relative to the repository. Absent: no such file. */
  fileOf?(id: string): string;
  /** Applies the edits of another copy to that file. False: the edits conflict. */
  join?(id: string, copy: FileCopy): Promise<boolean>;
}

/** A copy of an issue's file, such as in an agent's worktree, before and after its edits. */
export interface FileCopy {
  readonly was: string;
  readonly now: string;
}

/** Notes in issues are for people, and never become part of a prompt. */
export function doneNote(engine: string, handle: string | null, where: string): string {
  return `Done by ${engine} (reprise run ${handle ?? "?"})${where}.`;
}

/** `command`: `reprise issues run --resume` with its options. */
export function openNote(state: string, why: string, command: string): string {
  return `${state}: ${why} (${command} resumes it)`;
}

export function isOurNote(text: string): boolean {
  const words = text.trim();
  if (/^Done by \S+ \(reprise run [0-9a-f?]{1,8}\)/.test(words)) return true;
  const command = words.slice(words.lastIndexOf("(reprise issues run --resume"));
  return (
    // Earlier versions wrote "takes it up".
    / (?:resumes it|takes it up)\)$/.test(command) &&
    command.startsWith("(reprise issues") &&
    !command.includes("\n")
  );
}

export interface IssueList {
  readonly issues: readonly Issue[];
  readonly warnings: readonly string[];
}

/** An issue and its place for messages: `file:line`. */
export interface LocatedIssue {
  readonly issue: Issue;
  readonly at: string;
}

export const DEFAULT_PRIORITY = 2;
const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** Ids become parts of branch names, file names and subjects. */
export function isIssueId(id: string): boolean {
  return ID.test(id) && !id.includes("..") && !/\.lock$|\.$/.test(id);
}

/** Refuses repeated ids and circular dependencies. */
export function checkedList(placed: readonly LocatedIssue[], warnings: readonly string[] = []): IssueList {
  const where = new Map<string, string>();
  for (const { issue, at } of placed) {
    if (!isIssueId(issue.id)) {
      const shown = JSON.stringify(issue.id.slice(0, 80));
      throw invalid(at, `${shown} is not a valid id: letters, digits, ".", "_" and "-", 100 at most`);
    }
    const before = where.get(issue.id);
    if (before !== undefined)
      throw invalid(at, `the id ${issue.id} is already used at ${before}. Change one of the two`);
    where.set(issue.id, at);
  }
  const issues = placed.map(({ issue }) => issue);
  const cycle = findCycle(issues);
  if (cycle !== null) {
    const path = [...cycle, cycle[0]].join(" → ");
    throw invalid(where.get(cycle[0] ?? "") ?? "", `dependencies form a circle: ${path}. Remove one of them`);
  }
  const missing = issues
    .filter(({ status }) => status !== "closed")
    .flatMap(({ id, dependencies }) =>
      dependencies
        .filter((other) => !where.has(other))
        .map(
          (other) => `${id} depends on ${other}, which is not in the source; Reprise does not wait for it.`,
        ),
    );
  return { issues, warnings: [...warnings, ...missing] };
}

export function invalid(at: string, why: string): Fault {
  return new Fault("issues_invalid", `${at}: ${why}.`, { facts: { at, why } });
}

/** Faults that mean that the issue is gone. */
export const GONE: readonly FaultCode[] = ["issue_unknown", "issues_missing"];

export function unknownIssue(id: string, source: string): Fault {
  return new Fault(
    "issue_unknown",
    `${source} has no issue ${JSON.stringify(id.slice(0, 100))}. \`reprise issues list\` shows them.`,
    { facts: { id: id.slice(0, 100), source } },
  );
}

/** 0 to 4, also as `P0` to `P4`. */
export function priorityOf(value: unknown): number | null {
  const digit = typeof value === "number" ? value : /^p?([0-4])$/i.exec(String(value))?.[1];
  const priority = Number(digit);
  return digit !== undefined && Number.isInteger(priority) && priority >= 0 && priority <= 4
    ? priority
    : null;
}

/**
 * The ids of one circle of dependencies among open issues. Null: none. Ignores strangers' issues, which block no other.
 * Does not recurse.
 */
function findCycle(issues: readonly Issue[]): readonly string[] | null {
  const edges = new Map(
    issues
      .filter(({ status, stranger }) => status !== "closed" && stranger !== true)
      .map((issue) => [issue.id, issue.dependencies]),
  );
  const done = new Set<string>();
  for (const start of edges.keys()) {
    const path: string[] = [];
    const inPath = new Set<string>();
    const stack: { id: string; leave: boolean }[] = [{ id: start, leave: false }];
    for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
      const { id, leave } = top;
      if (leave) {
        path.pop();
        inPath.delete(id);
        done.add(id);
      } else if (inPath.has(id)) return path.slice(path.indexOf(id));
      else if (!done.has(id)) {
        path.push(id);
        inPath.add(id);
        stack.push({ id, leave: true });
        for (const next of edges.get(id) ?? []) if (edges.has(next)) stack.push({ id: next, leave: false });
      }
    }
  }
  return null;
}
