/**
 * Gemini CLI: its command line for an attempt. `gemini-output.ts` parses its output, `gemini-store.ts` reads its store.
 * Quirks with versions: docs/engines/gemini.md.
 */
import { basename, dirname, join } from "node:path";
import { Fault } from "../core/faults.ts";
import { engineAttemptOptions, passedOn, withMessage } from "./attempt-options.ts";
import type { AttemptRequest, Command, Engine, SettingsFile } from "./engine.ts";
import { explainExit, geminiReader, ID } from "./gemini-output.ts";
import { geminiSaid } from "./gemini-conversation.ts";
import { geminiSessions, locateGemini, namesChat } from "./gemini-store.ts";
import {
  type Given,
  type Grammar,
  type Guard,
  has,
  type Parsed,
  parseArgs,
  render,
  valueOf,
  GRANTS,
} from "./grammar.ts";
import { GEMINI_ENV } from "./guarded-env.ts";
import { geminiLogin } from "./logins.ts";

/** Wider is higher. Gemini refuses `-y` beside `--approval-mode`: they are one setting. */
const APPROVAL_MODES = ["plan", "default", "auto_edit", "yolo"];

function approval(fixed?: string): Guard {
  const place = (mode: string | null) => APPROVAL_MODES.indexOf(fixed ?? mode ?? "");
  return { scale: "approval", rank: (mode) => (place(mode) === -1 || mode === "false" ? null : place(mode)) };
}

/**
 * `gemini --help` of 0.61.0 and the hidden options of its source. The parser also accepts every name in camel case.
 * Without a guard: the model and recorded answers in its place, the look of output.
 */
const grammar: Grammar = {
  strictValues: true,
  yargs: true,
  continues: { "--resume": "here", "--session-file": "any" },
  options: [
    { names: ["--approval-mode", "--approvalMode"], takes: "value", guard: approval() },
    { names: ["--yolo", "-y"], takes: "none", guard: approval("yolo") },
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--debug", "-d"], takes: "none" },
    { names: ["--prompt", "-p"], takes: "value", bears: "prompt" },
    { names: ["--prompt-interactive", "--promptInteractive", "-i"], takes: "value", bears: "prompt" },
    { names: ["--resume", "-r"], takes: "optional", bears: "session" },
    { names: ["--session-id", "--sessionId"], takes: "value", bears: "session" },
    { names: ["--session-file", "--sessionFile"], takes: "value", bears: "session" },
    { names: ["--output-format", "--outputFormat", "-o"], takes: "value", bears: "output" },
    { names: ["--list-extensions", "--listExtensions", "-l"], takes: "none", bears: "once" },
    { names: ["--list-sessions", "--listSessions"], takes: "none", bears: "once" },
    { names: ["--delete-session", "--deleteSession"], takes: "optional", bears: "once", guard: "grant" },
    { names: ["--version", "-v"], takes: "none", bears: "once" },
    { names: ["--help", "-h"], takes: "none", bears: "once" },
    { names: ["--worktree", "-w"], takes: "optional", refuse: "gemini would make another worktree" },
    { names: ["--acp"], takes: "none", refuse: "it makes gemini speak ACP" },
    {
      names: ["--experimental-acp", "--experimentalAcp"],
      takes: "none",
      refuse: "it makes gemini speak ACP",
    },
    { names: ["--skip-trust", "--skipTrust"], takes: "none", guard: "grant" },
    // Off or on: on also overrides the settings for the sandbox's network and folders.
    { names: ["--sandbox", "-s"], takes: "none", guard: { rank: () => null } },
    { names: ["--policy"], ...GRANTS, reads: "paths" },
    { names: ["--admin-policy", "--adminPolicy"], ...GRANTS, reads: "paths" },
    { names: ["--allowed-tools", "--allowedTools"], ...GRANTS },
    // Lists of everything allowed: each further name is a further right.
    { names: ["--allowed-mcp-server-names", "--allowedMcpServerNames"], ...GRANTS },
    { names: ["--extensions", "-e"], ...GRANTS },
    { names: ["--include-directories", "--includeDirectories"], ...GRANTS, opens: "paths" },
    { names: ["--screen-reader", "--screenReader"], takes: "none" },
    // The model's control sequences reach the terminal.
    { names: ["--raw-output", "--rawOutput"], takes: "none", guard: "grant" },
    { names: ["--accept-raw-output-risk", "--acceptRawOutputRisk"], takes: "none", guard: "grant" },
    { names: ["--fake-responses", "--fakeResponses"], takes: "optional" },
    { names: ["--fake-responses-non-strict", "--fakeResponsesNonStrict"], takes: "optional" },
    { names: ["--record-responses", "--recordResponses"], takes: "optional", guard: "grant" },
  ],
  commands: { "": ["mcp", "extensions|extension", "skills|skill", "hooks|hook", "gemma"] },
};

