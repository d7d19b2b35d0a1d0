/** `reprise init`: a commented `reprise.toml` and a first runbook for this project. Never changes an existing file. */
import { chmodSync, closeSync, fchmodSync, mkdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { isErrno } from "../core/errno.ts";
import { harmlessLine } from "../lib/harmless.ts";
import type { Deps } from "../run/run.ts";
import { allEngines, findProgram } from "../run/engine-setup.ts";
import { runbookFolders } from "../runbooks/runbooks.ts";
import { findProjectFile } from "../state/config-text.ts";
import { openNew, storageFault, writeFully } from "../state/files.ts";
import { entriesOf } from "../state/places.ts";
import { type Context, paint } from "./context.ts";
import { defineCommand, flag, JSON_FLAG } from "./define.ts";

export const command = defineCommand({
  name: "init",
  summary: "Write a commented reprise.toml and a first runbook. Existing files stay as they are.",
  options: {
    dryRun: flag("show what would be written, without writing anything"),
    json: JSON_FLAG,
  },
  examples: ["reprise init", "reprise init --dry-run"],
  run: async ({ options, reply }, context) => {
    const cwd = process.cwd();
    const deps = await context.open({ cwd, badConfig: "report" });
    const engines = foundEngines(deps);
    const engine = engines[0] ?? "demo";
    const dryRun = options.dryRun === true;
    const files = plannedFiles(cwd, deps, engines).map((file) => {
      const isWritten = file.exists === null && (dryRun || writeNew(file.path, file.text));
      return { ...file, exists: isWritten ? null : (file.exists ?? file.path) };
    });
    reply(
      {
        engines,
        dryRun,
        files: files.map(({ path, exists }) => ({ path, written: exists === null && !dryRun, exists })),
      },
      () => {
        for (const file of files) print(context, file, { cwd, dryRun });
        for (const line of nextLines(engine)) context.print(line);
      },
    );
    return 0;
  },
});

interface PlannedFile {
  readonly path: string;
  readonly text: string;
  /** The file that exists already, here or above. Null: the file is new. */
  readonly exists: string | null;
}

function plannedFiles(cwd: string, deps: Deps, engines: readonly string[]): readonly PlannedFile[] {
  const runbooks = runbookFolders(cwd, deps.env).find(({ level }) => level === "project");
  const runbook =
    runbooks === undefined
      ? undefined
      : entriesOf(runbooks.path).find((one) => /\.(toml|hcl|json)$/.test(one.name));
  return [
    { path: join(cwd, "reprise.toml"), text: configTemplate(engines), exists: findProjectFile(cwd) },
    {
      path: join(runbooks?.path ?? join(cwd, "runbooks"), "worker.toml"),
      text: runbookTemplate(engines[0] ?? "demo"),
      exists: runbooks === undefined || runbook === undefined ? null : join(runbooks.path, runbook.name),
    },
  ];
}

/** The demo agent is always there, so it is no find. */
function foundEngines(deps: Deps): readonly string[] {
  const order = ["claude", "codex", "gemini", "opencode", "iflow"];
  const found = allEngines(deps).filter((one) => one.id !== "demo" && findProgram(deps, one) !== null);
  return found
    .map(({ id }) => id)
    .filter((id) => order.includes(id))
    .toSorted((one, other) => order.indexOf(one) - order.indexOf(other));
}

/** False: the file exists meanwhile. Files of a project are for everyone who works on it. */
function writeNew(path: string, text: string): boolean {
  try {
    // The process keeps its own files private, so the modes are set apart.
    if (mkdirSync(dirname(path), { recursive: true }) !== undefined) chmodSync(dirname(path), 0o755);
    const fd = openNew(path);
    try {
      writeFully(fd, Buffer.from(text));
      fchmodSync(fd, 0o644);
    } finally {
      closeSync(fd);
    }
    return true;
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false;
    throw storageFault(error, "write", path);
  }
}

function print(
  context: Context,
  { path, exists }: PlannedFile,
  { cwd, dryRun }: { readonly cwd: string; readonly dryRun: boolean },
): void {
  const shown = (file: string) => harmlessLine(relative(cwd, file));
  if (exists !== null) context.print(`kept     ${shown(exists)} (it exists; nothing was changed)`);
  else
    context.print(`${paint(context.terminal, "green", dryRun ? "would write" : "wrote")}    ${shown(path)}`);
}

function nextLines(engine: string): readonly string[] {
  return [
    "",
    "Next:",
    "  reprise config check               check the settings",
    "  reprise runbook check              check the runbook",
    `  reprise start ${engine} "explain this repository"`,
    '  reprise agent run worker --var task="…"     the supervised agent of the runbook',
  ];
}

export function configTemplate(engines: readonly string[]): string {
  const sections = (engines.length === 0 ? ["codex"] : engines).map(
    (id) => `# [engines.${id}]\n# args = []          # native arguments before those of the command line\n`,
  );
  return `# Settings of Reprise for this project. They override your config file
# (\`reprise config path\` names it). Check this file with: reprise config check
# Keys that decide what runs (program, args, env, home, gates) need the trust of every user.

# End an attempt that shows no sign of life for this long; "0" = never.
idle_timeout = "15m"

# End one tool call, and a whole attempt, after this long.
# tool_timeout = "1h"
# timeout = "4h"

# Copy sessions of the engine up to this size in MB; or "off".
# escrow = 256

${sections.join("\n")}
# What agents of \`reprise issues run\` may do ("read", "edit" or "full"), and the commands that
# their work must pass.
# [issues]
# access = "read"
#
# [issues.gate]
# commands = [["npm", "test"]]
`;
}

/** Options with which an agent can edit files and still asks before it does more. */
const OPTIONS: Readonly<Record<string, string>> = {
  claude: " --permission-mode acceptEdits",
  codex: " --sandbox workspace-write",
  gemini: " --approval-mode auto_edit",
};

export function runbookTemplate(engine: string): string {
  return `# A supervised agent. Check this file with: reprise runbook check
# Start the agent with: reprise agent run worker --var task="…"

[agent.worker]
run = "${engine}${OPTIONS[engine] ?? ""}"
vars = { task = { required = true } }
prompt = "\${var.task}"

# The agent has nothing left to do: the work is done.
on_idle = "done"

# The agent died: continue the same conversation.
on_dead = { action = "resume", message = "You were interrupted. Go on.", append = true, attempts = 3 }

# Wait for the end of a rate limit; ask a person about every other error.
on_error = [
  { match = "rate_limited", action = "resume", message = "Go on.", append = true, cooldown = "60s", attempts = 5 },
  { action = "escalate" },
]
`;
}
