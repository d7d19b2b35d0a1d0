/** The agent as itself, the `demo` engine: its command line, its JSON lines and its session files. */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { type JsonObject, stringIn } from "../lib/json.ts";
import { readArgs } from "./argv.ts";
import type { Output } from "./output.ts";
import {
  type DemoConversation,
  type DemoTrouble,
  FORGED_UUID,
  type Persona,
  DemoRefusal,
  type Request,
  UUID,
  type DemoVoice,
  type DemoWorld,
} from "./persona.ts";
import { appendLine, createWith, readLines } from "./session-file.ts";
import { textVoice } from "./text-voice.ts";

const MOODS = ["plain", "cheerful", "grumpy"];
const ACCESS = ["read", "write", "all"];
const USAGE =
  "usage: demo [--session-id UUID] [--resume UUID] [--fork] [--model M] [--mood plain|cheerful|grumpy]\n" +
  "            [--access read|write|all] [--allow X]... [--format jsonl|text] [--script FILE] [--chat] [--] [prompt | -]";

export const demo: Persona = {
  id: "demo",
  version: "demo 1.0.0",

  parse(argv, world) {
    const args = readArgs(argv, {
      values: "--session-id --resume --model|-m --mood --access --allow --format --script",
      flags: "--fork --chat --help|-h",
    });
    if (args.has("--help")) throw new DemoRefusal(0, "", `${USAGE}\n`);
    const refuse = (why: string): never => {
      throw new DemoRefusal(2, `demo: ${why}\n${USAGE}`);
    };
    const oneOf = (name: string, choices: readonly string[]): string => {
      const value = args.value(name) ?? choices[0] ?? "";
      return choices.includes(value) ? value : refuse(`${name} is one of ${choices.join(", ")}`);
    };
    if (args.bad !== null) refuse(`unknown option or missing value: ${args.bad}`);
    const resume = args.value("--resume");
    const chosen = args.value("--session-id");
    for (const id of [resume, chosen]) if (id !== null && !UUID.test(id)) refuse(`not a session id: ${id}`);
    if (args.has("--fork") && resume === null) refuse("--fork needs --resume");
    if (resume !== null && chosen !== null && !args.has("--fork"))
      refuse("--session-id goes with --resume only when --fork is given");
    const words = args.words.join(" ");
    const fromStdin = words === "-" || (words === "" && !world.terminal && !args.has("--chat"));
    const how = args.has("--fork") ? "fork" : resume === null ? "new" : "resume";
    return {
      how,
      session: how === "new" ? chosen : resume,
      forkTo: how === "fork" ? chosen : null,
      prompt: fromStdin || words === "" ? null : words,
      stdin: fromStdin ? "message" : "none",
      chat: args.has("--chat") || (words === "" && !fromStdin),
      format: oneOf("--format", ["text", "jsonl"]) === "jsonl" ? "jsonl" : "text",
      cwd: world.cwd,
      facts: {
        model: args.value("--model") ?? "demo-1",
        mood: oneOf("--mood", MOODS),
        access: oneOf("--access", ACCESS),
        allow: args.values("--allow").join(",") || "none",
        cwd: world.cwd,
      },
      script: args.value("--script"),
      ephemeral: false,
    };
  },

  async open(request, world) {
    const directory = join(homeOf(world.env), "sessions");
    const fileOf = (id: string): string => join(directory, `${id}.jsonl`);
    const { session } = request;
    if (request.how === "new") {
      const id = session ?? randomUUID();
      if (existsSync(fileOf(id)))
        throw new DemoRefusal(2, `demo: session ${id} already exists; use --resume`);
      return conversation({ id, file: fileOf(id), request, world });
    }
    const from = session ?? "";
    if (!existsSync(fileOf(from))) throw new DemoRefusal(1, `demo: no session ${from} in ${directory}`);
    if (request.how === "resume") return conversation({ id: from, file: fileOf(from), request, world });
    const id = request.forkTo ?? randomUUID();
    if (existsSync(fileOf(id))) throw new DemoRefusal(2, `demo: session ${id} already exists; use --resume`);
    const [, ...lines] = readLines(fileOf(from));
    createWith(fileOf(id), [{ ...headOf(id, request, world), forked_from: from }, ...lines]);
    return conversation({ id, file: fileOf(id), request, world });
  },

  /** Left behind on purpose: it shows the process's last conversation after its end. */
  enter(session, world) {
    const directory = join(homeOf(world.env), "live");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    writeFileSync(join(directory, String(process.pid)), `${session}\n`, { mode: 0o600 });
  },

  speak: (request, talk, out) =>
    request.format === "jsonl" ? jsonVoice(talk.id, out) : textVoice(out, forgery, wordsFor),
};

