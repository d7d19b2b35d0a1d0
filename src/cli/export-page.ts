/** `reprise export --format markdown|html|asciicast`: a run for a pull request or a colleague, without its secrets. */
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { titleOf } from "../core/title.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { numberIn } from "../lib/json.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import { type InspectedAttempt, type Inspection, inspectRun, recognize } from "../run/inspect.ts";
import type { Deps } from "../run/run.ts";
import {
  asciicastOf,
  htmlOf,
  markdownOf,
  partsOf,
  recordingFacts,
  type SharedAttempt,
  type SharedPart,
} from "../share/share.ts";
import { writeShared } from "../state/bundle.ts";
import { attemptDir, runDirAt } from "../state/runs.ts";
import type { Context } from "./context.ts";
import { eventFrom } from "./events-text.ts";
import { writeOut } from "./plain.ts";
import { UNRECORDED, unknownText } from "./redacted.ts";
import { proofOf } from "./show.ts";
import { itemsOf } from "./transcript.ts";

export type PageFormat = "markdown" | "html" | "asciicast";

const ENDINGS: Readonly<Record<PageFormat, string>> = { markdown: "md", html: "html", asciicast: "cast" };
/** Of a longer attempt, only the beginning is included. */
const MAX_TEXT = 16 * 1024 * 1024;
/** The size of a screen whose recording has none. */
const SCREEN = { columns: 120, rows: 40 };

export interface PageOptions {
  readonly format: PageFormat;
  /** `-`: stdout. Absent: stdout in a pipe, otherwise a file named after the run. */
  readonly output?: string;
  readonly force?: true;
  readonly logs: boolean;
  readonly json?: true;
  readonly attempt?: number;
}

/** Null: the page went to stdout. */
export interface WrittenPage {
  readonly handle: string;
  readonly path: string | null;
  readonly bytes: number;
  readonly leftOut: readonly string[];
}

export async function exportPage(
  context: Context,
  handle: string,
  options: PageOptions,
): Promise<WrittenPage> {
  const deps = await context.open({ cwd: null });
  const found = await inspectRun(deps, handle);
  runDirAt(deps.state, found.run.runDirectory);
  const { redact, unknown } = recognize(await context.configure(deps, { cwd: found.run.cwd }), found);
  const request: PageRequest = { context, deps, found, redact, unknown, options, leftOut: [] };
  const parts = options.format === "asciicast" ? castOf(request) : pageOf(request);
  const path = placeOf(context, found.run, options);
  if (path === null) {
    let bytes = 0;
    for await (const part of parts) {
      bytes += Buffer.byteLength(part);
      if (!(await writeOut(part))) break;
    }
    warn(request);
    return { handle: found.run.handle, path, bytes, leftOut: request.leftOut };
  }
  const bytes = await writeShared(path, asBytes(parts), {
    force: options.force === true,
    outside: deps.state.root,
  });
  warn(request);
  return { handle: found.run.handle, path, bytes, leftOut: request.leftOut };
}

interface PageRequest {
  readonly context: Context;
  readonly deps: Deps;
  readonly found: Inspection;
  readonly redact: Redact;
  readonly unknown: readonly string[];
  readonly options: PageOptions;
  /** Filled while the attempts are read. */
  readonly leftOut: string[];
}

function warn({ context, found, leftOut }: PageRequest): void {
  for (const warning of [...found.warnings, ...leftOut]) context.log.warn(warning);
}

function placeOf(context: Context, run: RunRecord, { output, json, format }: PageOptions): string | null {
  if (output === "-" && json === true)
    throw new Fault("usage", "Give --output - or --json, not both: each prints on stdout.");
  if (output === "-" || (output === undefined && json !== true && !context.terminal.stdout)) return null;
  const name = output ?? `reprise-${run.handle}.${ENDINGS[format]}`;
  if (name.endsWith("/"))
    throw new Fault(
      "usage",
      `--output needs the name of a file, such as talk.${ENDINGS[format]}, not "${name}".`,
    );
  return resolve(name);
}

async function* asBytes(parts: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const part of parts) yield Buffer.from(part);
}

async function* pageOf(request: PageRequest): AsyncGenerator<string> {
  const { context, deps, found, redact, options, leftOut } = request;
  const attempts: SharedAttempt[] = [];
  for (const attempt of chosen(found, options.attempt)) attempts.push(await sharedAttempt(request, attempt));
  const { run } = found;
  const page = redactValue(
    {
      title: titleOf(run) ?? `Run ${run.handle}`,
      handle: run.handle,
      engine: run.agentName,
      status: run.status,
      version: context.version,
      exportedAt: new Date(deps.clock.now()).toISOString(),
      attempts,
      leftOut: [...found.warnings, ...leftOut],
    },
    redact,
  );
  yield options.format === "html" ? htmlOf(page) : markdownOf(page);
}

