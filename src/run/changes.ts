/**
 * What changed in a run's folder since an attempt began, by git. Writes nothing into the repository: a temporary index
 * and object directory outside it hold the folder as it is now.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { makeDirectory, temporaryPath } from "../state/files.ts";
import { isDirectory, spelled } from "../state/places.ts";
import type { Deps } from "./deps.ts";
import { type Git, type GitLimits, type GitOptions, MOST_LISTED, openGit } from "./git.ts";
import { capture, type CapturePlan, isFileAt, LARGE_BYTES, writeTree } from "./git/capture.ts";
import { assertPlainFiles } from "./git/listing.ts";
import { type FoundStart, findStart, isFresh } from "./git/snapshot.ts";

export interface ChangedFile {
  /** Relative to the top of the checkout. Untrusted text. */
  readonly path: string;
  readonly state: "added" | "deleted" | "changed" | "renamed";
  /** Of a renamed file: its path at the start. Untrusted text. */
  readonly from?: string;
  /** Git's modes at the start and now. Absent: the mode did not change. */
  readonly modes?: readonly [from: string, to: string];
  /** Null: a binary file, or a file without kept content. */
  readonly added: number | null;
  readonly deleted: number | null;
}

export interface Changes {
  readonly attempt: number;
  readonly top: string;
  /** The commit that was checked out at the start. Null: there was none. */
  readonly commit: string | null;
  /** True: nothing that was uncommitted at the start is included. */
  readonly exact: boolean;
  readonly files: readonly ChangedFile[];
  /** What the comparison includes or leaves out, one sentence each. Untrusted text. */
  readonly notes: readonly string[];
  /** Empty unless asked for. Untrusted text. */
  readonly patch: string;
}

/** A git that takes longer probably waits for something that never comes. */
const TIMEOUT_MS = 20_000;

interface Wanted {
  readonly attempt?: number;
  readonly patch: boolean;
  /** For each question to git. */
  readonly timeoutMs?: number;
  /** Ends git. The temporary files are removed before the Fault. */
  readonly signal?: AbortSignal;
}

