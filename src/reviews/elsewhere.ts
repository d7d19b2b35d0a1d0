/**
 * Copies attempts of a session's run that no review made (`reprise resume <handle>`) from the run's records into the
 * session's sidecar and transcript.
 *
 * The run is the truth: if a process dies before it writes the session's files, the next look writes them.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkOwnDirectory } from "../state/files.ts";
import { readStream } from "../state/logs.ts";
import { attemptDir } from "../state/runs.ts";
import { Fault, unlessFault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { LineSplitter } from "../lib/lines.ts";
import type { Deps, Watch } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { sidecarsIn } from "./discovery.ts";
import type { PullRequest } from "./review.ts";
import { nameStart, openSession, type SessionFile, statusAfter, whyOf } from "./sidecar.ts";
import { openTranscript, RESUMED, type Transcript } from "./transcript.ts";

const MAX_LINE = 16 * 1024 * 1024;

/**
 * For a run that is about to be resumed by its handle: marks its session as running once the attempt is recorded. The
 * caller disposes of the result after the attempt, whatever its outcome. Neither can block the run.
 */
export async function followSession(
  deps: Deps,
  run: RunRecord,
  watch: Pick<Watch, "recorded">,
): Promise<AsyncDisposable | null> {
  const directory = join(deps.state.root, "reviews");
  if (!checkOwnDirectory(directory)) return null;
  const own = sessionsIn(directory, "").filter(({ record }) => record.handle === run.handle);
  watch.recorded = () => {
    for (const session of own) orWarn(deps, () => session.update({ status: "running", finished_at: null }));
  };
  return {
    [Symbol.asyncDispose]: async () => {
      for (const { path } of own) await catchUp(deps, path);
    },
  };
}

export async function catchUpAll(deps: Deps, directory: string, pullRequest: PullRequest): Promise<void> {
  for (const { path, record } of sessionsIn(directory, nameStart(pullRequest))) {
    // A finished session from a version without a count of attempts gives no sign of later attempts.
    if (record.attempts !== null || record.status === "running") await catchUp(deps, path);
  }
}

function sessionsIn(directory: string, start: string): readonly SessionFile[] {
  const names = sidecarsIn(directory).filter((name) => name.toLowerCase().startsWith(start.toLowerCase()));
  // The search for sessions reports an unusable one.
  return names.flatMap((name) => unlessFault(() => [openSession(join(directory, name))], []));
}

async function catchUp(deps: Deps, path: string): Promise<void> {
  try {
    const session = openSession(path);
    const run = await selectRun(deps, session.record.handle);
    const attempts = await deps.store.listAttempts(run.runId);
    const told = session.record.attempts ?? run.attempts;
    for (const attempt of attempts.filter(({ n }) => n > told))
      await copyEndedAttempt(deps, session, run, attempt);
    correctStatus(session, run, attempts.at(-1));
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (error.code !== "handle_unknown" && error.code !== "record_damaged")
      deps.log.warn(`Reprise could not update a review session: ${error.message}`);
  }
}

/** Skips a running attempt: it is taken over as a whole later. */
async function copyEndedAttempt(
  deps: Deps,
  session: SessionFile,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<void> {
  const { n, outcome } = attempt;
  if (attempt.state !== "ended" || outcome === null || run.status === "running") return;
  if (!isCopied(session.transcript, n)) {
    using transcript = openTranscript(session.transcript, deps.clock);
    await copyAttempt(transcript, run, attempt);
  }
  const thread = run.session.value ?? session.record.thread_id;
  const isAnother = session.record.thread_id !== null && thread !== session.record.thread_id;
  // Another conversation has none of the comments and no approvals.
  const fresh = isAnother ? { sent_comments: [], approvals: [] } : {};
  session.update({ attempts: n, thread_id: thread, ...fresh });
  session.end(statusAfter(outcome), attempt.endedAt ?? attempt.startedAt, outcome);
}

/** The transcript has this attempt to its end: a kill came between it and the sidecar. */
function isCopied(path: string, n: number): boolean {
  try {
    const end = new RegExp(`^\\{"t":"[^"]+","type":"attempt_ended","attempt":${n},`, "m");
    return end.test(readFileSync(path, "utf8"));
  } catch {
    return false;
  }
}

async function copyAttempt(transcript: Transcript, run: RunRecord, attempt: AttemptRecord): Promise<void> {
  const { n, kind, startedAt, endedAt, outcome, mode } = attempt;
  const directory = attemptDir(run.runDirectory, n);
  if (kind === "resume") {
    const thread = { thread_id: attempt.asked ?? "", handle: run.handle };
    transcript.remark({
      type: "session_resumed",
      text: RESUMED,
      ...thread,
      attempt: n,
      started_at: startedAt,
    });
  } else {
    const text = `attempt ${n} of run ${run.handle} began a new conversation (${kind}) at ${startedAt}`;
    transcript.remark({ type: "note", text });
  }
  if (attempt.message !== null) transcript.remark({ type: "message", attempt: n, text: attempt.message });
  if (mode === "pipe" && !attempt.interactive) await copyLines(transcript, directory);
  else
    transcript.remark({ type: "note", text: `what attempt ${n} showed on its terminal is in ${directory}` });
  const status = outcome?.result ?? "interrupted";
  const reason = outcome === null ? "" : whyOf(outcome);
  transcript.remark({ type: "attempt_ended", attempt: n, status, reason, ended_at: endedAt });
}

async function copyLines(transcript: Transcript, directory: string): Promise<void> {
  const splitter = new LineSplitter(MAX_LINE);
  try {
    for await (const chunk of readStream(directory, "stdout"))
      for (const line of splitter.push(chunk)) transcript.line("in", line);
    for (const line of splitter.end()) transcript.line("in", line);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    transcript.remark({ type: "note", text: `what Codex said is missing: ${error.message}` });
  }
}

/** A session marked running whose run is over ends as its run did; a session whose run is working is running. */
function correctStatus(session: SessionFile, run: RunRecord, last: AttemptRecord | undefined): void {
  const { status } = session.record;
  if (run.status === "running") {
    if (status !== "running") session.update({ status: "running", finished_at: null });
    return;
  }
  if (status !== "running" || last?.state !== "ended" || last.outcome === null) return;
  session.end(statusAfter(last.outcome), last.endedAt ?? last.startedAt, last.outcome);
}

function orWarn(deps: Deps, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    deps.log.warn(`Reprise could not update a review session: ${error.message}`);
  }
}
