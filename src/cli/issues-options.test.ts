import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { harmlessLine } from "../lib/harmless.ts";
import { type BatchRecord } from "../issues/issues.ts";
import { correctedOptions } from "../issues/rights.ts";
import { redactorFor, storableArgs } from "../run/engine-setup.ts";
import { assertKept, inherit, levelOf } from "./issues-inherit.ts";
import {
  assertNoMark,
  byHandText,
  DECLARATION,
  goOnCommand,
  optionWords,
  REPEATED,
  type RunOptions,
} from "./issues-options.ts";
import { parseOptions, parserOf } from "./parse.ts";
import { earlierOf, earlierText, goOnFirst, goOnOf } from "./issues-go-on.ts";

type Name = keyof typeof REPEATED;

const HERE = { place: null, config: { engines: {} } };

/** A value for each option with a value. */
const VALUES: Partial<Record<Name, string>> = {
  scope: "ids:a,it's b",
  order: "input",
  maxIssues: "3",
  source: "github",
  repo: "acme/shop",
  apiUrl: "http://127.0.0.1:1/api",
  token: "t0p-s3cret",
  engine: "demo",
  access: "full",
  maxAgents: "2",
  timeout: "1h30m",
  idleTimeout: "0",
  isolate: "worktree",
  onLimit: "stop",
};

function parsed(...args: string[]): RunOptions {
  return parseOptions(DECLARATION, args);
}

/** Every option of the parser, as typed. */
function everyOption(): string[] {
  return parserOf(DECLARATION).options.flatMap((option) => {
    const value = VALUES[option.attributeName() as Name];
    expect([option.long, value !== undefined]).toEqual([option.long, option.required]);
    return value === undefined ? [option.long ?? ""] : [option.long ?? "", value];
  });
}

describe("the command that continues a batch", () => {
  test("repeats every option, or the table says why not", () => {
    const names = parserOf(DECLARATION).options.map((option) => option.attributeName());
    expect(Object.keys(REPEATED).toSorted()).toEqual(names.toSorted());
    for (const rule of Object.values(REPEATED)) if (!rule.repeat) expect(rule.why).toMatch(/^it .{5,}/);
  });

  test("means the same when typed again, native options and directory included", () => {
    const options = parsed(...everyOption());
    const native = ["--model", "it's $(touch x)", "", "two\nlines"];
    const line = goOnCommand(optionWords(options, native), "/some where/repo");
    expect(harmlessLine(line)).toBe(line);
    expect(line.slice(0, 28)).toBe("reprise issues run --resume ");
    const read = execFileSync("bash", ["-c", `printf '%s\\0' ${line}`], { encoding: "utf8" });
    const words = read.split("\0").slice(3, -1);
    const dashes = words.indexOf("--");
    expect(words.slice(dashes + 1)).toEqual(native);
    const parser = parserOf(DECLARATION).parse(words.slice(0, dashes), { from: "user" });
    expect(parser.args).toEqual(["/some where/repo"]);
    const again = parser.opts<RunOptions>();
    for (const [name, rule] of Object.entries(REPEATED) as [Name, (typeof REPEATED)[Name]][])
      expect([name, again[name]]).toEqual([
        name,
        name === "resume" ? true : rule.repeat ? options[name] : undefined,
      ]);
  });

  test("has no options for a batch without options", () => {
    const words = optionWords(parsed(), []);
    expect(goOnCommand(words)).toBe("reprise issues run --resume");
  });

  test("contains no secrets, and says what a person must add", () => {
    const options = parsed("--token", "t0p-s3cret", "--api-url", "https://me:hunter22@host.example");
    const native = ["--api-key", "abcdefgh12", "--model", "m"];
    const all = optionWords(options, native);
    const { args, redacted } = storableArgs(all, redactorFor({}, []));
    expect(goOnCommand(args)).not.toMatch(/t0p|hunter22|abcdefgh12|--token/);
    expect(goOnCommand(args)).toContain("--api-key '[redacted]' --model m");
    expect(byHandText([...redacted, "--token"])).toBe(
      "Put the secret of --api-url, --api-key in by hand, in place of [redacted]: Reprise does not store it. Add --token, or set GITHUB_TOKEN: Reprise does not store it.",
    );
    expect(() => assertNoMark(args)).toThrow("Put the secret in place of [redacted]");
  });

  test("has no native options, directory or address in a note in an issue", () => {
    const options = parsed("--scope", "ids:a", "--api-url", "http://127.0.0.1:1");
    const words = optionWords(options, ["--model", "m"], "notes");
    expect(words).toEqual(["--scope", "ids:a"]);
  });
});

