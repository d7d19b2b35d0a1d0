/** Where the engines keep their logins. Only the presence of a secret counts; its content stays unread. */
import { join } from "node:path";
import type { LoginPlace, LoginState } from "./engine.ts";

const isSet = ({ env }: LoginPlace, names: readonly string[]) =>
  names.some((name) => (env[name] ?? "") !== "");

/** Seen in 0.166.0: `auth.json`; `CODEX_API_KEY` for `exec`; a key store or another provider by the config. */
export function codexLogin(where: LoginPlace): LoginState {
  if (where.has(join(where.home, "auth.json")) || isSet(where, ["CODEX_API_KEY"])) return "yes";
  const config = where.settings(join(where.home, "config.toml")) ?? "";
  const elsewhere = /^[ \t]*(?:model_provider|cli_auth_credentials_store|profile)[ \t]*=/m.test(config);
  return elsewhere || isSet(where, ["OPENAI_API_KEY"]) ? "unknown" : "no";
}

/** Seen in 2.1.325. On macOS the login is in the key store. */
export function claudeLogin(where: LoginPlace): LoginState {
  const keys = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
  if (where.has(join(where.home, ".credentials.json")) || isSet(where, keys)) return "yes";
  const clouds = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
  const settings = where.settings(join(where.home, "settings.json")) ?? "";
  const elsewhere = where.hasKeyStore || isSet(where, clouds) || /"(?:apiKeyHelper|env)"/.test(settings);
  return elsewhere ? "unknown" : "no";
}

/** Seen in 0.61.0. */
export function geminiLogin(where: LoginPlace): LoginState {
  const keys = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
  if (where.has(join(where.home, "oauth_creds.json")) || isSet(where, keys)) return "yes";
  const clouds = ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"];
  const elsewhere = where.hasKeyStore || isSet(where, clouds) || where.has(join(where.home, ".env"));
  return elsewhere ? "unknown" : "no";
}

/** Seen in 1.18.33. Some of its models need no login, so an absent login means nothing. */
export function opencodeLogin(where: LoginPlace): LoginState {
  const keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"];
  return where.has(join(where.home, "auth.json")) || isSet(where, keys) ? "yes" : "unknown";
}

/** Its settings may hold a key. */
export function iflowLogin(where: LoginPlace): LoginState {
  return where.has(join(where.home, "oauth_creds.json")) || isSet(where, ["IFLOW_API_KEY"])
    ? "yes"
    : "unknown";
}
