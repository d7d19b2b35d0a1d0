/**
 * A custom engine, described as data in a config file: how Reprise calls it and how it reads its JSON lines. Also the
 * small checks that all config tables share. `engines/custom.ts` builds an engine from it.
 */
import { nearest } from "../lib/suggest.ts";
import { Fault } from "./faults.ts";

export interface CustomEngine {
  readonly title: string;
  /** Argument templates. Reprise fills in `{session}`, `{message}` and `{options}`; no shell sees them. */
  readonly start: readonly string[];
  readonly resume: readonly string[];
  /** Absent: the engine has no UI that Reprise can open. */
  readonly interactive?: { readonly start: readonly string[]; readonly resume: readonly string[] };
  readonly message: "stdin" | "argument";
  readonly session: {
    /** Name of a top-level field of the line that `events.session` matches. */
    readonly field: string;
    readonly format: RegExp;
    /** `start` takes an id that Reprise chooses, a random UUID. */
    readonly choose: boolean;
  };
  readonly events: { readonly [name in EventName]?: LineRule } & {
    readonly session: LineRule;
    readonly done: LineRule;
  };
}

const EVENT_NAMES = ["session", "text", "delta", "tool_started", "tool_ended", "done", "failed"] as const;
export type EventName = (typeof EVENT_NAMES)[number];

/** `"type=result status=ok : message"`: lines whose fields have these values, and the field to take from them. */
export interface LineRule {
  readonly when: readonly (readonly [field: string, value: string])[];
  /** Dotted path. Absent: the rule names no field. */
  readonly take?: string;
}

/** Position of a key, for messages. */
export interface OutputPlace {
  readonly file: string;
  readonly path: readonly string[];
}

type Table = Readonly<Record<string, unknown>>;

const KEYS = [
  "title",
  "program",
  "args",
  "env",
  "start",
  "resume",
  "interactive",
  "message",
  "session",
  "events",
];
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function customIn(
  id: string,
  table: Table,
  at: OutputPlace,
  builtIn: readonly string[],
): CustomEngine {
  if (table["start"] === undefined && table["events"] === undefined) {
    const near = nearest(id, builtIn);
    const guess = near === null ? "" : ` Did you mean engines.${near}?`;
    const why = `is not an engine of Reprise and does not define one: program, start, resume, session and events are missing.${guess}`;
    throw fault(at.file, at.path.join("."), why);
  }
  checkEngineKeys(table, at, KEYS);
  if (configText(table, at, "program") === undefined) bad(at, "program", "is missing");
  const message = table["message"] ?? "stdin";
  if (message !== "stdin" && message !== "argument") return bad(at, "message", `is "stdin" or "argument"`);
  const session = sessionIn(table["session"], at);
  const needs = message === "argument" ? ["message"] : [];
  const template = (key: string, placeholders: readonly string[]): readonly string[] =>
    templateIn(table, at, key, placeholders);
  const interactive = interactiveIn(table["interactive"], at, session.choose);
  return {
    title: configText(table, at, "title") ?? id,
    start: template("start", session.choose ? ["session", ...needs] : needs),
    resume: template("resume", ["session", ...needs]),
    ...(interactive === undefined ? {} : { interactive }),
    message,
    session,
    events: eventsIn(table["events"], at),
  };
}

function sessionIn(value: unknown, at: OutputPlace): CustomEngine["session"] {
  const example = `session = { field = "session_id", format = "uuid" }`;
  if (!isTable(value)) return bad(at, "session", `is missing: ${example}`);
  const here: OutputPlace = { file: at.file, path: [...at.path, "session"] };
  checkEngineKeys(value, here, ["field", "format", "choose"]);
  const field = configText(value, here, "field") ?? bad(here, "field", `is missing: ${example}`);
  const format = formatOf(
    configText(value, here, "format") ?? bad(here, "format", `is missing: ${example}`),
    here,
  );
  const choose = value["choose"] ?? false;
  if (typeof choose !== "boolean") return bad(here, "choose", "is true or false");
  if (choose && !format.test("11111111-1111-4111-8111-111111111111")) {
    bad(here, "choose", "needs a format that accepts a UUID, since that is what Reprise chooses");
  }
  return { field, format, choose };
}

function formatOf(text: string, at: OutputPlace): RegExp {
  if (text === "uuid") return UUID;
  try {
    return new RegExp(`^(?:${text.slice(0, 200)})$`);
  } catch {
    return bad(at, "format", `is "uuid" or a regular expression for the whole id`);
  }
}

