/**
 * The report after an attempt: three lines on stderr for people, or one JSON object on stdout.
 */
import type { Trouble } from "../core/events.ts";
import { limitOf } from "../core/limit.ts";
import type { AttemptRecord, Receipt, RunRecord } from "../core/records.ts";
import { tokensText } from "../core/tokens.ts";
import { formatDuration } from "../lib/duration.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { shellLine, shellWord } from "../lib/shell.ts";
import { allEngines } from "../run/engine-setup.ts";
import type { AttemptResult, Deps } from "../run/run.ts";
import { type DryRun, isUnnamed, type ParentOffer, type ResumeOffer } from "../run/inspect.ts";
import { type Context, paint } from "./context.ts";
import type { View, ViewOptions } from "./live.ts";
import { hanging, hangingPath, resetText, resumeAtReset, unbroken } from "./words.ts";

export async function finishAttempt(
  context: Context,
  options: ViewOptions,
  result: AttemptResult,
  { view, deps }: { readonly view: View; readonly deps: Deps },
): Promise<number> {
  if (options.json === true) context.printJson(toJson(result, await result.offer(), view.text()));
  else if (options.quiet === undefined)
    say(
      context,
      result,
      {
        offer: await result.offer(),
        parent: await result.parentOffer(),
        changes: await changesIn(deps, result),
      },
      view,
    );
  for (const diagnostic of result.attempt.diagnostics) context.log.warn(diagnostic);
  if (deps.config.notify?.bell === true && context.terminal.stderr) process.stderr.write("\x07");
  await result.finish();
  return result.exitCode;
}

async function changesIn(deps: Deps, { run, attempt, compared }: AttemptResult): Promise<readonly string[]> {
  if (attempt.startedFrom === undefined) return [];
  await compared;
  return (await import("./summary-changes.ts")).changeLines(deps, run, attempt);
}

export function printDryRun(context: Context, options: ViewOptions, plan: DryRun): number {
  if (options.json === true) {
    context.printJson({ ok: true, dryRun: true, ...plan });
    return 0;
  }
  const quoted = shellLine([plan.command.program, ...plan.command.args]);
  context.print(`cd ${shellWord(plan.command.cwd)}`);
  context.print(`${quoted}${plan.command.stdin === null ? "" : "   # message on stdin"}`);
  context.print(`kind      ${plan.kind}`);
  context.print(
    `session   ${plan.receipt.asked ?? "a new one"}${plan.receipt.restoredFromEscrow ? " (restored from the run's copy first)" : ""}`,
  );
  const { kept, dropped, rewritten } = plan.receipt.options;
  for (const [what, texts] of Object.entries({ kept, dropped, rewritten })) {
    if (texts.length > 0) context.print(`${what.padEnd(9)} ${texts.join("  ")}`);
  }
  context.print(
    `message   ${plan.message === null ? "none (opens the UI)" : harmlessLine(plan.message, 200)}`,
  );
  for (const note of plan.notes) context.print(`note      ${note}`);
  return 0;
}

function toJson(result: AttemptResult, offer: ResumeOffer, text: string) {
  const { run, attempt } = result;
  return {
    ok: attempt.outcome?.result === "completed",
    handle: run.handle,
    runId: run.runId,
    runDirectory: run.runDirectory,
    agentName: run.agentName,
    session: run.session,
    parent: run.parent ?? null,
    resumable: offer.why === null,
    attempt: attempt.n,
    kind: attempt.kind,
    outcome: attempt.outcome,
    exitCode: result.exitCode,
    nativeExit: attempt.exit,
    tokens: attempt.tokens,
    sessionTokens: attempt.sessionTokens ?? null,
    text,
    receipt: result.receipt,
    lastWords: attempt.lastWords ?? [],
    diagnostics: attempt.diagnostics,
  };
}

interface Offers {
  readonly offer: ResumeOffer;
  readonly parent: ParentOffer | null;
  /** Lines about changed files. */
  readonly changes: readonly string[];
}

