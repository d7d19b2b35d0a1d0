/**
 * OpenCode: its command line for an attempt. `opencode-output.ts` parses its output. Its sessions are rows of a SQLite
 * file. Quirks with versions: docs/engines/opencode.md.
 */
import { basename, dirname, join } from "node:path";
import { Fault } from "../core/faults.ts";
import { arrayIn, fieldIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import {
  type EngineAttemptOptions,
  engineAttemptOptions,
  passedOn,
  rewrite,
  withMessage,
} from "./attempt-options.ts";
import type { AttemptRequest, Command, Engine } from "./engine.ts";
import {
  type FoundSession,
  type Located,
  OPENING_CHARACTERS,
  type DatabaseRow,
  type SessionFiles,
} from "./session-store.ts";
import {
  type Given,
  type Grammar,
  type Guard,
  has,
  type Parsed,
  parseArgs,
  render,
  valueOf,
} from "./grammar.ts";
import { OPENCODE_ENV } from "./guarded-env.ts";
import { saidInExport, saidInRows } from "./opencode-conversation.ts";
import { explainExit, ID, opencodeReader } from "./opencode-output.ts";
import { opencodeLogin } from "./logins.ts";

/** Another value may mean other rights, and nothing shows which is wider. */
const FIXED: Guard = { rank: () => null };

/**
 * `opencode --help` and `opencode run --help` of 1.18.33. Without a guard: the model, the look of output, the login for
 * `--attach`, and `--file`, which the user reads into one message.
 */
const grammar: Grammar = {
  strictValues: true,
  yargs: true,
  options: [
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--agent"], takes: "value", guard: FIXED },
    { names: ["--auto"], takes: "none", guard: "grant" },
    { names: ["--pure"], takes: "none", guard: "limit" },
    { names: ["--log-level", "--logLevel"], takes: "value" },
    { names: ["--port"], takes: "value", guard: "grant" },
    { names: ["--continue", "-c"], takes: "none", bears: "session" },
    { names: ["--session", "-s"], takes: "value", bears: "session" },
    { names: ["--fork"], takes: "none", bears: "session" },
    { names: ["--print-logs", "--printLogs"], takes: "none", bears: "output" },
    { names: ["--help", "-h"], takes: "none", bears: "once" },
    { names: ["--version", "-v"], takes: "none", bears: "once" },
    // Only `run`.
    { names: ["--format"], takes: "value", bears: "output" },
    { names: ["--interactive", "-i"], takes: "none", bears: "output" },
    // A command may name another agent, and its text may run programs.
    { names: ["--command"], takes: "value", only: "headless", bears: "once", guard: "grant" },
    { names: ["--file", "-f"], takes: "variadic", repeatable: true, only: "headless", bears: "once" },
    { names: ["--title"], takes: "value", only: "headless", bears: "once" },
    { names: ["--dir"], takes: "value", guard: FIXED, opens: "path" },
    { names: ["--share"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--attach"], takes: "value", refuse: "the conversation is kept by another server" },
    { names: ["--password", "-p"], takes: "value", only: "headless", secret: true },
    { names: ["--username", "-u"], takes: "value", only: "headless" },
    { names: ["--variant"], takes: "value", only: "headless" },
    { names: ["--thinking"], takes: "none", only: "headless" },
    // Only the UI.
    { names: ["--prompt"], takes: "value", bears: "prompt" },
    // Each opens the UI's server further.
    { names: ["--hostname"], takes: "value", only: "ui", guard: "extra" },
    { names: ["--mdns"], takes: "none", only: "ui", guard: "extra" },
    { names: ["--mdns-domain", "--mdnsDomain"], takes: "value", only: "ui", guard: "extra" },
    { names: ["--cors"], takes: "variadic", repeatable: true, only: "ui", guard: "extra" },
    { names: ["--mini"], takes: "none", only: "ui" },
    { names: ["--no-replay"], takes: "none", only: "ui" },
    { names: ["--replay-limit", "--replayLimit"], takes: "value", only: "ui" },
  ],
  // The last conversation of a project, which may have several directories.
  continues: { "--continue": "any", "--session": "any" },
  forks: ["--fork"],
  commands: {
    "": `run completion acp mcp attach debug providers|auth agent upgrade uninstall serve web models stats export
      import github pr session plugin|plug db`.split(/\s+/),
  },
};

/** Permission rules, files and texts that may contain some, plugins, sharing, and optional tools. */
const RIGHTS_ENV =
  `OPENCODE_PERMISSION OPENCODE_CONFIG OPENCODE_CONFIG_CONTENT OPENCODE_CONFIG_DIR XDG_CONFIG_HOME
  OPENCODE_DISABLE_PROJECT_CONFIG OPENCODE_TEST_MANAGED_CONFIG_DIR OPENCODE_TEST_HOME OPENCODE_PURE
  OPENCODE_DISABLE_DEFAULT_PLUGINS OPENCODE_AUTO_SHARE OPENCODE_DISABLE_SHARE OPENCODE_EXPERIMENTAL
  OPENCODE_EXPERIMENTAL_PLAN_MODE OPENCODE_EXPERIMENTAL_CODE_MODE OPENCODE_EXPERIMENTAL_LSP_TOOL OPENCODE_ENABLE_EXA
  OPENCODE_EXPERIMENTAL_EXA OPENCODE_ENABLE_PARALLEL OPENCODE_EXPERIMENTAL_PARALLEL`.split(/\s+/);

export const opencode: Engine = {
  id: "opencode",
  title: "OpenCode",
  program: "opencode",
  tested: ["1.18.33", "1.18.33"],
  session: { field: "sessionID", format: ID },
  can: { chooseSession: false, fork: true, interactive: true, readStore: true, boundToCwd: true },
  grammar,
  // It edits in its folder without asking. Its plan agent edits nothing, but runs commands that do (1.18.33).
  access: { edit: [], full: ["--auto"] },
  rightsEnv: RIGHTS_ENV,
  // Its config folder, and `.opencode` in the home of the user (1.18.33).
  settingsPlaces(env) {
    const user = env["OPENCODE_TEST_HOME"] || env["HOME"] || "";
    return [env["XDG_CONFIG_HOME"] || join(env["HOME"] ?? "", ".config"), user];
  },
  // 1.18.33 adds this line to a file without it.
  rulesEnv: {
    names: ["OPENCODE_CONFIG"],
    unchanged: (content) => content.replace('\n  "$schema": "https://opencode.ai/config.json",', ""),
  },
  guardedEnv: OPENCODE_ENV,
  home(env) {
    const data = env["XDG_DATA_HOME"] || (env["HOME"] ? join(env["HOME"], ".local", "share") : "");
    return data === "" ? null : join(data, "opencode");
  },
  homeEnv: (home) => ({ XDG_DATA_HOME: basename(home) === "opencode" ? dirname(home) : home }),
  login: opencodeLogin,
  version: (output) =>
    /^[ \t]{0,8}v?(\d{1,9}\.\d{1,9}\.\d{1,9}\S{0,64})[ \t\r]{0,8}$/m.exec(output)?.[1] ?? null,
  opensUi: (args) => opensUi(parseArgs(grammar, args)),
  command,
  reader: opencodeReader,
  printed: ({ args, interactive }) => (!interactive && isJson(parseArgs(grammar, args)) ? "events" : "text"),
  opening,
  explainExit,
  async locate(session, { home }, files): Promise<Located> {
    const database = join(home, "opencode.db");
    const sql =
      "SELECT directory, time_updated, EXISTS (SELECT 1 FROM part WHERE session_id = session.id) AS said FROM session WHERE id = ?";
    const rows = await files.rows(database, sql, [session]);
    if (rows === null && (await files.stat(database)) !== null) {
      return { state: "unknown", why: `${database} cannot be read` };
    }
    const [row] = rows ?? [];
    if (row === undefined) return { state: "absent", searched: database };
    // 1.18.33 writes the session, then a message without words, then its parts, and continues any of these.
    if (Number(row["said"]) === 0) {
      const why = "it holds no message: OpenCode was ended before it wrote down the first one";
      return { state: "unusable", path: database, why, damaged: false, blank: true };
    }
    return {
      state: "present",
      files: [],
      cwd: textIn(row, "directory"),
      updatedAtMs: timeIn(row, "time_updated"),
    };
  },
  async sessions({ home, cwd }, files) {
    const here = cwd === null ? "" : " AND directory = ?";
    const rows = await files.rows(
      join(home, "opencode.db"),
      `SELECT id, directory, title, time_created, time_updated FROM session
       WHERE parent_id IS NULL AND time_archived IS NULL${here} ORDER BY time_updated DESC LIMIT 500`,
      cwd === null ? [] : [cwd],
    );
    const openings = cwd === null ? new Map<string, string>() : await openingsIn(home, cwd, files);
    return (rows ?? []).flatMap((row) => foundIn(row, openings));
  },
  transfer: {
    exportArgs: (session) => ["export", session],
    importArgs: (file) => ["import", file],
    readExport,
    said: saidInExport,
    async saidIn(session, { home }, files) {
      const sql =
        "SELECT id, NULL AS message_id, data FROM message WHERE session_id = ?1 UNION ALL SELECT id, message_id, data FROM part WHERE session_id = ?1";
      const rows = await files.rows(join(home, "opencode.db"), sql, [session]);
      return rows === null ? null : saidInRows(rows);
    },
    async wordsIn(session, { home }, files) {
      const sql =
        "SELECT id, '' AS data FROM message WHERE session_id = ?1 UNION ALL SELECT id, data FROM part WHERE session_id = ?1";
      const rows = await files.rows(join(home, "opencode.db"), sql, [session]);
      if (rows === null) return null;
      const pieces = rows.map((row) => [textIn(row, "id") ?? "", textIn(row, "data") ?? ""] as const);
      return new Map(pieces.map(([id, data]) => [id, wordsIn(parseObject(data))]));
    },
  },
};

function wordsIn(piece: unknown): string {
  return stringIn(piece, "text") ?? stringIn(objectIn(piece, "state"), "output") ?? "";
}

/** A message's words are in its parts, which grow during the answer: text, and tool results. */
function readExport(text: string): ReadonlyMap<string, string> | null {
  const messages = fieldIn(parseObject(text), "messages");
  if (!Array.isArray(messages)) return null;
  const found = new Map<string, string>();
  for (const message of messages) {
    const parts = arrayIn(message, "parts");
    for (const piece of [objectIn(message, "info"), ...parts]) {
      const id = stringIn(piece, "id");
      if (id === undefined) return null;
      found.set(id, wordsIn(piece));
    }
  }
  return found;
}

function isJson(parsed: Parsed): boolean {
  return parsed.commands[0] === "run" && valueOf(parsed, "--format") === "json";
}

/** OpenCode quotes an argument that contains a space. */
function opening(args: readonly string[]): string | null {
  const parsed = parseArgs(grammar, args);
  if (has(parsed, "--command")) return null;
  if (parsed.commands[0] !== "run") return valueOf(parsed, "--prompt") ?? null;
  const words = parsed.words.map((word) =>
    word.includes(" ") ? `"${word.replaceAll('"', String.raw`\"`)}"` : word,
  );
  return words.length === 0 ? null : words.join(" ");
}

function opensUi(parsed: Parsed): boolean {
  if (has(parsed, "--help") || has(parsed, "--version")) return false;
  const [word] = parsed.commands;
  return word === undefined || word === "attach" || (word === "run" && has(parsed, "--interactive"));
}

function command(ask: AttemptRequest): Command {
  if (ask.kind === "start" && ask.message === null) return untouched(ask);
  const options = engineAttemptOptions(grammar, ask);
  const [word] = options.given.commands;
  if (ask.kind === "start" && word !== undefined && word !== "run") {
    throw new Fault(
      "usage",
      `A message cannot be combined with \`opencode ${word}\`; give the native arguments alone.`,
    );
  }
  return ask.interactive || ask.message === null ? inUi(ask, options) : headless(ask, ask.message, options);
}

function untouched({ given }: AttemptRequest): Command {
  const parsed = parseArgs(grammar, given);
  const expects = ownSession(parsed);
  return passedOn(given, { headless: !opensUi(parsed), structured: isJson(parsed), expects });
}

function headless(ask: AttemptRequest, message: string, all: EngineAttemptOptions): Command {
  const isDir = (option: Given) => option.spec?.names[0] === "--dir";
  const { options, report, given } = rewrite(all, isDir);
  const now: Parsed = { commands: [], options, words: [] };
  // From any other directory OpenCode 1.18 carries out the turn, prints nothing and never ends.
  const directory = valueOf(given, "--dir") ?? ask.cwd;
  const format = has(now, "--format") ? [] : ["--format", "json"];
  const title = ask.session !== null || has(now, "--title") ? [] : ["--title", ask.tag];
  // The log names a new session before the model is asked; the events only when it answers.
  const logs = has(now, "--print-logs") ? [] : ["--print-logs"];
  return {
    args: ["run", ...format, ...sessionArgs(ask), "--dir", directory, ...title, ...logs, ...render(options)],
    stdin: message,
    env: {},
    headless: true,
    structured: (valueOf(now, "--format") ?? "json") === "json",
    expects: ask.kind === "resume" ? ask.session : ownSession(now),
    options: report,
  };
}

function inUi(ask: AttemptRequest, all: EngineAttemptOptions): Command {
  if (ask.message !== null && ask.session !== null) {
    // OpenCode 1.18 ignores `--prompt` beside `--session`.
    throw new Fault(
      "engine_cannot",
      "OpenCode's UI takes no message for a conversation that exists: leave the message out and type it there.",
    );
  }
  const isDir = (option: Given) => option.spec?.names[0] === "--dir";
  const { options, report, given } = rewrite(all, isDir);
  const directory = valueOf(given, "--dir") ?? null;
  const project = directory === null ? [] : [directory];
  const first = [...project, ...sessionArgs(ask), ...render(options)];
  return {
    ...withMessage(ask.message, (message) => (message === null ? first : [...first, `--prompt=${message}`])),
    stdin: null,
    env: {},
    headless: false,
    structured: false,
    expects: ask.kind === "resume" ? ask.session : null,
    options: report,
  };
}

/** An empty id would silently begin another conversation. */
function sessionArgs({ kind, session }: AttemptRequest): readonly string[] {
  if (kind !== "resume" && kind !== "fork") return [];
  if (session === null || !ID.test(session)) {
    const text = JSON.stringify(session?.slice(0, 80) ?? null);
    throw new Fault("session_unknown", `${text} is not a session id of OpenCode.`);
  }
  return [`--session=${session}`, ...(kind === "fork" ? ["--fork"] : [])];
}

/** The session that the user's options of a start continue. */
function ownSession(now: Parsed): string | null {
  const session = valueOf(now, "--session") ?? null;
  return session !== null && ID.test(session) && !has(now, "--fork") ? session : null;
}

/** First messages of a directory's newest sessions, by session. */
async function openingsIn(
  home: string,
  cwd: string,
  files: SessionFiles,
): Promise<ReadonlyMap<string, string>> {
  const rows = await files.rows(
    join(home, "opencode.db"),
    `SELECT message.session_id AS id, part.data AS data FROM message JOIN part ON part.message_id = message.id
     WHERE message.id IN (
       SELECT (SELECT m.id FROM message m WHERE m.session_id = session.id ORDER BY m.time_created, m.id LIMIT 1)
       FROM session WHERE parent_id IS NULL AND directory = ? ORDER BY time_created DESC LIMIT 20)
     ORDER BY part.id`,
    [cwd],
  );
  const found = new Map<string, string>();
  for (const row of rows ?? []) {
    const [id, part] = [textIn(row, "id"), parseObject(textIn(row, "data") ?? "")];
    const text = stringIn(part, "type") === "text" ? stringIn(part, "text") : undefined;
    if (id !== null && text !== undefined && !found.has(id)) found.set(id, text.slice(0, OPENING_CHARACTERS));
  }
  return found;
}

function foundIn(row: DatabaseRow, openings: ReadonlyMap<string, string>): readonly FoundSession[] {
  const id = textIn(row, "id");
  if (id === null || !ID.test(id)) return [];
  const times = { createdAtMs: timeIn(row, "time_created"), updatedAtMs: timeIn(row, "time_updated") };
  const said = { title: textIn(row, "title"), opening: openings.get(id) ?? null };
  return [{ id, cwd: textIn(row, "directory"), path: null, ...times, ...said }];
}

function textIn(row: DatabaseRow, column: string): string | null {
  const value = row[column];
  return typeof value === "string" ? value : null;
}

/** Milliseconds; SQLite libraries may return big integers. */
function timeIn(row: DatabaseRow, column: string): number | null {
  const value = row[column];
  return typeof value === "number" || typeof value === "bigint" ? Number(value) : null;
}
