/**
 * `reprise logs <handle>`: what an agent printed. A pipe gets the bytes untouched, a terminal gets text that
 * cannot do anything to it (I11), unless the user asks otherwise.
 */
import { once } from "node:events";
import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import {
  attemptDir,
  followStream,
  loadAttemptFile,
  type LogName,
  readStream,
  runDirAt,
} from "../audit/audit.ts";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import type { Redact } from "../lib/secrets.ts";
import { type Deps, inspectRun, recognize, selectRun, whyNotResumable } from "../run/run.ts";
import { count, makeCommand, once as option, oneOf, parse } from "./command.ts";
import type { Context } from "./context.ts";
import { plainText, renderScreen } from "./plain.ts";
import { redactedText, UNRECORDED, unknownText } from "./redacted.ts";

export interface LogsOptions {
  readonly follow?: true;
  readonly attempt?: number;
  readonly stream?: LogName;
  readonly plain?: true;
  readonly raw?: true;
  readonly redacted?: true;
}

const POLL_MS = 50;
const STREAMS = ["pty-output", "stdout", "stderr", "events", "timing"] as const satisfies readonly LogName[];

const command = () =>
  addLogsOptions(
    makeCommand({
      name: "logs",
      summary: "Print what an agent printed. Piped: the raw bytes. On a terminal: plain text.",
      examples: [
        "reprise logs 1a2b3c4d -f",
        "reprise logs 1a2b3c4d --attempt 1 --stream stderr",
        "reprise logs 1a2b3c4d --plain > log.txt",
        "reprise logs 1a2b3c4d --redacted > for-others.txt",
      ],
    })
      .usage("[options] <handle>")
      .argument("[handle]", "handle, unique prefix of 4 to 7 characters, or run id"),
  );

export function addLogsOptions(parser: Command): Command {
  return parser
    .option("-f, --follow", "go on until the attempt ends")
    .addOption(option("--attempt <n>", "of this attempt (default: the last)", count(1, 999_999_999)))
    .addOption(
      option(
        "--stream <stream>",
        `${STREAMS.join(", ")} (default: pty-output, all in order)`,
        oneOf(...STREAMS),
      ),
    )
    .option("--plain", "text without control sequences (default on a terminal)")
    .option("--redacted", "plain text in which secrets are hidden, also in a pipe")
    .option("--raw", "the bytes as they are, also on a terminal");
}

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = command();
  parse(parser, args);
  const options: LogsOptions = parser.opts();
  const [handle] = parser.args;
  if (handle === undefined) throw new Fault("usage", "Which run? `reprise list` shows the handles.");
  return printLogs(context, await context.open({ cwd: null }), handle, options);
}

export async function printLogs(
  context: Context,
  deps: Deps,
  handle: string,
  options: LogsOptions,
): Promise<number> {
  if (options.raw === true && (options.plain ?? options.redacted) === true)
    throw new Fault("usage", `Give --raw or --${options.plain === true ? "plain" : "redacted"}, not both.`);
  const found = await selectRun(deps, handle);
  const n = attemptOf(found, options.attempt);
  const stream = options.stream ?? "pty-output";
  // A link in place of the run directory is refused before anything behind it is read.
  runDirAt(deps.state, found.runDirectory);
  const redact = options.redacted === true ? await redactorOf(context, deps, { found, n }) : null;
  const interrupt = new AbortController();
  const onInterrupt = () => interrupt.abort();
  process.once("SIGINT", onInterrupt);
  try {
    const chunks =
      options.follow === true
        ? follow(deps, found, { n, stream }, interrupt.signal)
        : readStream(attemptDir(found.runDirectory, n), stream);
    const isPlain = options.raw !== true && (options.plain ?? options.redacted ?? context.terminal.stdout);
    const isScreen =
      isPlain && options.follow === undefined && stream === "pty-output" && (await isInteractive(found, n));
    const text = isScreen ? renderScreen(chunks, context.terminal) : plainText(chunks);
    const parts = redact !== null ? redactedText(text, redact) : isPlain ? text : chunks;
    for await (const part of parts) {
      if (interrupt.signal.aborted || !(await write(part))) break;
    }
  } finally {
    process.off("SIGINT", onInterrupt);
  }
  return interrupt.signal.aborted ? 130 : 0;
}

/** A secret that nobody knows any more would be printed as if it were none. */
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
    const next = whyNotResumable(found) === null ? ` Continue it: reprise resume ${handle} "…"` : "";
    throw new Fault("attempt_unknown", `Run ${handle} has no attempt yet, so nothing was recorded.${next}`, {
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

/** Also after a crash in between, an attempt is recorded before its files are there. */
async function* follow(
  deps: Deps,
  found: RunRecord,
  { n, stream }: Which,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  // A dead owner's status is corrected on sight, so this ends when nobody writes any more.
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
  try {
    return (await loadAttemptFile(found.runDirectory, n))?.interactive ?? false;
  } catch (error) {
    // Its record is damaged; what it printed is still there to be shown.
    if (error instanceof Fault) return false;
    throw error;
  }
}

/** False: nobody reads any more. */
async function write(part: string | Buffer): Promise<boolean> {
  const { stdout } = process;
  if (stdout.destroyed || stdout.errored !== null) return false;
  if (stdout.write(part)) return true;
  await Promise.race([once(stdout, "drain"), once(stdout, "close")]).catch(() => {});
  return !stdout.destroyed;
}
