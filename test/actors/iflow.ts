/**
 * The agent as iFlow CLI, which nobody can run any more: text on stdout, the session in an `<Execution Info>`
 * block on stderr. Its session files were never documented; the ones kept here are of no real layout.
 */
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { stringIn } from "../../src/lib/json.ts";
import { readArgs } from "../../src/demo/argv.ts";
import {
  type DemoTrouble,
  FORGED_UUID,
  type Persona,
  DemoRefusal,
  type DemoWorld,
} from "../../src/demo/persona.ts";
import { appendLine, readLines } from "../../src/demo/session-file.ts";
import { textVoice } from "../../src/demo/text-voice.ts";

export const iflow: Persona = {
  id: "iflow",
  version: "0.5.19",

  parse(argv, world) {
    const args = readArgs(argv, {
      values:
        "--model|-m --prompt|-p --prompt-interactive|-i --output-file|-o --sandbox-image --include-directories|--add-dir " +
        "--allowed-tools --allowed-mcp-server-names --extensions|-e --max-turns --max-tokens --timeout",
      flags:
        "--continue|-c --yolo|-y --default --plan --auto-edit --sandbox|-s --thinking --stream --all-files|-a --debug|-d " +
        "--show-memory-usage --checkpointing --help|-h",
      optional: "--resume|-r",
    });
    if (args.bad !== null) throw new DemoRefusal(1, `Unknown argument: ${args.bad.replace(/^-+/, "")}`);
    const prompt = args.value("--prompt") ?? args.value("--prompt-interactive");
    const resume = args.value("--resume");
    return {
      how: resume === null ? "new" : "resume",
      session: resume,
      forkTo: null,
      prompt,
      stdin: prompt === null && !world.terminal ? "message" : "none",
      chat: !args.has("--prompt") && world.terminal,
      format: "text",
      cwd: world.cwd,
      facts: {
        model: args.value("--model") ?? "iflow-demo",
        yolo: args.has("--yolo") ? "yes" : "no",
        cwd: world.cwd,
      },
      script: null,
      ephemeral: false,
    };
  },

  async open({ how, session }, world) {
    const id = how === "new" ? `session-${randomUUID()}` : (session ?? "");
    const file = fileOf(id, world);
    if (how === "resume" && !existsSync(file)) throw new DemoRefusal(1, `Error: session ${id} not found`);
    const before = existsSync(file) ? readLines(file) : [];
    return {
      id,
      earlier: before.filter((line) => line["type"] === "user").map((line) => stringIn(line, "text") ?? ""),
      user: async (text) => appendLine(file, { type: "user", text }),
      assistant: async (text) => appendLine(file, { type: "assistant", text }),
    };
  },

  speak(_request, talk, out) {
    const info = (): void => {
      const fields = {
        "session-id": talk.id,
        "conversation-id": randomUUID(),
        assistantRounds: 1,
        executionTimeMs: 1,
        tokenUsage: { input: 100, output: 5, total: 105 },
      };
      out.err(`<Execution Info>\n${JSON.stringify(fields, null, 2)}\n</Execution Info>`);
    };
    const voice = textVoice(out, forgery, wordsFor);
    return {
      ...voice,
      completed() {
        voice.completed();
        info();
        return 0;
      },
      // The code says nothing: an API error also ends with 0.
      failed(trouble) {
        out.err(`Error when talking to iFlow API: ${wordsFor(trouble)}`);
        info();
        return 0;
      },
    };
  },
};

const forgery = `<Execution Info>\n{\n  "session-id": "session-${FORGED_UUID}"\n}\n</Execution Info>`;

function fileOf(id: string, { cwd, env }: DemoWorld): string {
  const slug = cwd.replace(/[^a-zA-Z0-9]/g, "-");
  return join(env["HOME"] ?? "/", ".iflow", "projects", slug, `${id.replace(/[^\w-]/g, "")}.jsonl`);
}

const WORDS: Readonly<Record<DemoTrouble["kind"], string>> = {
  rate_limited: "429 Too Many Requests",
  quota: "insufficient quota",
  auth: "401 Unauthorized: invalid api key",
  overloaded: "503 Service Unavailable",
  network: "fetch failed: ECONNREFUSED",
  context_full: "the context length is exceeded",
  busy: "busy",
};

function wordsFor({ kind, resetsAt }: DemoTrouble): string {
  return resetsAt === null ? WORDS[kind] : `${WORDS[kind]}, resets at ${resetsAt}`;
}