function chosen({ run, attempts }: Inspection, n: number | undefined): readonly InspectedAttempt[] {
  if (n === undefined) return attempts;
  const found = attempts.filter((attempt) => attempt.n === n);
  if (found.length > 0) return found;
  throw new Fault(
    "attempt_unknown",
    `Run ${run.handle} has no attempt ${n}; it has ${attempts.length}. \`reprise show ${run.handle}\` lists them.`,
    { facts: { handle: run.handle, attempt: n } },
  );
}

async function sharedAttempt(request: PageRequest, attempt: InspectedAttempt): Promise<SharedAttempt> {
  const { n, record, receipt } = attempt;
  return {
    n,
    record: record === null ? null : recordFacts(record),
    proof: record === null || receipt === null ? [] : proofOf(receipt, record),
    parts: await partsIn(request, attempt),
  };
}

function recordFacts(record: AttemptRecord): SharedAttempt["record"] {
  const { kind, startedAt, endedAt, message, outcome, tokens } = record;
  return {
    ...{ kind, startedAt, endedAt, message, tokens },
    result: outcome?.result ?? "running",
    reason: outcome === null || outcome.result === "completed" ? null : outcome.reason,
  };
}

/** Events had their secrets removed when they were written; other output only now, if the secrets are known. */
async function partsIn(
  request: PageRequest,
  { n, record }: InspectedAttempt,
): Promise<readonly SharedPart[]> {
  const { deps, found, context, options, leftOut, unknown } = request;
  const events: NonNullable<ReturnType<typeof eventFrom>>[] = [];
  let output = "";
  let length = 0;
  const source = { deps, found: found.run, n, signal: new AbortController().signal };
  try {
    const directory = attemptDir(found.run.runDirectory, n);
    const size = record?.interactive === true ? await sizeOf(directory, record) : null;
    const screen = size === null ? SCREEN : { columns: size.cols, rows: size.rows };
    for await (const item of itemsOf(
      { ...source, terminal: { ...context.terminal, ...screen } },
      record,
      false,
    )) {
      const event = eventFrom(item);
      if (event === null) continue;
      const isOutput = numberIn(item, "t") === undefined && event.type === "text";
      if (isOutput) output += event.text;
      else events.push(event);
      length += event.type === "text" ? event.text.length : 200;
      if (length <= MAX_TEXT) continue;
      leftOut.push(`Attempt ${n}: only its first 16 MiB are included.`);
      break;
    }
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    leftOut.push(`Attempt ${n} has no log that can be read.`);
  }
  // What an engine's session says was never redacted before, just as its output.
  const isSession = record?.interactive === true && events.length > 0;
  if (output.trim() === "" && !isSession) return partsOf(events);
  const why = !options.logs
    ? "--no-logs"
    : unknown.length > 0
      ? `the agent had ${unknownText(unknown)}`
      : record === null
        ? UNRECORDED
        : null;
  if (why === null) return isSession ? partsOf(events) : [{ type: "output", text: output.trimEnd() }];
  leftOut.push(`Attempt ${n}: its output was left out: ${why}`);
  return [];
}

/** A crash in the first second leaves the size only in the record. */
async function sizeOf(directory: string, record: AttemptRecord) {
  return (await recordingFacts(directory)).size ?? record.terminal ?? null;
}

function castOf({ found, options, redact, unknown }: PageRequest): AsyncGenerator<string> {
  const { run } = found;
  if (!options.logs)
    throw new Fault(
      "usage",
      "--format asciicast is the agent's output: leave --no-logs out, or give --format html.",
    );
  if (unknown.length > 0)
    throw new Fault("secrets_unknown", `The agent of run ${run.handle} had ${unknownText(unknown)}`, {
      facts: { handle: run.handle, variables: unknown },
    });
  const all = chosen(found, options.attempt);
  const attempt = all.findLast(({ record }) => record?.interactive === true);
  if (attempt === undefined) {
    const which =
      options.attempt === undefined ? `Run ${run.handle}` : `Attempt ${options.attempt} of run ${run.handle}`;
    throw new Fault(
      "attempt_unknown",
      `${which} has no recording of a UI. For its conversation: reprise export ${run.handle} --format html`,
      { facts: { handle: run.handle } },
    );
  }
  return asciicastOf({
    directory: attemptDir(run.runDirectory, attempt.n),
    title: harmlessLine(redact(titleOf(run) ?? `Run ${run.handle}`), 200),
    startedAt: attempt.record?.startedAt ?? null,
    otherwise: attempt.record?.terminal ?? null,
    redact,
    lineFeeds: false,
  });
}
