import { describe, expect, test } from "vitest";
import { untilText } from "../lib/until.ts";
import { widthOf } from "../lib/width.ts";
import type { AgentView } from "../supervisor/supervisor.ts";
import type { Terminal } from "./context.ts";
import { changesBetween, frameOf, type AgentStatus } from "./status.ts";

const NOW = Date.parse("2026-04-01T12:00:00.000Z");
const PIPE: Terminal = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };
const SCREEN: Terminal = { ...PIPE, stdout: true, stderr: true, color: true };
const HOSTILE = "\u001b]0;owned\u0007\u202e\n\tx".repeat(20);

const agent = (more: Partial<AgentView> = {}): AgentView => ({
  id: "1a2b3c4d",
  name: "worker",
  engine: "claude",
  runId: "20260401T110000Z-claude-1a2b3c4d",
  cwd: "/p",
  phase: "active",
  state: "working",
  sinceMs: NOW - 125_000,
  attempts: 2,
  why: "it is working",
  next: null,
  decision: null,
  pipeline: null,
  ...more,
});

const pipeline = (
  more: Partial<AgentStatus["pipelines"][number]> = {},
): AgentStatus["pipelines"][number] => ({
  id: "99887766",
  name: "ci",
  phase: "active",
  step: "test",
  reason: null,
  decision: null,
  workspace: "/p",
  createdAt: "2026-04-01T11:00:00.000Z",
  endedAt: null,
  ...more,
});

const status = (more: Partial<AgentStatus> = {}): AgentStatus => ({
  daemon: { pid: 7, version: "1", sinceMs: NOW },
  agents: [agent()],
  pipelines: [],
  ...more,
});

