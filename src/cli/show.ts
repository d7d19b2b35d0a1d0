/** `reprise show <handle>`: one run, its attempts, and the proof of each resume. */
import type { Tokens } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { limitOf, limitWords, type RunLimit } from "../core/limit.ts";
import type { AttemptRecord, Escrow, Receipt, RunRecord } from "../core/records.ts";
import { formatDuration } from "../lib/duration.ts";
import { titleOf } from "../core/title.ts";
import { tokensText, usedBy } from "../core/tokens.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import {
  copyId,
  type InspectedAttempt,
  type Inspection,
  inspectRun,
  isUnnamed,
  type ResumeOffer,
  offerFor,
} from "../run/inspect.ts";
import { type Context, paint } from "./context.ts";
import { defineCommand, flag, RUN_HANDLE, attemptNumber } from "./define.ts";
import { sumOf } from "./issues-totals.ts";
import { isFromStore, lastWordsOf, noConversation, UNNAMED, usedText, withEngineOf } from "./summary.ts";
import { failedScheduled, failedText, openScheduled, scheduledText } from "./scheduled-lines.ts";
import { age, hanging, hangingPath, paintState, resetText, resumeAtReset, unbroken } from "./words.ts";

export const command = defineCommand({
  name: "show",
  summary: "Show one run, its attempts and the proof of each resume.",
  args: { handle: RUN_HANDLE },
  options: {
    attempt: attemptNumber("only this attempt"),
    json: flag("print one JSON object: the run record, and its attempts as `history`"),
  },
  examples: [
    "reprise show 1a2b3c4d",
    "reprise show 1a2b --attempt 2",
    "reprise show 1a2b3c4d --json | jq .session",
  ],
  run: async ({ args, options }, context) => {
    const deps = await context.open({ cwd: null });
    const found = await inspectRun(deps, args.handle);
    const offering = await withEngineOf(context, deps, found.run);
    const attempts = chosen(found, options.attempt);
    const scheduled = (await openScheduled(deps)).get(found.run.runId) ?? null;
    const failed = scheduled === null ? await failedScheduled(deps, found.run.runId) : null;
    if (options.json === true) {
      const { why, next: typed } = await offerFor(offering, found.run);
      context.printJson({
        ok: true,
        ...found.run,
        live: found.live,
        batch: found.batch,
        limit: limitIn(found),
        tokens: usedIn(found, deps.config.prices),
        resumable: why === null,
        whyNot: why,
        next: typed,
        escrowState: found.escrow,
        scheduled,
        scheduleFailed: failed,
        history: attempts.map(({ n, record, receipt }) => ({ n, ...record, receipt })),
        warnings: found.warnings,
      });
      return 0;
    }
    for (const warning of found.warnings) context.log.warn(warning);
    const isWhole = options.attempt === undefined;
    const offer = isWhole && found.live === null ? await offerFor(offering, found.run) : null;
    const nowMs = deps.clock.now();
    if (isWhole) printRun(context, found, offer, nowMs);
    const used = isWhole ? usedIn(found, deps.config.prices) : null;
    if (used !== null) lineIn(context)("tokens", tokensText(used));
    for (const attempt of attempts) printAttempt(context, attempt, nowMs);
    if (!isWhole) return 0;
    context.print("");
    const line = lineIn(context);
    line("scheduled", scheduled === null ? null : scheduledText(scheduled, nowMs));
    line("scheduled", failed === null ? null : failedText(failed, nowMs));
    line("next", next(found, offer, scheduled === null ? nowMs : null));
    return 0;
  },
});

function chosen(found: Inspection, n: number | undefined): readonly InspectedAttempt[] {
  if (n === undefined) return found.attempts;
  const attempts = found.attempts.filter((attempt) => attempt.n === n);
  if (attempts.length > 0) return attempts;
  const { handle } = found.run;
  throw new Fault(
    "attempt_unknown",
    `Run ${handle} has no attempt ${n}; it has ${plural(found.attempts.length, "attempt")}.`,
    {
      facts: { handle, attempt: n },
    },
  );
}

