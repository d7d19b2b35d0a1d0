/**
 * What broke, in a sentence that a user of the engine understands, with the engine's own words as evidence. Pure.
 */
import type { Exit, Trouble } from "../src/core/events.ts";
import type { Engine } from "../src/engines/engine.ts";
import { harmlessLine, plain } from "../src/lib/harmless.ts";
import { DUPLICATE, NEW_CONVERSATION } from "./checks.ts";

/** One attempt of the case that failed, read from its run directory. */
export interface Scene {
  readonly args: readonly string[];
  readonly exit: Exit | null;
  readonly trouble: Trouble | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Failure {
  /** What `checks.ts` found. */
  readonly notes: readonly string[];
  /** Oldest first. */
  readonly scenes: readonly Scene[];
  /** What Reprise itself said when it refused. */
  readonly refusal: string | null;
}

export interface Diagnosis {
  readonly why: string;
  readonly evidence: readonly string[];
}

const MAX_TEXT = 240;
const MAX_UNKNOWN = 3;
/** How programs say that an argument is not one of theirs. */
const REFUSED =
  /\b(?:unrecognized|unknown|unexpected|invalid|unsupported|no such)\b.{0,20}\b(?:sub-?command|command|option|argument|flag|value|choice)s?\b/i;

export function diagnose(engine: Engine, failure: Failure): Diagnosis {
  const last = failure.scenes.at(-1);
  const unknown = failure.scenes.flatMap((scene) => unknownLines(engine, scene.stdout));
  const refused = refusedArgument(last);
  const what = wording(failure.notes);
  const causes = [
    ...(refused === null ? [] : [`${engine.id} refused its command line: ${cut(refused)}`]),
    ...(unknown[0] === undefined ? [] : [unknownText(engine, unknown[0])]),
  ];
  const says = words(engine, last, failure);
  const why =
    causes.length === 0
      ? [what, ...(says === null ? [] : [`${says.who} said: ${cut(says.text)}`])]
      : [...causes, what];
  const command = last === undefined ? [] : [`${engine.id} ${last.args.join(" ")}`];
  const exit = last === undefined || last.exit === null ? [] : [exitText(engine, last.exit)];
  const printed = [...new Set(unknown)].slice(0, MAX_UNKNOWN).map((line) => `stdout: ${line}`);
  const stderr = textLines(last?.stderr ?? "")
    .slice(-MAX_UNKNOWN)
    .map((line) => `stderr: ${line}`);
  return {
    why: why.join("; "),
    evidence: [...command, ...exit, ...printed, ...stderr, ...failure.notes].map((line) => cut(line)),
  };
}

/** Lines of the engine's own output for which the profile has no meaning; one that was broken off is none. */
export function unknownLines(engine: Engine, stdout: string): readonly string[] {
  const reader = engine.reader(() => 0);
  const whole = stdout.split("\n").slice(0, -1);
  return whole.filter(
    (line) => line.trim() !== "" && reader.line("stdout", line).some(({ type }) => type === "unknown"),
  );
}

export function unknownText(engine: Engine, line: string): string {
  return `${engine.id} printed a kind of line that Reprise does not know: ${cut(line)}`;
}

function refusedArgument(scene: Scene | undefined): string | null {
  if (scene === undefined || scene.exit === null || scene.exit.code === 0) return null;
  return textLines(scene.stderr).find((line) => REFUSED.test(line)) ?? null;
}

/** Who explained the failure last, and how. */
function words(
  engine: Engine,
  last: Scene | undefined,
  { refusal }: Failure,
): { readonly who: string; readonly text: string } | null {
  if (refusal !== null) return { who: "Reprise", text: refusal };
  if (last === undefined) return null;
  const text = last.trouble?.message ?? textLines(last.stderr).at(-1);
  return text === undefined ? null : { who: engine.id, text };
}

/** The most telling first. */
const WORDINGS: readonly (readonly [RegExp, (found: RegExpExecArray) => string])[] = [
  [new RegExp(NEW_CONVERSATION), () => "it began a new conversation instead of continuing the old one"],
  [new RegExp(DUPLICATE), () => "a message reached the model twice"],
  [/option not in force: (.*) \(/, ([, what]) => `the option was not in force: ${what}`],
  [/nothing was sent to the model/, () => "nothing was sent to the model"],
  [/(\d+) requests reached the model/, () => "the model was asked although Reprise should have refused"],
  [
    /trouble: (\w+) instead of (.*)/,
    ([, found, wanted]) =>
      wanted === "null"
        ? `it failed (${spoken(found)})`
        : `Reprise took it for ${spoken(found)} instead of ${spoken(wanted)}`,
  ],
  [/has a reset time: false/, () => "Reprise found no time at which the limit ends"],
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
  [/restored from escrow: false/, () => "the copy of the session was not put back"],
  [/request \d+ held (.*) instead of (.*)/, ([, found, wanted]) => `the model saw ${found}, not ${wanted}`],
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

function wording(notes: readonly string[]): string {
  for (const [pattern, say] of WORDINGS) {
    const found = notes.map((note) => pattern.exec(note)).find((match) => match !== null);
    if (found !== undefined && found !== null) return cut(say(found));
  }
  return cut(notes[0]?.split("\n")[0] ?? "it failed");
}

function spoken(kind: string | undefined): string {
  if (kind === undefined || kind === "null") return "no trouble";
  return `"${kind.replaceAll("_", " ")}"`;
}

function exitText(engine: Engine, { code, signal }: Exit): string {
  if (signal !== null) return `${engine.id} was ended by ${signal}`;
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
