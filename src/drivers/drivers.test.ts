import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { SeenEvent } from "../core/events.ts";
import type { OutputReader } from "../engines/engine.ts";
import { isAlive } from "../process/process.ts";
import { type AgentOptions, openAgent } from "./drivers.ts";

const scratch = mkdtempSync(join(tmpdir(), "reprise-drivers-"));
afterAll(() => rmSync(scratch, { recursive: true }));

/** Repeats each line as a notice; fails on the line "throw". */
const echo: OutputReader = {
  line(_stream, text) {
    if (text === "throw") throw new Error("a reader's bug");
    return text === "" ? [] : [{ type: "notice", message: text }];
  },
  end: (exit) => [{ type: "turn_ended", result: exit.code === 0 ? "completed" : "failed" }],
};

async function open(script: string, more: Partial<AgentOptions> = {}) {
  const log: (string | SeenEvent)[] = [];
  const agent = await openAgent({
    mode: "pipe",
    interactive: false,
    marker: `drivers-${process.pid}`,
    reader: echo,
    child: {
      file: "sh",
      args: ["-c", script],
      cwd: scratch,
      env: { PATH: process.env["PATH"] ?? "" },
      stdin: null,
    },
    hooks: {
      raw: (stream, chunk) => void log.push(`${stream}: ${chunk.toString()}`),
      events: (events) => void log.push(...events),
    },
    ...more,
  });
  return { agent, log, events: () => log.filter((entry) => typeof entry !== "string") };
}

const notice = (line: number, message: string, stream: "stdout" | "stderr" = "stdout"): SeenEvent => ({
  event: { type: "notice", message },
  stream,
  line,
});
const ended = (line: number, result: "completed" | "failed" = "completed"): SeenEvent => ({
  event: { type: "turn_ended", result },
  stream: "stdout",
  line,
});

describe("openAgent", () => {
  test("delivers raw bytes before the events that it reads from them", async () => {
    const { agent, log } = await open("echo a");
    await agent.ended;
    expect(log).toEqual(["stdout: a\n", notice(1, "a"), ended(1)]);
  });

  const cases: Record<string, [script: string, then: readonly SeenEvent[]]> = {
    "lines are numbered, empty ones too": [
      "printf 'a\\n\\nb\\r\\n'",
      [notice(1, "a"), notice(3, "b"), ended(3)],
    ],
    "a last line without a line feed counts": ["printf 'a\\nb'", [notice(1, "a"), notice(2, "b"), ended(2)]],
    "each stream has its own numbers": [
      "echo a; echo b >&2",
      [notice(1, "a"), notice(1, "b", "stderr"), ended(1)],
    ],
    "a failing reader loses its line, not the capture": [
      "echo a; echo throw; echo c",
      [
        notice(1, "a"),
        { event: { type: "unknown", lines: 1 }, stream: "stdout", line: 2 },
        notice(3, "c"),
        ended(3),
      ],
    ],
    "a line beyond the limit is not understood": [
      "perl -e 'print \"x\" x 1100000'; echo; echo b",
      [notice(2, "b"), ended(2)],
    ],
    "nothing at all": ["exit 1", [ended(0, "failed")]],
  };
  test.each(Object.entries(cases))("%s", async (_name, [script, then]) => {
    const { agent, events } = await open(script);
    await agent.ended;
    const order = (event: SeenEvent) => `${event.event.type === "turn_ended"} ${event.stream} ${event.line}`;
    const sort = (list: readonly SeenEvent[]) =>
      [...list].sort((one, other) => order(one).localeCompare(order(other)));
    expect(sort(events())).toEqual(sort(then));
  });

  test("reads the same lines on a terminal", async () => {
    const { agent, events } = await open("echo a; cat", { mode: "pty", size: { cols: 20, rows: 5 } });
    await agent.ended;
    expect(events()).toEqual([notice(1, "a"), ended(1)]);
  });

  test("captures everything without a reader", async () => {
    const { agent, log } = await open("echo a", { reader: null });
    await agent.ended;
    expect(log).toEqual(["stdout: a\n"]);
  });

  test("keeps the last words on stderr, without control sequences", async () => {
    const long = "perl -e 'print STDERR \"x\" x 20000'";
    const { agent } = await open(`${long}; printf '\\033[31mred\\033[0m\\033]0;title\\007' >&2`);
    await agent.ended;
    expect(agent.stderrTail()).toMatch(/^x{8000,8192}red$/);
  });

  test("marks the agent, which can be ended", async () => {
    const { agent, log } = await open('echo "$REPRISE_ATTEMPT"; exec sleep 300', {
      marker: "drivers-marked",
    });
    expect(await agent.end("kill")).toEqual({ survivors: [] });
    expect(await agent.ended).toEqual({ code: null, signal: "SIGKILL" });
    expect([isAlive(agent.identity), log.at(-1)]).toEqual([false, ended(log.length === 1 ? 0 : 1, "failed")]);
  });
});