describe("frameOf", () => {
  const cases: Record<string, [status: AgentStatus, then: readonly string[]]> = {
    "an agent at work": [
      status(),
      [
        "AGENT     NAME    STATE    FOR      ATT  NEXT",
        "1a2b3c4d  worker  working  2 m 5 s  2    it is working",
      ],
    ],
    "what comes next, and when": [
      status({ agents: [agent({ state: "error", next: { action: "resume", atMs: NOW + 60_000 } })] }),
      [
        "AGENT     NAME    STATE  FOR      ATT  NEXT",
        `1a2b3c4d  worker  error  2 m 5 s  2    waits ${untilText(NOW + 60_000, NOW)}, then resume`,
      ],
    ],
    "a question": [
      status({ agents: [agent({ state: "waiting", decision: "1a2b3c4d-9" })] }),
      [
        "AGENT     NAME    STATE    FOR      ATT  NEXT",
        "1a2b3c4d  worker  waiting  2 m 5 s  2    asks you: reprise decisions show 1a2b3c4d-9",
      ],
    ],
    "a pipeline whose agent asks": [
      status({ agents: [], pipelines: [pipeline({ decision: "1a2b3c4d-9" })] }),
      [
        "PIPELINE  NAME  STATE   STEP  FOR  WHY",
        "99887766  ci    active  test  1 h  asks you: reprise decisions show 1a2b3c4d-9",
      ],
    ],
    "pipelines below": [
      status({ pipelines: [pipeline()] }),
      [
        "AGENT     NAME    STATE    FOR      ATT  NEXT",
        "1a2b3c4d  worker  working  2 m 5 s  2    it is working",
        "",
        "PIPELINE  NAME  STATE   STEP  FOR  WHY",
        "99887766  ci    active  test  1 h",
      ],
    ],
    "a pipeline alone, without a supervisor": [
      status({ daemon: null, agents: [], pipelines: [pipeline({ step: null })] }),
      [
        "The daemon is not running: these agents are not supervised. Start it: reprise daemon start",
        "PIPELINE  NAME  STATE   STEP  FOR  WHY",
        "99887766  ci    active  -     1 h",
      ],
    ],
    nothing: [status({ agents: [] }), ["No agents. Start one: reprise agent run NAME"]],
  };
  test.each(Object.entries(cases))("%s", (_name, [given, then]) => {
    expect(frameOf(given, PIPE, NOW)).toEqual(then);
  });

  test("keeps hostile names and reasons harmless, on their lines and within the screen", () => {
    const given = status({
      daemon: null,
      agents: [agent({ name: HOSTILE, why: HOSTILE }), agent({ name: "x".repeat(500), id: HOSTILE })],
      pipelines: [pipeline({ name: HOSTILE, step: HOSTILE, reason: HOSTILE, id: HOSTILE })],
    });
    for (const columns of [20, 40, 80, 200]) {
      const lines = frameOf(given, { ...SCREEN, columns }, NOW);
      expect(lines.length).toBeGreaterThanOrEqual(7);
      for (const line of lines) {
        const plain = line.replace(/\u001b\[\d+m/g, "");
        expect(/[\0-\x1f\x7f-\x9f\u202e]/.test(plain)).toBe(false);
        expect(widthOf(plain)).toBeLessThanOrEqual(columns);
      }
    }
  });

  const words = (lines: readonly string[]) =>
    lines
      .map((line) => line.replace(/\u001b\[\d+m/g, ""))
      .join(" ")
      .replaceAll(/\s+/g, " ");

  test("cuts nothing that must be typed at 80 columns, and wraps reasons below each other", () => {
    const why =
      "it failed (network), and Reprise does not restart it: it has failed too often without a completed turn: no route to host";
    const given = status({
      daemon: null,
      agents: [
        agent({
          name: "a-worker-with-a-long-name",
          state: "unresponsive",
          sinceMs: NOW - 7_300_000,
          decision: "1a2b3c4d-1234",
        }),
        agent({ state: "error", why }),
      ],
      pipelines: [
        pipeline({ name: "nightly-integration", step: "wait-for-the-deployment", reason: why }),
        pipeline({ name: "nightly-integration", step: "fix", decision: "55667788-1234" }),
      ],
    });
    for (const columns of [60, 80, 120]) {
      const lines = frameOf(given, { ...SCREEN, columns }, NOW);
      const shows = ["1a2b3c4d-1234", "55667788-1234"].map((id) => `reprise decisions show ${id}`);
      for (const command of ["reprise daemon start", ...shows])
        expect(lines.filter((line) => line.includes(command))).toHaveLength(1);
      for (const text of ["reprise daemon start", "reprise decisions show 1a2b3c4d-1234", "99887766", why])
        expect(words(lines)).toContain(text);
    }
  });

  test("gives each state its colour", () => {
    const [, line] = frameOf(status({ agents: [agent({ state: "dead" })] }), SCREEN, NOW);
    expect(line).toContain("\u001b[31mdead\u001b[0m");
  });
});

describe("changesBetween", () => {
  const cases: Record<string, [before: AgentStatus, now: AgentStatus, then: readonly string[]]> = {
    "nothing but time": [status(), status({ agents: [agent({ why: "it is still working" })] }), []],
    "another state": [
      status(),
      status({ agents: [agent({ state: "idle", why: "it is idle" })] }),
      ["1a2b3c4d  worker  idle  it is idle"],
    ],
    "a question": [
      status(),
      status({ agents: [agent({ decision: "1a2b3c4d-9" })] }),
      ["1a2b3c4d  worker  working  asks you: reprise decisions show 1a2b3c4d-9"],
    ],
    "a beginning and an end": [
      status({ pipelines: [pipeline()] }),
      status({ agents: [agent(), agent({ id: "55667788", name: "other" })] }),
      ["55667788  other  working  it is working", "99887766  ci  ended"],
    ],
    "another step": [
      status({ pipelines: [pipeline()] }),
      status({ pipelines: [pipeline({ step: "fix" })] }),
      ["99887766  ci  active, step fix"],
    ],
    "a question in a pipeline": [
      status({ pipelines: [pipeline()] }),
      status({ pipelines: [pipeline({ decision: "1a2b3c4d-9" })] }),
      ["99887766  ci  active, step test  asks you: reprise decisions show 1a2b3c4d-9"],
    ],
    "the supervisor goes and comes": [
      status(),
      status({ daemon: null }),
      ["The daemon is not running: these agents are not supervised. Start it: reprise daemon start"],
    ],
    "and comes": [status({ daemon: null }), status(), ["The supervisor runs (pid 7)."]],
  };
  test.each(Object.entries(cases))("%s", (_name, [before, now, then]) => {
    expect(changesBetween(before, now, NOW)).toEqual(then);
  });

  test("keeps hostile names on their lines", () => {
    const now = status({ agents: [agent({ name: HOSTILE, why: HOSTILE, state: "idle" })] });
    const [line = "", ...more] = changesBetween(status(), now, NOW);
    expect([more, /[\0-\x1f\x7f-\x9f\u202e]/.test(line)]).toEqual([[], false]);
  });
});
