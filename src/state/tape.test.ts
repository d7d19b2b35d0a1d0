import { spawn, execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { SeenEvent } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import { redactor } from "../lib/secrets.ts";
import { openTape } from "./tape.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-tape-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function manualClock() {
  let at = 1000;
  return {
    now: () => at,
    mono: () => at,
    pass(ms: number) {
      at += ms;
    },
  };
}

const redact = redactor([{ name: "CANARY", value: "canary-value-1" }]);
const read = (name: string) => readFileSync(join(dir, name));
const jsonl = (name: string) =>
  read(name)
    .toString()
    .split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line));
const sha = (data: Buffer) => createHash("sha256").update(data).digest("hex");

test("an attempt without output leaves a complete set of private files", async () => {
  const before = process.umask(0);
  const tape = openTape(dir, { redact, clock: manualClock() });
  process.umask(before);
  expect(await tape.close()).toEqual({ stdout: 0, stderr: 0 });
  expect(await tape.close()).toEqual({ stdout: 0, stderr: 0 });
  const files = readdirSync(dir).map((name) => {
    const { mode, size } = statSync(join(dir, name));
    return [name, (mode & 0o777).toString(8), size];
  });
  expect(files).toEqual(
    ["events.jsonl", "pty-output.log", "stderr.log", "stdout.log", "timing.jsonl"].map((name) => [
      name,
      "600",
      0,
    ]),
  );
});

test("the tapes keep bytes exact, separate and in order of arrival", async () => {
  const tape = openTape(dir, { redact, clock: manualClock() });
  const all: Buffer[] = [];
  const streams = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const reused = Buffer.alloc(70_000);
  for (let i = 0; i < 60; i += 1) {
    const stream = i % 3 === 0 ? "stderr" : "stdout";
    const bytes = randomBytes(i * 997);
    bytes.copy(reused);
    tape.raw(stream, reused.subarray(0, bytes.length));
    all.push(bytes);
    streams[stream].push(bytes);
  }
  const stdout = Buffer.concat(streams.stdout);
  const stderr = Buffer.concat(streams.stderr);
  // Written before `raw` returns, not when the tape closes.
  expect(sha(read("pty-output.log"))).toBe(sha(Buffer.concat(all)));
  expect(await tape.close()).toEqual({ stdout: stdout.length, stderr: stderr.length });
  expect([read("stdout.log"), read("stderr.log")].map(sha)).toEqual([stdout, stderr].map(sha));
});

test("the timing adds up and has the size of the terminal, and bursts share a line", async () => {
  const clock = manualClock();
  const tape = openTape(dir, { redact, clock });
  tape.resized({ cols: 80, rows: 24 });
  tape.raw("stdout", Buffer.from("ab"));
  clock.pass(5);
  tape.raw("stdout", Buffer.from("c"));
  tape.raw("stderr", Buffer.from("d"));
  tape.raw("stdout", Buffer.from("e"));
  clock.pass(6);
  tape.raw("stdout", Buffer.from("fg"));
  tape.raw("stdout", Buffer.alloc(0));
  await tape.sync();
  clock.pass(1);
  tape.raw("stdout", Buffer.from("h"));
  await tape.close();
  tape.resized({ cols: 1, rows: 1 });
  expect(jsonl("timing.jsonl")).toEqual([
    { t: 0, s: "r", cols: 80, rows: 24 },
    { t: 0, s: "o", n: 3 },
    { t: 5, s: "e", n: 1 },
    { t: 5, s: "o", n: 1 },
    { t: 11, s: "o", n: 2 },
    { t: 12, s: "o", n: 1 },
  ]);
});

test("messages and results of tools are on the tape, redacted and then cut", async () => {
  const tape = openTape(dir, { redact, clock: manualClock() });
  tape.said("say canary-value-1", true);
  tape.said("x".repeat(70_000), false);
  const output = `${"a".repeat(1_015)}canary-value-1${"b".repeat(9_000)}`;
  const call = { type: "tool", id: "1", name: "sh" } as const;
  tape.events([{ event: { ...call, state: "ended", output, cut: 5 }, stream: "stdout", line: 1 }]);
  await tape.close();
  const [opening, later, ended] = jsonl("events.jsonl");
  expect(opening).toMatchObject({ t: 0, type: "message", opening: true });
  expect(JSON.stringify([opening, ended])).not.toContain("canary");
  expect(later).toMatchObject({ type: "message", cut: 70_000 - 65_536 });
  const { output: kept, cut } = ended as { output: string; cut: number };
  expect(kept.length).toBe(4_096 + "\n…\n".length);
  expect(kept.endsWith("b".repeat(3_072))).toBe(true);
  expect(cut).toBeGreaterThan(5_900);
});

test("the tape redacts events and counts lines that the engine's profile does not understand", async () => {
  const clock = manualClock();
  const tape = openTape(dir, { redact, clock });
  const seen = (event: SeenEvent["event"], line: number): SeenEvent => ({ event, stream: "stdout", line });
  tape.events([
    seen({ type: "session", session: "s-1" }, 1),
    seen({ type: "unknown" }, 2),
    seen({ type: "text", text: "it is canary-value-1\n\u2028" }, 3),
  ]);
  clock.pass(40);
  tape.events([seen({ type: "unknown" }, 4)]);
  tape.events([]);
  tape.raw("stdout", Buffer.from("canary-value-1"));
  await tape.close();
  expect(jsonl("events.jsonl")).toEqual([
    { t: 0, stream: "stdout", line: 1, type: "session", session: "s-1" },
    { t: 0, stream: "stdout", line: 3, type: "text", text: "it is [redacted:CANARY]\n\u2028" },
    { t: 40, type: "unknown", count: 2 },
  ]);
  expect(read("stdout.log").toString()).toBe("canary-value-1");
});

