/**
 * Review comments as a file: JSON lines, or one JSON array, with documented snake_case names. What `--export jsonl`
 * writes, `--comments` reads back as the same comments.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { z } from "zod";
import { Fault } from "../core/faults.ts";
import { harmlessJson, harmlessLine } from "../lib/harmless.ts";
import { hasDuplicateKeys, parseJson } from "../lib/json.ts";
import type { Comment } from "./reviews.ts";

const MAX_BYTES = 128 * 1024 * 1024;
const MAX_COMMENTS = 20_000;
const MAX_NAMED = 5;

const id = z.union([z.string().min(1).max(200), z.int().transform(String)]);
const line = z.int().min(1).nullable().default(null);

/** Only the fields we use; others pass. */
const Stored = z.object({
  id,
  author: z.string(),
  author_association: z.string().nullable().default(null),
  file_path: z.string(),
  line_number: line,
  original_line_number: line,
  body: z.string(),
  diff_hunk: z.string().nullable().default(""),
  commit_sha: z.string().nullable().default(null),
  in_reply_to_id: id.nullable().default(null),
  created_at: z.string().refine((text) => !Number.isNaN(Date.parse(text)), "is not a time"),
  resolved: z.boolean().nullable().default(null),
});

export interface FromFile {
  readonly comments: readonly Comment[];
  /** What was left out, one sentence each. */
  readonly warnings: readonly string[];
}

/** A bad line is named and left out; a file without a good one is refused. */
export function readCommentFile(path: string): FromFile {
  const text = readWhole(path);
  const entries = text.trimStart().startsWith("[") ? fromArray(text, path) : fromLines(text);
  const comments = new Map<string, Comment>();
  const bad: string[] = [];
  let left = 0;
  for (const { where, value } of entries) {
    const parsed = value === undefined ? undefined : Stored.safeParse(value);
    if (parsed?.success !== true) {
      bad.push(`${where} ${parsed === undefined ? "is not JSON" : problem(parsed.error)}`);
    } else if (comments.size < MAX_COMMENTS || comments.has(parsed.data.id)) {
      comments.set(parsed.data.id, toComment(parsed.data));
    } else left += 1;
  }
  if (comments.size === 0 && bad.length > 0) throw invalid(path, named(bad).join("; "));
  const warnings = named(bad).map((what) => `${path}: ${what}; it is left out.`);
  if (left > 0) warnings.push(`${path}: ${left} comments after the first ${MAX_COMMENTS} are left out.`);
  return { comments: [...comments.values()], warnings };
}

/** Nothing in it moves a cursor or reorders text, and every value is exact all the same. */
export function toJsonLines(comments: readonly Comment[]): string {
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
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
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
    `${path} cannot be used: ${why}. It must have one JSON object a line with at least ` +
      "id, author, file_path, body and created_at; `reprise review <pr> --export jsonl` writes such a file.",
    { facts: { path, why } },
  );
}

function problem(error: z.ZodError): string {
  const [issue] = error.issues;
  const field = issue?.path.join(".") ?? "";
  return `has ${field === "" ? "no JSON object" : `no usable ${harmlessLine(field, 60)}`}`;
}

function named(bad: readonly string[]): string[] {
  const more = bad.length - MAX_NAMED;
  return more <= 0 ? [...bad] : [...bad.slice(0, MAX_NAMED), `${more} more are bad`];
}

function toComment(stored: z.infer<typeof Stored>): Comment {
  return {
    id: stored.id,
    author: stored.author,
    association: stored.author_association,
    filePath: stored.file_path,
    line: stored.line_number,
    originalLine: stored.original_line_number,
    body: stored.body,
    diffHunk: stored.diff_hunk ?? "",
    commit: stored.commit_sha,
    inReplyTo: stored.in_reply_to_id,
    createdAt: stored.created_at,
    resolved: stored.resolved,
  };
}

function toStored(comment: Comment): z.infer<typeof Stored> {
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
