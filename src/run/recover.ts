/**
 * The session id of an attempt whose owner died: read again from the tape, then looked for in the engine's store.
 */
import { attemptDir, readStream } from "../audit/audit.ts";
import type { Stream } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord, SeenSession } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import type { Engine } from "../engines/engine.ts";
import { LineSplitter } from "../lib/lines.ts";
import { observe, sessionOf, settle } from "./conversation.ts";
import { type Deps, isoNow } from "./deps.ts";
import { findEngine } from "./engine-setup.ts";

/** Ids stand at the beginning of a tape; nobody waits for gigabytes to be read again. */
const SCAN_BYTES = 8 * 1024 * 1024;
const LINE_BYTES = 1024 * 1024;

interface Recovered {
  readonly run: Pick<RunRecord, "session" | "sessions">;
  readonly reported: readonly SeenSession[];
  readonly diagnostics: readonly string[];
}

export async function recoverSession(deps: Deps, run: RunRecord, attempt: AttemptRecord): Promise<Recovered> {
  const unchanged: Recovered = { run, reported: attempt.reported, diagnostics: [] };
  if (attempt.reported.length > 0) return unchanged;
  try {
    const engine = findEngine(deps, run.agentName);
    const seen =
      (await fromTape(deps, engine, run, attempt)) ?? (await fromStore(deps, engine, run, attempt));
    if (seen === null)
      return { ...unchanged, diagnostics: ["no session id was printed before Reprise died"] };
    const reported = observe(attempt.reported, seen);
    const { session } = settle(reported, new Set());
    return {
      run: {
        sessions: observe(run.sessions, seen),
        session: sessionOf(engine.session.field, session, run.session),
      },
      reported,
      diagnostics: [`the session id was recovered from ${seen.source}`],
    };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ...unchanged, diagnostics: [error.message] };
  }
}

async function fromTape(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<SeenSession | null> {
  const reader = engine.reader(() => deps.clock.now());
  for (const stream of ["stdout", "stderr"] as const satisfies readonly Stream[]) {
    const lines = new LineSplitter(LINE_BYTES);
    let bytes = 0;
    for await (const chunk of readStream(attemptDir(run.runDirectory, attempt.n), stream)) {
      for (const line of lines.push(chunk)) {
        const found = reader.line(stream, line).find((event) => event.type === "session");
        if (found !== undefined)
          return seenNow(deps, attempt, found.session, attempt.mode === "pty" ? "pty-output" : stream);
      }
      bytes += chunk.length;
      if (bytes > SCAN_BYTES) break;
    }
  }
  return null;
}

/** Only when exactly one session was begun in this directory since the attempt started. */
async function fromStore(
  deps: Deps,
  engine: Engine,
  run: RunRecord,
  attempt: AttemptRecord,
): Promise<SeenSession | null> {
  if (run.engineHome === null || !engine.can.readStore) return null;
  const found = await engine.sessions({ home: run.engineHome, cwd: attempt.cwd }, sessionFiles());
  const since = Date.parse(attempt.startedAt) - 1_000;
  const mine = found.filter((session) => (session.createdAtMs ?? 0) >= since);
  const [only] = mine;
  return mine.length === 1 && only !== undefined ? seenNow(deps, attempt, only.id, "store") : null;
}

function seenNow(
  deps: Deps,
  attempt: AttemptRecord,
  value: string,
  source: SeenSession["source"],
): SeenSession {
  const at = isoNow(deps);
  return { value, source, at, attempt: attempt.n, verifiedAt: at };
}
