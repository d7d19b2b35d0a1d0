/**
 * One turn of `codex app-server` as a conversation: what to send, when, and what the answers mean. Pure: the driver
 * carries the lines, and codex-server-output.ts reads notifications during the turn.
 *
 * The fields tell three kinds of message apart: id and method make a request of the server, whose ids begin at 0 and
 * are unrelated to ours; an id alone is an answer to us; a method alone is a notification.
 */
import type { QuestionAnswer, EngineEvent, Trouble } from "../core/events.ts";
import {
  arrayIn,
  fieldIn,
  hasDuplicateKeys,
  type JsonObject,
  objectIn,
  parseObject,
  stringIn,
} from "../lib/json.ts";
import { ID } from "./codex-output.ts";
import { type OpenQuestion, isWireId, questionIn, replyTo, type WireId } from "./codex-questions.ts";
import {
  type ServerReport,
  refusal,
  reported,
  retryIn,
  signOfLife,
  troubleIn,
} from "./codex-server-output.ts";
import type { Approval, Dialogue, DialogueMessage } from "./engine.ts";

export interface DialoguePlan {
  readonly message: string;
  /** The thread to continue. Null: a new one. */
  readonly session: string | null;
  /** Absolute. */
  readonly cwd: string;
  readonly sandbox: string;
  readonly approval: Approval;
  /** False: a writing sandbox must have no network. */
  readonly network?: false;
  /** The folders besides `cwd` that a writing sandbox may have. */
  readonly roots?: readonly string[];
  readonly model?: string;
  /** Settings that a resume would otherwise take from the thread. */
  readonly config?: Readonly<Record<string, string>>;
}

/** Wider is higher. */
const SANDBOXES: readonly string[] = ["read-only", "workspace-write", "danger-full-access"];
const APPROVALS: readonly string[] = ["never", "untrusted", "on-request"];
/** The server's names of the sandboxes in its answers. */
const RESTORED: Readonly<Record<string, string>> = {
  readOnly: "read-only",
  workspaceWrite: "workspace-write",
  dangerFullAccess: "danger-full-access",
};
/** How many requests of the server to remember, waiting or answered: the server may repeat a request. */
const MAX_ASKED = 256;
const MAX_EARLY = 16;
const CLIENT = { name: "reprise", title: "Reprise", version: "1" };

interface Talk extends ServerReport {
  readonly plan: DialoguePlan;
  readonly now: () => number;
  /** Our unanswered requests, oldest first. */
  readonly waiting: Map<number, string>;
  /** By request id; several requests may share a question. */
  readonly asked: Map<string, OpenQuestion>;
  /** Ends of turns that came before the server named our turn. */
  readonly early: Map<string, JsonObject>;
  sent: number;
  thread: string | null;
  turn: string | null;
  /** The message was sent. */
  begun: boolean;
  /** The server reported that the turn runs: only then can it be stopped. */
  running: boolean;
  /** wanted: the turn must stop. sent: the server was asked to. */
  stop: "no" | "wanted" | "sent";
  lastError: Trouble | null;
  over: boolean;
}

export function codexDialogue(plan: DialoguePlan, now: () => number): Dialogue {
  const talk: Talk = {
    ...{ plan, now, waiting: new Map(), asked: new Map(), said: new Map(), items: new Map() },
    ...{
      sent: 0,
      thread: null,
      turn: null,
      begun: false,
      running: false,
      stop: "no",
      lastError: null,
      over: false,
    },
    ...{ limitEndsMs: null, model: undefined, cwd: plan.cwd, early: new Map() },
  };
  return {
    open: () => said({ send: [request(talk, "initialize", { clientInfo: CLIENT })] }),
    heard(text) {
      if (talk.over) return said({});
      try {
        return heard(talk, text);
      } catch {
        // Nested too deeply to be serialized.
        return UNKNOWN;
      }
    },
    answer: (id, decision) => answer(talk, id, decision),
    interrupt() {
      if (talk.over || talk.stop === "sent") return said({});
      talk.stop = "wanted";
      return said({ send: stopping(talk) });
    },
    waitsFor: () => [...talk.waiting.values()],
  };
}

