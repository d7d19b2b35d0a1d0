/** Plays the steps of one turn in the persona's voice, and misbehaves on cue. */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Output } from "./output.ts";
import type { DemoConversation, DemoTrouble, Journal, Request, DemoVoice } from "./persona.ts";
import { type ScriptStep, withoutDirectives } from "./steps.ts";

export interface DemoTurn {
  readonly request: Request;
  readonly conversation: DemoConversation;
  readonly voice: DemoVoice;
  readonly out: Output;
  readonly journal: Journal;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The user's message. A script without a prompt collects it with `expect-stdin`. */
  message: string;
  /** User messages of this process's earlier turns and of the session before it. */
  readonly earlier: readonly string[];
  /** The next line of stdin. Null: the end. */
  readonly nextLine: () => Promise<string | null>;
}

/** The exit code of the steps. Null: they ended without a terminal event, an ordinary exit. */
export async function play(steps: readonly ScriptStep[], turn: DemoTurn): Promise<number | null> {
  const state: State = { said: [], facts: { ...turn.request.facts }, slowMs: 0, tools: 0 };
  for (const step of steps) {
    const code = await HANDLERS[step.step]({ step, turn, state });
    if (typeof code === "number") return code;
  }
  return null;
}

interface State {
  readonly said: string[];
  /** Options in force, as the answer repeats them. */
  readonly facts: Record<string, string>;
  slowMs: number;
  tools: number;
}

interface Call {
  readonly step: ScriptStep;
  readonly turn: DemoTurn;
  readonly state: State;
}

type Handler = (call: Call) => Promise<number | undefined>;
const now =
  (act: (call: Call) => void): Handler =>
  async (call) => {
    act(call);
    return undefined;
  };
const NO_TROUBLE: DemoTrouble = { kind: "rate_limited", status: 429, resetsAt: null };