function printRun(context: Context, found: Inspection, offer: ResumeOffer | null, nowMs: number): void {
  const { terminal } = context;
  const { run: record } = found;
  const line = lineIn(context);
  const path = (label: string, value: string | null) => {
    if (value === null) return;
    const [first = "", ...more] = hangingPath(terminal, harmlessLine(value), LABEL).split("\n");
    context.print([`${paint(terminal, "dim", label.padEnd(LABEL))}${first}`.trimEnd(), ...more].join("\n"));
  };
  const live = found.live === null ? "" : `, pid ${found.live.pid}`;
  const limit = limitIn(found);
  const words = limit === null ? null : limitWords(limit, nowMs);
  const status =
    words === null
      ? paintState(terminal, record.status)
      : `${words.text}${words.state === "limited" ? "" : ", can go on"}`.replace(words.state, (word) =>
          paintState(terminal, word),
        );
  line("run", `${paint(terminal, "bold", record.handle)}  ${record.runId}`);
  line("engine", harmlessLine(record.agentName));
  line(
    "status",
    `${status}${live}, ${plural(record.attempts, "attempt")}, updated ${ago(record.updatedAt, nowMs)}`,
  );
  line("batch", batchText(found));
  if (record.name === null && record.launch.message === null) line("title", titleOf(record));
  line("name", record.name === null ? null : harmlessLine(record.name, 200));
  line(
    "tags",
    record.tags === undefined || record.tags.length === 0 ? null : harmlessLine(record.tags.join(", ")),
  );
  line("subject", record.subject === null ? null : harmlessLine(record.subject, 200));
  line("message", record.launch.message === null ? null : harmlessLine(record.launch.message, 200));
  path("cwd", record.cwd);
  const isNone = offer?.unbegun === true || offer?.answered !== undefined;
  line("session", offer !== null && isNone ? noConversation(offer) : sessionText(record));
  const { parent } = record;
  line(
    "fork of",
    parent === undefined ? null : `${parent.handle}  session ${harmlessLine(parent.session, 200)}`,
  );
  line("launch", launchText(found));
  path("home", record.engineHome);
  path("directory", record.runDirectory);
  const copy = record.escrow;
  line("copy", copy === null ? "none of the engine's session" : copyText(copy, found.escrow, nowMs));
  for (const [at, kept] of (record.kept ?? []).entries())
    line(at === 0 ? "earlier" : "", copyText(kept, found.kept[at], nowMs));
  if (found.attempts.length === 0 && found.live === null) line("attempts", noneText(record));
}

/** Of all attempts. Null: no engine reported any. */
function usedIn({ run, attempts }: Inspection, prices: Parameters<typeof sumOf>[1] = {}): Tokens | null {
  const used = attempts.flatMap(({ record }) => (record === null ? [] : (usedBy(run, record) ?? [])));
  return sumOf(
    used.map(({ tokens, model }) => (tokens === null || model === null ? tokens : { ...tokens, model })),
    prices,
  );
}

/** The limit that ended the run. Null: none did, or it goes on. */
function limitIn({ run, attempts }: Inspection): RunLimit | null {
  return run.status === "running" ? null : limitOf(attempts.at(-1)?.record ?? undefined);
}

const LABEL = 11;

function lineIn(context: Context): (label: string, value: string | null) => void {
  const { terminal } = context;
  return (label, value) => {
    if (value === null) return;
    // In place of the label, without a blank where the line could break.
    const lines = hanging(terminal, `${"-".repeat(LABEL)}${value}`, LABEL);
    context.print(`${paint(terminal, "dim", label.padEnd(LABEL))}${lines.slice(LABEL)}`);
  };
}

/** A run's status is its last attempt's; the batch may be anywhere after that. */
function batchText({ batch }: Inspection): string | null {
  if (batch === null) return null;
  return `${batch.batch}, pid ${batch.pid}: works on issue ${harmlessLine(batch.issue, 100)} (${batch.state})`;
}

/** Reprise records a run before it starts the agent. */
function noneText({ session, status }: RunRecord): string {
  if (session.value !== null) return "none yet";
  return status === "failed"
    ? "none: Reprise could not create the agent's directory, so it started no agent"
    : "none: Reprise ended before it started the agent";
}

/** The first executed command; the launch record has only the engine's arguments. */
function launchText({ run: { launch }, attempts }: Inspection): string | null {
  if (launch.args.length === 0) return null;
  const begins = (kind: string | undefined) => kind === "start" || kind === "fork";
  const first = attempts.find(({ n, record }) => n === 1 && begins(record?.kind))?.record ?? launch;
  return harmlessLine([first.program, ...first.args].join(" "), 1_000);
}

function sessionText(record: RunRecord): string {
  const { session, attempts, status } = record;
  if (isUnnamed(record)) return UNNAMED;
  if (session.value === null && attempts === 0 && status !== "running") return "none";
  if (session.value === null) return "none found";
  const proof = session.verifiedAt === null ? "not verified yet" : `verified ${session.verifiedAt}`;
  return `${session.field ?? "session"} ${harmlessLine(session.value, 200)} (${session.source ?? "unknown"}, ${proof})`;
}

function copyText(copy: Escrow, state: string | undefined, nowMs: number): string {
  const bytes = copy.files.reduce((sum, { size }) => sum + size, 0);
  const what = state === "whole" ? "whole" : "damaged or gone";
  const id = copyId(copy).slice(0, 8);
  return `${id} of session ${harmlessLine(copy.session, 200)}, ${bytes} bytes, taken ${ago(copy.takenAt, nowMs)}: ${what}`;
}

