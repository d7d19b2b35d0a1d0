/**
 * Copies a session into the run directory, from the engine's files, from the links to them, or by the engine's export.
 * The caller records the copy.
 */
import { join } from "node:path";
import {
  continuesCopy,
  type EscrowSource,
  fileAt,
  keepEscrow,
  keepEscrowText,
  type LivePiece,
  livePieces,
  liveSession,
  sourceOf,
  wholeOf,
} from "../../state/state.ts";
import type { Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { sessionFiles, sessionFilesWith } from "../../drivers/drivers.ts";
import type { Engine } from "../../engines/engine.ts";
import { continuesFile, lastCopyOf, sameFile } from "./copies.ts";
import { damageOf } from "./look-up.ts";
import type { Deps } from "../deps.ts";
import type { EngineSetup } from "../engine-setup.ts";

interface Copying {
  readonly engine: Engine;
  readonly home: string;
  readonly run: RunRecord;
  readonly session: string;
  /** Also what is shorter than in the last copy. */
  readonly asIs?: true;
}

export interface Taken {
  readonly escrow: Escrow;
  /** Files that the session depends on and that are shorter than in the last copy. The new copy keeps the longer content. */
  readonly longer: readonly string[];
  /** The new copy lacks something in the run's last copy of this session. */
  readonly lacks: boolean;
}

export interface NotTaken {
  /** Why the session was not copied. Null: nothing to copy. */
  readonly skipped: string | null;
}

/** Copies the session. The caller records the copy. */
export function copyNow(
  deps: Deps,
  setup: Pick<EngineSetup, "engine" | "program" | "env"> & { readonly home: string },
  of: Exporting,
): Promise<Taken | NotTaken> {
  const { engine, home } = setup;
  return engine.transfer === undefined
    ? copyFiles(deps, { engine, home, ...of })
    : exportSession(deps, setup, of);
}

export async function copyFiles(deps: Deps, copying: Copying): Promise<Taken | NotTaken> {
  const { run, session } = copying;
  const sources = await sourcesOf(copying);
  if (sources === null) return { skipped: null };
  const kept = await keepEscrow(run.runDirectory, {
    session,
    files: sources.files,
    limitBytes: deps.config.escrowLimitBytes,
    clock: deps.clock,
  });
  if ("skipped" in kept) return kept;
  const before = lastCopyOf(run, session);
  const rights = sources.rights ?? before?.rights;
  const { files, longer } =
    copying.asIs === true || before === null
      ? { files: kept.files, longer: [] }
      : await withLonger(run, before, kept.files);
  const escrow = { ...kept, files, ...(rights === undefined ? {} : { rights }) };
  return { escrow, longer, lacks: await lacksPart(run, before, escrow) };
}

/** A file that a session depends on belongs to another conversation, which may be cut short. The copy keeps the longer content. */
async function withLonger(
  run: RunRecord,
  before: Escrow,
  [own, ...others]: readonly EscrowFile[],
): Promise<{ readonly files: readonly EscrowFile[]; readonly longer: readonly string[] }> {
  const files = new Map(others.map((file) => [file, file]));
  const longer: string[] = [];
  const lost: EscrowFile[] = [];
  for (const had of before.files.slice(1)) {
    const has = sameFile(others, had);
    const isHeld = has !== undefined && (await continuesFile(run, has, had));
    if (isHeld || (await damageOf(run, { ...before, files: [had] })) !== null) continue;
    if (has === undefined) lost.push(had);
    else {
      files.set(has, { ...had, restoreTo: has.restoreTo });
      longer.push(has.restoreTo ?? "");
    }
  }
  return { files: [...(own === undefined ? [] : [own]), ...files.values(), ...lost], longer };
}

interface Sources {
  readonly files: readonly EscrowSource[];
  readonly rights?: readonly string[];
}

/** The engine's own files. If they were lost or began again while the agent worked, the content of the links. */
export async function sourcesOf({ engine, home, run, session }: Copying): Promise<Sources | null> {
  if (!engine.can.readStore) return null;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  const present = located.state === "present" && located.files.length > 0 ? located : null;
  const rights = present === null ? {} : rightsIn(present);
  const live = liveSession(run.runDirectory);
  const pieces = livePieces(run.runDirectory);
  const own = live === null ? null : join(home, live.restoreTo);
  const elsewhere = present !== null && present.files[0]?.path !== own;
  if (live === null || own === null || live.session !== session || pieces.length === 0 || elsewhere)
    return present === null ? null : { files: present.files, ...rights };
  if (located.state === "unknown" || (located.state === "unusable" && !located.damaged)) return null;
  const there = fileAt(own);
  const unseen = there !== null && !pieces.some((piece) => isSameFile(piece, there));
  const whole = wholeOf(unseen ? [...pieces, there] : pieces);
  const source = sourceOf(whole, live.restoreTo);
  const [first] = whole;
  if (source === null || first === undefined) return null;
  if (present !== null) return { files: [source, ...present.files.slice(1)], ...rights };
  const was = await engine.locate(session, { home, cwd: run.cwd }, sessionFilesWith(own, first.path));
  // Reprise does not copy a file that the engine itself rejects.
  if (was.state === "unusable") return null;
  if (was.state !== "present") return { files: [source] };
  return { files: [source, ...was.files.slice(1)], ...rightsIn(was) };
}

function rightsIn({ rights }: { readonly rights?: readonly string[] }): Pick<Sources, "rights"> {
  return rights === undefined ? {} : { rights };
}

function isSameFile(one: LivePiece, other: LivePiece): boolean {
  return one.ino === other.ino && one.dev === other.dev;
}

/** Whether the new copy does not begin with the last one, although such files only ever grow. */
async function lacksPart(run: RunRecord, before: Escrow | null, escrow: Escrow): Promise<boolean> {
  const [had, has] = [before?.files[0], escrow.files[0]];
  if (had === undefined || has === undefined) return false;
  return !(await continuesCopy(join(run.runDirectory, "escrow", has.file), had));
}

export interface Exporting {
  readonly run: RunRecord;
  readonly session: string;
  /** Also what is shorter than in the last copy. */
  readonly asIs?: true;
  /** Cancels the export. */
  readonly signal?: AbortSignal;
}

/** Uses the engine's own command. The engine may delete messages, so an export may lack something in the last one. */
async function exportSession(
  deps: Deps,
  setup: Pick<EngineSetup, "engine" | "program" | "env"> & { readonly home: string },
  { run, session, signal }: Exporting,
): Promise<Taken | NotTaken> {
  const { home, engine } = setup;
  const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
  // A conversation without a message needs no copy.
  if (located.state === "unusable") return { skipped: null };
  const [file, ...first] = setup.program;
  const args = engine.transfer?.exportArgs(session) ?? [];
  const result = await deps.processes.runTool(file, [...first, ...args], {
    cwd: run.cwd,
    env: { ...setup.env, PWD: run.cwd },
    timeoutMs: 60_000,
    maxBytes: deps.config.escrowLimitBytes,
    ...(signal === undefined ? {} : { signal }),
  });
  if (result.code !== 0 || result.timedOut) return { skipped: null };
  const { clock } = deps;
  const escrow = keepEscrowText(run.runDirectory, { session, text: result.stdout, clock });
  return { escrow, longer: [], lacks: false };
}
