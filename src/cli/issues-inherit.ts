/** What `reprise issues run --resume` inherits from the batch that it continues. */
import { isDeepStrictEqual } from "node:util";
import { type Access, ACCESS_LEVELS, DEFAULT_ACCESS } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { arrayIn, stringIn } from "../lib/json.ts";
import { shellLine } from "../lib/shell.ts";
import type { BatchRecord } from "../issues/issues.ts";
import type { AccessFrom } from "../issues/batch-plan.ts";
import {
  DEFAULT_ENGINE,
  goOnCommand,
  isHidden,
  optionWords,
  parsedWords,
  REPEATED,
  type RunOptions,
  split,
  withoutTrust,
} from "./issues-options.ts";

/** Part of the batch is still to do. */
export function isUnfinished({ config, completed_at: completed, issues, left }: BatchRecord): boolean {
  if (!Array.isArray(config["options"])) return false;
  const isOpen = Object.values(issues).some(({ status }) => status !== "completed");
  return completed === null || left > 0 || isOpen;
}

export const textsIn = ({ config }: BatchRecord, key: string): string[] =>
  arrayIn(config, key).filter((word) => typeof word === "string");

export interface Inherited {
  readonly options: RunOptions;
  readonly native: readonly string[];
  /** Of those, the options inherited from the earlier batch. */
  readonly taken: RunOptions;
  readonly takenNative: readonly string[];
  /** The earlier batch. Null: nothing is inherited. */
  readonly batch: string | null;
  /** The batch to continue, with or without inherited options. Null: a new batch. */
  readonly before: Before | null;
}

/** The earlier batch, and which of its options this command line repeats. */
export interface Before {
  readonly record: BatchRecord;
  readonly sameScope: boolean;
  readonly sameEngine: boolean;
  /** That batch took issues in progress from other engines, because a person had named its engine. */
  readonly engineGiven: boolean;
  readonly sameAccess: boolean;
  readonly sameNative: boolean;
  /** For new runs, from any source. Null: an engine's option decided, or this command line overrides it. */
  readonly level: Access | null;
  readonly accessFrom: AccessFrom;
  /** Issues begun so far, if the same limit still counts. */
  readonly begun: readonly string[];
}

/**
 * What a bare `--resume` does: no more than the continued batch was allowed to do. That is the newest batch (`batches`
 * has it first) that began an issue.
 */
export function inherit(
  given: RunOptions,
  native: readonly string[],
  batches: Iterable<BatchRecord>,
  hasDashes = native.length > 0,
): Inherited {
  const nothing = { options: given, native, taken: {}, takenNative: [], batch: null, before: null };
  const last = given.resume === true ? firstBegun(batches) : null;
  if (last === null || !isUnfinished(last)) return nothing;
  const words = textsIn(last, "options");
  const [own, theirs] = split(words);
  const before = parsedWords(own);
  if (before === null) {
    if (given.scope !== undefined) return nothing;
    throw new Fault(
      "usage",
      `This version of Reprise cannot read the options of batch ${harmlessLine(last.run_id, 40)}: ${harmlessLine(shellLine(words), 300)}. Say what to work on: --scope all, ids:a,b or epic:X.`,
    );
  }
  const taken = takenFrom(before, given);
  const isSame = given.engine === undefined || given.engine === (before.engine ?? DEFAULT_ENGINE);
  const takesNative = !hasDashes && given.access === undefined && isSame;
  const takenNative = takesNative ? theirs : [];
  if (takenNative.some(isHidden))
    throw new Fault(
      "usage",
      `Batch ${harmlessLine(last.run_id, 40)} was started with a secret in its native options. Reprise does not store secrets, so its issues cannot be resumed. ` +
        "To start one of them over, set its status to open, set the secret in the environment, and type: reprise issues run",
    );
  if (optionWords(taken, []).some(isHidden))
    throw new Fault(
      "usage",
      `Batch ${harmlessLine(last.run_id, 40)} was started with a secret, which Reprise does not store. Give the option again: ${harmlessLine(goOnCommand(withoutTrust(words)))}`,
    );
  const goesOn = beforeOf(last, before, { given, native, theirs, takesNative });
  if (Object.keys(taken).length === 0 && takenNative.length === 0) return { ...nothing, before: goesOn };
  return {
    options: { ...taken, ...given },
    native: takesNative ? takenNative : native,
    taken,
    takenNative,
    batch: last.run_id,
    before: goesOn,
  };
}

interface Said {
  readonly given: RunOptions;
  readonly native: readonly string[];
  readonly theirs: readonly string[];
  readonly takesNative: boolean;
}

