/**
 * `reprise export <handle>`: one run as a redacted archive, without raw logs and copies of sessions. `export-page.ts`
 * makes the other formats.
 */
import { resolve } from "node:path";
import { type BundleEntry, writeBundle } from "../state/bundle.ts";
import { readStream } from "../state/logs.ts";
import { attemptDir, readAgentFile, runDirAt } from "../state/runs.ts";
import { Fault, ifFault } from "../core/faults.ts";
import type { AgentRecord } from "../core/supervision.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { type Redact, redactValue } from "../lib/secrets.ts";
import type { Deps } from "../run/run.ts";
import { type InspectedAttempt, type Inspection, inspectRun, recognize } from "../run/inspect.ts";
import type { Context } from "./context.ts";
import {
  choice,
  defineCommand,
  flag,
  RUN_HANDLE,
  negation,
  type OptionsOf,
  text,
  withValue,
  attemptNumber,
} from "./define.ts";
import { plainText, renderScreen } from "./plain.ts";
import { redactedText, UNRECORDED, unknownText } from "./redacted.ts";

/** Of a longer log, only the end is included. */
const MAX_LOG = 16 * 1024 * 1024;
/** The size of the screen that renders the recording of a UI. */
const SCREEN = { columns: 120, rows: 40 };

const FORMATS = ["archive", "markdown", "html", "asciicast"] as const;
type Format = (typeof FORMATS)[number];

const OPTIONS = {
  format: choice(
    "<format>",
    "archive, markdown, html (one page), asciicast (recording of a UI); default: by the name of --output, else archive",
    FORMATS,
  ),
  output: withValue(
    "<file>",
    "output file (default: ./reprise-<handle>.tar.gz, .md, .html, .cast); - is stdout",
    text,
    {
      values: "files",
    },
  ),
  attempt: attemptNumber("only this attempt (asciicast: default the last); not for an archive"),
  force: flag("replace an existing file"),
  logs: negation("leave out the agent's output; keep records and events"),
  json: flag("print one JSON object: path, bytes, files, omissions"),
};

export const command = defineCommand({
  name: "export",
  summary:
    "Export a run without its secrets: an archive (.tar.gz) of records, events and logs, a page of the conversation, or a terminal recording.",
  args: { handle: RUN_HANDLE },
  options: OPTIONS,
  examples: [
    "reprise export 1a2b3c4d",
    "reprise export 1a2b3c4d --output bug-report.tar.gz",
    "reprise export 1a2b3c4d --format markdown | gh pr comment 42 --body-file -",
    "reprise export 1a2b3c4d --output talk.html",
    "reprise export 1a2b3c4d --format asciicast --output demo.cast",
    "reprise export 1a2b3c4d --no-logs --json | jq .files",
  ],
  run: async ({ args, options, reply }, context) => {
    const { format = formatOf(options.output) } = options;
    if (format !== "archive") {
      const { exportPage } = await import("./export-page.ts");
      const written = await exportPage(context, args.handle, { ...options, format });
      const { path } = written;
      if (path !== null)
        reply(
          written,
          `${harmlessLine(path)}: ${written.bytes} bytes. Check the content before you share it.`,
        );
      return 0;
    }
    if (options.attempt !== undefined)
      throw new Fault("usage", "An archive has all attempts: leave --attempt out, or give another --format.");
    const { handle, path, bytes, files, leftOut } = await exportRun(context, args.handle, options);
    reply(
      { handle, path, bytes, files, leftOut },
      `${harmlessLine(path)}: ${plural(files.length, "file")}, ${bytes} bytes. Check the content before you share it.`,
    );
    return 0;
  },
});

/** What the name of the file asks for. */
function formatOf(output: string | undefined): Format {
  const [, ending = ""] = /\.(md|markdown|html?|cast)$/i.exec(output ?? "") ?? [];
  switch (ending.toLowerCase()) {
    case "md":
    case "markdown":
      return "markdown";
    case "htm":
    case "html":
      return "html";
    case "cast":
      return "asciicast";
    default:
      return "archive";
  }
}

async function exportRun(context: Context, handle: string, options: OptionsOf<typeof OPTIONS>) {
  const deps = await context.open({ cwd: null });
  const found = await inspectRun(deps, handle);
  runDirAt(deps.state, found.run.runDirectory);
  const { redact, unknown } = recognize(await context.configure(deps, { cwd: found.run.cwd }), found);
  const agent = await readAgentFile(found.run.runDirectory).catch(ifFault(null));
  const leftOut = leaves(options.logs, unknown, agent !== null);
  for (const warning of [...found.warnings, ...leftOut.filter((one) => one !== NO_LOGS)])
    context.log.warn(warning);
  const path = resolve(fileName(options.output ?? `reprise-${found.run.handle}.tar.gz`));
  const files: string[] = [];
  const missing: string[] = [];
  const logs = options.logs && unknown.length === 0;
  // If secrets are unknown now, the agent's texts stay out: only a writer that knew the secrets removed them.
  const texts = unknown.length === 0 ? agent : null;
  const wish = { redact, logs, agent: texts, leftOut, missing, version: context.version };
  const bytes = await writeBundle(path, named(found, contents(deps, found, wish), files), {
    force: options.force === true,
    outside: deps.state.root,
    nowMs: deps.clock.now(),
  });
  for (const warning of missing) context.log.warn(warning);
  return { handle: found.run.handle, path, bytes, files, leftOut: [...leftOut, ...missing] };
}

