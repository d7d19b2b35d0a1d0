/** `[issues]` of a config file: the rights of a batch's agents, and the project's commands that check their work. */
import { parseDuration } from "../lib/duration.ts";
import { bad, checkEngineKeys, isTable, isText, type OutputPlace } from "./config-engine.ts";

/** What a batch's agent may do without asking: read, change the files of its worktree, or anything. */
export const ACCESS_LEVELS = ["read", "edit", "full"] as const;
export type Access = (typeof ACCESS_LEVELS)[number];
export const DEFAULT_ACCESS: Access = "edit";

export interface IssuesConfig {
  readonly gate?: GateConfig;
  readonly access?: Access;
}

export interface GateConfig {
  readonly commands: readonly GateCommand[];
  /** How many times an agent may try to pass, including the first. */
  readonly attempts: number;
}

export interface GateCommand {
  /** One argument per element; no shell sees them (I10). */
  readonly run: readonly string[];
  readonly timeoutMs: number;
}

const DEFAULT_TIMEOUT_MS = 10 * 60_000;
const DEFAULT_ATTEMPTS = 3;
const EXAMPLE = `commands = [["npm", "test"], { run = ["npm", "run", "lint"], timeout = "2m" }]`;

export function issuesIn(value: unknown, at: OutputPlace): IssuesConfig {
  if (!isTable(value)) return bad(at, "issues", `is a table: [issues] or [issues.gate]`);
  const here: OutputPlace = { file: at.file, path: ["issues"] };
  checkEngineKeys(value, here, ["gate", "access"]);
  const { gate } = value;
  const access = accessIn(value["access"], here);
  return {
    ...(access === undefined ? {} : { access }),
    ...(gate === undefined ? {} : { gate: gateIn(gate, here) }),
  };
}

function accessIn(value: unknown, at: OutputPlace): Access | undefined {
  if (value === undefined) return undefined;
  const level = ACCESS_LEVELS.find((known) => known === value);
  return level ?? bad(at, "access", `is one of ${ACCESS_LEVELS.map((known) => `"${known}"`).join(", ")}`);
}

function gateIn(gate: unknown, here: OutputPlace): GateConfig {
  if (!isTable(gate)) return bad(here, "gate", `is a table: [issues.gate] with ${EXAMPLE}`);
  const inside: OutputPlace = { file: here.file, path: ["issues", "gate"] };
  checkEngineKeys(gate, inside, ["commands", "timeout", "attempts"]);
  const timeoutMs = timeoutIn(gate["timeout"], inside) ?? DEFAULT_TIMEOUT_MS;
  const { commands, attempts = DEFAULT_ATTEMPTS } = gate;
  if (!Array.isArray(commands)) return bad(inside, "commands", `is a list: ${EXAMPLE}`);
  if (typeof attempts !== "number" || !Number.isInteger(attempts) || attempts < 1 || attempts > 100)
    return bad(inside, "attempts", "is a whole number from 1 to 100");
  return {
    commands: commands.map((command: unknown) => commandIn(command, inside, timeoutMs)),
    attempts,
  };
}

function commandIn(value: unknown, at: OutputPlace, timeoutMs: number): GateCommand {
  const words = isTable(value) ? value["run"] : value;
  if (isTable(value))
    checkEngineKeys(value, { file: at.file, path: [...at.path, "commands"] }, ["run", "timeout"]);
  if (!Array.isArray(words) || words.length === 0 || !words.every(isText) || words[0] === "")
    return bad(at, "commands", `holds an entry that is not a command: ${EXAMPLE}`);
  const own = isTable(value) ? timeoutIn(value["timeout"], at) : undefined;
  return { run: words, timeoutMs: own ?? timeoutMs };
}

function timeoutIn(value: unknown, at: OutputPlace): number | undefined {
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? parseDuration(value) : null;
  if (ms === null || ms === 0) return bad(at, "timeout", `is a duration in quotes, such as "10m"`);
  return ms;
}
