/**
 * The agent as `codex app-server` 0.166: requests and reports on stdin and stdout, one JSON object a line. Threads are
 * kept where `codex exec` keeps them, so either can continue the other's.
 *
 * It goes wrong on cue: `REPRISE_DEMO_SERVER="die:turn"` in the environment, or `@@server:die:turn` in the message.
 * What a cue can be: README.md.
 */
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { arrayIn, fieldIn, type JsonObject, objectIn, parseObject, stringIn } from "../../src/lib/json.ts";
import { type Asking, serverVoice, type Turn } from "./codex-server-voice.ts";
import { messageFacts } from "../../src/demo/journal.ts";
import {
  type DemoConversation,
  FORGED_UUID,
  type Persona,
  DemoRefusal,
  type Request,
  type Stage,
} from "../../src/demo/persona.ts";
import { play } from "../../src/demo/play.ts";
import { planOf } from "../../src/demo/steps.ts";

/** Where a cue can act, in the order of a turn. */
export type Moment =
  | "initialize"
  | "initialized"
  | "thread"
  | "turn"
  | "first-delta"
  | "mid-tool"
  | "question"
  | "end";

interface Server extends Stage {
  readonly threads: Pick<Persona, "open">;
  readonly loaded: Map<string, Thread>;
  /** Requests to the client that wait for an answer. */
  readonly asked: Map<number, (result: JsonObject | undefined) => void>;
  /** What was accepted for the session: forgotten when this process ends. */
  readonly accepted: Set<string>;
  readonly cues: string[];
  requests: number;
  ready: boolean;
  turn: Turn | null;
}

interface Thread {
  readonly request: Request;
  readonly approval: string;
  /** As it was when it was loaded; null once a turn was added. */
  talk: DemoConversation | null;
}

/** Ends when stdin does, as the real one: whatever runs then is cut without a word. */
export async function serve(threads: Pick<Persona, "open">, stage: Stage): Promise<number> {
  const server: Server = {
    ...{ ...stage, threads, loaded: new Map(), asked: new Map(), accepted: new Set() },
    ...{ cues: cuesIn(stage.world.env["REPRISE_DEMO_SERVER"] ?? ""), requests: 0, ready: false, turn: null },
  };
  return await new Promise((exit) => {
    const lines = createInterface({ input: process.stdin, terminal: false });
    lines.on("line", (line) => void hear(server, line).then((code) => code !== null && exit(code)));
    lines.on("close", () => exit(0));
  });
}

