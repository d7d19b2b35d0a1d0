/**
 * iFlow CLI, which can no longer be installed: for recorded runs and for people who still have the program. This file
 * follows documented output and was never run. Notes: docs/engines/iflow.md.
 */
import { basename, dirname, join } from "node:path";
import type { EngineEvent, Exit } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { hasDuplicateKeys, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { engineAttemptOptions, passedOn, withMessage } from "./attempt-options.ts";
import type { AttemptRequest, Command, Engine, OutputReader } from "./engine.ts";
import { type Grammar, type Guard, has, type Parsed, parseArgs, render, valueOf, GRANTS } from "./grammar.ts";
import { IFLOW_ENV } from "./guarded-env.ts";
import { troubleOf } from "./troubles.ts";
import { iflowLogin } from "./logins.ts";

const ID = /^session-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Linux accepts at most 128 KiB per argument; the rest is a margin. */
const MAX_MESSAGE_BYTES = 128 * 1024 - 1024;

/** Wider is higher. One flag per mode; the last one counts. */
const MODES = ["--plan", "--default", "--auto-edit", "--yolo"];

function mode(name: string): Guard {
  return { scale: "mode", rank: (value) => (value === "false" ? null : MODES.indexOf(name)) };
}

/**
 * From the vendor's documentation and the CLI that iFlow was forked from. Without a guard: the model, the prompt's
 * content, the cost of a turn, the look of output.
 */
const grammar: Grammar = {
  strictValues: true,
  yargs: true,
  continues: { "--resume": "any", "--continue": "any" },
  options: [
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--prompt", "-p"], takes: "value", bears: "prompt" },
    { names: ["--prompt-interactive", "--promptInteractive", "-i"], takes: "value", bears: "prompt" },
    { names: ["--resume", "-r"], takes: "optional", bears: "session" },
    { names: ["--continue", "-c"], takes: "none", bears: "session" },
    { names: ["--output-file", "--outputFile", "-o"], takes: "value", bears: "once", guard: "grant" },
    { names: ["--yolo", "-y"], takes: "none", guard: mode("--yolo") },
    { names: ["--default"], takes: "none", guard: mode("--default") },
    { names: ["--plan"], takes: "none", guard: mode("--plan") },
    { names: ["--auto-edit", "--autoEdit"], takes: "none", guard: mode("--auto-edit") },
    { names: ["--sandbox", "-s"], takes: "none", guard: { rank: () => null } },
    { names: ["--sandbox-image", "--sandboxImage"], takes: "value", guard: "grant" },
    { names: ["--include-directories", "--includeDirectories", "--add-dir"], ...GRANTS, opens: "paths" },
    { names: ["--allowed-tools", "--allowedTools"], ...GRANTS },
    { names: ["--allowed-mcp-server-names", "--allowedMcpServerNames"], ...GRANTS },
    { names: ["--extensions", "-e"], ...GRANTS },
    { names: ["--thinking"], takes: "none" },
    { names: ["--stream"], takes: "none" },
    { names: ["--all-files", "--all_files", "-a"], takes: "none" },
    { names: ["--debug", "-d"], takes: "none" },
    { names: ["--show-memory-usage"], takes: "none" },
    { names: ["--checkpointing"], takes: "none" },
    { names: ["--max-turns", "--maxTurns"], takes: "value" },
    { names: ["--max-tokens", "--maxTokens"], takes: "value" },
    { names: ["--timeout"], takes: "value" },
    { names: ["--experimental-acp"], takes: "none", refuse: "it makes iFlow speak ACP" },
    { names: ["--list-extensions", "-l"], takes: "none", bears: "once" },
    { names: ["--version", "-v"], takes: "none", bears: "once" },
    { names: ["--help", "-h"], takes: "none", bears: "once" },
  ],
  commands: { "": ["mcp", "agent", "workflow", "commands", "extensions"] },
};

/** Each setting may be a variable, spelled in four ways. */
const RIGHTS_ENV = [
  "IFLOW_CLI_SYSTEM_SETTINGS_PATH",
  "BUILD_SANDBOX",
  ...`sandbox SANDBOX autoAccept AUTO_ACCEPT coreTools CORE_TOOLS excludeTools EXCLUDE_TOOLS mcpServers MCP_SERVERS
  allowMCPServers ALLOW_MCP_SERVERS excludeMCPServers EXCLUDE_MCP_SERVERS toolDiscoveryCommand TOOL_DISCOVERY_COMMAND
  toolCallCommand TOOL_CALL_COMMAND`
    .split(/\s+/)
    .flatMap((key) => [`IFLOW_${key}`, `iflow_${key}`]),
];

export const iflow: Engine = {
  id: "iflow",
  title: "iFlow CLI",
  program: "iflow",
  legacy: "its service was closed on 2026-04-17 and its package is no longer published",
  tested: null,
  session: { field: "session-id", format: ID },
  can: { chooseSession: false, fork: false, interactive: true, readStore: false, boundToCwd: true },
  grammar,
  access: { read: ["--plan"], edit: ["--auto-edit"], full: ["--yolo"] },
  rightsEnv: RIGHTS_ENV,
  guardedEnv: IFLOW_ENV,
  home: (env) => (env["HOME"] ? join(env["HOME"], ".iflow") : null),
  homeEnv: (home) => ({ HOME: basename(home) === ".iflow" ? dirname(home) : home }),
  login: iflowLogin,
  version: (output) => /\b(\d+\.\d+\.\d+[\w.+-]*)/.exec(output)?.[1] ?? null,
  opensUi: (args) => opensUi(parseArgs(grammar, args)),
  command,
  // Its stdout is text, whatever the command line.
  reader: (now) => iflowReader(now),
  printed: ({ interactive }) => (interactive ? "text" : "events"),
  explainExit({ code }, stderrTail, nowMs) {
    if (code === null || code === 0) return null;
    // The wording of the CLI that it was forked from.
    const refused = stderrTail.split("\n").find((line) => line.startsWith("Unknown argument"));
    if (refused !== undefined) return { kind: "usage", message: refused.trim() };
    const words = stderrTail.split("\n").find((line) => API_ERROR.test(line)) ?? "";
    return words === "" ? null : troubleOf(words.trim(), nowMs);
  },
  locate: async () => ({ state: "unknown", why: "iFlow's session files are not documented" }),
  sessions: async () => [],
};

function opensUi(parsed: Parsed): boolean {
  const headless = ["--prompt", "--version", "--help", "--list-extensions", "--experimental-acp"];
  return parsed.commands.length === 0 && !headless.some((name) => has(parsed, name));
}

function command(ask: AttemptRequest): Command {
  if (ask.kind === "fork") {
    throw new Fault("engine_cannot", "iFlow cannot fork a conversation. Resume it, or start a new run.");
  }
  if (ask.kind === "start" && ask.message === null) return untouched(ask);
  const { options, report } = engineAttemptOptions(grammar, ask);
  const headless = !ask.interactive && ask.message !== null;
  const first = [...sessionArgs(ask), ...render(options)];
  const prompt = promptArgs(ask.message ?? "", headless);
  return {
    ...withMessage(ask.message, (message) => (message === null ? first : [...first, ...prompt(message)])),
    stdin: null,
    env: {},
    headless,
    structured: headless,
    expects: ask.kind === "resume" ? ask.session : null,
    options: report,
  };
}

function untouched({ given }: AttemptRequest): Command {
  const parsed = parseArgs(grammar, given);
  const session = valueOf(parsed, "--resume") ?? "";
  const expects = ID.test(session) ? session : null;
  return passedOn(given, { headless: !opensUi(parsed), structured: has(parsed, "--prompt"), expects });
}

function sessionArgs({ kind, session }: AttemptRequest): readonly string[] {
  if (kind !== "resume") return [];
  if (session === null || !ID.test(session)) {
    const text = JSON.stringify(session?.slice(0, 80) ?? null);
    throw new Fault("session_unknown", `${text} is not a session id of iFlow.`);
  }
  return [`--resume=${session}`];
}

/** iFlow accepts its message only as an argument. A message that begins with a dash would be an option. */
function promptArgs(message: string, headless: boolean): (text: string) => readonly string[] {
  const bytes = new TextEncoder().encode(message).length;
  if (bytes > MAX_MESSAGE_BYTES) {
    throw new Fault(
      "message_invalid",
      `The message has ${bytes} bytes; iFlow takes it as an argument, which holds at most ${MAX_MESSAGE_BYTES}. Put it into a file and name the file.`,
      { facts: { bytes, most: MAX_MESSAGE_BYTES } },
    );
  }
  if (!headless) return (text) => [`--prompt-interactive=${text}`];
  return message.startsWith("-") ? (text) => [`--prompt=${text}`] : (text) => ["-p", text];
}

const API_ERROR = /^\W{0,20}(?:Error when talking to iFlow API|Generate data error|.{0,400}fetch failed)/i;
/** The model also writes to stdout: an answer may be about a failed fetch. */
const SAID_ERROR = /^\W{0,20}(?:Error when talking to iFlow API|Generate data error)/i;
const MAX_BLOCK = 65_536;

interface State {
  /** iFlow's own last block was seen: the turn was carried out. */
  info: boolean;
  said: boolean;
  error: string | null;
  /** The last complete block on stderr. */
  stderrBlock: string | null;
  /**
   * The last block on stdout, as long as only blank lines follow it. The model may have written it: it names no
   * session.
   */
  stdoutBlock: string | null;
}

/**
 * `<Execution Info>`, a JSON object, `</Execution Info>`: on stderr as measured with 0.5.19, elsewhere on stdout.
 *
 * Tools write to the same stderr, so any block there may be theirs; iFlow's block is its last output. An id therefore
 * counts only at the end, and the last block decides (I2, I5). iFlow has no machine-readable output, so a block on
 * stdout shows that the turn is over and its cost, but never names a session.
 */
function iflowReader(now: () => number): OutputReader {
  const state: State = { info: false, said: false, error: null, stderrBlock: null, stdoutBlock: null };
  const blocks = { stdout: blockCollector(), stderr: blockCollector() };
  return {
    line(stream, text) {
      const block = blocks[stream].line(text);
      if (block === "") return [];
      if (stream === "stderr") {
        if (block !== null) state.stderrBlock = block;
        else if (API_ERROR.test(text)) state.error ??= text.trim();
        return [];
      }
      if (block === null) return answered(state, text);
      const before = unblocked(state);
      state.stdoutBlock = block;
      return before;
    },
    end(exit) {
      const own = blocks.stderr.rest() ?? state.stderrBlock;
      const told = own ?? blocks.stdout.rest() ?? state.stdoutBlock;
      const last = told === null ? [] : infoIn(state, told);
      const trusted = last.filter(({ type }) => own !== null || type !== "session");
      return [...trusted, ...ended(state, exit, now())];
    },
    namesLastOn: "stderr",
  };
}

/** A block with text after it was part of the answer. */
function unblocked(state: State): readonly EngineEvent[] {
  const block = state.stdoutBlock;
  state.stdoutBlock = null;
  return block === null ? [] : [{ type: "text", text: `<Execution Info>${block}</Execution Info>` }];
}

function answered(state: State, text: string): readonly EngineEvent[] {
  if (text.trim() === "") return state.said && state.stdoutBlock === null ? [{ type: "text", text }] : [];
  if (!state.said && SAID_ERROR.test(text)) {
    state.error ??= text.trim();
    return [{ type: "notice", message: text.trim() }];
  }
  state.said = true;
  return [...unblocked(state), { type: "text", text }];
}

function infoIn(state: State, block: string): readonly EngineEvent[] {
  const info = parseObject(block);
  const session = stringIn(info, "session-id") ?? "";
  if (!ID.test(session) || hasDuplicateKeys(block)) return [{ type: "unknown" }];
  // Only input and output; whether they count earlier turns of a session is not known.
  const usage = objectIn(info, "tokenUsage");
  const tokens = { input: numberIn(usage, "input") ?? 0, output: numberIn(usage, "output") ?? 0 };
  state.info = true;
  return [{ type: "session", session }, ...(usage === undefined ? [] : [{ type: "usage", tokens } as const])];
}

/** An unobserved end is judged by the output. */
function ended(state: State, { code: seen, signal }: Exit, nowMs: number): readonly EngineEvent[] {
  const code = seen === null && signal === null ? 0 : seen;
  if (state.error !== null) {
    return [{ type: "turn_ended", result: "failed", trouble: troubleOf(state.error, nowMs) }];
  }
  if (code !== 0 || !state.info) return [];
  if (state.said) return [{ type: "turn_ended", result: "completed" }];
  const trouble = { kind: "other", message: "The model returned an empty answer." } as const;
  return [{ type: "turn_ended", result: "failed", trouble }];
}

interface BlockCollector {
  /** A complete block's content; empty while one is open. Null: a line outside. */
  line(text: string): string | null;
  /** The content of a block that the output ended in. */
  rest(): string | null;
}

function blockCollector(): BlockCollector {
  let lines: string[] | null = null;
  let size = 0;
  return {
    line(text) {
      const opening = /^<Execution Info>(.*)$/.exec(text.trim());
      if (opening !== null) {
        lines = [];
        size = 0;
      }
      if (lines === null) return null;
      const content = opening?.[1] ?? text;
      const closing = content.indexOf("</Execution Info>");
      lines.push(closing === -1 ? content : content.slice(0, closing));
      size += content.length;
      const whole = closing === -1 ? "" : lines.join("\n") || " ";
      if (closing !== -1 || size > MAX_BLOCK) lines = null;
      return whole;
    },
    rest: () => lines?.join("\n") ?? null,
  };
}
