/**
 * Issues of Beads: `.beads/issues.jsonl`, one JSON object per line, and the `bd` program if installed, which exports its
 * database to that file.
 *
 * Without `bd`, Reprise changes single lines: order, unknown fields and unknown lines stay byte for byte.
 */
import { join } from "node:path";
import type { Clock, Env, Log, Processes } from "../../core/deps.ts";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { arrayIn, isObject, type JsonObject, parseObject, stringIn } from "../../lib/json.ts";
import { changeText, namesIn, placeIn, readText } from "./files.ts";
import { withFields } from "./json-line.ts";
import {
  type IssueComment,
  DEFAULT_PRIORITY,
  invalid,
  isIssueId,
  isOurNote,
  type Issue,
  type IssueStatus,
  checkedList,
  type IssueList,
  type LocatedIssue,
  priorityOf,
  type IssueSource,
  unknownIssue,
} from "./source.ts";

export interface BeadsDeps {
  readonly clock: Clock;
  readonly env: Env;
  readonly log: Log;
  readonly processes: Processes;
}

const BEADS_FOLDER = ".beads";
export const BEADS_FILE = `${BEADS_FOLDER}/issues.jsonl`;
const MAX_BYTES = 256 * 1024 * 1024;
const BD_TIMEOUT_MS = 60_000;

/** Null: the repository has no Beads issues. */
export async function openBeads(world: BeadsDeps, root: string): Promise<IssueSource | null> {
  const path = join(root, BEADS_FILE);
  const read = () => readText(root, BEADS_FILE, MAX_BYTES);
  // Checks bd's own files as well: bd would follow their links.
  for (const name of namesIn(root, BEADS_FOLDER)) placeIn(root, join(BEADS_FOLDER, name));
  if (read() === null) return null;
  const bd = await findBd(world, root);
  const list = async (): Promise<IssueList> => {
    const text = bd === null ? read() : await bd("export");
    if (text === null)
      throw new Fault("issues_missing", `${path} is missing. Restore it, then try again.`, {
        facts: { path },
      });
    return checkedList(placedIn(text, bd === null ? BEADS_FILE : "bd export"));
  };
  const change = (id: string, fields: (issue: JsonObject, now: string) => Record<string, string> | null) => {
    const done = changeText({
      root,
      shown: BEADS_FILE,
      maxBytes: MAX_BYTES,
      change: (text) =>
        withIssue(text, id, (issue) => {
          const now = new Date(world.clock.now()).toISOString();
          const wanted = fields(issue, now);
          return wanted === null ? null : { ...wanted, updated_at: now };
        }),
    });
    if (done === null) throw unknownIssue(id, BEADS_FILE);
    return done;
  };
  return {
    name: BEADS_FILE,
    restMs: bd === null ? 2_000 : 15_000,
    list,
    one: async (id) => oneIn(bd === null ? (read() ?? "") : await bd("export"), id),
    async claim(id, from) {
      if (bd === null)
        return change(id, (issue) =>
          statusOf(stringIn(issue, "status")) === from ? { status: "in_progress" } : null,
        );
      const now = (await list()).issues.find((issue) => issue.id === id);
      if (now === undefined) throw unknownIssue(id, BEADS_FILE);
      if (now.status !== from) return false;
      await bd("update", id, "--status", "in_progress");
      return true;
    },
    async close(id, reason) {
      if (bd !== null) await bd("close", id, `--reason=${reason}`);
      else change(id, (_, now) => ({ status: "closed", closed_at: now, close_reason: reason }));
    },
    async note(id, text) {
      if (bd !== null) await bd("update", id, `--append-notes=${text}`);
      else
        change(id, (issue) => {
          const before = stringIn(issue, "notes") ?? "";
          return { notes: before === "" ? text : `${before}\n${text}` };
        });
    },
  };
}

function withIssue(
  text: string,
  id: string,
  fields: (issue: JsonObject) => Record<string, string> | null,
): string | null {
  const lines = text.split("\n");
  const at = lineOf(id, lines);
  const issue = objectOn(lines[at] ?? "");
  if (issue === undefined) throw unknownIssue(id, BEADS_FILE);
  const wanted = fields(issue);
  if (wanted === null) return null;
  lines[at] = withFields(lines[at] ?? "", wanted);
  return lines.join("\n");
}

type Bd = (...args: string[]) => Promise<string>;

/** Waits between tries of `bd export`. */
const BD_WAITS_MS = [300, 1_000];
const NO_DATABASE = /no beads database|database not (?:found|initialized)|not initialized/i;

/** Null: not installed, or it reports no database. */
async function findBd(world: BeadsDeps, root: string): Promise<Bd | null> {
  const program = world.processes.resolveProgram("bd", world.env);
  if (program === null) return null;
  const env = Object.fromEntries(
    Object.entries(world.env).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])),
  );
  const run = (args: readonly string[]) =>
    world.processes.runTool(program, args, {
      cwd: root,
      env: { ...env, PWD: root },
      timeoutMs: BD_TIMEOUT_MS,
      maxBytes: MAX_BYTES,
    });
  // Its database may be locked for a moment. The file is no substitute: it may be older.
  const exported = async () => {
    for (const waitMs of BD_WAITS_MS) {
      const done = await run(["export"]);
      if (done.code === 0 || NO_DATABASE.test(done.stderr)) return done;
      await new Promise((wake) => setTimeout(wake, waitMs));
    }
    return run(["export"]);
  };
  const probe = await exported();
  if (probe.code !== 0) {
    const why = harmlessLine(probe.stderr.trim(), 200) || `exit code ${probe.code ?? "unknown"}`;
    if (!NO_DATABASE.test(probe.stderr) || hasDatabase(root)) throw exportFault(root, program, why);
    world.log.warn(`bd has no database here (${why}); Reprise reads and writes ${BEADS_FILE} itself.`);
    return null;
  }
  return async (...args) => {
    const [, id] = args;
    // bd would read an invalid id as an option.
    if (id !== undefined && !isIssueId(id)) throw unknownIssue(id, "bd");
    const { code, stdout, stderr } = await (args[0] === "export" ? exported() : run(args));
    if (code === 0) return stdout;
    if (id !== undefined && /no issue|not found/i.test(stderr)) throw unknownIssue(id, "bd");
    throw new Fault("storage_failed", `bd ${args[0] ?? ""} failed: ${harmlessLine(stderr, 400)}`, {
      facts: { program, code },
    });
  };
}

