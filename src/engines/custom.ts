/**
 * An engine that the user described in a config file (docs/config.md): templates for its command line, rules for its
 * JSON lines. Its options are unknown, so Reprise passes them on unchanged and overrides none.
 */
import type { CustomEngine, EventName, LineRule } from "../core/config-engine.ts";
import type { EngineConfig } from "../core/config.ts";
import type { EngineEvent, Stream } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { fieldIn, hasDuplicateKeys, type JsonObject, parseObject } from "../lib/json.ts";
import { override, passedOn, splitForResume, withMessage } from "./attempt-options.ts";
import { type AttemptRequest, type Command, type Engine, SILENT } from "./engine.ts";
import { assertNoPrompt, describe, type Grammar, type OptionSpec, parseArgs, render } from "./grammar.ts";
import { troubleOf } from "./troubles.ts";

/** Only the options that name a session in a template are known. */
function grammarOf(custom: CustomEngine): Grammar {
  const names = new Set(
    templatesOf(custom).flatMap((words) =>
      words.flatMap((word, index) => {
        const before = word === "{session}" ? words[index - 1] : /^(-[^=]*)=\{session\}$/.exec(word)?.[1];
        return before?.startsWith("-") === true && before !== "--" ? [before] : [];
      }),
    ),
  );
  const options = [...names].map(
    (name) => ({ names: [name], takes: "value", bears: "session" }) satisfies OptionSpec,
  );
  return { commands: {}, options };
}

/**
 * The session in the user's own words: the value of an option that names one in a template, or the word after a
 * template's word (`resume {session}`). Null: no session.
 */
function givenSession(custom: CustomEngine, grammar: Grammar, given: readonly string[]): string | null {
  const isId = (text: string | undefined): text is string =>
    text !== undefined && text.length <= 200 && custom.session.format.test(text);
  const named = parseArgs(grammar, given, true).options.findLast(({ spec }) => spec?.bears === "session");
  const value = named?.values.at(-1);
  if (isId(value)) return value;
  const leads = templatesOf(custom).flatMap((words) => {
    const index = words.indexOf("{session}");
    const lead = words[index - 1];
    return index < 1 || lead?.startsWith("-") === true ? [] : [lead];
  });
  return given.find((word, index) => index > 0 && leads.includes(given[index - 1]) && isId(word)) ?? null;
}

function templatesOf({ start, resume, interactive }: CustomEngine): readonly (readonly string[])[] {
  return [start, resume, ...(interactive === undefined ? [] : [interactive.start, interactive.resume])];
}

/** Null: the config does not define an engine. */
export function customEngine(id: string, config: EngineConfig): Engine | null {
  const { custom, program, args: defaults = [] } = config;
  if (custom === undefined || program === undefined) return null;
  const { field, format, choose } = custom.session;
  const grammar = grammarOf(custom);
  // The config's arguments are options: none of their words is a prompt.
  const bare = (given: readonly string[]) =>
    given.length === defaults.length && given.every((arg, index) => arg === defaults[index]);
  return {
    id,
    title: custom.title,
    program,
    tested: null,
    session: { field, format },
    can: {
      chooseSession: choose,
      fork: false,
      interactive: custom.interactive !== undefined,
      readStore: false,
      boundToCwd: false,
    },
    grammar,

    home: () => null,
    homeEnv: () => ({}),
    version: (output) => /\b(\d+\.\d+\.\d+[\w.+-]*)/.exec(output)?.[1] ?? null,
    // A command line that is passed through is unknown, so it gets no terminal.
    opensUi: (given) => custom.interactive !== undefined && bare(given),
    command: (ask) =>
      command({ id, custom, grammar }, { ...ask, givenHasNoPrompt: ask.givenHasNoPrompt || bare(ask.given) }),
    reader: (now, printed) =>
      printed === "text"
        ? SILENT
        : { line: (stream, text) => translate(custom, stream, text, now()), end: () => [] },
    // A command line without our message was passed through unchanged.
    printed: ({ interactive, message }) => (interactive || message === null ? "text" : "events"),
    explainExit(exit, stderrTail, nowMs) {
      const last = stderrTail.trim().split("\n").at(-1) ?? "";
      // Nothing that an agent wrote before explains the signal that ended it.
      return exit.code === null || exit.code === 0 || last === "" ? null : troubleOf(last, nowMs);
    },
    locate: async () => ({ state: "unknown", why: `Reprise does not know where ${id} keeps its sessions` }),
    sessions: async () => [],
  };
}

interface Described {
  readonly id: string;
  readonly custom: CustomEngine;
  readonly grammar: Grammar;
}

