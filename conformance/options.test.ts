import { expect, test } from "vitest";
import { isChosen, Mistake, mustFit, readOptions } from "./options.ts";

const choices = { engines: ["codex", "gemini", "iflow"], groups: ["resume", "stale"], jobs: 3 };
const cases = [
  { id: "kill@codex", group: "resume" },
  { id: "kill@gemini", group: "stale" },
  { id: "deleted@codex", group: "stale" },
] as const;

const mistakes: Record<string, [args: readonly string[], says: string]> = {
  "jobs that are not a number": [["--jobs", "x"], '--jobs is a number from 1 to 64, not "x"'],
  "no jobs": [["--jobs", "0"], '--jobs is a number from 1 to 64, not "0"'],
  "nothing for jobs": [["--jobs", ""], '--jobs is a number from 1 to 64, not ""'],
  "too many jobs": [["--jobs", "65"], '--jobs is a number from 1 to 64, not "65"'],
  "a part of a job": [["--jobs", "1.5"], '--jobs is a number from 1 to 64, not "1.5"'],
  "minutes that are not a number": [["--minutes", "soon"], '--minutes is a number above 0, not "soon"'],
  "no minutes": [["--minutes", "0"], '--minutes is a number above 0, not "0"'],
  "endless minutes": [["--minutes", "Infinity"], '--minutes is a number above 0, not "Infinity"'],
  "an unknown engine beside a known one": [
    ["--engine", "codex", "--engine", "gemni"],
    '"gemni" is no engine; did you mean gemini?',
  ],
  "an engine like no other": [
    ["--engine", "zzzzzz"],
    '"zzzzzz" is no engine; there are codex, gemini, iflow',
  ],
  "an unknown group beside a known one": [
    ["--group", "stale", "--group", "resum"],
    '"resum" is no group; did you mean resume?',
  ],
  "an unknown case beside a known one": [
    ["--case", "kill", "--case", "zzz"],
    'no case has "zzz" in its id (name@engine)',
  ],
  "a choice that leaves nothing": [
    ["--engine", "gemini", "--case", "deleted"],
    "no case fits all of --engine, --group, --case and --short",
  ],
  "an unknown flag": [["--nope"], "Unknown option '--nope'"],
  "a word": [["codex"], "Unexpected argument 'codex'"],
  "a flag without its value": [["--engine"], "Option '--engine <value>' argument missing"],
};

test.each(Object.entries(mistakes))("%s", (_name, [args, says]) => {
  const attempt = () => mustFit(cases, readOptions(args, choices));
  expect(attempt).toThrow(Mistake);
  expect(attempt).toThrow(says);
});

test("the options choose and leave out cases", () => {
  const options = readOptions(["--engine=codex", "--group", "stale", "--minutes", "0.5"], choices);
  expect(options).toEqual({
    engine: ["codex"],
    group: ["stale"],
    short: false,
    jobs: 3,
    minutes: 0.5,
    record: false,
    keep: false,
    verbose: false,
    help: false,
  });
  expect(cases.filter((one) => isChosen(one, options)).map(({ id }) => id)).toEqual(["deleted@codex"]);
});
