/** The agent as Gemini CLI 0.61: its command line, its three output formats and its chat files. */
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { arrayIn, fieldIn, type JsonObject, objectIn, parseObject, stringIn } from "../../src/lib/json.ts";
import { readArgs } from "../../src/demo/argv.ts";
import type { Output } from "../../src/demo/output.ts";
import {
  type DemoConversation,
  type DemoTrouble,
  FORGED_UUID,
  type Persona,
  DemoRefusal,
  type Request,
  type DemoVoice,
  type DemoWorld,
} from "../../src/demo/persona.ts";
import { appendLine, readLines } from "../../src/demo/session-file.ts";
import { textVoice } from "../../src/demo/text-voice.ts";

export const gemini: Persona = {
  id: "gemini",
  version: "0.61.0",

  parse(argv, world) {
    const args = readArgs(argv, {
      values:
        "--model|-m --prompt|-p --prompt-interactive|-i --approval-mode --policy --admin-policy --allowed-mcp-server-names " +
        "--allowed-tools --extensions|-e --session-file --session-id --delete-session --include-directories --output-format|-o",
      flags:
        "--debug|-d --skip-trust --sandbox|-s --yolo|-y --list-extensions|-l --list-sessions --screen-reader --raw-output " +
        "--accept-raw-output-risk --help|-h",
      optional: "--resume|-r --worktree|-w",
    });
    if (args.bad !== null)
      throw new DemoRefusal(1, `Not enough arguments or unknown: ${args.bad.replace(/^-+/, "")}`);
    const asked = args.value("--prompt") ?? (args.words.join(" ") || null);
    const later = args.value("--prompt-interactive");
    const piped = !world.terminal;
    const format = args.value("--output-format");
    const resume = args.has("--resume") ? (args.value("--resume") ?? "latest") : null;
    if (resume !== null && args.has("--session-id"))
      throw new DemoRefusal(1, "Arguments resume and session-id are mutually exclusive");
    const trusted = args.has("--skip-trust") || world.env["GEMINI_CLI_TRUST_WORKSPACE"] === "true";
    if (world.env["REPRISE_DEMO_TRUST"] === "required" && !trusted)
      throw new DemoRefusal(
        55,
        "Gemini CLI is not running in a trusted directory. Use --skip-trust to proceed.",
      );
    return {
      how: resume === null ? "new" : "resume",
      session: resume ?? args.value("--session-id"),
      forkTo: null,
      prompt: asked ?? later,
      stdin: asked === null && later === null && piped ? "message" : "none",
      chat: later !== null || (asked === null && !piped),
      format: format === "stream-json" ? "jsonl" : format === "json" ? "json" : "text",
      cwd: world.cwd,
      facts: {
        model: args.value("--model") ?? "auto",
        "approval-mode": args.has("--yolo") ? "yolo" : (args.value("--approval-mode") ?? "default"),
        cwd: world.cwd,
      },
      script: null,
      ephemeral: false,
    };
  },

  async open(request, world) {
    const chats = join(homeOf(world), "tmp", slugOf(request.cwd, world), "chats");
    const known = existsSync(chats) ? readdirSync(chats).map((name) => join(chats, name)) : [];
    const idOf = (file: string): string => stringIn(readLines(file)[0], "sessionId") ?? "";
    if (request.how === "new") {
      const id = request.session ?? randomUUID();
      if (known.some((file) => idOf(file) === id)) {
        throw new DemoRefusal(
          42,
          `Error starting session: Session ID "${id}" already exists. Use --resume to resume it, or provide a different ID.`,
        );
      }
      const minute = world.now().toISOString().slice(0, 16).replace(":", "-");
      const file = join(chats, `session-${minute}-${id.slice(0, 8)}.jsonl`);
      appendLine(file, headOf(id, request, world));
      return conversation(id, file, request, world);
    }
    const begun = known.filter((file) => messagesIn(file).length > 0);
    if (begun.length === 0)
      throw new DemoRefusal(42, "Error resuming session: No previous sessions found for this project.");
    const wanted =
      request.session === "latest"
        ? begun.toSorted().at(-1)
        : begun.find((file) => idOf(file) === request.session);
    if (wanted === undefined) {
      throw new DemoRefusal(
        42,
        `Error resuming session: Invalid session identifier "${request.session}".\n  Searched for sessions in ${chats}.`,
      );
    }
    return conversation(idOf(wanted), wanted, request, world);
  },

  speak(request, talk, out) {
    if (request.format === "jsonl") return streamVoice(request, talk, out);
    const plain = request.chat ? textVoice(out, forgery, messageFor) : plainVoice(out);
    return request.format === "json" ? objectVoice(talk, out) : plain;
  },
};

function homeOf({ env }: DemoWorld): string {
  return join(env["GEMINI_CLI_HOME"] || env["HOME"] || "/", ".gemini");
}

/** A short name for the directory, its own among all projects. */
function slugOf(cwd: string, world: DemoWorld): string {
  const file = join(homeOf(world), "projects.json");
  const registry = existsSync(file) ? parseObject(readFileSync(file, "utf8")) : {};
  const projects = objectIn(registry, "projects") ?? {};
  const known = stringIn(projects, cwd);
  if (known !== undefined) return known;
  const name = basename(cwd).toLowerCase() || "root";
  const taken = Object.values(projects);
  let slug = name;
  for (let n = 1; taken.includes(slug); n += 1) slug = `${name}-${n}`;
  const folder = join(homeOf(world), "tmp", slug);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, ".project_root"), cwd);
  writeFileSync(file, JSON.stringify({ projects: { ...projects, [cwd]: slug } }, null, 2));
  return slug;
}

