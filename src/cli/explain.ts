/** `reprise explain`: shows how Reprise parses an engine's output. Needs no state directory. */
import { createReadStream, statSync } from "node:fs";
import type { EngineEvent } from "../core/events.ts";
import { errorCode } from "../core/errno.ts";
import { Fault } from "../core/faults.ts";
import { tokensText } from "../core/tokens.ts";
import type { Engine } from "../engines/engine.ts";
import { builtInEngine as builtIn } from "../engines/engines.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { type Explanation, explainOutput } from "../run/inspect.ts";
import { findEngine } from "../run/engine-setup.ts";
import { type Context, paint } from "./context.ts";
import { defineCommand, flag, JSON_FLAG, text, withValue } from "./define.ts";
import { readable } from "./message.ts";

export const command = defineCommand({
  name: "explain",
  summary: "Show how Reprise parses an engine's output: session, events, problems, reset time.",
  args: { file: { help: "output to parse (default: standard input)", values: "files" } },
  options: {
    engine: withValue("<engine>", "engine that wrote the output", text, { values: "engines" }),
    now: withValue("<time>", 'reference time for texts such as "in 5 minutes" (ISO 8601)', readTime),
    exitCode: withValue("<code>", "exit code of the engine's process, 0 to 255", readExitCode),
    stderr: flag("treat the input as the engine's stderr"),
    text: flag("treat the input as plain text (default if no line is an event)"),
    json: JSON_FLAG,
  },
  examples: [
    "codex exec --json 'hi' | reprise explain --engine codex",
    "reprise explain --engine claude --stderr errors.txt",
    "claude -p 'hi' > out.txt; reprise explain --engine claude --exit-code $? out.txt",
    "reprise logs 1a2b3c4d --stream stdout --raw | reprise explain --engine gemini --json",
  ],
  run: async ({ args, options, reply }, context) => {
    if (options.engine === undefined)
      throw new Fault(
        "usage",
        "Which engine wrote the output? Give --engine. Example: reprise explain --engine codex < output",
      );
    const engine: Engine = builtIn(options.engine) ?? findEngine(await context.open(), options.engine);
    const found = await explainOutput(engine, input(context, args.file), {
      stream: options.stderr === true ? "stderr" : "stdout",
      now: () => options.now ?? Date.now(),
      exitCode: options.exitCode ?? null,
      printed: options.text === true ? "text" : null,
    });
    reply(found, () => print(context, engine, found));
    return 0;
  },
});

function readTime(value: string): number {
  const ms = /^\d{4}-\d\d-\d\dT/.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms))
    throw new Fault(
      "usage",
      `--now takes a time such as 2026-11-15T09:00:00Z, not ${JSON.stringify(value.slice(0, 80))}.`,
    );
  return ms;
}

function readExitCode(value: string): number {
  const code = /^\d{1,3}$/.test(value) ? Number(value) : Number.NaN;
  if (!(code <= 255))
    throw new Fault(
      "usage",
      `--exit-code takes a number from 0 to 255, not ${JSON.stringify(value.slice(0, 80))}.`,
    );
  return code;
}

function input(context: Context, file: string | undefined): AsyncIterable<Buffer> {
  if (file === undefined || file === "-") {
    if (context.terminal.stdin) context.log.info("reading from the terminal; end with Ctrl-D");
    return readable(process.stdin, (why) => new Fault("usage", `Standard input cannot be read (${why}).`));
  }
  const refuse = (why: string) => new Fault("usage", `${JSON.stringify(file)} cannot be read (${why}).`);
  try {
    if (!statSync(file).isFile()) throw new Fault("usage", `${JSON.stringify(file)} is not a file.`);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw refuse(errorCode(error) ?? "unknown");
  }
  return readable(createReadStream(file), refuse);
}

