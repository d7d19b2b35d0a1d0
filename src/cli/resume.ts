/**
 * `reprise resume <handle> [message…]`: options come before or after the message; a message that begins with a dash
 * follows `--`.
 */
import type { Option } from "commander";
import { Fault } from "../core/faults.ts";
import { HANDLE, readSelector } from "../core/ids.ts";
import type { RunRecord } from "../core/records.ts";
import { localTime } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Deps, resumeRun, type Watch } from "../run/run.ts";
import { dryRun } from "../run/inspect.ts";
import { selectLatest, selectRun } from "../run/select.ts";
import { attemptOptions, readEnv, SHARED } from "./attempt-options.ts";
import { defineCommand, flag, RUN_HANDLE, repeatable, type OptionsOf, text, withValue } from "./define.ts";
import { detach } from "./detach.ts";
import { inForeground } from "./foreground.ts";
import { readMessage } from "./message.ts";
import { isOption, MissingRun, NATIVE_HINT, type Parser } from "./parse.ts";
import { openScheduled } from "./scheduled-lines.ts";
import { workingDirectory } from "./start.ts";
import { printDryRun } from "./summary.ts";

const OPTIONS = {
  last: flag("resume the run last used in this directory"),
  native: repeatable("<arg>", "native option for this attempt; repeat it for every word"),
  keep: flag("use --native in all later attempts as well"),
  dryRun: flag("print the native command and the checks, without running anything"),
  detach: flag("run in the background and print the handle; see `reprise attach`"),
  fork: flag("continue a copy of the conversation as a new run, if the engine supports it"),
  session: withValue(
    "<id>",
    "continue an earlier conversation of the run (its id, or 8 or more characters of it)",
    text,
  ),
  restoreCopy: flag("replace a damaged or incomplete session with the run's copy"),
  copy: withValue(
    "<id>",
    "replace the session with this copy (8 or more characters of the id in `show`)",
    text,
  ),
  ignoreCopy: flag("continue a session that is shorter than the run's copy"),
  forceFresh: flag("start a new conversation in the same run"),
  at: withValue("<time>", 'let the daemon resume at this time: 07:30, "2026-11-19 07:30" or +2h', text),
  whenReset: flag("let the daemon resume when the last attempt's limit ends"),
  allowFiles: flag("accept changed policy and settings files, which define the agent's rights"),
  ...SHARED,
};
type ResumeOptions = OptionsOf<typeof OPTIONS>;

export const command = defineCommand({
  name: "resume",
  summary: "Continue a run's conversation as its next attempt.",
  usage: "[options] <handle> [message…]",
  args: {
    handle: { help: RUN_HANDLE.help, values: "handles" },
    message: { help: "next message; put a message that begins with a dash after `--`", many: true },
  },
  options: OPTIONS,
  examples: [
    'reprise resume 1a2b3c4d "go on, and add a test" --timeout 2h',
    'reprise resume --last "what is left to do?"',
    'reprise resume 1a2b3c4d --native -m --native gpt-5 -- "- a message that begins with a dash"',
    "reprise resume 1a2b3c4d --dry-run",
  ],
  split: splitMessage,
  run: async ({ args, options, message: words }, context) => {
    const { last = false, trustCwd = false } = options;
    assertFitting(options);
    if (!last && args.handle === undefined) throw whichRun(options, words);
    const message = await readMessage({ words, file: options.messageFile, stdin: options.stdin === true });
    const opened = await context.open({ cwd: null, badConfig: "refuse" });
    const found = last
      ? await selectLatest(opened, workingDirectory("."))
      : await selectRun(opened, args.handle ?? "").catch(orMessage(args.handle ?? "", words));
    // The project of the run's directory may configure engines, not the user's current one.
    const deps = await context.configure(opened, {
      cwd: found.cwd,
      runsAgents: options.dryRun === undefined,
      badConfig: "refuse",
      trustCwd,
    });
    const request: ResumeRequest = {
      ...attemptOptions(options, deps, context),
      ...requestOf(options),
      selector: found.runId,
      message,
      // A detached UI gets the terminal of a user who attaches.
      hasTerminal:
        options.detach === true ||
        (context.terminal.stdin && context.terminal.stdout && options.json === undefined),
      trustCwd,
    };
    if (options.at !== undefined || options.whenReset === true) {
      const { resumeLater } = await import("./resume-later.ts");
      const { native, keep, mode, limits } = request;
      const isJson = options.json === true;
      const wish = { message, native, keep, mode, limits };
      return await resumeLater(context, deps, found, { at: options.at, isJson, ...wish });
    }
    if (options.dryRun === true) return printDryRun(context, options, await dryRun(deps, found, request));
    const later = (await openScheduled(deps)).get(found.runId);
    if (later !== undefined)
      context.log.warn(
        `a resume of this run is scheduled for ${localTime(later.dueAt, deps.clock.now())} and stays. Cancel it: reprise scheduled cancel ${found.handle}`,
      );
    const watch: Pick<Watch, "recorded"> = {};
    await using _review = await followReview(deps, found, watch);
    if (options.detach === true)
      return await detach(context, options, deps, { do: "resume", request, asAttempt: null });
    return await inForeground(context, options, deps, {
      opensUi: message === null && request.hasTerminal,
      also: watch,
      attempt: (whole) => resumeRun(deps, request, whole),
    });
  },
});

