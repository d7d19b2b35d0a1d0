/**
 * Records of earlier batches about an issue. Batches and commands search metadata files only here.
 *
 * Thousands of files take milliseconds: each is read once per process into large buffers that are searched as a whole.
 * Its start time comes from its first bytes, and only a file that names the issue is parsed. Damaged files are reported
 * once and stay (I9).
 */
import { closeSync, fstatSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { errorCode, isErrno } from "../core/errno.ts";
import { removeQuietly, storageFault, openToRead } from "../state/files.ts";
import type { Log } from "../core/deps.ts";
import { hasDuplicateKeys, isObject, objectIn, parseJson, stringIn } from "../lib/json.ts";
import type { Deps } from "../run/run.ts";
import {
  type BatchRecord,
  type IssueRecord,
  MAX_METADATA_BYTES,
  metadataDirectory,
  readBatch,
  readIssue,
} from "./metadata.ts";

export interface PriorEntry extends IssueRecord {
  /** Its metadata file. */
  readonly file: string;
  /** When its batch began. */
  readonly batch_started_at: string;
}

/** The newest conversation that an engine had about an issue. */
export interface PriorSession extends PriorEntry {
  readonly session_id: string;
}

/** Null: no session, or only of other engines. */
export function lookupPriorSession(
  deps: Pick<Deps, "state" | "log">,
  repoPath: string,
  issueId: string,
  engine: string,
): PriorSession | null {
  for (const entry of batchHistory(deps, repoPath).entries(issueId, engine)) {
    if (entry.session_id !== null) return { ...entry, session_id: entry.session_id };
  }
  return null;
}

const folders = new WeakMap<Pick<Deps, "state">["state"], Map<string, BatchHistory>>();

/** One per repository and process, so that each file is read once. */
export function batchHistory(deps: Pick<Deps, "state" | "log">, repoPath: string): BatchHistory {
  return batchHistoryIn(deps, metadataDirectory(deps.state, repoPath));
}

/** For a metadata directory. */
export function batchHistoryIn(deps: Pick<Deps, "state" | "log">, directory: string): BatchHistory {
  const known = folders.get(deps.state) ?? new Map<string, BatchHistory>();
  folders.set(deps.state, known);
  const found = known.get(directory) ?? new BatchHistory(directory, deps.log);
  known.set(directory, found);
  return found;
}

interface BatchFile {
  readonly name: string;
  /** Milliseconds. Negative infinity: unknown. */
  readonly startedAt: number;
  readonly stamp: string;
  /** Null: no room; read again when needed. */
  readonly text: FileText | null;
}

/** A file's bytes in a piece of memory that it shares with others. */
interface FileText {
  readonly memory: TextBuffer;
  readonly from: number;
  readonly to: number;
}

interface TextBuffer {
  readonly bytes: Buffer;
  used: number;
  /** In the order of their bytes. */
  readonly files: BatchFile[];
}

/** The first read; a larger file needs a second. */
const FIRST_READ = 64 * 1024;
const PIECE = 4 * 1024 * 1024;
const KEEP_BYTES = 64 * 1024 * 1024;
/** As `beginBatch` writes it: the first keys, and the batch's own `started_at` before any issue's. */
const HEAD = /^\{\s*"run_id":\s*"[^"\\]*",\s*"started_at":\s*"([^"\\]*)"/;
const HEAD_BYTES = 160;
const STAMP = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z_/;

class BatchHistory {
  readonly #directory: string;
  readonly #log: Log;
  #files: readonly BatchFile[] = [];
  #memories: TextBuffer[] = [];
  #seenAs: string | null = null;
  readonly #warned = new Set<string>();

  constructor(directory: string, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Each batch's record of the issue with this engine (null: any engine), newest first. */
  *entries(issueId: string, engine: string | null): Generator<PriorEntry, void> {
    this.#look();
    for (const file of this.#naming(issueId).toSorted(newestFirst)) {
      const entry = objectIn(objectIn(this.#parse(file), "issues"), issueId);
      // Another engine's id is not an earlier session, so the record must name its engine.
      const whose = stringIn(entry, "engine");
      if (entry === undefined || whose === undefined || whose !== (engine ?? whose)) continue;
      yield { ...readIssue(entry), file: file.name, batch_started_at: file.stamp };
    }
  }

  /** Newest first. */
  *batches(): Generator<BatchRecord & { readonly file: string }, void> {
    this.#look();
    for (const file of this.#files.toSorted(newestFirst)) {
      const batch = readBatch(this.#parse(file));
      if (batch !== null) yield { ...batch, file: file.name };
    }
  }

  /** Files that contain the id, and files that are not in memory. */
  #naming(issueId: string): readonly BatchFile[] {
    const needle = Buffer.from(JSON.stringify(issueId));
    const found = this.#files.filter(({ text }) => text === null);
    for (const { bytes, used, files } of this.#memories) {
      const all = bytes.subarray(0, used);
      for (let at = all.indexOf(needle); at !== -1;) {
        const file = fileAt(files, at);
        if (file === undefined) break;
        found.push(file);
        at = all.indexOf(needle, file.text?.to ?? used);
      }
    }
    return found;
  }

  /** Files are only ever replaced by renaming, which changes the directory. */
  #look(): void {
    let seenAs: string;
    let names: readonly string[];
    try {
      const { mtimeNs, size } = statSync(this.#directory, { bigint: true });
      seenAs = `${mtimeNs}:${size}`;
      if (seenAs === this.#seenAs) return;
      names = readdirSync(this.#directory);
    } catch (error) {
      if (isErrno(error, "ENOENT")) {
        this.#files = [];
        this.#memories = [];
        return;
      }
      throw storageFault(error, "read", this.#directory);
    }
    this.#memories = [];
    const files: BatchFile[] = [];
    for (const name of names) {
      if (!name.endsWith(".json") || name.startsWith(".")) continue;
      const file = this.#read(name);
      if (file !== null) files.push(file);
    }
    this.#files = files;
    // A change within the same tick of the file system's clock would not show.
    this.#seenAs = isFresh(seenAs) ? null : seenAs;
  }

  #read(name: string): BatchFile | null {
    const text = this.#textOf(name);
    if (text === null) return null;
    const { memory, from, to } = text;
    const head = HEAD.exec(memory.bytes.toString("latin1", from, Math.min(to, from + HEAD_BYTES)))?.[1];
    let stamp = head ?? "";
    if (head === undefined || !isClosed(text)) {
      const value = this.#parse({ name, text });
      if (value === null) return null;
      stamp = stringIn(value, "started_at") ?? "";
    }
    const startedAt = timeOf(stamp, name);
    if (!this.#memories.includes(memory) && !this.#keep(memory))
      return { name, startedAt, stamp, text: null };
    const file = { name, startedAt, stamp, text };
    memory.used = to;
    memory.files.push(file);
    return file;
  }

  /** False: no room. */
  #keep(memory: TextBuffer): boolean {
    const kept = this.#memories.reduce((sum, { bytes }) => sum + bytes.length, 0);
    if (kept + memory.bytes.length > KEEP_BYTES) return false;
    this.#memories.push(memory);
    return true;
  }

  /** Null: it is gone, or unusable with a warning. */
  #textOf(name: string): FileText | null {
    try {
      const fd = openToRead(`${this.#directory}/${name}`);
      try {
        const memory = this.#roomy();
        const from = memory.used;
        const length = readSync(fd, memory.bytes, from, FIRST_READ, 0);
        if (length < FIRST_READ) return { memory, from, to: from + length };
        const { size } = fstatSync(fd);
        if (size > MAX_METADATA_BYTES) return this.#skip(name, `it has ${size} bytes`);
        const bytes = readFileSync(fd);
        return { memory: { bytes, used: 0, files: [] }, from: 0, to: bytes.length };
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      const code = errorCode(error) ?? "it cannot be read";
      return code === "ENOENT" ? null : this.#skip(name, code === "ELOOP" ? "it is a symbolic link" : code);
    }
  }

  /** A buffer with room for one more file. */
  #roomy(): TextBuffer {
    const last = this.#memories.at(-1);
    if (last !== undefined && last.used + FIRST_READ <= last.bytes.length) return last;
    return { bytes: Buffer.allocUnsafeSlow(PIECE), used: 0, files: [] };
  }

  #parse({ name, text: kept }: Pick<BatchFile, "name" | "text">): unknown {
    const bytes = kept ?? this.#textOf(name);
    if (bytes === null) return null;
    const text = bytes.memory.bytes.toString("utf8", bytes.from, bytes.to);
    const value = parseJson(text);
    if (!isObject(value))
      return this.#skip(name, text === "" ? "it is empty" : "it is incomplete or not JSON");
    if (hasDuplicateKeys(text)) return this.#skip(name, "it has a key twice");
    return value;
  }

  #skip(name: string, why: string): null {
    if (!this.#warned.has(name)) this.#log.warn(`${join(this.#directory, name)} is skipped: ${why}.`);
    this.#warned.add(name);
    return null;
  }
}

/** The file whose bytes are at that place. */
function fileAt(files: readonly BatchFile[], place: number): BatchFile | undefined {
  let [low, high] = [0, files.length - 1];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((files[middle]?.text?.to ?? 0) <= place) low = middle + 1;
    else high = middle;
  }
  return files[low];
}

/** It ends with a brace and white space, as an object does. */
function isClosed({ memory, from, to }: FileText): boolean {
  let at = to - 1;
  while (at > from && (memory.bytes[at] ?? 0) <= 0x20) at -= 1;
  return memory.bytes[at] === 0x7d;
}

function isFresh(seenAs: string): boolean {
  return Date.now() - Number(BigInt(seenAs.split(":")[0] ?? "0") / 1_000_000n) < 100;
}

/** The time in the file, or else the time in its name. */
function timeOf(stamp: string, name: string): number {
  const parsed = Date.parse(stamp);
  if (!Number.isNaN(parsed)) return parsed;
  const fromName = Date.parse(
    STAMP.exec(name)
      ?.slice(1)
      .join("-")
      .replace(/^(.{10})-(..)-(..)-(..)$/, "$1T$2:$3:$4Z") ?? "",
  );
  return Number.isNaN(fromName) ? Number.NEGATIVE_INFINITY : fromName;
}

function newestFirst(one: BatchFile, other: BatchFile): number {
  if (one.startedAt !== other.startedAt) return one.startedAt < other.startedAt ? 1 : -1;
  return one.name < other.name ? 1 : -1;
}

export interface IssueCleanOptions {
  readonly olderThanMs: number;
  /** Closed issues: their conversations are not needed. */
  readonly closed: ReadonlySet<string>;
  readonly dryRun: boolean;
}

/** Returns the names of removed files. Keeps files with a conversation that may still continue. */
export function cleanBatches(deps: Deps, repoPath: string, options: IssueCleanOptions): readonly string[] {
  const before = deps.clock.now() - options.olderThanMs;
  const old = [...batchHistory(deps, repoPath).batches()].filter(({ started_at: started, issues }) => {
    const needed = Object.entries(issues).some(
      ([id, { session_id: session }]) => session !== null && !options.closed.has(id),
    );
    return Date.parse(started) < before && !needed;
  });
  const directory = metadataDirectory(deps.state, repoPath);
  if (!options.dryRun) for (const { file } of old) removeQuietly(join(directory, file));
  return old.map(({ file }) => file);
}
