/**
 * `npm run test:crash [-- --short] [--only P1,P7] [--seed N] [--report FILE] [--list]`: puts the promises to the test and
 * prints one line for each, such as `P1: 0 of 1,000 acknowledged records lost`. Exits with 1 when one was broken.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { readArguments, readChoice } from "../../scripts/arguments.ts";
import { access } from "../hostile/access.ts";
import { badInput } from "../hostile/bad-input.ts";
import { install } from "../hostile/install.ts";
import { patterns } from "../hostile/patterns.ts";
import { repositoryPrograms } from "../hostile/repository-programs.ts";
import { secrets } from "../hostile/secrets.ts";
import { text } from "../hostile/text.ts";
import { failingIo } from "./failing-io.ts";
import { killWrites } from "./kill-writes.ts";
import { powerCut } from "./power-cut.ts";
import { pids } from "./pids.ts";
import type { Promised, Result, Verdict } from "./promise.ts";
import { fullDisk } from "./full-disk.ts";
import { descendants } from "./descendants.ts";
import { kills } from "./kills.ts";
import { leases } from "./leases.ts";
import { removal } from "./removal.ts";
import { schedules } from "./schedules.ts";
import { tapes } from "./tapes.ts";
import { webWrites } from "./web-writes.ts";
import { widening } from "./widening.ts";
import { writers } from "./writers.ts";

/** Each part of the harness adds its own here; the numbers are given in `docs/reliability.md`. */
const PROMISES: readonly Promised[] = [
  killWrites,
  failingIo,
  powerCut,
  kills,
  fullDisk,
  descendants,
  pids,
  tapes,
  patterns,
  badInput,
  secrets,
  access,
  text,
  install,
  removal,
  leases,
  widening,
  repositoryPrograms,
  writers,
  schedules,
  webWrites,
];

const SHOWN = 20;

const USAGE = `
npm run test:crash -- [--short] [--only P1,P7] [--seed N] [--report FILE] [--list]

  --short         a few minutes instead of hours
  --only LIST     these promises alone
  --seed N        which moments and texts; others each time unless told
  --report FILE   writes what was found to this file; promises that were not run keep what it says of them
  --list          says what the promises are, and runs nothing

npm run test:crash -- --short --only P4
npm run test:crash -- --report test/crash/results.json
`;
const values = readArguments(USAGE, {
  short: "flag",
  list: "flag",
  only: "text",
  seed: "seed",
  report: "file",
});

if (values.list) {
  for (const { id, means } of PROMISES) console.log(`${id}: ${means}`);
} else process.exitCode = await runAll();

async function runAll(): Promise<number> {
  const only = readChoice(
    values.only,
    PROMISES.map(({ id }) => id),
  );
  const seed = values.seed ?? Date.now() % 1_000_000;
  const results: Result[] = [];
  let broken = 0;
  for (const promised of PROMISES.filter(({ id }) => only.includes(id))) {
    const began = performance.now();
    const verdict = await promised.check({ short: values.short, seed, progress });
    const seconds = Math.round((performance.now() - began) / 1_000);
    say(promised, verdict, seconds);
    broken += verdict.broken.length;
    const { id, what, wrong, means } = promised;
    results.push({ id, means, what, wrong, short: values.short, node: process.version, seconds, ...verdict });
  }
  if (broken > 0) console.log(`The seed was ${seed}.`);
  if (values.report !== undefined) writeReport(values.report, results);
  return broken === 0 ? 0 : 1;
}

/** Promises that were not run now keep what the file says of them. */
function writeReport(file: string, results: readonly Result[]): void {
  const old = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Result[]) : [];
  const kept = old.filter(({ id }) => !results.some((one) => one.id === id));
  const number = ({ id }: Result) => Number(id.slice(1));
  const all = [...kept, ...results].toSorted((one, other) => number(one) - number(other));
  writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
}

function say({ id, what, wrong }: Promised, verdict: Verdict, seconds: number): void {
  progress("");
  const count = (n: number) => n.toLocaleString("en-US");
  console.log(
    `${id}: ${count(verdict.broken.length)} of ${count(verdict.tried)} ${what} ${wrong} (${seconds} s)`,
  );
  for (const sentence of verdict.broken.slice(0, SHOWN)) console.log(`    ${sentence}`);
  for (const sentence of verdict.untried) console.log(`    not tried: ${sentence}`);
}

/** On a terminal, one line that is replaced; elsewhere nothing. */
function progress(doing: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${doing}`);
}
