/**
 * The life of a scripted agent: one persona, one command line, one exit code.
 *
 * It keeps its conversation in a session file, streams, pretends to call tools and misbehaves on cue, so that Reprise
 * can be shown and tested without a key or a network. docs/engines/demo.md lists its cues.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { isatty } from "node:tty";
import { isErrno } from "../core/errno.ts";
import { chat } from "./chat.ts";
import { makeJournal, messageFacts, startFacts } from "./journal.ts";
import { makeOutput } from "./output.ts";
import {
  type DemoConversation,
  type Persona,
  DemoRefusal,
  type Request,
  type Stage,
  type DemoWorld,
} from "./persona.ts";
import { play } from "./play.ts";
import { parseScript, planOf, type ScriptStep } from "./steps.ts";

/** Plays the persona to its end, and ends this process with its exit code. */
export async function runAgent(persona: Persona, argv: readonly string[]): Promise<never> {
  try {
    process.exit(await live(persona, argv));
  } catch (error) {
    // A reader that closed the pipe is no reason for a stack trace.
    if (!isErrno(error, "EPIPE"))
      process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}

async function live(persona: Persona, argv: readonly string[]): Promise<number> {
  const out = makeOutput();
  const world: DemoWorld = {
    env: process.env,
    cwd: process.cwd(),
    terminal: isatty(0) && isatty(1),
    now: () => new Date(),
  };
  if (argv.length === 1 && ["--version", "-v", "-V"].includes(argv[0] ?? "")) {
    out.line(persona.version);
    return 0;
  }
  const journal = makeJournal(world, persona.id);
  journal.write("start", startFacts(world, argv));
  try {
    const stage = { world, out, journal };
    const served = persona.serve?.(argv, stage) ?? null;
    const code = await (served ?? attend({ ...stage, persona, request: persona.parse(argv, world) }));
    journal.write("end", { code });
    return code;
  } catch (error) {
    if (!(error instanceof DemoRefusal)) throw error;
    journal.write("refused", { code: error.exit, why: error.message });
    if (error.stdout !== "") out.raw(error.stdout);
    if (error.message !== "") out.err(error.message);
    return error.exit;
  }
}

interface Scene extends Stage {
  readonly persona: Persona;
  readonly request: Request;
}

async function attend(scene: Scene): Promise<number> {
  const { persona, request, world, journal } = scene;
  const script = scriptOf(request, world);
  const stdin = openStdin();
  const message = script === null ? await messageOf(request, stdin) : (request.prompt ?? "");
  const steps = script ?? planOf(message);
  const astray = steps.some(({ step }) => step === "other-session");
  const conversation = await persona.open(
    astray ? { ...request, how: "new", session: null } : request,
    world,
  );
  journal.write("session", {
    session: conversation.id,
    how: request.how,
    earlier: conversation.earlier.length,
  });
  if (request.chat && script === null) return await chat({ ...scene, nextLine: stdin.line }, conversation);
  journal.write("message", { session: conversation.id, ...messageFacts(message) });
  return await turn(scene, { conversation, message, steps, nextLine: stdin.line });
}

async function turn(
  { persona, request, world, out, journal }: Scene,
  part: {
    readonly conversation: DemoConversation;
    readonly message: string;
    readonly steps: readonly ScriptStep[];
    readonly nextLine: () => Promise<string | null>;
  },
): Promise<number> {
  const { conversation } = part;
  const voice = persona.speak(request, conversation, out);
  process.once("SIGINT", () => {
    const code = voice.interrupted();
    journal.write("end", { session: conversation.id, signal: "SIGINT", code });
    if (code !== null) process.exit(code);
    process.kill(process.pid, "SIGINT");
  });
  const stage = { ...part, request, voice, out, journal, env: world.env, earlier: conversation.earlier };
  return (await play(part.steps, stage)) ?? 0;
}

/** A script replaces the turn's plan, and reads stdin itself. */
function scriptOf(request: Request, world: DemoWorld): ScriptStep[] | null {
  const file = request.script ?? world.env["REPRISE_DEMO_SCRIPT"] ?? "";
  if (file === "") return null;
  try {
    return parseScript(readFileSync(file, "utf8"));
  } catch (error) {
    throw new DemoRefusal(2, `demo: ${error instanceof Error ? error.message : "the script cannot be read"}`);
  }
}

async function messageOf(request: Request, stdin: Stdin): Promise<string> {
  if (request.chat) return "";
  const prompt = request.prompt ?? "";
  const piped = request.stdin === "none" || isatty(0) ? "" : await stdin.rest();
  const message =
    request.stdin === "append" && prompt !== "" ? [prompt, piped].filter(Boolean).join("\n") : prompt + piped;
  if (message.trim() === "") throw new DemoRefusal(2, "demo: there is no message");
  return message;
}

interface Stdin {
  readonly line: () => Promise<string | null>;
  readonly rest: () => Promise<string>;
}

/** Reads nothing before the agent asks: an agent that never asks does not hang on an open pipe. */
function openStdin(): Stdin {
  let lines: AsyncIterator<string> | null = null;
  return {
    async line() {
      lines ??= createInterface({ input: process.stdin, terminal: false })[Symbol.asyncIterator]();
      const next = await lines.next();
      return next.done === true ? null : next.value;
    },
    async rest() {
      const chunks: Buffer[] = [];
      for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).toString("utf8");
    },
  };
}