function say(context: Context, result: AttemptResult, { offer, parent, changes }: Offers, view: View): void {
  const { terminal } = context;
  const paper = { stdout: terminal.stderr, columns: terminal.columns };
  const { run, attempt, receipt } = result;
  const lines: string[] = [];
  if (attempt.outcome !== null && attempt.outcome.result !== "completed") {
    const state = limitOf(attempt) === null ? attempt.outcome.result : "limited";
    const color = state === "cancelled" || state === "limited" ? "yellow" : "red";
    lines.push(paint(terminal, color, `${state}: ${harmlessLine(attempt.outcome.reason, 400)}`));
    if (attempt.outcome.trouble !== undefined)
      lines.push(describeTrouble(attempt.outcome.trouble, Date.parse(attempt.endedAt ?? "")));
    const words = view.showsStderr ? [] : lastWordsOf(attempt);
    lines.push(...words.map((text, at) => `${(at === 0 ? "stderr" : "").padEnd(8)} ${text}`));
  }
  const used = usedText(attempt);
  if (used !== null) lines.push(paint(terminal, "dim", `tokens   ${used}, ${took(attempt)}`));
  const proved =
    receipt === null || receipt.verified === "diverged" ? "" : ` (${proofText(receipt, attempt)})`;
  const session =
    offer.unbegun === true || offer.answered !== undefined
      ? noConversation(offer)
      : run.session.value === null
        ? isUnnamed(run)
          ? UNNAMED
          : "none found"
        : `${run.session.field ?? "session"} ${harmlessLine(run.session.value, 200)}${proved}`;
  const resetsAt = attempt.outcome?.trouble?.resetsAt;
  const later =
    offer.why === null ? resumeAtReset(run.handle, resetsAt, Date.parse(attempt.endedAt ?? "")) : null;
  lines.push(
    `handle   ${paint(terminal, "bold", run.handle)}   (${nextOf(offer)})`,
    ...(later === null ? [] : [`later    ${unbroken(later)} resumes when the limit ends`]),
    ...(parent === null ? [] : [`fork of  ${parent.handle}   (${parentText(parent)})`]),
    `run      ${hangingPath(paper, harmlessLine(run.runDirectory, 1_000), LABEL)}`,
    `session  ${session}`,
    ...changes.map((line) => (line.startsWith("changes") ? line : unbroken(line))),
  );
  process.stderr.write(
    `${lines.map((line) => (line.includes("\n") ? line : hanging(paper, line, LABEL))).join("\n")}\n`,
  );
}

const LABEL = 9;

/** In place of the id of a new conversation, which the earlier ids of the run are not. */
export const UNNAMED = "unknown: the engine named no id for this conversation";

/** Shown instead of an id that has no conversation. */
export function noConversation({ answered }: ResumeOffer): string {
  if (answered === undefined) return "none: no conversation ever began";
  return `none: the engine answered in session ${harmlessLine(answered, 200)}, which is not a copy`;
}

function nextOf({ why, next }: ResumeOffer): string {
  return why === null ? unbroken(next) : `cannot be resumed: ${harmlessLine(why, 1_000)}`;
}

function parentText({ resume, gone }: ParentOffer): string {
  if (gone) return "that run is no longer there";
  if (resume === null) return "its conversation cannot be resumed there";
  return `${unbroken(`${resume} "…"`)} goes on there`;
}

/** Does not repeat what the reason says. */
export function lastWordsOf({ lastWords = [], outcome }: AttemptRecord): readonly string[] {
  const said = `${outcome?.reason ?? ""}\n${outcome?.trouble?.message ?? ""}`;
  return lastWords.map((text) => harmlessLine(text, 300)).filter((text) => !said.includes(text));
}

function describeTrouble(trouble: Trouble, nowMs: number): string {
  return `${trouble.kind}${resetText(trouble.resetsAt, nowMs)}: ${harmlessLine(trouble.message, 400)}`;
}

function proofText({ verified, asked, reported }: Receipt, attempt: AttemptRecord): string {
  if (verified === "engine_reported") return "the same conversation: the engine reported this id";
  if (verified === "forked") {
    const how = isFromStore(attempt, reported)
      ? "the engine's store has it by this new id"
      : "the engine reported this new id";
    return `a copy of the conversation: ${how}`;
  }
  if (verified === "store_confirmed") return "the same conversation: the engine's store was written";
  return unprovenWords({ asked, reported });
}

/** Of a receipt whose `verified` is `not_verified`. */
export function unprovenWords({ asked, reported }: Pick<Receipt, "asked" | "reported">): string {
  if (reported === null) return "not verified: the engine reported no id";
  return reported === asked
    ? "not verified: the engine opened it and wrote nothing to it"
    : "not verified: another session than the one asked for";
}

/** The engine named no id: its store has a session that this attempt wrote. */
export function isFromStore({ reported }: AttemptRecord, session: string | null): boolean {
  return reported.find(({ value }) => value === session)?.source === "store";
}

/** What an attempt used. Null: its engine reported nothing. */
export function usedText({ tokens, sessionTokens }: AttemptRecord): string | null {
  if (tokens !== null) return tokensText(tokens);
  return sessionTokens === undefined ? null : `${tokensText(sessionTokens)} in the whole conversation`;
}

function took(attempt: AttemptResult["attempt"]): string {
  return attempt.endedAt === null
    ? ""
    : formatDuration(Date.parse(attempt.endedAt) - Date.parse(attempt.startedAt));
}

/** The project of the run's directory may define its engine. Its file is read only where the user's does not. */
export async function withEngineOf(
  context: Context,
  deps: Deps,
  { agentName, cwd }: Pick<RunRecord, "agentName" | "cwd">,
): Promise<Deps> {
  if (allEngines(deps).some(({ id }) => id === agentName)) return deps;
  return context.configure(deps, { cwd });
}
