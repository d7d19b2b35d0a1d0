/**
 * Copies a session into the run directory, from the engine's files, from the links to them, or by the engine's export.
 * The caller records the copy.
 */
import { join } from "node:path";
import { continuesCopy, type EscrowSource, keepEscrow, keepEscrowText } from "../../state/escrow.ts";
import type { Escrow, EscrowFile, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import { continuesFile, lastCopyOf, sameFile } from "./copies.ts";
import { damageOf } from "./look-up.ts";
import type { Deps } from "../deps.ts";
import type { EngineSetup } from "../engine-setup.ts";
import { type NotTaken, type LinkedSession, type Sources, sourcesOf } from "./sources.ts";

interface Copying extends LinkedSession {
  /** Copies files that are shorter than in the last copy as well. */
  readonly asIs?: true;
}

export interface Taken extends Pick<Sources, "linked" | "apart"> {
  readonly escrow: Escrow;
  /** Files that the session depends on and that are shorter than in the last copy. The new copy keeps the longer content. */
  readonly longer: readonly string[];
  /** The new copy lacks something in the run's last copy of this session. */
  readonly lacks: boolean;
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
  if ("skipped" in sources) return sources;
  const kept = await keepEscrow(run.runDirectory, askFor(deps, session, sources.files));
  if ("skipped" in kept) return kept;
  const before = lastCopyOf(run, session);
  const rights = sources.rights ?? before?.rights;
  const { files, longer } =
    copying.asIs === true || before === null
      ? { files: kept.files, longer: [] }
      : await withLonger(run, before, kept.files);
  const escrow = { ...kept, files, ...(rights === undefined ? {} : { rights }) };
  const { linked, apart } = sources;
  return { escrow, longer, lacks: await lacksPart(run, before, escrow), linked, apart };
}

function askFor(
  deps: Deps,
  session: string,
  files: readonly EscrowSource[],
): Parameters<typeof keepEscrow>[1] {
  return { session, files, limitBytes: deps.config.escrowLimitBytes, clock: deps.clock };
}

export interface CopiedApart {
  readonly copies: readonly Escrow[];
  /** Not all could be copied. */
  readonly failed: boolean;
}

/** Copies of what the links hold beside the newest conversation: the engine's file was replaced under the agent. */
export async function copyApart(deps: Deps, run: RunRecord, { escrow, apart }: Taken): Promise<CopiedApart> {
  const copies: Escrow[] = [];
  let failed = false;
  for (const source of apart) {
    const kept = await keepEscrow(run.runDirectory, askFor(deps, escrow.session, [source]));
    if ("skipped" in kept) {
      failed = true;
      deps.log.warn(`Reprise kept no copy of an earlier file of the session: ${kept.skipped}`);
    } else copies.push({ ...kept, files: [...kept.files, ...escrow.files.slice(1)] });
  }
  return { copies, failed };
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

/** Whether the new copy does not begin with the last one, although such files only ever grow. */
async function lacksPart(run: RunRecord, before: Escrow | null, escrow: Escrow): Promise<boolean> {
  const [had, has] = [before?.files[0], escrow.files[0]];
  if (had === undefined || has === undefined) return false;
  return !(await continuesCopy(join(run.runDirectory, "escrow", has.file), had));
}

export interface Exporting {
  readonly run: RunRecord;
  readonly session: string;
  /** Copies files that are shorter than in the last copy as well. */
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
  return { escrow, longer: [], lacks: false, linked: false, apart: [] };
}
