/** Codex's command line as data: the options of 0.166, the rights they give, and the rights a resume must name. */
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import { parseJson } from "../lib/json.ts";
import type { Ask } from "./engine.ts";
import {
  describe,
  type Given,
  type Grammar,
  type Guard,
  parseArgs,
  type Parsed,
  scaleOf,
} from "./grammar.ts";

/** Wider is higher. `--yolo` beats `-s` when both are given, so all of them share one scale. */
const SANDBOX = ["read-only", "workspace-write", "--approve-for-me", "danger-full-access", "--yolo"];

function sandbox(fixed?: string): Guard {
  const place = (value: string | null) => SANDBOX.indexOf(fixed ?? value ?? "");
  return { scale: "sandbox", rank: (value) => (place(value) === -1 ? null : place(value)) };
}

/** Settings that neither give nor take rights. Any other key may, so none is added. */
const HARMLESS = new Set(
  `model model_reasoning_effort model_reasoning_summary model_verbosity model_context_window personality
  model_auto_compact_token_limit hide_agent_reasoning show_raw_agent_reasoning service_tier`.split(/\s+/),
);

export const setting: Guard = {
  of(text) {
    const [key, value] = keyAndValue(text ?? "");
    if (HARMLESS.has(key)) return null;
    return key === "sandbox_mode" ? sandbox(value) : "grant";
  },
};