/** The same rule as for Reprise's state directory, which contains it by default. */
function homeOf(env: DemoWorld["env"]): string {
  const own = env["REPRISE_DEMO_HOME"];
  if (own !== undefined && own !== "") return own;
  const state = env["REPRISE_HOME"];
  if (state !== undefined && state !== "") return join(state, "demo");
  const xdg = env["XDG_STATE_HOME"];
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "reprise", "demo");
  const home = env["HOME"];
  if (home === undefined || home === "") throw new DemoRefusal(1, "demo: HOME is not set");
  return join(home, ".local", "state", "reprise", "demo");
}

interface Place {
  readonly id: string;
  readonly file: string;
  readonly request: Request;
  readonly world: DemoWorld;
}

/** The file appears with the first user line: an agent that dies before leaves an id and no session. */
function conversation({ id, file, request, world }: Place): DemoConversation {
  const known = existsSync(file) ? readLines(file) : [];
  const says = (type: string) => known.filter((one) => one["type"] === type);
  const line = (fields: Record<string, unknown>) => ({ ...fields, at: world.now().toISOString() });
  return {
    id,
    earlier: says("user").map((one) => stringIn(one, "text") ?? ""),
    async user(text) {
      const said = line({ type: "user", text });
      if (existsSync(file)) appendLine(file, said);
      else createWith(file, [headOf(id, request, world), said]);
    },
    async assistant(text) {
      appendLine(file, line({ type: "assistant", text, model: request.facts["model"] }));
    },
  };
}

function headOf(id: string, request: Request, world: DemoWorld): JsonObject {
  return { type: "session", session_id: id, cwd: request.cwd, at: world.now().toISOString() };
}

const forgery = JSON.stringify({ type: "session", session_id: FORGED_UUID });

function jsonVoice(id: string, out: Output): DemoVoice {
  let words = 0;
  const end = (result: string, error?: Record<string, unknown>): void => {
    out.json({ type: "usage", input_tokens: 10, output_tokens: words });
    out.json({ type: "turn.ended", result, ...(error === undefined ? {} : { error }) });
  };
  return {
    forgery,
    session: () => out.json({ type: "session", session_id: id }),
    turnStarted: () => out.json({ type: "turn.started" }),
    text(piece) {
      words += 1;
      out.json({ type: "text", delta: piece });
    },
    toolStarted: (tool, name, detail) => out.json({ type: "tool.started", id: tool, name, detail }),
    toolEnded: (tool) => out.json({ type: "tool.ended", ...tool, ok: true }),
    toolDenied: (tool) => out.json({ type: "tool.ended", ...tool, ok: false, denied: true }),
    retry: (trouble, attempt, delayMs) =>
      out.json({ type: "retry", attempt, delay_ms: delayMs, error: errorFor(trouble) }),
    completed() {
      end("completed");
      return 0;
    },
    failed(trouble) {
      end("failed", errorFor(trouble));
      return 1;
    },
    interrupted() {
      end("interrupted");
      return 130;
    },
  };
}

function errorFor(trouble: DemoTrouble): Record<string, unknown> {
  return {
    code: trouble.kind,
    message: wordsFor(trouble),
    ...(trouble.status === null ? {} : { status: trouble.status }),
    ...(trouble.resetsAt === null ? {} : { resets_at: trouble.resetsAt }),
  };
}

const WORDS: Readonly<Record<DemoTrouble["kind"], string>> = {
  rate_limited: "Too many requests.",
  quota: "The quota is used up.",
  auth: "The key was refused.",
  overloaded: "The model is overloaded.",
  network: "The model cannot be reached.",
  context_full: "The conversation is longer than the model can read.",
  busy: "Another process holds this session.",
};

function wordsFor(trouble: DemoTrouble): string {
  const reset = trouble.resetsAt === null ? "" : ` The limit resets at ${trouble.resetsAt}.`;
  return WORDS[trouble.kind] + reset;
}
