/** Every table of a command at real terminal widths: typed text is whole, and lines fit. */
import { describe, expect, test } from "vitest";
import type { RunRecord } from "../core/records.ts";
import { widthOf } from "../lib/width.ts";
import type { Conversation } from "../run/inspect.ts";
import { conversationTable } from "./adopt.ts";
import { checkTable } from "./certify.ts";
import { engineTable, findingLines } from "./doctor.ts";
import { historyTable, leaveLines, planLines, reasonText, summaryLines } from "./issues-live.ts";
import { runTable } from "./list.ts";
import { statusLine } from "./live.ts";
import { definedTable } from "./runbook.ts";
import { hanging } from "./words.ts";

const NOW = { nowMs: Date.parse("2026-11-15T12:00:00Z"), home: "/home/ada" };
const LONG = "文字".repeat(40);
const WORDS = "the engine said that its store was locked by another process of 日本語 name and gave up "
  .repeat(3)
  .trim();
const REASON = WORDS.slice(0, 150).trim();
const UUID = "0199a3f2-7c1e-7d33-9b1a-3f4e5d6c7b8a";
const PATH = `/srv/${"very-long-folder/".repeat(8)}end`;

const HISTORY = [
  {
    issue: "a-very-long-issue-id-4711",
    status: "interrupted",
    engine: "opencode",
    handle: "1a2b3c4d",
    session_id: `session-${UUID}`,
    started_at: "2026-11-15T09:00:00Z",
    error: REASON,
  } as unknown as Parameters<typeof historyTable>[0][number],
];

interface Case {
  readonly render: (terminal: { readonly stdout: true; readonly columns: number }) => readonly string[];
  /** Text that users type. */
  readonly typed: readonly string[];
  /** Texts that may wrap, and must not lose a word. */
  readonly wrapped?: readonly string[];
}

