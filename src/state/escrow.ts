/**
 * Copies of the engine's session files, kept with the run in case the engine loses its own.
 *
 * A copy's name begins with its SHA-256, so a new copy never replaces the copy that `run.json` still names: the record
 * is saved first, then the old copy goes if the new one contains all of it. Writes only inside the run directory.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  createReadStream,
  fstatSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { basename, isAbsolute, join, normalize } from "node:path";
import type { Clock } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { Escrow, EscrowFile } from "../core/records.ts";
import {
  checkOwnDirectory,
  damaged,
  makeDirectory,
  openOwn,
  removeQuietly,
  storageFault,
  syncDirectory,
  temporaryPath,
  writeAtomic,
} from "./files.ts";
import { fileSize } from "./places.ts";

export interface EscrowAsk {
  readonly session: string;
  /** The engine's files, the session's file first. */
  readonly files: readonly EscrowSource[];
  readonly limitBytes: number;
  readonly clock: Clock;
}

export interface EscrowSource {
  /** Absolute. */
  readonly path: string;
  readonly restoreTo: string;
  /** Files with the earlier parts, oldest first: the copy joins all of them. */
  readonly before?: readonly string[];
}

/** Never throws because of the engine's files or the disk: a run without a copy is still a run. */
export async function keepEscrow(
  runDirectory: string,
  ask: EscrowAsk,
): Promise<Escrow | { readonly skipped: string }> {
  const sources: (Source & { restoreTo: string })[] = [];
  try {
    const directory = escrowDirectory(runDirectory);
    for (const { path, restoreTo, before = [] } of ask.files) {
      const parts: Part[] = [];
      sources.push({ restoreTo, parts });
      for (const one of [...before, path]) {
        const fd = openOwn(one);
        if (fd === null) return { skipped: `${one} is gone` };
        parts.push({ fd, size: fstatSync(fd).size });
      }
    }
    const total = sources.reduce((sum, source) => sum + sizeOf(source), 0);
    if (total > ask.limitBytes) {
      return { skipped: `the session has ${total} bytes, more than the limit of ${ask.limitBytes}` };
    }
    const files: EscrowFile[] = [];
    for (const source of sources) {
      const copy = unchanged(directory, source) ?? (await copyInto(directory, source));
      files.push({ ...copy, restoreTo: source.restoreTo });
    }
    syncDirectory(directory);
    return { session: ask.session, files, takenAt: new Date(ask.clock.now()).toISOString() };
  } catch (error) {
    const fault = storageFault(error, "copy to", join(runDirectory, "escrow"));
    if (fault instanceof Fault) return { skipped: fault.message };
    throw fault;
  } finally {
    for (const { parts } of sources) for (const { fd } of parts) closeSync(fd);
  }
}

/** For engines without session files: the output of their export command. */
export function keepEscrowText(
  runDirectory: string,
  ask: { readonly session: string; readonly text: string; readonly clock: Clock },
): Escrow {
  const bytes = Buffer.from(ask.text);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const file = `${sha256}-session.json`;
  writeAtomic(join(escrowDirectory(runDirectory), file), bytes);
  return {
    session: ask.session,
    files: [{ file, restoreTo: null, size: bytes.length, sha256 }],
    takenAt: new Date(ask.clock.now()).toISOString(),
  };
}

/** Removes all copies except `copies`, once the record that names them is saved. */
export function dropOldEscrow(runDirectory: string, copies: readonly Escrow[]): void {
  const directory = escrowDirectory(runDirectory);
  const kept = new Set(copies.flatMap(({ files }) => files.map(({ file }) => file)));
  for (const name of readdirSync(directory)) {
    if (/^[0-9a-f]{64}-/.test(name) && !kept.has(name)) removeQuietly(join(directory, name));
  }
}

/** Limits hashing; longer copies are compared by length alone. */
const COMPARE_BYTES = 64 * 1024 * 1024;

/** Whether this engine file begins with the whole copy. Only for files that only grow. */
export async function continuesCopy(path: string, copy: EscrowFile): Promise<boolean> {
  const fd = openOwn(path);
  if (fd === null) return false;
  try {
    if (fstatSync(fd).size < copy.size) return false;
    return copy.size > COMPARE_BYTES || (await pump(fd, copy.size, async () => {})) === copy.sha256;
  } finally {
    closeSync(fd);
  }
}

function missing(path: string): Fault {
  const why = "the copy is missing";
  const what = `${path} cannot be used: ${why}; the session file was not changed.`;
  return new Fault("record_damaged", what, { facts: { path, why } });
}

/** Describes a file of `escrow/` as if it were a copy. */
export async function describeCopy(path: string, restoreTo: string): Promise<EscrowFile> {
  const fd = openOwn(path);
  if (fd === null) throw missing(path);
  try {
    const { size } = fstatSync(fd);
    return { file: basename(path), restoreTo, size, sha256: await pump(fd, size, async () => {}) };
  } finally {
    closeSync(fd);
  }
}

export function copyPath(runDirectory: string, copy: EscrowFile): string {
  return join(runDirectory, "escrow", basename(copy.file));
}

/** The text of a copy, complete or not. Null: missing. */
export function readCopy(runDirectory: string, copy: EscrowFile): string | null {
  const fd = openOwn(join(runDirectory, "escrow", basename(copy.file)));
  if (fd === null) return null;
  try {
    return readFileSync(fd, "utf8");
  } finally {
    closeSync(fd);
  }
}

