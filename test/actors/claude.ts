/** The agent as Claude Code 2.1.325: `claude -p`, its stream-json and its transcripts and live registry. */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { arrayIn, type JsonObject, objectIn, stringIn } from "../../src/lib/json.ts";
import { type Args, readArgs } from "../../src/demo/argv.ts";
import {
  type DemoConversation,
  type Persona,
  DemoRefusal,
  type Request,
  type DemoStatus,
  UUID,
  type DemoWorld,
} from "../../src/demo/persona.ts";
import { appendLine, readLines } from "../../src/demo/session-file.ts";
import { openUi } from "./ui.ts";
import { CLAUDE_VERSION, jsonVoice, plainVoice, wordsFor } from "./claude-voice.ts";

export const claude: Persona = {
  id: "claude",
  ui: (stage) => openUi(stage),
  version: `${CLAUDE_VERSION} (Claude Code)`,

  parse(argv, world) {
    const args = readArgs(argv, {
      values:
        "--agent --agents --append-system-prompt --append-system-prompt-file --autocompact --debug-file --effort --environment " +
        "--fallback-model --input-format --json-schema --max-budget-usd --max-turns --model --name|-n --output-format --permission-mode " +
        "--permission-prompt-tool --permission-prompts --plugin-dir --plugin-url --session-id --setting-sources --settings " +
        "--system-prompt --system-prompt-file --system-prompt-snapshot --remote-control-session-name-prefix",
      flags:
        "--print|-p --continue|-c --fork-session --verbose --no-session-persistence --bare --brief --chrome --no-chrome --ide " +
        "--dangerously-skip-permissions --allow-dangerously-skip-permissions --ax-screen-reader --disable-slash-commands --restricted " +
        "--exclude-dynamic-system-prompt-sections --forward-subagent-text --include-hook-events --include-partial-messages " +
        "--replay-user-messages --safe-mode --strict-mcp-config --tmux --help|-h",
      optional:
        "--resume|-r --debug|-d --from-pr --worktree|-w --prompt-suggestions --remote-control --teleport",
      variadic:
        "--add-dir --allowedTools|--allowed-tools --disallowedTools|--disallowed-tools --betas --file --mcp-config --tools",
    });
    if (args.bad !== null) throw new DemoRefusal(1, `error: unknown option '${args.bad}'`);
    refuseContradictions(args);
    const resume = args.value("--resume");
    const continued = args.has("--continue") ? newest(world) : null;
    const from = resume ?? continued;
    const how = from === null ? "new" : args.has("--fork-session") ? "fork" : "resume";
    const chosen = args.value("--session-id");
    const print = args.has("--print");
    const words = args.words.join(" ");
    const format = args.value("--output-format");
    return {
      how,
      session: from ?? chosen,
      forkTo: how === "fork" ? chosen : null,
      prompt: words === "" ? null : words,
      stdin: !print ? "none" : words === "" ? "message" : "append",
      chat: !print,
      format: !print ? "text" : format === "stream-json" ? "jsonl" : format === "json" ? "json" : "text",
      cwd: world.cwd,
      facts: {
        model: args.value("--model") ?? "claude-demo",
        "permission-mode": args.value("--permission-mode") ?? "default",
        "allowed-tools": args.values("--allowedTools").join(",") || "none",
        cwd: world.cwd,
      },
      script: null,
      ephemeral: args.has("--no-session-persistence"),
    };
  },

  async open(request, world) {
    const { how, session } = request;
    if (how === "new") {
      const id = session ?? randomUUID();
      assertFree(id, world);
      return conversation({ id, file: fileOf(id, world), before: [], request, world });
    }
    const file = find(session ?? "", world);
    const lines = file === null ? [] : readLines(file).filter(isMessage);
    if (file === null || lines.length === 0) throw lost(request);
    if (how === "resume") return conversation({ id: session ?? "", file, before: lines, request, world });
    const id = request.forkTo ?? randomUUID();
    assertFree(id, world);
    for (const line of lines) appendLine(fileOf(id, world), { ...line, sessionId: id });
    return conversation({ id, file: fileOf(id, world), before: lines, request, world });
  },

  speak(request, talk, out) {
    return request.format === "text" ? plainVoice(out) : jsonVoice(request, talk, out);
  },
};

