/**
 * What is kept of a batch: `issues/<repository>/<started>_<id8>.json`, rewritten whole at every change, so that a crash
 * loses nothing that was known. Written by one runner, read by everybody.
 */
import { join } from "node:path";
import { checkOwnDirectory, makeDirectory, type StateDir, writeAtomic } from "../audit/audit.ts";
import type { Tokens } from "../core/events.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { redactValue, type Redact } from "../lib/secrets.ts";
import { repositorySlug } from "./repository.ts";

/**
 * running: an agent works on it, or is about to. checking: its gate runs. passed: only the closing is left. The others
 * are ends; `interrupted` and `failed` are taken up by `--resume`.
 */
export const ISSUE_STATES = ["running", "checking", "passed", "completed", "failed", "interrupted"] as const;
export type IssueState = (typeof ISSUE_STATES)[number];

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
  readonly tokens: Tokens | null;
  readonly started_at: string;
  readonly finished_at: string | null;
}

export interface BatchRecord {
  readonly run_id: string;
  readonly started_at: string;
  readonly completed_at: string | null;
  readonly repo_path: string;
  /** Of Reprise. */
  readonly version: string;
  readonly config: JsonObject;
  readonly issues: Readonly<Record<string, IssueRecord>>;
}

export interface Batch {
  readonly record: BatchRecord;
  readonly path: string;
  /** On disk when it returns. */
  update(id: string, change: Partial<IssueRecord> & Pick<IssueRecord, "status">): void;
  complete(at: string): void;
}

export const MAX_METADATA_BYTES = 64 * 1024 * 1024;

export function metadataDirectory(state: StateDir, repoPath: string): string {
  return join(state.root, "issues", repositorySlug(repoPath));
}

export function makeMetadataDirectory(state: StateDir, repoPath: string): string {
  const directory = metadataDirectory(state, repoPath);
  for (const path of [join(state.root, "issues"), directory]) {
    if (!makeDirectory(path)) checkOwnDirectory(path);
  }
  return directory;
}

/** `20260102T030405Z_1a2b3c4d` */
export function batchId(startedAtMs: number, id8: string): string {
  return `${new Date(startedAtMs).toISOString().replace(/[-:]|\.\d{3}/g, "")}_${id8}`;
}

export function beginBatch(directory: string, first: BatchRecord, redact: Redact): Batch {
  const path = join(directory, `${first.run_id}.json`);
  let record = first;
  // The order of the first keys is what makes looking through many of these files fast.
  const save = () => writeAtomic(path, `${JSON.stringify(record, null, 1)}\n`);
  save();
  return {
    path,
    get record() {
      return record;
    },
    update(id, change) {
      const before = record.issues[id] ?? NEW_ISSUE;
      record = {
        ...record,
        issues: { ...record.issues, [id]: { ...before, ...redactValue(known(change), redact) } },
      };
      save();
    },
    complete(at) {
      record = { ...record, completed_at: at };
      save();
    },
  };
}

/** A known session id is never replaced by null (I3). */
function known(change: Partial<IssueRecord>): Partial<IssueRecord> {
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
  tokens: null,
  started_at: "",
  finished_at: null,
};

/** As much of it as is of the right kind; null: it is no metadata of a batch. */
export function readBatch(value: unknown): BatchRecord | null {
  const issues = objectIn(value, "issues");
  if (issues === undefined) return null;
  const records: Record<string, IssueRecord> = {};
  for (const [id, entry] of Object.entries(issues)) {
    if (isObject(entry)) records[id] = readIssue(entry);
  }
  return {
    run_id: stringIn(value, "run_id") ?? "",
    started_at: stringIn(value, "started_at") ?? "",
    completed_at: textOrNull(value, "completed_at"),
    repo_path: stringIn(value, "repo_path") ?? "",
    version: stringIn(value, "version") ?? "",
    config: objectIn(value, "config") ?? {},
    issues: records,
  };
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
    tokens:
      tokens === undefined
        ? null
        : { input: numberIn(tokens, "input") ?? 0, output: numberIn(tokens, "output") ?? 0 },
    started_at: stringIn(entry, "started_at") ?? "",
    finished_at: textOrNull(entry, "finished_at"),
  };
}

function textOrNull(value: unknown, key: string): string | null {
  const text = stringIn(value, key);
  return text === undefined || text === "" ? null : text;
}