const ISSUE = { status: "interrupted" } as BatchRecord["issues"][string];

function batch(options: readonly string[], more: Partial<BatchRecord> = {}): BatchRecord {
  return {
    run_id: "20260102T030405Z_1a2b3c4d",
    started_at: "2026-01-02T03:04:05Z",
    completed_at: "2026-01-02T03:05:05Z",
    left: 0,
    repo_path: "/repo",
    version: "0",
    config: { options: [...options] },
    issues: { a: ISSUE },
    ...more,
  };
}

const FULL = ["--scope", "ids:a", "--engine", "demo", "--access", "full", "--", "--model", "m"];

describe("options that --resume takes from the batch it continues", () => {
  const cases: Record<string, [given: string[], native: string[], last: BatchRecord, then: object]> = {
    "without options, everything": [
      ["--resume"],
      [],
      batch(FULL),
      {
        options: { scope: "ids:a", engine: "demo", access: "full", resume: true },
        native: ["--model", "m"],
        takenNative: ["--model", "m"],
      },
    ],
    "nothing without --resume": [[], [], batch(FULL), { options: {}, native: [], batch: null }],
    "nothing of a batch that is finished": [
      ["--resume"],
      [],
      batch(FULL, { issues: { a: { ...ISSUE, status: "completed" } } }),
      { options: { resume: true }, native: [], batch: null },
    ],
    "of a batch that was killed, or left issues, although all that it began are completed": [
      ["--resume"],
      [],
      batch(["--scope", "ids:a"], { left: 1, issues: { a: { ...ISSUE, status: "completed" } } }),
      { options: { resume: true, scope: "ids:a" } },
    ],
    "options given now count, and the rest comes from the batch": [
      ["--resume", "--scope", "all", "--max-agents", "3"],
      ["--mood", "x"],
      batch([...FULL.slice(0, 6), "--isolate", "none", "--", "--model", "m"]),
      {
        options: { resume: true, scope: "all", engine: "demo", access: "full", maxAgents: 3 },
        native: ["--mood", "x"],
        takenNative: [],
      },
    ],
    "native options give way to an --access that is given now": [
      ["--resume", "--access", "read"],
      [],
      batch(["--", "--access", "all"]),
      { options: { resume: true, access: "read" }, native: [] },
    ],
    "native options are one engine's": [
      ["--resume", "--engine", "codex"],
      [],
      batch(FULL),
      { options: { resume: true, engine: "codex", scope: "ids:a", access: "full" }, native: [] },
    ],
    "a source is taken as a whole or not at all": [
      ["--resume", "--source", "markdown"],
      [],
      batch(["--repo", "acme/shop", "--api-url", "http://127.0.0.1:1"]),
      { options: { resume: true, source: "markdown" } },
    ],
    "trust, --strict and --watch hold only for the command that has them": [
      ["--resume"],
      [],
      batch(["--trust-cwd", "--strict", "--watch", "--scope", "ids:a"]),
      { options: { resume: true, scope: "ids:a" } },
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, last, then]) => {
    // A batch that began nothing is not continued.
    const batches = [batch(["--scope", "ids:z"], { issues: {}, left: 1 }), last];
    const terms = inherit(parsed(...given), native, batches);
    expect(terms).toMatchObject(then);
    if ("options" in then) expect(terms.options).toEqual(then.options);
  });

  test("a secret that was not stored must be given again, and is never silently left out", () => {
    const last = batch(["--api-url", "https://me:[redacted]@host.example"]);
    expect(() => inherit(parsed("--resume"), [], [last])).toThrow(
      "Give the option again: reprise issues run --resume --api-url 'https://me:[redacted]@host.example'",
    );
    const native = batch(["--", "--api-key", "[redacted]"]);
    expect(() => inherit(parsed("--resume"), [], [native])).toThrow("set its status to open");
    expect(inherit(parsed("--resume"), ["--api-key", "x"], [native]).native).toEqual(["--api-key", "x"]);
  });

  test("options unknown to this version begin nothing beyond the scope", () => {
    const last = batch(["--scope", "ids:a", "--only-on-mondays"]);
    expect(() => inherit(parsed("--resume"), [], [last])).toThrow("Say what to work on: --scope");
    expect(inherit(parsed("--resume", "--scope", "all"), [], [last]).options.scope).toBe("all");
  });

  test("issues status prints what plain --resume would continue, and never --trust-cwd", () => {
    const unbegun = batch(["--access", "full"], { issues: {}, left: 1 });
    const begun = batch(["--access", "read", "--trust-cwd", "--", "--trust-cwd"]);
    const done = batch([], { issues: { a: { ...ISSUE, status: "completed" } } });
    const printed = (...batches: BatchRecord[]) => goOnFirst(batches, HERE)?.command;
    expect(printed(unbegun, begun)).toBe("reprise issues run --resume --access read -- --trust-cwd");
    expect(printed(unbegun, done, begun)).toBe("reprise issues run --resume --access full");
    expect(printed(unbegun)).toBe("reprise issues run --resume --access full");
    expect(printed()).toBeUndefined();
  });

  test("issues status prints the newest batch's closing advice, and no command that would repeat a no-op", () => {
    const printed = (...batches: BatchRecord[]) => goOnFirst(batches, HERE)?.command ?? null;
    const begun = batch(["--access", "read"]);
    const nothing = { issues: {}, left: 1, go_on: null };
    expect(printed(batch(["--access", "read"], nothing), begun)).toBeNull();
    expect(printed(batch(["--access", "full"], nothing), begun)).toBe(
      "reprise issues run --resume --access read",
    );
    expect(printed(batch([], { ...nothing, go_on: ["--engine", "demo", "--scope", "ids:a"] }), begun)).toBe(
      "reprise issues run --resume --engine demo --scope ids:a",
    );
    const way = ["--engine", "demo", "--scope", "ids:a"];
    const leaf = { id: "a", why: "w", handle: null, branch: null, go_on: way };
    const wider = batch(["--access", "full"], { ...nothing, go_on: way, leaves: [leaf] });
    expect(printed(wider, begun)).toBe("reprise issues run --resume --access read");
    expect(printed(wider, batch([], { issues: { z: ISSUE } }))).toBe(
      "reprise issues run --resume --engine demo --scope ids:a",
    );
    expect(printed(batch(["--access", "read"], { go_on: null }))).toBeNull();
    expect(printed(batch([], { completed_at: null }))).toBe("reprise issues run --resume");
  });

  test("a batch without --resume that begins nothing leaves the batch before as it was", () => {
    const config = { options: ["--access", "read"], resume: false };
    const nothing = batch([], { issues: {}, left: 0, go_on: null, config });
    expect(goOnFirst([nothing, batch(["--access", "read"])], HERE)?.command).toBe(
      "reprise issues run --resume --access read",
    );
  });

  test("what earlier batches left in progress is named with the issues and the engine, unless a later one has them", () => {
    const config = { options: ["--max-issues", "1", "--strict", "--", "--model", "m"], engine: "demo" };
    const killed = batch([], { config, completed_at: null, issues: { a: ISSUE, b: ISSUE, c: ISSUE } });
    const leaf = { id: "c", why: "w", handle: null, branch: null, go_on: null };
    const newest = batch([], {
      issues: { b: { ...ISSUE, status: "completed" } },
      leaves: [leaf],
      go_on: null,
    });
    const [found, ...more] = earlierOf([newest, killed], HERE, () => true);
    expect(more).toEqual([]);
    expect(found?.ids).toEqual(["a"]);
    expect(found === undefined ? "" : earlierText(found)).toBe(
      `batch ${killed.run_id} was killed and left 1 issue in progress (a): reprise issues run --resume --scope ids:a --engine demo -- --model m`,
    );
    const [unsure] = earlierOf([newest, killed], HERE, null);
    expect(unsure === undefined ? "" : earlierText(unsure)).toContain(" left 1 issue unfinished (a): ");
    expect(earlierOf([newest, killed], HERE, () => false)).toEqual([]);
    expect(earlierOf([killed], HERE, () => true)).toEqual([]);
  });

  test("issues status prints it with the directory, where it was asked from elsewhere", () => {
    expect(goOnOf(batch(FULL), { ...HERE, place: "/my repo" })?.command).toBe(
      "reprise issues run --resume --scope ids:a --engine demo --access full '/my repo' -- --model m",
    );
    expect(goOnOf(batch(["--scope", "ids:a"]), HERE)?.command).toBe(
      "reprise issues run --resume --scope ids:a",
    );
    expect(goOnOf(batch(FULL, { issues: {} }), HERE)).toBeNull();
    expect(goOnOf(batch(FULL, { config: {} }), HERE)).toBeNull();
  });
});

