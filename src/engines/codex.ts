/** OpenAI Codex CLI, driven through `codex exec --json`. Notes and quirks: docs/engines/codex.md */
import { join } from "node:path";
import { Fault } from "../core/faults.ts";
import { afterDashes, withMessage, override, splitForResume } from "./attempt-options.ts";
import { dialogueCommand, isDialogue } from "./codex-dialogue.ts";
import { sessionIn } from "./codex-server.ts";
import { codexActivity, codexTookUp } from "./codex-live.ts";
import {
  describeHeld,
  grammar,
  heldRights,
  NARROWEST,
  namesProfile,
  opensTmpdir,
  ownProfile,
} from "./codex-options.ts";
import { explainExit, ID, textReader, translate } from "./codex-output.ts";
import { codexSaid } from "./codex-conversation.ts";
import { codexDenied, listRollouts, locateRollout } from "./codex-store.ts";
import { folderTrust, heldTrust, trustWarning } from "./codex-trust.ts";
import type { AttemptRequest, Command, Engine } from "./engine.ts";
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
} from "./grammar.ts";
import { CODEX_ENV } from "./guarded-env.ts";
import { codexLogin } from "./logins.ts";

export const codex: Engine = {
  id: "codex",
  title: "Codex CLI",
  program: "codex",
  tested: ["0.166.0", "0.166.0"],
  session: { field: "thread_id", format: ID },
  can: { chooseSession: false, fork: true, interactive: true, readStore: true, boundToCwd: false },
  grammar,
  tellsTools: ["--json"],
  access: {
    read: ["--sandbox", "read-only"],
    edit: ["--sandbox", "workspace-write"],
    full: ["--sandbox", "danger-full-access"],
    unless: ["--profile"],
    profile: { files: ["config.toml", "/etc/codex/config.toml"], in: ownProfile, isNamedBy: namesProfile },
  },
  narrowest: NARROWEST,
  // Where commands run, and the sandbox of another Codex around this one.
  rightsEnv: ["CODEX_EXEC_SERVER_URL", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"],
  folderTrust,
  guardedEnv: CODEX_ENV,
  // A writing sandbox may write there, unless the config excludes it.
  openingEnv: { names: ["TMPDIR"], matters: (args) => opensTmpdir(parseArgs(grammar, args)) },

  home(env) {
    const { CODEX_HOME: own = "", HOME: home = "" } = env;
    if (own !== "") return own;
    return home === "" ? null : join(home, ".codex");
  },
  homeEnv: (home) => ({ CODEX_HOME: home }),
  login: codexLogin,
  version: (output) => /\b(\d+\.\d+\.\d+[\w.+-]*)/.exec(output)?.[1] ?? null,
  opensUi: (args) => opensUi(parseArgs(grammar, args)),

  command(ask) {
    if (ask.dialogue !== undefined) return dialogueCommand(ask, ask.dialogue.approval);
    if (ask.kind === "resume" || ask.kind === "fork") return again(ask, ask.kind);
    if (ask.kind === "fresh") return fresh(ask);
    return ask.message === null ? untouched(ask) : start(ask, ask.message);
  },

  reader(now, printed = "events") {
    if (printed === "text") return textReader();
    const read = printed === "dialogue" ? sessionIn : (text: string) => translate(text, now());
    return { line: (stream, text) => (stream === "stdout" ? read(text) : []), end: () => [] };
  },

  printed({ args, interactive }) {
    if (isDialogue(args)) return "dialogue";
    return !interactive && isJson(parseArgs(grammar, args)) ? "events" : "text";
  },

  opening(args) {
    const { commands, words } = parseArgs(grammar, args);
    const said = commands.at(-1) === "resume" || commands.at(-1) === "fork" ? words.slice(1) : words;
    const [message = null, ...others] = said;
    return message === "-" || others.length > 0 ? null : message;
  },

  explainExit,

  locate: (session, { home }, files) => locateRollout(session, home, files),
  sessions: listRollouts,
  said: codexSaid,
  denied: codexDenied,
  activity: codexActivity,
  receivedMessage: codexTookUp,
};

function opensUi({ commands, options }: Parsed): boolean {
  const asks = options.some(({ name }) => ["--help", "-h", "--version", "-V"].includes(name));
  return !asks && ["", "resume", "fork", "agents", "cloud"].includes(commands[0] ?? "");
}

function isJson(parsed: Parsed): boolean {
  return parsed.commands[0] === "exec" && has(parsed, "--json");
}

function untouched(ask: AttemptRequest): Command {
  const given = [...(ask.interactive ? noDaemon(parseArgs(grammar, ask.given)) : []), ...ask.given];
  const parsed = parseArgs(grammar, given);
  const headless = !opensUi(parsed);
  return {
    ...plain(given, parsed),
    headless,
    expects: resumedBy(parsed),
    structured: isJson(parsed),
    options: { kept: describe(parsed.options), dropped: [], rewritten: [] },
    ...(parsed.commands[0] === "exec" ? trustWarning(ask, parsed) : {}),
  };
}

/** The background server of a UI would keep the thread locked after the UI closes. */
function noDaemon(parsed: Parsed): readonly string[] {
  return has(parsed, "--no-daemon") || has(parsed, "--remote") ? [] : ["--no-daemon"];
}

/** The thread that the user's `resume` or `exec resume` continues; with `--last` or a name Codex picks one. */
function resumedBy(parsed: Parsed): string | null {
  const [word = ""] = parsed.words;
  const id = word.toLowerCase();
  return parsed.commands.at(-1) === "resume" && !has(parsed, "--last") && ID.test(id) ? id : null;
}

function start(ask: AttemptRequest, message: string): Command {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const [command, second] = recorded.commands;
  if (second !== undefined || (command !== undefined && command !== "exec")) {
    throw new Fault(
      "usage",
      `A message cannot be combined with \`codex ${recorded.commands.join(" ")}\`; give the native arguments alone.`,
    );
  }
  assertNoPrompt(recorded);
  const parsed = override(recorded, parseArgs(grammar, ask.native, true));
  return begin(ask, message, parsed, {
    kept: describe(lastWins(parsed.options)),
    dropped: [],
    rewritten: [],
  });
}

/**
 * A new conversation in an old run: without options that continued or printed another one, and with the old rights
 * (I12).
 */
function fresh(ask: AttemptRequest): Command {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const asked = override(recorded, parseArgs(grammar, ask.native, true));
  const leftOut = (option: Given) => option.spec?.bears === "session";
  const own = lastWins(asked.options).filter((option) => !leftOut(option));
  const held = [...heldRights(ask, asked), ...heldTrust(ask, asked)];
  return begin(
    ask,
    ask.message,
    // Behind, since of a setting that is given twice the last one counts.
    { ...asked, options: [...own, ...held] },
    {
      kept: describe(own),
      dropped: describe(asked.options.filter(leftOut)),
      rewritten: describeHeld(held),
    },
  );
}

function begin(
  ask: AttemptRequest,
  message: string | null,
  parsed: Parsed,
  report: Command["options"],
): Command {
  assertComplete(parsed);
  const options = lastWins(parsed.options);
  const shared = { options: report, ...trustWarning(ask, parsed) };
  if (ask.interactive) {
    const first = noDaemon(parsed);
    const args = withMessage(message, (text) => [...first, ...render(options), ...afterDashes(text)]);
    return { ...plain(args.args, parsed), ...args, headless: false, structured: false, ...shared };
  }
  if (message === null) throw new Fault("message_invalid", "Codex needs a message to begin without its UI.");
  const root = options.filter((option) => option.spec?.place === "root" || stoodFirst(option, parsed));
  const rest = options.filter((option) => !root.includes(option));
  const json = has(parsed, "--json") ? [] : ["--json"];
  const args = [...render(root), "exec", ...json, ...trust(ask, parsed), ...render(rest)];
  return {
    ...plain([...args, ...fence(rest), "-"], parsed),
    stdin: message,
    headless: true,
    structured: true,
    ...shared,
  };
}

function again(ask: AttemptRequest, verb: "resume" | "fork"): Command {
  const { session, message } = ask;
  if (session === null || !ID.test(session)) {
    throw new Fault(
      "session_unknown",
      `${JSON.stringify(session)} is not a Codex thread id, and Codex would start a new conversation for it.`,
    );
  }
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const asked = override(recorded, parseArgs(grammar, ask.native, true));
  const held = [...heldRights(ask, asked), ...heldTrust(ask, asked)];
  // Behind, since of a setting that is given twice the last one counts.
  const parsed = { ...asked, options: [...asked.options, ...held] };
  const { root, before, after, dropped } = splitForResume(parsed, ask.interactive ? "ui" : "headless");
  const shared = {
    env: {},
    expects: verb === "resume" ? session : null,
    options: {
      kept: describe([...root, ...before, ...after].filter((option) => !held.includes(option))),
      dropped: [...describe(dropped), ...recorded.words.map((word) => JSON.stringify(word))],
      rewritten: describeHeld(held),
    },
    ...trustWarning(ask, parsed),
  };
  if (ask.interactive) {
    const options = [...render([...root, ...before, ...after]), ...noDaemon(parsed)];
    const args = withMessage(message, (text) => [verb, ...options, session, ...afterDashes(text)]);
    return { ...shared, ...args, stdin: null, headless: false, structured: false };
  }
  if (message === null)
    throw new Fault("message_invalid", "Codex needs a message to continue without its UI.");
  const args = [
    ...render(root),
    "exec",
    ...render(before),
    verb,
    "--json",
    ...trust(ask, parsed),
    ...render(after),
  ];
  return {
    ...shared,
    args: [...args, ...fence(after), session, "-"],
    stdin: message,
    headless: true,
    structured: true,
  };
}

function plain(args: readonly string[], parsed: Parsed) {
  const ephemeral = has(parsed, "--ephemeral")
    ? { ephemeral: "codex saves no session with --ephemeral" }
    : {};
  return { args, stdin: null, env: {}, expects: null, ...ephemeral };
}

/** A variadic or unknown option at the end could swallow the next word. */
function fence(options: readonly Given[]): string[] {
  const last = options.at(-1);
  const open =
    last !== undefined &&
    (last.spec?.takes === "variadic" || (last.spec === null && last.values.length === 0));
  return open ? ["--"] : [];
}

/** An unknown option before `exec` belongs to the top level. */
function stoodFirst(option: Given, { commands }: Parsed): boolean {
  return option.spec === null && option.depth === 0 && commands.length > 0;
}

function trust({ trustCwd }: AttemptRequest, parsed: Parsed): string[] {
  return trustCwd && !has(parsed, "--skip-git-repo-check") ? ["--skip-git-repo-check"] : [];
}
