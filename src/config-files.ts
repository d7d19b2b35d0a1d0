/**
 * The config files: the user's, and the project's if the user trusts it. Also asks for that trust, which runbooks need
 * as well.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { WorldOptions } from "./cli/cli.ts";
import { type ConfigFile, mergeConfig, parseConfig, projectPowers } from "./core/config.ts";
import type { Log } from "./core/deps.ts";
import { Fault, unlessFault } from "./core/faults.ts";
import type { RunbookSource } from "./core/runbook.ts";
import { harmless } from "./lib/harmless.ts";
import { plural } from "./lib/plural.ts";
import type { Deps } from "./run/run.ts";
import { findProjectFile, readConfigText, userConfigFile } from "./state/config-text.ts";
import { sharedLock } from "./state/directory.ts";
import { readRecord, writeAtomic } from "./state/files.ts";
import { inTurn } from "./store/store.ts";

/** The user's config, then the project's if it is allowed. */
export async function configure(deps: Deps, options: WorldOptions): Promise<Deps> {
  const badConfig = options.badConfig ?? (options.runsAgents === true ? "refuse" : "warn");
  const unread: string[] = [];
  const complaints = badConfig === "refuse" ? null : unread;
  const { config: user } = readConfig(userConfigFile(deps.env), "user", complaints);
  const file = options.cwd === undefined || options.cwd === null ? null : findProjectFile(options.cwd);
  // Read once: the user trusts exactly the text that Reprise uses.
  const { config: project, text } = readConfig(file, "project", complaints);
  if (badConfig === "warn") warnOf(unread, options.log);
  const powers = projectPowers(project);
  const usable =
    file === null ||
    text === null ||
    powers.length === 0 ||
    (await isTrusted(deps, { file, text, powers }, options));
  const merged = mergeConfig(user, usable ? project : {});
  const config = usable ? merged : { ...merged, untrusted: powers };
  return { ...deps, config: unread.length === 0 ? config : { ...config, unread } };
}

/** Commands that inspect, stop and remove use defaults for unreadable settings. */
function warnOf([first, ...more]: readonly string[], log: Log): void {
  if (first === undefined) return;
  const rest =
    more.length === 0 ? "" : ` (and ${plural(more.length, "more problem")}; see \`reprise doctor\`)`;
  log.warn(
    `${first}${rest} This command uses defaults for the settings that it cannot read; commands that start agents refuse until you correct the file.`,
  );
}

/** `complaints` collects problems. Null: the first problem is thrown. */
function readConfig(
  file: string | null,
  level: "user" | "project",
  complaints: string[] | null,
): { readonly config: ConfigFile; readonly text: string | null } {
  if (file === null) return { config: {}, text: null };
  const onProblem = complaints === null ? undefined : ({ message }: Fault) => void complaints.push(message);
  let text: string | null;
  try {
    text = readConfigText(file);
  } catch (error) {
    if (onProblem === undefined || !(error instanceof Fault) || error.code !== "config_invalid") throw error;
    onProblem(error);
    return { config: {}, text: null };
  }
  return { config: text === null ? {} : parseConfig(text, file, level, onProblem), text };
}

/**
 * A project file that names programs, arguments or variables is untrusted code: it counts only after the user trusted
 * exactly this text.
 */
async function isTrusted(
  deps: Deps,
  { file, text, powers }: { file: string; text: string; powers: readonly string[] },
  options: WorldOptions,
): Promise<boolean> {
  const sha256 = createHash("sha256").update(text).digest("hex");
  return agreed(deps, [{ path: file, sha256 }], { what: `${file} sets ${powers.join(", ")}`, options });
}

/** A project's runbooks and the prompts that they name. Throws `trust_required` if the user has not agreed to them. */
export async function trust(
  deps: Deps,
  files: readonly RunbookSource[],
  options: WorldOptions,
): Promise<void> {
  const what = `${files.map(({ path }) => path).join(", ")} ${files.length === 1 ? "defines" : "define"} commands that run here`;
  await agreed(deps, files, { what, options: { ...options, runsAgents: true } });
}

async function agreed(
  deps: Deps,
  files: readonly RunbookSource[],
  { what, options }: { readonly what: string; readonly options: WorldOptions },
): Promise<boolean> {
  const record = join(deps.state.root, "trusted.json");
  // `doctor` itself reports a damaged record.
  const known: Record<string, string> =
    options.badConfig === "report" ? unlessFault(() => readTrusted(record), {}) : readTrusted(record);
  // A worktree of ours has the content of its repository, where the user agreed to the same text.
  const isAgreed = ({ path, sha256 }: RunbookSource) =>
    known[path] === sha256 ||
    (path.startsWith(`${deps.state.runsRoot}/`) && Object.values(known).includes(sha256));
  if (files.every(isAgreed)) return true;
  if (options.plans === true) {
    if (options.trustCwd === true) return true;
    const answer =
      options.terminal.stdin && options.terminal.stderr ? "asks for your trust" : "stops there (exit 8)";
    options.log.warn(
      `${what}, and you have not trusted it. The plan leaves that file out; the command itself ${answer}. Look at it, then add --trust-cwd.`,
    );
  }
  if (options.runsAgents !== true) return false;
  const yes =
    options.trustCwd === true ||
    (options.terminal.stdin && options.terminal.stderr && (await ask(`${what}. Trust it? [y/N] `)));
  if (!yes) {
    throw new Fault(
      "trust_required",
      `${what}, which could run any program. Look at it, then add --trust-cwd.`,
      { facts: { files: files.map(({ path }) => path) } },
    );
  }
  const added = Object.fromEntries(files.map(({ path, sha256 }) => [path, sha256]));
  // Another process may have recorded other agreements since it was read.
  await inTurn(sharedLock(deps.state), () => {
    writeAtomic(record, `${JSON.stringify({ ...readTrusted(record), ...added }, null, 2)}\n`);
  });
  return true;
}

function readTrusted(record: string): Record<string, string> {
  const known = readRecord(record);
  return known === null ? {} : (known as Record<string, string>);
}

async function ask(question: string): Promise<boolean> {
  const { createInterface } = await import("node:readline/promises");
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await prompt.question(harmless(question))).trim());
  } finally {
    prompt.close();
  }
}