type ResumeRequest = Parameters<typeof resumeRun>[1];

/** At a terminal, the user picks a run and types a message. */
function whichRun(options: ResumeOptions, words: string | null): Fault {
  const { dryRun: plans, messageFile, stdin } = options;
  const why =
    "Which run? `reprise list` shows the handles; --last takes the run last used in this directory.";
  const hasMessage = words !== null || plans === true || messageFile !== undefined || stdin === true;
  const message = "Enter without a message opens the engine's UI, if it has one.";
  return new MissingRun(new Fault("usage", why), {
    offers: "resumable",
    ...(hasMessage ? {} : { message }),
  });
}

/** `resume fix the test`: words of which the first names no run are the message to a run that the user picks. */
function orMessage(given: string, more: string | null): (error: unknown) => never {
  return (error) => {
    const isUnknown = error instanceof Fault && ["handle_invalid", "handle_unknown"].includes(error.code);
    if (!isUnknown || readSelector(given) !== null) throw error;
    const message = more === null ? given : `${given} ${more}`;
    const question = `Send ${JSON.stringify(harmlessLine(message, 60))} to which run?`;
    throw new MissingRun(error, { offers: "resumable", question });
  };
}

/** The part of a request that the options alone decide. */
function requestOf(options: ResumeOptions) {
  const { forceFresh, fork, session, copy, restoreCopy, ignoreCopy, native = [], keep = false } = options;
  const restores = restoreCopy === true || copy !== undefined;
  return {
    want: forceFresh === true ? ("fresh" as const) : fork === true ? ("fork" as const) : ("resume" as const),
    ...(session === undefined ? {} : { session }),
    ...(copy === undefined ? {} : { copy }),
    damage: restores ? ("restore" as const) : ignoreCopy === true ? ("ignore" as const) : ("refuse" as const),
    native,
    keep,
    env: readEnv(options),
    ...(options.allowEnv === undefined ? {} : { allowEnv: true as const }),
    ...(options.allowFiles === undefined ? {} : { allowFiles: true as const }),
  };
}

/** Refuses an option that has no effect beside another one. */
function assertFitting(options: ResumeOptions): void {
  const { forceFresh, fork, restoreCopy, copy, ignoreCopy, session } = options;
  const others = { "--fork": fork, "--session": session, "--restore-copy": restoreCopy, "--copy": copy };
  const [other] = Object.entries({ ...others, "--ignore-copy": ignoreCopy }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  );
  if (forceFresh === true && other !== undefined)
    throw new Fault("usage", `Give ${other} or --force-fresh, not both.`);
  assertFittingLater(options);
  const restoring = copy === undefined ? restoreCopy === true && "--restore-copy" : "--copy";
  if (restoring !== false && ignoreCopy === true)
    throw new Fault("usage", `Give ${restoring} or --ignore-copy, not both.`);
}

/** A later resume has the run's own options; an option that needs a person now cannot wait. */
function assertFittingLater(options: ResumeOptions): void {
  const { at, whenReset } = options;
  if (at !== undefined && whenReset === true)
    throw new Fault("usage", "Give --at or --when-reset, not both.");
  const later = at === undefined ? whenReset === true && "--when-reset" : "--at";
  const now = ["dryRun", "detach", "fork", "session", "restoreCopy", "copy", "ignoreCopy", "forceFresh"];
  const given = [...now, "allowFiles", "env", "allowEnv", "trustCwd", "raw"].find(
    (name) => name in options && options[name as keyof ResumeOptions] !== undefined,
  );
  if (later === false || given === undefined) return;
  const name = given.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  throw new Fault("usage", `Give ${later} or --${name}, not both.`);
}