function said(part: Partial<DialogueMessage>): DialogueMessage {
  return { send: [], events: [], questions: [], settled: [], over: false, ...part };
}

const UNKNOWN: DialogueMessage = said({ events: [{ type: "unknown" }] });

/** The first request opens the conversation, the second the thread. */
const THREAD_REQUEST = 2;

/** The thread that one line of the server names, for later readers: only the answer to us counts (I5). */
export function sessionIn(text: string): readonly EngineEvent[] {
  const message = parseObject(text);
  const session = stringIn(objectIn(objectIn(message, "result"), "thread"), "id") ?? "";
  const ours = fieldIn(message, "id") === THREAD_REQUEST && fieldIn(message, "method") === undefined;
  const valid = ours && ID.test(session) && !hasDuplicateKeys(text);
  return [valid ? { type: "session", session } : { type: "unknown" }];
}

function request(talk: Talk, method: string, params: JsonObject): string {
  talk.sent += 1;
  talk.waiting.set(talk.sent, method);
  return JSON.stringify({ id: talk.sent, method, params });
}

function heard(talk: Talk, text: string): DialogueMessage {
  const message = parseObject(text);
  if (message === undefined) return UNKNOWN;
  const method = stringIn(message, "method");
  const id = fieldIn(message, "id");
  if (method !== undefined && id === undefined)
    return report(talk, method, objectIn(message, "params") ?? {});
  // A repeated key makes the message ambiguous.
  if (!isWireId(id) || hasDuplicateKeys(text)) return UNKNOWN;
  if (method !== undefined) return ask(talk, id, method, objectIn(message, "params") ?? {});
  const to = typeof id === "number" ? talk.waiting.get(id) : undefined;
  if (to === undefined || typeof id !== "number") return UNKNOWN;
  const error = fieldIn(message, "error");
  const result = objectIn(message, "result");
  if (result === undefined && error === undefined) return UNKNOWN;
  talk.waiting.delete(id);
  return result === undefined ? refused(talk, to, error) : answered(talk, to, result);
}

function answered(talk: Talk, to: string, result: JsonObject): DialogueMessage {
  switch (to) {
    case "initialize":
      return said({ send: [JSON.stringify({ method: "initialized" }), threadRequest(talk)] });
    case "thread/start":
    case "thread/resume":
      return entered(talk, to, result);
    case "turn/start": {
      talk.turn = stringIn(objectIn(result, "turn"), "id") ?? talk.turn;
      const end = talk.early.get(talk.turn ?? "");
      return end === undefined ? said({}) : completed(talk, end);
    }
    default:
      return said({});
  }
}

/** A resume also names the rights: they override the thread's last rights. */
function threadRequest(talk: Talk): string {
  const { session, cwd, sandbox, approval, model, config } = talk.plan;
  const options = {
    cwd,
    ...(model === undefined ? {} : { model }),
    sandbox,
    approvalPolicy: approval,
    // The client answers approvals, never another agent.
    approvalsReviewer: "user",
    ...(config === undefined ? {} : { config }),
  };
  return session === null
    ? request(talk, "thread/start", options)
    : request(talk, "thread/resume", { threadId: session, excludeTurns: true, ...options });
}

/** The turn begins only in the requested thread, with the requested rights (I12). */
function entered(talk: Talk, to: string, result: JsonObject): DialogueMessage {
  const id = stringIn(objectIn(result, "thread"), "id") ?? "";
  const { session } = talk.plan;
  if (!ID.test(id)) {
    return ended(talk, {
      events: [{ type: "unknown" }, failed({ kind: "other", message: `${to}: Codex named no thread` })],
    });
  }
  const named: EngineEvent = { type: "session", session: id };
  if (session !== null && id !== session) return ended(talk, { events: [named] });
  talk.thread = id;
  talk.model = stringIn(result, "model");
  const wider = widerThan(talk.plan, result);
  if (wider !== null) return ended(talk, { events: [named, failed({ kind: "usage", message: wider })] });
  if (talk.stop !== "no") {
    return ended(talk, { events: [named, { type: "turn_ended", result: "interrupted" }] });
  }
  talk.begun = true;
  const input = [{ type: "text", text: talk.plan.message }];
  return said({ events: [named], send: [request(talk, "turn/start", { threadId: id, input })] });
}

