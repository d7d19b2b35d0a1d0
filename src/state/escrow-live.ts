/**
 * Second names for the file of a live conversation, in the run's `escrow/`: hard links `live-1`, `live-2`, …
 *
 * A link costs nothing, contains what the engine appends, and survives the file's deletion. Truncating the file
 * truncates the link as well, so links do not replace copies: they only complete the last copy.
 */
import {
  closeSync,
  fstatSync,
  linkSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { stringIn } from "../lib/json.ts";
import { escrowDirectory, type EscrowSource } from "./escrow.ts";
import { lstat, openOwn, readRecordOrNull, removeQuietly, writeAtomic } from "./files.ts";

const RECORD = "live.json";
const PIECE = /^live-(\d{1,6})$/;
/** How many bytes of the first lines of two files to compare. */
const BEGINNING = 4096;
/** How many bytes to compare at once. */
const COMPARED = 1024 * 1024;
/** Larger pieces are not joined while an agent works. */
const MAX_ASSEMBLED = 32 * 1024 * 1024;

export interface LiveSession {
  readonly session: string;
  /** Relative to the engine home. */
  readonly restoreTo: string;
}

export interface LivePiece {
  readonly path: string;
  readonly ino: number;
  readonly dev: number;
  readonly size: number;
  /** 1: our link is the only remaining name. */
  readonly names: number;
}

/** Records the conversation of the following links. Removes links of another conversation. */
export function beginLive(runDirectory: string, live: LiveSession): void {
  const before = liveSession(runDirectory);
  if (before?.session === live.session && before.restoreTo === live.restoreTo) return;
  // Links without a record belong to the file that has just appeared.
  if (before !== null) endLive(runDirectory);
  writeAtomic(join(escrowDirectory(runDirectory), RECORD), JSON.stringify({ v: 1, ...live }));
}

/** Null: no live conversation when the last attempt ended or died. */
export function liveSession(runDirectory: string): LiveSession | null {
  const record = readRecordOrNull(join(runDirectory, "escrow", RECORD)) ?? undefined;
  const [session, restoreTo] = [stringIn(record, "session"), stringIn(record, "restoreTo")];
  return session === undefined || restoreTo === undefined ? null : { session, restoreTo };
}

/** False: no file to link, not our file, or a file system without hard links. */
export function linkPiece(runDirectory: string, from: string): boolean {
  const to = join(escrowDirectory(runDirectory), `live-${(numbers(runDirectory).at(-1) ?? 0) + 1}`);
  try {
    const fd = openOwn(from);
    if (fd === null) return false;
    closeSync(fd);
    linkSync(from, to);
    if (lstatSync(to).isFile()) return true;
    removeQuietly(to);
    return false;
  } catch (error) {
    if (error instanceof Fault || isErrno(error)) return false;
    throw error;
  }
}

/** Oldest first. */
export function livePieces(runDirectory: string): readonly LivePiece[] {
  return numbers(runDirectory).flatMap((n) => {
    const found = fileAt(join(runDirectory, "escrow", `live-${n}`));
    return found === null ? [] : [found];
  });
}

export function fileAt(path: string): LivePiece | null {
  const stats = lstat(path);
  if (stats?.isFile() !== true) return null;
  const { ino, dev, size, nlink } = stats;
  return { path, ino, dev, size, names: nlink };
}

/**
 * Every conversation that the files hold, the newest last, each as its parts: the file with its beginning, then what the
 * engine wrote after the file was deleted under it, which begins differently. A file that begins alike replaces the
 * earlier parts only if it contains all their bytes: an engine's file can return from a backup, shorter than before.
 */
export function wholesOf(pieces: readonly LivePiece[]): readonly (readonly LivePiece[])[] {
  let wholes: readonly (readonly LivePiece[])[] = [];
  for (const piece of pieces) {
    const last = wholes.at(-1);
    if (piece.size === 0) continue;
    if (last === undefined) wholes = [[piece]];
    else if (!wholes.some(([first]) => first !== undefined && beginAlike(first.path, piece.path)))
      wholes = [...wholes.slice(0, -1), [...last, piece]];
    else if (!wholes.some((whole) => holdsPieces(whole, [piece])))
      wholes = [...wholes.filter((whole) => !holdsPieces([piece], whole)), [piece]];
  }
  return wholes;
}

/** Whether these files, joined, begin with all bytes of the others. False in doubt. */
export function holdsPieces(whole: readonly LivePiece[], pieces: readonly LivePiece[]): boolean {
  const size = sizeOf(pieces);
  if (sizeOf(whole) < size) return false;
  for (let at = 0; at < size; at += COMPARED) {
    const length = Math.min(COMPARED, size - at);
    const [ours, theirs] = [bytesAt(whole, at, length), bytesAt(pieces, at, length)];
    if (ours.length !== length || !ours.equals(theirs)) return false;
  }
  return true;
}

function sizeOf(pieces: readonly LivePiece[]): number {
  return pieces.reduce((sum, { size }) => sum + size, 0);
}

/** Bytes of the joined files; fewer than `length` if a file is unreadable or became shorter. */
function bytesAt(pieces: readonly LivePiece[], start: number, length: number): Buffer {
  const found: Buffer[] = [];
  let begin = 0;
  for (const { path, size } of pieces) {
    const from = Math.max(0, start - begin);
    const to = Math.min(size, start + length - begin);
    if (from < to) found.push(bytesOf(path, from, to - from));
    begin += size;
  }
  return Buffer.concat(found);
}

/** Restores the conversation that the engine lost. False: a file exists there, or restoring failed. */
export function putBackLive(runDirectory: string, whole: readonly LivePiece[], to: string): boolean {
  const [only] = whole;
  if (only === undefined) return false;
  try {
    linkSync(whole.length === 1 ? only.path : assembled(runDirectory, whole), to);
    return true;
  } catch (error) {
    if (error instanceof Fault || isErrno(error)) return false;
    throw error;
  }
}

/** Joins the parts into one file, which becomes the newest piece. */
function assembled(runDirectory: string, whole: readonly LivePiece[]): string {
  if (sizeOf(whole) > MAX_ASSEMBLED)
    throw new Fault("storage_failed", "The parts of the session are too long to join.");
  const path = join(runDirectory, "escrow", `live-${(numbers(runDirectory).at(-1) ?? 0) + 1}`);
  writeFileSync(path, Buffer.concat(whole.map((piece) => readFileSync(piece.path))), {
    mode: 0o600,
    flag: "wx",
  });
  return path;
}

export function sourceOf(whole: readonly LivePiece[], restoreTo: string): EscrowSource | null {
  const paths = whole.map(({ path }) => path);
  const path = paths.pop();
  return path === undefined ? null : { path, restoreTo, before: paths };
}

/** The conversation is copied or abandoned: removes its links, then the record. */
export function endLive(runDirectory: string): void {
  const directory = join(runDirectory, "escrow");
  for (const n of numbers(runDirectory)) removeQuietly(join(directory, `live-${n}`));
  if (lstat(join(directory, RECORD)) !== null) removeQuietly(join(directory, RECORD));
}

function numbers(runDirectory: string): readonly number[] {
  try {
    return readdirSync(join(runDirectory, "escrow"))
      .flatMap((name) => PIECE.exec(name)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b);
  } catch (error) {
    if (isErrno(error)) return [];
    throw error;
  }
}

function beginAlike(one: string, other: string): boolean {
  const [a, b] = [beginning(one), beginning(other)];
  const length = Math.min(a.length, b.length);
  return a.subarray(0, length).equals(b.subarray(0, length));
}

/** The first line tells whether a file has the beginning of a conversation: the lines after it may go different ways. */
function beginning(path: string): Buffer {
  const bytes = bytesOf(path, 0, BEGINNING);
  const end = bytes.indexOf("\n");
  return end === -1 ? bytes : bytes.subarray(0, end + 1);
}

function bytesOf(path: string, start: number, length: number): Buffer {
  const fd = openOwn(path);
  if (fd === null) return Buffer.alloc(0);
  try {
    const bytes = Buffer.alloc(Math.max(0, Math.min(length, fstatSync(fd).size - start)));
    return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, start));
  } finally {
    closeSync(fd);
  }
}
