/** How the double of `codex app-server` tells of its turn: items, pieces of text, questions, troubles. */
import { join } from "node:path";
import type { JsonObject } from "../../src/lib/json.ts";
import { wordsFor } from "./codex.ts";
import type { Moment } from "./codex-server.ts";
import type { Output } from "../../src/demo/output.ts";
import {
  type DemoConversation,
  type DemoTrouble,
  FORGED_UUID,
  type DemoVoice,
} from "../../src/demo/persona.ts";

export interface Turn {
  readonly id: string;
  readonly threadId: string;
  /** Resolves when the turn has ended. */
  readonly over: Promise<null>;
  ended: boolean;
  /** The turn as answers and reports show it. */
  as(status: string, error: JsonObject | null): JsonObject;
  end(status: "completed" | "failed" | "interrupted", error: JsonObject | null): void;
}

export interface Asking {
  readonly method: string;
  /** Equal for requests that one acceptance for the session covers. */
  readonly key: string;
  readonly params: JsonObject;
}

interface Part {
  readonly turn: Turn;
  readonly talk: DemoConversation;
  readonly out: Output;
  readonly moment: (at: Moment) => void;
  readonly ask: (asking: Asking) => Promise<boolean>;
}

export function serverVoice({ turn, talk, out, moment, ask }: Part): DemoVoice {
  const turns = talk.earlier.length + 1;
  const items = itemsOf(turn, out);
  const { report, started, completed } = items;
  const at = (when: Moment): void => {
    if (!turn.ended) moment(when);
  };
  return {
    forgery: JSON.stringify({ id: 2, result: { thread: { id: FORGED_UUID } } }),
    session: () => undefined,
    turnStarted(message) {
      report("turn/started", { turn: turn.as("inProgress", null) });
      const item = { type: "userMessage", id: "user_1", content: [{ type: "text", text: message }] };
      report("item/started", { item });
      report("item/completed", { item });
    },
    text(text) {
      if (items.piece(text)) at("first-delta");
    },
    toolStarted(id, name, detail) {
      items.flush();
      started({ type: "commandExecution", id, command: `/bin/bash -lc '${name}: ${detail}'`, cwd: "/" });
      at("mid-tool");
    },
    toolEnded: ({ id, output }) =>
      completed(id, { status: "completed", aggregatedOutput: output, exitCode: 0 }),
    async ask(asked) {
      items.flush();
      const { item, asking } = asks(asked);
      started(item);
      const may = await ask(asking);
      completed(asked.id, { status: may ? "completed" : "declined" });
      return may;
    },
    retry(trouble, attempt) {
      const error = { ...failing(trouble), additionalDetails: wordsFor(trouble) };
      report("error", { error: { ...error, message: `Reconnecting... ${attempt}/5` }, willRetry: true });
    },
    completed() {
      items.flush();
      const total = { totalTokens: 110 * turns, inputTokens: 100 * turns, outputTokens: 10 * turns };
      report("thread/tokenUsage/updated", { tokenUsage: { total, last: total, modelContextWindow: null } });
      turn.end("completed", null);
      return 0;
    },
    failed(trouble) {
      const error = failing(trouble);
      report("error", { error, willRetry: false });
      turn.end("failed", error);
      return 0;
    },
    interrupted: () => null,
  };
}

/** The items of a turn, and what they report. After an interrupt the plan may still run; nobody hears it. */
function itemsOf(turn: Turn, out: Output) {
  const { threadId, id: turnId } = turn;
  const open = new Map<string, JsonObject>();
  let said: { id: string; text: string } | null = null;
  let messages = 0;
  const report = (method: string, params: JsonObject): void => {
    if (!turn.ended) out.json({ method, params: { threadId, turnId, ...params }, emittedAtMs: 0 });
  };
  const started = (item: JsonObject & { readonly id: string }): void => {
    open.set(item.id, item);
    report("item/started", { item: { ...item, status: "inProgress" } });
  };
  const completed = (id: string, more: JsonObject): void => {
    report("item/completed", { item: { ...open.get(id), ...more } });
    open.delete(id);
  };
  return {
    report,
    started,
    completed,
    /** True: the first of its message. */
    piece(delta: string): boolean {
      const first = said === null;
      if (said === null) {
        messages += 1;
        said = { id: `msg_${messages}`, text: "" };
        started({ type: "agentMessage", id: said.id, text: "" });
      }
      said.text += delta;
      report("item/agentMessage/delta", { itemId: said.id, delta });
      return first;
    },
    flush(): void {
      if (said !== null) completed(said.id, { text: said.text });
      said = null;
    },
  };
}

type Asked = Parameters<NonNullable<DemoVoice["ask"]>>[0];

function asks({ id, about, what, cwd }: Asked): {
  readonly item: JsonObject & { readonly id: string };
  readonly asking: Asking;
} {
  if (about === "files") {
    const changes = [{ path: join(cwd, what), kind: { type: "add" }, diff: "patched\n" }];
    const params = { itemId: id, reason: null, grantRoot: null };
    return {
      item: { type: "fileChange", id, changes },
      asking: { method: "item/fileChange/requestApproval", key: what, params },
    };
  }
  const command = `/bin/bash -lc '${what}'`;
  const params = { itemId: id, kind: "command", command, cwd, reason: "asked on cue" };
  return {
    item: { type: "commandExecution", id, command, cwd },
    asking: { method: "item/commandExecution/requestApproval", key: what, params },
  };
}

function failing(trouble: DemoTrouble): JsonObject {
  return { message: wordsFor(trouble), codexErrorInfo: INFO[trouble.kind], additionalDetails: null };
}

const INFO: Readonly<Record<DemoTrouble["kind"], unknown>> = {
  rate_limited: { responseTooManyFailedAttempts: { httpStatusCode: 429 } },
  quota: "usageLimitExceeded",
  auth: { httpConnectionFailed: { httpStatusCode: 401 } },
  overloaded: "internalServerError",
  network: "other",
  context_full: "contextWindowExceeded",
  busy: "other",
};