/** A path that ends in a slash is a directory, and `-` stdout for other commands. */
function fileName(given: string): string {
  if (given !== "-" && !given.endsWith("/")) return given;
  throw new Fault("usage", `--output needs the name of a file, such as bug-report.tar.gz, not "${given}".`);
}

const NO_LOGS = "Omitted: logs (--no-logs).";

/** What the archive leaves out, and why. */
function leaves(logs: boolean, unknown: readonly string[], supervised: boolean): readonly string[] {
  const unsafe = unknown.length === 0 ? [] : [...(logs ? ["The logs"] : []), ...(supervised ? [AGENT] : [])];
  const were = unsafe.length === 1 && unsafe[0] === AGENT ? "was" : "were";
  return [
    ...(logs ? [] : [NO_LOGS]),
    ...(unsafe.length === 0
      ? []
      : [`${unsafe.join(" and ")} ${were} omitted: the agent had ${unknownText(unknown)}`]),
  ];
}

const AGENT = "agent.json";

interface ExportRequest {
  readonly redact: Redact;
  readonly logs: boolean;
  /** Null: the run is not supervised, or the record is left out. */
  readonly agent: AgentRecord | null;
  readonly leftOut: readonly string[];
  /** Filled while the logs are read. */
  readonly missing: string[];
  readonly version: string;
}

/** Puts all files below one folder, and notes them. */
async function* named(
  { run: { handle } }: Inspection,
  entries: AsyncIterable<BundleEntry>,
  files: string[],
): AsyncGenerator<BundleEntry> {
  for await (const { name, data } of entries) {
    files.push(name);
    yield { name: `reprise-${handle}/${name}`, data };
  }
}

async function* contents(deps: Deps, found: Inspection, wish: ExportRequest): AsyncGenerator<BundleEntry> {
  const record = (name: string, value: object) => ({
    name,
    data: Buffer.from(`${JSON.stringify(redactValue(value, wish.redact), null, 2)}\n`),
  });
  const { run: exported, warnings, attempts } = found;
  yield record("bundle.json", {
    v: 1,
    handle: exported.handle,
    runId: exported.runId,
    exportedAt: new Date(deps.clock.now()).toISOString(),
    version: wish.version,
    redacted: true,
    leftOut: wish.leftOut,
    warnings,
  });
  yield record("run.json", exported);
  if (wish.agent !== null) yield record(AGENT, wish.agent);
  for (const attempt of attempts) {
    const at = `attempts/${attempt.n}`;
    if (attempt.record !== null) yield record(`${at}/meta.json`, attempt.record);
    if (attempt.receipt !== null) yield record(`${at}/receipt.json`, attempt.receipt);
    yield* logsOf(attempt, found, wish);
  }
}

async function* logsOf(
  attempt: InspectedAttempt,
  { run: { runDirectory } }: Inspection,
  wish: ExportRequest,
): AsyncGenerator<BundleEntry> {
  const { n, record } = attempt;
  const tail = async function* (log: "events" | "pty-output") {
    yield* fromWholeLine(readStream(attemptDir(runDirectory, n), log, { tailBytes: MAX_LOG }));
  };
  const events = await collected(redactedText(plainText(tail("events")), wish.redact));
  if (events !== null) yield { name: `attempts/${n}/events.jsonl`, data: events };
  if (!wish.logs) return;
  if (record === null) {
    wish.missing.push(`Attempt ${n}: its log is omitted. ${UNRECORDED}`);
    return;
  }
  const printed = tail("pty-output");
  const shown = record.interactive ? renderScreen(printed, SCREEN) : plainText(printed);
  const output = await collected(redactedText(shown, wish.redact));
  if (output !== null) yield { name: `attempts/${n}/output.txt`, data: output };
  else wish.missing.push(`Attempt ${n} has no log that can be read, so what the agent printed is not in it.`);
}

/** If a log is cut, its first line may be a fragment that begins inside a secret. */
async function* fromWholeLine(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const all: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunks) {
    all.push(chunk);
    size += chunk.length;
  }
  const bytes = Buffer.concat(all);
  yield size < MAX_LOG ? bytes : bytes.subarray(bytes.indexOf(10) + 1);
}

/** Null: the attempt has no such log, or it is unreadable. */
async function collected(parts: AsyncIterable<string>): Promise<Buffer | null> {
  const all: string[] = [];
  try {
    for await (const part of parts) all.push(part);
  } catch (error) {
    return ifFault(null)(error);
  }
  return Buffer.from(all.join(""));
}