describe("the batch that continues", () => {
  const config = { options: ["--max-issues", "2", "--access", "read", "--", "--model", "m"], begun: ["z"] };
  const typed = ["--max-issues", "2", "--access", "read"];
  const before = (given: string[], native: string[], more: object = {}) =>
    inherit(parsed("--resume", ...given), native, [batch([], { config: { ...config, ...more } })]).before;

  test("the printed command says nothing that the batch did not say, like plain --resume", () => {
    const facts = { access: "read", access_from: "config", engine_given: true };
    const plain = before([], [], facts);
    expect(plain).toEqual(before(typed, ["--model", "m"], facts));
    expect(plain).toMatchObject({ level: "read", accessFrom: "config", begun: ["z", "a"] });
    expect(plain).toMatchObject({ sameScope: true, sameEngine: true, sameAccess: true, sameNative: true });
  });

  test("another option is a new decision, and another limit starts counting from zero", () => {
    const other = before(["--max-issues", "3", "--access", "full", "--scope", "all"], ["--model", "n"]);
    const changed = { sameScope: false, sameAccess: false, sameNative: false };
    expect(other).toMatchObject({ ...changed, level: null, begun: [] });
  });

  test("a finished batch does not continue", () => {
    const done = batch([], { config, issues: { a: { ...ISSUE, status: "completed" } } });
    expect(inherit(parsed("--resume"), [], [done]).before).toBeNull();
  });

  test.each([
    [null, "default", null, "edit"],
    [null, "config", "full", "full"],
    ["read", "config", "full", "read"],
    ["edit", "default", "read", "read"],
    ["full", "config", null, "full"],
    ["full", "option", "read", "full"],
  ] as const)("access %s by %s, with %s in the config, becomes %s", (said, from, now, level) =>
    expect(levelOf(said, from, now)).toBe(level),
  );

  const GATE = ["npm test"];
  const NOW = { gate: GATE, access: "edit", engine: "demo" };
  const kept = (recorded: object, given: string[], now: Partial<typeof NOW>) => {
    const past = batch([], {
      config: { options: [], engine: "demo", gate: GATE, access: "edit", ...recorded },
    });
    const options = parsed("--resume", ...given);
    const terms = inherit(options, [], [past]);
    if (terms.before === null) throw new Error("it goes on");
    return assertKept(terms.before, options, { ...NOW, ...now });
  };
  const GONE = "checked its work with the gate npm test, and there is no gate now";
  const OTHER = "checked its work with the gate npm test, and the gate is now true";

  test.each<[string, object, string[], Partial<typeof NOW>]>([
    ["the same gate", {}, [], {}],
    ["a gate in a batch without one", { gate: [] }, [], {}],
    ["no gate, as before", { gate: [] }, [], { gate: [] }],
    ["a batch of a version that did not keep it", { gate: undefined }, [], { gate: [] }],
    ["an engine's option that is still there", { access: "--sandbox ro" }, [], { access: "--sandbox ro" }],
    ["an engine's option that --access replaces", { access: "--sandbox ro" }, ["--access", "edit"], {}],
    ["another engine", { access: "--sandbox ro" }, [], { engine: "other" }],
  ])("%s changes nothing", (_name, recorded, given, now) => expect(kept(recorded, given, now)).toBeNull());

  test.each<[string, string[], Partial<typeof NOW>, string]>([
    ["no gate any more", ["--accept-gate"], { gate: [] }, GONE],
    ["another gate", ["--accept-gate"], { gate: ["true"] }, OTHER],
    ["another gate of a file that is trusted now", ["--trust-cwd"], { gate: ["true"] }, OTHER],
  ])("%s is named when it is accepted", (_name, given, now, said) =>
    expect(kept({}, given, now)).toContain(said),
  );

  test.each<[string, object, string[], Partial<typeof NOW>, string]>([
    ["no gate any more", {}, [], { gate: [] }, `${GONE}. Nothing was started. Restore the gate`],
    ["no gate any more, with trust", {}, ["--trust-cwd"], { gate: [] }, GONE],
    ["another gate", {}, [], { gate: ["true"] }, `${OTHER}. Nothing was started.`],
    [
      "an engine's option that is gone",
      { access: "--sandbox ro" },
      [],
      {},
      "limited its agents to --sandbox ro",
    ],
  ])("%s is refused", (_name, recorded, given, now, said) =>
    expect(() => kept(recorded, given, now)).toThrow(said),
  );
});

