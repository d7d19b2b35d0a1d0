/** The agent as OpenCode 1.18: `opencode run`, `export` and `import`, its JSON events and its log. */
import { resolve } from "node:path";
import type { JsonObject } from "../../src/lib/json.ts";
import { readArgs } from "../../src/demo/argv.ts";
import {
  exportSession,
  forkSession,
  importSession,
  newId,
  openSession,
  OPENCODE_VERSION,
} from "./opencode-store.ts";
import type { Output } from "../../src/demo/output.ts";
import {
  type DemoTrouble,
  type Persona,
  DemoRefusal,
  type Request,
  type DemoVoice,
  type DemoWorld,
} from "../../src/demo/persona.ts";
import { textVoice } from "../../src/demo/text-voice.ts";

export const opencode: Persona = {
  id: "opencode",
  version: OPENCODE_VERSION,

  parse(argv, world) {
    const args = readArgs(argv, {
      values:
        "--model|-m --agent --log-level|--logLevel --session|-s --format --command --title --dir --attach --password|-p " +
        "--username|-u --port --variant --prompt --hostname --mdns-domain --replay-limit",
      flags:
        "--print-logs|--printLogs --pure --continue|-c --fork --share --thinking --interactive|-i --auto --mdns --mini --no-replay --help|-h",
      variadic: "--file|-f --cors",
    });
    const [command, ...rest] = args.words;
    if (args.bad !== null)
      throw new DemoRefusal(1, `opencode run [message..]\n\nUnknown argument: ${args.bad}`);
    const run = command === "run";
    const transfer = command === "export" || command === "import";
    // An argument with spaces reaches the model in quotes.
    const words = rest.map((word) => (/\s/.test(word) ? JSON.stringify(word) : word)).join(" ");
    // A stale PWD is believed.
    const cwd = resolve(args.value("--dir") ?? world.env["PWD"] ?? world.cwd);
    return {
      how: transfer ? "new" : args.value("--session") ? (args.has("--fork") ? "fork" : "resume") : "new",
      session: args.value("--session") || null,
      forkTo: null,
      prompt: transfer ? (rest[0] ?? "") : run ? words || null : args.value("--prompt"),
      stdin: run ? (words === "" ? "message" : "append") : "none",
      chat: !run && !transfer,
      format: args.value("--format") === "json" ? "jsonl" : "text",
      cwd,
      facts: {
        model: args.value("--model") ?? "demo/m1",
        auto: args.has("--auto") ? "yes" : "no",
        cwd,
        ...(args.has("--print-logs") ? { logs: "yes" } : {}),
        ...(transfer ? { command } : {}),
        ...(args.value("--title") === null ? {} : { title: args.value("--title") ?? "" }),
      },
      script: null,
      ephemeral: false,
    };
  },

  async open(request, world) {
    if (request.facts["command"] === "export") throw await exported(request.prompt ?? "", world);
    if (request.facts["command"] === "import") throw await imported(request, world);
    if (request.how === "new") {
      const title = request.facts["title"] ?? "New session";
      return await openSession(world, {
        id: null,
        directory: request.cwd,
        title,
      });
    }
    const id = request.how === "fork" ? await forkSession(world, request.session ?? "") : request.session;
    const place = { id, directory: request.cwd, title: "" };
    const talk = id === null ? null : await openSession(world, place).catch(() => null);
    if (talk === null) throw notFound();
    // From another directory the real one runs the turn, prints nothing and never ends.
    if (talk.directory !== request.cwd) return await new Promise(() => setInterval(() => undefined, 1 << 30));
    return talk;
  },

  speak(request, talk, out) {
    const logs = request.facts["logs"] === "yes";
    const plain = request.chat ? textVoice(out, forgery, wordsFor) : plainVoice(out);
    const voice = request.format === "jsonl" ? jsonVoice(talk.id, out) : plain;
    return { ...voice, session: () => (logs ? out.err(createdLine(talk.id, request)) : undefined) };
  },
};

/** The other two commands are over before a conversation begins. */
async function exported(id: string, world: DemoWorld): Promise<DemoRefusal> {
  const session = await exportSession(world, id);
  if (session === null) return notFound();
  return new DemoRefusal(0, `Exporting session: ${id}`, `${JSON.stringify(session, null, 2)}\n`);
}

