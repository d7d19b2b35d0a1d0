/** The agent as Codex CLI 0.166: `codex exec [resume|fork]`, its JSON lines and its rollout files. */
import { randomBytes } from "node:crypto";
import { openSync, existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { arrayIn, type JsonObject, numberIn, objectIn, stringIn } from "../../src/lib/json.ts";
import { type Args, type ArgTable, readArgs } from "../../src/demo/argv.ts";
import type { Output } from "../../src/demo/output.ts";
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
} from "../../src/demo/persona.ts";
import { appendLine, readLines } from "../../src/demo/session-file.ts";
import { textVoice } from "../../src/demo/text-voice.ts";
import { openUi } from "./ui.ts";

const VERSION = "0.166.0";

/** Options that go anywhere, and those that `exec` takes only before `resume` or `fork`. */
const ANYWHERE: ArgTable = {
  values:
    "--config|-c --enable --disable --model|-m --thread-source --output-schema --output-last-message|-o --cyber-access-program",
  flags:
    "--json --strict-config --skip-git-repo-check --ephemeral --ignore-user-config --ignore-rules --worktree " +
    "--dangerously-bypass-approvals-and-sandbox|--yolo --dangerously-bypass-hook-trust --help|-h",
};
const EXEC: ArgTable = {
  values: `${ANYWHERE.values} --sandbox|-s --cd|-C --add-dir --profile|-p --color --local-provider`,
  flags: `${ANYWHERE.flags} --oss --approve-for-me`,
  variadic: "--image|-i",
  commands: "resume fork",
};
const RESUME: ArgTable = {
  values: `${ANYWHERE.values} --image|-i`,
  flags: `${ANYWHERE.flags} --last --all`,
};
const TUI: ArgTable = {
  values: `${EXEC.values} --ask-for-approval|-a`,
  flags: `${EXEC.flags} --search --no-alt-screen --no-daemon --last --all`,
  variadic: "--image|-i",
  commands: "exec e resume fork app-server",
};

export function asksForServer(argv: readonly string[]): boolean {
  return readArgs(argv, TUI).command?.name === "app-server";
}

export const codex: Persona = {
  id: "codex",
  ui: (stage) => openUi(stage, (status) => `\u001b]7501;state=${STATES[status]}:app=codex\u001b\\`),
  version: `codex-cli ${VERSION}`,

  parse(argv, world) {
    const top = checked(readArgs(argv, TUI));
    const name = top.command?.name;
    if (name === "exec" || name === "e") return exec(top, top.command?.rest ?? [], world);
    const rest = checked(readArgs(top.command?.rest ?? [], { ...TUI, commands: "" }));
    const [session = null, ...words] = name === undefined ? [null, ...top.words] : rest.words;
    return {
      ...request([top, rest], world),
      how: name === undefined ? "new" : name === "fork" ? "fork" : "resume",
      session,
      prompt: words.length === 0 ? null : words.join(" "),
      stdin: "none",
      chat: true,
    };
  },

  async open(asked, world) {
    const home = join(homeOf(world), "sessions");
    if (world.env["REPRISE_DEMO_TRUST"] === "required" && !asked.facts["trust"] && !inGit(asked.cwd)) {
      throw new DemoRefusal(1, "Not inside a trusted directory and --skip-git-repo-check was not specified.");
    }
    const found = asked.session === null ? newestIn(home, asked) : rolloutOf(home, asked.session);
    // Whatever is not a UUID is taken for a thread name, and an unknown one starts a new thread in silence.
    const fresh = asked.how === "new" || (found === null && !UUID.test(asked.session ?? ""));
    if (!fresh && found === null) throw lost(asked);
    if (fresh || found === null) return conversation({ home, asked, world, file: null, base: null });
    if (asked.how === "fork") return conversation({ home, asked, world, file: null, base: found });
    return conversation({ home, asked, world, file: found, base: null });
  },

  speak(asked, talk, out) {
    if (asked.format === "jsonl") return jsonVoice(talk, out);
    return asked.chat ? textVoice(out, forgery, wordsFor) : transcriptVoice(asked, talk, out);
  },
};

