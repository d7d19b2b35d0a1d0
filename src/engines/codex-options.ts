/** Codex's command line as data: the options of 0.166, the rights they give, and the rights a resume must name. */
import { resolve } from "node:path";
import { Fault } from "../core/faults.ts";
import { fieldIn, isObject, type JsonObject, numberIn, objectIn, parseJson, stringIn } from "../lib/json.ts";
import type { AttemptRequest } from "./engine.ts";
import {
  describe,
  type Given,
  type Grammar,
  type Guard,
  has,
  lastWins,
  parseArgs,
  type Parsed,
  valueOf,
  GRANTS,
} from "./grammar.ts";
import { rightOf, scaleOf } from "./rights.ts";

/** Wider is higher. `--yolo` overrides `-s`, so all of them share one scale. */
const SANDBOX = ["read-only", "workspace-write", "--approve-for-me", "danger-full-access", "--yolo"];

function sandbox(fixed?: string): Guard {
  const place = (value: string | null) => SANDBOX.indexOf(fixed ?? value ?? "");
  return { scale: "sandbox", rank: (value) => (place(value) === -1 ? null : place(value)) };
}

/** Settings that neither give nor take rights. Any other key may, so a later attempt cannot add it. */
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
export function keyAndValue(text: string): readonly [key: string, value: string] {
  const at = text.indexOf("=");
  if (at === -1) return ["", ""];
  const value = text.slice(at + 1).trim();
  return [text.slice(0, at).trim(), value.replace(/^(["'])(.*)\1$/, "$2")];
}

/** The value of a setting in the last `-c`. */
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
  // Without a guard: the model and its provider, the prompt's content (`-i`), the look of output.
  options: [
    { names: ["--config", "-c"], takes: "value", repeatable: true, guard: setting },
    { names: ["--enable"], ...GRANTS },
    { names: ["--disable"], ...GRANTS },
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
    { names: ["--cd", "-C"], takes: "value", place: "before", guard: "grant", opens: "path" },
    {
      names: ["--add-dir"],
      takes: "value",
      repeatable: true,
      place: "before",
      guard: "grant",
      opens: "path",
    },
    { names: ["--worktree"], takes: "none", refuse: "codex makes another worktree with it" },
    { names: ["--thread-source"], takes: "value", only: "headless", bears: "once" },
    { names: ["--cyber-access-program"], takes: "value", only: "headless", guard: "grant" },
    // --trust-cwd gives trust.
    { names: ["--skip-git-repo-check"], takes: "none", only: "headless", guard: "extra" },
    { names: ["--ephemeral"], takes: "none", refuse: "codex saves no session with it" },
    { names: ["--ignore-user-config"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--ignore-rules"], takes: "none", only: "headless", guard: "grant" },
    { names: ["--output-schema"], takes: "value", only: "headless" },
    { names: ["--color"], takes: "value", only: "headless", place: "before" },
    { names: ["--json", "--experimental-json"], takes: "none", bears: "output" },
    // Codex itself writes the file, outside the sandbox.
    { names: ["--output-last-message", "-o"], takes: "value", only: "headless", guard: "extra" },
    // `exec` refuses these; the top level accepts them before it.
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

export const NARROWEST = ["-s", "read-only"];

/**
 * The options that a resume adds so that it has no more rights than the conversation began with. Without `-s` Codex
 * uses the current default, and with it the current config for network and folders; either may be wider.
 */
export function heldRights(ask: AttemptRequest, asked: Parsed): readonly Given[] {
  const { rights = [], rightsUnknown } = ask;
  const told = saysSandbox(asked);
  if (rights.length === 0 && rightsUnknown !== undefined && !told) {
    throw new Fault(
      "option_unkept",
      `The run was started without -s, and the first sandbox of its conversation is unknown: ${rightsUnknown}. ` +
        `Codex would take today's default, which may be wider. Give --native ${NARROWEST.join(" --native ")} to continue with the narrowest.`,
      { facts: { option: "-s" } },
    );
  }
  const added = asked.options.filter(({ spec }) => spec?.names[0] === "--add-dir");
  const dirs = new Set(added.flatMap(({ values }) => values).map((dir) => resolve(ask.cwd, dir)));
  const words = rights.map((word) => renamed(withoutRoots(word, dirs), ask.nonce));
  const held = parseArgs(grammar, words, true).options;
  if (heldProfile((name) => settingIn(held, name)) !== null) return wholeProfile(held, asked);
  return told ? held.filter((option) => scaleOf(option) !== "sandbox") : held;
}

/** A sandbox option would switch the profile off, with all its read restrictions. */
function wholeProfile(held: readonly Given[], asked: Parsed): readonly Given[] {
  const profile = heldProfile((name) => settingIn(held, name));
  const { name = "", isWhole = false } = profile ?? {};
  const began = `The conversation began with the permission profile ${JSON.stringify(name)} of Codex's config`;
  const given = asked.options.find((option) => scaleOf(option) === "sandbox");
  if (given !== undefined) {
    const option = describe([given]).join(" ");
    throw new Fault(
      "would_widen",
      `${began}, and ${option} would switch it off. Leave ${option} out; or start a new run with it.`,
      { facts: { option: given.name, profile: name } },
    );
  }
  if (isWhole) return held;
  throw new Fault(
    "option_unkept",
    `${began}, and the session does not show its rules, so Reprise cannot keep them. Start a new run instead.`,
    { facts: { option: "default_permissions", profile: name } },
  );
}

const ROOTS = "sandbox_workspace_write.writable_roots=";

/** Folders that an option adds again need not appear twice. */
function withoutRoots(word: string, dirs: ReadonlySet<string>): string {
  const roots = word.startsWith(ROOTS) ? parseJson(word.slice(ROOTS.length)) : undefined;
  if (!Array.isArray(roots)) return word;
  return `${ROOTS}${JSON.stringify(roots.filter((root) => !dirs.has(String(root))))}`;
}

export function describeHeld(held: readonly Given[]): readonly string[] {
  return held.flatMap((option) => {
    const isSetting = option.spec?.guard === setting;
    const [key] = isSetting ? keyAndValue(option.values.at(-1) ?? "") : [""];
    if (key === "projects") return ["trust in the folder → none, as when the run was started"];
    const profile = isSetting ? describeProfile(key) : undefined;
    if (profile !== undefined) return profile ?? [];
    const from = scaleOf(option) === "sandbox" ? "no sandbox option" : "today's config";
    return [`${from} → ${describe([option]).join(" ")}, as the conversation began`];
  });
}

/** Whether the sandbox may write to `$TMPDIR`; true if no option names the sandbox. */
export function opensTmpdir(parsed: Parsed): boolean {
  const last = (name: string) => settingIn(parsed.options, name);
  const profile = last("default_permissions");
  const rules = profile === undefined ? undefined : last(`permissions.${profile}.filesystem`);
  if (rules !== undefined) return rules.includes('":tmpdir"="write"');
  const mode = valueOf(parsed, "--sandbox") ?? last("sandbox_mode");
  if (has(parsed, "--yolo") || mode === "read-only" || mode === "danger-full-access") return false;
  return last("sandbox_workspace_write.exclude_tmpdir_env_var") !== "true";
}

export function saysSandbox(parsed: Parsed): boolean {
  return parsed.options.some((option) => scaleOf(option) === "sandbox");
}

/*
 * Permission profiles of 0.166: `default_permissions = "p"` with `[permissions.p]`, which may forbid reading. A sandbox
 * option silently switches a profile off, and its definition may change before the next attempt. So an attempt carries
 * the rules themselves, as Codex wrote them into the first turn's context.
 */

/**
 * Codex merges a profile with entries of the same name in any of its config files, including the project's. So the
 * carried rules get an unpredictable name; the records have it without the nonce.
 */
const HELD = "reprise-held";
const HELD_NAME = /^reprise-held(?:-[0-9a-f]{32})?-?/;
const NAME = /^[A-Za-z0-9_-]{1,60}$/;
const ACCESS: readonly unknown[] = ["read", "write", "deny"];
const SPECIAL: readonly unknown[] = ["root", "minimal", "slash_tmp", "tmpdir"];

/**
 * Options that preserve the profile of a turn's context. Null: no profile of the user; Codex's built-in ones
 * (`:workspace`) are the sandboxes that `-s` names. Only the profile's name: its rules are unreadable.
 */
export function profileIn(context: JsonObject): readonly string[] | null {
  const active = fieldIn(context, "active_permission_profile");
  if (active === undefined || active === null) return null;
  const id = stringIn(active, "id") ?? "";
  if (id.startsWith(":")) return null;
  const profile = objectIn(context, "permission_profile");
  const rules = rulesIn(profile);
  if (rules === null) return config("default_permissions", JSON.stringify(id));
  const own = id.replace(HELD_NAME, "");
  const name = NAME.test(own) ? `${HELD}-${own}` : HELD;
  const isClosed = stringIn(profile, "network") === "restricted";
  return [
    ...config(`permissions.${name}.filesystem`, rules),
    // The context does not list the allowed hosts of an open network.
    ...(isClosed ? [] : config(`permissions.${name}.network`, "{enabled=false}")),
    ...config("default_permissions", JSON.stringify(name)),
  ];
}

function renamed(word: string, nonce: string | undefined): string {
  if (nonce === undefined) return word;
  return word.replace(/^(permissions\.|default_permissions=")reprise-held/, `$1${HELD}-${nonce}`);
}

function config(key: string, value: string): readonly string[] {
  return ["-c", `${key}=${value}`];
}

/** As an inline TOML table, whose strings are JSON strings. Null: part of it is unknown. */
function rulesIn(profile: JsonObject | undefined): string | null {
  const files = objectIn(profile, "file_system");
  const entries = fieldIn(files, "entries");
  const isKnown = stringIn(profile, "type") === "managed" && stringIn(files, "type") === "restricted";
  if (!isKnown || !Array.isArray(entries) || entries.length === 0) return null;
  const rules = new Map<string, string>();
  for (const entry of entries as readonly unknown[]) {
    const path = pathIn(fieldIn(entry, "path"));
    const access = fieldIn(entry, "access");
    if (path === null || rules.has(path) || !ACCESS.includes(access)) return null;
    rules.set(path, String(access));
  }
  const depth = numberIn(files, "glob_scan_max_depth");
  const words = [...rules].map(([path, access]) => `${JSON.stringify(path)}=${JSON.stringify(access)}`);
  return `{${[...words, ...(depth === undefined ? [] : [`glob_scan_max_depth=${depth}`])].join(",")}}`;
}

function pathIn(path: unknown): string | null {
  const type = stringIn(path, "type");
  if (type === "path") return absolute(stringIn(path, "path"));
  if (type === "glob_pattern") return absolute(stringIn(path, "pattern"));
  const value = fieldIn(path, "value");
  const kind = stringIn(value, "kind");
  const isPlain = type === "special" && isObject(value) && Object.keys(value).length === 1;
  return isPlain && SPECIAL.includes(kind) ? `:${kind ?? ""}` : null;
}

function absolute(path: string | undefined): string | null {
  return path?.startsWith("/") === true ? path : null;
}

/** `default_permissions` of a config file, unless it is a built-in profile of Codex. */
export function ownProfile(text: string): string | null {
  for (const line of text.split("\n")) {
    // After the first table header, the key belongs to that table.
    if (line.trimStart().startsWith("[")) return null;
    const at = line.indexOf("=");
    const key = line.slice(0, Math.max(at, 0)).trim().replaceAll(/["']/g, "");
    if (key !== "default_permissions") continue;
    const value = line.slice(at + 1).trim();
    return /^["']:/.test(value) ? null : `default_permissions = ${value}`;
  }
  return null;
}

export function namesProfile(option: Given): boolean {
  return (
    option.spec?.guard === setting && keyAndValue(option.values.at(-1) ?? "")[0] === "default_permissions"
  );
}

interface HeldProfile {
  readonly name: string;
  /** Its rules are present as well. */
  readonly isWhole: boolean;
}

/** The profile that settings name; `last` gives the last value of a setting. */
function heldProfile(last: (key: string) => string | undefined): HeldProfile | null {
  const id = last("default_permissions");
  if (id === undefined) return null;
  const isWhole = id.startsWith(HELD) && last(`permissions.${id}.filesystem`) !== undefined;
  return { name: id.replace(HELD_NAME, ""), isWhole };
}

/** What a setting of `profileIn` does to the profile, as words for a message. Undefined: another setting. */
function describeProfile(key: string): string | null | undefined {
  if (key === "default_permissions") return null;
  if (!key.startsWith(`permissions.${HELD}`)) return undefined;
  const [, name = ""] = key.split(".");
  const profile = `permission profile ${name.replace(HELD_NAME, "")}`.trim();
  return key.endsWith(".network")
    ? `network of the ${profile} → closed: Codex does not record which hosts it was open to`
    : `${profile} → its rules as the conversation began`;
}

/** Whether an option names a sandbox that may write. `unknown`: the answer for a sandbox that Reprise does not know. */
export function mayWrite(parsed: Parsed, unknown = false): boolean {
  return lastWins(parsed.options).some((option) => {
    const right = rightOf(option);
    if (typeof right !== "object" || right?.scale !== "sandbox") return false;
    return right.rank === null ? unknown : right.rank > 0;
  });
}