export async function changesOf(deps: Deps, run: RunRecord, wanted: Wanted): Promise<Changes> {
  const attempt = await attemptFor(deps, run, wanted.attempt);
  const from = attempt.startedFrom;
  if (from === undefined)
    throw notComparable(
      run,
      `${run.cwd} was in no git repository that Reprise could read when the attempt began`,
    );
  if (!isDirectory(from.top)) throw notComparable(run, `${from.top} is gone`);
  assertPlainFiles(from.top);
  const limits = {
    timeoutMs: wanted.timeoutMs ?? TIMEOUT_MS,
    ...(wanted.signal === undefined ? {} : { signal: wanted.signal }),
  };
  const git = await openGit(deps, from.top, {}, limits);
  const start = isFresh(run, attempt) ? null : await findStart(run, attempt);
  const place = temporaryPath(deps.state.root);
  makeDirectory(place);
  try {
    const bases = [start?.record?.tree ?? null, from.commit] as const;
    const look = async (name: string, also: readonly string[]) => {
      makeDirectory(join(place, name));
      const now = await captureNow(git, { top: from.top, place: join(place, name), also, ...limits }, start);
      return { now, sides: await compareAny(git, now, bases, { run, patch: wanted.patch, limits }) };
    };
    const first = await look("now", []);
    // A rule that came later may make git ignore a file that counted at the start.
    const hidden = stillThere(from.top, first.sides.listed);
    const { now, sides } = hidden.length === 0 ? first : await look("again", hidden);
    const standIns = new Set([...(start?.record?.standIns ?? []), ...now.standIns]);
    const known = { attempt: attempt.n, top: from.top, commit: from.commit };
    const used = sides.skipped === 0 ? start : DAMAGED;
    return {
      ...known,
      exact: used === null || (used.record !== null && used.record.lateMs === undefined),
      files: filesIn(sides.listed, standIns),
      notes: notesOn(used, standIns, now.repositories),
      patch: Buffer.from(sides.patch, "latin1").toString(),
    };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

async function attemptFor(deps: Deps, run: RunRecord, n: number | undefined): Promise<AttemptRecord> {
  const attempts = await deps.store.listAttempts(run.runId);
  const found = attempts.find((one) => (n === undefined ? true : one.n === n));
  if (found !== undefined) return found;
  const facts = { handle: run.handle, ...(n === undefined ? {} : { attempt: n }) };
  throw new Fault("attempt_unknown", `Run ${run.handle} has no attempt${n === undefined ? "" : ` ${n}`}.`, {
    facts,
  });
}

function notComparable({ handle, cwd }: RunRecord, why: string): Fault {
  return new Fault(
    "cwd_invalid",
    `There is nothing to compare run ${handle} with: ${why}. \`reprise diff\` needs git.`,
    { facts: { handle, cwd } },
  );
}

interface Now {
  readonly tree: string;
  readonly env: Readonly<Record<string, string>>;
  readonly standIns: readonly string[];
  readonly repositories: readonly string[];
}

async function captureNow(
  git: Git,
  given: Pick<CapturePlan, "top" | "place" | "also" | "timeoutMs" | "signal">,
  start: FoundStart | null,
): Promise<Now> {
  const plan: CapturePlan = {
    ...given,
    objects: start?.objects ?? [],
    room: Infinity,
    mostPaths: Infinity,
    standIns: new Set(start?.record?.standIns),
    // Whatever happens meanwhile belongs to the time after the start.
    changingSince: () => null,
  };
  const captured = await capture(git, plan);
  return { ...captured, tree: await writeTree(git, plan, captured) };
}

/** Files that the list calls deleted or renamed, and that exist. */
function stillThere(top: string, listed: string): readonly string[] {
  const gone = [...listed.matchAll(/(?:^|\0):\d+ \d+ \S+ \S+ [DR]\d*\0([^\0]+)/g)].map(
    ([, path = ""]) => path,
  );
  return gone.filter((path) => isFileAt(top, path));
}

interface Sides {
  readonly listed: string;
  readonly patch: string;
  /** How many of the bases git could not read. */
  readonly skipped: number;
}

/** Compares with the first base that there is. The last one is the commit; null: there was none. */
async function compareAny(
  git: Git,
  { tree, env }: Now,
  [first, commit]: readonly [snapshot: string | null, commit: string | null],
  { run, patch, limits }: { readonly run: RunRecord; readonly patch: boolean; readonly limits: GitLimits },
): Promise<Sides> {
  const options: GitOptions = { env, encoding: "latin1", maxBytes: MOST_LISTED, ...limits };
  const sides = async (base: string, skipped: number): Promise<Sides> => ({
    listed: await compare(git, ["--raw", "--numstat", "-z", base, tree], options, run),
    patch: patch ? await compare(git, ["--patch", base, tree], options, run) : "",
    skipped,
  });
  if (first !== null) {
    try {
      return await sides(first, 0);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
    }
  }
  return sides(commit ?? (await emptyTree(git, options)), first === null ? 0 : 1);
}

async function emptyTree(git: Git, options: GitOptions): Promise<string> {
  return (await git(["hash-object", "-t", "tree", "-w", "--stdin"], options)).stdout.trim();
}

const FIXED = "diff-tree -r -M --full-index --no-ext-diff --no-textconv --no-color".split(" ");

async function compare(
  git: Git,
  args: readonly string[],
  options: GitOptions,
  { handle }: RunRecord,
): Promise<string> {
  const large = `core.bigFileThreshold=${LARGE_BYTES}`;
  const asked = await git(["-c", large, ...FIXED, ...args, "--"], options);
  if (asked.code === 0) return asked.stdout;
  const said = Buffer.from(asked.stderr, "latin1").toString().slice(0, 400).trim();
  const why = asked.timedOut ? "it needed too long" : said || "it was ended";
  throw new Fault("cwd_invalid", `git could not compare the folder of run ${handle}: ${why}`, {
    facts: { handle },
  });
}

const STATES: Readonly<Record<string, ChangedFile["state"]>> = { A: "added", D: "deleted", R: "renamed" };

/** What `diff-tree --raw --numstat -z` prints: every file once with its modes and once with its lines. Bytes are characters. */
export function filesIn(listed: string, standIns: ReadonlySet<string>): readonly ChangedFile[] {
  const fields = listed.split("\0");
  const files: (ChangedFile & { readonly bytes: string })[] = [];
  const counts = new Map<string, readonly [number | null, number | null]>();
  const text = (bytes: string) => spelled(Buffer.from(bytes, "latin1"));
  for (let at = 0; at < fields.length - 1; at += 1) {
    const field = fields[at] ?? "";
    const raw = /^:(\d+) (\d+) \S+ \S+ ([A-Z])/.exec(field);
    if (raw !== null) {
      const [, oldMode = "", newMode = "", letter = ""] = raw;
      const state = STATES[letter] ?? "changed";
      const old = fields[(at += 1)] ?? "";
      const bytes = state === "renamed" ? (fields[(at += 1)] ?? "") : old;
      const hasModes = oldMode !== newMode && state !== "added" && state !== "deleted";
      files.push({
        bytes,
        path: text(bytes),
        state,
        ...(state === "renamed" ? { from: text(old) } : {}),
        ...(hasModes ? { modes: [oldMode, newMode] as const } : {}),
        added: null,
        deleted: null,
      });
      continue;
    }
    const [added = "-", deleted = "-", ...rest] = field.split("\t");
    // The two names of a renamed file follow in separate fields.
    const path = rest.join("\t") === "" ? (fields[(at += 2)] ?? "") : rest.join("\t");
    const count = (digits: string) => (digits === "-" ? null : Number(digits));
    counts.set(path, [count(added), count(deleted)]);
  }
  return files.map(({ bytes, ...file }) => {
    const [added, deleted] = standIns.has(bytes) ? [null, null] : (counts.get(bytes) ?? [null, null]);
    return { ...file, added, deleted };
  });
}

const DAMAGED: FoundStart = { record: null, objects: [], why: "git cannot read it any more" };

const EARLIER =
  "compared with the commit at the start; changes that were uncommitted then are included, ignored files are not";

function notesOn(
  start: FoundStart | null,
  standIns: ReadonlySet<string>,
  repositories: readonly string[],
): readonly string[] {
  const notes: string[] = [];
  if (start !== null && start.record === null)
    notes.push(...(start.why === null ? [] : [`there is no snapshot of the start: ${start.why}`]), EARLIER);
  const { lateMs, unsure = [] } = start?.record ?? {};
  if (lateMs !== undefined) {
    const named = unsure.length === 0 ? "" : ` Earlier changes may be included of: ${names(unsure)}`;
    notes.push(
      `the agent had been at work for ${lateMs} ms when Reprise had read the folder; changes in that time may be missing.${named}`,
    );
  }
  const files = [...standIns].filter((path) => !repositories.includes(path));
  if (files.length > 0) notes.push(`compared without content, by size and time: ${names(files)}`);
  if (repositories.length > 0)
    notes.push(`repositories in the folder are compared by commit, not looked into: ${names(repositories)}`);
  return notes;
}

const MOST_NAMES = 5;

function names(paths: readonly string[]): string {
  const shown = paths.slice(0, MOST_NAMES).map((path) => spelled(Buffer.from(path, "latin1")));
  return `${shown.join(", ")}${paths.length > MOST_NAMES ? ", …" : ""}`;
}
