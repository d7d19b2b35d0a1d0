/**
 * The record of a batch: `issues/<repository>/<started>_<id8>.json`, replaced atomically at every change. Only the
 * batch's own process writes it. Changes during a write go to disk together with the next one.
 */
import { join } from "node:path";
import type { StateDir } from "../state/directory.ts";
import { checkOwnDirectory, makeDirectory, writeAtomicAsync } from "../state/files.ts";
import type { DeniedCall, Tokens } from "../core/events.ts";
import { arrayIn, fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";
import { redactValue, type Redact } from "../lib/secrets.ts";
import { readSent, type SentIssue } from "./prompt.ts";
import { repositorySlug } from "./repository.ts";

/**
 * running: an agent works on it, or is about to. waiting: for the end of the engine's limit. checking: its gate runs.
 * passed: only the closing is missing. The others are ends: `--resume` continues `interrupted`, `failed` and `no_change`
 * (the agent ended its turn and no file differs). left: a person set its status while its agent worked; it continues
 * when it is opened again.
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

/** The detail in `gate` of unchecked work. */
export const NO_GATE = "no gate is configured";

/** The record of one issue in one batch. The names are public. */
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
  /** With `--merge`: the branch that its work goes to. Null: none. */
  readonly merge_into: string | null;
  readonly attempts: number;
  /** The gate's last result. Null: it has not run. */
  readonly gate: { readonly passed: boolean; readonly detail: string } | null;
  /** Findings that the next turn begins with. */
  readonly findings: readonly string[];
  readonly error: string | null;
  /** The tree when the work began or restarted. Null: git cannot tell. */
  readonly tree: string | null;
  /** Tool calls since then. Null: the engine does not report all of them. */
  readonly tools: number | null;
  /** Calls that the engine refused: then only a changed file counts as work. */
  readonly denied: readonly DeniedCall[];
  /** Digests of the text that the agent got. Null: nothing yet. */
  readonly sent: SentIssue | null;
  readonly tokens: Tokens | null;
  readonly started_at: string;
  readonly finished_at: string | null;
}

/** An issue that a batch left alone. The names are public. */
export interface LeftIssue {
  readonly id: string;
  readonly why: string;
  readonly handle: string | null;
  readonly branch: string | null;
  /** The arguments after `reprise issues run --resume` that resume it. Null: no such command. */
  readonly go_on: readonly string[] | null;
}

export interface BatchRecord {
  readonly run_id: string;
  readonly started_at: string;
  readonly completed_at: string | null;
  /** Ids of the planned issues. Absent: an earlier version wrote it. */
  readonly planned?: readonly string[];
  /** Number of planned issues that did not begin; known at its end. */
  readonly left: number;
  /** These issues, and issues that the source has lost. Absent: not ended, or an earlier version wrote it. */
  readonly leaves?: readonly LeftIssue[];
  /** The arguments after `reprise issues run --resume` that continue it. Null: nothing to continue. */
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
  /** Null: it has not begun in this batch. */
  issue(id: string): IssueRecord | null;
  /** On disk when it resolves. The next write repeats a failed one. */
  update(id: string, change: Partial<IssueRecord> & Pick<IssueRecord, "status">): Promise<void>;
  complete(
    end: Required<Pick<BatchRecord, "left" | "leaves" | "go_on">> & { readonly at: string },
  ): Promise<void>;
}

export const MAX_METADATA_BYTES = 64 * 1024 * 1024;

/** It may not exist yet. */
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

/** Resolves when its first version is on disk. */
export async function beginBatch(
  directory: string,
  first: Omit<BatchRecord, "issues">,
  redact: Redact,
): Promise<Batch> {
  const path = join(directory, `${first.run_id}.json`);
  let head = { ...first, config: redactValue(first.config, redact) };
  const issues = new Map<string, IssueRecord>();
  // A change concerns one of many issues, so the text of the others is cached.
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

/** `prior.ts` reads the first keys in this order, without parsing the file. */
function textOf(head: Omit<BatchRecord, "issues">, issues: Iterable<string>): string {
  const fields = JSON.stringify(head, null, 1).slice(0, -"\n}".length);
  return `${fields},\n "issues": {\n${[...issues].map((text) => `  ${text}`).join(",\n")}\n }\n}\n`;
}

/** One write at a time: calls during a write share the next one. */
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
  merge_into: null,
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

/** Replaces invalid fields by defaults. Null: not a batch's metadata. */
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
    merge_into: textOrNull(entry, "merge_into"),
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
    tokens: tokens === undefined ? null : readTokens(tokens),
    started_at: stringIn(entry, "started_at") ?? "",
    finished_at: textOrNull(entry, "finished_at"),
  };
}

function readTokens(tokens: JsonObject): Tokens {
  const part = (name: "cached" | "reasoning" | "costUsd") => {
    const count = numberIn(tokens, name);
    return count === undefined ? {} : { [name]: count };
  };
  const model = stringIn(tokens, "model");
  return {
    input: numberIn(tokens, "input") ?? 0,
    output: numberIn(tokens, "output") ?? 0,
    ...part("cached"),
    ...part("reasoning"),
    ...part("costUsd"),
    ...(model === undefined ? {} : { model }),
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