describe("a batch whose engine refused its command line", () => {
  const refused = (error: string, ...options: string[]) => {
    const issue = { status: "failed", error } as BatchRecord["issues"][string];
    return batch(options, { config: { options, engine: "demo" }, issues: { a: issue } });
  };
  const MISTYPED = "usage: unknown option: --modle";

  test.each<[string, args: string[], native: string[], now: string[], native: string[], said: RegExp]>([
    ["in the config", ["--modle", "x"], [], ["--modle", "x"], [], /^First correct \[engines\.demo\] args /],
    ["in the config, and correctedOptions since", ["--modle", "x"], [], [], [], /^$/],
    ["in the config, beside native options", ["--modle"], ["--mood"], ["--modle"], ["--mood"], /^First corr/],
    [
      "in the native options, beside the config",
      ["--mood"],
      ["--modle"],
      ["--mood"],
      ["…"],
      /^Put the right/,
    ],
    [
      "nowhere that can be correctedOptions",
      [],
      [],
      [],
      [],
      /^First fix what it refused: demo refused its comm/,
    ],
  ])("names a mistyped option that stands %s", (_where, args, native, now, printed, said) => {
    const config = { engine: "demo", args };
    const record = batch([], { config, issues: { a: { ...ISSUE, status: "failed", error: MISTYPED } } });
    expect(correctedOptions(record, native, now)).toEqual({
      native: printed,
      byHand: expect.stringMatching(said),
    });
  });

  test("does not print its options again where --strict keeps it from beginning", () => {
    const error =
      "Session resumption failed: no conversation ever began: Demo agent refused its command line (unknown option: --modle)";
    const goOn = goOnOf(refused(error, "--strict", "--", "--modle"), HERE);
    expect(goOn?.command).toBe("reprise issues run --resume --strict -- '…'");
    expect(goOn?.byHand).toContain("demo refused its command line (unknown option: --modle).");
    expect(goOnOf(refused(error, "--", "--model"), HERE)).toMatchObject({
      command: "reprise issues run --resume -- --model",
      byHand: "",
    });
  });

  test("does not print its options again unchanged", () => {
    const goOn = goOnOf(
      refused("usage: unknown option: --modle", "--engine", "demo", "--", "--modle", "x"),
      HERE,
    );
    expect(goOn?.command).toBe("reprise issues run --resume --engine demo -- '…'");
    expect(goOn?.byHand).toBe(
      "Put the right options in place of …, which were --modle x: demo refused its command line (unknown option: --modle). Without any, end the command with --",
    );
    expect(() => assertNoMark(["--resume", "--", "…"])).toThrow("Put the right options in place of …");
  });

  test("prints its options unchanged after another failure", () => {
    const goOn = goOnOf(refused("the gate failed", "--engine", "demo", "--", "--model", "x"), HERE);
    expect(goOn?.command).toBe("reprise issues run --resume --engine demo -- --model x");
  });

  test("drops its native options when nothing follows the dashes", () => {
    const last = batch(FULL);
    expect(inherit({ resume: true }, [], [last])).toMatchObject({ native: ["--model", "m"] });
    expect(inherit({ resume: true }, [], [last], true)).toMatchObject({ native: [], takenNative: [] });
  });
});