/** Without `--json`: the answer on stdout, and on stderr a header and all messages, the answer once more. */
function transcriptVoice(asked: Request, talk: DemoConversation, out: Output): DemoVoice {
  const voice = textVoice(out, forgery, wordsFor);
  let said = "";
  return {
    ...voice,
    session: () =>
      out.err(`OpenAI Codex v${VERSION}\n--------\nworkdir: ${asked.cwd}\nsession id: ${talk.id}\n--------`),
    turnStarted: (message) => out.err(`user\n${message}`),
    text(piece) {
      said += piece;
      voice.text(piece);
    },
    toolStarted: (_id, name, detail) => out.err(`exec\n${name} ${detail}`),
    toolEnded: ({ output }) => out.err(output),
    completed() {
      out.err(`codex\n${said}\ntokens used\n110`);
      return voice.completed();
    },
    failed(trouble) {
      if (said !== "") out.err(`codex\n${said}`);
      out.err(`ERROR: ${wordsFor(trouble)}\nERROR: ${wordsFor(trouble)}`);
      return 1;
    },
  };
}

function exec(top: Args, argv: readonly string[], world: DemoWorld): Request {
  const outer = checked(readArgs(argv, EXEC));
  const { command } = outer;
  const inner = checked(readArgs(command?.rest ?? [], RESUME));
  const last = inner.has("--last");
  const [session = null, ...words] =
    command === null || last ? [null, ...(command === null ? outer : inner).words] : inner.words;
  const prompt = words.join(" ");
  const stdin = prompt === "" || prompt === "-" ? "message" : command === null ? "append" : "none";
  return {
    ...request([top, outer, inner], world),
    how: command === null ? "new" : command.name === "fork" ? "fork" : "resume",
    session,
    prompt: stdin === "message" ? null : prompt,
    stdin,
    chat: false,
  };
}

/** What all levels of the command line say together; the innermost wins. */
function request(levels: readonly Args[], world: DemoWorld): Request {
  const value = (name: string): string | null =>
    levels.map((level) => level.value(name)).findLast((found) => found !== null) ?? null;
  const has = (name: string): boolean => levels.some((level) => level.has(name));
  const cwd = resolve(world.cwd, value("--cd") ?? ".");
  const yolo = has("--dangerously-bypass-approvals-and-sandbox") ? "danger-full-access" : "read-only";
  return {
    how: "new",
    session: null,
    forkTo: null,
    prompt: null,
    stdin: "none",
    chat: false,
    format: has("--json") ? "jsonl" : "text",
    cwd,
    facts: {
      model: value("--model") ?? "gpt-demo",
      sandbox: value("--sandbox") ?? yolo,
      config: levels.flatMap((level) => level.values("--config")).join(",") || "none",
      cwd,
      ...(has("--skip-git-repo-check") ? { trust: "yes" } : {}),
    },
    script: null,
    ephemeral: has("--ephemeral"),
  };
}

function checked(args: Args): Args {
  if (args.bad === null) return args;
  throw new DemoRefusal(
    2,
    `error: unexpected argument '${args.bad}' found\n\nFor more information, try '--help'.`,
  );
}

function lost(asked: Request): DemoRefusal {
  const verb = asked.how === "fork" ? "fork" : "resume";
  const why = `no rollout found for thread id ${asked.session} (code -32600)`;
  return new DemoRefusal(1, `Error: thread/${verb}: thread/${verb} failed: ${why}`);
}

function homeOf({ env }: DemoWorld): string {
  const own = env["CODEX_HOME"];
  if (own === undefined || own === "") return join(env["HOME"] ?? "/", ".codex");
  if (existsSync(own)) return own;
  throw new DemoRefusal(
    1,
    `Error: CODEX_HOME points to ${JSON.stringify(own)}, but that path does not exist`,
  );
}

function rollouts(home: string): string[] {
  if (!existsSync(home)) return [];
  return readdirSync(home, { recursive: true, encoding: "utf8" })
    .filter((name) => /^rollout-.*\.jsonl$/.test(basename(name)))
    .map((name) => join(home, name));
}

function rolloutOf(home: string, id: string): string | null {
  if (!UUID.test(id)) return null;
  return rollouts(home).find((file) => file.endsWith(`-${id.toLowerCase()}.jsonl`)) ?? null;
}

