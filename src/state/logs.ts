/** Reads an attempt's logs, once or while they grow. */
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { isOurs, notOurs, storageFault, READ_FLAGS } from "./files.ts";
import { LOG_FILES, type LogName } from "./tape.ts";

const CHUNK = 64 * 1024;
const POLL_MS = 100;

export interface ReadOptions {
  readonly fromByte?: number;
  readonly tailBytes?: number;
}

/** The log's current content, up to its end. The chunks are not reused. */
export async function* readStream(
  attemptDirectory: string,
  log: LogName,
  options: ReadOptions = {},
): AsyncGenerator<Buffer, void, undefined> {
  await using file = await openLog(attemptDirectory, log);
  yield* readFrom(file, await startOf(file, options));
}

export interface FollowOptions extends ReadOptions {
  /** Called between reads: once true, the rest is read to its end, without further waiting. */
  readonly ended: () => boolean | Promise<boolean>;
  readonly signal?: AbortSignal;
}

/** Continues until the attempt has ended or the signal aborts. A log that became shorter is read again. */
export async function* followStream(
  attemptDirectory: string,
  log: LogName,
  options: FollowOptions,
): AsyncGenerator<Buffer, void, undefined> {
  await using file = await openLog(attemptDirectory, log);
  let at = await startOf(file, options);
  while (options.signal?.aborted !== true) {
    const last = await options.ended();
    if ((await file.stat()).size < at) at = 0;
    for await (const chunk of readFrom(file, at)) {
      at += chunk.length;
      yield chunk;
    }
    if (last) return;
    await wait(POLL_MS, undefined, options.signal === undefined ? {} : { signal: options.signal }).catch(
      () => {},
    );
  }
}

async function* readFrom(file: FileHandle, from: number): AsyncGenerator<Buffer, void, undefined> {
  let at = from;
  for (;;) {
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.allocUnsafe(CHUNK), position: at });
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function startOf(file: FileHandle, { fromByte = 0, tailBytes }: ReadOptions): Promise<number> {
  if (tailBytes === undefined) return fromByte;
  return Math.max(fromByte, (await file.stat()).size - tailBytes);
}

async function openLog(attemptDirectory: string, log: LogName): Promise<FileHandle> {
  const path = join(attemptDirectory, LOG_FILES[log]);
  let file: FileHandle;
  try {
    file = await open(path, READ_FLAGS);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) {
      throw new Fault("attempt_unknown", `The file ${path} does not exist.`, { facts: { path } });
    }
    if (isErrno(error, "ELOOP")) throw notOurs(path, "it is a symbolic link", "Remove it.");
    throw storageFault(error, "read", path);
  }
  const stats = await file.stat();
  if (stats.isFile() && isOurs(stats)) return file;
  await file.close();
  throw notOurs(path, "it is not a file of ours", "Remove it.");
}