/** Nothing is left of the session's own file in this copy. */
export function isEmptied(runDirectory: string, { files: [own] }: Escrow): boolean {
  return own === undefined || (fileSize(join(runDirectory, "escrow", basename(own.file))) ?? 0) === 0;
}

/** Whether this engine file is the end of the copy and nothing else. Then restoring the copy loses nothing. */
export async function endsCopy(runDirectory: string, copy: EscrowFile, path: string): Promise<boolean> {
  const [ours, theirs] = [openOwn(join(runDirectory, "escrow", basename(copy.file))), openOwn(path)];
  try {
    if (ours === null || theirs === null) return false;
    const { size } = fstatSync(theirs);
    const from = fstatSync(ours).size - size;
    if (size === 0 || from <= 0 || size > COMPARE_BYTES) return false;
    return (await pump(theirs, size, async () => {})) === (await pump(ours, size, async () => {}, from));
  } finally {
    for (const fd of [ours, theirs]) if (fd !== null) closeSync(fd);
  }
}

export interface CheckedCopy {
  readonly path: string;
  /** Relative to the engine home, inside it. Null: restored by the engine's import command. */
  readonly restoreTo: string | null;
}

/** The copies, after size and checksum prove them complete. */
export async function checkEscrow(runDirectory: string, escrow: Escrow): Promise<readonly CheckedCopy[]> {
  const directory = join(runDirectory, "escrow");
  if (checkOwnDirectory(runDirectory)) checkOwnDirectory(directory);
  const checked: CheckedCopy[] = [];
  for (const { file, restoreTo, size, sha256 } of escrow.files) {
    const path = join(directory, basename(file));
    if (restoreTo !== null && (isAbsolute(restoreTo) || /^\.\.(?:\/|$)/.test(normalize(restoreTo)))) {
      throw damaged(path, "it would be restored outside the engine's home");
    }
    const fd = openOwn(path);
    if (fd === null) throw missing(path);
    try {
      const actual = fstatSync(fd).size;
      if (actual !== size) throw damaged(path, `it has ${actual} bytes instead of ${size}`);
      if ((await pump(fd, size, async () => {})) !== sha256) throw damaged(path, "its checksum is wrong");
    } finally {
      closeSync(fd);
    }
    checked.push({ path, restoreTo });
  }
  return checked;
}

export function escrowDirectory(runDirectory: string): string {
  const directory = join(runDirectory, "escrow");
  checkOwnDirectory(runDirectory);
  makeDirectory(directory);
  return directory;
}

type Copy = Omit<EscrowFile, "restoreTo">;
interface Source {
  readonly restoreTo: string;
  /** In order; the engine writes to the last one. */
  readonly parts: readonly Part[];
}
interface Part {
  readonly fd: number;
  readonly size: number;
}

function sizeOf({ parts }: Source): number {
  return parts.reduce((sum, { size }) => sum + size, 0);
}

/** A copy has the time of its original, so that an idle session is not copied again. */
function unchanged(directory: string, source: Source): Copy | null {
  const [only, ...more] = source.parts;
  if (only === undefined || more.length > 0) return null;
  const suffix = `-${copyName(source.restoreTo)}`;
  const { mtimeMs } = fstatSync(only.fd);
  for (const file of readdirSync(directory)) {
    if (!/^[0-9a-f]{64}-/.test(file) || file.slice(64) !== suffix) continue;
    const stats = lstatSync(join(directory, file));
    if (stats.isFile() && stats.size === only.size && Math.abs(stats.mtimeMs - mtimeMs) < 2) {
      return { file, size: only.size, sha256: file.slice(0, 64) };
    }
  }
  return null;
}

/** Copies only the bytes present at the start: the engine may be appending. */
async function copyInto(directory: string, source: Source): Promise<Copy> {
  const temporary = temporaryPath(directory);
  const hash = createHash("sha256");
  try {
    const target = await open(temporary, "wx", 0o600);
    try {
      for (const { fd, size } of source.parts) {
        await pump(fd, size, async (chunk) => {
          hash.update(chunk);
          await target.writeFile(chunk);
        });
        const { atimeMs, mtimeMs } = fstatSync(fd);
        await target.utimes(atimeMs / 1000, mtimeMs / 1000);
      }
      await target.datasync();
    } finally {
      await target.close();
    }
    const sha256 = hash.digest("hex");
    const file = `${sha256}-${copyName(source.restoreTo)}`;
    renameSync(temporary, join(directory, file));
    return { file, size: sizeOf(source), sha256 };
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
}

/** Passes on `size` bytes of a descriptor, by default the first ones, and returns their SHA-256. */
async function pump(
  fd: number,
  size: number,
  take: (chunk: Buffer) => Promise<void>,
  start = 0,
): Promise<string> {
  const hash = createHash("sha256");
  let seen = 0;
  if (size > 0) {
    const chunks: AsyncIterable<Buffer> = createReadStream("", {
      fd,
      autoClose: false,
      start,
      end: start + size - 1,
      highWaterMark: 256 * 1024,
    });
    for await (const chunk of chunks) {
      hash.update(chunk);
      seen += chunk.length;
      await take(chunk);
    }
  }
  if (seen !== size)
    throw new Fault("storage_failed", "The session file became shorter while it was copied.");
  return hash.digest("hex");
}

function copyName(restoreTo: string): string {
  return basename(restoreTo)
    .replaceAll(/[^\w.-]/g, "_")
    .slice(-100);
}
