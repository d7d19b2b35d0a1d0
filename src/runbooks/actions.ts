/** `on_idle`, `on_dead`, `on_error`, `on_prompt`: turns their values into policy entries. */
import {
  ACTIONS,
  type ActionName,
  ERROR_MATCHES,
  type ErrorMatch,
  type PolicyEntry,
} from "../core/runbook.ts";
import { type Trigger, whyNotAllowed } from "../core/runbook.ts";
import { below, checkKeys, choiceIn, commandIn, countIn, durationIn, error, flagIn } from "./fields.ts";
import { isEmptyList, oneOrMore, type FieldScope, textIn, unfit, warning } from "./fields.ts";
import type { At, Table, Value } from "./tree.ts";

export const DEFAULT_TIMEOUT_MS = 10 * 60_000;

const KEYS = ["action", "message", "append", "run", "timeout", "attempts", "cooldown", "match"];
/** The older name of `resume`. */
const ALIAS = "recover";

export function policyEntriesIn(table: Table, scope: FieldScope, trigger: Trigger): readonly PolicyEntry[] {
  const key = `on_${trigger}`;
  const entry = table.entries.get(key);
  if (entry === undefined) return [];
  const here = below(scope, key);
  if (isEmptyList(entry.value)) {
    unfit(entry.value, here, `is empty. Remove it: without ${key}, Reprise escalates`);
    return [];
  }
  const listed = entry.value.kind === "list";
  const entries = oneOrMore(entry.value).flatMap((value, index) => {
    const made = entryFor(value, listed ? below(here, index) : here, trigger);
    return made === undefined ? [] : [{ made, at: value.at }];
  });
  warnOfUnreached(entries, here);
  return entries.map(({ made }) => made);
}

function entryFor(value: Value, scope: FieldScope, trigger: Trigger): PolicyEntry | undefined {
  if (value.kind === "text") {
    const action = actionOf(value.value, value.at, scope, trigger);
    if (action === "gate")
      error(
        scope,
        value.at,
        `${scope.path}: gate needs a command: { action = "gate", run = ["npm", "test"] }`,
      );
    return action === undefined || action === "gate" ? undefined : policyEntry(action, {});
  }
  if (value.kind !== "table") {
    return unfit(
      value,
      scope,
      `must be the name of an action, a table such as { action = "resume" }, or a list of them`,
    );
  }
  checkKeys(value, scope, KEYS);
  const name = value.entries.get("action");
  if (name === undefined) {
    error(scope, value.at, `${scope.path} has no action. Use one of ${ACTIONS.join(", ")}`);
  } else if (name.value.kind !== "text")
    unfit(name.value, below(scope, "action"), `is one of ${ACTIONS.join(", ")}`);
  const action =
    name?.value.kind === "text" ? actionOf(name.value.value, name.value.at, scope, trigger) : undefined;
  const fields = fieldsOf(value, scope, trigger);
  if (action === undefined) return undefined;
  checkTogether(value, scope, action);
  return policyEntry(action, fields);
}

function actionOf(name: string, at: At, scope: FieldScope, trigger: Trigger): ActionName | undefined {
  if (name === ALIAS) warning(scope, at, `${scope.path}: recover is the old name of resume; write resume`);
  const action = ACTIONS.find((known) => known === (name === ALIAS ? "resume" : name));
  if (action === undefined) {
    error(
      scope,
      at,
      `${scope.path}: ${JSON.stringify(name.slice(0, 60))} is not an action. Use one of ${ACTIONS.join(", ")}`,
    );
    return undefined;
  }
  const why = whyNotAllowed(trigger, action);
  if (why === null) return action;
  error(scope, at, `${scope.path}: ${action} is not allowed here: ${why}`);
  return undefined;
}

function fieldsOf(table: Table, scope: FieldScope, trigger: Trigger): Partial<PolicyEntry> {
  const match = table.entries.get("match");
  if (match !== undefined && trigger !== "error")
    error(scope, match.at, `${scope.path}.match is only for on_error`);
  const several = match?.value.kind === "text" && /^\w+(\|\w+)+$/.test(match.value.value);
  if (several) error(scope, match.value.at, `${scope.path}.match names one error; write one entry for each`);
  const found = {
    message: textIn(table, scope, "message")?.value,
    append: flagIn(table, scope, "append"),
    run: commandIn(table, scope, "run"),
    timeoutMs: durationIn(table, scope, "timeout", 1000),
    attempts: countIn(table, scope, "attempts"),
    cooldownMs: durationIn(table, scope, "cooldown", 0),
    match:
      several || trigger !== "error" ? undefined : choiceIn<ErrorMatch>(table, scope, "match", ERROR_MATCHES),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}

/** Reports fields that the action does not use, and required fields that are missing. */
function checkTogether(table: Table, scope: FieldScope, action: ActionName): void {
  const at = (key: string) => table.entries.get(key)?.at;
  const run = at("run");
  if (action === "gate" && run === undefined) {
    error(scope, table.at, `${scope.path}: gate needs a command: run = ["npm", "test"]`);
  }
  if (action !== "gate" && run !== undefined)
    error(scope, run, `${scope.path}.run is for gate; ${action} runs nothing`);
  const unused: Record<string, boolean> = {
    timeout: action !== "gate",
    message: action === "gate",
    append: action !== "resume",
    attempts: action === "done" || action === "fail",
    cooldown: action === "done" || action === "fail",
  };
  for (const [key, idle] of Object.entries(unused)) {
    const place = at(key);
    if (idle && place !== undefined)
      warning(scope, place, `${scope.path}.${key} has no effect with ${action}`);
  }
  const append = at("append");
  if (action === "resume" && append !== undefined && at("message") === undefined) {
    warning(scope, append, `${scope.path}.append has no effect without a message`);
  }
  const message = table.entries.get("message")?.value;
  if (message?.kind === "text" && message.value.trim() === "")
    error(scope, message.at, `${scope.path}.message is empty`);
}

function policyEntry(action: ActionName, fields: Partial<PolicyEntry>): PolicyEntry {
  return {
    action,
    message: null,
    append: false,
    run: null,
    timeoutMs: DEFAULT_TIMEOUT_MS,
    attempts: action === "nudge" ? 3 : 1,
    cooldownMs: 0,
    match: "any",
    ...fields,
  };
}

/** `done` and `fail` end the agent, so later entries for the same error never run. */
function warnOfUnreached(entries: readonly { made: PolicyEntry; at: At }[], scope: FieldScope): void {
  for (const [index, { made: later, at }] of entries.entries()) {
    const covers = ({ action, match }: PolicyEntry) =>
      (action === "done" || action === "fail") && (match === "any" || match === later.match);
    const end = entries.slice(0, index).find(({ made }) => covers(made));
    if (end === undefined) continue;
    const why = `line ${end.at.line} ends the agent (${end.made.action})`;
    warning(scope, at, `${scope.path}[${index + 1}] is never reached: ${why}`);
  }
}
