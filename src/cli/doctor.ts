/** `reprise doctor`: checks the installation, and says how to fix problems. */
import { join } from "node:path";
import { readRecord } from "../state/files.ts";
import { acceptCopy } from "../state/identity.ts";
import { isDirectory } from "../state/places.ts";
import { exitCodeOf, Fault } from "../core/faults.ts";
import { wrapTable } from "../lib/table.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { wrap } from "../lib/wrap.ts";
import { checkHealth, type Health } from "../run/inspect.ts";
import { type Deps, renewIndex } from "../run/run.ts";
import { type Context, paint, type Terminal, currentDirectory } from "./context.ts";
import { defineCommand, flag, JSON_FLAG, type OptionsOf } from "./define.ts";
import { age } from "./words.ts";

const OPTIONS = {
  certify: flag(
    "test the installed engines against a scripted model, without your sessions, keys or network",
  ),
  rebuildIndex: flag("rebuild the index from the run directories"),
  acceptCopy: flag("use this copied state directory instead of the original"),
  json: JSON_FLAG,
};
type DoctorOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "doctor",
  summary: "Check engines, state directory and index. Exits with 1 if something needs attention.",
  usage: "[options] | --certify [engine] [--json]",
  args: { engine: { help: "with --certify: only this engine", values: "engines" } },
  options: OPTIONS,
  examples: [
    "reprise doctor",
    "reprise doctor --json | jq .findings",
    "reprise doctor --rebuild-index",
    "reprise doctor --certify codex      (test the installed Codex)",
  ],
  run: async ({ args: { engine }, options }, context) => {
    if (options.certify === true) {
      if (options.rebuildIndex === true)
        throw new Fault("usage", "Give --rebuild-index or --certify, not both.");
      const { certify } = await import("./certify.ts");
      const opened = await context.open({ cwd: currentDirectory(), badConfig: "refuse" });
      return certify(context, opened, engine, options.json === true);
    }
    if (engine !== undefined)
      throw new Fault("usage", `Name an engine only with --certify: reprise doctor --certify ${engine}`);
    return checkUp(context, options);
  },
});

async function checkUp(context: Context, options: DoctorOptions): Promise<number> {
  const deps = await openOrSay(context, options);
  if (typeof deps === "number") return deps;
  const progress = (text: string) => {
    if (context.terminal.stderr && options.json === undefined) context.log.info(text);
  };
  if (options.acceptCopy === true)
    context.log.info(
      acceptCopy(deps)
        ? `${deps.state.root} now owns its runs; do not resume them in the original directory`
        : `${deps.state.root} is not a copy; nothing was changed`,
    );
  const rebuilt = options.rebuildIndex === true ? await renewIndex(deps) : null;
  const health = await checkAll(deps, progress);
  const needsAttention = health.findings.some(({ level }) => level === "attention");
  const node = process.version;
  if (options.json === true) {
    context.printJson({ ok: !needsAttention, version: context.version, node, ...health, rebuilt });
  } else {
    if (rebuilt !== null) {
      const aside = rebuilt.setAside === null ? "" : ` The old index is ${rebuilt.setAside}.`;
      context.print(
        `The index has ${plural(rebuilt.runs, "run")} from the run directories; skipped ${rebuilt.skipped}.${aside}\n`,
      );
    }
    print(context, health, node);
  }
  return needsAttention ? 1 : 0;
}

/** Includes the sidecars of reviews, because their messages may send people here. */
async function checkAll(deps: Deps, progress: (text: string) => void): Promise<Health> {
  const checked = await checkHealth(deps, progress);
  const own = [...damagedTrust(deps), ...strangeSearch(deps), ...(await damagedScheduled(deps))];
  const health = { ...checked, findings: [...checked.findings, ...own] };
  if (!isDirectory(join(deps.state.root, "reviews"))) return health;
  const { damagedSidecars } = await import("../reviews/reviews.ts");
  const findings = damagedSidecars(deps.state).map(({ path, why }) => ({
    ...({ level: "attention", about: "reviews" } as const),
    what: `${path}: ${why}; this review is not offered again; its run, where reprise list still has it, can be resumed`,
    todo: `mv '${path}' '${path}.damaged'`,
  }));
  return { ...health, findings: [...health.findings, ...findings] };
}

/** In every directory, even if no file needs trust. */
function damagedTrust(deps: Deps): Health["findings"] {
  const path = join(deps.state.root, "trusted.json");
  try {
    readRecord(path);
    return [];
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const why = typeof error.facts["why"] === "string" ? error.facts["why"] : error.message;
    const what = `${path}: ${why}; which project files you trust is not known until it is moved away, and then asked again`;
    return [{ level: "attention", about: "state", what, todo: `mv '${path}' '${path}.damaged'` }];
  }
}

/** Searches replace a damaged file, but never a directory. */
function strangeSearch(deps: Deps): Health["findings"] {
  const path = join(deps.state.root, "search.db");
  if (!isDirectory(path)) return [];
  const what = `${path} is a directory, so nothing can be searched; once it is moved away, the next search makes the file again`;
  return [{ level: "attention", about: "state", what, todo: `mv '${path}' '${path}.damaged'` }];
}