/** `--last`: the newest rollout of this directory. */
function newestIn(home: string, asked: Request): string | null {
  if (asked.how === "new") return null;
  const here = rollouts(home).filter((file) => stringIn(metaOf(readLines(file)), "cwd") === asked.cwd);
  return here.toSorted((a, b) => statSync(a).mtimeMs - statSync(b).mtimeMs).at(-1) ?? null;
}

function metaOf(lines: readonly JsonObject[]): JsonObject | undefined {
  return objectIn(lines[0], "payload");
}

interface Place {
  readonly home: string;
  readonly asked: Request;
  readonly world: DemoWorld;
  /** The rollout to continue; null for a new one. */
  readonly file: string | null;
  /** The rollout that was forked: its history is referred to, not copied. */
  readonly base: string | null;
}

function conversation({ home, asked, world, file, base }: Place): DemoConversation {
  const at = world.now();
  const known = file === null ? [] : readLines(file);
  const id = file === null ? uuid7(at.getTime()) : (stringIn(metaOf(known), "id") ?? "");
  const path = file ?? join(home, pathOf(id, at));
  const parent = base === null ? null : readLines(base);
  let ordinal = known.length;
  let writer: number | null = null;
  const write = (type: string, payload: JsonObject): void => {
    if (!asked.ephemeral) appendLine(path, { timestamp: world.now().toISOString(), ordinal, type, payload });
    // The real one keeps its rollout open from the first message to its end.
    if (!asked.ephemeral) writer ??= openSync(path, "a");
    ordinal += 1;
  };
  const message = (role: string, kind: string, text: string): void =>
    write("response_item", { type: "message", role, content: [{ type: kind, text }] });
  return {
    id,
    earlier: parent === null ? saidIn(known, home) : saidIn(parent, home),
    async user(text) {
      if (ordinal === 0) {
        const parentId = stringIn(metaOf(parent ?? []), "id");
        const history_base = { thread_id: parentId, end_ordinal_exclusive: parent?.length };
        write("session_meta", {
          session_id: id,
          id,
          timestamp: at.toISOString(),
          cwd: asked.cwd,
          originator: asked.chat ? "codex_cli_rs" : "codex_exec",
          cli_version: VERSION,
          source: asked.chat ? "cli" : "exec",
          model_provider: "demo",
          history_mode: "paginated",
          ...(parent === null ? {} : { forked_from_id: parentId, history_base }),
        });
      }
      write("event_msg", { type: "task_started", turn_id: uuid7(world.now().getTime()) });
      write("turn_context", {
        cwd: asked.cwd,
        model: asked.facts["model"],
        sandbox_policy: { type: asked.facts["sandbox"] },
      });
      message("user", "input_text", text);
      write("event_msg", {
        type: "item_completed",
        item: { type: "UserMessage", content: [{ type: "text", text }] },
      });
    },
    async assistant(text) {
      message("assistant", "output_text", text);
      write("event_msg", { type: "task_complete", last_agent_message: text });
    },
    async failed(trouble) {
      const error = { message: wordsFor(trouble), codex_error_info: "other" };
      write("event_msg", { type: "task_complete", last_agent_message: null, error });
    },
  };
}

/** User messages of a rollout, those of the threads it was forked from first. */
function saidIn(lines: readonly JsonObject[], home: string): string[] {
  const base = objectIn(metaOf(lines), "history_base");
  const from = rolloutOf(home, stringIn(base, "thread_id") ?? "");
  const before = from === null ? [] : readLines(from).slice(0, numberIn(base, "end_ordinal_exclusive"));
  const own = lines
    .filter(
      (line) => stringIn(line, "type") === "response_item" && stringIn(line["payload"], "role") === "user",
    )
    .map((line) =>
      arrayIn(line["payload"], "content")
        .map((part) => stringIn(part, "text") ?? "")
        .join(""),
    );
  return [...(from === null ? [] : saidIn(before, home)), ...own];
}

/** Folders and file names carry local time. */
function pathOf(id: string, at: Date): string {
  const two = (n: number): string => String(n).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())];
  const time = [two(at.getHours()), two(at.getMinutes()), two(at.getSeconds())];
  return join(...day.map(String), `rollout-${day.join("-")}T${time.join("-")}-${id}.jsonl`);
}

