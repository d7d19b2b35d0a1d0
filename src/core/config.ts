/**
 * The contents of config files, checked by hand so that every complaint names the key and what to write instead. Pure:
 * other files read the text and decide on trust.
 */
import { parse, TomlError } from "smol-toml";
import { parseDuration } from "../lib/duration.ts";
import {
  type CustomEngine,
  type OutputPlace,
  bad,
  checkEngineKeys,
  customIn,
  isTable,
  isText,
  stringsIn,
  configText,
} from "./config-engine.ts";
import { type IssuesConfig, issuesIn } from "./config-issues.ts";
import { Fault } from "./faults.ts";
import { NOTICE_EVENTS } from "./kinds.ts";

/** Both files merged, with defaults. */
export interface Config {
  /** The largest session that Reprise copies into a run. 0: no copies. */
  readonly escrowLimitBytes: number;
  /** Null: never. Absent: not configured. */
  readonly idleTimeoutMs?: number | null;
  readonly toolTimeoutMs?: number | null;
  readonly timeoutMs?: number | null;
  readonly engines: Readonly<Record<string, EngineConfig>>;
  readonly notify?: NotifyConfig;
  readonly issues?: IssuesConfig;
  /** By the model name that an engine reports. Only the user's file can set it. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** One sentence per part that Reprise could not read and left out. Absent: it read everything. */
  readonly unread?: readonly string[];
  /** Keys of a project's file that can run programs and that the user has not trusted. Reprise ignores that file. */
  readonly untrusted?: readonly string[];
}

/** How Reprise notifies a person, besides the desktop. Only the user's file can set it. */
export interface NotifyConfig {
  /** One argument per element; the facts come on stdin. */
  readonly command?: readonly string[];
  /** Gets the facts by POST. https, or http to this machine. */
  readonly webhook?: string;
  /** Absent: all events. */
  readonly events?: readonly (typeof NOTICE_EVENTS)[number][];
  /** Rings the terminal's bell when a foreground run ends. */
  readonly bell?: true;
}

/** US dollars per million tokens. */
export interface ModelPrice {
  readonly input: number;
  /** For input from a cache. Absent: the same as `input`. */
  readonly cached?: number;
  readonly output: number;
}

/** One file as written: keys that it does not mention are absent. */
export type ConfigFile = Partial<Omit<Config, "unread" | "untrusted">>;

export interface EngineConfig {
  /** A name to look up on PATH, or an absolute path. */
  readonly program?: string;
  /** Native arguments that precede the arguments given at a start. */
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where the engine keeps its sessions; absolute. */
  readonly home?: string;
  /** Present: the entry defines a custom engine. */
  readonly custom?: CustomEngine;
}

/** The engines that ship with Reprise; every other name in a config file defines a custom engine. */
export const BUILT_IN_ENGINES = ["claude", "codex", "demo", "gemini", "iflow", "opencode"];

/** Variables that affect every program. */
export const DANGEROUS_ENV = /^(PATH|LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|NODE_OPTIONS|BASH_ENV|ENV|DYLD_.*)$/;

const MAX_LENGTH = 1024 * 1024;
const MB = 1024 * 1024;
const DEFAULT_ESCROW = 256 * MB;

/** Receives a complaint, and Reprise leaves out the faulty part. Without it, the first complaint is thrown. */
export type OnProblem = (problem: Fault) => void;

const KEYS = ["escrow", "idle_timeout", "tool_timeout", "timeout", "engines", "notify", "issues", "prices"];