/** The sandbox and its visible files, trust in the folder (`VITEST` turns that check off), settings from elsewhere. */
const RIGHTS_ENV = `GEMINI_SANDBOX GEMINI_SANDBOX_IMAGE GEMINI_SANDBOX_PROXY_COMMAND SEATBELT_PROFILE SANDBOX
  SANDBOX_FLAGS SANDBOX_MOUNTS SANDBOX_PORTS SANDBOX_ENV SANDBOX_SET_UID_GID BUILD_SANDBOX
  GEMINI_CLI_TRUST_WORKSPACE GEMINI_CLI_TRUSTED_FOLDERS_PATH GEMINI_RESTRICTED_MODE GEMINI_CLI_IDE_WORKSPACE_PATH
  GEMINI_CLI_INTEGRATION_TEST VITEST GEMINI_CLI_SYSTEM_SETTINGS_PATH GEMINI_CLI_SYSTEM_DEFAULTS_PATH
  GEMINI_EXP`.split(/\s+/);

export const gemini: Engine = {
  id: "gemini",
  title: "Gemini CLI",
  program: "gemini",
  tested: ["0.61.0", "0.61.0"],
  session: { field: "session_id", format: ID },
  can: { chooseSession: true, fork: false, interactive: true, readStore: true, boundToCwd: true },
  grammar,
  tellsTools: ["stream-json"],
  access: {
    read: ["--approval-mode", "plan"],
    edit: ["--approval-mode", "auto_edit"],
    full: ["--approval-mode", "yolo"],
  },
  rightsEnv: RIGHTS_ENV,
  rulesEnv: { names: ["GEMINI_CLI_SYSTEM_SETTINGS_PATH"] },
  asksTrust: true,
  guardedEnv: GEMINI_ENV,
  home(env) {
    const root = env["GEMINI_CLI_HOME"] || env["HOME"];
    return root ? join(root, ".gemini") : null;
  },
  homeEnv: (home) => ({ GEMINI_CLI_HOME: basename(home) === ".gemini" ? dirname(home) : home }),
  login: geminiLogin,
  version: (output) =>
    /^[ \t]{0,8}v?(\d{1,9}\.\d{1,9}\.\d{1,9}\S{0,64})[ \t\r]{0,8}$/m.exec(output)?.[1] ?? null,
  opensUi,
  command,
  reader: geminiReader,
  printed: ({ args, interactive }) =>
    !interactive && isJson(parseArgs(grammar, args).options) ? "events" : "text",
  opening,
  explainExit,
  locate: locateGemini,
  namesFile: namesChat,
  sessions: geminiSessions,
  said: geminiSaid,
};

function opensUi(args: readonly string[]): boolean {
  const parsed = parseArgs(grammar, args);
  const headless = [
    "--prompt",
    "--version",
    "--help",
    "--list-extensions",
    "--list-sessions",
    "--delete-session",
    "--acp",
    "--experimental-acp",
  ];
  return parsed.commands.length === 0 && !headless.some((name) => has(parsed, name));
}

function command(ask: AttemptRequest): Command {
  if (ask.kind === "fork") {
    throw new Fault("engine_cannot", "Gemini cannot fork a conversation. Resume it, or start a new run.");
  }
  if (ask.kind === "start" && ask.message === null && ask.given.length > 0) return untouched(ask);
  const { options, report } = engineAttemptOptions(grammar, ask);
  const session = sessionArgs(ask, options);
  const headless = !ask.interactive && ask.message !== null;
  const format = formatIn(options);
  const output = headless && format === null ? ["-o", "stream-json"] : [];
  const first = [...session.args, ...output, ...render(options)];
  return {
    ...withMessage(headless ? null : ask.message, (message) =>
      message === null ? first : [...first, `--prompt-interactive=${message}`],
    ),
    stdin: headless ? ask.message : null,
    env: environment(ask),
    settings: [NO_CLEAN_UP],
    headless,
    structured: headless && (format === null || isJson(options)),
    expects: session.expects,
    options: report,
    ...(sweepable(ask) ? { warnings: [SWEEP_WARNING] } : {}),
  };
}

