/**
 * Review comments as a file: JSON lines or one JSON array, with documented snake_case names. `--export jsonl` writes
 * it, and `--comments` reads back the same comments.
 */
import { closeSync, fstatSync, readFileSync } from "node:fs";
import { errorCode } from "../core/errno.ts";
import { openToRead } from "../state/files.ts";
import { Fault } from "../core/faults.ts";
import { harmlessJson } from "../lib/harmless.ts";
import { fieldIn, hasDuplicateKeys, isObject, parseJson } from "../lib/json.ts";
import type { ReviewComment } from "./review.ts";

const MAX_BYTES = 128 * 1024 * 1024;
const MAX_COMMENTS = 20_000;
const MAX_NAMED = 5;

export interface CommentFile {
  readonly comments: readonly ReviewComment[];
  /** One sentence per omission. */
  readonly warnings: readonly string[];
}

/** Reports and skips bad lines; refuses a file without a good line. */
export function readCommentFile(path: string): CommentFile {
  const text = readWhole(path);
  const entries = text.trimStart().startsWith("[") ? fromArray(text, path) : fromLines(text);
  const comments = new Map<string, ReviewComment>();
  const bad: string[] = [];
  const twice = new Set<string>();
  let left = 0;
  for (const { where, value } of entries) {
    const comment = toComment(value);
    if (typeof comment === "string") bad.push(`${where} ${comment}`);
    else if (comments.size < MAX_COMMENTS || comments.has(comment.id)) {
      const before = comments.get(comment.id);
      if (before !== undefined && JSON.stringify(before) !== JSON.stringify(comment)) twice.add(comment.id);
      comments.set(comment.id, comment);
    } else left += 1;
  }
  if (comments.size === 0 && bad.length > 0) throw invalid(path, named(bad).join("; "));
  const warnings = named(bad).map(
    (what, at) => `${path}: ${what}; ${at < MAX_NAMED ? "it is" : "they are"} left out.`,
  );
  if (twice.size > 0) {
    const [id = ""] = twice;
    const others = twice.size === 1 ? "" : `, and so for ${twice.size - 1} more`;
    warnings.push(`${path}: several comments have the id ${JSON.stringify(id)}; the last is taken${others}.`);
  }
  if (left > 0) warnings.push(`${path}: ${left} comments after the first ${MAX_COMMENTS} are left out.`);
  return { comments: [...comments.values()], warnings };
}

/** Contains no raw control characters, yet every value is exact. */
export function toJsonLines(comments: readonly ReviewComment[]): string {
  return comments.map((comment) => `${harmlessJson(toStored(comment))}\n`).join("");
}

interface Entry {
  readonly where: string;
  /** Undefined: not JSON. */
  readonly value: unknown;
}

function fromLines(text: string): Entry[] {
  const entries: Entry[] = [];
  for (const [index, row] of text.split("\n").entries()) {
    if (row.trim() === "") continue;
    const value = parseJson(row);
    entries.push({
      where: `line ${index + 1}`,
      value: value === undefined || hasDuplicateKeys(row) ? undefined : value,
    });
  }
  return entries;
}

function fromArray(text: string, path: string): Entry[] {
  const value = parseJson(text);
  if (!Array.isArray(value)) throw invalid(path, "it begins as a JSON array and is none");
  return value.map((item: unknown, index) => ({ where: `item ${index + 1}`, value: item }));
}

function readWhole(path: string): string {
  let fd: number;
  try {
    fd = openToRead(path, "follow");
  } catch (error) {
    const code = errorCode(error) ?? "";
    throw invalid(path, code === "ENOENT" ? "there is no such file" : `it cannot be read (${code})`);
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw invalid(path, "it is not a regular file");
    if (stat.size > MAX_BYTES) throw invalid(path, `it is larger than ${MAX_BYTES / 1024 / 1024} MiB`);
    return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(fd));
  } catch (error) {
    if (error instanceof Fault) throw error;
    if (error instanceof TypeError) throw invalid(path, "it is not UTF-8 text");
    throw invalid(path, "it cannot be read");
  } finally {
    closeSync(fd);
  }
}

function invalid(path: string, why: string): Fault {
  return new Fault(
    "comments_invalid",
    `${path} cannot be used: ${why}. It must have one JSON object per line with at least ` +
      "id, author, file_path, body and created_at; `reprise review <pr> --export jsonl` writes such a file.",
    { facts: { path, why } },
  );
}

function named(bad: readonly string[]): string[] {
  const more = bad.length - MAX_NAMED;
  return more <= 0 ? [...bad] : [...bad.slice(0, MAX_NAMED), `${more} more are bad`];
}

/** The comment, or the problem with it. Ignores unknown fields. */
function toComment(value: unknown): ReviewComment | string {
  if (value === undefined) return "is not JSON";
  if (!isObject(value)) return "is not a JSON object";
  const bad = Object.entries(FIELDS).find(([name, fits]) => !fits(fieldIn(value, name) ?? null));
  if (bad !== undefined) return `has no usable ${bad[0]}`;
  const stored = value as unknown as Stored;
  return {
    id: String(stored.id),
    author: stored.author,
    association: stored.author_association ?? null,
    filePath: stored.file_path,
    line: stored.line_number ?? null,
    originalLine: stored.original_line_number ?? null,
    body: stored.body,
    diffHunk: stored.diff_hunk ?? "",
    commit: stored.commit_sha ?? null,
    inReplyTo:
      stored.in_reply_to_id === undefined || stored.in_reply_to_id === null
        ? null
        : String(stored.in_reply_to_id),
    createdAt: stored.created_at,
    resolved: stored.resolved ?? null,
  };
}

interface Stored {
  readonly id: string | number;
  readonly author: string;
  readonly author_association?: string | null;
  readonly file_path: string;
  readonly line_number?: number | null;
  readonly original_line_number?: number | null;
  readonly body: string;
  readonly diff_hunk?: string | null;
  readonly commit_sha?: string | null;
  readonly in_reply_to_id?: string | number | null;
  readonly created_at: string;
  readonly resolved?: boolean | null;
}

type Fits = (value: unknown) => boolean;
const isText: Fits = (value) => typeof value === "string";
const isId: Fits = (value) =>
  typeof value === "string" ? value !== "" && value.length <= 200 : Number.isSafeInteger(value);
const isLine: Fits = (value) => Number.isSafeInteger(value) && Number(value) >= 1;
const isTime: Fits = (value) => typeof value === "string" && !Number.isNaN(Date.parse(value));
const orNull =
  (fits: Fits): Fits =>
  (value) =>
    value === null || fits(value);

/** A missing field counts as null. */
const FIELDS: Readonly<Record<keyof Stored, Fits>> = {
  id: isId,
  author: isText,
  author_association: orNull(isText),
  file_path: isText,
  line_number: orNull(isLine),
  original_line_number: orNull(isLine),
  body: isText,
  diff_hunk: orNull(isText),
  commit_sha: orNull(isText),
  in_reply_to_id: orNull(isId),
  created_at: isTime,
  resolved: orNull((value) => typeof value === "boolean"),
};

function toStored(comment: ReviewComment): Stored {
  return {
    id: comment.id,
    author: comment.author,
    author_association: comment.association,
    file_path: comment.filePath,
    line_number: comment.line,
    original_line_number: comment.originalLine,
    body: comment.body,
    diff_hunk: comment.diffHunk,
    commit_sha: comment.commit,
    in_reply_to_id: comment.inReplyTo,
    created_at: comment.createdAt,
    resolved: comment.resolved,
  };
}
