/**
 * Issues as Markdown files with front matter, `issues/*.md`. Reprise changes only the value of `status` and the end of a
 * file; the rest stays byte for byte.
 */
import type { Clock } from "../../core/deps.ts";
import { Fault } from "../../core/faults.ts";
import { changeText, namesIn, readText } from "./files.ts";
import {
  type FileCopy,
  DEFAULT_PRIORITY,
  invalid,
  type Issue,
  type IssueStatus,
  checkedList,
  type LocatedIssue,
  priorityOf,
  type IssueSource,
  unknownIssue,
} from "./source.ts";

export const MARKDOWN_FOLDER = "issues";
const MAX_BYTES = 64 * 1024 * 1024;
const STATUSES: readonly IssueStatus[] = ["open", "in_progress", "closed", "blocked"];
/** Other words for the same status. */
const ALIASES: Readonly<Record<string, IssueStatus>> = {
  todo: "open",
  "in-progress": "in_progress",
  wip: "in_progress",
  done: "closed",
  deferred: "blocked",
};

/** Node replaces invalid UTF-8 in a name, so it cannot open the file by its listed name. */
function unnamed(
  listedNames: readonly string[],
  found: readonly { readonly name: string }[],
): readonly string[] {
  return listedNames
    .filter((name) => name.includes("\uFFFD") && !found.some((file) => file.name === name))
    .map((name) => `${MARKDOWN_FOLDER}/${name} was skipped: its name is not valid UTF-8. Rename it.`);
}

/** Null: no such folder, or no Markdown file in it. */
export function openMarkdown(clock: Clock, root: string): IssueSource | null {
  const fileNames = () => issueNames(namesIn(root, MARKDOWN_FOLDER));
  if (fileNames().length === 0) return null;
  const read = (name: string) => readText(root, `${MARKDOWN_FOLDER}/${name}`, MAX_BYTES);
  const open = (name: string) => {
    const text = read(name);
    return text === null ? null : { name, text, file: fileIn(text, name) };
  };
  const find = (id: string) => nameOf(id, fileNames(), (name) => open(name)?.file?.issue.id);
  const change = (id: string, edit: Edit) => changeIssue(root, { name: find(id), id }, edit);
  return {
    name: `${MARKDOWN_FOLDER}/`,
    restMs: 2_000,
    async list() {
      const names = fileNames();
      const files = names.flatMap((name) => open(name) ?? []);
      const strange = files.filter(({ file, name }) => file === null && !/^readme\.md$/i.test(name));
      return checkedList(
        files.flatMap(({ file }) => (file === null ? [] : [file])),
        [
          ...strange.map(
            ({ name }) => `${MARKDOWN_FOLDER}/${name} has no front matter, so it is not an issue.`,
          ),
          ...unnamed(names, files),
        ],
      );
    },
    async one(id) {
      const issue = open(find(id))?.file?.issue;
      if (issue?.id !== id) throw unknownIssue(id, `${MARKDOWN_FOLDER}/`);
      return issue;
    },
    async claim(id, from) {
      return change(id, (text, file) =>
        file.issue.status === from ? withStatus(text, file, "in_progress") : null,
      );
    },
    async close(id, reason) {
      change(id, (text, file) => withNote(withStatus(text, file, "closed"), reason, clock.now()));
    },
    async note(id, words) {
      change(id, (text) => withNote(text, words, clock.now()));
    },
    fileOf: (id) => `${MARKDOWN_FOLDER}/${find(id)}`,
    join: async (id, copy) => takeCopy(copy, (edit) => change(id, edit)),
  };
}

/** The file of this issue. Other files may be incomplete: people edit them while agents work. */
function nameOf(id: string, names: readonly string[], idIn: (name: string) => string | undefined): string {
  const isLikely = (name: string) => Number(name === `${id}.md`);
  let damaged: Fault | null = null;
  for (const name of names.toSorted((one, other) => isLikely(other) - isLikely(one))) {
    try {
      if (idIn(name) === id) return name;
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "issues_invalid") throw error;
      damaged ??= error;
    }
  }
  throw damaged ?? unknownIssue(id, `${MARKDOWN_FOLDER}/`);
}

/** Null: leave the file as it is. */
type Edit = (text: string, file: MarkdownFile) => string | null;

function changeIssue(root: string, { name, id }: { name: string; id: string }, edit: Edit): boolean {
  const done = changeText({
    root,
    shown: `${MARKDOWN_FOLDER}/${name}`,
    maxBytes: MAX_BYTES,
    change: (text) => {
      const file = fileIn(text, name);
      if (file?.issue.id !== id) throw unknownIssue(id, `${MARKDOWN_FOLDER}/`);
      return edit(text, file);
    },
  });
  if (done === null) throw unknownIssue(id, `${MARKDOWN_FOLDER}/`);
  return done;
}

function issueNames(names: readonly string[]): readonly string[] {
  return names.filter((name) => name.endsWith(".md") && !name.startsWith(".")).toSorted();
}

