/** What the `issues` commands share: the source of issues, the history of batches, and how they are printed. */
import { harmlessLine } from "../lib/harmless.ts";
import {
  type BatchRecord,
  type Issue,
  type IssueRecord,
  type LeftIssue,
  liveBatch,
  openSource,
  repositoryRoot,
  type SourceOptions,
} from "../issues/issues.ts";
import { batchHistory } from "../issues/prior.ts";
import type { Deps } from "../run/run.ts";
import { type Context, paint } from "./context.ts";
import { choice, directory, type OptionsOf, text, withValue } from "./define.ts";
import { gateLines, historyTable, leaveLines } from "./issues-live.ts";
import { workingDirectory } from "./start.ts";
import { printTable, widthLimit } from "./words.ts";

/** How to continue a recorded batch. Null: it is finished, or older than these records. */
export interface GoOn {
  readonly batch: BatchRecord;
  /** The options after `reprise issues run --resume`. */
  readonly words: readonly string[];
  readonly command: string;
  readonly byHand: string;
}

export const CWD = directory("directory in the repository (default: current directory)");

export const SOURCE_OPTIONS = {
  source: choice("<kind>", "beads, markdown or github (default: .beads/issues.jsonl, else issues/*.md)", [
    "beads",
    "markdown",
    "github",
  ]),
  repo: withValue("<owner/name>", "GitHub repository (default: this clone's remote)", text),
  apiUrl: withValue("<url>", "URL of GitHub's API", text),
  token: withValue("<token>", "GitHub token (default: GITHUB_TOKEN, GH_TOKEN)", text),
};
type SourceFlags = OptionsOf<typeof SOURCE_OPTIONS>;

/** The argument of a command about one issue. */
export const issueArgument = <const T extends string>(missing: T) =>
  ({ help: "id of the issue", required: true, missing }) as const;

export function sourceOptions(flags: SourceFlags): SourceOptions {
  return {
    kind: flags.source ?? (flags.repo === undefined ? null : "github"),
    repository: flags.repo ?? null,
    apiUrl: flags.apiUrl ?? null,
    token: flags.token ?? null,
  };
}

export async function open(
  context: Context,
  { cwd: given }: { readonly cwd?: string },
): Promise<{ deps: Deps; root: string }> {
  const cwd = workingDirectory(given ?? ".");
  const deps = await context.open({ cwd });
  return { deps, root: await repositoryRoot(deps, cwd) };
}

export async function load(
  context: Context,
  deps: Deps,
  root: string,
  flags: SourceFlags,
): Promise<readonly Issue[]> {
  const source = await openSource(deps, root, sourceOptions(flags));
  const { issues, warnings } = await source.list();
  for (const warning of warnings) context.log.warn(warning);
  return issues;
}

export interface PastBatch extends IssueRecord {
  readonly issue: string;
  readonly batch: string;
}

/** Newest first. */
export function historyOf(deps: Deps, root: string): readonly PastBatch[] {
  const live = liveBatch(deps, root);
  const found: PastBatch[] = [];
  for (const { issues, file, run_id: runId } of batchHistory(deps, root).batches()) {
    for (const [issue, record] of Object.entries(issues))
      found.push({ issue, batch: file.replace(/\.json$/, ""), ...seen(record, runId === live) });
  }
  return found;
}

/** A killed batch could not record that its issues are no longer worked on. */
export function seen(record: IssueRecord, isLive: boolean): IssueRecord {
  const ended = isLive || ["completed", "failed", "interrupted", "no_change", "left"].includes(record.status);
  return ended ? record : { ...record, status: "interrupted" };
}

const STATE_PAINT = {
  running: "cyan",
  waiting: "cyan",
  checking: "cyan",
  passed: "green",
  completed: "green",
  failed: "red",
  interrupted: "yellow",
  no_change: "red",
  left: "dim",
} as const;

export function printHistory(
  context: Context,
  history: readonly PastBatch[],
  nowMs: number,
  mayGo?: readonly string[],
): void {
  context.print("");
  printTable(context, historyTable(history, nowMs, widthLimit(context.terminal), mayGo), (line, at) =>
    paint(context.terminal, STATE_PAINT[history[at]?.status ?? "interrupted"], line),
  );
}

/** For each issue the last gate result, if it failed. */
export function printGates(context: Context, history: readonly PastBatch[]): void {
  const newest = [...new Map(history.toReversed().map((past) => [past.issue, past])).values()];
  const failed = newest.map(({ issue, gate }) => ({
    id: issue,
    gate: gate === null || gate.passed ? null : gate.detail,
  }));
  for (const line of gateLines(failed)) context.print(line);
}

export function printLeaves(context: Context, leaves: readonly LeftIssue[], nowMs: number): void {
  for (const line of leaveLines(leaves, widthLimit(context.terminal), nowMs)) context.print(line);
}

/** Loaded only if needed: it imports the options of another command. */
export const goOns = () => import("./issues-go-on.ts");

/** The directory, if a command must name it. */
export const placeOf = (root: string, { cwd }: { readonly cwd?: string }) =>
  cwd === undefined ? null : root;

export function printGoOn(context: Context, goOn: GoOn | null): void {
  if (goOn === null) return;
  context.print(`\nContinue it: ${harmlessLine(goOn.command)}`);
  if (goOn.byHand !== "") context.print(goOn.byHand);
}
