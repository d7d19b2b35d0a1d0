/**
 * `reprise logs <handle>`: an agent's words and actions, readable and harmless (I11) on a terminal and in a pipe.
 * Prints the tape itself only on request.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { followStream, readStream } from "../state/logs.ts";
import { attemptDir, loadAttemptFile, runDirAt } from "../state/runs.ts";
import type { LogName } from "../state/tape.ts";
import { Fault, ifFault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Redact } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { inspectRun, recognize, whyNotResumable } from "../run/inspect.ts";
import { selectRun } from "../run/select.ts";
import type { Context } from "./context.ts";
import { choice, defineCommand, flag, RUN_HANDLE, type OptionsOf, attemptNumber } from "./define.ts";
import { plainText, renderScreen, writeOut } from "./plain.ts";
import { redactedText, UNRECORDED, unknownText } from "./redacted.ts";
import { readableAttempt, type Reading } from "./transcript.ts";

const POLL_MS = 50;
const STREAMS = ["pty-output", "stdout", "stderr", "events", "timing"] as const satisfies readonly LogName[];

export const LOGS_OPTIONS = {
  follow: flag("keep printing until the run ends", "-f"),
  attempt: attemptNumber("only this attempt (default: all; with --stream, --plain or --raw: the last)"),
  stream: choice("<stream>", `one recorded stream: ${STREAMS.join(", ")}`, STREAMS),
  plain: flag("all output of an attempt as text without control sequences"),
  redacted: flag("hide secrets"),
  raw: flag("exact bytes of an attempt, including terminal control sequences"),
  json: flag("print the events of all attempts, one JSON object per line"),
};
export type LogsOptions = OptionsOf<typeof LOGS_OPTIONS>;

export const command = defineCommand({
  name: "logs",
  summary: "Print the messages and tool calls of all attempts as readable text.",
  args: { handle: RUN_HANDLE },
  options: LOGS_OPTIONS,
  examples: [
    "reprise logs 1a2b3c4d -f",
    "reprise logs 1a2b3c4d --attempt 1 --stream stderr",
    "reprise logs 1a2b3c4d --json | jq -r 'select(.type == \"tool\").name'",
    "reprise logs 1a2b3c4d --raw > tape",
    "reprise logs 1a2b3c4d --redacted > shareable.txt",
  ],
  run: async ({ args, options }, context) =>
    printLogs(context, await context.open({ cwd: null }), args.handle, options),
});

export async function printLogs(
  context: Context,
  deps: Deps,
  handle: string,
  options: LogsOptions,
): Promise<number> {
  checkOptions(options);
  const found = await selectRun(deps, handle);
  const last = attemptOf(found, options.attempt);
  // Refuses a link in place of the run directory before reading anything behind it.
  runDirAt(deps.state, found.runDirectory);
  const interrupt = new AbortController();
  const onInterrupt = () => interrupt.abort();
  process.once("SIGINT", onInterrupt);
  const wish: LogsRequest = { found, options, signal: interrupt.signal };
  const isTape = (options.raw ?? options.plain) === true || options.stream !== undefined;
  try {
    const parts = isTape ? await tapeParts(context, deps, wish, last) : readableParts(context, deps, wish);
    for await (const part of parts) {
      if (interrupt.signal.aborted || !(await writeOut(part))) break;
    }
  } finally {
    process.off("SIGINT", onInterrupt);
  }
  return interrupt.signal.aborted ? 130 : 0;
}

interface LogsRequest {
  readonly found: RunRecord;
  readonly options: LogsOptions;
  readonly signal: AbortSignal;
}

function checkOptions({ raw, plain, redacted, json, stream }: LogsOptions): void {
  const given = { raw, plain, json, redacted };
  const pairs = [
    ["raw", "plain"],
    ["raw", "redacted"],
    ["raw", "json"],
    ["plain", "json"],
  ] as const;
  for (const [one, other] of pairs)
    if (given[one] === true && given[other] === true)
      throw new Fault("usage", `Give --${one} or --${other}, not both.`);
  if (json === true && stream !== undefined)
    throw new Fault("usage", "--json prints events: leave --stream out, or give --stream events --raw.");
}

/** One file of one attempt. */
async function tapeParts(
  context: Context,
  deps: Deps,
  { found, options, signal }: LogsRequest,
  n: number,
): Promise<AsyncIterable<string | Buffer>> {
  const stream = options.stream ?? "pty-output";
  const redact = options.redacted === true ? await redactorOf(context, deps, { found, n }) : null;
  const chunks =
    options.follow === true
      ? follow(deps, found, { n, stream }, signal)
      : readStream(attemptDir(found.runDirectory, n), stream);
  if (options.raw === true) return chunks;
  const isScreen = options.follow === undefined && stream === "pty-output" && (await isInteractive(found, n));
  const text = isScreen ? renderScreen(chunks, context.terminal) : plainText(chunks);
  return redact === null ? text : redactedText(text, redact);
}

