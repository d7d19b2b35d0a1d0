/** Gates with real processes. */
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Processes } from "../core/deps.ts";
import { redactor } from "../lib/secrets.ts";
import { type GateRequest, plainEnv, runGate } from "./gate.ts";
import * as all from "./process.ts";

const LADDER = { interruptMs: 200, terminateMs: 200 };
const processes: Processes = {
  ...all,
  endTree: (root, marker, from) => all.endTree(root, marker, LADDER, from),
};

let cwd: string;
beforeEach(() => {
  cwd = realpathSync(mkdtempSync(join(tmpdir(), "reprise-gate-")));
});
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

const gate = (command: readonly string[], more: Partial<GateRequest> = {}) =>
  runGate(processes, {
    command,
    cwd,
    env: plainEnv(process.env),
    timeoutMs: 20_000,
    redact: redactor([{ name: "LAB", value: "swordfish-4711" }]),
    marker: `gate-${cwd}`,
    ...more,
  });

test("a gate that prints endlessly is ended at its limit", async () => {
  const { passed, detail } = await gate(["yes"], { maxBytes: 1024 * 1024 });
  expect([passed, detail.split("\n")[0]]).toEqual([false, "yes printed more than 1 MiB and was ended."]);
});

test.each<[name: string, command: readonly string[], passed: boolean, detail: string]>([
  ["exit 0 passes", ["true"], true, "true passed."],
  ["any other code fails", ["sh", "-c", "exit 3"], false, "sh -c 'exit 3' failed with exit code 3."],
  ["a signal fails", ["sh", "-c", "kill -9 $$"], false, "sh -c 'kill -9 $$' was killed by SIGKILL."],
  [
    "no shell sees the words",
    ["echo", "$HOME; `id` > x"],
    true,
    "echo '$HOME; `id` > x' passed.\n$HOME; `id` > x",
  ],
  [
    "colours go, control characters become visible",
    ["printf", "\\033[31mred\\033[0m \\007"],
    true,
    "printf '\\033[31mred\\033[0m \\007' passed.\nred \\x07",
  ],
  [
    "secrets go, from the command too",
    ["echo", "swordfish-4711"],
    true,
    "echo '[redacted:LAB]' passed.\n[redacted:LAB]",
  ],
  [
    "no such program",
    ["no-such-program"],
    false,
    "no-such-program could not be run: there is no program no-such-program on PATH.",
  ],
  ["an empty command", [], false, " could not be run: the command is empty."],
])("%s", async (_name, command, passed, detail) => {
  expect(await gate(command)).toEqual({ passed, detail });
});

test("the detail of a gate contains both streams", async () => {
  const { detail } = await gate(["sh", "-c", "echo out; echo err >&2"]);
  expect(detail.split("\n").slice(1).toSorted()).toEqual(["err", "out"]);
});

test("a directory that is gone fails the gate", async () => {
  const gone = join(cwd, "gone");
  expect(await gate(["true"], { cwd: gone })).toEqual({
    passed: false,
    detail: `true could not be run: The working directory ${gone} is gone or is not a directory.`,
  });
});

test("a program with a slash is looked for where the gate runs", async () => {
  writeFileSync(join(cwd, "check.sh"), "#!/bin/sh\npwd\n", { mode: 0o755 });
  expect(await gate(["./check.sh"])).toEqual({ passed: true, detail: `./check.sh passed.\n${cwd}` });
  expect((await gate(["./missing.sh"])).passed).toBe(false);
});

test("PATH comes from the gate's environment", async () => {
  writeFileSync(join(cwd, "own-check"), "#!/bin/sh\nexit 0\n", { mode: 0o755 });
  const env = { PATH: `${cwd}:/bin:/usr/bin` };
  expect((await gate(["own-check"], { env })).passed).toBe(true);
  expect((await gate(["own-check"])).passed).toBe(false);
});

test("a gate keeps only the end of a flood, in whole characters, and does not fail for it", async () => {
  const script = `for (let i = 0; i < 400000; i++) process.stdout.write("line ünd " + i + "\\n")`;
  const { passed, detail } = await gate(["node", "-e", script]);
  expect(passed).toBe(true);
  expect(Buffer.byteLength(detail)).toBeLessThanOrEqual(4096);
  expect(Buffer.byteLength(detail)).toBeGreaterThan(4000);
  expect(detail).toMatch(/ünd 399999$/);
  expect(detail).not.toContain("\ufffd");
});

test("a single line without an end is kept up to its end", async () => {
  const { detail } = await gate(["node", "-e", `process.stdout.write("ü".repeat(300000))`]);
  expect(detail).toMatch(/passed\.\n…ü+$/);
});

test("the time limit ends the whole process tree, including processes that left it", async () => {
  const marker = `gate-${cwd}`;
  const script = `trap "" TERM; setsid sleep 600 & echo started; sleep 600`;
  const { passed, detail } = await gate(["sh", "-c", script], { timeoutMs: 2_000 });
  expect({ passed, detail: detail.split("\n").slice(-2) }).toEqual({
    passed: false,
    detail: [expect.stringContaining("took longer than 2 s and was ended."), "started"],
  });
  expect(processes.findMarked(marker)).toEqual([]);
});

test("a limit beyond the range of a timer does not fire immediately", async () => {
  expect((await gate(["sh", "-c", "sleep 0.2"], { timeoutMs: 60 * 86_400_000 })).passed).toBe(true);
});

// Each process may still be executing its program when the gate ends, and is hard to see then: hence many rounds.
test.each([
  ["a separate session", "setsid sleep 600 >/dev/null 2>&1 &"],
  ["the last of a chain whose others have ended", "(setsid sh -c 'sleep 600 &' &) >/dev/null 2>&1 &"],
])("processes that a gate leaves running end with it: %s", async (_, script) => {
  for (let times = 0; times < 15; times += 1) {
    expect((await gate(["sh", "-c", script])).passed).toBe(true);
    expect(processes.findMarked(`gate-${cwd}`)).toEqual([]);
  }
});

test("an earlier run of the same gate is ended first", async () => {
  const marker = `gate-${cwd}`;
  const file = join(cwd, "log");
  const script = `echo begun >> ${file}; sleep 600; echo never >> ${file}`;
  const env = plainEnv(process.env);
  const earlier = await all.spawnPiped(
    { file: "sh", args: ["-c", script], cwd, env, stdin: null, marker },
    () => {},
  );
  const deadline = Date.now() + 10_000;
  while (!existsSync(file) && Date.now() < deadline) await new Promise((wake) => setTimeout(wake, 10));
  expect((await gate(["true"])).passed).toBe(true);
  expect(processes.isAlive(earlier.identity)).toBe(false);
  expect((await earlier.ended).signal).toBe("SIGTERM");
  expect(readFileSync(file, "utf8")).toBe("begun\n");
});