/** Rights of the server beyond this attempt's, in words. Null: no more rights. */
function widerThan({ cwd, sandbox, approval, ...limits }: DialoguePlan, result: JsonObject): string | null {
  const policy = fieldIn(result, "approvalPolicy");
  const box = objectIn(result, "sandbox");
  const type = stringIn(box, "type") ?? "none";
  const held = {
    cwd: stringIn(result, "cwd") ?? "none",
    sandbox: RESTORED[type] ?? type,
    approval: typeof policy === "string" ? policy : JSON.stringify(policy ?? "none"),
    reviewer: stringIn(result, "approvalsReviewer") ?? "user",
  };
  const refuse = (option: string, has: string, wants: string) =>
    `Codex would continue with ${option} ${has} instead of ${wants}, so Reprise sent it no message.`;
  if (held.cwd !== cwd) return refuse("-C", held.cwd, cwd);
  if (!within(SANDBOXES, held.sandbox, sandbox)) return refuse("-s", held.sandbox, sandbox);
  if (limits.network === false && fieldIn(box, "networkAccess") === true)
    return refuse("the network", "open", "closed");
  const more = arrayIn(box, "writableRoots").filter(
    (root) => limits.roots?.some((own) => own === root) === false,
  );
  if (more.length > 0) return refuse("writable folders", JSON.stringify(more), "its own alone");
  if (!within(APPROVALS, held.approval, approval)) return refuse("approval policy", held.approval, approval);
  return held.reviewer === "user" ? null : refuse("approvals reviewer", held.reviewer, "user");
}

function within(scale: readonly string[], held: string, allowed: string): boolean {
  const place = scale.indexOf(held);
  return place !== -1 && place <= scale.indexOf(allowed);
}

/** The answer to `turn/start` comes before the turn runs, and a turn that does not run yet cannot be stopped. */
function stopping(talk: Talk): readonly string[] {
  const { thread, turn } = talk;
  if (thread === null || turn === null || !talk.running) return [];
  talk.stop = "sent";
  return [request(talk, "turn/interrupt", { threadId: thread, turnId: turn })];
}

function refused(talk: Talk, to: string, error: unknown): DialogueMessage {
  const trouble = refusal(to, error, talk.now());
  // The turn may just have ended on its own, which the server reports.
  if (to === "turn/interrupt") {
    talk.stop = "no";
    return said({ events: [{ type: "notice", message: trouble.message }] });
  }
  return ended(talk, { events: [failed(trouble)] });
}

function failed(trouble: Trouble): EngineEvent {
  return { type: "turn_ended", result: "failed", trouble };
}

function ended(talk: Talk, part: Partial<DialogueMessage>): DialogueMessage {
  talk.over = true;
  talk.waiting.clear();
  const open = [...talk.asked.values()].filter(({ state }) => state === "open");
  return said({ ...part, settled: [...new Set(open.map(({ id }) => id))], over: true });
}

function report(talk: Talk, method: string, params: JsonObject): DialogueMessage {
  const told = meaningOf(talk, method, params);
  return told.events.length > 0 ? told : { ...told, events: signOfLife(method) };
}

function meaningOf(talk: Talk, method: string, params: JsonObject): DialogueMessage {
  const thread = stringIn(params, "threadId");
  if (method === "serverRequest/resolved") return resolved(talk, fieldIn(params, "requestId"));
  // Sub-agents have separate threads.
  if (thread !== undefined && thread !== talk.thread) return said({});
  const error = objectIn(params, "error");
  switch (method) {
    case "turn/started":
      if (!talk.begun) return UNKNOWN;
      talk.turn ??= stringIn(objectIn(params, "turn"), "id") ?? null;
      talk.running = true;
      return said({
        send: talk.stop === "wanted" ? stopping(talk) : [],
        events: [{ type: "turn_started" }],
      });
    case "turn/completed":
      return thread === undefined ? UNKNOWN : completed(talk, objectIn(params, "turn"));
    case "error":
      if (error === undefined) return UNKNOWN;
      if (fieldIn(params, "willRetry") === true) return said({ events: [retryIn(error, talk.now(), talk)] });
      talk.lastError = troubleIn(error, talk.now(), talk);
      return said({});
    default:
      return said({ events: reported(method, params, talk) });
  }
}