async function damagedScheduled({ state }: Deps): Promise<Health["findings"]> {
  if (!isDirectory(join(state.root, "scheduled"))) return [];
  const { listScheduled } = await import("../schedule/schedule.ts");
  const findings: Health["findings"][number][] = [];
  await listScheduled(state, (text, { code, facts: { path, why } }) => {
    const isDamaged = code === "record_damaged" && typeof path === "string" && typeof why === "string";
    const what = isDamaged ? `${path}: ${why}; the daemon does not carry out this scheduled resume` : text;
    const todo = isDamaged ? `mv '${path}' '${path}.damaged'` : null;
    findings.push({ level: "attention", about: "state", what, todo });
  });
  return findings;
}

/** A state directory that cannot be opened is the first thing to report. */
async function openOrSay(context: Context, options: DoctorOptions): Promise<Deps | number> {
  try {
    return await context.open({ cwd: currentDirectory(), badConfig: "report" });
  } catch (error) {
    if (!(error instanceof Fault) || options.json === true) throw error;
    context.print(`reprise ${context.version}, node ${process.version}`);
    context.print(`${paint(context.terminal, "red", "attention")}  ${error.message}`);
    return exitCodeOf(error);
  }
}

function print(context: Context, health: Health, node: string): void {
  const { terminal } = context;
  const { state, index, tools } = health;
  const title = (text: string) => context.print(paint(terminal, "bold", text));
  title("Engines");
  const rows = health.engines.map((engine) => [
    `  ${engine.id}`,
    engine.version ?? (engine.program === null ? "not found" : "unknown version"),
    fitText(engine),
    engineWords(engine, Date.parse(health.at)),
  ]);
  for (const line of engineTable(rows, terminal)) context.print(line);
  title("Reprise");
  const free = state.freeBytes === null ? "" : `, ${Math.floor(state.freeBytes / 1_048_576)} MiB free`;
  context.print(`  version    ${context.version}, node ${node}`);
  context.print(
    `  state      ${state.path} (mode ${state.mode}, ${state.writable ? "writable" : "read-only"}${free})`,
  );
  const { runs, bytes, partial } = state.trash;
  const size = `${partial ? "at least " : ""}${Math.ceil(bytes / 1_048_576)} MiB`;
  context.print(
    `  trash      ${runs === 0 ? "empty" : `${plural(runs, "removed run")}, ${size} (reprise rm --restore HANDLE)`}`,
  );
  context.print(
    `  index      ${plural(index.runs, "run")}, ${index.damaged === 0 ? "sound" : plural(index.damaged, "damaged row")} ` +
      `(${index.backend} ${index.version}, schema ${index.schema}${index.journal === null ? "" : `, journal ${index.journal}`})`,
  );
  for (const [name, path] of Object.entries(tools))
    context.print(`  ${name.padEnd(10)} ${path ?? "not found"}`);
  title("Findings");
  if (health.findings.length === 0) context.print(paint(terminal, "green", "  everything is in order"));
  for (const finding of health.findings) {
    const color = finding.level === "attention" ? "red" : "dim";
    const [first = "", ...more] = findingLines(finding, terminal);
    context.print(`  ${paint(terminal, color, MARKS[finding.level])}  ${first}`);
    for (const line of more) context.print(line);
  }
}

const MARKS = { attention: "attention", note: "note     " } as const;
/** The indent of a finding's text. */
const MARGIN = 13;

/** The first line follows the mark. A command to type is on a separate line, whole. */
export function findingLines(
  { what, todo }: Pick<Health["findings"][number], "what" | "todo">,
  terminal: Pick<Terminal, "stdout" | "columns">,
): string[] {
  const room = Math.max(20, terminal.columns - MARGIN);
  const said = terminal.stdout ? wrap(harmlessLine(what), { width: room, indent: 0 }) : [harmlessLine(what)];
  const type = todo === null ? [] : [`→ ${harmlessLine(todo)}`];
  return [...said, ...type].map((line, at) => (at === 0 ? line : " ".repeat(MARGIN) + line));
}

/** Without a header. */
export function engineTable(
  rows: readonly (readonly string[])[],
  { stdout, columns }: Pick<Terminal, "stdout" | "columns">,
): string[] {
  return wrapTable([["", "", "", ""], ...rows], stdout ? columns : undefined).slice(1);
}

/** The engine's login state, last completed run and program. */
function engineWords(engine: Health["engines"][number], nowMs: number): string {
  if (engine.program === null) return harmlessLine(engine.legacy ?? "");
  const login =
    engine.id === "demo" || (engine.fit === "unknown" && engine.tested === null)
      ? []
      : [{ yes: "logged in", no: "not logged in", unknown: "login unknown" }[engine.login]];
  const last = engine.lastCompleted;
  const success = last === null ? "no completed run" : `completed ${last.handle} ${age(last.at, nowMs)} ago`;
  return harmlessLine([...login, success, engine.program].join(", "));
}

function fitText(engine: Health["engines"][number]): string {
  if (engine.program === null) return "";
  switch (engine.fit) {
    case "tested":
      return "tested";
    case "newer":
      return `newer than tested (${engine.tested?.[1] ?? ""})`;
    case "older":
      return `older than tested (${engine.tested?.[0] ?? ""})`;
    case "unknown":
      return "not tested";
  }
}
