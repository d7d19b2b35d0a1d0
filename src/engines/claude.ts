/** Claude Code, driven through `claude -p --output-format stream-json`. Notes and quirks: docs/engines/claude.md */
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { afterDashes, withMessage, override, splitForResume } from "./attempt-options.ts";
import { CLAUDE_RIGHTS, claudeGrammar as grammar } from "./claude-options.ts";
import { claudeReader, failureIn } from "./claude-output.ts";
import { claudeActivity, claudeTookUp, HOOKS, hooksFor } from "./claude-live.ts";
import { claudeSaid } from "./claude-conversation.ts";
import { claudeHolders, listTranscripts, locateTranscript, registryEntry } from "./claude-store.ts";
import { type AttemptRequest, type Command, type Engine, SILENT } from "./engine.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Given,
  has,
  lastWins,
  parseArgs,
  type Parsed,
  render,
  valueOf,
} from "./grammar.ts";
import { CLAUDE_ENV } from "./guarded-env.ts";
import { kindIn, troubleOf, type TroublePattern } from "./troubles.ts";
import { claudeLogin } from "./logins.ts";

/** Claude keeps the case of a given id. */
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const claude: Engine = {
  id: "claude",
  title: "Claude Code",
  program: "claude",
  tested: ["2.1.197", "2.1.325"],
  session: { field: "session_id", format: ID },
  can: { chooseSession: true, fork: true, interactive: true, readStore: true, boundToCwd: true },
  grammar,
  tellsTools: ["stream-json"],
  access: {
    read: ["--permission-mode", "plan"],
    edit: ["--permission-mode", "acceptEdits"],
    full: ["--permission-mode", "bypassPermissions"],
    unless: ["--settings", "--permission-prompt-tool"],
  },
  rightsEnv: CLAUDE_RIGHTS,
  guardedEnv: CLAUDE_ENV,

  home(env) {
    const { CLAUDE_CONFIG_DIR: own = "", HOME: home = "" } = env;
    if (own !== "") return own;
    return home === "" ? null : join(home, ".claude");
  },
  homeEnv: (home) => ({ CLAUDE_CONFIG_DIR: home }),
  login: claudeLogin,
  version: (output) => /\b(\d+\.\d+\.\d+[\w.+-]*)/.exec(output)?.[1] ?? null,
  opensUi: (args) => opensUi(parseArgs(grammar, args)),

  command(ask) {
    if (ask.kind === "resume" || ask.kind === "fork") return again(ask, ask.kind);
    return ask.message === null ? untouched(ask) : start(ask, ask.message);
  },

  reader: (now, printed) => (printed === "text" ? SILENT : claudeReader(ID, now)),
  printed: ({ args, interactive }) =>
    !interactive && isStructured(parseArgs(grammar, args)) ? "events" : "text",

  opening(args) {
    const [message = null, ...others] = parseArgs(grammar, args).words;
    return others.length > 0 ? null : message;
  },

  explainExit({ code }, stderrTail, nowMs, stdoutTail = "") {
    if (code === null || code === 0) return null;
    const said = failureIn(stdoutTail, nowMs);
    if (said !== null) return said;
    const error = stderrTail
      .split("\n")
      .findLast((line) => kindIn(line.trim(), EXITS) !== null || /^error: /i.test(line.trim()));
    return error === undefined ? null : troubleOf(error.trim(), nowMs, { patterns: EXITS });
  },

  locate: locateTranscript,
  sessions: listTranscripts,
  said: claudeSaid,
  holders: claudeHolders,
  liveSession: async (agent, where, files) => (await registryEntry(agent, where, files))?.session ?? null,
  activity: claudeActivity,
  receivedMessage: claudeTookUp,
};

const EXITS: readonly TroublePattern[] = [
  ["session_lost", /no conversation found/i],
  ["auth", /not logged in|please run \/login/i],
  [
    "usage",
    /^error: |invalid session id|is already in use|unknown option|cannot be used with root|requires --verbose|input must be provided/i,
  ],
];

function opensUi(parsed: Parsed): boolean {
  const without = ["--print", "--help", "--version", "--background", "--desktop"];
  return parsed.commands.length === 0 && !without.some((name) => has(parsed, name));
}

/** Claude prints one JSON event per line only with both options; `json` is only the last event. */
function isStructured(parsed: Parsed): boolean {
  const format = valueOf(parsed, "--output-format");
  return (
    has(parsed, "--print") && (format === "json" || (format === "stream-json" && has(parsed, "--verbose")))
  );
}

function untouched(ask: AttemptRequest): Command {
  const { given, session } = ask;
  const parsed = parseArgs(grammar, given);
  const chosen =
    given.length === 0 && ask.interactive && session !== null ? ["--session-id", valid(session)] : [];
  const hooks = addedHooks(ask, parsed);
  return {
    ...plain([...chosen, ...hooks.args, ...given], parsed),
    ...hooks.named,
    headless: !opensUi(parsed),
    structured: isStructured(parsed),
    expects: chosen.length > 0 ? session : expectedBy(parsed),
    options: { kept: describe(parsed.options), dropped: [], rewritten: [] },
  };
}