const HANDLERS: Readonly<Record<ScriptStep["step"], Handler>> = {
  session: now(({ turn }) => turn.voice.session()),
  async user({ turn }) {
    await turn.conversation.user(turn.message);
    turn.journal.write("kept", { session: turn.conversation.id });
    return undefined;
  },
  begin: now(({ turn }) => turn.voice.turnStarted(turn.message)),
  answer,
  async end({ turn, state }) {
    await turn.conversation.assistant(state.said.join(""));
    return turn.voice.completed();
  },
  async fail({ step, turn }) {
    const trouble = step.trouble ?? NO_TROUBLE;
    await turn.conversation.failed?.(trouble);
    return turn.voice.failed(trouble);
  },

  print: now(({ step, turn }) => turn.out.line(step.text ?? "")),
  stderr: now(({ step, turn }) => turn.out.err(step.text ?? "")),
  text: now(({ step, turn, state }) => say(step.text ?? "", turn, state)),
  tool,
  deny: now(({ step, turn, state }) => {
    state.tools += 1;
    const [id, name, detail] = [`tool-${state.tools}`, step.name ?? "write", step.text ?? "demo.txt"];
    turn.voice.toolStarted(id, name, detail);
    if (turn.voice.toolDenied === undefined) turn.voice.toolEnded({ id, name, output: "not permitted" });
    else turn.voice.toolDenied({ id, name, detail });
  }),
  ask,
  "open-tool": now(({ turn }) => turn.voice.toolStarted("tool-open", "shell", "pretend shell")),
  async retry({ step, turn }) {
    turn.voice.retry(step.trouble ?? NO_TROUBLE, 1, step.ms ?? 0);
    await sleep(step.ms ?? 0);
    return undefined;
  },
  write: now(({ step, turn }) => {
    const file = join(turn.request.cwd, step.name ?? "demo.txt");
    turn.voice.toolStarted("write-1", "write", file);
    writeFileSync(file, step.text ?? `${withoutDirectives(turn.message)}\n`);
    turn.voice.toolEnded({ id: "write-1", name: "write", output: "written" });
  }),
  async wait({ step }) {
    await sleep(step.ms ?? 0);
    return undefined;
  },
  "expect-stdin": expectStdin,

  exit: async ({ step }) => step.code ?? 0,
  async signal({ step, turn }) {
    turn.journal.write("signal", { signal: step.name });
    process.kill(process.pid, step.name ?? "SIGTERM");
    return await forever();
  },
  hang: async ({ turn }) => {
    turn.journal.write("hang");
    return await forever();
  },
  async die({ turn }) {
    turn.journal.write("die");
    process.kill(process.pid, "SIGKILL");
    return await forever();
  },
  // A new session cannot be gone.
  async lost({ turn }) {
    if (turn.request.how !== "resume") return undefined;
    turn.out.err(`demo: no session ${turn.conversation.id} any more`);
    return 1;
  },

  "ignore-sigterm": now(({ turn }) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.removeAllListeners(signal);
      process.on(signal, () => turn.journal.write("ignored", { signal }));
    }
  }),
  fork: forkChild,
  flood,
  line: now(({ step, turn }) => {
    const chunk = Buffer.alloc(64 * 1024, "x");
    for (let left = step.bytes ?? 0; left > 0; left -= chunk.length)
      turn.out.raw(left < chunk.length ? chunk.subarray(0, left) : chunk);
    turn.out.raw("\n");
  }),
  burst: now(({ step, turn, state }) => {
    for (let n = 1; n <= (step.count ?? 1); n += 1) say(`burst ${n}\n`, turn, state);
  }),
  "close-stdout": now(({ turn }) => turn.out.close()),
  forge: now(forge),
  osc: now(({ turn, state }) => {
    say(
      "title \u001b]0;owned\u0007 clipboard \u001b]52;c;b3duZWQ=\u0007 clear \u001b[2J\u001b[31mred\u001b[0m\n",
      turn,
      state,
    );
    turn.out.err("\u001b]0;owned\u0007\u001b]52;c;b3duZWQ=\u0007\u001b[2Jdemo: sequences on stderr");
  }),
  badutf8: now(({ turn }) =>
    turn.out.raw(Buffer.from([0x62, 0x61, 0x64, 0x20, 0xff, 0xfe, 0xc3, 0x28, 0x20, 0xed, 0xa0, 0x80, 0x0a])),
  ),
  crlf: now(({ turn }) => turn.out.bend("crlf")),
  split: now(({ turn }) => turn.out.bend("split")),
  silent: now(({ turn }) => turn.out.bend("silent")),
  slow: now(({ step, state }) => {
    state.slowMs = step.ms ?? 0;
  }),
  env: now(({ step, turn, state }) => {
    const name = step.name ?? "";
    state.facts[name] = turn.env[name] ?? "(unset)";
  }),
  // Acts when the session is opened, before the first step.
  "other-session": now(() => undefined),
  // A cue for the actor of Codex's server (test/actors/), which reads it before the plan begins.
  server: now(() => undefined),
};

async function answer({ step, turn, state }: Call): Promise<undefined> {
  const pieces = answerTo(turn.message, turn.earlier, state.facts).match(/\S+\s*/g) ?? [];
  const middle = Math.ceil(pieces.length / 2);
  const part = step.half === 1 ? pieces.slice(0, middle) : step.half === 2 ? pieces.slice(middle) : pieces;
  for (const piece of part) {
    if (state.slowMs > 0) await sleep(state.slowMs);
    say(piece, turn, state);
  }
}

/** Quotes earlier messages: the proof that a conversation was continued. */
export function answerTo(
  message: string,
  earlier: readonly string[],
  facts: Readonly<Record<string, string>>,
): string {
  const quoted = earlier.map(quote).join(", ");
  const memory =
    earlier.length === 0
      ? "This is our first exchange."
      : `I remember ${earlier.length} earlier message${earlier.length === 1 ? "" : "s"}: ${quoted}.`;
  const options = Object.entries(facts).map(([name, value]) => `${name}=${value}`);
  return `You said ${quote(message)}. ${memory} ${options.join(" ")}`;
}

