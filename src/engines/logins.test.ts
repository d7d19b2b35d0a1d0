import { expect, test } from "vitest";
import { ENGINES } from "./engines.ts";
import type { LoginState } from "./engine.ts";

interface Given {
  readonly files?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly hasKeyStore?: true;
}

const cases: Record<string, [engine: string, given: Given, state: LoginState]> = {
  "codex with auth.json is logged in": ["codex", { files: { "auth.json": "{…}" } }, "yes"],
  "codex with its key is logged in": ["codex", { env: { CODEX_API_KEY: "k" } }, "yes"],
  "codex without anything is not logged in": ["codex", {}, "no"],
  "codex with another provider is unknown": [
    "codex",
    { files: { "config.toml": 'model_provider = "lab"\n' } },
    "unknown",
  ],
  "codex with other settings is not logged in": [
    "codex",
    { files: { "config.toml": 'model = "m"\n' } },
    "no",
  ],
  "claude with its credentials is logged in": ["claude", { files: { ".credentials.json": "{…}" } }, "yes"],
  "claude with an empty variable is not logged in": ["claude", { env: { ANTHROPIC_API_KEY: "" } }, "no"],
  "claude where a key store exists is unknown": ["claude", { hasKeyStore: true }, "unknown"],
  "claude on a cloud is unknown": ["claude", { env: { CLAUDE_CODE_USE_BEDROCK: "1" } }, "unknown"],
  "gemini with a key is logged in": ["gemini", { env: { GEMINI_API_KEY: "k" } }, "yes"],
  "gemini without anything is not logged in": ["gemini", {}, "no"],
  "gemini with its own variables file is unknown": ["gemini", { files: { ".env": "A=b" } }, "unknown"],
  "opencode without a login is unknown": ["opencode", {}, "unknown"],
  "opencode with auth.json is logged in": ["opencode", { files: { "auth.json": "{…}" } }, "yes"],
  "iflow without a login is unknown": ["iflow", {}, "unknown"],
  "the demo agent needs no login": ["demo", {}, "yes"],
};

test.each(Object.entries(cases))("%s", (_name, [id, { files = {}, env = {}, hasKeyStore }, state]) => {
  const engine = ENGINES.find((one) => one.id === id);
  const read: string[] = [];
  const found = engine?.login?.({
    ...{ home: "/home", env, hasKeyStore: hasKeyStore === true },
    has: (path) => files[path.replace("/home/", "")] !== undefined,
    settings: (path) => {
      read.push(path);
      return files[path.replace("/home/", "")] ?? null;
    },
  });
  expect(found).toBe(state);
  expect(read.filter((path) => /auth|cred|\.env/.test(path))).toEqual([]);
});