/** All attempts, or the requested one; with `follow` also attempts that begin meanwhile. */
async function* readableParts(context: Context, deps: Deps, wish: LogsRequest): AsyncGenerator<string> {
  const { found, options, signal } = wish;
  const one = options.attempt ?? null;
  const numbers = one === null ? Array.from({ length: found.attempts }, (_none, at) => at + 1) : [one];
  const redactor = (n: number) =>
    options.redacted === true ? redactorOf(context, deps, { found, n }) : Promise.resolve(null);
  // Refused as a whole, before the first output.
  for (const n of numbers) await redactor(n);
  let missing: Fault | null = null;
  let shown = 0;
  for (let n = numbers[0] ?? 1; !signal.aborted; n += 1) {
    const reading: Reading = {
      ...{ deps, found, n, signal, isFirst: shown === 0 },
      json: options.json === true,
      follow: options.follow === true,
      // Colours would separate the words that redaction looks for.
      terminal: options.redacted === true ? { ...context.terminal, color: false } : context.terminal,
      redact: await redactor(n),
    };
    try {
      yield* readableAttempt(reading);
      shown += 1;
    } catch (error) {
      if (!(error instanceof Fault) || error.code !== "attempt_unknown") throw error;
      // Its files are gone; the others are still shown.
      if (missing === null && numbers.length > 1) context.log.warn(error.message);
      missing ??= error;
    }
    if (one !== null || !(await hasNext(deps, found, n, reading))) break;
  }
  if (shown === 0 && missing !== null) throw missing;
}

/** With `follow`: waits while the run is live, because another attempt may begin. */
async function hasNext(deps: Deps, found: RunRecord, n: number, reading: Reading): Promise<boolean> {
  for (;;) {
    const now = reading.follow ? await selectRun(deps, found.runId) : found;
    if (now.attempts > n) return true;
    if (!reading.follow || now.status !== "running" || reading.signal.aborted) return false;
    await sleep(POLL_MS);
  }
}

/** Redaction would miss a secret that is no longer known. */
async function redactorOf(
  context: Context,
  deps: Deps,
  { found, n }: { readonly found: RunRecord; readonly n: number },
): Promise<Redact> {
  const configured = await context.configure(deps, { cwd: found.cwd });
  const inspected = await inspectRun(deps, found.runId);
  const { redact, unknown } = recognize(configured, inspected);
  const facts = { handle: found.handle, variables: unknown };
  if (unknown.length > 0)
    throw new Fault("secrets_unknown", `The agent of run ${found.handle} had ${unknownText(unknown)}`, {
      facts,
    });
  if (inspected.attempts.some((attempt) => attempt.n === n && attempt.record === null))
    throw new Fault("secrets_unknown", `Attempt ${n} of run ${found.handle} is not shown. ${UNRECORDED}`, {
      facts,
    });
  return redact;
}

/** The same as plain text, for JSON. */
export async function logText(
  context: Context,
  deps: Deps,
  handle: string,
  options: LogsOptions,
): Promise<{ readonly attempt: number; readonly text: string }> {
  const found = await selectRun(deps, handle);
  const attempt = attemptOf(found, options.attempt);
  runDirAt(deps.state, found.runDirectory);
  const redact = options.redacted === true ? await redactorOf(context, deps, { found, n: attempt }) : null;
  let text = "";
  const chunks = plainText(
    readStream(attemptDir(found.runDirectory, attempt), options.stream ?? "pty-output"),
  );
  for await (const part of redact === null ? chunks : redactedText(chunks, redact)) text += part;
  return { attempt, text };
}

interface Which {
  readonly n: number;
  readonly stream: LogName;
}

function attemptOf(found: RunRecord, wanted: number | undefined): number {
  const { handle, attempts } = found;
  if (attempts === 0) {
    const next =
      whyNotResumable(found) === null
        ? `Continue it: reprise resume ${handle} "…"`
        : `Look at it: reprise show ${handle}`;
    throw new Fault("attempt_unknown", `Run ${handle} has no attempt yet, so nothing was recorded. ${next}`, {
      facts: { handle },
    });
  }
  if (wanted !== undefined && wanted > attempts) {
    throw new Fault(
      "attempt_unknown",
      `Run ${handle} has no attempt ${wanted}; the last one is ${attempts}.`,
      {
        facts: { handle, attempt: wanted, attempts },
      },
    );
  }
  return wanted ?? attempts;
}

/** An attempt is recorded before its files exist, also after a crash in between. */
async function* follow(
  deps: Deps,
  found: RunRecord,
  { n, stream }: Which,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  // Reprise corrects a dead owner's status on sight, so this ends when no process writes any more.
  const ended = async () => {
    const now = await selectRun(deps, found.runId);
    return now.status !== "running" || now.attempts > n;
  };
  for (;;) {
    try {
      yield* followStream(attemptDir(found.runDirectory, n), stream, { ended, signal });
      return;
    } catch (error) {
      const early =
        error instanceof Fault && error.code === "attempt_unknown" && !signal.aborted && !(await ended());
      if (!early) throw error;
      await sleep(POLL_MS);
    }
  }
}

async function isInteractive(found: RunRecord, n: number): Promise<boolean> {
  // The record may be damaged; the output is still there.
  const record = await loadAttemptFile(found.runDirectory, n).catch(ifFault(null));
  return record?.interactive ?? false;
}
