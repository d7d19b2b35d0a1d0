/**
 * Checks for `doctor` that every run's directory is whole and agrees with the index. Reads only, and leaves a live run to
 * its owner. Each finding names what helps.
 */
import { join } from "node:path";
import { checkEscrow } from "../../state/escrow.ts";
import { fileSize, isEmptyDirectory } from "../../state/places.ts";
import {
  attemptDir,
  listAttemptDirs,
  listRunDirs,
  loadAttemptFile,
  loadReceipt,
  loadRunFile,
  readAgentFile,
} from "../../state/runs.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import type { Deps } from "../deps.ts";
import { isUnbegun } from "../resume/never-began.ts";
import { whyNotResumable } from "../resume/resumable.ts";

export interface Finding {
  /** attention: the user should act. note: for information. */
  readonly level: "attention" | "note";
  readonly about: "config" | "engines" | "state" | "index" | "runs" | "reviews" | "tools";
  readonly what: string;
  /** The command to type. Null: none. */
  readonly todo: string | null;
}

export const REBUILD = "reprise doctor --rebuild-index";
/** An unreadable record may belong to work, so no finding advises to remove it. */
const UPDATE = "update Reprise; the run was left as it is";
const NOT_OURS = "look at it, then put the directory itself there or move it away";
/** The most findings that are listed. The rest is counted. */
const MOST = 20;
/** Copies up to this size are read completely. For larger ones the size is checked. `show` reads all. */
const READ_COPY = 1024 * 1024;

interface Places extends Pick<Deps, "state" | "store"> {
  /** The command to continue a run, as `show` offers it. */
  offer(run: RunRecord): Promise<string>;
}

export async function checkRuns(
  deps: Places,
  rows: readonly RunRecord[],
  onProgress: (text: string) => void,
): Promise<readonly Finding[]> {
  const { runIds, odd } = listRunDirs(deps.state);
  const known = new Map(rows.map((row) => [row.runId, row]));
  const directories = new Set(runIds);
  const lost: string[] = [];
  const behind: string[] = [];
  const single: Finding[] = [];
  for (const [at, runId] of runIds.entries()) {
    if (at > 0 && at % 1_000 === 0) onProgress(`checked ${at} of ${runIds.length} run directories`);
    const row = known.get(runId);
    // Written atomically, and not by the owner of the run, so it can be checked while the run is live.
    single.push(...(await checkAgent(deps, join(deps.state.runsRoot, runId))));
    if (row?.status === "running") continue;
    const checked = await checkRun(deps, join(deps.state.runsRoot, runId), row ?? null);
    const isFine = checked.findings.length === 0 && checked.index === "agrees";
    if (!isFine && (await hasMoved(deps, runId, row))) continue;
    single.push(...checked.findings);
    if (checked.index === "lost") lost.push(runId);
    if (checked.index === "behind") behind.push(runId.slice(-8));
  }
  const without = rows.filter(({ runId, status }) => !directories.has(runId) && status !== "running");
  single.push(...without.filter(isUnbegun).map(unbegun));
  const gone = without.filter((row) => !isUnbegun(row)).map(({ handle }) => handle);
  const together = [
    several(lost, ["run directory is not", "run directories are not"], "in the index", REBUILD),
    several(behind, ["run has", "runs have"], "more in the run directory than in the index", REBUILD),
    several(
      gone,
      ["run has", "runs have"],
      "no run directory any more",
      `reprise rm ${gone.slice(0, MOST).join(" ")}`,
    ),
  ].flat();
  for (const { path, why } of odd)
    single.push(attention(`${path} does not belong there: ${why}`, "look at it, then move it elsewhere"));
  const urgent = (one: Finding) => Number(one.level === "attention");
  single.sort((one, other) => urgent(other) - urgent(one));
  const [next] = single.slice(MOST);
  const more = `and ${single.length - MOST} more findings about runs`;
  return [
    ...together,
    ...single.slice(0, MOST),
    ...(next === undefined ? [] : [{ ...next, what: more, todo: null }]),
  ];
}

interface Checked {
  readonly findings: readonly Finding[];
  /** lost: the index lacks a usable run. behind: the index lacks a part of it. */
  readonly index: "agrees" | "lost" | "behind";
}