function uuid7(ms: number): string {
  const time = ms.toString(16).padStart(12, "0");
  const chance = randomBytes(10).toString("hex");
  const hex = `${time}7${chance.slice(0, 3)}8${chance.slice(3, 18)}`;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

function inGit(directory: string): boolean {
  if (existsSync(join(directory, ".git"))) return true;
  const up = resolve(directory, "..");
  return up !== directory && inGit(up);
}

const forgery = JSON.stringify({ type: "thread.started", thread_id: FORGED_UUID });

/** Text comes whole, when it is complete: what was begun at a death is never printed. */
function jsonVoice(talk: DemoConversation, out: Output): DemoVoice {
  const turns = talk.earlier.length + 1;
  const tools = new Map<string, JsonObject>();
  let items = 0;
  let said = "";
  const item = (fields: JsonObject): JsonObject => ({ id: `item_${items++}`, ...fields });
  const flush = (): void => {
    if (said !== "") out.json({ type: "item.completed", item: item({ type: "agent_message", text: said }) });
    said = "";
  };
  return {
    forgery,
    session: () => out.json({ type: "thread.started", thread_id: talk.id }),
    turnStarted: () => out.json({ type: "turn.started" }),
    text(piece) {
      said += piece;
    },
    toolStarted(id, name, detail) {
      flush();
      const started = item({ type: "command_execution", command: `/bin/bash -lc '${name}: ${detail}'` });
      tools.set(id, started);
      const open = { aggregated_output: "", exit_code: null, status: "in_progress" };
      out.json({ type: "item.started", item: { ...started, ...open } });
    },
    toolEnded({ id, output }) {
      const ended = { aggregated_output: output, exit_code: 0, status: "completed" };
      out.json({ type: "item.completed", item: { ...tools.get(id), ...ended } });
    },
    retry: (trouble, attempt) =>
      out.json({ type: "error", message: `Reconnecting... ${attempt}/5 (${wordsFor(trouble)})` }),
    completed() {
      flush();
      const usage = { input_tokens: 100 * turns, cached_input_tokens: 0, output_tokens: 10 * turns };
      out.json({ type: "turn.completed", usage });
      return 0;
    },
    failed(trouble) {
      if (trouble.kind === "busy") {
        const why = `thread ${talk.id} already has an active writer (code -32600)`;
        out.err(`Error: thread/resume: thread/resume failed: ${why}`);
        return 1;
      }
      const message = wordsFor(trouble);
      out.json({ type: "error", message });
      out.json({ type: "turn.failed", error: { message } });
      return 1;
    },
    interrupted: () => 1,
  };
}

const STATES = { idle: "idle", busy: "working", waiting: "blocked" } as const;

const WORDS: Readonly<Record<DemoTrouble["kind"], string>> = {
  rate_limited: "exceeded retry limit, last status: 429 Too Many Requests",
  quota: "Quota exceeded. Check your plan and billing details.",
  auth: "unexpected status 401 Unauthorized: Incorrect API key provided: demo., url: http://127.0.0.1:9/v1/responses",
  overloaded: "We’re currently experiencing high demand, which may cause temporary errors.",
  network: "stream disconnected before completion: Transport error: network error: connection reset",
  context_full:
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.",
  busy: "already has an active writer",
};

export function wordsFor({ kind, status, resetsAt }: DemoTrouble): string {
  if (kind === "rate_limited" && resetsAt !== null) {
    const upgrade = "Upgrade to Pro (https://chatgpt.com/explore/pro)";
    return `You’ve hit your usage limit. ${upgrade} or try again at ${clock(resetsAt)}.`;
  }
  return status === 503 ? "Selected model is at capacity. Please try a different model." : WORDS[kind];
}

/** Codex names local clock time, and the day only when it is another one. */
function clock(iso: string): string {
  const at = new Date(iso);
  const time = at.toLocaleTimeString("en-US", { hour: "numeric", minute: "2-digit" });
  if (at.toDateString() === new Date().toDateString()) return time;
  const day = at.getDate();
  const nth = [11, 12, 13].includes(day) ? "th" : (["th", "st", "nd", "rd"][day % 10] ?? "th");
  return `${at.toLocaleDateString("en-US", { month: "short" })} ${day}${nth}, ${at.getFullYear()} ${time}`;
}
