/**
 * The laboratory of each engine: the settings that point it at the loopback model and silence it, and the location of
 * its files. Everything in a case that depends on an engine is here.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DeliveredRights } from "./deliveries.ts";
import type { Lab, LabSight } from "./lab.ts";

export const KEY = "conformance-dummy-key-0123456789";

/** A lab without its program: `doctor --certify` adds the user's, the conformance suite a pinned one. */
export type EngineLab = Omit<Lab, "program">;

function write(file: string, content: unknown): void {
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content, null, 2));
}

/** Whether it is one of the engine's own files; a file that was set aside has another name. */
function isWhole(file: string): boolean {
  return file.endsWith(".jsonl");
}

function filesNamed(folder: string, text: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.includes(text))
    .map((name) => join(folder, name));
}

function lastLineWith(text: string, files: readonly string[]): string {
  const lines = files.flatMap((file) => readFileSync(file, "utf8").split("\n"));
  return lines.findLast((line) => line.includes(text)) ?? "";
}

const codex: EngineLab = {
  id: "codex",
  engine: "codex",
  idle: "6s",
  native: [],
  flags: [],
  quick: [],
  tools: ["-s", "danger-full-access"],
  options: {
    native: [
      "-m",
      "gpt-other",
      "-s",
      "workspace-write",
      "--add-dir",
      "{extra}",
      "--add-dir",
      "{more}",
      "-c",
      'model_reasoning_effort="high"',
      "-c",
      'web_search="disabled"',
    ],
    evidence: [
      { what: "model", in: "model", has: "gpt-other" },
      { what: "sandbox", in: "log", has: "workspace-write" },
      { what: "extra directory", in: "log", has: "{extra}" },
      { what: "second extra directory", in: "log", has: "{more}" },
      { what: "config override", in: "body", has: '"effort":"high"' },
      { what: "second config override", in: "tools", lacks: "\nweb_search\n" },
    ],
    lacking: {},
  },
  text: (message) => ["exec", message],
  env: () => ({ LAB_KEY: KEY }),
  prepare(place, url) {
    write(
      join(place.home, ".codex", "config.toml"),
      `model = "gpt-test"
model_provider = "lab"
check_for_update_on_startup = false
[model_providers.lab]
name = "lab"
base_url = "${url}/v1"
env_key = "LAB_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 300000
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
[features]
plugins = false
`,
    );
  },
  storeFiles: (place) => filesNamed(join(place.home, ".codex", "sessions"), ".jsonl"),
  sessionFiles: (place, session) => filesNamed(join(place.home, ".codex", "sessions"), session),
  turnLog: (place) => lastLineWith('"type":"turn_context"', codex.storeFiles(place)),
  widen(place) {
    const config = join(place.home, ".codex", "config.toml");
    writeFileSync(config, `sandbox_mode = "danger-full-access"\n${readFileSync(config, "utf8")}`);
  },
  rights({ log, screen }) {
    if (log === "") return {};
    const { payload } = JSON.parse(log) as { payload: Record<string, unknown> };
    const sandbox = [
      JSON.stringify(payload["sandbox_policy"]),
      JSON.stringify(payload["permission_profile"]),
    ];
    // A turn without the UI leaves its approval policy behind, and the UI adopts it.
    return screen === null ? { sandbox, approval: [String(payload["approval_policy"])] } : { sandbox };
  },
  conversations: (place) => codex.storeFiles(place).filter(isWhole).length,
  engineHome: (place) => join(place.home, ".codex"),
  resumeByHand: (session) => ["exec", "resume", "--json", session, "-"],
};

function claudeOptions(isNew: boolean): Lab["options"] {
  return {
    native: [
      ...["--model", "claude-other-1", "--permission-mode", "acceptEdits", "--add-dir", "{extra}"],
      ...["--add-dir", "{more}", "--append-system-prompt", "CONFORMANCE-MARK"],
      ...["--disallowedTools", "Edit", "--disallowedTools", "Workflow"],
      ...["--settings", '{"permissions":{"deny":["Write"]}}'],
    ],
    evidence: [
      { what: "model", in: "model", has: "claude-other-1", kept: isNew },
      {
        what: "permission mode",
        in: "stdout",
        has: '"permissionMode":"acceptEdits"',
        screen: "accept edits on",
      },
      // Without the folder the history still names it, and a note says that it was removed.
      { what: "extra directory", in: "body", has: "{extra}", lacks: "working directories removed" },
      { what: "second extra directory", in: "body", has: "{more}", lacks: "working directories removed" },
      { what: "system prompt", in: "system", has: "CONFORMANCE-MARK", kept: isNew },
      { what: "config override", in: "tools", lacks: "\nWrite\n" },
      { what: "tools", in: "tools", lacks: "\nEdit\n" },
      { what: "second option for tools", in: "tools", lacks: "\nWorkflow\n" },
    ],
    lacking: {},
  };
}

function claudeRights({ turn, stdout, screen }: LabSight): DeliveredRights {
  if (screen === null) {
    const mode = /"permissionMode":"(\w+)"/.exec(stdout)?.[1];
    return { tools: turn.tools, ...(mode === undefined ? {} : { "permission mode": [mode] }) };
  }
  const shown = [...screen.matchAll(/[⏵⏸] ([a-z ]{1,40}) on\b|\? for shortcuts/g)].at(-1);
  // It is hidden in the middle of an answer.
  const mode = shown === undefined ? {} : { "mode on the screen": [shown[1] ?? "default"] };
  return { "tools in the UI": turn.tools, ...mode };
}

