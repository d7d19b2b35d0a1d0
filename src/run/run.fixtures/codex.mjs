#!/usr/bin/env node
/**
 * A tiny codex: `app-server`, `exec` and `exec resume`, with a rollout file and a journal of what it was told.
 *
 * FAKE_CODEX holds a JSON object: `dieAt` (a step at which it kills itself), `hang` (the turn goes on until it is
 * interrupted), `ask` (commands it wants approved), `refuse` (what thread/resume is answered), `wider` (the sandbox
 * that a resume restores), `watch` (a directory whose sidecars it notes when the comments come).
 */
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";

const plan = JSON.parse(process.env.FAKE_CODEX ?? "{}");
const home = process.env.CODEX_HOME;
const sessions = join(home, "sessions/2026/04/14");
const argv = process.argv.slice(2);
const rollout = (id) => join(sessions, `rollout-2026-04-14T16-00-00-${id}.jsonl`);
const write = (id, type, payload) =>
  appendFileSync(rollout(id), `${JSON.stringify({ timestamp: "2026-04-14T16:00:00Z", type, payload })}\n`);
const journal = (entry) => appendFileSync(join(home, "journal.jsonl"), `${JSON.stringify(entry)}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
/** Dies with all that it has said so far on its way. */
const step = (name) => {
  if (plan.dieAt === name) process.kill(process.pid, "SIGKILL");
};

function begin(id, cwd, sandbox, text) {
  mkdirSync(sessions, { recursive: true });
  if (!existsSync(rollout(id))) write(id, "session_meta", { id, cwd });
  write(id, "turn_context", { sandbox_policy: { type: sandbox } });
  write(id, "response_item", { type: "message", role: "user", content: [{ type: "input_text", text }] });
}

if (argv.includes("--version")) process.stdout.write("codex-cli 0.166.0\n");
else if (argv[0] === "app-server") serve();
else exec();

function exec() {
  journal({ exec: argv });
  const resume = argv.includes("resume");
  const id = resume ? argv.findLast((word) => /^[0-9a-f-]{36}$/.test(word)) : randomUUID();
  say({ type: "thread.started", thread_id: id });
  begin(id, process.cwd(), argv[argv.indexOf("-s") + 1] ?? "read-only", "by exec");
  say({ type: "turn.started" });
  say({ type: "item.completed", item: { id: "i", type: "agent_message", text: "done by exec" } });
  say({ type: "turn.completed", usage: { input_tokens: 1, output_tokens: 1 } });
}

function serve() {
  const kinds = { "read-only": "readOnly", "workspace-write": "workspaceWrite" };
  const state = { thread: null, cwd: "", sandbox: "read-only", asked: 0, waiting: false };
  const turn = { id: "turn-1", items: [], status: "inProgress", error: null };
  const restored = (params) => ({
    thread: { id: state.thread },
    cwd: params.cwd,
    sandbox: { type: plan.wider ?? kinds[params.sandbox] },
    approvalPolicy: params.approvalPolicy,
  });
  const complete = (status) => {
    step("before turn/completed");
    const params = { threadId: state.thread, turn: { ...turn, status } };
    say({ method: "turn/completed", params });
  };
  const next = () => {
    const command = plan.ask?.[state.asked];
    const { thread: threadId, cwd } = state;
    if (command === undefined) {
      step("at work");
      if (plan.hang) return;
      say({ method: "item/completed", params: { threadId, turnId: turn.id, item: { type: "agentMessage", id: "m", text: "done" } } });
      complete("completed");
      return;
    }
    const id = state.asked;
    state.asked += 1;
    const params = { kind: "command", threadId, turnId: turn.id, itemId: `c${id}`, command, cwd, reason: null };
    say({ method: "item/commandExecution/requestApproval", id, params });
    setImmediate(() => step("asked"));
  };
  const on = {
    initialize: (id) => say({ id, result: { userAgent: "codex" } }),
    initialized: () => {},
    "thread/start"(id, params) {
      state.thread = randomUUID();
      Object.assign(state, { cwd: params.cwd, sandbox: params.sandbox });
      say({ id, result: restored(params) });
      say({ method: "thread/started", params: { thread: { id: state.thread } } });
    },
    "thread/resume"(id, params) {
      const { threadId } = params;
      const lost = existsSync(rollout(threadId)) ? undefined : `no rollout found for thread id ${threadId}`;
      const message = plan.refuse ?? lost;
      if (message !== undefined) return say({ id, error: { code: -32600, message } });
      Object.assign(state, { thread: threadId, cwd: params.cwd, sandbox: params.sandbox });
      say({ id, result: restored(params) });
    },
    "turn/start"(id, params) {
      if (plan.watch !== undefined) {
        const sidecars = readdirSync(plan.watch).filter((name) => name.endsWith(".session.json"));
        journal({ sidecars: sidecars.map((name) => JSON.parse(readFileSync(join(plan.watch, name), "utf8"))) });
      }
      begin(state.thread, state.cwd, state.sandbox, params.input[0].text);
      step("written");
      say({ id, result: { turn } });
      say({ method: "turn/started", params: { threadId: state.thread, turn } });
      setImmediate(next);
    },
    "turn/interrupt"(id) {
      say({ id, result: {} });
      complete("interrupted");
    },
  };
  const lines = createInterface({ input: process.stdin });
  lines.on("close", () => process.exit(0));
  lines.on("line", (line) => {
    const message = JSON.parse(line);
    journal(message);
    if (message.method === undefined) {
      say({ method: "serverRequest/resolved", params: { threadId: state.thread, requestId: message.id } });
      step("answered");
      return message.result.decision === "cancel" ? complete("interrupted") : next();
    }
    step(`before ${message.method}`);
    on[message.method](message.id, message.params);
    setImmediate(() => step(`after ${message.method}`));
  });
}
