/**
 * Writes a run into one file for others, an archive or a page, outside of the state directory, whole or not at all. The caller
 * has redacted the contents.
 */
import { closeSync, fsyncSync, linkSync, realpathSync, renameSync, unlinkSync } from "node:fs";
import { dirname, isAbsolute, relative, sep } from "node:path";
import { gzipSync } from "node:zlib";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import {
  lstat,
  notOurs,
  removeQuietly,
  storageFault,
  syncDirectory,
  temporaryPath,
  writeFully,
  openNew,
} from "./files.ts";

export interface BundleEntry {
  /** A path below the archive's folder: ASCII, at most 99 bytes. */
  readonly name: string;
  readonly data: Buffer;
}

export interface BundleOptions {
  readonly force: boolean;
  /** The state directory; nothing in it is created or replaced. */
  readonly outside: string;
  readonly nowMs: number;
}

const BLOCK = 512;

/** Returns the file's size. */
export async function writeBundle(
  path: string,
  entries: AsyncIterable<BundleEntry>,
  options: BundleOptions,
): Promise<number> {
  return writeShared(path, packed(entries, options.nowMs), options);
}

async function* packed(entries: AsyncIterable<BundleEntry>, nowMs: number): AsyncGenerator<Buffer> {
  // Concatenated gzip files are one gzip file.
  for await (const { name, data } of entries) {
    const rest = (BLOCK - (data.length % BLOCK)) % BLOCK;
    yield gzipSync(Buffer.concat([header(name, data.length, nowMs), data, Buffer.alloc(rest)]));
  }
  yield gzipSync(Buffer.alloc(2 * BLOCK));
}

/** Returns the file's size. Refuses a link in its place, even with `force`. */
export async function writeShared(
  path: string,
  parts: AsyncIterable<Buffer>,
  { force, outside }: Omit<BundleOptions, "nowMs">,
): Promise<number> {
  assertOutside(path, outside);
  assertFree(path, force);
  const temporary = temporaryPath(dirname(path));
  try {
    const fd = openNew(temporary);
    let size = 0;
    try {
      for await (const part of parts) {
        writeFully(fd, part);
        size += part.length;
      }
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    if (force) renameSync(temporary, path);
    else {
      // A link, since a rename would replace a file that appeared in the meantime.
      linkSync(temporary, path);
      unlinkSync(temporary);
    }
    syncDirectory(dirname(path));
    return size;
  } catch (error) {
    removeQuietly(temporary);
    if (isErrno(error, "EEXIST")) throw taken(path);
    throw storageFault(error, "write", path);
  }
}

function assertOutside(path: string, directory: string): void {
  let real: string;
  try {
    real = relative(realpathSync(directory), realpathSync(dirname(path)));
  } catch (error) {
    throw storageFault(error, "write", path);
  }
  if (real.split(sep)[0] === ".." || isAbsolute(real)) return;
  throw new Fault(
    "usage",
    `${path} is in the state directory, where only Reprise's own files are. Name another place.`,
    {
      facts: { path },
    },
  );
}

function assertFree(path: string, force: boolean): void {
  const stats = lstat(path);
  if (stats === null) return;
  if (stats.isSymbolicLink()) throw notOurs(path, "it is a symbolic link", "Name the file itself.");
  if (!stats.isFile()) throw notOurs(path, "it is not a regular file", "Name another one.");
  if (!force) throw taken(path);
}

function taken(path: string): Fault {
  return new Fault("usage", `${path} already exists. Name another file, or add --force to replace it.`, {
    facts: { path },
  });
}

/** A ustar header: a regular file, 0600, without an owner. */
function header(name: string, size: number, nowMs: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  const put = (text: string, at: number) => void block.write(text, at, "latin1");
  if (!/^[\x21-\x7e]{1,99}$/.test(name)) throw new Error(`not a name for a bundle: ${JSON.stringify(name)}`);
  put(name, 0);
  put(octal(0o600, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  put(octal(size, 11), 124);
  put(octal(Math.floor(nowMs / 1_000), 11), 136);
  // The checksum counts its own field as blanks.
  put("        ", 148);
  put("0", 156);
  put("ustar\u000000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(`${octal(sum, 6)} `, 148);
  return block;
}