function command({ id, custom, grammar }: Described, ask: AttemptRequest): Command {
  if (ask.kind === "fork")
    throw new Fault("engine_cannot", `${id} has no way to fork that Reprise knows of.`);
  const again = ask.kind === "resume";
  if (again && ask.session === null) throw new Fault("session_unknown", "There is no session to continue.");
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  // A new conversation in an old run does not return to the session that was named at its start.
  const named = ask.kind === "start" ? givenSession(custom, grammar, ask.given) : null;
  // Whether such a command prints lines that match the rules is unknown, so its exit decides.
  if (ask.message === null && !ask.interactive)
    return passedOn(ask.given, { headless: true, structured: false, expects: named });
  if (ask.kind === "start") assertNoPrompt(recorded);
  const { after, dropped } = splitForResume(override(recorded, parseArgs(grammar, ask.native, true)));
  const template = templateFor(id, custom, ask.interactive)[again ? "resume" : "start"];
  const byArgument = template.some((word) => word.includes("{message}"));
  // The user's choice of a session stays; otherwise Reprise sets it.
  const isSet = (name: string) => template.some((word) => word === name || word.startsWith(`${name}=`));
  const kept = ask.kind === "start" ? [...after, ...dropped.filter(({ name }) => !isSet(name))] : after;
  if (ask.interactive && ask.message !== null && !byArgument) {
    throw new Fault(
      "engine_cannot",
      `${id} has no way to open its UI with a message: engines.${id}.interactive does not say where {message} goes.`,
    );
  }
  const nameless = ask.interactive && !again && !custom.session.choose && named === null;
  return {
    ...(nameless ? { warnings: [namelessUi(id)] } : {}),
    ...withMessage(byArgument ? ask.message : null, (message) =>
      fill(template, { session: named ?? ask.session, message, options: render(kept) }),
    ),
    stdin: !ask.interactive && custom.message === "stdin" ? ask.message : null,
    env: {},
    headless: !ask.interactive,
    structured: !ask.interactive,
    expects: again || custom.session.choose ? (named ?? ask.session) : named,
    options: {
      kept: describe(kept),
      dropped: [
        ...(ask.kind === "start" ? [] : describe(dropped)),
        ...recorded.words.map((word) => JSON.stringify(word)),
      ],
      rewritten: [],
    },
  };
}

/** Lines of a UI are text for people: only an id that Reprise chose names its conversation. */
function namelessUi(id: string): string {
  return `this conversation cannot be resumed: Reprise cannot see the session of ${id}'s UI, and engines.${id}.session.choose is not set`;
}

function templateFor(
  id: string,
  custom: CustomEngine,
  interactive: boolean,
): Pick<CustomEngine, "start" | "resume"> {
  if (!interactive) return custom;
  if (custom.interactive !== undefined) return custom.interactive;
  throw new Fault(
    "engine_cannot",
    `${id} has no UI that Reprise knows of: engines.${id}.interactive is not set.`,
  );
}

interface Values {
  readonly session: string | null;
  readonly message: string | null;
  readonly options: readonly string[];
}

/** Without `{options}`, options go before the message, or last. Filled-in values are never scanned again. */
function fill(template: readonly string[], values: Values): string[] {
  const message = template.findIndex((word) => word.includes("{message}"));
  const dashes = message > 0 && template[message - 1] === "--" ? 1 : 0;
  const spot = message === -1 ? template.length : message - dashes;
  const words = template.includes("{options}") ? template : template.toSpliced(spot, 0, "{options}");
  if (dashes === 0 && template[message] === "{message}" && values.message?.startsWith("-") === true) {
    throw new Fault(
      "message_invalid",
      `The message begins with a dash, so the engine would read it as an option. Put "--" before "{message}" in the config.`,
    );
  }
  return words.flatMap((word) =>
    word === "{options}"
      ? values.options
      : [word.replace(/\{(session|message)\}/g, (_all, name: "session" | "message") => values[name] ?? "")],
  );
}

function translate(
  custom: CustomEngine,
  stream: Stream,
  text: string,
  nowMs: number,
): readonly EngineEvent[] {
  if (stream === "stderr") return [];
  const line = parseObject(text);
  if (line === undefined) return [{ type: "unknown" }];
  const { field, format } = custom.session;
  const events: EngineEvent[] = [];
  const on = (name: EventName, make: (taken: string | null) => EngineEvent): void => {
    const rule = custom.events[name];
    if (rule !== undefined && matches(rule, line)) events.push(make(taken(rule, line)));
  };
  const id = fieldIn(line, field);
  if (typeof id === "string" && id.length <= 200 && format.test(id) && !hasDuplicateKeys(text)) {
    on("session", () => ({ type: "session", session: id }));
  }
  on("text", (said) => ({ type: "text", text: said ?? "" }));
  on("delta", (said) => ({ type: "text", text: said ?? "", delta: true }));
  on("tool_started", (name) => ({
    type: "tool",
    state: "started",
    id: name ?? "tool",
    name: name ?? "tool",
  }));
  on("tool_ended", (name) => ({ type: "tool", state: "ended", id: name ?? "tool", name: name ?? "tool" }));
  on("failed", (why) => ({
    type: "turn_ended",
    result: "failed",
    trouble: troubleOf(why ?? "The engine gave no reason.", nowMs),
  }));
  if (!events.some(({ type }) => type === "turn_ended")) {
    on("done", () => ({ type: "turn_ended", result: "completed" }));
  }
  return events.length === 0 ? [{ type: "unknown" }] : events;
}

function matches(rule: LineRule, line: JsonObject): boolean {
  return rule.when.every(([path, value]) => {
    const found = at(line, path);
    return typeof found === "string" ? found === value : JSON.stringify(found) === value;
  });
}

function taken(rule: LineRule, line: JsonObject): string | null {
  const found = rule.take === undefined ? undefined : at(line, rule.take);
  return typeof found === "string" ? found : null;
}

function at(line: JsonObject, path: string): unknown {
  return path.split(".").reduce<unknown>((value, key) => fieldIn(value, key), line);
}
