/** What our own long programs share: their command lines, and that nothing of them stays behind. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { chosen, parseArguments } from "../scripts/arguments.ts";
import { isAlive } from "./e2e/holder-box.ts";
import { until } from "./e2e/sandbox.ts";

const KINDS = {
  short: "flag",
  only: "text",
  minutes: "amount",
  agents: "count",
  seed: "seed",
  json: "file",
} as const;
const NOTHING = { short: false, only: undefined, minutes: undefined, agents: undefined, seed: undefined };

describe("arguments", () => {
  test.for([
    ["", {}],
    ["--short --only a,b", { short: true, only: "a,b" }],
    ["--minutes 0.5 --agents=40 --seed 0", { minutes: 0.5, agents: 40, seed: 0 }],
    ["--json package.json", { json: "package.json" }],
    ["--json test/new.json", { json: "test/new.json" }],
  ] as const)("%s", ([line, then]) => {
    expect(parseArguments(line.split(" ").filter(Boolean), KINDS)).toEqual({ ...NOTHING, ...then });
  });

  test.for([
    ["--nope", "There is no option --nope; see --help"],
    ["-x", "There is no option -x; see --help"],
    ["--constructor", "There is no option --constructor; see --help"],
    ["word", "word is no option; see --help"],
    ["--short=1", "--short takes no value"],
    ["--only", "--only needs a value"],
    ["--only=", "--only needs a value"],
    ["--only --short", "--only needs a value"],
    ["--minutes x", "--minutes is a number above 0, not x"],
    ["--minutes 0", "--minutes is a number above 0, not 0"],
    ["--minutes 0.0", "--minutes is a number above 0, not 0.0"],
    ["--minutes -1", "--minutes is a number above 0, not -1"],
    ["--minutes Infinity", "--minutes is a number above 0, not Infinity"],
    ["--agents 0", "--agents is a whole number above 0, not 0"],
    ["--agents 1.5", "--agents is a whole number above 0, not 1.5"],
    ["--seed 1e3", "--seed is a whole number of at most 9 digits, not 1e3"],
    ["--json nowhere/file", "--json is a file in a folder that exists, not nowhere/file"],
    ["--json test", "--json is a file in a folder that exists, not test"],
  ] as const)("%s: %s", ([line, then]) => {
    expect(() => parseArguments(line.split(" "), KINDS)).toThrow(new Error(then));
  });

  test("names are chosen in any case, and in their own order", () => {
    expect(chosen(undefined, ["P1", "P2"])).toEqual(["P1", "P2"]);
    expect(chosen("p10, P2", ["P1", "P2", "P10"])).toEqual(["P2", "P10"]);
    expect(() => chosen("P1,p3", ["P1", "P2"])).toThrow("There is no p3; there are P1, P2");
  });
});

describe("keep", () => {
  let folder = "";
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "reprise-keep-"))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Starts a child that outlives it and ignores signals, like a daemon, and is busy itself: it handles no signal. */
  const PROGRAM = `
import { spawn } from "node:child_process";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
const [file = "", how] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), "box-"));
const deaf = ["-c", "trap '' INT TERM HUP; while :; do sleep 1; done"];
const { pid } = spawn("sh", deaf, { detached: true, stdio: "ignore", env: { PATH: process.env["PATH"], HOME: home } });
writeFileSync(file + ".new", JSON.stringify({ home, own: process.pid, left: pid }));
renameSync(file + ".new", file);
if (how === "end") process.exit(3);
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => {});
for (;;);
`;

  test.for([
    ["SIGINT", 130],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
    ["end", 3],
  ] as const)("%s: leaves nothing, and exits with %i", async ([how, code]) => {
    const [program, told] = [join(folder, "program.ts"), join(folder, "told")];
    writeFileSync(program, PROGRAM);
    const words = ["--import", "tsx", "scripts/keep.ts", program, told, how];
    const keeper = spawn(process.execPath, words, { stdio: ["ignore", "inherit", "inherit"] });
    const ended = new Promise((done) => keeper.once("exit", done));
    await until("the program works", () => existsSync(told), 30_000);
    const { home, own, left } = JSON.parse(readFileSync(told, "utf8")) as {
      home: string;
      own: number;
      left: number;
    };
    if (how !== "end") keeper.kill(how);
    expect(await ended).toBe(code);
    expect([own, left].filter(isAlive)).toEqual([]);
    expect(existsSync(dirname(home))).toBe(false);
  });
});