function beforeOf(record: BatchRecord, before: RunOptions, said: Said): Before {
  const { given, native, theirs, takesNative } = said;
  const { config, issues } = record;
  const isSame = (name: "scope" | "engine" | "access" | "maxIssues") =>
    given[name] === undefined || given[name] === before[name];
  const from = stringIn(config, "access_from");
  const counts = before.maxIssues !== undefined && isSame("maxIssues");
  return {
    record,
    sameScope: isSame("scope"),
    sameEngine: isSame("engine"),
    engineGiven: isSame("engine") && config["engine_given"] === true,
    sameAccess: isSame("access"),
    sameNative: takesNative || isDeepStrictEqual(native, theirs),
    level: isSame("access") ? (ACCESS_LEVELS.find((level) => level === config["access"]) ?? null) : null,
    accessFrom: from === "config" || from === "default" ? from : "option",
    begun: counts ? [...new Set([...textsIn(record, "begun"), ...Object.keys(issues)])] : [],
  };
}

/** The access of new runs: as recorded, but without an explicit option at most the current config's level. */
export function levelOf(said: Access | null, from: AccessFrom, config: Access | null): Access {
  if (said === null || config === null || from === "option") return said ?? config ?? DEFAULT_ACCESS;
  return ACCESS_LEVELS.find((level) => level === said || level === config) ?? said;
}

/**
 * A continued batch keeps its gate and its limits, or does not begin: without the gate everything would pass, and a
 * limiting engine option in a config file may be gone.
 */
export function assertKept(
  { record, sameAccess, sameNative }: Before,
  given: RunOptions,
  now: {
    readonly gate: readonly string[];
    /** In the form of earlier versions: without quotes. */
    readonly plainGate?: readonly string[];
    readonly access: string;
    readonly engine: string;
  },
): string | null {
  const name = `Batch ${harmlessLine(record.run_id, 40)}`;
  const was = stringIn(record.config, "access") ?? "";
  const isLevel = ACCESS_LEVELS.some((level) => level === was);
  const isAsked = given.access !== undefined || !sameAccess || !sameNative;
  const isOther = stringIn(record.config, "engine") !== now.engine;
  if (was !== "" && !isLevel && was !== now.access && !isAsked && !isOther)
    throw new Fault(
      "usage",
      `${name} limited its agents to ${harmlessLine(was, 200)}, which no config file sets any more. Restore that setting, or choose: --access read, edit or full.`,
      { facts: { batch: record.run_id, access: was } },
    );
  const gate = textsIn(record, "gate");
  if (gate.length === 0 || isDeepStrictEqual(gate, now.gate) || isDeepStrictEqual(gate, now.plainGate))
    return null;
  const had = `${name} checked its work with the gate ${harmlessLine(gate.join("; "), 300)}`;
  const change =
    now.gate.length === 0
      ? "and there is no gate now"
      : `and the gate is now ${harmlessLine(now.gate.join("; "), 300)}`;
  // Trusting the project's current file includes its gate; the absence of a gate is not part of any file.
  if (given.acceptGate === true || (given.trustCwd === true && now.gate.length > 0))
    return `${had}, ${change}.`;
  throw new Fault(
    "usage",
    `${had}, ${change}. Nothing was started. Restore the gate in reprise.toml or your own config file, or accept the change: --accept-gate`,
    { facts: { batch: record.run_id, gate, now: [...now.gate] } },
  );
}

function firstBegun(batches: Iterable<BatchRecord>): BatchRecord | null {
  for (const batch of batches) if (Object.keys(batch.issues).length > 0) return batch;
  return null;
}

/** Options that are inherited together or not at all. */
const TOGETHER: readonly (readonly (keyof typeof REPEATED)[])[] = [["source", "repo", "apiUrl"]];

function takenFrom(before: RunOptions, given: RunOptions): RunOptions {
  const names = (Object.keys(REPEATED) as (keyof typeof REPEATED)[]).filter((name) => {
    const rule = REPEATED[name];
    const group = TOGETHER.find((together) => together.includes(name)) ?? [name];
    const isGiven = group.some((one) => given[one] !== undefined);
    return rule.repeat && rule.inherit && before[name] !== undefined && !isGiven && !isAgainst(name, given);
  });
  return Object.fromEntries(names.map((name) => [name, before[name]]));
}

/** A given option excludes it. */
function isAgainst(name: keyof typeof REPEATED, given: RunOptions): boolean {
  if (given.isolate === "none") return name === "merge" || name === "maxAgents";
  return name === "isolate" && (given.merge === true || (given.maxAgents ?? 1) > 1);
}
