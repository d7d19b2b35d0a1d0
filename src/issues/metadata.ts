/**
 * What is kept of a batch: `issues/<repository>/<started>_<id8>.json`, replaced whole at every change, so that a crash
 * loses nothing that was known. Written by one runner, read by everybody.
 *
 * Changes that come while the disk is busy with an earlier one are written together.
 */
import { join } from "node:path";
import { checkOwnDirectory, makeDirectory, type StateDir, writeAtomicAsync } from "../state/state.ts";
import type { DeniedCall, Tokens } from "../core/events.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { redactValue, type Redact } from "../lib/secrets.ts";
import { readSent, type SentIssue } from "./prompt.ts";
import { repositorySlug } from "./repository.ts";

/**
 * running: an agent works on it, or is about to. waiting: for the end of the engine's limit. checking: its gate runs. passed: only the closing is left. The others
 * are ends; `interrupted`, `failed` and `no_change` (the agent was done and no file differs) are taken up by `--resume`.
 * left: a person decided about it while its agent worked; it goes on when it is opened again.
 */
export const ISSUE_STATES = [
  "running",
  "waiting",
  "checking",
  "passed",
  "completed",
  "failed",
  "interrupted",
  "no_change",
  "left",
] as const;
export type IssueState = (typeof ISSUE_STATES)[number];

/** What stands in `gate` of work that no command has checked. */
export const NO_GATE = "no gate is configured";

/** What is known of one issue in one batch. The names are public. */
export interface IssueRecord {
  readonly title: string;
  readonly status: IssueState;
  readonly engine: string;
  readonly session_id: string | null;
  /** Of the run, for `reprise resume`. */
  readonly handle: string | null;
  readonly agent_id: string | null;
  /** The commit that the work began from, at the first start ever. */
  readonly baseline_commit: string | null;
  readonly branch: string | null;
  readonly attempts: number;
  /** What the gate said last; null: it has not run. */
  readonly gate: { readonly passed: boolean; readonly detail: string } | null;
  /** What the next turn must begin with. */
  readonly findings: readonly string[];
  readonly error: string | null;
  /** What the files were when the work began, or began anew; null: git cannot tell. */
  readonly tree: string | null;
  /** Tool calls that its agents began since then; null: not all of them are seen. */
  readonly tools: number | null;
  /** Those that the engine refused, and the first of them by name: until a file has changed, nothing counts as done. */
  readonly denied: readonly DeniedCall[];
  /** What the agent was told of the issue; null: nothing yet. */
  readonly sent: SentIssue | null;
  readonly tokens: Tokens | null;
  readonly started_at: string;
  readonly finished_at: string | null;
}

/** An issue that a batch did nothing about. The names are public. */
export interface LeftIssue {
  readonly id: string;
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** Behind `reprise issues run --resume`: what takes it up. Null: no such command does. */
  readonly go_on: readonly string[] | null;
}

export interface BatchRecord {
  readonly run_id: string;
  readonly started_at: string;
  readonly completed_at: string | null;
  /** Ids of the issues that it set out to work on. Absent: an earlier version wrote it. */
  readonly planned?: readonly string[];
  /** How many issues it was to work on and did not begin; known at its end. */
  readonly left: number;
  /** Those, and work on issues that the source has lost. Absent: it has not ended, or an earlier version wrote it. */
  readonly leaves?: readonly LeftIssue[];
  /** Behind `reprise issues run --resume`: what goes on with something of it. Null: nothing is left to go on with. */
  readonly go_on?: readonly string[] | null;
  readonly repo_path: string;
  /** Of Reprise. */
  readonly version: string;
  readonly config: JsonObject;
  readonly issues: Readonly<Record<string, IssueRecord>>;
}

export interface Batch {
  readonly runId: string;
  readonly path: string;
  /** Null: it has not been begun in this batch. */
  issue(id: string): IssueRecord | null;
  /** On its way at once; on disk when it resolves. A write that fails is made up for by the next one. */
  update(id: string, change: Partial<IssueRecord> & Pick<IssueRecord, "status">): Promise<void>;
  complete(
    end: Required<Pick<BatchRecord, "left" | "leaves" | "go_on">> & { readonly at: string },
  ): Promise<void>;
}

export const MAX_METADATA_BYTES = 64 * 1024 * 1024;

/** Whether or not it is there. */
export function metadataDirectory(state: StateDir, repoPath: string): string {
  const all = join(state.root, "issues");
  const directory = join(all, repositorySlug(repoPath));
  if (checkOwnDirectory(all)) checkOwnDirectory(directory);
  return directory;
}

export function makeMetadataDirectory(state: StateDir, repoPath: string): string {
  makeDirectory(join(state.root, "issues"));
  const directory = metadataDirectory(state, repoPath);
  makeDirectory(directory);
  return directory;
}

/** `20260102T030405Z_1a2b3c4d` */
export function batchId(startedAtMs: number, id8: string): string {
  return `${new Date(startedAtMs).toISOString().replace(/[-:]|\.\d{3}/g, "")}_${id8}`;
}

/** Resolves when the first version of it is on disk. */
export async function beginBatch(
  directory: string,
  first: Omit<BatchRecord, "issues">,
  redact: Redact,
): Promise<Batch> {
  const path = join(directory, `${first.run_id}.json`);
  let head = { ...first, config: redactValue(first.config, redact) };
  const issues = new Map<string, IssueRecord>();
  // A batch has many issues, and a change is about one of them.
  const texts = new Map<string, string>();
  const save = coalesced(() => writeAtomicAsync(path, textOf(head, texts.values())));
  await save();
  return {
    runId: first.run_id,
    path,
    issue: (id) => issues.get(id) ?? null,
    async update(id, change) {
      const now = { ...(issues.get(id) ?? NEW_ISSUE), ...redactValue(withoutNullSession(change), redact) };
      issues.set(id, now);
      texts.set(id, `${JSON.stringify(id)}: ${JSON.stringify(now)}`);
      await save();
    },
    async complete({ at, ...end }) {
      head = { ...head, completed_at: at, ...redactValue(end, redact) };
      await save();
    },
  };
}