interface MarkdownFile extends LocatedIssue {
  /** The position of the value of `status`. `from` equals `to`: no value yet. */
  readonly status: { readonly from: number; readonly to: number };
  /** The position of the text below the front matter. */
  readonly bodyAt: number;
}

/** Null: no front matter. */
function fileIn(text: string, name: string): MarkdownFile | null {
  const shown = `${MARKDOWN_FOLDER}/${name}`;
  const head = /^\uFEFF?---[ \t]*\r?\n/.exec(text)?.[0];
  if (head === undefined) return null;
  const fields = new Map<string, Field>();
  let open: Field | null = null;
  let at = head.length;
  for (let line = 2; ; line += 1) {
    const next = text.indexOf("\n", at);
    const row = text.slice(at, next === -1 ? undefined : next).replace(/\r$/, "");
    const end = next === -1 ? text.length : next + 1;
    if (/^(---|\.\.\.)[ \t]*$/.test(row)) return toFile(text, { name, fields, bodyAt: end, endOfFields: at });
    if (next === -1)
      throw invalid(`${shown}, line 1`, "its front matter has no end. Close it with a line of ---");
    const pair = /^([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+|$)/.exec(row);
    const goesOn = open !== null && takeRow(open, row);
    if (!goesOn && pair !== null) {
      const key = (pair[1] ?? "").toLowerCase();
      if (fields.has(key)) throw invalid(`${shown}, line ${line}`, `${key} is set twice`);
      const from = at + pair[0].length;
      const value = withoutComment(row.slice(pair[0].length));
      open = { key, line, from, to: from + value.length, value, items: [] };
      fields.set(key, open);
    }
    at = end;
  }
}

interface Field {
  readonly key: string;
  readonly line: number;
  readonly from: number;
  readonly to: number;
  readonly value: string;
  readonly items: string[];
}

const DEPENDENCIES = ["dependencies", "depends_on", "blocked_by"];
const BLOCK = /^[|>][-+0-9]{0,2}$/;

/** Adds the row to the field above it: an item of its list, the rest of `[…`, or text below `>`. False: it is neither. */
function takeRow(field: Field, row: string): boolean {
  const { value, items } = field;
  const text = withoutComment(row.trim());
  if (isOpenList(field)) items.push(text);
  else if (BLOCK.test(value) && /^[ \t]/.test(row)) items.push(row.trim());
  else if (value === "" && /^-[ \t]/.test(text)) items.push(text.slice(1));
  else return false;
  return true;
}

/** Only dependencies are lists: in `title: [bug] It crashes`, the bracket is text. */
function isOpenList({ key, value, items }: Field): boolean {
  return DEPENDENCIES.includes(key) && value.startsWith("[") && !(items.at(-1) ?? value).endsWith("]");
}

/** Quoted text contains no comment. */
function withoutComment(row: string): string {
  const quoted = /^(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?=[ \t]*(?:#|$))/.exec(row)?.[0];
  return quoted ?? (row.startsWith("#") ? "" : row.replace(/(?<![ \t])[ \t]+#[^]*$/, "").trimEnd());
}

interface Head {
  readonly name: string;
  readonly fields: ReadonlyMap<string, Field>;
  readonly bodyAt: number;
  readonly endOfFields: number;
}

function toFile(text: string, { name, fields, bodyAt, endOfFields }: Head): MarkdownFile {
  const at = `${MARKDOWN_FOLDER}/${name}`;
  const one = (...keys: string[]) => keys.map((key) => fields.get(key)).find((field) => field !== undefined);
  const text1 = (...keys: string[]) => {
    const { value, items } = one(...keys) ?? { value: "", items: [] };
    const words = BLOCK.test(value) ? items.join(" ").trim() : plainValue(value);
    return words === "" ? null : words;
  };
  const body = withoutNotes(text.slice(bodyAt));
  const statusField = fields.get("status");
  const word = (text1("status") ?? "open").toLowerCase();
  const status = STATUSES.find((known) => known === word) ?? ALIASES[word];
  if (status === undefined)
    throw invalid(`${at}, line ${statusField?.line ?? 1}`, `status is one of ${STATUSES.join(", ")}`);
  const priorityField = one("priority");
  const priority =
    priorityField === undefined ? DEFAULT_PRIORITY : priorityOf(plainValue(priorityField.value));
  if (priority === null) throw invalid(`${at}, line ${priorityField?.line ?? 1}`, "priority is 0 to 4");
  const needs = one(...DEPENDENCIES);
  if (needs !== undefined && isOpenList(needs))
    throw invalid(`${at}, line ${needs.line}`, "its list has no end. Close it with ]");
  const issue: Issue = {
    id: text1("id") ?? name.slice(0, -".md".length),
    title: text1("title") ?? /^#[ \t]+(.+)$/m.exec(body)?.[1]?.trim() ?? name.slice(0, -".md".length),
    body: body.trim(),
    status,
    ...(word === status ? {} : { statusWord: word }),
    priority,
    dependencies: [...new Set(listOf(needs))],
    parent: text1("parent", "epic"),
    epic: text1("type", "issue_type") === "epic",
  };
  const place = statusField === undefined ? { from: endOfFields, to: endOfFields } : statusField;
  return { issue, at, status: { from: place.from, to: place.to }, bodyAt };
}

function listOf(field: Field | undefined): readonly string[] {
  if (field === undefined) return [];
  const { value, items } = field;
  const parts = value.startsWith("[")
    ? [value, ...items].join(",").slice(1).replace(/\]$/, "").split(",")
    : [...value.split(","), ...items];
  return parts.map(plainValue).filter((item) => item !== "");
}

/** Without the quotes around it. */
function plainValue(value: string): string {
  const trimmed = value.trim();
  return (
    /^"(.*)"$/.exec(trimmed)?.[1]?.replaceAll('\\"', '"') ??
    /^'(.*)'$/.exec(trimmed)?.[1]?.replaceAll("''", "'") ??
    trimmed
  );
}

function withStatus(text: string, { status }: MarkdownFile, value: IssueStatus): string {
  const line = status.from === status.to && text[status.from - 1] === "\n";
  const newline = /\r\n/.test(text.slice(0, status.from)) ? "\r\n" : "\n";
  const written = line ? `status: ${value}${newline}` : value;
  const gap = !line && text[status.from - 1] === ":" ? " " : "";
  const comment = !line && text[status.to] === "#" ? " " : "";
  return text.slice(0, status.from) + gap + written + comment + text.slice(status.to);
}

/** Reprise's notes are for people, not for agents. */
function withoutNotes(body: string): string {
  return body.replace(/^> \*\*reprise\*\* \d{4}-\d\d-\d\dT[\d:.]+Z: [^\n]*(?:\n>[^\n]*)*\n?/gm, "");
}

/** A quotation at the end, so that it never reads as a heading or front matter. */
function withNote(text: string, note: string, nowMs: number): string {
  const newline = text.includes("\r\n") ? "\r\n" : "\n";
  const stamp = new Date(nowMs).toISOString();
  const quoted = note
    .split(/\r?\n/)
    .map((row, index) => (index === 0 ? `> **reprise** ${stamp}: ${row}` : `> ${row}`));
  const gap = text.endsWith("\n") ? newline : `${newline}${newline}`;
  return `${text}${gap}${quoted.join(newline)}${newline}`;
}

/** False: the edits conflict. */
function takeCopy(copy: FileCopy, change: (edit: Edit) => boolean): boolean {
  let isJoined = false;
  change((text) => {
    const joined = joinCopy(text, copy);
    isJoined = joined !== null;
    return joined === text ? null : joined;
  });
  return isJoined;
}

/**
 * The file with the edits of its copy. Keeps its status and text added below: Reprise's notes, and people's. Null: both
 * changed in the same place, or the copy changed its front matter beyond the status.
 */
export function joinCopy(text: string, { was, now }: FileCopy): string | null {
  const [file, before, after] = [partsOf(text), partsOf(was), partsOf(now)];
  if (file === null || before === null || after === null || before.head !== after.head) return null;
  const [old, edited] = [before.body.trimEnd(), after.body.trimEnd()];
  const over = (body: string) => `${text.slice(0, text.length - file.body.length)}${body}`;
  const isBegunBy = (words: string) =>
    /^(?:\s|$)/.test(file.body.slice(words.length)) && file.body.startsWith(words);
  if (old === edited || isBegunBy(edited)) return text;
  if (isBegunBy(old)) return over(`${edited}${file.body.slice(old.length)}`);
  const ticked = withTicks(file.body, old.split("\n"), edited.split("\n"));
  return ticked === null ? null : over(ticked);
}

/** Null: no valid front matter. `head` is the same for every status. */
function partsOf(text: string): { readonly head: string; readonly body: string } | null {
  try {
    const file = fileIn(text, "copy");
    if (file === null) return null;
    const body = text.slice(file.bodyAt);
    const opened = withStatus(text, file, "open");
    return { head: opened.slice(0, opened.length - body.length), body };
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}

/** Null: more changed than ticked boxes, or a line with a box is missing or occurs twice. */
function withTicks(body: string, old: readonly string[], edited: readonly string[]): string | null {
  const lines = body.split("\n");
  if (old.length !== edited.length) return null;
  for (const [at, line] of old.entries()) {
    const now = edited[at] ?? "";
    if (now === line) continue;
    const places = lines.flatMap((one, index) => (one === line ? [index] : []));
    const isTick = now.replace(/\[[xX]\]/, "[ ]") === line.replace(/\[[xX]\]/, "[ ]");
    if (!isTick || places.length > 1) return null;
    if (places[0] !== undefined) lines[places[0]] = now;
    else if (!lines.includes(now)) return null;
  }
  return lines.join("\n");
}
