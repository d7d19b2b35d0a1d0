/** OpenAI Codex CLI, driven through `codex exec --json`. Notes and quirks: docs/engines/codex.md */
import { join } from "node:path";
import type { EngineEvent } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { hasDuplicateKeys, type JsonObject, numberIn, objectIn, parseObject, stringIn } from "../lib/json.ts";
import { afterDashes, withMessage } from "./attempt-options.ts";
import { listRollouts, locateRollout } from "./codex-store.ts";
import type { Ask, Command, Engine } from "./engine.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Given,
  type Grammar,
  type Guard,
  has,
  lastWins,
  override,
  type Parsed,
  parseArgs,
  render,
  scaleOf,
  splitForResume,
  valueOf,
} from "./grammar.ts";
import { kindIn, troubleOf, type TroublePattern } from "./troubles.ts";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Wider is higher. `--yolo` beats `-s` when both are given, so all of them share one scale. */
const SANDBOX = ["read-only", "workspace-write", "--approve-for-me", "danger-full-access", "--yolo"];

function sandbox(fixed?: string): Guard {
  const place = (value: string | null) => SANDBOX.indexOf(fixed ?? value ?? "");
  return { scale: "sandbox", rank: (value) => (place(value) === -1 ? null : place(value)) };
}

/** Settings that neither give nor take rights. Any other key may, so none is added. */
const HARMLESS = new Set(
  `model model_reasoning_effort model_reasoning_summary model_verbosity model_context_window personality
  model_auto_compact_token_limit hide_agent_reasoning show_raw_agent_reasoning service_tier`.split(/\s+/),
);

