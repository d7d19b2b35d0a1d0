/** Checked access to the values of a tree. An invalid value becomes a problem and then counts as absent. */
import { parseDuration } from "../lib/duration.ts";
import { nearest } from "../lib/suggest.ts";
import { type At, type NodeEntry, type Problem, problem, type Table, type Text } from "./tree.ts";
import { type Value, within } from "./tree.ts";
import { templateProblems } from "./template.ts";

/** Position of a table, the problems so far, and the variables that its texts may name. */
export interface FieldScope {
  readonly path: string;
  readonly problems: Problem[];
  readonly vars: readonly string[];
}

/** Keys with a meaning for JavaScript objects. */
const RESERVED = ["__proto__", "constructor", "prototype"];

export function error(scope: FieldScope, at: At, reason: string): void {
  scope.problems.push(problem(at, `${reason}.`.replace(/([.?!])\.$/, "$1")));
}

export function warning(scope: FieldScope, at: At, reason: string): void {
  scope.problems.push(problem(at, `${reason}.`, "warning"));
}

export function below(scope: FieldScope, key: string | number): FieldScope {
  const step = typeof key === "number" ? `[${key + 1}]` : scope.path === "" ? key : `.${key}`;
  return { ...scope, path: `${scope.path}${step}` };
}

/** Every unknown key becomes a problem that suggests the nearest known key. */
export function checkKeys(table: Table, scope: FieldScope, known: readonly string[]): void {
  for (const [key, { at }] of table.entries) {
    if (known.includes(key)) continue;
    const near = nearest(key, known);
    const guess = near === null ? `Known here: ${known.join(", ")}` : `Did you mean ${near}?`;
    error(scope, at, `${nameOf(scope, key)} is unknown. ${guess}`);
  }
}

/** Entries with freely chosen names as keys. Leaves out names that do not match `pattern`. */
export function namedEntries(
  table: Table,
  scope: FieldScope,
  pattern: RegExp,
  rule: string,
): [string, NodeEntry][] {
  return [...table.entries].filter(([key, { at }]) => {
    const reserved = RESERVED.includes(key);
    if (pattern.test(key) && !reserved) return true;
    error(scope, at, `${nameOf(scope, key)} is not a valid name: ${reserved ? "it is reserved" : rule}`);
    return false;
  });
}

export function tableIn(table: Table, scope: FieldScope, key: string, example: string): Table | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined || value.kind === "table") return value;
  return unfit(value, below(scope, key), `is a table: ${example}`);
}

/** A text without zero bytes and with valid templates. */
export function textIn(table: Table, scope: FieldScope, key: string): Text | undefined {
  const value = table.entries.get(key)?.value;
  return value === undefined ? undefined : textOf(value, below(scope, key));
}

export function textOf(value: Value, scope: FieldScope): Text | undefined {
  if (value.kind !== "text") return unfit(value, scope, "is a text in quotes");
  if (value.value.includes("\0")) return unfit(value, scope, "contains a zero byte");
  const wrong = templateProblems(value.value, scope.vars);
  for (const { index, why } of wrong) error(scope, within(value, index), `${scope.path} ${why}`);
  return wrong.length === 0 ? value : undefined;
}

/** A command: a list of texts that begins with a program. */
export function commandIn(table: Table, scope: FieldScope, key: string): readonly string[] | undefined {
  const value = table.entries.get(key)?.value;
  const here = below(scope, key);
  if (value?.kind === "text") {
    return unfit(value, here, `is a list of words, such as ["npm", "test"]; no shell splits a text`);
  }
  const words = wordsIn(table, scope, key);
  if (words === undefined || value === undefined) return undefined;
  if ((words[0] ?? "") === "") return unfit(value, here, "is empty; its first word is the program");
  return words;
}

export function wordsIn(table: Table, scope: FieldScope, key: string): readonly string[] | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined) return undefined;
  const here = below(scope, key);
  if (value.kind !== "list") return unfit(value, here, 'is a list of texts, such as ["--flag", "value"]');
  const words = value.items.map((item, index) => textOf(item, below(here, index))?.value);
  return words.every((word) => word !== undefined) ? words : undefined;
}

export function flagIn(table: Table, scope: FieldScope, key: string): boolean | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined || value.kind === "flag") return value?.value;
  return unfit(value, below(scope, key), "is true or false, without quotes");
}

export function countIn(table: Table, scope: FieldScope, key: string): number | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined) return undefined;
  const fits =
    value.kind === "number" && Number.isInteger(value.value) && value.value >= 1 && value.value <= 1000;
  return fits ? value.value : unfit(value, below(scope, key), "is a whole number from 1 to 1000");
}

/** Milliseconds. */
export function durationIn(
  table: Table,
  scope: FieldScope,
  key: string,
  least: 0 | 1000,
): number | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined) return undefined;
  const ms = value.kind === "text" ? parseDuration(value.value) : null;
  if (ms !== null && ms >= least) return ms;
  const range = least === 0 ? "0 to 365d" : "1s to 365d";
  return unfit(value, below(scope, key), `is a duration in quotes from ${range}, such as "60s" or "1h30m"`);
}

export function choiceIn<T extends string>(
  table: Table,
  scope: FieldScope,
  key: string,
  choices: readonly T[],
): T | undefined {
  const value = table.entries.get(key)?.value;
  if (value === undefined) return undefined;
  const given = value.kind === "text" ? value.value : null;
  const found = choices.find((choice) => choice === given);
  if (found !== undefined) return found;
  const near = given === null ? null : nearest(given, choices);
  const guess = near === null ? "" : `. Did you mean ${near}?`;
  return unfit(value, below(scope, key), `is one of ${choices.join(", ")}${guess}`);
}

/** A table, or a list of tables and texts, as a list. */
export function oneOrMore(value: Value): readonly Value[] {
  return value.kind === "list" ? value.items : [value];
}

export function isEmptyList(value: Value): boolean {
  return value.kind === "list" && value.items.length === 0;
}

/** Reports the problem. The value then counts as absent. */
export function unfit(value: Value, scope: FieldScope, why: string): undefined {
  if (value.kind === "refused") return undefined;
  const given = value.kind === "odd" ? `, not ${value.what}` : "";
  error(scope, value.at, `${scope.path} ${why}${given}`);
  return undefined;
}

function nameOf(scope: FieldScope, key: string): string {
  return below(scope, key.slice(0, 100)).path;
}
