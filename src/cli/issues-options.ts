/** The options of `reprise issues run`, and the command line that continues an unfinished batch. */
import { ACCESS_LEVELS } from "../core/config-issues.ts";
import { Fault, unlessFault } from "../core/faults.ts";
import { typedDuration } from "../lib/duration.ts";
import { shellLine } from "../lib/shell.ts";
import { PLACEHOLDER } from "../issues/rights.ts";
import { TIMEOUTS, TRUST_CWD } from "./attempt-options.ts";
import { choice, count, type Declaration, flag, group, type OptionsOf, text, withValue } from "./define.ts";
import { SOURCE_OPTIONS } from "./issues-source.ts";
import { flagOf, parseOptions } from "./parse.ts";

export const DEFAULT_ENGINE = "claude";

/** The specification defines the groups and the words of `--resume` and `--strict`. */
const OPTIONS = {
  ...group("Scope & Ordering", {
    resume: flag("Prioritize in_progress issues AND attempt to resume their prior sessions", "-r"),
    strict: flag("with --resume: fail issues that have no prior session to resume"),
    fresh: flag("with --resume: keep the work in progress, but start new conversations"),
    acceptGate: flag("with --resume: accept a gate that changed since the last batch"),
    scope: withValue("<scope>", "all (default), ids:a,b or epic:X", text),
    order: choice("<order>", "priority (default) or input (the order of the source)", ["priority", "input"]),
    maxIssues: withValue("<n>", "maximum number of issues", count(1, 1_000_000)),
    includeAll: flag("include issues of authors who are not owners, members or collaborators"),
  }),
  ...group("Where issues are", SOURCE_OPTIONS),
  ...group("The work", {
    engine: withValue("<engine>", `engine of the agents (default ${DEFAULT_ENGINE})`, text, {
      values: "engines",
    }),
    access: choice(
      "<level>",
      "rights of the agents: read, edit (default: change files in the worktree) or full; native options override it",
      ACCESS_LEVELS,
    ),
    maxAgents: withValue("<n>", "number of agents at a time (default 1)", count(1, 64)),
    ...TIMEOUTS("a turn"),
    isolate: choice(
      "<how>",
      "worktree (default; one branch per issue) or none (in the checkout, one agent at a time)",
      ["worktree", "none"],
    ),
    merge: flag("merge branches that pass into the branch that is checked out at the start"),
    onLimit: choice("<what>", "wait (default) for the end of a rate limit, or stop with exit code 75", [
      "wait",
      "stop",
    ]),
    trustCwd: TRUST_CWD,
  }),
  dryRun: flag("show the plan with reasons, without starting anything"),
  watch: flag("keep looking for new issues when all are done"),
  verbose: flag("show which session each issue resumes"),
  json: flag("print one JSON object at the end"),
};
export type RunOptions = OptionsOf<typeof OPTIONS>;

export const DECLARATION = {
  name: "issues run",
  summary: "Let agents work on the issues of a repository, check the work, and close issues that pass.",
  args: { repo: { help: "directory in the repository (default: current directory)", values: "directories" } },
  options: OPTIONS,
  excess: "Give one repository only.",
  dashes: "engine",
  defaultEngine: DEFAULT_ENGINE,
  examples: [
    "reprise issues run --engine claude --max-agents 3",
    "reprise issues run --resume            (continue the last batch: same scope, engine and rights)",
    "reprise issues run --resume --strict --dry-run",
    "reprise issues run --scope epic:a-7 --max-issues 5 -- --model opus",
  ],
} as const satisfies Declaration;

/** The fate of an option when a batch continues. */
export type Repeat =
  | {
      readonly repeat: true;
      /** `--resume` inherits it from the batch, unless the command line overrides it. */
      readonly inherit: boolean;
      /** Other people read notes in issues. */
      readonly inNotes: boolean;
    }
  | { readonly repeat: false; readonly why: string };

const ALWAYS: Repeat = { repeat: true, inherit: true, inNotes: true };
const NOT_IN_NOTES: Repeat = { ...ALWAYS, inNotes: false };
/** A person may type it again, but a later command never applies it unasked. */
const BY_HAND: Repeat = { repeat: true, inherit: false, inNotes: true };
/** With this option, the command in a note would fail again. */
const STRICT: Repeat = { ...BY_HAND, inNotes: false };
const ONLY_PRINTS: Repeat = { repeat: false, why: "it changes only the output" };