function interactiveIn(value: unknown, at: OutputPlace, choose: boolean): CustomEngine["interactive"] {
  if (value === undefined) return undefined;
  if (!isTable(value)) return bad(at, "interactive", "is a table: { start = [...], resume = [...] }");
  const here: OutputPlace = { file: at.file, path: [...at.path, "interactive"] };
  checkEngineKeys(value, here, ["start", "resume"]);
  return {
    start: templateIn(value, here, "start", choose ? ["session"] : []),
    resume: templateIn(value, here, "resume", ["session"]),
  };
}

/** `needed`: placeholders that must occur. `{options}` must be a whole argument, the others may be part of one. */
function templateIn(
  table: Table,
  at: OutputPlace,
  key: string,
  needed: readonly string[],
): readonly string[] {
  const words = stringsIn(table, at, key) ?? bad(at, key, "is missing: a list of arguments");
  const used = words.flatMap((word) => [...word.matchAll(/\{(\w*)\}/g)].map(([, name = ""]) => name));
  const allowed = [...needed, "options"];
  const unknown = used.find((name) => !allowed.includes(name));
  if (unknown !== undefined) {
    bad(at, key, `holds {${unknown}}; it may hold ${allowed.map((name) => `{${name}}`).join(", ")}`);
  }
  const missing = needed.find((name) => !used.includes(name));
  if (missing !== undefined) bad(at, key, `must hold {${missing}}`);
  if (words.some((word) => word.includes("{options}") && word !== "{options}")) {
    bad(at, key, `holds {options} inside another text; it stands alone`);
  }
  return words;
}

function eventsIn(value: unknown, at: OutputPlace): CustomEngine["events"] {
  const example = `events = { session = "type=init", text = "type=message : text", done = "type=result" }`;
  if (!isTable(value)) return bad(at, "events", `is missing: ${example}`);
  const here: OutputPlace = { file: at.file, path: [...at.path, "events"] };
  checkEngineKeys(value, here, EVENT_NAMES);
  const rules: { [name in EventName]?: LineRule } = {};
  for (const name of EVENT_NAMES) {
    const text = configText(value, here, name);
    if (text !== undefined) rules[name] = ruleIn(text, here, name);
  }
  const { session, done } = rules;
  if (session === undefined) return bad(here, "session", `is missing: ${example}`);
  if (done === undefined) return bad(here, "done", `is missing: ${example}`);
  return { ...rules, session, done };
}

function ruleIn(text: string, at: OutputPlace, name: EventName): LineRule {
  const [conditions = "", take, ...more] = text.split(/\s:\s/).map((part) => part.trim());
  const when = conditions.split(/\s+/).map((condition) => /^([\w.-]+)=(\S+)$/.exec(condition));
  const pairs = when.map((match) => [match?.[1] ?? "", match?.[2] ?? ""] as const);
  const fits = when.every((match) => match !== null) && more.length === 0 && /^[\w.-]+$/.test(take ?? "x");
  if (!fits) bad(at, name, `is a rule such as "type=message role=assistant : content"`);
  // A session counts only from the top level of a line (I5).
  if (name === "session" && (take !== undefined || pairs.some(([field]) => field.includes(".")))) {
    bad(
      at,
      name,
      "matches fields at the top of a line and takes none: session.field says which holds the id",
    );
  }
  if ((name === "text" || name === "delta") && take === undefined) {
    bad(at, name, `must say where the text is: "type=message : text"`);
  }
  return { when: pairs, ...(take === undefined ? {} : { take }) };
}

export function isTable(value: unknown): value is Table {
  // The parser makes tables without a prototype; dates and lists have one.
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null;
}

/** No argument, path or variable can hold a zero byte. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && !value.includes("\0");
}

export function configText(table: Table, at: OutputPlace, key: string): string | undefined {
  const value = table[key];
  if (value === undefined || (isText(value) && value !== "")) return value;
  return bad(at, key, "is a text in quotes, not empty and without a zero byte");
}

export function stringsIn(table: Table, at: OutputPlace, key: string): readonly string[] | undefined {
  const value = table[key];
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) return bad(at, key, `is a list of texts: ["--flag", "value"]`);
  return value.map((item: unknown) =>
    isText(item) ? item : bad(at, key, `is a list of texts: ["--flag", "value"]`),
  );
}

export function checkEngineKeys(table: Table, at: OutputPlace, known: readonly string[]): void {
  const key = Object.keys(table).find((name) => !known.includes(name));
  if (key === undefined) return;
  const near = nearest(key, known);
  const guess = near === null ? `Known here: ${known.join(", ")}.` : `Did you mean ${near}?`;
  throw fault(at.file, [...at.path, key].join("."), `is unknown. ${guess}`);
}

export function bad(at: OutputPlace, key: string, why: string): never {
  throw fault(at.file, [...at.path, key].join("."), `${why}.`);
}

function fault(file: string, key: string, why: string): Fault {
  return new Fault("config_invalid", `${file}: ${key} ${why}`, { facts: { file, key } });
}