/** The order of the first keys is what makes looking through many of these files fast. */
function textOf(head: Omit<BatchRecord, "issues">, issues: Iterable<string>): string {
  const fields = JSON.stringify(head, null, 1).slice(0, -"\n}".length);
  return `${fields},\n "issues": {\n${[...issues].map((text) => `  ${text}`).join(",\n")}\n }\n}\n`;
}

/** One write at a time: whoever asks while one is under way shares the next. */
function coalesced(write: () => Promise<void>): () => Promise<void> {
  let current: Promise<void> = Promise.resolve();
  let next: Promise<void> | null = null;
  return () => {
    next ??= current
      .catch(() => {})
      .then(() => {
        next = null;
        current = write();
        return current;
      });
    return next;
  };
}

/** A known session id is never replaced by null (I3). */
function withoutNullSession(change: Partial<IssueRecord>): Partial<IssueRecord> {
  if (change.session_id !== null) return change;
  const { session_id: _none, ...rest } = change;
  return rest;
}

const NEW_ISSUE: IssueRecord = {
  title: "",
  status: "running",
  engine: "",
  session_id: null,
  handle: null,
  agent_id: null,
  baseline_commit: null,
  branch: null,
  attempts: 0,
  gate: null,
  findings: [],
  error: null,
  tree: null,
  tools: null,
  denied: [],
  sent: null,
  tokens: null,
  started_at: "",
  finished_at: null,
};

/** As much of it as is of the right kind; null: it is no metadata of a batch. */
export function readBatch(value: unknown): BatchRecord | null {
  const issues = objectIn(value, "issues");
  if (issues === undefined) return null;
  const records = Object.fromEntries(
    Object.entries(issues).flatMap(([id, entry]) => (isObject(entry) ? [[id, readIssue(entry)]] : [])),
  ) as Record<string, IssueRecord>;
  return {
    run_id: stringIn(value, "run_id") ?? "",
    started_at: stringIn(value, "started_at") ?? "",
    completed_at: textOrNull(value, "completed_at"),
    ...(Array.isArray(fieldIn(value, "planned")) ? { planned: textsIn(value, "planned") } : {}),
    left: numberIn(value, "left") ?? 0,
    ...readEnd(value),
    repo_path: stringIn(value, "repo_path") ?? "",
    version: stringIn(value, "version") ?? "",
    config: objectIn(value, "config") ?? {},
    issues: records,
  };
}

function readEnd(value: unknown): Pick<BatchRecord, "leaves" | "go_on"> {
  if (fieldIn(value, "go_on") === undefined) return {};
  const leaves = arrayIn(value, "leaves").map((entry) => ({
    id: stringIn(entry, "id") ?? "",
    why: stringIn(entry, "why") ?? "",
    handle: textOrNull(entry, "handle"),
    branch: textOrNull(entry, "branch"),
    go_on: wordsOrNull(entry),
  }));
  return { leaves, go_on: wordsOrNull(value) };
}

function wordsOrNull(value: unknown): readonly string[] | null {
  if (!Array.isArray(fieldIn(value, "go_on"))) return null;
  return textsIn(value, "go_on");
}

function textsIn(value: unknown, key: string): readonly string[] {
  return arrayIn(value, key).filter((word) => typeof word === "string");
}

export function readIssue(entry: JsonObject): IssueRecord {
  const gate = objectIn(entry, "gate");
  const tokens = objectIn(entry, "tokens");
  const status = stringIn(entry, "status");
  return {
    title: stringIn(entry, "title") ?? "",
    status: ISSUE_STATES.find((state) => state === status) ?? "interrupted",
    engine: stringIn(entry, "engine") ?? "",
    session_id: textOrNull(entry, "session_id"),
    handle: textOrNull(entry, "handle"),
    agent_id: textOrNull(entry, "agent_id"),
    baseline_commit: textOrNull(entry, "baseline_commit"),
    branch: textOrNull(entry, "branch"),
    attempts: numberIn(entry, "attempts") ?? 0,
    gate:
      gate === undefined
        ? null
        : { passed: fieldIn(gate, "passed") === true, detail: stringIn(gate, "detail") ?? "" },
    findings: arrayIn(entry, "findings").filter((finding) => typeof finding === "string"),
    error: textOrNull(entry, "error"),
    tree: textOrNull(entry, "tree"),
    tools: numberIn(entry, "tools") ?? null,
    denied: arrayIn(entry, "denied").flatMap(readDenied),
    sent: readSent(entry),
    tokens:
      tokens === undefined
        ? null
        : { input: numberIn(tokens, "input") ?? 0, output: numberIn(tokens, "output") ?? 0 },
    started_at: stringIn(entry, "started_at") ?? "",
    finished_at: textOrNull(entry, "finished_at"),
  };
}

function readDenied(call: unknown): readonly DeniedCall[] {
  const [name, detail] = [stringIn(call, "name"), stringIn(call, "detail")];
  return name === undefined ? [] : [{ name, ...(detail === undefined ? {} : { detail }) }];
}

function textOrNull(value: unknown, key: string): string | null {
  const text = stringIn(value, key);
  return text === undefined || text === "" ? null : text;
}