async function checkRun(deps: Places, directory: string, row: RunRecord | null): Promise<Checked> {
  const file = await reasonOr(() => loadRunFile(directory));
  if (file === null || typeof file === "string") {
    const why = file ?? "it has no run.json";
    if (isNewer(why)) return { findings: [attention(why, UPDATE)], index: "agrees" };
    if (row === null) {
      return { findings: [unusable(directory, why)], index: "agrees" };
    }
    if (file === null && isUnbegun(row)) return { findings: [unbegun(row)], index: "agrees" };
    const what = `run ${row.handle}: ${why}; the index has its record, and the next attempt writes it again`;
    const copy = await checkCopies(deps, directory, row);
    const next =
      whyNotResumable(row) === null ? `reprise resume ${row.handle} "…"` : `reprise show ${row.handle}`;
    const todo = copy[0]?.todo ?? next;
    return { findings: [attention(what, todo), ...copy], index: "agrees" };
  }
  const attempts = await checkAttempts(deps, directory, file);
  const findings = [...attempts.findings, ...(await checkCopies(deps, directory, file))];
  if (row === null) return { findings, index: "lost" };
  const hasMore = file.updatedAt > row.updatedAt || file.attempts > row.attempts;
  if (row.updatedAt > file.updatedAt && row.session.value !== file.session.value) {
    const what = `run ${row.handle}: its run.json is older than the index and has another session`;
    findings.push(attention(what, `reprise show ${row.handle}`));
  }
  return { findings, index: hasMore || attempts.unknown ? "behind" : "agrees" };
}

/** The run has changed since its row was read, so the finding is void. */
async function hasMoved({ store }: Places, runId: string, row: RunRecord | undefined): Promise<boolean> {
  const now = await reasonOr(() => store.getRun(runId));
  if (now === null || typeof now === "string") return false;
  return now.status === "running" || now.updatedAt !== row?.updatedAt;
}

/** The row comes first, then the directory, then `run.json`: a crash in between loses nothing. */
function unbegun({ handle }: RunRecord): Finding {
  return note(`run ${handle} was recorded but never started`);
}

async function checkAttempts(
  deps: Places,
  directory: string,
  { runId, handle }: RunRecord,
): Promise<{ readonly findings: readonly Finding[]; readonly unknown: boolean }> {
  const findings: Finding[] = [];
  const rows = (await reasonOr(() => deps.store.listAttempts(runId))) ?? [];
  // The check of the index reports a damaged row.
  const indexed = new Map(typeof rows === "string" ? [] : rows.map((row) => [row.n, row]));
  const there = await reasonOr(async () => listAttemptDirs(directory));
  if (typeof there === "string") {
    return { findings: [attention(`run ${handle}: ${there}`, NOT_OURS)], unknown: false };
  }
  let unknown = false;
  for (const n of there) {
    const called = `attempt ${n} of run ${handle}`;
    const misplaced = await reasonOr(async () => void attemptDir(directory, n));
    if (typeof misplaced === "string") {
      findings.push(attention(`${called}: ${misplaced}`, NOT_OURS));
      continue;
    }
    const record = await reasonOr(() => loadAttemptFile(directory, n));
    const receipt = await reasonOr(() => loadReceipt(directory, n));
    if (record === null) findings.push(note(`${called} has no meta.json`));
    const files = { "meta.json": record, "receipt.json": receipt };
    for (const [name, found] of Object.entries(files)) {
      if (typeof found !== "string") continue;
      const path = join(attemptDir(directory, n), name);
      const kept = name === "meta.json" && indexed.has(n) ? "; the index still has this record" : "";
      const todo = isNewer(found) ? UPDATE : `mv '${path}' '${path}.damaged'`;
      findings.push(attention(`${called}: ${found}${kept}`, todo));
    }
    unknown ||= record !== null && typeof record !== "string" && !indexed.has(n);
  }
  for (const { n, state } of indexed.values()) {
    if (there.includes(n)) continue;
    const what = state === "intended" ? "was recorded but never started" : "has lost its directory";
    findings.push(note(`attempt ${n} of run ${handle} ${what}`));
  }
  return { findings, unknown };
}