function printAttempt(context: Context, { n, record, receipt }: InspectedAttempt, nowMs: number): void {
  const { terminal } = context;
  context.print("");
  if (record === null) {
    context.print(`${paint(terminal, "bold", `attempt ${n}`)}  its record cannot be read`);
    return;
  }
  const indent = (text: string) => {
    const lines = hanging(terminal, `${"-".repeat(11)}${text}`, 13);
    context.print(`           ${lines.slice(11)}`);
  };
  const result = record.outcome?.result ?? "running";
  const reason = record.outcome === null ? "" : `: ${harmlessLine(record.outcome.reason, 1_000)}`;
  const title = hanging(terminal, `attempt ${n}  ${record.kind}, ${result}${reason}`, 11);
  context.print(
    title
      .replace(`attempt ${n}`, () => paint(terminal, "bold", `attempt ${n}`))
      .replace(`, ${result}`, () => `, ${paintState(terminal, result)}`),
  );
  indent(paint(terminal, "dim", factsOf(record)));
  if (record.message !== null) indent(`message: ${harmlessLine(record.message, 160)}`);
  const trouble = record.outcome?.trouble;
  if (trouble !== undefined) {
    indent(`${trouble.kind}${resetText(trouble.resetsAt, nowMs)}: ${harmlessLine(trouble.message, 1_000)}`);
  }
  for (const text of lastWordsOf(record)) indent(`stderr: ${text}`);
  for (const diagnostic of record.diagnostics) indent(harmlessLine(diagnostic, 400));
  if (receipt !== null) for (const text of proofOf(receipt, record)) indent(text);
}

function factsOf(record: AttemptRecord): string {
  const took =
    record.endedAt === null
      ? null
      : formatDuration(Date.parse(record.endedAt) - Date.parse(record.startedAt));
  const exit = record.exit === null ? null : (record.exit.signal ?? `exit ${record.exit.code ?? "unknown"}`);
  const used = usedText(record);
  const tokens = used === null ? null : `tokens ${used}`;
  const version = record.engineVersion === null ? null : `version ${harmlessLine(record.engineVersion, 60)}`;
  const facts = [
    record.startedAt,
    took,
    exit,
    `${record.mode}${record.interactive ? " (UI)" : ""}`,
    tokens,
    version,
  ];
  return facts.flatMap((fact) => (fact === null ? [] : [unbroken(fact)])).join(" · ");
}

/** The receipt as a proof that a person can check. */
export function proofOf(receipt: Receipt, attempt: AttemptRecord): readonly string[] {
  const asked = harmlessLine(receipt.asked, 200);
  const reported = receipt.reported === null ? null : harmlessLine(receipt.reported, 200);
  const lines = [
    receipt.verified === "forked" && isFromStore(attempt, receipt.reported)
      ? `proof: a copy of ${asked}, which the engine's store has under the new id ${reported ?? "nothing"}`
      : verdict(receipt, asked, reported),
  ];
  const { restoredCopy: copy } = receipt;
  if (receipt.restoredFromEscrow)
    lines.push(
      [
        `Reprise restored the run's copy of it first${copy === undefined ? "" : ` (copy ${copy.id}, made ${copy.takenAt})`}`,
        ...(receipt.lacks ?? []),
      ].join("; "),
    );
  for (const [what, options] of Object.entries(receipt.options)) {
    if (options.length > 0) lines.push(`options ${what}: ${harmlessLine(options.join("  "), 400)}`);
  }
  return lines;
}

function verdict(receipt: Receipt, asked: string, reported: string | null): string {
  switch (receipt.verified) {
    case "engine_reported":
      return `same conversation: Reprise asked for ${asked}, and the engine reported ${reported ?? "nothing"}`;
    case "store_confirmed":
      return `same conversation: Reprise asked for ${asked}, and the engine's store shows that it continued`;
    case "forked":
      return `proof: a copy of ${asked}, the engine reported the new id ${reported ?? "nothing"}`;
    case "not_verified":
      return receipt.reported === receipt.asked
        ? `no proof: asked for ${asked}, the engine opened it and wrote nothing to it`
        : `no proof: asked for ${asked}, the engine reported ${reported ?? "no id"}`;
    case "diverged":
      return `diverged: asked for ${asked}, the engine answered in ${reported ?? "another conversation"}`;
  }
}

/** `nowMs` null: a resume is scheduled already. */
function next(found: Inspection, offer: ResumeOffer | null, nowMs: number | null): string {
  const { handle } = found.run;
  const logs = unbroken(`reprise logs ${handle}`);
  if (offer === null) return `${logs}${unbroken(" -f")}    or    ${unbroken(`reprise stop ${handle}`)}`;
  const typed = unbroken(offer.next);
  const resetsAt = found.attempts.at(-1)?.record?.outcome?.trouble?.resetsAt;
  const later = nowMs === null ? null : resumeAtReset(handle, resetsAt, nowMs);
  const both = later === null ? typed : `${typed}    or    ${unbroken(later)}`;
  if (offer.why === null) return `${both}    or    ${logs}`;
  return `${typed}    (it cannot be resumed: ${harmlessLine(offer.why, 1_000)})`;
}

function ago(iso: string, nowMs: number): string {
  const text = age(iso, nowMs);
  return text === "now" ? "just now" : `${text} ago`;
}