function refuseContradictions(args: Args): void {
  const chosen = args.value("--session-id");
  const continues = args.has("--resume") || args.has("--continue");
  const print = args.has("--print");
  if (chosen !== null && !UUID.test(chosen))
    throw new DemoRefusal(1, "Error: Invalid session ID. Must be a valid UUID.");
  if (chosen !== null && continues && !args.has("--fork-session")) {
    throw new DemoRefusal(
      1,
      "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.",
    );
  }
  if (print && args.value("--output-format") === "stream-json" && !args.has("--verbose"))
    throw new DemoRefusal(1, "Error: When using --print, --output-format=stream-json requires --verbose");
  const resume = args.value("--resume");
  if (print && args.has("--resume") && !UUID.test(resume ?? "")) {
    throw new DemoRefusal(
      1,
      `Error: --resume requires a valid session ID or session title when used with --print. Usage: claude -p --resume <session-id|title>. Provided value "${resume ?? ""}" is not a UUID and does not match any session title.`,
    );
  }
}

function lost({ session, format }: Request): DemoRefusal {
  const why = `No conversation found with session ID: ${session}`;
  const fields = {
    subtype: "error_during_execution",
    is_error: true,
    num_turns: 0,
    session_id: session,
    errors: [why],
  };
  return new DemoRefusal(
    1,
    why,
    format === "jsonl" ? `${JSON.stringify({ type: "result", ...fields })}\n` : "",
  );
}

function homeOf({ env }: DemoWorld): string {
  return env["CLAUDE_CONFIG_DIR"] || join(env["HOME"] ?? "/", ".claude");
}

/** A long path is cut and told apart by a hash of the whole. */
function slugOf(cwd: string): string {
  const slug = cwd.replace(/[^a-zA-Z0-9]/g, "-");
  if (slug.length <= 200) return slug;
  let hash = 0;
  for (let at = 0; at < cwd.length; at += 1) hash = (hash * 31 + cwd.charCodeAt(at)) | 0;
  return `${slug.slice(0, 200)}-${Math.abs(hash).toString(36)}`;
}

function fileOf(id: string, world: DemoWorld): string {
  return join(homeOf(world), "projects", slugOf(world.cwd), `${id}.jsonl`);
}

/** In this project first, else in the only other project that has it. */
function find(id: string, world: DemoWorld): string | null {
  if (existsSync(fileOf(id, world))) return fileOf(id, world);
  const projects = join(homeOf(world), "projects");
  if (!existsSync(projects)) return null;
  const files = readdirSync(projects).map((slug) => join(projects, slug, `${id}.jsonl`));
  const found = files.filter((file) => existsSync(file));
  return found.length === 1 ? (found[0] ?? null) : null;
}

function newest(world: DemoWorld): string | null {
  const directory = join(homeOf(world), "projects", slugOf(world.cwd));
  if (!existsSync(directory)) return null;
  const files = readdirSync(directory).filter((name) => name.endsWith(".jsonl"));
  const changed = (name: string): number => statSync(join(directory, name)).mtimeMs;
  return (
    files
      .toSorted((a, b) => changed(a) - changed(b))
      .at(-1)
      ?.slice(0, -6) ?? null
  );
}

function assertFree(id: string, world: DemoWorld): void {
  if (existsSync(fileOf(id, world))) throw new DemoRefusal(1, `Error: Session ID ${id} is already in use.`);
}

function isMessage(line: JsonObject): boolean {
  return line["type"] === "user" || line["type"] === "assistant";
}

