/**
 * The rights of new runs: no more than the user asks for, or than the resumed batch gave its runs. Records the terms of
 * a batch, so that a later one can compare.
 */
import { isDeepStrictEqual } from "node:util";
import type { GateConfig } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { arrayIn, stringIn } from "../lib/json.ts";
import type { Redact } from "../lib/secrets.ts";
import { shellLine } from "../lib/shell.ts";
import type { Deps } from "../run/run.ts";
import { findEngine, storableArgs } from "../run/engine-setup.ts";
import { engineDefaults, widerNow } from "../run/engine-access.ts";
import { RESUMPTION_FAILED } from "./decide.ts";
import type { BatchRecord } from "./metadata.ts";
import type { BatchOptions } from "./batch-plan.ts";

export interface ResumedBatch {
  /** The batch to continue, with the same engine. Null: none. */
  readonly record: BatchRecord | null;
  /** The command line has `--access`. */
  readonly asked: boolean;
}

/** Config files and variables may have changed. Refuses unless it can prove that rights are not wider. */
export function assertRightsNotWider(deps: Deps, batch: BatchOptions, { record, asked }: ResumedBatch): void {
  if (record === null && !asked) return;
  const { engine, access, native } = batch;
  const now = engineDefaults(deps, engine);
  const had = record === null ? null : textsIn(record, "args");
  // Without recorded arguments, compares the option that decided.
  const isSame = record === null || stringIn(record.config, "access") === (access.by ?? access.level);
  const wider = widerNow(deps, engine, access.level, {
    had: had ?? now.args,
    native,
    asked: asked || (had === null && !isSame),
    refused: record !== null && wasRefused(record),
  });
  const facts = { engine, access: access.level, ...(record === null ? {} : { batch: record.run_id }) };
  const name = harmlessLine(engine, 60);
  if (wider !== null) {
    const option = harmlessLine(wider.option, 200);
    const file = `[engines.${name}] args of a config file`;
    if (asked && (record === null || wider.option === access.by))
      throw new Fault(
        "would_widen",
        `--access ${access.level} has no effect: ${file} has ${harmlessLine(access.by ?? wider.option, 200)}, which overrides it and may allow more. Nothing was started. ` +
          "Remove it from the config file, or omit --access.",
        { facts: { ...facts, option: wider.option } },
      );
    throw new Fault(
      "would_widen",
      `${widerText(record)}: ${file} ${wider.gone ? `had ${option}, and it is gone` : `has ${option} now`}. Nothing was started. ` +
        `${wider.gone ? "Restore it" : "Remove it"} to continue the batch; or ${restartHint("with the config as it is", name)}`,
      { facts: { ...facts, option: wider.option } },
    );
  }
  const variable = record === null ? null : otherVariable(record, now.rights);
  if (variable === null) return;
  throw new Fault(
    "would_widen",
    `${widerText(record)}: the variable ${variable} decides what ${name} may do, and it has changed. Nothing was started. ` +
      `Restore it, in the environment or in [engines.${name}] env; or ${restartHint("with the environment as it is", name)}`,
    { facts: { ...facts, variable } },
  );
}

function widerText(record: BatchRecord | null): string {
  const name = record === null ? "" : ` ${harmlessLine(record.run_id, 40)}`;
  return `New runs of batch${name} might get more rights than the batch gave when it began`;
}

/** A new batch leaves issues in progress alone, so they must be open. */
function restartHint(how: string, engine: string): string {
  return `set the status of issues in progress to open and restart them, ${how}: reprise issues run --engine ${engine}`;
}

/** Null: a record of an earlier version lacks the key. */
function textsIn({ config }: BatchRecord, key: string): readonly string[] | null {
  if (!Array.isArray(config[key])) return null;
  return arrayIn(config, key).filter((word) => typeof word === "string");
}

function otherVariable(record: BatchRecord, now: readonly { name: string; sha256: string }[]): string | null {
  const then = textsIn(record, "rights");
  if (then === null) return null;
  const today = now.map(variableWords);
  const differs = [
    ...today.filter((one) => !then.includes(one)),
    ...then.filter((one) => !today.includes(one)),
  ];
  return differs[0]?.split("=")[0] ?? null;
}

/** The stored form. */
function variableWords({ name, sha256 }: { readonly name: string; readonly sha256: string }): string {
  return `${name}=${sha256}`;
}

