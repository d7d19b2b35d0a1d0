/**
 * Where the bytes of a session are: in the engine's own files, and in the links of an attempt that is live or was killed.
 *
 * After a crash the engine's file may be gone, shorter, or another file that begins alike. What the links hold is given up
 * only where another file contains all of it.
 */
import { basename, join } from "node:path";
import {
  fileAt,
  holdsPieces,
  type LivePiece,
  livePieces,
  liveSession,
  sourceOf,
  wholesOf,
} from "../../state/escrow-live.ts";
import type { EscrowSource } from "../../state/escrow.ts";
import type { RunRecord } from "../../core/records.ts";
import { sessionFiles, sessionFilesWith } from "../../drivers/drivers.ts";
import type { Engine } from "../../engines/engine.ts";
import { copiesOf } from "./copies.ts";

export interface LinkedSession {
  readonly engine: Engine;
  readonly home: string;
  readonly run: RunRecord;
  readonly session: string;
}

export interface NotTaken {
  /** Why the current files have no copy. Null: nothing to copy. */
  readonly skipped: string | null;
}

const NOTHING: NotTaken = { skipped: null };

export interface Sources {
  readonly files: readonly EscrowSource[];
  readonly rights?: readonly string[];
  /** The engine does not have all that the links hold. */
  readonly linked: boolean;
  /** Other conversations that the links hold, none of which contains another. */
  readonly apart: readonly EscrowSource[];
}

/** The engine's own files; where they were lost, cut short or replaced while the agent worked, what our links hold of them. */
export async function sourcesOf(place: LinkedSession): Promise<Sources | NotTaken> {
  const { engine, home, run, session } = place;
  if (!engine.can.readStore) return NOTHING;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  const present = located.state === "present" && located.files.length > 0 ? located : null;
  const live = liveSession(run.runDirectory);
  const pieces = live?.session === session ? livePieces(run.runDirectory) : [];
  if (live === null || pieces.length === 0)
    return present === null
      ? NOTHING
      : { files: present.files, linked: false, apart: [], ...rightsIn(present) };
  if (located.state === "unknown") return { skipped: located.why };
  const own = present?.files[0] ?? { path: join(home, live.restoreTo), restoreTo: live.restoreTo };
  const there = fileAt(own.path);
  const wholes = wholesWith(pieces, there).toReversed();
  const [newest, ...earlier] = present === null ? await usable(place, own.path, wholes) : wholes.map(asItIs);
  const source = newest === undefined ? null : sourceOf(newest.whole, own.restoreTo);
  if (newest === undefined || source === null) return NOTHING;
  const { files, ...rights } = present === null ? newest : { files: present.files, ...rightsIn(present) };
  return {
    files: [source, ...files.slice(1)],
    linked: there === null || !holdsPieces([there], newest.whole),
    apart: earlier.flatMap(({ whole }) => sourceOf(whole, own.restoreTo) ?? []),
    ...rightsIn(rights),
  };
}

interface Whole {
  readonly whole: readonly LivePiece[];
  /** All files of the session, as if this one were in the engine's place. */
  readonly files: readonly EscrowSource[];
  readonly rights?: readonly string[];
}

function asItIs(whole: readonly LivePiece[]): Whole {
  return { whole, files: [] };
}

/** What the engine itself would not take for a conversation is not worth a copy. */
async function usable(
  { engine, home, run, session }: LinkedSession,
  path: string,
  wholes: readonly (readonly LivePiece[])[],
): Promise<readonly Whole[]> {
  const found: Whole[] = [];
  for (const whole of wholes) {
    const as = sessionFilesWith(path, whole[0]?.path ?? path);
    const was = await engine.locate(session, { home, cwd: run.cwd }, as);
    if (was.state === "present") found.push({ whole, files: was.files, ...rightsIn(was) });
    else if (was.state !== "unusable") found.push(asItIs(whole));
  }
  return found;
}

/** A file of the engine's that went another way than the links stays where it is: only the links need a copy. */
function wholesWith(pieces: readonly LivePiece[], there: LivePiece | null): ReturnType<typeof wholesOf> {
  const linked = wholesOf(pieces);
  if (there === null || pieces.some((piece) => isSameFile(piece, there))) return linked;
  const all = wholesOf([...pieces, there]);
  return linked.length > 0 && all.length > linked.length ? linked : all;
}

/** A link of an attempt that was killed, with bytes that neither the engine's session nor a copy of the run has; null: none. */
export async function uncopiedLink(engine: Engine, run: RunRecord, home: string): Promise<string | null> {
  const wholes = wholesOf(livePieces(run.runDirectory));
  const live = liveSession(run.runDirectory);
  // Links without a record belong to a file that had just appeared.
  if (live === null) return wholes.flat().find(({ names }) => names === 1)?.path ?? null;
  const { session } = live;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  const own = located.state === "present" ? located.files[0]?.path : undefined;
  const path = own ?? join(home, live.restoreTo);
  const copies = copiesOf(run).map(({ files }) =>
    join(run.runDirectory, "escrow", basename(files[0]?.file ?? "")),
  );
  const holders = [path, ...copies].flatMap((one) => fileAt(one) ?? []);
  const left = wholes.filter((whole) => !holders.some((holder) => holdsPieces([holder], whole)));
  const [first] = await usable({ engine, home, run, session }, path, left);
  return first?.whole.at(-1)?.path ?? null;
}

function rightsIn({ rights }: { readonly rights?: readonly string[] }): Pick<Sources, "rights"> {
  return rights === undefined ? {} : { rights };
}

function isSameFile(one: LivePiece, other: LivePiece): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}
