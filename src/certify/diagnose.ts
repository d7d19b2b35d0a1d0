/**
 * Explains a failure in a sentence for users of the engine, with the engine's own words as evidence. Pure.
 */
import type { Exit, Trouble } from "../core/events.ts";
import type { Engine } from "../engines/engine.ts";
import { harmlessLine, plain } from "../lib/harmless.ts";
import { DUPLICATE, NEW_CONVERSATION } from "./checks.ts";

/** One attempt of the failed case, read from its run directory. */
export interface Scene {
  readonly args: readonly string[];
  readonly exit: Exit | null;
  readonly trouble: Trouble | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Failure {
  /** The findings of `checks.ts`. */
  readonly notes: readonly string[];
  /** Oldest first. */
  readonly scenes: readonly Scene[];
  /** Reprise's message when it refused. */
  readonly refusal: string | null;
}

export interface Diagnosis {
  readonly why: string;
  readonly evidence: readonly string[];
}

const MAX_TEXT = 240;
const MAX_SHOWN = 3;
/** An engine may print any number of unknown kinds; more are not useful. */
const MAX_KINDS = 20;
/** The kept length of an unknown line. */
const MAX_LINE = 2_000;
/** How programs report an unknown argument. */
const REFUSED =
  /\b(?:unrecognized|unknown|unexpected|invalid|unsupported|no such)\b.{0,20}\b(?:sub-?command|command|option|argument|flag|value|choice)s?\b/i;

export function diagnose(engine: Engine, failure: Failure): Diagnosis {
  const last = failure.scenes.at(-1);
  const survey = surveyOf(engine, failure.scenes, NOTHING_SEEN);
  const unknown = unknownText(engine, survey);
  const refused = refusedArgument(last);
  const causes = [
    ...(refused === null ? [] : [`${engine.id} refused its command line: ${cut(refused)}`]),
    ...(unknown === null ? [] : [unknown]),
  ];
  const says = words(engine, last, failure);
  const what = wording(failure.notes, says?.text ?? null);
  const why = causes.length === 0 ? [what, ...explanation(engine, last, says, what)] : [...causes, what];
  const command = last === undefined ? [] : [`${engine.id} ${last.args.join(" ")}`];
  const exit = last === undefined || last.exit === null ? [] : [exitText(engine, last.exit)];
  const printed = survey.unknown.slice(0, MAX_SHOWN).map(({ line }) => `stdout: ${line}`);
  const stderr = textLines(last?.stderr ?? "")
    .slice(-MAX_SHOWN)
    .map((line) => `stderr: ${line}`);
  return {
    why: why.join("; "),
    evidence: [...command, ...exit, ...printed, ...stderr, ...failure.notes].map((line) => cut(line)),
  };
}

/** How the engine ended, if it did nothing else, and the message that explains it. */
function explanation(
  engine: Engine,
  last: Scene | undefined,
  says: Words | null,
  what: string,
): readonly string[] {
  const failed = last !== undefined && last.exit !== null && last.exit.code !== 0;
  const atOnce = failed && last.exit !== null && !/\S/.test(last.stdout) ? [exitText(engine, last.exit)] : [];
  const isSaid = says === null || what.includes(cut(says.text));
  return [...atOnce, ...(isSaid ? [] : [`${says.who} said: ${cut(says.text)}`])];
}

/** An engine's stdout, as far as the profile knows it. */
export interface Survey {
  /** Non-empty lines, without a line that was cut off. */
  readonly lines: number;
  /** The first line of each kind that the profile does not know; at most `MAX_KINDS`. */
  readonly unknown: readonly { readonly kind: string | null; readonly line: string }[];
}

export const NOTHING_SEEN: Survey = { lines: 0, unknown: [] };

/** Adds to `before`. */
export function surveyOf(engine: Engine, scenes: readonly Pick<Scene, "stdout">[], before: Survey): Survey {
  const keyOf = (kind: string | null, line: string) => kind ?? line.slice(0, MAX_TEXT);
  const unknown = new Map(before.unknown.map((one) => [keyOf(one.kind, one.line), one]));
  let { lines } = before;
  for (const { stdout } of scenes) {
    const reader = engine.reader(() => 0);
    for (const line of wholeLines(stdout)) {
      if (line.trim() === "") continue;
      lines++;
      if (unknown.size >= MAX_KINDS || !reader.line("stdout", line).some(({ type }) => type === "unknown"))
        continue;
      const kind = kindOf(line);
      if (!unknown.has(keyOf(kind, line)))
        unknown.set(keyOf(kind, line), { kind, line: line.slice(0, MAX_LINE) });
    }
  }
  return { lines, unknown: [...unknown.values()] };
}

/** One at a time: a list of all lines may be larger than the text. */
function* wholeLines(text: string): Generator<string> {
  let from = 0;
  for (let to = text.indexOf("\n"); to !== -1; to = text.indexOf("\n", from)) {
    yield text.slice(from, to);
    from = to + 1;
  }
}

/** The type that a JSON line states: `system/init`. Null: it states none. */
function kindOf(line: string): string | null {
  try {
    const { type, subtype } = JSON.parse(line) as { type?: unknown; subtype?: unknown };
    if (typeof type !== "string") return null;
    return harmlessLine(typeof subtype === "string" ? `${type}/${subtype}` : type, MAX_KIND);
  } catch {
    return null;
  }
}

const MAX_KIND = 60;

/** Null: Reprise knows everything that it printed. */
export function unknownText(engine: Engine, { unknown }: Survey): string | null {
  const [first] = unknown;
  if (first === undefined) return null;
  const kinds = unknown.flatMap(({ kind }) => kind ?? []);
  const more = kinds.length > MAX_SHOWN ? [`${kinds.length - MAX_SHOWN} more`] : [];
  const names = kinds.length === 0 ? "" : ` (${[...kinds.slice(0, MAX_SHOWN), ...more].join(", ")})`;
  return `${engine.id} printed a kind of line that Reprise does not know${names}: ${cut(first.line)}`;
}

function refusedArgument(scene: Scene | undefined): string | null {
  if (scene === undefined || scene.exit === null || scene.exit.code === 0) return null;
  return textLines(scene.stderr).find((line) => REFUSED.test(line)) ?? null;
}

interface Words {
  readonly who: string;
  readonly text: string;
}

/** The last explanation of the failure, and its source. */
function words(engine: Engine, last: Scene | undefined, { refusal }: Failure): Words | null {
  if (refusal !== null) return { who: "Reprise", text: refusal };
  if (last === undefined) return null;
  const text = last.trouble?.message ?? textLines(last.stderr).at(-1);
  return text === undefined ? null : { who: engine.id, text };
}

/** The most specific first. `text` is the message of the engine or of Reprise. */
const WORDINGS: readonly (readonly [RegExp, (found: RegExpExecArray, text: string | null) => string])[] = [
  [new RegExp(NEW_CONVERSATION), () => "it began a new conversation instead of continuing the old one"],
  [new RegExp(DUPLICATE), () => "a message reached the model twice"],
  [/^option not in force: (.*) \(/, ([, what]) => `the option was not in force: ${what}`],
  [/nothing was sent to the model/, () => "nothing was sent to the model"],
  [/\d requests? reached the model/, () => "the model was asked although Reprise should have refused"],
  [
    /trouble: (\w+) instead of (.*)/,
    ([, found, wanted]) =>
      wanted === "null"
        ? `it failed (${spoken(found)})`
        : `Reprise took it for ${spoken(found)} instead of ${spoken(wanted)}`,
  ],
  [
    /reset time: null instead of /,
    (_found, text) =>
      `Reprise did not find the time at which the limit ends${text === null ? "" : ` in: ${text}`}`,
  ],
  [
    /reset time: (\S+) instead of (\S+)/,
    ([, found, wanted]) =>
      wanted === "null"
        ? `Reprise took ${found} for the time at which it ends, and none was announced`
        : `Reprise took ${found} for the time at which it ends instead of ${wanted}`,
  ],
  [
    /the session was (\S+) and is (\S+)/,
    ([, before, now]) =>
      now === "none"
        ? "it named no session id"
        : before === "none"
          ? "the start named no session id"
          : `the session id changed from ${before} to ${now}`,
  ],
  [
    /named in the output: false/,
    () => "its output does not name its session, and Reprise had to look for it in the engine's files",
  ],
  [/proved by the receipt: false/, () => "nothing proves that it was the same conversation"],
  [/restored from escrow: false/, () => "the copy of the session was not restored"],
  [/^request \d+ held (.*) instead of (.*)/, ([, found, wanted]) => `the model saw ${found}, not ${wanted}`],
  [/the engine has no file of this session/, () => "its session is not where Reprise looks for it"],
  [/ended before the moment/, () => "it ended by itself before it could be interrupted"],
  [
    /never happened within (\d+) s: (.*)/,
    ([, seconds, what]) => `it took more than ${seconds} s, and never: ${what}`,
  ],
  [/fault: (\w+) instead of/, ([, found]) => `Reprise refused it (${found})`],
  [/status: (\w+) instead of (.*)/, ([, found, wanted]) => `it ${found} instead of ${wanted}`],
  [/exit: (\w+) instead of (.*)/, ([, found]) => `the attempt failed with exit code ${found}`],
];

function wording(notes: readonly string[], text: string | null): string {
  for (const [pattern, say] of WORDINGS) {
    const found = notes.map((note) => pattern.exec(note)).find((match) => match !== null);
    if (found !== undefined && found !== null)
      return harmlessLine(say(found, text === null ? null : cut(text)), 2 * MAX_TEXT);
  }
  return cut(notes[0]?.split("\n")[0] ?? "it failed");
}

function spoken(kind: string | undefined): string {
  if (kind === undefined || kind === "null") return "no trouble";
  return `"${kind.replaceAll("_", " ")}"`;
}

function exitText(engine: Engine, { code, signal }: Exit): string {
  if (signal !== null) return `${engine.id} was killed by ${signal}`;
  return `${engine.id} ended with exit code ${code ?? "unknown"}`;
}

function textLines(text: string): readonly string[] {
  return plain(text)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function cut(text: string): string {
  return harmlessLine(text, MAX_TEXT);
}