/** The engine's message, if it refused the command line of every unfinished issue. Null: it did not. */
function refusedOf({ issues }: Pick<BatchRecord, "issues">): string | null {
  const undone = Object.values(issues).filter(({ status }) => status !== "completed" && status !== "left");
  const said = undone.map(({ error }) => refusalIn(error ?? ""));
  return said.includes(null) ? null : (said[0] ?? null);
}

/** No agent of the batch ever ran with the config's options. */
function wasRefused(record: BatchRecord): boolean {
  const said = refusedOf(record);
  if (said === null || said.includes("--trust-cwd")) return false;
  return Object.values(record.issues).every(({ status }) => status === "failed");
}

/** The beginning of the reason from the engine, and its middle if `--strict` blocked the run. */
const REFUSED = "usage: ";
const NEVER_BEGAN = " refused its command line (";

function refusalIn(error: string): string | null {
  if (error.startsWith(REFUSED)) return error.slice(REFUSED.length);
  const at = error.startsWith(RESUMPTION_FAILED) ? error.indexOf(NEVER_BEGAN) : -1;
  return at === -1 ? null : error.slice(at + NEVER_BEGAN.length).replace(/\)$/, "");
}

function failedStrict({ issues }: BatchRecord): boolean {
  return Object.values(issues).some(({ error }) => error?.startsWith(RESUMPTION_FAILED) === true);
}

/** In a printed command: a person must fill in the right options. */
export const PLACEHOLDER = "…";

/**
 * The native options of a batch in the command that Reprise prints, without options that the engine refused. `args`: the
 * engine's arguments in the config as it is now.
 */
export function correctedOptions(
  record: BatchRecord,
  native: readonly string[],
  args: readonly string[],
): { readonly native: readonly string[]; readonly byHand: string } {
  const refused = refusedOf(record);
  if (refused === null || refused.includes("--trust-cwd")) return { native, byHand: "" };
  const engine = harmlessLine(stringIn(record.config, "engine") ?? "", 60);
  const why = `${engine} refused its command line (${harmlessLine(refused, 200).replace(/\.$/, "")})`;
  const isBlamed = (words: readonly string[]) =>
    words.some((word) => word.startsWith("-") && refused.includes(word));
  const had = textsIn(record, "args") ?? args;
  // If `--strict` blocked all issues, an earlier batch had the options, and they may be corrected already.
  if (!isBlamed([...had, ...native]) && /-\w/.test(refused) && failedStrict(record))
    return { native, byHand: "" };
  const isConfig = had.length > 0 && (native.length === 0 || (isBlamed(had) && !isBlamed(native)));
  if (isConfig && !isDeepStrictEqual(had, args)) return { native, byHand: "" };
  if (isConfig)
    return { native, byHand: `First correct [engines.${engine}] args in your config file: ${why}.` };
  if (native.length === 0) return { native, byHand: `First fix what it refused: ${why}.` };
  const was = harmlessLine(shellLine(native), 200);
  const byHand = `Put the right options in place of ${PLACEHOLDER}, which were ${was}: ${why}. Without any, end the command with --`;
  return { native: [PLACEHOLDER], byHand };
}

/** The commands of a gate in their stored form. */
export function gateWords(gate: GateConfig | null): string[] {
  return (gate?.commands ?? []).map(({ run }) => shellLine(run));
}

/** The options of the batch, for its record. */
export function configOf(deps: Deps, options: BatchOptions, redact: Redact) {
  const { engine, resume, strict, fresh, maxAgents, maxIssues, order, isolate, onLimit, merge, scope, gate } =
    options;
  const { level, by } = options.access;
  const { args, rights } = engineDefaults(deps, engine);
  const stored = (words: readonly string[]) => [
    ...storableArgs(words, redact, findEngine(deps, engine)).args,
  ];
  return {
    engine,
    resume,
    strict,
    fresh,
    maxAgents,
    maxIssues,
    order,
    isolate,
    onLimit,
    merge,
    scope,
    gate: gateWords(gate),
    access: by ?? level,
    access_from: options.accessFrom,
    engine_given: resume && options.engineGiven,
    begun: [...options.begun],
    args: stored(args),
    rights: rights.map(variableWords),
    native: stored(options.native),
    options: [...options.again.words],
    by_hand: [...options.again.byHand],
  };
}