/** `isNew`: false for versions that forget on a resume what newer ones keep with the conversation. */
export function claudeLab(id: string, isNew: boolean): EngineLab {
  return {
    id,
    engine: "claude",
    idle: "6s",
    native: [],
    flags: [],
    quick: [],
    tools: ["--allowedTools", "Bash"],
    options: claudeOptions(isNew),
    text: (message) => ["-p", message],
    env: (place, url) => ({
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: KEY,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      CLAUDE_CODE_MAX_RETRIES: "1",
      CLAUDE_CODE_TMPDIR: place.tmp,
    }),
    prepare(place) {
      // Without this the UI asks; `-p` does not need it.
      write(join(place.home, ".claude.json"), {
        hasCompletedOnboarding: true,
        customApiKeyResponses: { approved: [KEY.slice(-20)], rejected: [] },
        projects: { [place.project]: { hasTrustDialogAccepted: true } },
      });
    },
    storeFiles: (place) => filesNamed(join(place.home, ".claude", "projects"), ".jsonl"),
    sessionFiles: (place, session) => filesNamed(join(place.home, ".claude", "projects"), `${session}.jsonl`),
    turnLog: () => "",
    widen: null,
    rights: claudeRights,
    conversations(place) {
      return this.storeFiles(place).filter(isWhole).length;
    },
    engineHome: (place) => join(place.home, ".claude"),
    resumeByHand: (session) => ["-p", "--output-format", "stream-json", "--verbose", "--resume", session],
  };
}

const gemini: EngineLab = {
  id: "gemini",
  engine: "gemini",
  idle: "20s",
  native: ["-m", "gemini-2.5-flash"],
  flags: ["--trust-cwd"],
  quick: [],
  tools: ["--approval-mode", "yolo"],
  options: {
    native: [
      "-m",
      "gemini-2.5-pro",
      "--approval-mode",
      "auto_edit",
      "--include-directories",
      "{extra}",
      "--include-directories",
      "{more}",
    ],
    evidence: [
      { what: "model", in: "model", has: "gemini-2.5-pro" },
      // Allows edits, which the default does not, but no shell.
      { what: "approval mode", in: "tools", has: "write_file", lacks: "run_shell_command" },
      { what: "extra directory", in: "body", has: "{extra}" },
      { what: "second extra directory", in: "body", has: "{more}" },
    ],
    lacking: { "config override": "no option of it overrides a single setting" },
  },
  text: (message) => ["-p", message],
  env: (_place, url) => ({ GEMINI_API_KEY: KEY, GOOGLE_GEMINI_BASE_URL: url }),
  prepare(place) {
    write(join(place.home, ".gemini", "settings.json"), {
      security: { auth: { selectedType: "gemini-api-key" } },
      general: { maxAttempts: 1, enableAutoUpdate: false, enableAutoUpdateNotification: false },
      privacy: { usageStatisticsEnabled: false },
      telemetry: { enabled: false },
    });
  },
  storeFiles: (place) => filesNamed(join(place.home, ".gemini", "tmp"), ".jsonl"),
  sessionFiles: (place, session) =>
    filesNamed(join(place.home, ".gemini", "tmp"), `-${session.slice(0, 8)}.jsonl`),
  turnLog: () => "",
  widen: null,
  rights: ({ turn }) => ({ tools: turn.tools }),
  // A resume in another minute continues in another file with the same id.
  conversations: (place) =>
    new Set(
      gemini
        .storeFiles(place)
        .filter(isWhole)
        .map((file) => file.slice(-"12345678.jsonl".length)),
    ).size,
  engineHome: (place) => join(place.home, ".gemini"),
  resumeByHand: (session) => [
    "-m",
    "gemini-2.5-flash",
    "--skip-trust",
    "-o",
    "stream-json",
    `--resume=${session}`,
  ],
};

const opencode: EngineLab = {
  id: "opencode",
  engine: "opencode",
  idle: "20s",
  native: [],
  flags: [],
  // A copy needs another start of the program, which takes as long as the turn itself.
  quick: ["--no-escrow"],
  tools: [],
  options: {
    native: ["-m", "lab/m2", "--agent", "plan", "--variant", "high"],
    evidence: [
      { what: "model", in: "model", has: "m2", kept: true },
      { what: "agent", in: "body", has: "Plan Mode" },
      { what: "config override", in: "body", has: '"reasoning_effort":"high"' },
    ],
    lacking: { "extra directory": "it has no such option" },
  },
  // It quotes an argument with a blank before it sends it, so a quoted message is one argument.
  text: (message) => ["run", ...(/^".*"$/.test(message) ? [message.slice(1, -1)] : message.split(" "))],
  env: () => ({
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_SHARE: "1",
  }),
  prepare(place, url) {
    const limit = { context: 100_000, output: 4096 };
    const variants = { high: { reasoningEffort: "high" } };
    write(join(place.home, ".config", "opencode", "opencode.json"), {
      autoupdate: false,
      snapshot: false,
      share: "disabled",
      model: "lab/m1",
      small_model: "lab/m1",
      provider: {
        lab: {
          npm: "@ai-sdk/openai-compatible",
          options: { baseURL: `${url}/v1`, apiKey: KEY },
          models: { m1: { name: "M1", limit }, m2: { name: "M2", limit, variants } },
        },
      },
    });
  },
  storeFiles: (place) => filesNamed(join(place.home, ".local", "share", "opencode"), "opencode.db"),
  sessionFiles: () => null,
  turnLog: () => "",
  widen: null,
  rights: ({ turn }) => ({ tools: turn.tools, agent: [turn.body.includes("Plan Mode") ? "plan" : "build"] }),
  // One database holds all conversations.
  conversations: () => null,
  engineHome: (place) => join(place.home, ".local", "share", "opencode"),
  resumeByHand: (session) => ["run", "--format", "json", `--session=${session}`],
};

export const LABS: readonly EngineLab[] = [codex, claudeLab("claude", true), gemini, opencode];
