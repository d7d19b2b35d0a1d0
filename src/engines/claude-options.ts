/** The options of Claude Code and the variables that affect its rights. */
import type { Grammar, Guard, OptionSpec } from "./grammar.ts";

/** Wider is higher. `manual` is the newer name of `default`. */
const MODES: Readonly<Record<string, number>> = {
  plan: 0,
  dontAsk: 1,
  default: 2,
  manual: 2,
  acceptEdits: 3,
  auto: 4,
  bypassPermissions: 5,
};
const mode: Guard = { scale: "mode", rank: (value) => MODES[value ?? ""] ?? null };
const bypass: Guard = { scale: "mode", rank: () => 5 };

/** One option per line, `|` between its spellings; `<>` takes a value, `[]` may take one, `...` takes many. */
function table(lines: string, common: Omit<OptionSpec, "names" | "takes" | "repeatable"> = {}): OptionSpec[] {
  return lines
    .trim()
    .split(/\n\s*/)
    .map((line) => {
      const [names = "", value = ""] = line.split(" ");
      const takes = {
        "": "none",
        "<>": "value",
        "<>*": "value",
        "[]": "optional",
        "...": "variadic",
      } as const;
      return {
        names: names.split("|"),
        takes: takes[value as keyof typeof takes],
        ...(value === "..." || value === "<>*" ? { repeatable: true } : {}),
        ...common,
      };
    });
}

/** 2.1.325, including common hidden options; 2.1.197 has fewer and no different ones. */
export const claudeGrammar: Grammar = {
  continues: { "--continue": "here", "--resume": "any", "--from-pr": "any" },
  forks: ["--fork-session"],
  commands: {
    "": `agents attach auth auto-mode doctor gateway import install logs mcp plugin|plugins project purge respawn rm
      setup-token stop|kill ultrareview update|upgrade remote-control|rc`.split(/\s+/),
  },
  options: [
    // No rights: the model, its instructions, the cost of a turn, the look of output.
    ...table(
      `--model <>
      --fallback-model <>
      --effort <>
      --autocompact <>
      --betas ...
      --system-prompt <>
      --system-prompt-file <>
      --append-system-prompt <>
      --append-system-prompt-file <>
      --system-prompt-snapshot <>
      --exclude-dynamic-system-prompt-sections
      --brief
      --debug|-d []
      --debug-to-stderr|-d2e
      --thinking <>
      --max-thinking-tokens <>`,
    ),
    ...table(
      `--max-turns <>
      --max-budget-usd <>
      --task-budget <>
      --json-schema <>
      --include-partial-messages
      --include-hook-events
      --forward-subagent-text
      --prompt-suggestions []`,
      { only: "headless" },
    ),
    ...table(
      `--ax-screen-reader
      --teammate-mode <>`,
      { only: "ui" },
    ),
    ...table(
      `--allowedTools|--allowed-tools ...
      --tools ...
      --setting-sources <>
      --plugin-url <>*
      --debug-file <>
      --agent <>
      --agents <>
      --chrome
      --ide
      --bare
      --safe-mode
      --permission-prompt-tool <>
      --permission-prompts <>
      --allow-dangerously-skip-permissions
      --enable-auto-mode
      --remote-control|--rc []
      --remote-control-session-name-prefix <>
      --channels ...`,
      { guard: "grant" },
    ),
    ...table("--add-dir ...", { guard: "grant", opens: "path" }),
    ...table(
      `--mcp-config ...
      --settings <>
      --managed-settings <>
      --plugin-dir <>*
      --plugin-dir-no-mcp <>*`,
      { guard: "grant", reads: "path" },
    ),
    ...table(
      `--disallowedTools|--disallowed-tools ...
      --restricted
      --strict-mcp-config
      --disable-slash-commands
      --no-chrome`,
      { guard: "limit" },
    ),
    ...table("--permission-mode <>", { guard: mode }),
    ...table("--dangerously-skip-permissions", { guard: bypass }),
    ...table(
      `--print|-p
      --verbose
      --output-format <>
      --input-format <>
      --replay-user-messages
      --help|-h
      --version|-v`,
      { bears: "output" },
    ),
    ...table(
      `--session-id <>
      --resume|-r []
      --continue|-c
      --fork-session
      --from-pr []
      --resume-session-at <>`,
      { bears: "session" },
    ),
    ...table(
      `--name|-n <>
      --tmux
      --prefill <>`,
      { bears: "once" },
    ),
    // Files that Claude itself writes, another working directory, hooks. A resume returns to the worktree on its own.
    ...table(
      `--file ...
      --worktree|-w []
      --init`,
      { bears: "once", guard: "grant" },
    ),
    ...table("--no-session-persistence", { refuse: "claude saves no session with it" }),
    ...table(
      `--bg|--background
      --cloud []
      --remote []
      --environment <>
      --teleport []
      --desktop`,
      { refuse: "the session belongs to another process or machine" },
    ),
  ],
};

/** Trust and bypass, settings and plugins from elsewhere, switches that are also options, and command checks. */
export const CLAUDE_RIGHTS = `CLAUDE_CODE_SANDBOXED IS_SANDBOX CLAUDE_CODE_IGNORE_PERSISTED_TRUST
  CLAUDE_CODE_EVEN_MORE_DANGEROUSLY_SKIP_PERMISSIONS CLAUDE_CODE_ENABLE_AUTO_MODE
  CLAUDE_CODE_MANAGED_SETTINGS_PATH CLAUDE_CODE_REMOTE_SETTINGS_PATH CLAUDE_CODE_DISABLE_ADMIN_ENV_UNION
  CLAUDE_CODE_PLUGIN_DIRS CLAUDE_CODE_PLUGIN_CACHE_DIR CLAUDE_CODE_PLUGIN_SEED_DIR ENABLE_CLAUDEAI_MCP_SERVERS
  CLAUDE_CODE_SIMPLE CLAUDE_CODE_SAFE_MODE CLAUDE_CODE_RESTRICTED CLAUDE_CODE_RESTRICT_PERSONAL_CONFIG
  CLAUDE_CODE_ENABLE_CFC CLAUDE_CHROME_PERMISSION_MODE CLAUDE_CODE_MCP_ALLOWLIST_ENV
  CLAUDE_CODE_SUBPROCESS_ENV_SCRUB CLAUDE_CODE_SHELL CLAUDE_CODE_SHELL_PREFIX
  CLAUDE_CODE_DISABLE_SUBSTITUTION_RM_PROMPT CLAUDE_CODE_DISABLE_INLINE_SHELL_RM_PROMPT
  CLAUDE_CODE_STRICT_INLINE_SHELL_RM_PROMPT CLAUDE_CODE_DISABLE_MOUNTED_DRIVE_RM_PROMPT
  CLAUDE_CODE_DISABLE_EXPORTED_VARIABLE_PROMPT CLAUDE_CODE_DISABLE_WEB_FETCH`.split(/\s+/);