/** `key="value"` of a `-c`, the value without its quotes. */
function keyAndValue(text: string): readonly [key: string, value: string] {
  const at = text.indexOf("=");
  if (at === -1) return ["", ""];
  const value = text.slice(at + 1).trim();
  return [text.slice(0, at).trim(), value.replace(/^(["'])(.*)\1$/, "$2")];
}

/** What the last `-c` says of a setting. */
export function settingIn(options: readonly Given[], name: string): string | undefined {
  const pairs = options
    .filter(({ spec }) => spec?.guard === setting)
    .map(({ values }) => keyAndValue(values.at(-1) ?? ""));
  return pairs.findLast(([key]) => key === name)?.[1];
}

/** 0.166: top level, `exec`, `exec resume`, `exec fork`, `exec review`, `resume`, `fork`, `review`. */
export const grammar: Grammar = {
  strictValues: true,
  commands: {
    "": `exec|e resume fork review agents login logout mcp plugin app-server remote-control completion update doctor
      sandbox debug apply|a queue archive delete migrate-rollouts migrate-nfs-db unarchive cloud exec-server features
      help`.split(/\s+/),
    exec: ["resume", "fork", "review", "help"],
  },
  continues: { resume: "any", "--last": "here", "--all": "any" },
  forks: ["fork"],
  // Without a guard: the model and its provider, what the prompt holds (`-i`), how output looks.
  options: [
    { names: ["--config", "-c"], takes: "value", repeatable: true, guard: setting },
    { names: ["--enable"], takes: "value", repeatable: true, guard: "grant" },
    { names: ["--disable"], takes: "value", repeatable: true, guard: "grant" },
    { names: ["--strict-config"], takes: "none" },
    { names: ["--image", "-i"], takes: "variadic", repeatable: true, bears: "once" },
    { names: ["--model", "-m"], takes: "value" },
    { names: ["--oss"], takes: "none", place: "before" },
    { names: ["--local-provider"], takes: "value", place: "before" },
    { names: ["--profile", "-p"], takes: "value", place: "before", guard: "grant" },
    { names: ["--sandbox", "-s"], takes: "value", place: "before", guard: sandbox() },
    { names: ["--approve-for-me"], takes: "none", place: "before", guard: sandbox("--approve-for-me") },
    {
      names: ["--dangerously-bypass-approvals-and-sandbox", "--yolo"],
      takes: "none",
      guard: sandbox("--yolo"),
    },
    { names: ["--dangerously-bypass-hook-trust"], takes: "none", guard: "grant" },
    { names: ["--cd", "-C"], takes: "value", place: "before", guard: "grant" },
    { names: ["--add-dir"], takes: "value", repeatable: true, place: "before", guard: "grant" },
    { names: ["--worktree"], takes: "none", refuse: "codex makes another worktree with it" },
    { names: ["--thread-source"], takes: "value", only: "headless", bears: "once" },
    { names: ["--cyber-access-program"], takes: "value", only: "headless", guard: "grant" },
    // Trust is given by --trust-cwd.
    { names: ["--skip-git-repo-check"], takes: "none", only: "headless", guard: "extra" },
    { names: ["--ephemeral"], takes: "none", refuse: "codex saves no session with it" },
    { names: ["--ignore-user-config"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--ignore-rules"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--output-schema"], takes: "value", only: "headless" },
    { names: ["--color"], takes: "value", only: "headless", place: "before" },
    { names: ["--json", "--experimental-json"], takes: "none", bears: "output" },
    // Codex itself writes the file, outside the sandbox.
    { names: ["--output-last-message", "-o"], takes: "value", only: "headless", guard: "extra" },
    // `exec` refuses these, the top level accepts them before it.
    { names: ["--ask-for-approval", "-a"], takes: "value", place: "root", guard: "grant" },
    { names: ["--search"], takes: "none", place: "root", guard: "grant" },
    { names: ["--no-alt-screen"], takes: "none", only: "ui", place: "root" },
    { names: ["--no-daemon"], takes: "none", only: "ui", place: "root" },
    { names: ["--remote"], takes: "value", only: "ui", place: "root", guard: "grant" },
    { names: ["--remote-auth-token-env"], takes: "value", only: "ui", place: "root", guard: "grant" },
    { names: ["--last"], takes: "none", bears: "session" },
    { names: ["--all"], takes: "none", bears: "session" },
    { names: ["--include-non-interactive"], takes: "none", bears: "session" },
    { names: ["--uncommitted"], takes: "none", bears: "once" },
    { names: ["--base"], takes: "value", bears: "once" },
    { names: ["--commit"], takes: "value", bears: "once" },
    { names: ["--title"], takes: "value", bears: "once" },
    { names: ["--help", "-h"], takes: "none", bears: "output" },
    { names: ["--version", "-V"], takes: "none", bears: "output" },
  ],
};

/**
 * What a resume adds so that it has no more than the conversation began with. Without `-s` Codex takes the default of
 * the day, and with it what the config of the day says of network and folders; either may be wider.
 */
export function heldRights(ask: Ask, asked: Parsed): readonly Given[] {
  const { rights = [], rightsUnknown } = ask;
  const told = saysSandbox(asked);
  if (rights.length === 0 && rightsUnknown !== undefined && !told) {
    throw new Fault(
      "option_unkept",
      `The run was started without -s, and the sandbox its conversation began with cannot be told: ${rightsUnknown}. ` +
        "Codex would take today's default, which may be wider. Give --native -s --native read-only to continue with the narrowest.",
      { facts: { option: "-s" } },
    );
  }
  const added = asked.options.filter(({ spec }) => spec?.names[0] === "--add-dir");
  const dirs = new Set(added.flatMap(({ values }) => values).map((dir) => resolve(ask.cwd, dir)));
  const words = rights.map((word) => withoutRoots(word, dirs));
  const held = parseArgs(grammar, words, true).options;
  return told ? held.filter((option) => scaleOf(option) !== "sandbox") : held;
}

const ROOTS = "sandbox_workspace_write.writable_roots=";

/** Folders that an option adds again need not be named twice. */
function withoutRoots(word: string, dirs: ReadonlySet<string>): string {
  const roots = word.startsWith(ROOTS) ? parseJson(word.slice(ROOTS.length)) : undefined;
  if (!Array.isArray(roots)) return word;
  return `${ROOTS}${JSON.stringify(roots.filter((root) => !dirs.has(String(root))))}`;
}

export function describeHeld(held: readonly Given[]): readonly string[] {
  return held.map((option) => {
    const from = scaleOf(option) === "sandbox" ? "no sandbox option" : "today's config";
    return `${from} → ${describe([option]).join(" ")}, as the conversation began`;
  });
}

export function saysSandbox(parsed: Parsed): boolean {
  return parsed.options.some((option) => scaleOf(option) === "sandbox");
}
