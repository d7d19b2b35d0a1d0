/** `reprise config get`: the value of a key as the config files give it, and the file that sets it. */
import { parse } from "smol-toml";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { isSecretName } from "../../lib/secret-names.ts";
import { redactor, redactValue } from "../../lib/secrets.ts";
import { nearest } from "../../lib/suggest.ts";
import { readConfigText } from "../../state/config-text.ts";
import type { Context } from "../context.ts";
import { defineCommand, JSON_FLAG } from "../define.ts";
import { type ConfigPlace, configPlaces } from "./check.ts";
import { complaintsOfFile } from "./complaints.ts";
import { CONFIG_KEYS, keyPath } from "./keys.ts";

const DEFAULTS: Readonly<Record<string, unknown>> = { escrow: 256, idle_timeout: "15m" };

export const get = defineCommand({
  name: "config get",
  summary: "Print the value of a key, and the file it comes from. Secrets are redacted.",
  args: {
    key: {
      help: "config key, such as idle_timeout or engines.codex.args",
      required: true,
      missing: "Which key? For example: reprise config get idle_timeout",
      values: CONFIG_KEYS,
    },
  },
  options: { json: JSON_FLAG },
  examples: ["reprise config get idle_timeout", "reprise config get engines.codex --json"],
  run: async ({ args: { key }, reply }, context) => {
    const path = keyPath(key);
    const found = await valueOf(path, context);
    if (found === null) throw unset(key);
    const value = redacted(found.value, path);
    reply({ key, value, from: found.from }, () => {
      context.print(typeof value === "string" ? harmlessLine(value) : JSON.stringify(value));
      context.log.info(`${harmlessLine(key, 80)} comes from ${found.from.join(" and ") || "the default"}`);
    });
    return 0;
  },
});

interface FoundValue {
  readonly value: unknown;
  /** Empty: the default. */
  readonly from: readonly string[];
}

/** As `mergeConfig` joins the files: arguments and tables of both, otherwise the project's value. */
async function valueOf(path: readonly string[], context: Context): Promise<FoundValue | null> {
  const files = await filesThatCount(context);
  const found = files.flatMap((file) => {
    const value = lookUp(parsed(file), path);
    return value === undefined ? [] : [{ value, from: file.path }];
  });
  const [first, second] = found;
  if (first === undefined) {
    const value = path.length === 1 ? DEFAULTS[path[0] ?? ""] : undefined;
    return value === undefined ? null : { value, from: [] };
  }
  if (second === undefined) return { value: first.value, from: [first.from] };
  const from = [first.from, second.from];
  if (Array.isArray(first.value) && Array.isArray(second.value) && path[0] === "engines")
    return { value: [...(first.value as unknown[]), ...(second.value as unknown[])], from };
  if (isTable(first.value) && isTable(second.value))
    return { value: { ...first.value, ...second.value }, from };
  return { value: second.value, from: [second.from] };
}

async function filesThatCount(context: Context): Promise<readonly ConfigPlace[]> {
  const files = configPlaces(context).filter(({ exists }) => exists);
  for (const { path, level } of files) {
    const [wrong] = await complaintsOfFile(path, level);
    if (wrong !== undefined)
      throw new Fault("config_invalid", `${path} has mistakes. List them: reprise config check`, {
        facts: { file: path },
      });
  }
  if (files.every(({ level }) => level === "user")) return files;
  const { config } = await context.open({ cwd: process.cwd(), badConfig: "report" });
  if (config.untrusted === undefined) return files;
  context.log.warn(
    `the project's file sets ${config.untrusted.join(", ")}, and you have not trusted it, so it does not apply here`,
  );
  return files.filter(({ level }) => level === "user");
}

const parsed = ({ path }: ConfigPlace): unknown =>
  parse(readConfigText(path) ?? "", { unsafeKeyBehaviour: "throw" });

function lookUp(root: unknown, path: readonly string[]): unknown {
  let value = root;
  for (const part of path) value = isTable(value) && Object.hasOwn(value, part) ? value[part] : undefined;
  return value;
}

function unset(key: string): Fault {
  const near = nearest(key, CONFIG_KEYS);
  const hint =
    near === null || near === key
      ? "docs/config.md lists the keys; `reprise config path` names the files."
      : `Did you mean ${near}?`;
  return new Fault("usage", `No config file sets ${JSON.stringify(key.slice(0, 80))}. ${hint}`, {
    facts: { key: key.slice(0, 80) },
  });
}

/** Values of variables with the name of a secret, and the path of a webhook, which is one. */
function redacted(value: unknown, path: readonly string[]): unknown {
  const name = path.at(-1) ?? "";
  if (typeof value === "string" && path.join(".") === "notify.webhook")
    return `${new URL(value).origin}/[redacted]`;
  if (isSecretName(name) && path.includes("env")) return "[redacted]";
  if (isTable(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => [key, redacted(one, [...path, key])]),
    );
  return redactValue(value, redactor([]));
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
