/**
 * No text makes a regular expression of the product slow: each one against twelve generators of hostile text, most of
 * them made from the expression itself. Processor time is what counts, the best of several tries.
 */
import { Script } from "node:vm";
import { cpuMs } from "../cpu.ts";
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { type Expression, expressionsIn } from "./expressions.ts";
import { type Shape, shapeOf } from "./shape.ts";

export const patterns: Promised = {
  id: "P9",
  what: "hostile texts",
  wrong: "slow to match",
  means: "No text makes a regular expression of the product slow",
  check,
};

const FULL = 1_000_000;
const FULL_MS = 50;
const TRIES = 5;
/** Linear, with the most matches that a text can have: its time tells how fast this machine is today. */
const PLAIN: Expression = { source: "[A-Z]", flags: "g", place: "the measure" };
/** A slow expression takes hundreds of times as long. */
const SLOWER = 3;
/** Ends a match that would take for ever. */
const GIVE_UP_MS = 3_000;

async function check(scale: Scale): Promise<Verdict> {
  const size = scale.short ? FULL / 4 : FULL;
  const limit = Math.max((FULL_MS * size) / FULL, SLOWER * bestOf(PLAIN, repeat("A", size), 0));
  const expressions = expressionsIn("src");
  const broken: string[] = [];
  let tried = 0;
  let slowest = 0;
  for (const [at, expression] of expressions.entries()) {
    scale.progress(`${at + 1} of ${expressions.length} expressions`);
    const shape = shapeOf(expression.source, expression.flags);
    for (const [name, generate] of GENERATORS) {
      const texts = generate(shape, size);
      tried += texts.length;
      const worst = Math.max(0, ...texts.map((text) => bestOf(expression, text, limit)));
      slowest = Math.max(slowest, worst);
      if (worst <= limit) continue;
      broken.push(
        `${expression.place} /${expression.source}/${expression.flags}: ${Math.round(worst)} ms for ${size} characters (${name})`,
      );
      break;
    }
  }
  return {
    tried,
    broken,
    untried: [],
    figures: { expressions: expressions.length, characters: size, "slowest, ms": Math.round(slowest) },
  };
}

const GENERATORS: readonly [name: string, (shape: Shape, size: number) => readonly string[]][] = [
  ["spaces", (_, size) => [fixed(" ", size)]],
  ["letters", (_, size) => [fixed("a", size)]],
  ["digits", (_, size) => [fixed("1", size)]],
  ["line breaks", (_, size) => [fixed("\r\n", size)]],
  ["control sequences", (_, size) => [fixed("\u001b]0;\u001b[1m\u009b", size)]],
  ["wide and combining characters", (_, size) => [fixed("👩‍👧é\u0301中\ud800", size)]],
  ["JSON that never ends", (_, size) => [fixed('{"a":["\\"",', size)]],
  ["each character it accepts", ({ atoms }, size) => atoms.map((atom) => fixed(atom, size))],
  ["what it matches, again and again", ({ sample }, size) => long(sample, size)],
  ["what it nearly matches", ({ sample }, size) => long(sample.slice(0, -1), size)],
  [
    "each repetition, then its end broken",
    ({ repetitions }, size) =>
      repetitions.flatMap(({ before, unit }) => long(unit, size).map((text) => `${before}${text}\u0001\n`)),
  ],
  [
    "each beginning of a repetition",
    ({ repetitions }, size) =>
      repetitions.flatMap(({ before, unit }) => [...long(before, size), ...long(before + unit, size)]),
  ],
];

const made = new Map<string, string>();

function fixed(unit: string, size: number): string {
  const text = made.get(unit) ?? repeat(unit, size);
  made.set(unit, text);
  return text;
}

function long(unit: string, size: number): string[] {
  return unit === "" ? [] : [repeat(unit, size)];
}

function repeat(unit: string, size: number): string {
  return unit.repeat(Math.ceil(size / Math.max(1, unit.length))).slice(0, size);
}

/** As the product would use it: all matches of a global expression, otherwise the first. */
function bestOf({ source, flags }: Expression, text: string, limit: number): number {
  const pattern = new RegExp(source, flags);
  const work = flags.includes("g") ? () => text.replace(pattern, "") : () => pattern.test(text);
  let best = Number.POSITIVE_INFINITY;
  for (let at = 0; at < TRIES && best > limit; at += 1) {
    best = Math.min(
      best,
      cpuMs(() => guarded(work)),
    );
    if (best >= GIVE_UP_MS / 2) break;
  }
  return best;
}

const CALL = new Script("globalThis.hostileWork()");

function guarded(work: () => void): void {
  Object.assign(globalThis, { hostileWork: work });
  try {
    CALL.runInThisContext({ timeout: GIVE_UP_MS });
  } catch (error) {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT")
      throw error;
  }
}
