/**
 * Finds, reads and checks runbooks, and looks up an agent or a pipeline by name.
 *
 * A project's runbook decides what runs, so it is untrusted code: `trust` lists the files that the user must have
 * agreed to. The caller asks the user.
 */
import { extname, resolve } from "node:path";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import type { AgentDefinition, PipelineDefinition, RunbookSource } from "../core/runbook.ts";
import { nearest } from "../lib/suggest.ts";
import type { AgentDraft, PipelineDraft } from "./drafts.ts";
import { decode, folderOf, FORMATS, readPromptFile, readRegular, type RunbookFolder } from "./files.ts";
import { runbookFiles, runbookFolders, sha256 } from "./files.ts";
import { filledAgent, filledPipeline, valuesFor } from "./fill.ts";
import { type Checked, checkRunbook, type EngineTraits } from "./runbook.ts";
import { locator, type Problem, problem, type TreeRead } from "./tree.ts";

export { explainTrigger } from "./explain.ts";
export { runbookFolders } from "./files.ts";
export type { Problem } from "./tree.ts";

/** Where to look for runbooks, and the engines that their agents may use. */
export interface RunbookPlace {
  readonly cwd: string;
  readonly env: Env;
  readonly engines: Engines;
}

export interface Engines {
  readonly ids: readonly string[];
  /** Null: no such engine. */
  find(id: string): EngineTraits | null;
}

export interface Runbook extends Checked {
  /** Absolute. */
  readonly path: string;
  readonly level: "project" | "user";
  /** The directory for a relative `cwd`: the project, or the caller's directory for the user's runbooks. */
  readonly base: string;
  /** The runbook and its prompt files. Empty: the runbook is unreadable. */
  readonly sources: readonly RunbookSource[];
}

interface Found {
  readonly source: RunbookSource;
  readonly vars: Readonly<Record<string, string>>;
  /** The files that the user must have trusted in their current form. Null: the user's own runbook. */
  readonly trust: readonly RunbookSource[] | null;
}

export interface FoundAgent extends Found {
  readonly definition: AgentDefinition;
}

export interface FoundPipeline extends Found {
  readonly definition: PipelineDefinition;
}

/** Every runbook, the project's first, including its problems. Only a folder that cannot be listed is a fault. */
export async function findRunbooks(where: RunbookPlace): Promise<readonly Runbook[]> {
  const found: Runbook[] = [];
  for (const folder of runbookFolders(where.cwd, where.env)) {
    const { files, tooMany } = listed(folder);
    const level: Runbook[] = [];
    for (const file of files) level.push(withDuplicates(await readRunbook(file, folder, where), level));
    if (tooMany) {
      throw new Fault(
        "runbook_invalid",
        `${folder.path} contains more than 10,000 files, so it is not a folder of runbooks.`,
      );
    }
    found.push(...level);
  }
  return found;
}

/** One file in any folder. */
export function openRunbook(file: string, where: RunbookPlace): Promise<Runbook> {
  return readRunbook(resolve(where.cwd, file), folderOf(resolve(where.cwd, file), where.env), where);
}

/** The project's agents override the user's. Faults: unknown name, a runbook with errors, missing variables. */
export async function findAgent(
  name: string,
  where: RunbookPlace & { readonly vars: Readonly<Record<string, string>> },
): Promise<FoundAgent> {
  const { runbook, draft } = pick("agent", name, await findRunbooks(where));
  const vars = valuesFor(`agent.${name}`, draft.vars, where.vars);
  return { ...foundIn(runbook), vars, definition: filledAgent(draft, vars, runbook.base) };
}

export async function findPipeline(
  name: string,
  where: RunbookPlace & { readonly vars: Readonly<Record<string, string>> },
): Promise<FoundPipeline> {
  const { runbook, draft } = pick("pipeline", name, await findRunbooks(where));
  const vars = valuesFor(`pipeline.${name}`, draft.vars, where.vars);
  return { ...foundIn(runbook), vars, definition: filledPipeline(draft, vars, runbook.base) };
}

function pick(
  kind: "agent",
  name: string,
  runbooks: readonly Runbook[],
): { runbook: Runbook; draft: AgentDraft };
function pick(
  kind: "pipeline",
  name: string,
  runbooks: readonly Runbook[],
): { runbook: Runbook; draft: PipelineDraft };
function pick(kind: "agent" | "pipeline", name: string, runbooks: readonly Runbook[]) {
  const draftsOf = (runbook: Runbook) => (kind === "agent" ? runbook.agents : runbook.pipelines);
  const runbook = runbooks.find((one) => draftsOf(one).some((draft) => draft.name === name));
  // An unreadable runbook may also define it, with equal or higher priority.
  const counts = (one: Runbook) =>
    runbook === undefined ||
    draftsOf(one).some((draft) => draft.name === name && one.level === runbook.level) ||
    (runbook.level === "user" && one.level === "project");
  const wrong = runbooks.find((one) => hasErrors(one) && counts(one));
  if (wrong !== undefined) throw invalid(wrong);
  const draft = runbook === undefined ? undefined : draftsOf(runbook).find((one) => one.name === name);
  if (runbook !== undefined && draft !== undefined) return { runbook, draft };
  const names = runbooks.flatMap((one) => draftsOf(one).map((other) => other.name));
  const near = nearest(name, names);
  const hint =
    near !== null
      ? `Did you mean ${near}?`
      : names.length > 0
        ? `There are ${names.join(", ")}.`
        : "No runbooks exist here; see docs/runbooks.md.";
  throw new Fault(
    "runbook_unknown",
    `No runbook defines the ${kind} ${JSON.stringify(name.slice(0, 80))}. ${hint}`,
    {
      facts: { kind, name: name.slice(0, 80) },
    },
  );
}

