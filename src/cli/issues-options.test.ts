import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import type { BatchRecord } from "../issues/issues.ts";
import { redactorFor, storableArgs } from "../run/run.ts";
import { parse } from "./command.ts";
import {
  assertNoMark,
  byHandText,
  command,
  goOnCommand,
  goOnOf,
  inherit,
  optionWords,
  REPEATED,
  type RunOptions,
} from "./issues-options.ts";

type Name = keyof typeof REPEATED;

/** A value for each option that takes one. */
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
  const parser = command();
  parse(parser, args);
  return parser.opts();
}

/** Every option of the parser, as it is typed. */
function everyOption(): string[] {
  return command().options.flatMap((option) => {
    const value = VALUES[option.attributeName() as Name];
    expect([option.long, value !== undefined]).toEqual([option.long, option.required]);
    return value === undefined ? [option.long ?? ""] : [option.long ?? "", value];
  });
}

describe("the command that goes on with a batch", () => {
  test("every option is repeated, or the table says why not", () => {
    const names = command().options.map((option) => option.attributeName());
    expect(Object.keys(REPEATED).toSorted()).toEqual(names.toSorted());
    for (const rule of Object.values(REPEATED)) if (!rule.repeat) expect(rule.why).toMatch(/^it .{5,}/);
  });

  test("typed again it means the same, native options and the directory included", () => {
    const options = parsed(...everyOption());
    const native = ["--model", "it's $(touch x)", "", "two\nlines"];
    const line = goOnCommand(optionWords(options, native), "/some where/repo");
    expect(line.slice(0, 28)).toBe("reprise issues run --resume ");
    const read = execFileSync("sh", ["-c", `printf '%s\\0' ${line}`], { encoding: "utf8" });
    const words = read.split("\0").slice(3, -1);
    const dashes = words.indexOf("--");
    expect(words.slice(dashes + 1)).toEqual(native);
    const parser = command();
    parse(parser, words.slice(0, dashes));
    expect(parser.args).toEqual(["/some where/repo"]);
    const again = parser.opts<RunOptions>();
    for (const [name, rule] of Object.entries(REPEATED) as [Name, (typeof REPEATED)[Name]][])
      expect([name, again[name]]).toEqual([
        name,
        name === "resume" ? true : rule.repeat ? options[name] : undefined,
      ]);
  });

  test("a batch without options is gone on with without options", () => {
    const words = optionWords(parsed(), []);
    expect(goOnCommand(words)).toBe("reprise issues run --resume");
  });

  test("secrets are not in it, and it says what a person must add", () => {
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

  test("a note in an issue has no native options, no directory and no address", () => {
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

describe("what --resume takes from the batch that it goes on with", () => {
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
    "what is given now counts, and the rest is taken": [
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
    "trust, --strict and --watch are a person's word of the moment": [
      ["--resume"],
      [],
      batch(["--trust-cwd", "--strict", "--watch", "--scope", "ids:a"]),
      { options: { resume: true, scope: "ids:a" } },
    ],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, native, last, then]) => {
    // A batch that began nothing is not gone on with.
    const batches = [batch(["--scope", "ids:z"], { issues: {}, left: 1 }), last];
    const terms = inherit(parsed(...given), native, batches);
    expect(terms).toMatchObject(then);
    if ("options" in then) expect(terms.options).toEqual(then.options);
  });

  test("a secret that is not stored must be given again, and is not left out in silence", () => {
    const last = batch(["--api-url", "https://me:[redacted]@host.example"]);
    expect(() => inherit(parsed("--resume"), [], [last])).toThrow(
      "Give the option again: reprise issues run --resume --api-url 'https://me:[redacted]@host.example'",
    );
    const native = batch(["--", "--api-key", "[redacted]"]);
    expect(() => inherit(parsed("--resume"), [], [native])).toThrow("set the issue's status to open");
    expect(inherit(parsed("--resume"), ["--api-key", "x"], [native]).native).toEqual(["--api-key", "x"]);
  });

  test("options that this version does not know begin nothing beyond the scope", () => {
    const last = batch(["--scope", "ids:a", "--only-on-mondays"]);
    expect(() => inherit(parsed("--resume"), [], [last])).toThrow("Say what to work on: --scope");
    expect(inherit(parsed("--resume", "--scope", "all"), [], [last]).options.scope).toBe("all");
  });

  test("issues status prints it with the directory, where it was asked from elsewhere", () => {
    expect(goOnOf(batch(FULL), "/my repo")?.command).toBe(
      "reprise issues run --resume --scope ids:a --engine demo --access full '/my repo' -- --model m",
    );
    expect(goOnOf(batch(["--scope", "ids:a"]), null)?.command).toBe(
      "reprise issues run --resume --scope ids:a",
    );
    expect(goOnOf(batch(FULL, { issues: {} }), null)).toBeNull();
    expect(goOnOf(batch(FULL, { config: {} }), null)).toBeNull();
  });
});
