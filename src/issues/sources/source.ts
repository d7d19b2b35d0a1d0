/**
 * Where issues come from and go back to: one interface, and what all sources check alike.
 *
 * `test/contracts/source.ts` holds the cases that every source must pass. A source changes only what it was told to change:
 * whatever else stands in a file or on a server stays as it is. All texts of an issue are untrusted.
 */
import { Fault, type FaultCode } from "../../core/faults.ts";

export type IssueStatus = "open" | "in_progress" | "closed" | "blocked";

export interface Issue {
  readonly id: string;
  readonly title: string;
  readonly body: string;
  readonly status: IssueStatus;
  /** As the source spells it, where that is another word. */
  readonly statusWord?: string;
  /** 0 is the most urgent, 4 the least; 2 where nothing is said. */
  readonly priority: number;
  /** Ids of issues that must be closed first. */
  readonly dependencies: readonly string[];
  readonly parent: string | null;
  /** It only holds others together; nobody works on it. */
  readonly epic: boolean;
  /** Written by somebody who has no say in the repository. Absent: by somebody who has. */
  readonly stranger?: true;
  /** Oldest first, without our own notes. Absent: there are none, or `Source.comments` has to be asked. */
  readonly comments?: readonly IssueComment[];
}

/** Said under an issue by somebody else than us. */
export interface IssueComment {
  /** Null: the source does not say. */
  readonly author: string | null;
  readonly text: string;
  /** As of an issue. */
  readonly stranger?: true;
}

export interface IssueSource {
  /** For people: `.beads/issues.jsonl`, `issues/`, `GitHub acme/shop`. */
  readonly name: string;
  /** How long to wait between two lists with `--watch`: files may be looked at often, other people's servers not. */
  readonly restMs: number;
  /** In the source's own order. */
  list(): Promise<IssueList>;
  /** As it is by now, whatever is wrong with others. Not there: `issue_unknown`, or `issues_missing`. */
  one(id: string): Promise<Issue>;
  /** False: somebody else has claimed or closed it since it was listed as `from`; nothing was changed. */
  claim(id: string, from: IssueStatus): Promise<boolean>;
  close(id: string, reason: string): Promise<void>;
  /** For whoever looks at the issue next. */
  note(id: string, text: string): Promise<void>;
  /** As `Issue.comments`. Absent: a listed issue has them all. */
  comments?(id: string): Promise<readonly IssueComment[]>;
  /** The file that holds this issue alone, below the top of the repository. Absent: there is none. */
  fileOf?(id: string): string;
  /** Writes into that file what became of another copy of it. False: that cannot be joined with what stands there. */
  join?(id: string, copy: FileCopy): Promise<boolean>;
}

/** A copy of the file of an issue, such as that in an agent's worktree. */
export interface FileCopy {
  readonly was: string;
  readonly now: string;
}

/** What we say under an issue. It is for people, and never becomes part of a prompt. */
export function doneNote(engine: string, handle: string | null, where: string): string {
  return `Done by ${engine} (reprise run ${handle ?? "?"})${where}.`;
}

/** `command`: what goes on with it, from `reprise issues run --resume` on. */
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

/** An issue and where it stands, for messages: `file:line`. */
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

/** Ids stand once, and no dependency leads back to its beginning. */
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

/** What a source says of an issue that it does not have any more. */
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
 * The ids along one circle of dependencies among issues that are not closed; null: there is none. Strangers' circles
 * hold up nobody but themselves. Never recurses.
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