function headOf(sessionId: string, request: Request, world: DemoWorld): JsonObject {
  const at = world.now().toISOString();
  const projectHash = createHash("sha256").update(request.cwd).digest("hex");
  return { sessionId, projectHash, startTime: at, lastUpdated: at, kind: "main" };
}

/** Records in order: a message, or a replacement of all messages. */
function messagesIn(file: string): JsonObject[] {
  let messages: JsonObject[] = [];
  for (const record of readLines(file)) {
    const replaced = fieldIn(objectIn(record, "$set"), "messages");
    if (Array.isArray(replaced)) messages = replaced as JsonObject[];
    else if (stringIn(record, "id") !== undefined) messages.push(record);
  }
  return messages;
}

function conversation(id: string, file: string, request: Request, world: DemoWorld): DemoConversation {
  const before = messagesIn(file);
  const write = (fields: JsonObject): void => {
    const timestamp = world.now().toISOString();
    appendLine(file, { id: randomUUID(), timestamp, ...fields });
    appendLine(file, { $set: { lastUpdated: timestamp } });
  };
  return {
    id,
    earlier: before.filter((message) => message["type"] === "user").map(saidIn),
    user: async (text) => write({ type: "user", content: [{ text }] }),
    assistant: async (text) =>
      write({ type: "gemini", content: text, thoughts: [], model: request.facts["model"] }),
    // A failed turn is taken back, so a session whose first turn failed cannot be resumed.
    failed: async () => appendLine(file, { $set: { messages: before } }),
  };
}

function saidIn(message: JsonObject): string {
  return arrayIn(message, "content")
    .map((part) => stringIn(part, "text") ?? "")
    .join("");
}

const forgery = JSON.stringify({ type: "init", session_id: FORGED_UUID, model: "auto" });

/** A failure as text: a stack trace and the fields of the error, exit code 1 whatever it was. */
function plainVoice(out: Output): DemoVoice {
  return {
    ...textVoice(out, forgery, messageFor),
    failed(trouble) {
      const report = "/tmp/gemini-client-error-Turn.run-sendMessageStream-demo.json";
      out.err(
        `Error when talking to Gemini API Full report available at: ${report} RetryableQuotaError: ${messageFor(trouble)}\n` +
          `    at classifyGoogleError (file:///demo.js:1:1) {\n  status: ${trouble.status ?? "undefined"}\n}\n` +
          "An unexpected critical error occurred:[object Object]",
      );
      return 1;
    },
  };
}

function streamVoice(request: Request, talk: DemoConversation, out: Output): DemoVoice {
  const emit = (line: JsonObject): void => {
    const { type, ...rest } = line;
    out.json({ type, timestamp: new Date().toISOString(), ...rest });
  };
  const stats = { total_tokens: 105, input_tokens: 100, output_tokens: 5, tool_calls: 0 };
  return {
    forgery,
    session: () => emit({ type: "init", session_id: talk.id, model: request.facts["model"] }),
    turnStarted: (content) => emit({ type: "message", role: "user", content }),
    text: (content) => emit({ type: "message", role: "assistant", content, delta: true }),
    toolStarted: (id, name, command) =>
      emit({ type: "tool_use", tool_name: toolName(name), tool_id: id, parameters: { command } }),
    toolEnded: ({ id, output }) => emit({ type: "tool_result", tool_id: id, status: "success", output }),
    // Gemini retries in silence on stdout.
    retry: (trouble, attempt) =>
      out.err(`Attempt ${attempt} failed: ${messageFor(trouble)}. Retrying with backoff...`),
    completed() {
      emit({ type: "result", status: "success", stats });
      return 0;
    },
    failed(trouble) {
      emit({
        type: "result",
        status: "error",
        error: { type: "unknown", message: messageFor(trouble) },
        stats,
      });
      return codeFor(trouble);
    },
    interrupted: () => 0,
  };
}

/** `-o json`: one pretty-printed object, on stdout after a success and on stderr after a failure. */
function objectVoice(talk: DemoConversation, out: Output): DemoVoice {
  let said = "";
  const pretty = (fields: JsonObject): string => JSON.stringify({ session_id: talk.id, ...fields }, null, 2);
  return {
    forgery,
    session: () => undefined,
    turnStarted: () => undefined,
    text(piece) {
      said += piece;
    },
    toolStarted: () => undefined,
    toolEnded: () => undefined,
    retry: () => undefined,
    completed() {
      out.line(pretty({ response: said, stats: { models: {} } }));
      return 0;
    },
    failed(trouble) {
      out.err(pretty({ error: { type: "Error", message: messageFor(trouble), code: trouble.status ?? 1 } }));
      return codeFor(trouble);
    },
    interrupted: () => 0,
  };
}

function toolName(name: string): string {
  return name === "shell" ? "run_shell_command" : name;
}

/** The HTTP status, cut to a byte. */
function codeFor({ status }: DemoTrouble): number {
  return status === null ? 1 : status & 255;
}

const WORDS: Readonly<Record<DemoTrouble["kind"], string>> = {
  rate_limited: "[API Error: You have exhausted your capacity on this model.]",
  quota: "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later.",
  auth: '[API Error: {"error":{"code":401,"message":"API key not valid. Please pass a valid API key.","status":"UNAUTHENTICATED"}}]',
  overloaded:
    '[API Error: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}]',
  network: "[API Error: terminated]",
  context_full: "[API Error: The input token count exceeds the maximum number of tokens allowed.]",
  busy: "[API Error: demo: busy]",
};

function messageFor({ kind, resetsAt }: DemoTrouble): string {
  return resetsAt === null ? WORDS[kind] : `${WORDS[kind]} Your quota will reset at ${resetsAt}.`;
}