/** A review's run has a sidecar and a transcript, which record this attempt as well. */
async function followReview(
  deps: Deps,
  found: RunRecord,
  watch: Pick<Watch, "recorded">,
): Promise<AsyncDisposable | null> {
  if (found.subject?.startsWith("pr:") !== true) return null;
  return (await import("../reviews/reviews.ts")).followSession(deps, found, watch);
}

/**
 * The message begins with the first word that is neither our option nor, except with `--last`, a handle. Options come
 * before or after it; an option between its words is refused. Commander alone would read options inside the message.
 */
export function splitMessage(
  parser: Parser,
  args: readonly string[],
): { own: readonly string[]; words: string | null } {
  const isLast = args.includes("--last") && !args.slice(0, args.indexOf("--last")).includes("--");
  const wanted = isLast ? 0 : 1;
  let operands = 0;
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") {
      const rest = args.slice(at + 1);
      if (operands < wanted && rest.length > 0) {
        // `resume -- HANDLE message`: the handle is the first word.
        return { own: [...args.slice(0, at), "--", rest[0] ?? ""], words: join(rest.slice(1)) };
      }
      return { own: args.slice(0, at), words: join(rest) ?? "" };
    }
    if (isOption(arg)) {
      if (takesNext(parser, arg)) at += 1;
      continue;
    }
    if (operands === wanted) {
      const rest = args.slice(at);
      const { end, unknown } = endOfMessage(parser, rest);
      if (isLast) assertNoHandle(arg);
      const own = unknown.length > 0 ? unknown : rest.slice(end);
      return { own: [...args.slice(0, at), ...own], words: join(rest.slice(0, end)) };
    }
    operands += 1;
  }
  return { own: args, words: null };
}

/**
 * The index of the options after the message, which nothing else may follow. An option must never become part of the
 * message: an unknown one ends the arguments, and commander reports it.
 */
function endOfMessage(parser: Parser, words: readonly string[]): { end: number; unknown: readonly string[] } {
  const dashes = words.indexOf("--");
  const end = dashes === -1 ? ownOptionsFrom(parser, words) : dashes;
  const options = words.slice(1, end).filter(isOptionWord);
  const unknown = options.find((word) => !isOwnOption(parser, word));
  if (unknown !== undefined) return { end, unknown: [unknown] };
  const [known] = options;
  if (known !== undefined) throw betweenWords(known);
  const behind = dashes === -1 ? "" : (words[dashes + 1] ?? "");
  if (isOptionWord(behind)) throw insideMessage(behind);
  return { end: dashes === -1 ? end : words.length, unknown: [] };
}

function ownOptionsFrom(parser: Parser, words: readonly string[]): number {
  for (let from = 1; from < words.length; from += 1) {
    let at = from;
    while (at < words.length && isOwnOption(parser, words[at] ?? ""))
      at += takesNext(parser, words[at] ?? "") ? 2 : 1;
    // Beyond the end: the last option lacks its value, which commander reports.
    if (at > from && at >= words.length) return from;
  }
  return words.length;
}

/** Excludes dashes in a text: `-`, `->`, `-1`, or several words in quotes. */
function isOptionWord(word: string): boolean {
  return /^--?[a-z][^\s]*$/i.test(word);
}

/** An option or a word: only the user knows. */
function betweenWords(word: string): Fault {
  const option = word.slice(0, 80);
  return new Fault(
    "usage",
    `${option} stands between the words of the message. Nothing was started. Put the option before or after the whole message, or quote the message if the option is part of it: reprise resume HANDLE "… ${option} …"`,
    { facts: { option } },
  );
}

/** In `start`, native options have this place. */
function insideMessage(word: string): Fault {
  const option = word.slice(0, 80);
  return new Fault(
    "usage",
    `\`--\` stands inside the message, before ${option}. ${NATIVE_HINT} If the message contains such a word, put the whole message after \`--\`. See \`reprise resume --help\`.`,
    { facts: { option } },
  );
}

function optionOf(parser: Parser, arg: string): Option | undefined {
  const name = arg.startsWith("--") ? arg.split("=", 1)[0] : arg;
  return parser.options.find(({ long, short }) => long === name || short === name);
}

function isOwnOption(parser: Parser, arg: string): boolean {
  return isOption(arg) && (["-h", "--help"].includes(arg) || optionOf(parser, arg) !== undefined);
}

function takesNext(parser: Parser, arg: string): boolean {
  return optionOf(parser, arg)?.required === true && !arg.includes("=");
}

function assertNoHandle(word: string): void {
  if (!HANDLE.test(word)) return;
  throw new Fault("usage", `Give the handle ${word} or --last, not both.`, { facts: { handle: word } });
}

function join(words: readonly string[]): string | null {
  return words.length === 0 ? null : words.join(" ");
}