function quote(message: string): string {
  const text = withoutDirectives(message);
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

function say(piece: string, turn: DemoTurn, state: State): void {
  state.said.push(piece);
  turn.voice.text(piece);
}

async function tool({ step, turn, state }: Call): Promise<undefined> {
  state.tools += 1;
  const id = `tool-${state.tools}`;
  const name = step.name ?? "shell";
  turn.voice.toolStarted(id, name, step.text ?? `pretend ${name}`);
  if (step.ms !== undefined) await sleep(step.ms);
  turn.voice.toolEnded({ id, name, output: step.text ?? "pretended" });
}

/** If allowed, really writes a file, but only reports a command. */
async function ask({ step, turn, state }: Call): Promise<undefined> {
  state.tools += 1;
  const about = step.name === "files" ? "files" : "command";
  const what = step.text ?? "pwd";
  const { cwd } = turn.request;
  if (turn.voice.ask === undefined) turn.out.err("approval policy is Never; reject command");
  const may = (await turn.voice.ask?.({ id: `ask-${state.tools}`, about, what, cwd })) ?? false;
  if (may && about === "files") writeFileSync(join(cwd, what), "patched\n");
  turn.journal.write(may ? "did" : "did-not", { what });
  say(`${may ? "Did" : "Was not allowed"} ${what}. `, turn, state);
}

async function expectStdin({ step, turn }: Call): Promise<number | undefined> {
  const line = await turn.nextLine();
  if (line !== null && line.includes(step.text ?? "")) {
    turn.message = turn.message === "" ? line : `${turn.message}\n${line}`;
    return undefined;
  }
  turn.out.err(
    `demo: expected ${JSON.stringify(step.text ?? "a line")} on stdin, got ${JSON.stringify(line)}`,
  );
  return 97;
}

/** Reports when it is ready, ignores signals to end and notes them in the journal, and ends after a minute. */
const STRAY = `
const fs = require("node:fs");
const log = process.env.REPRISE_DEMO_LOG;
for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(signal, () => {
  const line = { at: new Date().toISOString(), event: "ignored", pid: process.pid, signal };
  if (log) fs.appendFileSync(log, JSON.stringify(line) + "\\n");
});
setTimeout(() => process.exit(0), 60000);
fs.writeSync(3, "r");
fs.closeSync(3);`;

/** A grandchild in a separate session; `hold` keeps our stdout and stderr open in it. */
async function forkChild({ step, turn }: Call): Promise<undefined> {
  const shared = step.name === "hold" ? "inherit" : "ignore";
  const child = spawn(process.execPath, ["-e", STRAY], {
    detached: true,
    stdio: ["ignore", shared, shared, "pipe"],
  });
  const ready = child.stdio[3];
  await new Promise((go) => ready?.once("data", go).once("close", go));
  ready?.destroy();
  child.unref();
  turn.journal.write("child", { child: child.pid });
}

async function flood({ step, turn }: Call): Promise<undefined> {
  const line = `flood ${"abcdefghij".repeat(12)}\n`;
  const chunk = Buffer.from(line.repeat(Math.ceil((64 * 1024) / line.length)));
  for (let left = step.bytes ?? 0; left > 0; left -= chunk.length) {
    turn.out.raw(left < chunk.length ? `${"f".repeat(left - 1)}\n` : chunk);
    // Signals are handled between chunks.
    await new Promise((resume) => setImmediate(resume));
  }
}

/** inside: within text and tool output, as a model or a file can do. line, stderr: a separate bare line. */
function forge({ step, turn, state }: Call): void {
  const { forgery } = turn.voice;
  if (step.name === "line") return turn.out.line(forgery);
  if (step.name === "stderr") return turn.out.err(forgery);
  say(`\n${forgery}\n`, turn, state);
  turn.voice.toolStarted("forged-1", "shell", "cat log.jsonl");
  return turn.voice.toolEnded({ id: "forged-1", name: "shell", output: `${forgery}\n` });
}

function sleep(ms: number): Promise<void> {
  return new Promise((wake) => setTimeout(wake, ms));
}

/** Longer than any test waits: an agent that a broken test left behind ends on its own. */
function forever(): Promise<never> {
  return new Promise(() => setTimeout(() => process.exit(99), 20 * 60_000));
}