const CASES: Record<string, Case> = {
  list: {
    render: (terminal) =>
      runTable(
        [
          {
            handle: "1a2b3c4d",
            agentName: "my-own-engine-with-a-long-name",
            status: "interrupted",
            attempts: 1_234,
            name: LONG,
            subject: null,
            launch: { message: WORDS },
            cwd: PATH,
            updatedAt: "2026-11-15T09:00:00Z",
          } as unknown as RunRecord,
        ],
        terminal,
        NOW,
      ),
    typed: ["1a2b3c4d"],
  },
  adopt: {
    render: (terminal) =>
      conversationTable(
        [
          {
            handle: "1a2b3c4d",
            engine: "opencode",
            id: UUID,
            cwd: PATH,
            title: LONG,
            updatedAtMs: NOW.nowMs - 1e9,
          },
          { handle: null, engine: "codex", id: "ses_1", cwd: null, title: null, updatedAtMs: null },
        ] as unknown as Conversation[],
        terminal,
        NOW,
      ),
    typed: ["1a2b3c4d", "opencode", UUID, "codex", "ses_1"],
  },
  "runbook list": {
    render: (terminal) =>
      definedTable(
        [
          [
            "agent.a-worker-with-a-name",
            "claude, interactive",
            "issue, branch",
            `${PATH} (hidden by the project's)`,
          ],
          ["pipeline.ci", `${LONG} → test`, "-", "runbooks/ci.toml"],
        ],
        terminal,
      ),
    typed: ["agent.a-worker-with-a-name", "issue, branch", "pipeline.ci", PATH, "runbooks/ci.toml"],
  },
  "doctor's engines": {
    render: (terminal) =>
      engineTable(
        [
          ["  my-own-engine", "1.2.3", "newer than tested (1.2.2)", PATH],
          ["  iflow", "not found", "", WORDS],
        ],
        terminal,
      ),
    typed: ["my-own-engine", PATH],
    wrapped: [WORDS],
  },
  "doctor's findings": {
    render: (terminal) => findingLines({ what: `${WORDS} 1a2b3c4d`, todo: `chmod 700 '${PATH}'` }, terminal),
    typed: ["1a2b3c4d", `chmod 700 '${PATH}'`],
    wrapped: [WORDS],
  },
  "doctor --certify": {
    render: (terminal) =>
      checkTable([["  a session is continued by its id after a crash", "broke", WORDS]], terminal),
    typed: ["a session is continued by its id after a crash"],
    wrapped: [WORDS],
  },
  "issues run --dry-run": {
    render: ({ columns }) =>
      planLines(
        {
          take: [
            {
              issue: { id: "a-very-long-issue-id-4711", title: "a title 文字文字" },
              decision: { do: "fresh", why: REASON, handle: null },
              options: [],
              held: "--permission-mode acceptEdits",
            },
          ],
          skip: [{ id: "b-1", why: REASON }],
          access: { level: "edit", options: ["--permission-mode", "acceptEdits"], by: null },
        } as unknown as Parameters<typeof planLines>[0],
        columns,
      ),
    typed: ["a-very-long-issue-id-4711", "b-1"],
    wrapped: [REASON],
  },
  "the end of issues run": {
    render: ({ columns }) =>
      summaryLines({ stdin: false, stdout: true, stderr: true, columns, rows: 24, color: false }, {
        issues: [
          {
            id: "a-12",
            state: "failed",
            handle: "1a2b3c4d",
            branch: "reprise/a-12-1a2b3c4d",
            why: REASON,
            gate: null,
          },
        ],
      } as unknown as Parameters<typeof summaryLines>[1]),
    typed: ["a-12", "1a2b3c4d", "reprise/a-12-1a2b3c4d"],
    wrapped: [REASON],
  },
  "issues status": {
    render: ({ columns }) => historyTable(HISTORY, NOW.nowMs, columns),
    typed: ["a-very-long-issue-id-4711", "1a2b3c4d"],
    wrapped: [REASON],
  },
  "issues sessions": {
    render: ({ columns }) =>
      historyTable(
        HISTORY.map((past) => ({ ...past, issue: "a-12", session_id: UUID })),
        NOW.nowMs,
        columns,
        ["AGE", "ENGINE", "STATE"],
      ),
    typed: ["a-12", "1a2b3c4d", UUID],
    wrapped: [REASON],
  },
  "what a batch left": {
    render: ({ columns }) =>
      leaveLines(
        [
          { id: "a-12", why: REASON, handle: null, branch: null, go_on: null },
          { id: "b-12", why: "it waits", handle: null, branch: null, go_on: null },
          { id: "c-12", why: "it waits", handle: null, branch: null, go_on: null },
        ],
        columns,
        NOW.nowMs,
      ),
    typed: [],
    wrapped: [REASON, "2 b-12, c-12: it waits"],
  },
  "a reason in show": {
    render: (terminal) => hanging(terminal, `attempt 1  resume, failed: ${WORDS} ${LONG}`, 11).split("\n"),
    typed: [LONG],
    wrapped: [WORDS],
  },
  "the live status line": {
    render: ({ columns }) => [
      statusLine(
        {
          elapsedMs: 3_600_000,
          attempt: 123,
          quietMs: 0,
          stopping: true,
          tools: [
            { name: LONG, forMs: 61_000 },
            { name: WORDS, forMs: 5 },
          ],
        },
        columns - 1,
      ),
    ],
    typed: ["Ctrl-C again ends it"],
  },
};

const oneLine = (text: string) => text.replace(/\s+/g, " ");

describe.each([80, 60])("at %d columns", (columns) => {
  test.each(Object.keys(CASES))("%s keeps everything that must be typed, and fits", (name) => {
    const { render, typed, wrapped = [] } = CASES[name] as Case;
    const lines = render({ stdout: true, columns }).join("\n").split("\n");
    for (const text of typed)
      expect(
        lines.some((line) => line.includes(text)),
        text,
      ).toBe(true);
    for (const text of wrapped) expect(oneLine(lines.join(" "))).toContain(text);
    // Only a single typed text that is itself wider than the terminal may overrun it.
    for (const line of lines) {
      const overruns =
        widthOf(line) > columns && !typed.some((text) => line.includes(text) && widthOf(text) + 13 > columns);
      expect(overruns ? line : "").toBe("");
    }
  });
});

test("a long reason keeps the end of its limit", () => {
  const why = `rate_limited: ${WORDS.repeat(20)} (until 2026-11-15T12:30:00.000Z)`;
  expect(reasonText(why, NOW.nowMs)).toMatch(/…, until \d\d:\d\d \(in 30 min\)$/);
  const whole = why.replace(/^.*(?= \(until )/, "rate_limited: It ends soon.");
  expect(reasonText(whole, NOW.nowMs)).toMatch(/^rate_limited: It ends soon, until /);
});