interface Place {
  readonly id: string;
  readonly file: string;
  readonly before: readonly JsonObject[];
  readonly request: Request;
  readonly world: DemoWorld;
}

function conversation({ id, file, before, request, world }: Place): DemoConversation {
  let parentUuid = stringIn(before.at(-1), "uuid") ?? null;
  const write = (type: string, message: JsonObject | null, more: JsonObject = {}): void => {
    const uuid = randomUUID();
    const place = { cwd: request.cwd, sessionId: id, version: CLAUDE_VERSION, gitBranch: "" };
    const said = message === null ? {} : { message };
    const line = {
      parentUuid,
      isSidechain: false,
      userType: "external",
      ...place,
      type,
      ...said,
      uuid,
      ...more,
    };
    parentUuid = uuid;
    if (!request.ephemeral) appendLine(file, { ...line, timestamp: world.now().toISOString() });
  };
  const answer = (content: JsonObject, stop_reason: string, model = request.facts["model"]): JsonObject => ({
    ...{
      id: `msg_${randomUUID()}`,
      type: "message",
      role: "assistant",
      model,
      content: [content],
      stop_reason,
    },
  });
  const result = (content: string, is_error: boolean): JsonObject => ({
    ...{ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_asked", content, is_error }] },
  });
  // Written by the UI alone, also after a turn that failed.
  const over = () =>
    request.chat ? write("system", null, { subtype: "turn_duration", durationMs: 1 }) : undefined;
  return {
    id,
    status: register(id, request, world),
    earlier: before.filter((line) => line["type"] === "user").map(saidIn),
    user: async (text) => write("user", { role: "user", content: text }),
    async assistant(text) {
      write("assistant", answer({ type: "text", text }, "end_turn"));
      over();
    },
    async failed(trouble) {
      const { text, error } = wordsFor(trouble);
      const facts = { error, isApiErrorMessage: true, apiErrorStatus: trouble.status };
      write("assistant", answer({ type: "text", text }, "stop_sequence", "<synthetic>"), facts);
      over();
    },
    wanted: async (command) =>
      write(
        "assistant",
        answer({ type: "tool_use", id: "toolu_asked", name: "Bash", input: { command } }, "tool_use"),
      ),
    answered: async (may) => write("user", result(may ? "done" : "The tool use was rejected", !may)),
  };
}

function saidIn(line: JsonObject): string {
  const message = objectIn(line, "message");
  const parts = arrayIn(message, "content").map((part) => stringIn(part, "text") ?? "");
  return stringIn(message, "content") ?? parts.join("");
}

/** The live registry: gone after a clean end, stale after a kill. A UI has no status before it is ready. */
function register(id: string, request: Request, world: DemoWorld): (status: DemoStatus) => void {
  const directory = join(homeOf(world), "sessions");
  const file = join(directory, `${process.pid}.json`);
  const at = world.now().getTime();
  mkdirSync(directory, { recursive: true });
  const entry = {
    pid: process.pid,
    sessionId: id,
    cwd: request.cwd,
    startedAt: at,
    procStart: startTicks(),
    version: CLAUDE_VERSION,
    kind: "interactive",
    entrypoint: request.chat ? "cli" : "sdk-cli",
  };
  const tell = (status: DemoStatus): void => {
    const now = world.now().getTime();
    const waitingFor = status === "waiting" ? { waitingFor: "permission prompt" } : {};
    const told = { ...entry, status, ...waitingFor, updatedAt: now, statusUpdatedAt: now };
    writeFileSync(file, JSON.stringify(told));
  };
  if (request.chat) writeFileSync(file, JSON.stringify(entry));
  else tell("busy");
  process.once("exit", () => rmSync(file, { force: true }));
  return tell;
}

/** Field 22 of `/proc/self/stat`, counted after the name, which may hold spaces. */
function startTicks(): string | null {
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
  } catch {
    return null;
  }
}