function untouched(ask: AttemptRequest): Command {
  const parsed = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const headless = !opensUi(ask.given);
  return passedOn(ask.given, {
    env: environment(ask),
    settings: [NO_CLEAN_UP],
    headless,
    structured: headless && isJson(parsed.options),
    expects: idIn(parsed),
  });
}

function sessionArgs(
  ask: AttemptRequest,
  options: readonly Given[],
): { readonly args: readonly string[]; readonly expects: string | null } {
  // Only a start carries the user's session options; they replace ours.
  const own = options.filter((option) => option.spec?.bears === "session");
  if (own.length > 0) return { args: [], expects: idIn({ commands: [], options: own, words: [] }) };
  if (ask.session === null) return { args: [], expects: null };
  if (ask.kind !== "resume") {
    const id = unsweepable(ask.session);
    return { args: ["--session-id", id], expects: id };
  }
  if (!ID.test(ask.session)) {
    throw new Fault(
      "session_unknown",
      `${JSON.stringify(ask.session.slice(0, 80))} is not a session id of Gemini.`,
    );
  }
  return { args: [`--resume=${ask.session}`], expects: ask.session };
}

/** `latest` and numbers select a session without naming it. */
function idIn(parsed: Parsed): string | null {
  const id = valueOf(parsed, "--session-id") ?? valueOf(parsed, "--resume") ?? null;
  return id !== null && ID.test(id) ? id : null;
}

function formatIn(options: readonly Given[]): string | null {
  return options.findLast((option) => option.spec?.bears === "output")?.values.at(-1) ?? null;
}

function isJson(options: readonly Given[]): boolean {
  return (formatIn(options) ?? "").endsWith("json");
}

function opening(args: readonly string[]): string | null {
  const { options, words } = parseArgs(grammar, args);
  const said = options.findLast((option) => option.spec?.bears === "prompt")?.values.at(-1);
  return said ?? (words.length === 0 ? null : words.join(" "));
}

function environment(ask: AttemptRequest): Readonly<Record<string, string>> {
  // Without relaunch there is one process, and it obeys signals.
  return { GEMINI_CLI_NO_RELAUNCH: "1", ...(ask.trustCwd ? { GEMINI_CLI_TRUST_WORKSPACE: "true" } : {}) };
}

/**
 * Every start of Gemini 0.61 deletes files without a message in the project's folder, including those of parallel
 * sessions that have just begun. System defaults have the lowest priority, so the user's settings still count.
 */
const NO_CLEAN_UP: SettingsFile = {
  purpose: "Gemini's clean-up of sessions",
  variable: "GEMINI_CLI_SYSTEM_DEFAULTS_PATH",
  name: "gemini-defaults.json",
  content: '{"general":{"sessionRetention":{"enabled":false}}}\n',
  rootOnly: true,
  otherwiseApart: true,
  hides(env) {
    const own = env["GEMINI_CLI_SYSTEM_SETTINGS_PATH"];
    const folders = own ? [dirname(own)] : ["/etc/gemini-cli", "/Library/Application Support/GeminiCli"];
    return folders.map((folder) => join(folder, "system-defaults.json"));
  },
};

/**
 * Gemini 0.61 leaves an empty twin of a resumed session, and its next start in that project deletes every file whose
 * name ends in the same eight letters and digits: the conversation itself. With an underscore as the eighth character,
 * that sweep deletes only the empty twin. Measured with default settings, as an ordinary user.
 */
function unsweepable(id: string): string {
  return /^[A-Za-z0-9]{8}/.test(id) ? `${id.slice(0, 7)}_${id.slice(8)}` : id;
}

const SWEEP_WARNING =
  "Gemini may delete this conversation when another one starts in this folder (google-gemini/gemini-cli#27368). " +
  'Set "general": {"sessionRetention": {"enabled": false}} in its settings.json to prevent that.';

function sweepable(ask: AttemptRequest): boolean {
  return ask.kind === "resume" && ask.session !== null && unsweepable(ask.session) !== ask.session;
}