test("a new line begins after a torn tail", async () => {
  await openTape(dir, { redact, clock: manualClock() }).close();
  appendFileSync(join(dir, "events.jsonl"), '{"t":0,"type":"te');
  appendFileSync(join(dir, "stdout.log"), "half");
  const tape = openTape(dir, { redact, clock: manualClock() });
  tape.events([{ event: { type: "turn_started" }, stream: "stdout", line: 1 }]);
  tape.raw("stdout", Buffer.from(" done"));
  expect(await tape.close()).toEqual({ stdout: 9, stderr: 0 });
  expect(read("events.jsonl").toString()).toBe(
    '{"t":0,"type":"te\n{"t":0,"stream":"stdout","line":1,"type":"turn_started"}\n',
  );
  expect(read("stdout.log").toString()).toBe("half done");
});

describe("refusals", () => {
  test("the tape refuses links, pipes and missing directories", () => {
    const open = (path = dir) => {
      try {
        openTape(path, { redact, clock: manualClock() });
      } catch (error) {
        return error instanceof Fault ? error.code : error;
      }
      return "opened";
    };
    writeFileSync(join(dir, "victim"), "");
    symlinkSync(join(dir, "victim"), join(dir, "stdout.log"));
    expect(open()).toBe("storage_failed");
    unlinkSync(join(dir, "stdout.log"));
    execFileSync("env", ["mkfifo", join(dir, "stdout.log")]);
    expect(open()).toBe("denied");
    expect(open(join(dir, "nothing"))).toBe("storage_failed");
  });

  test("a full disk causes a fault that says so, and nothing is doubled or silently lost", async ({
    skip,
  }) => {
    const disk = join(dir, "disk");
    mkdirSync(disk);
    try {
      execFileSync("env", ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], { stdio: "ignore" });
    } catch {
      skip("mounting is not allowed here");
    }
    try {
      const tape = openTape(disk, { redact, clock: manualClock() });
      const chunk = randomBytes(100 * 1024 + 13);
      let chunks = 0;
      let fault: unknown;
      while (fault === undefined && chunks < 50) {
        chunks += 1;
        try {
          tape.raw("stdout", Buffer.from(chunk));
        } catch (error) {
          fault = error;
        }
      }
      expect(fault).toMatchObject({ code: "storage_full", facts: { errno: "ENOSPC" } });
      expect(() => tape.retry()).toThrow(Fault);
      // The tape keeps some more; later output is lost, and counted.
      let more = 0;
      for (let lost = 0; lost === 0 && more < 500; more += 1) {
        try {
          tape.raw("stdout", chunk);
        } catch (error) {
          lost = error instanceof Fault ? Number(error.facts["lostBytes"]) : Number.NaN;
          expect([0, chunk.length]).toContain(lost);
        }
      }
      chunks += more - 1;
      execFileSync("env", ["mount", "-o", "remount,size=64m", disk]);
      tape.retry();
      expect(await tape.close()).toEqual({ stdout: chunks * chunk.length, stderr: 0 });
      const whole = Buffer.concat(Array.from({ length: chunks }, () => chunk));
      for (const name of ["pty-output.log", "stdout.log"]) {
        expect(sha(readFileSync(join(disk, name)))).toBe(sha(whole));
      }
      expect(readFileSync(join(disk, "events.jsonl"), "utf8")).toContain(
        `${chunk.length} bytes of output were lost`,
      );
    } finally {
      execFileSync("env", ["umount", disk]);
    }
  });
});

test("everything written before kill -9 is on the tape", async () => {
  const program = join(dir, "writer.mts");
  const module = new URL("./tape.ts", import.meta.url).pathname;
  writeFileSync(
    program,
    `import { openTape } from ${JSON.stringify(module)};
     const clock = { now: () => Date.now(), mono: () => performance.now() };
     const tape = openTape(process.argv[2] ?? "", { redact: (text) => text, clock });
     for (let i = 0; ; i += 1) {
       const line = \`line \${i} \${"x".repeat(i % 500)}\\n\`;
       tape.raw("stdout", Buffer.from(line));
       tape.events([{ event: { type: "text", text: String(i) }, stream: "stdout", line: i + 1 }]);
       await new Promise((resolve) => process.stdout.write(\`\${i}\\n\`, resolve));
     }`,
  );
  const child = spawn(process.execPath, ["--import", "tsx", program, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let told = "";
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    told += chunk.toString();
    if (told.length > 20_000) child.kill("SIGKILL");
  }
  const last = Number(told.slice(0, told.lastIndexOf("\n")).split("\n").at(-1));
  const whole = Array.from({ length: last + 1 }, (_, i) => `line ${i} ${"x".repeat(i % 500)}\n`).join("");
  for (const name of ["pty-output.log", "stdout.log"]) {
    expect(read(name).toString().startsWith(whole)).toBe(true);
  }
  const events = read("events.jsonl").toString().split("\n");
  expect(JSON.parse(events[last] ?? "")).toMatchObject({ line: last + 1, text: String(last) });
}, 60_000);