function invalid(runbook: Runbook): Fault {
  const errors = runbook.problems.filter(({ level }) => level === "error");
  const [first] = errors;
  const place =
    first === undefined ? runbook.path : `${runbook.path}:${first.line}:${first.column}: ${first.reason}`;
  const more = errors.length > 1 ? ` And ${errors.length - 1} more: reprise runbook check` : "";
  return new Fault("runbook_invalid", `${place}${more}`, {
    facts: {
      file: runbook.path,
      line: first?.line ?? 1,
      column: first?.column ?? 1,
      problems: errors.length,
    },
  });
}

function foundIn({ sources, level, path }: Runbook): Omit<Found, "vars"> {
  const [source = { path, sha256: "" }] = sources;
  return { source, trust: level === "project" ? sources : null };
}

export function hasErrors({ problems }: Pick<Runbook, "problems">): boolean {
  return problems.some(({ level }) => level === "error");
}

async function readRunbook(path: string, folder: RunbookFolder, where: RunbookPlace): Promise<Runbook> {
  const base = folder.level === "project" ? folder.root : resolve(where.cwd);
  const about = { path, level: folder.level, base };
  const nothing = (...problems: readonly Problem[]): Runbook => ({
    ...about,
    sources: [],
    agents: [],
    pipelines: [],
    problems,
  });
  const start = { line: 1, column: 1 };
  const read = readRegular(path);
  if ("why" in read) return nothing(problem(start, `The file ${read.why}.`));
  const decoded = decode(read.bytes);
  if ("why" in decoded) {
    return nothing(problem(locator(decoded.shown)(decoded.offset), `The file ${decoded.why}.`));
  }
  if (decoded.text.trim() === "") return nothing(problem(start, "The file is empty."));
  const { root, problems } = await parse(extname(path), decoded.text);
  if (root === null) return nothing(...inOrder(problems));
  const sources: RunbookSource[] = [{ path, sha256: sha256(read.bytes) }];
  const checked = checkRunbook(root, {
    level: folder.level,
    engine: (id) => where.engines.find(id),
    engineIds: where.engines.ids,
    readPrompt: (name) => {
      const prompt = readPromptFile(folder, name);
      if ("text" in prompt && !sources.some((one) => one.path === prompt.path))
        sources.push({ path: prompt.path, sha256: prompt.sha256 });
      return prompt;
    },
  });
  return { ...about, ...checked, sources, problems: inOrder([...problems, ...checked.problems]) };
}

/** The most problems to report per file. */
const MOST_PROBLEMS = 1000;

function inOrder(problems: readonly Problem[]): readonly Problem[] {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
  const last = sorted[MOST_PROBLEMS];
  if (last === undefined) return sorted;
  const rest = sorted.slice(MOST_PROBLEMS);
  const level = rest.some((one) => one.level === "error") ? "error" : "warning";
  const more = problem(last, `There are ${rest.length} more problems in this file.`, level);
  return [...sorted.slice(0, MOST_PROBLEMS), more];
}

async function parse(extension: string, text: string): Promise<TreeRead> {
  switch (extension) {
    case ".toml":
      return (await import("./toml.ts")).readToml(text);
    case ".hcl":
      return (await import("./hcl.ts")).readHcl(text);
    case ".json":
      return (await import("./json.ts")).readJson(text);
    default: {
      const why = `The file's name ends with none of ${FORMATS.join(", ")}, so its format is unknown.`;
      return { root: null, problems: [problem({ line: 1, column: 1 }, why)] };
    }
  }
}

function listed(folder: RunbookFolder): { files: readonly string[]; tooMany: boolean } {
  try {
    return runbookFiles(folder);
  } catch (error) {
    throw new Fault("runbook_invalid", `The folder ${folder.path} cannot be read.`, {
      facts: { folder: folder.path },
      cause: error,
    });
  }
}

/** A name that an earlier runbook of the same level defines is a problem of the later one. */
function withDuplicates(runbook: Runbook, before: readonly Runbook[]): Runbook {
  const twins = (["agents", "pipelines"] as const).flatMap((kind) =>
    runbook[kind].flatMap(({ name, at }) => {
      const twin = before.find((one) => one[kind].some((other) => other.name === name));
      const what = kind === "agents" ? "agent" : "pipeline";
      return twin === undefined ? [] : [problem(at, `${what}.${name} is also defined in ${twin.path}.`)];
    }),
  );
  return twins.length === 0 ? runbook : { ...runbook, problems: inOrder([...runbook.problems, ...twins]) };
}