export function parseConfig(
  text: string,
  file: string,
  level: "user" | "project",
  onProblem?: OnProblem,
): ConfigFile {
  const read = reader(onProblem);
  const root = read(() => parseToml(text, file)) ?? {};
  const at: OutputPlace = { file, path: [] };
  read(() => checkEngineKeys(root, at, KEYS));
  const table = <T>(key: string, tableIn: (value: unknown) => T): T | undefined =>
    root[key] === undefined ? undefined : read(() => tableIn(root[key]));
  const duration = (key: string) => read(() => durationIn(root[key], at, key));
  const found = {
    escrowLimitBytes: read(() => escrowIn(root["escrow"], at)),
    idleTimeoutMs: duration("idle_timeout"),
    toolTimeoutMs: duration("tool_timeout"),
    timeoutMs: duration("timeout"),
    engines: table("engines", (value) => enginesIn(value, at, level, read)),
    notify: table("notify", (value) => notifyIn(value, at, level)),
    issues: table("issues", (value) => issuesIn(value, at)),
    prices: table("prices", (value) => pricesIn(value, at, level)),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

type Read = <T>(part: () => T) => T | undefined;

function reader(onProblem: OnProblem | undefined): Read {
  return (part) => {
    try {
      return part();
    } catch (error) {
      if (onProblem === undefined || !(error instanceof Fault)) throw error;
      onProblem(error);
      return undefined;
    }
  };
}

/** The project's value overrides the user's. Default arguments and variables of both are joined. */
export function mergeConfig(user: ConfigFile, project: ConfigFile): Config {
  const engines: Record<string, EngineConfig> = { ...user.engines };
  for (const [id, theirs] of Object.entries(project.engines ?? {})) {
    const ours = engines[id];
    engines[id] = {
      ...ours,
      ...theirs,
      ...(ours?.args === undefined ? {} : { args: [...ours.args, ...(theirs.args ?? [])] }),
      ...(ours?.env === undefined ? {} : { env: { ...ours.env, ...theirs.env } }),
    };
  }
  const issues = { ...user.issues, ...project.issues };
  return {
    escrowLimitBytes: DEFAULT_ESCROW,
    ...user,
    ...project,
    engines,
    ...(Object.keys(issues).length === 0 ? {} : { issues }),
  };
}

/** The keys that decide which programs run, and with which arguments and variables. They need the user's trust. */
export function projectPowers(config: ConfigFile): string[] {
  const gate = (config.issues?.gate?.commands ?? []).length > 0 ? ["issues.gate"] : [];
  const access = ["edit", "full"].includes(config.issues?.access ?? "") ? ["issues.access"] : [];
  const engines = Object.entries(config.engines ?? {}).flatMap(([id, engine]) => {
    if (engine.custom !== undefined) return [`engines.${id}`];
    const powers = (["program", "args", "env", "home"] as const).filter((key) => engine[key] !== undefined);
    return powers.map((key) => `engines.${id}.${key}`);
  });
  return [...engines, ...gate, ...access];
}

/** Every JavaScript object has these keys, also a table of engines, variables or models. */
const RESERVED = "no key can be `constructor` or `__proto__`; choose another name";

function parseToml(text: string, file: string): Readonly<Record<string, unknown>> {
  const refuse = (why: string): never => {
    throw new Fault("config_invalid", `${file} ${why}`, { facts: { file } });
  };
  if (text.length > MAX_LENGTH) refuse("is larger than 1 MiB, too large for a config file.");
  if (/^(?:\uFFFD\uFFFD|[^]?\0)/.test(text)) refuse("looks like UTF-16. Save it as UTF-8.");
  if (text.includes("\0")) refuse("contains a zero byte. Remove it.");
  if (text.includes("\uFFFD")) refuse("is not valid UTF-8. Save it as UTF-8.");
  try {
    return parse(text, { unsafeKeyBehaviour: "throw", maxDepth: 20 });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [first = ""] = error.message.split("\n");
    const isReserved = first.endsWith("document contains an unsafe property");
    const why = isReserved ? RESERVED : first.replace("Invalid TOML document: ", "");
    throw new Fault("config_invalid", `${file}, line ${error.line}, column ${error.column}: ${why}.`, {
      facts: { file, line: error.line, column: error.column },
      cause: error,
    });
  }
}

function escrowIn(value: unknown, at: OutputPlace): number | undefined {
  if (value === undefined) return undefined;
  if (value === "off") return 0;
  if (typeof value === "number" && Number.isInteger(value) && value > 0 && value <= MB) return value * MB;
  return bad(at, "escrow", `is "off" or a whole number of megabytes, such as 256`);
}

function durationIn(value: unknown, at: OutputPlace, key: string): number | null | undefined {
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? parseDuration(value) : null;
  if (ms === null) return bad(at, key, `is a duration in quotes, such as "15m" or "1h30m"; "0" means never`);
  return ms === 0 ? null : ms;
}

function notifyIn(value: unknown, at: OutputPlace, level: "user" | "project"): NotifyConfig {
  if (level === "project") {
    bad(at, "notify", "is not allowed in a project's file. Set it in your own config file");
  }
  const example = `[notify] with command = ["program", "argument"] or webhook = "https://…"`;
  if (!isTable(value)) return bad(at, "notify", `is a table: ${example}`);
  const here: OutputPlace = { file: at.file, path: ["notify"] };
  checkEngineKeys(value, here, ["command", "webhook", "events", "bell"]);
  const command = stringsIn(value, here, "command");
  const [program] = command ?? ["-"];
  if (program === undefined || program === "")
    bad(here, "command", `names no program: ["program", "argument"]`);
  if (program?.includes("/") && !program.startsWith("/")) {
    bad(here, "command", "begins with the name of a program on PATH or with an absolute path");
  }
  const webhook = configText(value, here, "webhook");
  if (webhook !== undefined) checkWebhook(webhook, here);
  const events = stringsIn(value, here, "events")?.map(
    (event) =>
      NOTICE_EVENTS.find((one) => one === event) ??
      bad(here, "events", `lists events: ${NOTICE_EVENTS.join(", ")}`),
  );
  const { bell } = value;
  if (bell !== undefined && typeof bell !== "boolean") bad(here, "bell", "is true or false");
  return {
    ...(command === undefined ? {} : { command }),
    ...(webhook === undefined ? {} : { webhook }),
    ...(events === undefined ? {} : { events }),
    ...(bell === true ? { bell } : {}),
  };
}

function pricesIn(value: unknown, at: OutputPlace, level: "user" | "project"): Record<string, ModelPrice> {
  if (level === "project")
    bad(
      at,
      "prices",
      "is not allowed in a project's file: prices are yours. Write it into your own config file",
    );
  const example = `[prices."model"] with input = 1.25, cached = 0.125 and output = 10`;
  if (!isTable(value)) return bad(at, "prices", `is a table: ${example}`);
  const prices: Record<string, ModelPrice> = {};
  for (const [model, table] of Object.entries(value)) {
    if (model === "unknown")
      return bad(
        { file: at.file, path: ["prices"] },
        model,
        "is no model: `reprise usage` shows it where the engine named none, and that has no price",
      );
    if (!isTable(table)) return bad({ file: at.file, path: ["prices"] }, model, `is a table: ${example}`);
    const here: OutputPlace = { file: at.file, path: ["prices", model] };
    checkEngineKeys(table, here, ["input", "cached", "output"]);
    const price = (key: string): number => {
      const found = table[key];
      if (typeof found === "number" && Number.isFinite(found) && found >= 0) return found;
      return bad(here, key, "is a number of US dollars per million tokens, such as 1.25");
    };
    const cached = table["cached"] === undefined ? {} : { cached: price("cached") };
    prices[model] = { input: price("input"), ...cached, output: price("output") };
  }
  return prices;
}

const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/;

function checkWebhook(text: string, at: OutputPlace): void {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) return bad(at, "webhook", `is not an address: "https://…"`);
  const toUs = url.protocol === "http:" && LOOPBACK.test(url.hostname);
  if (url.protocol !== "https:" && !toUs)
    bad(at, "webhook", "is an https address; http only to this machine");
  if (url.username !== "" || url.password !== "") {
    bad(at, "webhook", "holds a user name or a password, which cannot be sent; use a secret path instead");
  }
}

function enginesIn(
  value: unknown,
  at: OutputPlace,
  level: "user" | "project",
  read: Read,
): Record<string, EngineConfig> {
  if (!isTable(value)) return bad(at, "engines", "is a table: [engines.<name>]");
  const engines: Record<string, EngineConfig> = {};
  const here: OutputPlace = { file: at.file, path: ["engines"] };
  for (const [id, table] of Object.entries(value)) {
    const engine = read(() => {
      if (!/^[a-z0-9][a-z0-9_-]{0,31}$/.test(id)) {
        bad(here, id, "is not an engine name: lower-case letters, digits, _ and -, 32 at most");
      }
      if (!isTable(table)) return bad(here, id, `is a table: [engines.${id}]`);
      return engineIn(id, table, { file: at.file, path: ["engines", id] }, level);
    });
    if (engine !== undefined) engines[id] = engine;
  }
  return engines;
}

function engineIn(
  id: string,
  table: Readonly<Record<string, unknown>>,
  at: OutputPlace,
  level: "user" | "project",
): EngineConfig {
  const builtIn = BUILT_IN_ENGINES.includes(id);
  const custom = builtIn ? undefined : customIn(id, table, at, BUILT_IN_ENGINES);
  if (builtIn) checkEngineKeys(table, at, ["program", "args", "env", "home"]);
  const program = configText(table, at, "program");
  const home = configText(table, at, "home");
  if (program !== undefined && program.includes("/") && !program.startsWith("/")) {
    bad(at, "program", "is the name of a program on PATH or an absolute path");
  }
  if (home !== undefined && !home.startsWith("/")) bad(at, "home", "is an absolute path");
  const found = {
    program,
    args: stringsIn(table, at, "args"),
    env: envIn(table["env"], at, level),
    home,
    custom,
  };
  return Object.fromEntries(Object.entries(found).filter(([, field]) => field !== undefined));
}

function envIn(
  value: unknown,
  at: OutputPlace,
  level: "user" | "project",
): Record<string, string> | undefined {
  if (value === undefined) return undefined;
  if (!isTable(value)) return bad(at, "env", `is a table of texts: env = { NAME = "value" }`);
  const here: OutputPlace = { file: at.file, path: [...at.path, "env"] };
  const env: Record<string, string> = {};
  for (const [name, text] of Object.entries(value)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) bad(here, name, "is not a variable name");
    if (level === "project" && DANGEROUS_ENV.test(name)) {
      bad(
        here,
        name,
        "changes how every program runs, so a project's file may not set it; your own config may",
      );
    }
    if (!isText(text)) return bad(here, name, "is a text in quotes without a zero byte");
    env[name] = text;
  }
  return env;
}
