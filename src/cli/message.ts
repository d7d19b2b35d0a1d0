/**
 * Reads the message from exactly one source, and rejects unusable ones.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { errorCode, isErrno } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";

/** More than any model accepts, and small enough for memory. */
const MAX_BYTES = 10 * 1024 * 1024;
/** The kernel's limit for one argument. */
const MAX_ARGUMENT = 128 * 1024;

export interface MessageSources {
  /** Words of the command line, already joined. Null: no words. */
  readonly words: string | null;
  readonly file: string | undefined;
  readonly stdin: boolean;
}

/** Null: no source was given. An empty or blank message is an error, never "no message". */
export async function readMessage(sources: MessageSources): Promise<string | null> {
  const named = [
    ...(sources.words === null ? [] : ["a message argument"]),
    ...(sources.file === undefined ? [] : ["--message-file"]),
    ...(sources.stdin ? ["--stdin"] : []),
  ];
  if (named.length > 1) {
    throw new Fault("usage", `Give the message once, not in several places: ${named.join(" and ")}.`);
  }
  if (sources.file !== undefined) return check(readMessageFile(sources.file), `in ${sources.file}`);
  if (sources.stdin) return check(decode(await readStdin(), "on stdin"), "on stdin");
  return sources.words === null ? null : check(sources.words, "argument");
}

function check(message: string, where: string): string {
  if (message.trim() === "") throw new Fault("message_invalid", `The message ${where} is empty.`);
  if (message.includes("\u0000"))
    throw new Fault("message_invalid", `The message ${where} contains a zero byte.`);
  if (/\p{Surrogate}/u.test(message))
    throw new Fault("message_invalid", `The message ${where} is not valid Unicode.`);
  if (where === "argument" && Buffer.byteLength(message) > MAX_ARGUMENT) {
    throw new Fault(
      "message_invalid",
      "The message is longer than an argument can be (128 KiB). Use --message-file or --stdin.",
    );
  }
  return message;
}

/** Regular files only: a FIFO or a device would block or never end. */
function readMessageFile(path: string): string {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    throw unreadable(path, error);
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile())
      throw new Fault("message_invalid", `The message file ${path} is not a regular file.`, {
        facts: { path },
      });
    if (stat.size > MAX_BYTES) throw tooLong(`in ${path}`);
    return decode(readFileSync(fd), `in ${path}`);
  } catch (error) {
    throw error instanceof Fault ? error : unreadable(path, error);
  } finally {
    closeSync(fd);
  }
}

function unreadable(path: string, error: unknown): Fault {
  const why = errorCode(error) ?? "unknown error";
  return new Fault("message_invalid", `The message file ${path} cannot be read (${why}).`, {
    facts: { path },
    cause: error,
  });
}

async function readStdin(): Promise<Buffer> {
  if (process.stdin.isTTY)
    throw new Fault("usage", "--stdin reads the message from a pipe or a file, and stdin is a terminal.");
  const chunks: Buffer[] = [];
  let size = 0;
  const refuse = (why: string) =>
    new Fault("message_invalid", `The message on stdin cannot be read (${why}).`);
  for await (const bytes of readable(process.stdin, refuse)) {
    size += bytes.length;
    if (size > MAX_BYTES) throw tooLong("on stdin");
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

/** The chunks of a stream; an error of a read becomes the given fault. For stdin, a directory is such an error: Node calls it empty. */
export async function* readable(
  stream: AsyncIterable<unknown>,
  refuse: (why: string) => Fault,
): AsyncGenerator<Buffer> {
  try {
    if (stream === process.stdin && fstatSync(0).isDirectory()) throw refuse("it is a directory");
    for await (const chunk of stream) yield Buffer.from(chunk as Buffer);
  } catch (error) {
    if (error instanceof Fault || !isErrno(error)) throw error;
    throw refuse(error.code);
  }
}

function decode(bytes: Buffer, where: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Fault("message_invalid", `The message ${where} is not valid UTF-8.`);
  }
}

function tooLong(where: string): Fault {
  return new Fault("message_invalid", `The message ${where} is longer than 10 MiB.`, {
    facts: { limit: MAX_BYTES },
  });
}