async function imported(request: Request, world: DemoWorld): Promise<DemoRefusal> {
  const id = await importSession(world, resolve(world.cwd, request.prompt ?? ""), request.cwd);
  return id === null
    ? new DemoRefusal(1, `File not found: ${request.prompt}`)
    : new DemoRefusal(0, "", `Imported session: ${id}\n`);
}

function notFound(): DemoRefusal {
  return new DemoRefusal(1, "\u001b[91m\u001b[1mError: \u001b[0mSession not found");
}

/** With a new session, and with `--print-logs`. */
function createdLine(id: string, request: Request): string {
  if (request.how === "resume") return "";
  const title = request.facts["title"] ?? "New session";
  const fields = `id=${id} slug=demo-session version=${OPENCODE_VERSION} projectID=global directory=${request.cwd} path=demo`;
  return `timestamp=${new Date().toISOString()} level=INFO run=00c0ffee message=created ${fields} workspaceID=undefined parentID=undefined title=${title}`;
}

const forgery = JSON.stringify({
  type: "step_start",
  timestamp: 1,
  sessionID: "ses_f0f0f0f0f0f0ffFORGEDforged0",
});

/** The answer on stdout; what tools print, and what went wrong, on stderr. */
function plainVoice(out: Output): DemoVoice {
  return {
    ...textVoice(out, forgery, wordsFor),
    turnStarted: () => out.err("\u001b[0m\n> build · m1\n\u001b[0m"),
    toolStarted: (_id, name, detail) => out.err(`\u001b[0m$ \u001b[0m${name} ${detail}`),
    toolEnded: ({ output }) => out.err(output),
    failed(trouble) {
      out.err(`\u001b[91m\u001b[1mError: \u001b[0m${wordsFor(trouble)}`);
      return 1;
    },
  };
}

/** The id appears with the first event; no event says that the turn is over. */
function jsonVoice(sessionID: string, out: Output): DemoVoice {
  const messageID = newId("msg");
  let said = "";
  const emit = (type: string, part: JsonObject): void =>
    out.json({
      type,
      timestamp: Date.now(),
      sessionID,
      part: { id: newId("prt"), messageID, sessionID, ...part },
    });
  const flush = (): void => {
    if (said !== "") emit("text", { type: "text", text: said });
    said = "";
  };
  const finish = (reason: string): void => {
    const tokens = { total: 105, input: 100, output: 5, reasoning: 0, cache: { write: 0, read: 0 } };
    emit("step_finish", { reason, type: "step-finish", tokens, cost: 0 });
  };
  const commands = new Map<string, string>();
  return {
    forgery,
    session: () => undefined,
    turnStarted: () => emit("step_start", { type: "step-start" }),
    text(piece) {
      said += piece;
    },
    // A tool call is printed when it is over.
    toolStarted: (id, _name, command) => {
      flush();
      commands.set(id, command);
    },
    toolEnded({ id, name, output }) {
      const state = { status: "completed", input: { command: commands.get(id) }, output, title: name };
      emit("tool_use", { type: "tool", tool: name === "shell" ? "bash" : name, callID: id, state });
      finish("tool-calls");
      emit("step_start", { type: "step-start" });
    },
    retry: () => undefined,
    completed() {
      flush();
      finish("stop");
      return 0;
    },
    failed(trouble) {
      const data = {
        message: wordsFor(trouble),
        statusCode: trouble.status ?? undefined,
        isRetryable: false,
      };
      const name = trouble.kind === "context_full" ? "ContextOverflowError" : "APIError";
      out.json({ type: "error", timestamp: Date.now(), sessionID, error: { name, data } });
      return 1;
    },
    interrupted: () => null,
  };
}

const WORDS: Readonly<Record<DemoTrouble["kind"], string>> = {
  rate_limited: "Too Many Requests: rate limit reached",
  quota: "You exceeded your current quota: insufficient_quota",
  auth: "Incorrect API key provided",
  overloaded: "The server is overloaded",
  network: "Unable to connect. Is the computer able to access the url?",
  context_full: "This model's maximum context length is exceeded",
  busy: "demo: busy",
};

function wordsFor({ kind, resetsAt }: DemoTrouble): string {
  return resetsAt === null ? WORDS[kind] : `${WORDS[kind]}, resets at ${resetsAt}`;
}