/** `die:turn flood:thread:1000`, separated by blanks or commas. */
function cuesIn(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** The arguments of a cue that was given for this moment; undefined: it was not. */
function cue(server: Server, what: string, at: Moment): string | undefined {
  const found = server.cues.find((one) => one === `${what}:${at}` || one.startsWith(`${what}:${at}:`));
  return found?.slice(what.length + at.length + 2);
}

/** What goes wrong here, if anything was ordered to. */
function moment(server: Server, at: Moment): void {
  const { out } = server;
  const size = (what: string, most: number) => {
    const arg = cue(server, what, at);
    return arg === undefined ? 0 : Number(arg) || most;
  };
  if (cue(server, "garbage", at) !== undefined) {
    for (const line of ["garbage", "[]", "{}", '{"id":', '{"method":7}', "null", ""]) out.line(line);
  }
  if (cue(server, "ids", at) !== undefined) {
    const result = { thread: { id: FORGED_UUID }, turn: { id: FORGED_UUID } };
    for (const id of [999, 1.5, "1", null, -1, {}]) out.json({ id, result });
    out.json({ method: "thread/bogus", params: {} });
  }
  const report = { method: "thread/status/changed", params: { threadId: FORGED_UUID, status: {} } };
  for (let left = size("flood", 20_000); left > 0; left -= 1) out.json(report);
  for (let left = size("line", 64 * 1024 * 1024); left > 0; left -= 65_536) {
    out.raw(Buffer.alloc(Math.min(left, 65_536), "x"));
    if (left <= 65_536) out.raw("\n");
  }
  if (cue(server, "mute", at) !== undefined) {
    server.journal.write("mute", { at });
    out.bend("silent");
  }
  if (cue(server, "die", at) !== undefined) {
    server.journal.write("die", { at });
    process.kill(process.pid, "SIGKILL");
  }
}

/** The exit code when the process is to end. */
async function hear(server: Server, line: string): Promise<number | null> {
  const message = parseObject(line);
  if (message === undefined) {
    server.out.err(`Failed to deserialize JSONRPCMessage: ${line.slice(0, 80)}`);
    return null;
  }
  const method = stringIn(message, "method");
  const id = fieldIn(message, "id");
  if (method === undefined) {
    server.asked.get(Number(id))?.(objectIn(message, "result"));
    return null;
  }
  if (id === undefined) {
    if (method === "initialized") moment(server, "initialized");
    return null;
  }
  try {
    return await answer(server, id, method, objectIn(message, "params") ?? {});
  } catch (error) {
    if (!(error instanceof DemoRefusal)) throw error;
    const words = error.message.replace(/^Error: .* failed: /, "").replace(/ \(code -?\d+\)$/, "");
    server.out.json({ error: { code: -32_600, message: words }, id });
    return null;
  }
}

async function answer(
  server: Server,
  id: unknown,
  method: string,
  params: JsonObject,
): Promise<number | null> {
  const reply = (result: JsonObject): void => server.out.json({ id, result });
  if (method !== "initialize" && !server.ready) throw new DemoRefusal(1, "Not initialized");
  switch (method) {
    case "initialize":
      refuseOnCue(server, "initialize");
      moment(server, "initialize");
      server.ready = true;
      reply({
        userAgent: "demo/0.166.0",
        codexHome: server.world.env["CODEX_HOME"] ?? "",
        platformOs: "linux",
      });
      return null;
    case "thread/start":
    case "thread/resume":
      reply(await enter(server, method, params));
      return null;
    case "turn/start":
      return await turn(server, params, reply);
    case "turn/interrupt":
      if (server.turn === null || server.turn.id !== stringIn(params, "turnId"))
        throw new DemoRefusal(1, "no active turn to interrupt");
      reply({});
      server.turn.end("interrupted", null);
      return null;
    default:
      throw new DemoRefusal(1, `Invalid request: unknown variant \`${method}\``);
  }
}

function refuseOnCue(server: Server, at: Moment): void {
  const words = cue(server, "refuse", at);
  if (words === undefined) return;
  const known: Readonly<Record<string, string>> = {
    busy: "thread demo already has an active writer",
    lost: "no rollout found for thread id demo",
  };
  throw new DemoRefusal(1, known[words] ?? "refused on cue");
}

const SANDBOXES: Readonly<Record<string, string>> = {
  "read-only": "readOnly",
  "workspace-write": "workspaceWrite",
  "danger-full-access": "dangerFullAccess",
};

async function enter(server: Server, method: string, params: JsonObject): Promise<JsonObject> {
  refuseOnCue(server, "thread");
  const resumes = method === "thread/resume";
  const cwd = stringIn(params, "cwd") ?? server.world.cwd;
  const sandbox = stringIn(params, "sandbox") ?? "read-only";
  const model = stringIn(params, "model") ?? "gpt-demo";
  const approval = stringIn(params, "approvalPolicy") ?? "on-request";
  const session = resumes ? (stringIn(params, "threadId") ?? "") : null;
  const request: Request = {
    ...{ how: resumes ? "resume" : "new", session, forkTo: null, prompt: null, stdin: "none", chat: false },
    ...{ format: "jsonl", cwd, script: null, ephemeral: false },
    facts: { model, sandbox, config: "none", cwd },
  };
  const talk = await server.threads.open(request, server.world);
  server.loaded.set(talk.id, { request, approval, talk });
  // The thread is known before it is on disk, as with the real one.
  server.journal.write("session", { session: talk.id, how: request.how, earlier: talk.earlier.length });
  moment(server, "thread");
  const wide = cue(server, "wide", "thread") !== undefined;
  const other = cue(server, "other", "thread") !== undefined;
  const thread = { id: other ? FORGED_UUID : talk.id, cwd, model, modelProvider: "demo", turns: [] };
  server.out.json({ method: "thread/started", params: { thread } });
  return {
    ...{ thread, model, modelProvider: "demo", cwd, approvalPolicy: approval, approvalsReviewer: "user" },
    sandbox: { type: wide ? "dangerFullAccess" : (SANDBOXES[sandbox] ?? sandbox), networkAccess: false },
  };
}

async function turn(
  server: Server,
  params: JsonObject,
  reply: (result: JsonObject) => void,
): Promise<number | null> {
  refuseOnCue(server, "turn");
  const threadId = stringIn(params, "threadId") ?? "";
  const thread = server.loaded.get(threadId);
  if (thread === undefined) throw new DemoRefusal(1, `thread not found: ${threadId}`);
  const message = arrayIn(params, "input")
    .map((part) => stringIn(part, "text") ?? "")
    .join("\n");
  server.journal.write("message", { session: threadId, ...messageFacts(message) });
  const steps = planOf(message);
  server.cues.push(...steps.flatMap(({ step, name = "" }) => (step === "server" ? [name] : [])));
  const conversation = await talkOf(server, threadId, thread);
  const now = begin(server, threadId);
  moment(server, "turn");
  reply({ turn: now.as("inProgress", null) });
  const code = await Promise.race([
    now.over,
    play(steps, {
      request: thread.request,
      conversation,
      voice: serverVoice({
        turn: now,
        talk: conversation,
        out: server.out,
        moment: (at) => moment(server, at),
        ask: (asking) => ask(server, thread, now, asking),
      }),
      out: server.out,
      journal: server.journal,
      env: server.world.env,
      message,
      earlier: conversation.earlier,
      nextLine: async () => null,
    }),
  ]);
  // A plan that ends the process says so without an end of the turn.
  return now.ended ? null : code;
}

/** The first turn continues from the loaded conversation, a later one from the file. */
async function talkOf(server: Server, id: string, thread: Thread): Promise<DemoConversation> {
  const { talk, request } = thread;
  thread.talk = null;
  return talk ?? (await server.threads.open({ ...request, how: "resume", session: id }, server.world));
}

function begin(server: Server, threadId: string): Turn {
  const id = randomUUID();
  let finish: (code: null) => void = () => undefined;
  const over = new Promise<null>((done) => {
    finish = done;
  });
  const now: Turn = {
    id,
    threadId,
    over,
    ended: false,
    as: (status, error) => ({ id, items: [], itemsView: "notLoaded", status, error }),
    end(status, error) {
      if (now.ended) return;
      if (status !== "interrupted") moment(server, "end");
      now.ended = true;
      server.turn = null;
      server.out.json({ method: "turn/completed", params: { threadId, turn: now.as(status, error) } });
      finish(null);
    },
  };
  server.turn = now;
  return now;
}

/** True: it may. A client that cancels ends the turn. */
async function ask(server: Server, thread: Thread, now: Turn, asking: Asking): Promise<boolean> {
  const key = `${asking.method} ${asking.key}`;
  if (thread.approval === "never") return false;
  if (server.accepted.has(key)) return true;
  const id = server.requests;
  server.requests += 1;
  const params = { threadId: now.threadId, turnId: now.id, startedAtMs: 0, ...asking.params };
  const answered = new Promise<JsonObject | undefined>((done) => server.asked.set(id, done));
  server.out.json({ method: asking.method, id, params });
  if (cue(server, "twice", "question") !== undefined) server.out.json({ method: asking.method, id, params });
  server.journal.write("asked", { id, method: asking.method });
  moment(server, "question");
  const decision = stringIn(await answered, "decision") ?? "decline";
  server.asked.delete(id);
  server.journal.write("answered", { id, decision });
  server.out.json({ method: "serverRequest/resolved", params: { threadId: now.threadId, requestId: id } });
  if (decision === "cancel") now.end("interrupted", null);
  if (decision === "acceptForSession") server.accepted.add(key);
  return decision === "accept" || decision === "acceptForSession";
}