/** SQLite, or Dolt in newer versions. */
function hasDatabase(root: string): boolean {
  return namesIn(root, BEADS_FOLDER).some((name) => /\.db$|dolt$/.test(name));
}

function exportFault(root: string, program: string, why: string): Fault {
  return new Fault(
    "storage_failed",
    `bd export failed ${BD_WAITS_MS.length + 1} times in ${root}: ${why}. Reprise read and wrote nothing: ${BEADS_FILE} may be older than ` +
      "Beads' database. Run `bd export` there, fix the problem that it names, then try again.",
    { facts: { program, repository: root } },
  );
}

function placedIn(text: string, file: string): readonly LocatedIssue[] {
  const placed: LocatedIssue[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const at = `${file}, line ${index + 1}`;
    const value = objectOn(line);
    if (value === undefined) {
      const why = line.trimStart().startsWith("{")
        ? "it is incomplete or not JSON"
        : "it is not a JSON object";
      throw invalid(at, `${why}. Another program may be writing it, or it has merge conflicts`);
    }
    const issue = isIssue(value) ? toIssue(value, at) : null;
    if (issue !== null) placed.push({ issue, at });
  }
  return placed;
}

/** A file may begin with a byte order mark. */
function objectOn(line: string): JsonObject | undefined {
  return parseObject(line.replace(/^\uFEFF/, ""));
}

/** The index of the issue's line, or -1. */
function lineOf(id: string, lines: readonly string[]): number {
  const isIt = (line: string) => {
    const value = objectOn(line);
    return value !== undefined && isIssue(value) && stringIn(value, "id") === id;
  };
  // Parses a line without the id only if no other line matches: the id may be escaped.
  const named = lines.findIndex((line) => line.includes(`"${id}"`) && isIt(line));
  return named === -1 ? lines.findIndex(isIt) : named;
}

/** The file also has other kinds of records; a tombstone is a deleted issue. */
function isIssue(value: JsonObject): boolean {
  return (stringIn(value, "_type") ?? "issue") === "issue" && value["status"] !== "tombstone";
}

function toIssue(value: JsonObject, at: string): Issue {
  const [id, title] = [stringIn(value, "id"), stringIn(value, "title")];
  if (id === undefined || title === undefined) throw invalid(at, "an issue needs an id and a title");
  const links = arrayIn(value, "dependencies").filter(isObject);
  const to = (kinds: readonly string[]) =>
    links.flatMap((link) => {
      const other = stringIn(link, "depends_on_id");
      return other !== undefined && kinds.includes(stringIn(link, "type") ?? "blocks") ? [other] : [];
    });
  return {
    id,
    title,
    body: bodyOf(value),
    ...statusIn(value),
    priority: priorityOf(value["priority"]) ?? DEFAULT_PRIORITY,
    dependencies: [...new Set(to(["blocks", "conditional-blocks", "waits-for"]))],
    parent: to(["parent-child"])[0] ?? null,
    epic: value["issue_type"] === "epic",
    ...commentsIn(value),
  };
}

function commentsIn(value: JsonObject): { readonly comments?: readonly IssueComment[] } {
  const comments = arrayIn(value, "comments").flatMap((comment) => {
    const text = stringIn(comment, "text") ?? "";
    return text.trim() === "" || isOurNote(text)
      ? []
      : [{ author: stringIn(comment, "author") ?? null, text }];
  });
  return comments.length === 0 ? {} : { comments };
}

function statusIn(value: JsonObject): Pick<Issue, "status" | "statusWord"> {
  const word = stringIn(value, "status");
  const status = statusOf(word);
  return word === undefined || word === status ? { status } : { status, statusWord: word };
}

/** Any other status (deferred, pinned, hooked, …) counts as blocked. */
function statusOf(status: string | undefined): IssueStatus {
  if (status === undefined || status === "open") return "open";
  return status === "in_progress" || status === "closed" ? status : "blocked";
}

function bodyOf(value: JsonObject): string {
  const parts = [
    ["", stringIn(value, "description")],
    ["Design", stringIn(value, "design")],
    ["Acceptance criteria", stringIn(value, "acceptance_criteria")],
  ] as const;
  return parts
    .flatMap(([heading, text]) =>
      text === undefined || text.trim() === "" ? [] : [heading === "" ? text : `## ${heading}\n\n${text}`],
    )
    .join("\n\n");
}

function oneIn(text: string, id: string): Issue {
  const lines = text.split("\n");
  const issue = objectOn(lines[lineOf(id, lines)] ?? "");
  if (issue === undefined) throw unknownIssue(id, BEADS_FILE);
  return toIssue(issue, BEADS_FILE);
}