function print(context: Context, engine: Engine, found: Explanation): void {
  const { terminal } = context;
  const line = (label: string, value: string) =>
    context.print(`${paint(terminal, "dim", label.padEnd(9))} ${value}`);
  line("engine", `${engine.title}, ${plural(found.lines, "line")} of ${found.stream}`);
  line("assumed", `${ASSUMED[found.assumed]}; exit code ${found.exitCode ?? "unknown (--exit-code)"}`);
  if (found.session === null) line("session", `none: ${whyNone(engine, found)}`);
  for (const [at, id] of found.sessions.entries()) {
    line(
      at === 0 ? "session" : "also",
      `${id.field} ${harmlessLine(id.value, 200)} (${id.source}, line ${id.line})`,
    );
  }
  if (found.sessions.length > 1)
    line("", "session_mismatch: several ids; the first counts unless the engine's store confirms another");
  for (const { event, line: at } of found.events) line(`line ${at}`, describe(event));
  if (found.eventsLeftOut > 0) line("", `and ${plural(found.eventsLeftOut, "more event")}`);
  for (const { trouble, line: at } of found.troubles) {
    line("trouble", `${trouble.kind} (line ${at}): ${harmlessLine(trouble.message, 300)}`);
  }
  if (found.resetsAt !== null) line("resets at", found.resetsAt);
  if (found.unknown.count > 0) {
    const rest = found.unknown.count > found.unknown.firstLines.length ? ", …" : "";
    line(
      "unknown",
      `${plural(found.unknown.count, "line")} not understood: ${found.unknown.firstLines.join(", ")}${rest}`,
    );
  }
  const { outcome } = found;
  line(
    "judgement",
    outcome === null
      ? `unknown: ${whyUnknown(found)}`
      : `${outcome.result}: ${harmlessLine(outcome.reason, 300)}`,
  );
}

/** With what would tell. */
function whyUnknown({ stream, exitCode }: Explanation): string {
  if (stream === "stdout") return "text does not say how the turn ended. Give --exit-code";
  if (exitCode === null)
    return "stderr alone does not say how the turn ended. Give --exit-code, or explain its stdout";
  return (
    `stderr and exit code ${exitCode} do not say how the turn ended; the events on stdout do. ` +
    "Explain its stdout, or add --text if the engine ran without its JSON option"
  );
}

const ASSUMED = {
  events: "machine-readable output",
  text: "text output, which names no session on stdout",
} as const;

function whyNone(engine: Engine, { assumed, stream }: Explanation): string {
  if (assumed === "text" && stream === "stdout")
    return `in text the model could have written any ${engine.session.field}`;
  return `no line names a ${engine.session.field} in the engine's own format`;
}

function describe(event: EngineEvent): string {
  switch (event.type) {
    case "session":
      return `session ${harmlessLine(event.session, 200)}`;
    case "session_changed":
      return `session changed to ${harmlessLine(event.session, 200)}: ${harmlessLine(event.why, 200)}`;
    case "turn_started":
      return "turn started";
    case "text":
      return `text${event.delta === true ? " (continued)" : ""}: ${harmlessLine(event.text, 100)}`;
    case "message":
      return `message: ${harmlessLine(event.text, 100)}`;
    case "tool":
      return `tool ${event.state}: ${harmlessLine(event.name, 60)} ${harmlessLine(event.detail ?? "", 100)}`.trimEnd();
    case "retry":
      return `retry: ${event.trouble.kind}${event.delayMs === undefined ? "" : `, in ${event.delayMs} ms`}`;
    case "notice":
      return `notice: ${harmlessLine(event.message, 150)}`;
    case "usage":
      return usageText(event);
    case "turn_ended":
      return `turn ended: ${event.result}${event.trouble === undefined ? "" : ` (${event.trouble.kind})`}`;
    case "unknown":
      return "not understood";
  }
}

function usageText({ tokens, session }: Extract<EngineEvent, { type: "usage" }>): string {
  const parts = [
    ...(tokens === null ? [] : [tokensText(tokens)]),
    ...(session === undefined ? [] : [`${tokensText(session)} in the whole conversation`]),
  ];
  return `tokens: ${parts.join("; ")}`;
}