function start(ask: AttemptRequest, message: string): Command {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const fresh = ask.kind === "fresh";
  if (!fresh) {
    const [command] = recorded.commands;
    if (command !== undefined) {
      throw new Fault(
        "usage",
        `A message cannot be combined with \`claude ${command}\`; give the native arguments alone.`,
      );
    }
    assertNoPrompt(recorded);
    if (valueOf(recorded, "--input-format") === "stream-json") {
      throw new Fault(
        "usage",
        "A message is plain text: it cannot be combined with --input-format stream-json.",
      );
    }
  }
  const parsed = override(recorded, parseArgs(grammar, ask.native, true));
  assertComplete(parsed);
  const leftOut = ({ spec }: Given) =>
    spec !== null && fresh && (spec.bears === "session" || spec.bears === "output");
  const options = lastWins(parsed.options).filter((option) => !leftOut(option));
  const own: Parsed = { ...parsed, options };
  const picks = options.some(({ spec }) => spec?.bears === "session");
  const chosen = picks || ask.session === null ? [] : ["--session-id", valid(ask.session)];
  const shared = {
    expects: picks ? expectedBy(own) : ask.session,
    options: { kept: describe(options), dropped: describe(parsed.options.filter(leftOut)), rewritten: [] },
  };
  if (ask.interactive) {
    const hooks = addedHooks(ask, own);
    const first = [...chosen, ...hooks.args, ...render(options)];
    const args = withMessage(message, (text) => [...first, ...afterDashes(text)]);
    const ui = { headless: false, structured: false };
    return { ...plain(args.args, own), ...args, ...shared, ...hooks.named, ...ui };
  }
  const format = valueOf(own, "--output-format");
  const output = [
    ...(has(own, "--print") ? [] : ["-p"]),
    ...(format === undefined ? ["--output-format", "stream-json"] : []),
    ...(has(own, "--verbose") || (format !== undefined && format !== "stream-json") ? [] : ["--verbose"]),
  ];
  return {
    ...plain([...output, ...chosen, ...render(options)], own),
    ...shared,
    stdin: message,
    headless: true,
    structured: format === undefined || format === "stream-json" || format === "json",
  };
}

function again(ask: AttemptRequest, kind: "resume" | "fork"): Command {
  const { session, forkTo, message } = ask;
  if (session === null || !ID.test(session)) {
    throw new Fault("session_unknown", `${JSON.stringify(session)} is not a Claude session id.`);
  }
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const parsed = override(recorded, parseArgs(grammar, ask.native, true));
  if (kind === "fork" && has(recorded, "--worktree")) {
    throw new Fault(
      "option_unkept",
      "Claude created the run's worktree (--worktree), but a fork would work in the main checkout (2.1.325). Resume the run, or start a new one with --worktree.",
      { facts: { option: "--worktree" } },
    );
  }
  const { root, before, after, dropped } = splitForResume(parsed, ask.interactive ? "ui" : "headless");
  const kept = [...root, ...before, ...after];
  const chosen = forkTo === null ? [] : ["--session-id", valid(forkTo)];
  const resume = ["--resume", session, ...(kind === "fork" ? ["--fork-session", ...chosen] : [])];
  const shared = {
    env: {},
    expects: kind === "fork" ? forkTo : session,
    options: {
      kept: describe(kept),
      dropped: [...describe(dropped), ...recorded.words.map((word) => JSON.stringify(word))],
      rewritten: [],
    },
  };
  if (ask.interactive) {
    const hooks = addedHooks(ask, parsed);
    const first = [...resume, ...hooks.args, ...render(kept)];
    const args = withMessage(message, (text) => [...first, ...afterDashes(text)]);
    return { ...shared, ...args, ...hooks.named, stdin: null, headless: false, structured: false };
  }
  if (message === null)
    throw new Fault("message_invalid", "Claude needs a message to continue without its UI.");
  const args = ["-p", "--output-format", "stream-json", "--verbose", ...resume, ...render(kept)];
  return { ...shared, args, stdin: message, headless: true, structured: true };
}

/** Hooks grant nothing (I12). Not added beside the user's settings: Claude accepts the option once. */
function addedHooks(ask: AttemptRequest, parsed: Parsed) {
  const fits =
    ask.watched === true && ask.interactive && parsed.commands.length === 0 && !has(parsed, "--settings");
  return fits ? { args: hooksFor(), named: { hooks: HOOKS } } : { args: [], named: {} };
}

function plain(args: readonly string[], parsed: Parsed) {
  const ephemeral = has(parsed, "--no-session-persistence")
    ? { ephemeral: "claude saves no session with --no-session-persistence" }
    : {};
  return { args, stdin: null, env: {}, ...ephemeral };
}

/** The id that the user's arguments choose or continue. */
function expectedBy(parsed: Parsed): string | null {
  if (parsed.commands.length > 0) return null;
  const chosen = valueOf(parsed, "--session-id");
  if (chosen !== undefined) return valid(chosen ?? "");
  const continued = valueOf(parsed, "--resume") ?? "";
  return ID.test(continued) && !has(parsed, "--fork-session") ? continued : null;
}

function valid(id: string): string {
  if (ID.test(id)) return id;
  throw new Fault("usage", `${JSON.stringify(id)} is not a session id: Claude accepts UUIDs only.`);
}