async function checkAgent({ store }: Places, directory: string): Promise<readonly Finding[]> {
  const path = join(directory, "agent.json");
  if (fileSize(path) === null) return [];
  const found = await reasonOr(() => readAgentFile(directory));
  if (typeof found !== "string") return [];
  const handle = directory.slice(-8);
  if (isNewer(found)) return [attention(`agent ${handle}: ${found}`, UPDATE)];
  const known = await reasonOr(() => store.getDocument("agent", handle));
  const kept =
    known === null || typeof known === "string"
      ? "the index does not have this agent either"
      : "the index still has this agent";
  return [attention(`agent ${handle}: ${found}; ${kept}`, `mv '${path}' '${path}.damaged'`)];
}

function unusable(directory: string, why: string): Finding {
  const what = `${directory} cannot be used, and the index does not have it: ${why}`;
  const copies = join(directory, "escrow");
  const todo = `look at it (ls -lA '${directory}'), and move what you do not want here elsewhere`;
  return attention(
    isEmptyDirectory(copies) ? what : `${what}; the copy of its session is in ${copies}`,
    todo,
  );
}

/** Recognized by the text of `schema_newer`. */
function isNewer(why: string): boolean {
  return why.includes("it needs a newer Reprise: ");
}

async function checkCopies(deps: Places, directory: string, run: RunRecord): Promise<readonly Finding[]> {
  return [...(await checkCopy(deps, directory, run)), ...(await checkKept(directory, run))];
}

/** An earlier copy cannot be made again: its additional content is lost with it. */
async function checkKept(directory: string, { handle, kept = [] }: RunRecord): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const copy of kept) {
    const why = await reasonOr(() => copyDamage(directory, copy));
    if (why === null) continue;
    const what = `run ${handle}: an earlier copy, of session ${harmlessLine(copy.session, 200)}, is damaged (${why}) and cannot be restored`;
    findings.push(attention(what, `reprise show ${handle}`));
  }
  return findings;
}

async function checkCopy(deps: Places, directory: string, run: RunRecord): Promise<readonly Finding[]> {
  const { handle, escrow, engineHome } = run;
  if (escrow === null) return [];
  const why = await reasonOr(() => copyDamage(directory, escrow));
  if (why === null) return [];
  const restoreTo = escrow.files[0]?.restoreTo ?? null;
  const original = engineHome === null || restoreTo === null ? null : join(engineHome, restoreTo);
  if (original !== null && fileSize(original) === null) {
    const lost = `run ${handle}: the copy of its session is damaged (${why}), and the engine's own is gone from ${original}`;
    return [attention(lost, await deps.offer(run))];
  }
  const what = `run ${handle}: the copy of its session is damaged (${why}); the next attempt takes a new one`;
  return [attention(what, await deps.offer(run))];
}

async function copyDamage(directory: string, escrow: Escrow): Promise<string | null> {
  if (escrow.files.every(({ size }) => size <= READ_COPY)) {
    await checkEscrow(directory, escrow);
    return null;
  }
  const wrong = escrow.files.find(({ file, size }) => fileSize(join(directory, "escrow", file)) !== size);
  return wrong === undefined ? null : `${wrong.file} is gone or has another size`;
}

/** The value, or why it cannot be read. */
async function reasonOr<T>(work: () => Promise<T>): Promise<T | string> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { path, why } = error.facts;
    return typeof path === "string" && typeof why === "string" ? `${path}: ${why}` : error.message;
  }
}

function several(
  names: readonly string[],
  [one, many]: readonly [string, string],
  what: string,
  todo: string,
): readonly Finding[] {
  if (names.length === 0) return [];
  const some = names.length <= 5 ? names.join(", ") : `${names.slice(0, 5).join(", ")}, …`;
  return [attention(`${names.length} ${names.length === 1 ? one : many} ${what}: ${some}`, todo)];
}

function attention(what: string, todo: string | null): Finding {
  return { level: "attention", about: "runs", what, todo };
}

function note(what: string): Finding {
  return { level: "note", about: "runs", what, todo: null };
}