/** One line per option: a new option does not compile without it, and a test compares the table with the parser. */
export const REPEATED: Readonly<Record<keyof RunOptions, Repeat>> = {
  resume: { repeat: false, why: "it is in the command already" },
  strict: STRICT,
  fresh: { repeat: false, why: "it would drop the conversations that this batch has begun" },
  acceptGate: { repeat: false, why: "it is about the batch before, and about the gate of the moment" },
  scope: ALWAYS,
  order: ALWAYS,
  maxIssues: ALWAYS,
  includeAll: ALWAYS,
  source: ALWAYS,
  repo: ALWAYS,
  apiUrl: NOT_IN_NOTES,
  token: { repeat: false, why: "it is a secret" },
  engine: ALWAYS,
  access: ALWAYS,
  maxAgents: ALWAYS,
  timeout: ALWAYS,
  idleTimeout: ALWAYS,
  isolate: ALWAYS,
  merge: ALWAYS,
  onLimit: ALWAYS,
  trustCwd: { repeat: false, why: "it is a person's word about files as they are at the moment" },
  dryRun: { repeat: false, why: "it begins nothing" },
  watch: BY_HAND,
  verbose: ONLY_PRINTS,
  json: ONLY_PRINTS,
};

const OPTION_NAMES = Object.keys(OPTIONS) as (keyof RunOptions)[];

/** The options of a batch as words after `reprise issues run --resume`, including secrets. */
export function optionWords(
  options: RunOptions,
  native: readonly string[],
  readers: "all" | "notes" = "all",
): string[] {
  const words: string[] = [];
  for (const name of OPTION_NAMES) {
    const rule = REPEATED[name];
    const given = options[name];
    if (given === undefined || !rule.repeat || (readers === "notes" && !rule.inNotes)) continue;
    words.push(flagOf(name, OPTIONS[name]));
    if (name === "timeout" || name === "idleTimeout") words.push(typedDuration(options[name] ?? 0));
    else if (given !== true) words.push(String(given));
  }
  return readers === "notes" || native.length === 0 ? words : [...words, "--", ...native];
}

/** `place`: the directory, if it must be named. Null: the user types the command there. */
export function goOnCommand(words: readonly string[], place: string | null = null): string {
  const [own, native] = split(words);
  const rest = native.length === 0 ? [] : ["--", ...native];
  const where = place === null ? [] : [place];
  return shellLine(["reprise", "issues", "run", "--resume", ...own, ...where, ...rest]);
}

export function split(words: readonly string[]): [own: readonly string[], native: readonly string[]] {
  const dashes = words.indexOf("--");
  return dashes === -1 ? [words, []] : [words.slice(0, dashes), words.slice(dashes + 1)];
}

/** What a person must do besides typing the command. Empty: nothing. */
export function byHandText(byHand: readonly string[]): string {
  const secret = byHand.filter((name) => name !== "--token" && name !== "--trust-cwd");
  return [
    secret.length === 0
      ? ""
      : `Put the secret of ${secret.join(", ")} in by hand, in place of ${HIDDEN}: Reprise does not store it.`,
    byHand.includes("--token") ? "Add --token, or set GITHUB_TOKEN: Reprise does not store it." : "",
    byHand.includes("--trust-cwd")
      ? "Add --trust-cwd, unless the engine trusts this folder by itself: new runs want it, and Reprise does not repeat it."
      : "",
  ]
    .filter((part) => part !== "")
    .join(" ");
}

const HIDDEN = "[redacted]";
export const isHidden = (word: string) => /\[redacted(?::\w{1,64})?\]/.test(word);

/** A printed command that was typed with the mark in place of the secret. */
export function assertNoMark(args: readonly string[]): void {
  if (args.includes(PLACEHOLDER))
    throw new Fault("usage", `Put the right options in place of ${PLACEHOLDER}.`);
  if (!args.some(isHidden)) return;
  throw new Fault("usage", `Put the secret in place of ${HIDDEN}: Reprise does not store it.`);
}

/** Earlier versions kept this option: typing the command would trust files that have changed since. */
export const withoutTrust = (words: readonly string[]) => {
  const [own, native] = split(words);
  const kept = own.filter((word) => word !== "--trust-cwd");
  return native.length === 0 ? kept : [...kept, "--", ...native];
};

/** Null: this version does not know all of them. */
export function parsedWords(words: readonly string[]): RunOptions | null {
  return unlessFault(() => parseOptions(DECLARATION, words), null);
}
