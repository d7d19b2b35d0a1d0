/**
 * The scripted agent that ships with Reprise, driven like any other engine. docs/engines/demo.md describes its output
 * and its misbehaviour.
 */
import { isAbsolute, join } from "node:path";
import type { TroubleKind } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { parseObject, stringIn } from "../lib/json.ts";
import { override, passedOn, splitForResume, withMessage } from "./attempt-options.ts";
import { DEMO_ID, demoReader } from "./demo-output.ts";
import { type AttemptRequest, type Command, type Engine, SILENT } from "./engine.ts";
import { type FoundSession, OPENING_CHARACTERS, type SessionFiles } from "./session-store.ts";
import {
  assertComplete,
  assertNoPrompt,
  describe,
  type Grammar,
  has,
  lastWins,
  parseArgs,
  type Parsed,
  render,
  valueOf,
} from "./grammar.ts";

/** Not on PATH: at spawn, this name becomes the running Node and `demo-agent.js` of this package. */
export const DEMO_PROGRAM = "reprise-demo-agent";

const ACCESS = ["read", "write", "all"];

const grammar: Grammar = {
  commands: {},
  continues: { "--resume": "any" },
  forks: ["--fork"],
  options: [
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--mood"], takes: "value" },
    { names: ["--access"], takes: "value", guard: { rank: rankOfAccess } },
    { names: ["--allow"], takes: "value", repeatable: true, guard: "grant" },
    { names: ["--session-id"], takes: "value", bears: "session" },
    { names: ["--resume"], takes: "value", bears: "session" },
    { names: ["--fork"], takes: "none", bears: "session" },
    { names: ["--format"], takes: "value", bears: "output" },
    { names: ["--chat"], takes: "none", bears: "output" },
    { names: ["--script"], takes: "value", bears: "once" },
    { names: ["--help", "-h"], takes: "none", bears: "once" },
    { names: ["--version", "-v", "-V"], takes: "none", bears: "once" },
  ],
};

export const demo: Engine = {
  id: "demo",
  title: "Demo agent",
  program: DEMO_PROGRAM,
  tested: ["1.0.0", "1.0.0"],
  session: { field: "session_id", format: DEMO_ID },
  can: { chooseSession: true, fork: true, interactive: true, readStore: true, boundToCwd: false },
  grammar,
  tellsTools: ["jsonl"],
  access: { read: ["--access", "read"], edit: ["--access", "write"], full: ["--access", "all"] },
  rightsEnv: ["REPRISE_DEMO_TRUST"],

  home(env) {
    const own = env["REPRISE_DEMO_HOME"];
    if (own !== undefined && own !== "") return own;
    const state = env["REPRISE_HOME"];
    if (state !== undefined && state !== "") return join(state, "demo");
    const xdg = env["XDG_STATE_HOME"];
    if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "reprise", "demo");
    const home = env["HOME"];
    return home === undefined || home === "" ? null : join(home, ".local", "state", "reprise", "demo");
  },
  homeEnv: (home) => ({ REPRISE_DEMO_HOME: home }),
  login: () => "yes",
  version: (output) => /^demo (\d+\.\d+\.\d+)$/m.exec(output)?.[1] ?? null,

  opensUi(args) {
    const parsed = parseArgs(grammar, args);
    if (["--help", "--version", "--script"].some((name) => has(parsed, name))) return false;
    return has(parsed, "--chat") || parsed.words.length === 0;
  },

  command(ask) {
    if (ask.kind !== "start") return again(ask);
    return ask.message === null && !ask.interactive ? untouched(ask) : start(ask);
  },

  reader: (_now, printed) => (printed === "text" ? SILENT : demoReader()),
  printed: ({ args, interactive }) =>
    !interactive && valueOf(parseArgs(grammar, args), "--format") === "jsonl" ? "events" : "text",
  opening: (args) => parseArgs(grammar, args).words.join(" ") || null,

  explainExit(exit, stderrTail) {
    const said = /^demo: (.*)$/m.exec(stderrTail)?.[1];
    if (said === undefined || exit.code === null || exit.code === 0) return null;
    return { kind: kindOfRefusal(said, exit.code), message: said.slice(0, 500) };
  },

  async locate(session, where, files) {
    const name = `${session}.jsonl`;
    const path = join(where.home, "sessions", name);
    const entry = await files.stat(path);
    if (!DEMO_ID.test(session) || entry === null || entry.directory) {
      return { state: "absent", searched: join(where.home, "sessions") };
    }
    const head = await headOf(path, files);
    if (head === null) {
      return { state: "unusable", path, why: "its first line is not that of a session", damaged: true };
    }
    return {
      state: "present",
      files: [{ path, restoreTo: join("sessions", name) }],
      cwd: head.cwd,
      updatedAtMs: entry.mtimeMs,
    };
  },

  async liveSession({ pid }, where, files) {
    const id = (await files.head(join(where.home, "live", String(pid)), 100))?.trim() ?? "";
    return DEMO_ID.test(id) ? id : null;
  },

  async sessions(where, files) {
    const directory = join(where.home, "sessions");
    const found: FoundSession[] = [];
    for (const entry of await files.list(directory)) {
      const id = /^(.+)\.jsonl$/.exec(entry.name)?.[1];
      if (id === undefined || entry.directory || !DEMO_ID.test(id)) continue;
      const path = join(directory, entry.name);
      const head = await headOf(path, files);
      if (head === null || (where.cwd !== null && head.cwd !== where.cwd)) continue;
      found.push({ id, path, updatedAtMs: entry.mtimeMs, ...head });
    }
    return found.toSorted((a, b) => (b.updatedAtMs ?? 0) - (a.updatedAtMs ?? 0));
  },

  said(line) {
    const said = parseObject(line);
    const [type, text, at] = ["type", "text", "at"].map((name) => stringIn(said, name));
    if (text === undefined || (type !== "user" && type !== "assistant")) return [];
    const when = at === undefined ? {} : { at };
    return [{ event: { type: type === "user" ? "message" : "text", text }, ...when }];
  },
};