const setting: Guard = {
  of(text) {
    const [, key = "", value = ""] = /^\s*([^=\s]*)\s*=\s*(.*)$/.exec(text ?? "") ?? [];
    if (HARMLESS.has(key)) return null;
    return key === "sandbox_mode" ? sandbox(value.trim().replace(/^(["'])(.*)\1$/, "$2")) : "grant";
  },
};

/** 0.166: top level, `exec`, `exec resume`, `exec fork`, `exec review`, `resume`, `fork`, `review`. */
const grammar: Grammar = {
  strictValues: true,
  commands: {
    "": `exec|e resume fork review agents login logout mcp plugin app-server remote-control completion update doctor
      sandbox debug apply|a queue archive delete migrate-rollouts migrate-nfs-db unarchive cloud exec-server features
      help`.split(/\s+/),
    exec: ["resume", "fork", "review", "help"],
  },
  // Without a guard: the model and its provider, what the prompt holds (`-i`), how output looks.
  options: [
    { names: ["--config", "-c"], takes: "value", repeatable: true, guard: setting },
    { names: ["--enable"], takes: "value", repeatable: true, guard: "grant" },
    { names: ["--disable"], takes: "value", repeatable: true, guard: "grant" },
    { names: ["--strict-config"], takes: "none" },
    { names: ["--image", "-i"], takes: "variadic", repeatable: true, bears: "once" },
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--oss"], takes: "none", place: "before" },
    { names: ["--local-provider"], takes: "value", place: "before" },
    { names: ["--profile", "-p"], takes: "value", place: "before", guard: "grant" },
    { names: ["--sandbox", "-s"], takes: "value", place: "before", guard: sandbox() },
    { names: ["--approve-for-me"], takes: "none", place: "before", guard: sandbox("--approve-for-me") },
    {
      names: ["--dangerously-bypass-approvals-and-sandbox", "--yolo"],
      takes: "none",
      guard: sandbox("--yolo"),
    },
    { names: ["--dangerously-bypass-hook-trust"], takes: "none", guard: "grant" },
    { names: ["--cd", "-C"], takes: "value", place: "before", guard: "grant" },
    { names: ["--add-dir"], takes: "value", repeatable: true, place: "before", guard: "grant" },
    { names: ["--worktree"], takes: "none", refuse: "codex makes another worktree with it" },
    { names: ["--thread-source"], takes: "value", only: "headless", bears: "once" },
    { names: ["--cyber-access-program"], takes: "value", only: "headless", guard: "grant" },
    // Trust is given by --trust-cwd.
    { names: ["--skip-git-repo-check"], takes: "none", only: "headless", guard: "extra" },
    { names: ["--ephemeral"], takes: "none", refuse: "codex saves no session with it" },
    { names: ["--ignore-user-config"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--ignore-rules"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--output-schema"], takes: "value", only: "headless" },
    { names: ["--color"], takes: "value", only: "headless", place: "before" },
    { names: ["--json", "--experimental-json"], takes: "none", bears: "output" },
    // Codex itself writes the file, outside the sandbox.
    { names: ["--output-last-message", "-o"], takes: "value", only: "headless", guard: "extra" },
    // `exec` refuses these, the top level accepts them before it.
    { names: ["--ask-for-approval", "-a"], takes: "value", place: "root", guard: "grant" },
    { names: ["--search"], takes: "none", place: "root", guard: "grant" },
    { names: ["--no-alt-screen"], takes: "none", only: "ui", place: "root" },
    { names: ["--no-daemon"], takes: "none", only: "ui", place: "root" },
    { names: ["--remote"], takes: "value", only: "ui", place: "root", guard: "grant" },
    { names: ["--remote-auth-token-env"], takes: "value", only: "ui", place: "root", guard: "grant" },
    { names: ["--last"], takes: "none", bears: "session" },
    { names: ["--all"], takes: "none", bears: "session" },
    { names: ["--include-non-interactive"], takes: "none", bears: "session" },
    { names: ["--uncommitted"], takes: "none", bears: "once" },
    { names: ["--base"], takes: "value", bears: "once" },
    { names: ["--commit"], takes: "value", bears: "once" },
    { names: ["--title"], takes: "value", bears: "once" },
    { names: ["--help", "-h"], takes: "none", bears: "output" },
    { names: ["--version", "-V"], takes: "none", bears: "output" },
  ],
};

export const codex: Engine = {
  id: "codex",
  title: "Codex CLI",
  program: "codex",
  tested: ["0.166.0", "0.166.0"],
  session: { field: "thread_id", format: ID, appendOnly: true },
  can: { chooseSession: false, fork: true, interactive: true, readStore: true, boundToCwd: false },
  grammar,
  // Where commands run, and the sandbox of another Codex around this one.
  rightsEnv: ["CODEX_EXEC_SERVER_URL", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"],

  home(env) {
    const { CODEX_HOME: own = "", HOME: home = "" } = env;
    if (own !== "") return own;
    return home === "" ? null : join(home, ".codex");
  },
  homeEnv: (home) => ({ CODEX_HOME: home }),
  version: (output) => /\b(\d+\.\d+\.\d+[\w.+-]*)/.exec(output)?.[1] ?? null,
  opensUi: (args) => opensUi(parseArgs(grammar, args)),

  command(ask) {
    if (ask.kind === "resume" || ask.kind === "fork") return again(ask, ask.kind);
    return ask.message === null ? untouched(ask) : start(ask, ask.message);
  },

  reader: (now) => ({
    line: (stream, text) => (stream === "stdout" ? translate(text, now()) : []),
    end: () => [],
  }),

  explainExit({ code }, stderrTail, nowMs) {
    if (code === 0) return null;
    if (/not inside a trusted directory/i.test(stderrTail)) {
      const message =
        "Codex does not trust this directory: it is no git repository. Give --trust-cwd to allow it.";
      return { kind: "usage", message };
    }
    const error = stderrTail.split("\n").findLast((line) => /^(?:Error|error): /.test(line.trim()));
    if (error !== undefined) return troubleOf(error.trim(), nowMs, { patterns: EXITS });
    const kind = kindIn(stderrTail, EXITS);
    return kind === null ? null : { kind, message: stderrTail.trim().slice(-500) };
  },

  locate: (session, { home }, files) => locateRollout(session, home, files),
  sessions: listRollouts,
};

function opensUi({ commands, options }: Parsed): boolean {
  const asks = options.some(({ name }) => ["--help", "-h", "--version", "-V"].includes(name));
  return !asks && ["", "resume", "fork", "agents", "cloud"].includes(commands[0] ?? "");
}

function untouched(ask: Ask): Command {
  const given = [...(ask.interactive ? noDaemon(parseArgs(grammar, ask.given)) : []), ...ask.given];
  const parsed = parseArgs(grammar, given);
  const headless = !opensUi(parsed);
  return {
    ...plain(given, parsed),
    headless,
    expects: resumedBy(parsed),
    structured: parsed.commands[0] === "exec" && has(parsed, "--json"),
    options: { kept: describe(parsed.options), dropped: [], rewritten: [] },
  };
}

/** The background server that a UI starts would keep the thread locked after the UI is closed. */
function noDaemon(parsed: Parsed): readonly string[] {
  return has(parsed, "--no-daemon") || has(parsed, "--remote") ? [] : ["--no-daemon"];
}

/** The thread that the user's own `resume` or `exec resume` continues; with `--last` or a name Codex picks one. */
function resumedBy(parsed: Parsed): string | null {
  const [word = ""] = parsed.words;
  const id = word.toLowerCase();
  return parsed.commands.at(-1) === "resume" && !has(parsed, "--last") && ID.test(id) ? id : null;
}

function start(ask: Ask, message: string): Command {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const fresh = ask.kind === "fresh";
  const [command, second] = recorded.commands;
  if (!fresh) {
    if (second !== undefined || (command !== undefined && command !== "exec")) {
      throw new Fault(
        "usage",
        `A message cannot be combined with \`codex ${recorded.commands.join(" ")}\`; give the native arguments alone.`,
      );
    }
    assertNoPrompt(recorded);
  }
  const parsed = override(recorded, parseArgs(grammar, ask.native, true));
  assertComplete(parsed);
  // A fresh start in an old run leaves out what continued or printed another conversation.
  const leftOut = (option: Given) => fresh && option.spec?.bears === "session";
  const options = lastWins(parsed.options).filter((option) => !leftOut(option));
  const root = options.filter((option) => option.spec?.place === "root" || stoodFirst(option, recorded));
  const rest = options.filter((option) => !root.includes(option));
  const report = {
    kept: describe(options),
    dropped: describe(parsed.options.filter(leftOut)),
    rewritten: [],
  };
  if (ask.interactive) {
    const first = noDaemon(parsed);
    const args = withMessage(message, (text) => [...first, ...render(options), ...afterDashes(text)]);
    return {
      ...plain(args.args, parsed),
      ...args,
      headless: false,
      structured: false,
      options: report,
      ...warn(ask, parsed),
    };
  }
  const json = has(parsed, "--json") ? [] : ["--json"];
  const args = [...render(root), "exec", ...json, ...trust(ask, parsed), ...render(rest)];
  return {
    ...plain([...args, ...fence(rest), "-"], parsed),
    stdin: message,
    headless: true,
    structured: true,
    options: report,
    ...warn(ask, parsed),
  };
}

function again(ask: Ask, verb: "resume" | "fork"): Command {
  const { session, message } = ask;
  if (session === null || !ID.test(session)) {
    throw new Fault(
      "session_unknown",
      `${JSON.stringify(session)} is not a Codex thread id, and Codex would start a new conversation for it.`,
    );
  }
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const asked = override(recorded, parseArgs(grammar, ask.native, true));
  const rights = saysSandbox(asked) ? [] : parseArgs(grammar, rightsOf(ask), true).options;
  const parsed = { ...asked, options: [...asked.options, ...rights] };
  const { root, before, after, dropped } = splitForResume(parsed, ask.interactive ? "ui" : "headless");
  const shared = {
    env: {},
    expects: verb === "resume" ? session : null,
    options: {
      kept: describe([...root, ...before, ...after].filter((option) => !rights.includes(option))),
      dropped: [...describe(dropped), ...recorded.words.map((word) => JSON.stringify(word))],
      rewritten: describe(rights).map((right) => `no sandbox option → ${right}, as the conversation began`),
    },
    ...warn(ask, asked),
  };
  if (ask.interactive) {
    const options = [...render([...root, ...before, ...after]), ...noDaemon(parsed)];
    const args = withMessage(message, (text) => [verb, ...options, session, ...afterDashes(text)]);
    return { ...shared, ...args, stdin: null, headless: false, structured: false };
  }
  if (message === null) throw new Fault("message_invalid", "Codex needs a message to go on without its UI.");
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

/** Without `-s` Codex takes the default of the day, which may be wider than the one the conversation began with. */
function rightsOf({ rights = [], rightsUnknown }: Ask): readonly string[] {
  if (rights.length > 0 || rightsUnknown === undefined) return rights;
  throw new Fault(
    "option_unkept",
    `The run was started without -s, and the sandbox its conversation began with cannot be told: ${rightsUnknown}. ` +
      "Codex would take today's default, which may be wider. Give --native -s --native read-only to continue with the narrowest.",
    { facts: { option: "-s" } },
  );
}

function saysSandbox(parsed: Parsed): boolean {
  return parsed.options.some((option) => scaleOf(option) === "sandbox");
}

function plain(args: readonly string[], parsed: Parsed) {
  const ephemeral = has(parsed, "--ephemeral")
    ? { ephemeral: "codex saves no session with --ephemeral" }
    : {};
  return { args, stdin: null, env: {}, expects: null, ...ephemeral };
}

/** A variadic or an unknown option at the end could take the word that follows it. */
function fence(options: readonly Given[]): string[] {
  const last = options.at(-1);
  const open =
    last !== undefined &&
    (last.spec?.takes === "variadic" || (last.spec === null && last.values.length === 0));
  return open ? ["--"] : [];
}

/** An unknown option before `exec` is one of the top level. */
function stoodFirst(option: Given, { commands }: Parsed): boolean {
  return option.spec === null && option.depth === 0 && commands.length > 0;
}

function trust({ trustCwd }: Ask, parsed: Parsed): string[] {
  return trustCwd && !has(parsed, "--skip-git-repo-check") ? ["--skip-git-repo-check"] : [];
}

/** `-s`, `-c sandbox_mode=…`, `--yolo` and `--approve-for-me` all make 0.166 write its trust into config.toml. */
function warn({ trustCwd, cwd }: Ask, parsed: Parsed): { warnings?: readonly string[] } {
  const mode = /sandbox_mode\s*=\s*["']?(workspace-write|danger-full-access)/;
  const writes =
    ["workspace-write", "danger-full-access"].includes(valueOf(parsed, "--sandbox") ?? "") ||
    has(parsed, "--yolo") ||
    has(parsed, "--approve-for-me") ||
    parsed.options.some((option) => option.spec?.guard === setting && mode.test(option.values.at(-1) ?? ""));
  if (trustCwd || !writes) return {};
  return {
    warnings: [
      `With a writable sandbox Codex itself records ${cwd} as trusted in its config.toml, so later runs there may write by default. --trust-cwd says that this is wanted.`,
    ],
  };
}

const PATTERNS: readonly TroublePattern[] = [["auth", /missing environment variable/i]];

const EXITS: readonly TroublePattern[] = [
  ["session_lost", /no rollout found|is archived|missing source rollout|failed to read session metadata/i],
  ["session_busy", /already has an active writer/i],
  [
    "usage",
    /^error: |^usage: codex|no longer configured|no prompt provided|CODEX_HOME points to|error loading config/im,
  ],
  ["other", /failed printing to stdout/i],
  ...PATTERNS,
];

function translate(text: string, nowMs: number): readonly EngineEvent[] {
  const line = parseObject(text);
  switch (stringIn(line, "type") ?? "") {
    case "thread.started": {
      const session = stringIn(line, "thread_id") ?? "";
      const valid = ID.test(session) && !hasDuplicateKeys(text);
      return [valid ? { type: "session", session } : { type: "unknown" }];
    }
    case "turn.started":
      return [{ type: "turn_started" }];
    case "item.started":
    case "item.updated":
    case "item.completed":
      return item(stringIn(line, "type") ?? "", objectIn(line, "item"));
    case "turn.completed": {
      const usage = objectIn(line, "usage");
      const tokens = {
        input: numberIn(usage, "input_tokens") ?? 0,
        output: numberIn(usage, "output_tokens") ?? 0,
      };
      const counted: readonly EngineEvent[] = usage === undefined ? [] : [{ type: "usage", tokens }];
      return [...counted, { type: "turn_ended", result: "completed" }];
    }
    case "turn.failed": {
      const message = stringIn(objectIn(line, "error"), "message") ?? "The turn failed.";
      return [
        { type: "turn_ended", result: "failed", trouble: troubleOf(message, nowMs, { patterns: PATTERNS }) },
      ];
    }
    case "error":
      return failing(stringIn(line, "message") ?? "", nowMs);
    default:
      return [{ type: "unknown" }];
  }
}

/** A top-level error is not the end: `turn.failed` is. */
function failing(message: string, nowMs: number): readonly EngineEvent[] {
  if (!message.startsWith("Reconnecting")) return [{ type: "notice", message }];
  const delay = /\b(?:in|after) (\d{1,6}(?:\.\d{1,3})?) ?(ms|s)\b/.exec(message);
  const delayMs = delay === null ? {} : { delayMs: Number(delay[1]) * (delay[2] === "s" ? 1000 : 1) };
  return [{ type: "retry", trouble: troubleOf(message, nowMs, { patterns: PATTERNS }), ...delayMs }];
}

function item(when: string, it: JsonObject | undefined): readonly EngineEvent[] {
  const type = stringIn(it, "type");
  const text = stringIn(it, "text") ?? stringIn(it, "message") ?? "";
  if (type === "agent_message") return when === "item.completed" ? [{ type: "text", text }] : [];
  if (type === "error") return when === "item.completed" ? [{ type: "notice", message: text }] : [];
  if (type === "reasoning" || type === "todo_list") return [];
  if (type === undefined) return [{ type: "unknown" }];
  if (when === "item.updated") return [];
  const detail = stringIn(it, "command") ?? stringIn(it, "query") ?? stringIn(it, "tool");
  const status = stringIn(it, "status");
  return [
    {
      type: "tool",
      state: when === "item.started" ? "started" : "ended",
      id: stringIn(it, "id") ?? type,
      name: type,
      ...(detail === undefined ? {} : { detail }),
      ...(when === "item.completed" && status !== undefined ? { ok: status === "completed" } : {}),
    },
  ];
}
