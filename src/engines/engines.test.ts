/**
 * Replays every recorded transcript through its engine. A case is `<name>.stdout` (the CLI's output), optionally
 * `<name>.stderr` and `<name>.exit.json`, and `<name>.expected.json`: the events, or `{ events, explained }` with the
 * explanation of the exit and the last words on stderr. A new case needs no code.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { EngineEvent, Exit, Trouble } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { parseJson } from "../lib/json.ts";
import type { AttemptRequest, Command, Engine } from "./engine.ts";
import { earlierChoice, ENGINES, builtInEngine } from "./engines.ts";

const NOW = Date.parse("2026-11-15T02:30:00Z");
const UUID = "11111111-1111-4111-8111-111111111111";
const SUCCESS: Exit = { code: 0, signal: null };

beforeAll(() => {
  // Clock times without a zone are local.
  vi.stubEnv("TZ", "UTC");
});

test("engines are found by id", () => {
  expect(ENGINES.map(({ id }) => builtInEngine(id)?.id)).toEqual(ENGINES.map(({ id }) => id));
  expect(builtInEngine("nobody")).toBeUndefined();
});

describe.each(ENGINES.map((engine) => [engine.id, engine] as const))("%s", (id, engine) => {
  const dir = new URL(`./${id}.fixtures/`, import.meta.url);
  const names = existsSync(dir)
    ? [
        ...new Set(
          readdirSync(dir)
            // Another test covers conversations with both sides.
            .filter((file) => !file.endsWith(".jsonl"))
            .map((file) => file.replace(/\.(?:stdout|stderr|exit\.json|expected\.json)$/, "")),
        ),
      ]
    : [];
  const read = (file: string) =>
    existsSync(new URL(file, dir)) ? readFileSync(new URL(file, dir), "utf8") : null;

  test("has recorded transcripts", () => {
    // An engine that can no longer be run may have documented transcripts instead.
    if (engine.tested !== null) expect(names).not.toEqual([]);
  });

  if (names.length > 0) {
    test.each(names)("understands %s", (name) => {
      // Recorded without the engine's JSON option.
      const isText = name.startsWith("text-");
      const reader = engine.reader(() => NOW, isText ? "text" : "events");
      const [stdout, stderr] = [read(`${name}.stdout`) ?? "", read(`${name}.stderr`) ?? ""];
      const exit = (parseJson(read(`${name}.exit.json`) ?? "") ?? SUCCESS) as Exit;
      const events = [
        ...linesOf(stdout).flatMap((line) => reader.line("stdout", line)),
        ...linesOf(stderr).flatMap((line) => reader.line("stderr", line)),
        ...reader.end(exit),
      ];
      const expected = parseJson(read(`${name}.expected.json`) ?? "") as
        | readonly EngineEvent[]
        | { events: readonly EngineEvent[]; explained: Trouble | null };
      if ("events" in expected) {
        const explained = engine.explainExit(exit, stderr, NOW, isText ? stdout : undefined);
        expect({ events, explained }).toEqual(expected);
      } else expect(events).toEqual(expected);
    });
  }

  test.each([
    "",
    "{",
    "null",
    "[]",
    "[[]]",
    "7",
    '"x"',
    '{"type":7}',
    '{"type":"item.completed"}',
    "\u0000",
    "{}",
  ])("survives %j", (line) => {
    const reader = engine.reader(() => NOW);
    expect(() => [
      reader.line("stdout", line),
      reader.line("stderr", line),
      reader.end(SUCCESS),
    ]).not.toThrow();
  });

  test("accepts ids in its own format only", () => {
    for (const text of ["", "../x", "-x", "latest", " ", "x\n", `${"a".repeat(5000)}!`]) {
      expect(engine.session.format.test(text)).toBe(false);
    }
  });

  test("names each variable that affects rights once", () => {
    const variables = engine.rightsEnv ?? [];
    expect(variables).not.toEqual([]);
    expect(variables.filter((name, at) => !/^\w+$/.test(name) || variables.indexOf(name) !== at)).toEqual([]);
    // iFlow's page names the settings and their four spellings.
    const page = readFileSync(`docs/engines/${id}.md`, "utf8");
    expect(variables.filter((name) => !/^iflow_/i.test(name) && !page.includes(`\`${name}`))).toEqual([]);
    // Homes have a separate comparison.
    expect(variables.filter((name) => name in engine.homeEnv("/h"))).toEqual([]);
  });

  test.each(["start", "resume"] as const)("stores no arguments that hold the message: %s", (kind) => {
    for (const interactive of [false, true]) {
      const message = "-the message";
      const { args, storedArgs } = commandOf(engine, { kind, interactive, message });
      const shown = args.map((arg) => arg.replace(message, "[message]"));
      expect(storedArgs ?? args).toEqual(shown);
    }
  });

  test("explains no end by a signal with what was written to stderr before", () => {
    const exit = { code: null, signal: "SIGKILL" } as const;
    for (const line of [
      "error: 403 Forbidden",
      "demo: boom",
      "Not inside a trusted directory",
      "ERROR: usage limit",
    ])
      expect(engine.explainExit(exit, `${line}\n`, NOW, "")).toBeNull();
  });

  test("explains nothing when all went well", () => {
    expect(engine.explainExit(SUCCESS, "", NOW)).toBeNull();
  });
});

const SESSIONS: Record<string, string> = {
  iflow: "session-11111111-1111-4111-8111-111111111111",
  opencode: "ses_01a1dd0aa544ffeB73b2b8f54b",
};

function commandOf(
  engine: Engine,
  part: Pick<AttemptRequest, "kind" | "interactive" | "message">,
): Pick<Command, "args" | "storedArgs"> {
  try {
    return engine.command({
      session: part.kind === "start" && !engine.can.chooseSession ? null : (SESSIONS[engine.id] ?? UUID),
      forkTo: null,
      given: [],
      givenHasNoPrompt: true,
      native: [],
      cwd: "/w",
      tag: "1a2b3c4d-1",
      trustCwd: false,
      ...part,
    });
  } catch (error) {
    if (error instanceof Fault && error.code === "engine_cannot") return { args: [] };
    throw error;
  }
}

/** As the reader gets them: without line breaks, and without the `\r` of a terminal. */
function linesOf(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

test.each<[string, string, ReturnType<typeof earlierChoice>]>([
  ["claude", "--continue", { word: "--continue", scope: "here" }],
  ["claude", "-c --model opus", { word: "--continue", scope: "here" }],
  ["claude", "-r", { word: "--resume", scope: "any" }],
  ["claude", "--resume=some-title", { word: "--resume", scope: "any" }],
  ["claude", "--from-pr 12", { word: "--from-pr", scope: "any" }],
  ["claude", "--continue --fork-session", null],
  ["claude", "--session-id 11111111-1111-4111-8111-111111111111", null],
  ["codex", "exec resume --last", { word: "--last", scope: "here" }],
  ["codex", "e resume --last --all", { word: "--last", scope: "any" }],
  ["codex", "resume", { word: "resume", scope: "any" }],
  ["codex", "exec resume some-name", { word: "resume", scope: "any" }],
  ["codex", "fork --last", null],
  ["codex", "exec", null],
  ["gemini", "--resume latest", { word: "--resume", scope: "here" }],
  ["gemini", "-r", { word: "--resume", scope: "here" }],
  ["gemini", "--resume=1", { word: "--resume", scope: "here" }],
  ["gemini", "--sessionFile s.json", { word: "--session-file", scope: "any" }],
  ["gemini", "-m pro", null],
  ["opencode", "-c", { word: "--continue", scope: "any" }],
  ["opencode", "--continue --fork", null],
  ["iflow", "-c", { word: "--continue", scope: "any" }],
  ["iflow", "--resume", { word: "--resume", scope: "any" }],
])("%s knows whether %s continues an earlier conversation", (id, words, choice) => {
  const engine = builtInEngine(id);
  expect(engine === undefined ? undefined : earlierChoice(engine, words.split(" "), true)).toEqual(choice);
});