/** The user's native arguments, nothing added. */
function untouched(ask: AttemptRequest): Command {
  const parsed = parseArgs(grammar, ask.given);
  return passedOn(ask.given, {
    headless: !demo.opensUi(ask.given),
    structured: valueOf(parsed, "--format") === "jsonl",
    expects: sessionIn(parsed),
    options: { kept: describe(parsed.options), dropped: [], rewritten: [] },
  });
}

/** The user's session and format stay; this chooses the rest. */
function start(ask: AttemptRequest): Command {
  const recorded = parseArgs(grammar, ask.given, true);
  assertNoPrompt(recorded);
  const parsed = override(recorded, parseArgs(grammar, ask.native, true));
  assertComplete(parsed);
  const options = lastWins(parsed.options);
  const theirs = ["--session-id", "--resume"].some((name) => has(parsed, name));
  const session = theirs || ask.session === null ? [] : ["--session-id", ask.session];
  const format = ask.interactive || has(parsed, "--format") ? [] : ["--format", "jsonl"];
  return {
    ...argsOf(ask, [...render(options), ...format, ...session]),
    stdin: ask.interactive ? null : ask.message,
    env: {},
    headless: !ask.interactive,
    structured: !ask.interactive && (valueOf(parsed, "--format") ?? "jsonl") === "jsonl",
    expects: theirs ? sessionIn(parsed) : ask.session,
    options: { kept: describe(options), dropped: [], rewritten: [] },
  };
}

/** The session id in these arguments, if any. */
function sessionIn(parsed: Parsed): string | null {
  const chosen = valueOf(parsed, "--session-id") ?? null;
  const id = has(parsed, "--fork") ? chosen : (valueOf(parsed, "--resume") ?? chosen);
  return id !== null && DEMO_ID.test(id) ? id : null;
}

/** The recorded options again: to continue a session, to fork it, or to start over in its place. */
function again(ask: AttemptRequest): Command {
  const recorded = parseArgs(grammar, ask.given, ask.givenHasNoPrompt);
  const { after, dropped } = splitForResume(override(recorded, parseArgs(grammar, ask.native, true)));
  const format = ask.interactive ? [] : ["--format", "jsonl"];
  const prompt = recorded.words.map((word) => JSON.stringify(word));
  return {
    ...argsOf(ask, [...render(after), ...format, ...sessionArgs(ask)]),
    stdin: ask.interactive ? null : ask.message,
    env: {},
    headless: !ask.interactive,
    structured: !ask.interactive,
    expects: ask.kind === "fork" ? ask.forkTo : ask.session,
    options: { kept: describe(after), dropped: [...describe(dropped), ...prompt], rewritten: [] },
  };
}

function sessionArgs({ kind, session, forkTo }: AttemptRequest): string[] {
  if (kind === "fresh") return session === null ? [] : ["--session-id", session];
  if (session === null) throw new Fault("session_unknown", "There is no session to continue.");
  if (kind === "resume") return ["--resume", session];
  return ["--resume", session, "--fork", ...(forkTo === null ? [] : ["--session-id", forkTo])];
}

/** Headless, the message goes through stdin; in the UI it is the first turn. */
function argsOf(
  { interactive, message }: AttemptRequest,
  first: readonly string[],
): Pick<Command, "args" | "storedArgs"> {
  if (!interactive) return { args: [...first, "-"] };
  return withMessage(message, (text) => (text === null ? first : [...first, "--chat", "--", text]));
}

function rankOfAccess(value: string | null): number | null {
  const rank = ACCESS.indexOf(value ?? "read");
  return rank === -1 ? null : rank;
}

function kindOfRefusal(said: string, code: number | null): TroubleKind {
  if (said.startsWith("no session ")) return "session_lost";
  return code === 2 ? "usage" : "other";
}

/** The first lines of a session file. Null: not a session. */
async function headOf(
  path: string,
  files: SessionFiles,
): Promise<Pick<FoundSession, "cwd" | "createdAtMs" | "title" | "opening"> | null> {
  const text = await files.head(path, 64 * 1024);
  const lines = (text ?? "").split("\n").map((line) => parseObject(line));
  const [first] = lines;
  if (first?.["type"] !== "session") return null;
  const created = Date.parse(stringIn(first, "at") ?? "");
  const said = lines.find((line) => line?.["type"] === "user");
  return {
    cwd: stringIn(first, "cwd") ?? null,
    createdAtMs: Number.isNaN(created) ? null : created,
    title: stringIn(said, "text")?.trim().slice(0, 80) ?? null,
    opening: stringIn(said, "text")?.slice(0, OPENING_CHARACTERS) ?? null,
  };
}
