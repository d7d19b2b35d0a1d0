/**
 * The options of `reprise issues run`, and how an unfinished batch continues: as a command line to type, and as the
 * options that `--resume` inherits from the earlier batch.
 */
import { isDeepStrictEqual } from "node:util";
import type { Command } from "commander";
import { type Access, ACCESS_LEVELS, DEFAULT_ACCESS } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import { typedDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { arrayIn, stringIn } from "../lib/json.ts";
import { shellLine } from "../lib/shell.ts";
import { type AccessFrom, type BatchRecord, PLACEHOLDER } from "../issues/issues.ts";
import type { SharedOptions } from "./attempt-options.ts";
import { count, duration, makeCommand, once, oneOf, parse, text } from "./command.ts";
import { addSourceOptions, type SourceFlags } from "./issues-look.ts";

export interface RunOptions
  extends SourceFlags, Pick<SharedOptions, "timeout" | "idleTimeout" | "trustCwd" | "json"> {
  readonly resume?: true;
  readonly strict?: true;
  readonly fresh?: true;
  readonly acceptGate?: true;
  readonly scope?: string;
  readonly order?: "priority" | "input";
  readonly maxIssues?: number;
  readonly includeAll?: true;
  readonly engine?: string;
  readonly access?: Access;
  readonly maxAgents?: number;
  readonly isolate?: "worktree" | "none";
  readonly merge?: true;
  readonly onLimit?: "wait" | "stop";
  readonly dryRun?: true;
  readonly watch?: true;
  readonly verbose?: true;
}

export const DEFAULT_ENGINE = "claude";
const SCOPE = "Scope & Ordering";
const WORK = "The work";

/** The specification defines the groups and the words of `--resume` and `--strict`. */
function addScopeOptions(command: Command): Command {
  return command
    .optionsGroup(`${SCOPE}:`)
    .option("-r, --resume", "Prioritize in_progress issues AND attempt to resume their prior sessions")
    .option("--strict", "With --resume: fail issues that have no prior session to resume")
    .option("--fresh", "With --resume: keep the work in progress, but start new conversations")
    .option("--accept-gate", "With --resume: accept a gate that differs from the batch's")
    .addOption(once("--scope <scope>", "all (default), ids:a,b or epic:X", text))
    .addOption(
      once(
        "--order <order>",
        "priority (default) or input (the order of the source)",
        oneOf("priority", "input"),
      ),
    )
    .addOption(once("--max-issues <n>", "maximum number of issues", count(1, 1_000_000)))
    .option("--include-all", "include issues of people who are not owners, members or collaborators");
}

function addWorkOptions(command: Command): Command {
  return command
    .optionsGroup(`${WORK}:`)
    .addOption(once("--engine <engine>", `engine of the agents (default ${DEFAULT_ENGINE})`, text))
    .addOption(
      once(
        "--access <level>",
        `rights of the agents: read, edit (default: change files in the worktree) or full; native options override it`,
        oneOf(...ACCESS_LEVELS),
      ),
    )
    .addOption(once("--max-agents <n>", "number of agents at a time (default 1)", count(1, 64)))
    .addOption(once("--timeout <time>", "maximum duration of a turn, e.g. 2h", duration))
    .addOption(
      once("--idle-timeout <time>", "maximum time without output (default 15m, 0 = no limit)", duration),
    )
    .addOption(
      once(
        "--isolate <how>",
        "worktree (default; one branch per issue) or none (in the checkout, one agent at a time)",
        oneOf("worktree", "none"),
      ),
    )
    .option("--merge", "merge branches that pass into the current branch")
    .addOption(
      once(
        "--on-limit <what>",
        "wait (default) for the end of a rate limit, or stop with exit code 75",
        oneOf("wait", "stop"),
      ),
    )
    .option("--trust-cwd", "make the engine trust this directory, and use the project's reprise.toml")
    .optionsGroup("Options:")
    .option("--dry-run", "show the plan with reasons, without starting anything")
    .option("--watch", "keep looking for new issues when all are done")
    .option("--verbose", "show which session each issue resumes")
    .option("--json", "print one JSON object at the end");
}

export const command = () =>
  addWorkOptions(
    addSourceOptions(
      addScopeOptions(
        makeCommand({
          name: "issues run",
          summary:
            "Let agents work on the issues of a repository, check the work, and close issues that pass.",
          examples: [
            "reprise issues run --engine claude --max-agents 3",
            "reprise issues run --resume            (the last batch goes on: same scope, engine and rights)",
            "reprise issues run --resume --strict --dry-run",
            "reprise issues run --scope epic:a-7 --max-issues 5 -- --model opus",
          ],
        })
          .usage("[options] [repo] [-- native arguments…]")
          .argument("[repo]", "directory in the repository (default: current directory)"),
      ).optionsGroup("Where issues are:"),
    ),
  );

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
export const REPEATED: Readonly<Record<Exclude<keyof RunOptions, "cwd">, Repeat>> = {
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

/** The options of a batch as words after `reprise issues run --resume`, including secrets. */
export function optionWords(
  options: RunOptions,
  native: readonly string[],
  readers: "all" | "notes" = "all",
): string[] {
  const words: string[] = [];
  for (const option of command().options) {
    const name = option.attributeName() as keyof typeof REPEATED;
    const rule = REPEATED[name];
    const value = options[name];
    if (value === undefined || !rule.repeat || (readers === "notes" && !rule.inNotes)) continue;
    words.push(option.long ?? "");
    if (name === "timeout" || name === "idleTimeout") words.push(typedDuration(options[name] ?? 0));
    else if (value !== true) words.push(String(value));
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
const isHidden = (word: string) => /\[redacted(?::\w{1,64})?\]/.test(word);

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

/** Part of the batch is still to do. */
export function isUnfinished({ config, completed_at: completed, issues, left }: BatchRecord): boolean {
  if (!Array.isArray(config["options"])) return false;
  const isOpen = Object.values(issues).some(({ status }) => status !== "completed");
  return completed === null || left > 0 || isOpen;
}

export const textsIn = ({ config }: BatchRecord, key: string): string[] =>
  arrayIn(config, key).filter((word) => typeof word === "string");

export interface Inherited {
  readonly options: RunOptions;
  readonly native: readonly string[];
  /** Of those, the options inherited from the earlier batch. */
  readonly taken: RunOptions;
  readonly takenNative: readonly string[];
  /** The earlier batch. Null: nothing is inherited. */
  readonly batch: string | null;
  /** The batch to continue, with or without inherited options. Null: a new batch. */
  readonly before: Before | null;
}

/** The earlier batch, and which of its options this command line repeats. */
export interface Before {
  readonly record: BatchRecord;
  readonly sameScope: boolean;
  readonly sameEngine: boolean;
  /** That batch took issues in progress from other engines, because a person had named its engine. */
  readonly engineGiven: boolean;
  readonly sameAccess: boolean;
  readonly sameNative: boolean;
  /** For new runs, from any source. Null: an engine's option decided, or this command line overrides it. */
  readonly level: Access | null;
  readonly accessFrom: AccessFrom;
  /** Issues begun so far, if the same limit still counts. */
  readonly begun: readonly string[];
}

/**
 * What a bare `--resume` does: no more than the continued batch was allowed to do. That is the newest batch (`batches`
 * has it first) that began an issue.
 */
export function inherit(
  given: RunOptions,
  native: readonly string[],
  batches: Iterable<BatchRecord>,
  hasDashes = native.length > 0,
): Inherited {
  const nothing = { options: given, native, taken: {}, takenNative: [], batch: null, before: null };
  const last = given.resume === true ? firstBegun(batches) : null;
  if (last === null || !isUnfinished(last)) return nothing;
  const words = textsIn(last, "options");
  const [own, theirs] = split(words);
  const before = parsedWords(own);
  if (before === null) {
    if (given.scope !== undefined) return nothing;
    throw new Fault(
      "usage",
      `The options of batch ${harmlessLine(last.run_id, 40)} are not those of this version of Reprise: ${harmlessLine(shellLine(words), 300)}. Say what to work on: --scope all, ids:a,b or epic:X.`,
    );
  }
  const taken = takenFrom(before, given);
  const isSame = given.engine === undefined || given.engine === (before.engine ?? DEFAULT_ENGINE);
  const takesNative = !hasDashes && given.access === undefined && isSame;
  const takenNative = takesNative ? theirs : [];
  if (takenNative.some(isHidden))
    throw new Fault(
      "usage",
      `Batch ${harmlessLine(last.run_id, 40)} was started with a secret in its native options. Reprise does not store secrets, so what it began cannot be resumed. ` +
        "To begin an issue of it anew, set the issue's status to open, set the secret in the environment, and type: reprise issues run",
    );
  if (optionWords(taken, []).some(isHidden))
    throw new Fault(
      "usage",
      `Batch ${harmlessLine(last.run_id, 40)} was started with a secret, which Reprise does not store. Give the option again: ${harmlessLine(goOnCommand(withoutTrust(words)))}`,
    );
  const goesOn = beforeOf(last, before, { given, native, theirs, takesNative });
  if (Object.keys(taken).length === 0 && takenNative.length === 0) return { ...nothing, before: goesOn };
  return {
    options: { ...taken, ...given },
    native: takesNative ? takenNative : native,
    taken,
    takenNative,
    batch: last.run_id,
    before: goesOn,
  };
}

interface Said {
  readonly given: RunOptions;
  readonly native: readonly string[];
  readonly theirs: readonly string[];
  readonly takesNative: boolean;
}

function beforeOf(record: BatchRecord, before: RunOptions, said: Said): Before {
  const { given, native, theirs, takesNative } = said;
  const { config, issues } = record;
  const isSame = (name: "scope" | "engine" | "access" | "maxIssues") =>
    given[name] === undefined || given[name] === before[name];
  const from = stringIn(config, "access_from");
  const counts = before.maxIssues !== undefined && isSame("maxIssues");
  return {
    record,
    sameScope: isSame("scope"),
    sameEngine: isSame("engine"),
    engineGiven: isSame("engine") && config["engine_given"] === true,
    sameAccess: isSame("access"),
    sameNative: takesNative || isDeepStrictEqual(native, theirs),
    level: isSame("access") ? (ACCESS_LEVELS.find((level) => level === config["access"]) ?? null) : null,
    accessFrom: from === "config" || from === "default" ? from : "option",
    begun: counts ? [...new Set([...textsIn(record, "begun"), ...Object.keys(issues)])] : [],
  };
}

/** The access of new runs: as recorded, but without an explicit option at most the present config's level. */
export function levelOf(said: Access | null, from: AccessFrom, config: Access | null): Access {
  if (said === null || config === null || from === "option") return said ?? config ?? DEFAULT_ACCESS;
  return ACCESS_LEVELS.find((level) => level === said || level === config) ?? said;
}

/**
 * A continued batch keeps its gate and its limits, or does not begin: without the gate everything would pass, and a
 * limiting engine option in a config file may be gone.
 */
export function assertKept(
  { record, sameAccess, sameNative }: Before,
  given: RunOptions,
  now: {
    readonly gate: readonly string[];
    /** In the form of earlier versions: without quotes. */
    readonly plainGate?: readonly string[];
    readonly access: string;
    readonly engine: string;
  },
): string | null {
  const name = `Batch ${harmlessLine(record.run_id, 40)}`;
  const was = stringIn(record.config, "access") ?? "";
  const isLevel = ACCESS_LEVELS.some((level) => level === was);
  const isAsked = given.access !== undefined || !sameAccess || !sameNative;
  const isOther = stringIn(record.config, "engine") !== now.engine;
  if (was !== "" && !isLevel && was !== now.access && !isAsked && !isOther)
    throw new Fault(
      "usage",
      `${name} held its agents to ${harmlessLine(was, 200)}, which no config file sets any more. Put it back, or say what agents may do: --access read, edit or full.`,
      { facts: { batch: record.run_id, access: was } },
    );
  const gate = textsIn(record, "gate");
  if (gate.length === 0 || isDeepStrictEqual(gate, now.gate) || isDeepStrictEqual(gate, now.plainGate))
    return null;
  const had = `${name} checked its work with the gate ${harmlessLine(gate.join("; "), 300)}`;
  const change =
    now.gate.length === 0
      ? "and there is no gate now"
      : `and the gate is now ${harmlessLine(now.gate.join("; "), 300)}`;
  // Trusting the project's present file includes its gate; the absence of a gate is not part of any file.
  if (given.acceptGate === true || (given.trustCwd === true && now.gate.length > 0))
    return `${had}, ${change}.`;
  throw new Fault(
    "usage",
    `${had}, ${change}. Nothing was begun. Put the gate back into reprise.toml or your own config file, or go on with the change: --accept-gate`,
    { facts: { batch: record.run_id, gate, now: [...now.gate] } },
  );
}

function firstBegun(batches: Iterable<BatchRecord>): BatchRecord | null {
  for (const batch of batches) if (Object.keys(batch.issues).length > 0) return batch;
  return null;
}

/** Options that are inherited together or not at all. */
const TOGETHER: readonly (readonly (keyof typeof REPEATED)[])[] = [["source", "repo", "apiUrl"]];

function takenFrom(before: RunOptions, given: RunOptions): RunOptions {
  const names = (Object.keys(REPEATED) as (keyof typeof REPEATED)[]).filter((name) => {
    const rule = REPEATED[name];
    const group = TOGETHER.find((together) => together.includes(name)) ?? [name];
    const isGiven = group.some((one) => given[one] !== undefined);
    return rule.repeat && rule.inherit && before[name] !== undefined && !isGiven && !isAgainst(name, given);
  });
  return Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** A given option excludes it. */
function isAgainst(name: keyof typeof REPEATED, given: RunOptions): boolean {
  if (given.isolate === "none") return name === "merge" || name === "maxAgents";
  return name === "isolate" && (given.merge === true || (given.maxAgents ?? 1) > 1);
}

/** Null: this version does not know all of them. */
export function parsedWords(words: readonly string[]): RunOptions | null {
  const parser = command();
  try {
    parse(parser, words);
    return parser.opts();
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}