function completed(talk: Talk, turn: JsonObject | undefined): DialogueMessage {
  const id = stringIn(turn, "id");
  if (turn === undefined || id === undefined || !talk.begun) return UNKNOWN;
  if (talk.turn === null && talk.waiting.size > 0) {
    // Our turn is unknown until the server names it.
    if (talk.early.size < MAX_EARLY) talk.early.set(id, turn);
    return said({});
  }
  if (talk.turn !== null && id !== talk.turn) return said({});
  const result = stringIn(turn, "status");
  const error = objectIn(turn, "error");
  if (result === "completed" || result === "interrupted")
    return ended(talk, { events: [{ type: "turn_ended", result }] });
  // An unknown state is an end without a result.
  if (result !== "failed") return ended(talk, { events: [{ type: "unknown" }] });
  const told = error === undefined ? talk.lastError : null;
  return ended(talk, { events: [failed(told ?? troubleIn(error, talk.now(), talk))] });
}

/** A request of the server. A repeated question, under any id, is put only once: one answer covers all. */
function ask(talk: Talk, wire: WireId, method: string, params: JsonObject): DialogueMessage {
  const asked = questionIn(wire, method, params, { cwd: talk.plan.cwd, items: talk.items });
  if (asked === null) {
    const error = { code: -32_601, message: `${method} is not supported` };
    const message = `Codex asked for ${method.slice(0, 80)}, which Reprise cannot give.`;
    return said({ send: [JSON.stringify({ id: wire, error })], events: [{ type: "notice", message }] });
  }
  const before = talk.asked.get(asked.id) ?? twinOf(talk, asked);
  if (before === undefined) {
    if (!makeRoom(talk.asked)) return turnDown(wire, -32_000, "too many requests wait for an answer");
    talk.asked.set(asked.id, asked);
    return said({ questions: [asked.question] });
  }
  // An answer belongs to the question, whatever the id.
  if (before.question.key !== asked.question.key)
    return turnDown(wire, -32_600, "this id was used for another request");
  if (!talk.asked.has(asked.id)) {
    if (!makeRoom(talk.asked)) return turnDown(wire, -32_000, "too many requests wait for an answer");
    talk.asked.set(asked.id, before);
  }
  if (before.state === "open") before.waiting.add(wire);
  return said({ send: before.decision === null ? [] : [replyTo(wire, before, before.decision)] });
}

function turnDown(wire: WireId, code: number, message: string): DialogueMessage {
  const line = JSON.stringify({ id: wire, error: { code, message } });
  return said({ send: [line], events: [{ type: "unknown" }] });
}

/** Drops the oldest settled request for one more. False: all of them wait. */
function makeRoom(asked: Map<string, OpenQuestion>): boolean {
  if (asked.size < MAX_ASKED) return true;
  for (const [id, { state }] of asked) if (state !== "open") return asked.delete(id);
  return false;
}

function twinOf({ asked: all }: Talk, { item }: OpenQuestion): OpenQuestion | undefined {
  if (item === null) return undefined;
  return [...all.values()].find((one) => one.item === item && one.state !== "settled");
}

function answer(talk: Talk, id: string, decision: QuestionAnswer): DialogueMessage {
  const asked = talk.asked.get(id);
  if (talk.over || asked === undefined || asked.state !== "open") return said({});
  asked.state = "answered";
  asked.decision = decision;
  return said({ send: [...asked.waiting].map((wire) => replyTo(wire, asked, decision)) });
}

function resolved(talk: Talk, wire: unknown): DialogueMessage {
  if (!isWireId(wire)) return UNKNOWN;
  const asked = talk.asked.get(JSON.stringify(wire));
  if (asked === undefined || asked.state !== "open") return said({});
  asked.waiting.delete(wire);
  if (asked.waiting.size > 0) return said({});
  asked.state = "settled";
  return said({ settled: [asked.id] });
}
