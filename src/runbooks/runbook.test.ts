/** The parts of a runbook: words, templates, the table of triggers and actions, and its explanation. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ACTIONS,
  type AgentDefinition,
  type PolicyEntry,
  TRIGGERS,
  type Trigger,
  whyNotAllowed,
} from "../core/runbook.ts";
import type { TroubleKind } from "../core/events.ts";
import { explainTrigger } from "./explain.ts";
import { readJson } from "./json.ts";
import { checkRunbook } from "./runbook.ts";
import { filled, templateProblems } from "./template.ts";
import { splitWords } from "./words.ts";

function check(agent: object) {
  const { root } = readJson(JSON.stringify({ agent: { worker: { run: "claude", ...agent } } }));
  if (root === null) throw new Error("not read");
  const found = checkRunbook(root, {
    level: "project",
    engine: () => ({ hasUi: true, tellsIdle: true, opensUi: () => true, refuses: () => null }),
    engineIds: ["claude"],
    readPrompt: () => ({ why: "is not there" }),
  });
  return { ...found, definition: found.agents[0]?.definition as AgentDefinition };
}

describe("actions", () => {
  test("resume_action_parses", () => {
    const { definition, problems } = check({ on_dead: { action: "resume" } });
    expect(problems).toEqual([]);
    expect(definition.policy.on.dead.map(({ action }) => action)).toEqual(["resume"]);
  });

  test("recover_alias_parses_as_resume", () => {
    const { definition, problems } = check({ on_dead: { action: "recover" } });
    expect(definition.policy.on.dead.map(({ action }) => action)).toEqual(["resume"]);
    expect(problems).toEqual([
      {
        level: "warning",
        line: 1,
        column: 56,
        reason: "agent.worker.on_dead: recover is the old name of resume; write resume.",
      },
    ]);
  });

  test("resume_valid_for_on_error", () => {
    expect(whyNotAllowed("error", "resume")).toBeNull();
  });

  test("on_error_accepts_resume", () => {
    expect(check({ on_error: "resume" }).problems).toEqual([]);
    expect(check({ on_error: [{ match: "network", action: "resume" }] }).problems).toEqual([]);
  });

  const table = TRIGGERS.flatMap((trigger) => ACTIONS.map((action) => [trigger, action] as const));
  test.each(table)("on_%s × %s is refused exactly where the table says so", (trigger, action) => {
    const entry = action === "gate" ? { action, run: ["true"] } : { action };
    const why = whyNotAllowed(trigger, action);
    const { problems, definition } = check({ [`on_${trigger}`]: entry });
    expect(problems.map(({ reason }) => reason)).toEqual(
      why === null ? [] : [`agent.worker.on_${trigger}: ${action} is not allowed here: ${why}.`],
    );
    expect(definition.policy.on[trigger].length).toBe(why === null ? 1 : 0);
  });

  test("entries of a list keep all their fields", () => {
    const entry = {
      match: "overloaded",
      action: "gate",
      run: ["a", "b"],
      timeout: "5s",
      attempts: 7,
      cooldown: "2m",
    };
    const other = { match: "any", action: "resume", message: "m", append: true, attempts: 2, cooldown: "0" };
    expect(check({ on_error: [entry, other] }).definition.policy.on.error).toEqual([
      {
        action: "gate",
        message: null,
        append: false,
        run: ["a", "b"],
        timeoutMs: 5_000,
        attempts: 7,
        cooldownMs: 120_000,
        match: "overloaded",
      },
      {
        action: "resume",
        message: "m",
        append: true,
        run: null,
        timeoutMs: 600_000,
        attempts: 2,
        cooldownMs: 0,
        match: "any",
      },
    ]);
  });

  test.each([
    [
      { on_idle: { action: "done", attempts: 2 } },
      ["agent.worker.on_idle.attempts has no effect with done."],
    ],
    [
      { on_dead: { action: "resume", append: true } },
      ["agent.worker.on_dead.append has no effect without a message."],
    ],
    [
      { on_idle: { action: "nudge", append: true } },
      ["agent.worker.on_idle.append has no effect with nudge."],
    ],
    [
      { on_dead: ["fail", "resume"] },
      ["agent.worker.on_dead[2] is never reached: line 1 ends the agent (fail)."],
    ],
    [{ on_error: [{ match: "auth", action: "fail" }, "resume"] }, []],
  ])("warnings: %j", (agent, reasons) => {
    const { problems } = check(agent);
    expect(problems.map(({ level, reason }) => [level, reason])).toEqual(
      reasons.map((reason) => ["warning", reason]),
    );
  });
});

describe("splitWords", () => {
  const cases: Record<string, [line: string, words: readonly string[] | number]> = {
    "blanks part": ["  claude  --model\topus\n", ["claude", "--model", "opus"]],
    "quotes hold together": [`a 'b c' "d e" f' 'g`, ["a", "b c", "d e", "f g"]],
    "an empty word": [`a '' ""`, ["a", "", ""]],
    backslashes: [String.raw`a\ b \| "\"\\\n" 'c\d'`, ["a b", "|", String.raw`"\\n`, String.raw`c\d`]],
    "shell characters in quotes": [`'$(x) | & ; > < *' "| & ; *"`, ["$(x) | & ; > < *", "| & ; *"]],
    "templates stay whole": ["a ${var.x y} $${z} b${var.c}d", ["a", "${var.x y}", "$${z}", "b${var.c}d"]],
    nothing: ["", []],
    pipe: ["a | b", 2],
    semicolon: ["a; b", 1],
    and: ["a && b", 2],
    substitution: ["a $(b)", 2],
    variable: ["a $HOME", 2],
    "substitution in quotes": ['a "x$(b)"', 4],
    "variable in quotes": ['a "$HOME"', 3],
    backtick: ["a `b`", 2],
    redirection: ["a >b", 2],
    "here document": ["a <b", 2],
    glob: ["a *.ts", 2],
    parentheses: ["a (b)", 2],
    home: ["a ~/b", 2],
    "open quote": ["a 'b", 2],
    "open double quote": ['a "b', 2],
    "last backslash": ["a \\", 2],
  };
  test.each(Object.entries(cases))("%s", (_name, [line, then]) => {
    const split = splitWords(line);
    expect("words" in split ? split.words : split.at).toEqual(then);
  });

  test("single quotes keep any text unchanged", () => {
    const word = fc.string().filter((text) => !/['$]/.test(text));
    fc.assert(
      fc.property(fc.array(word), (words) => {
        expect(splitWords(words.map((text) => `'${text}'`).join(" "))).toEqual({ words });
      }),
    );
  });
});

describe("templates", () => {
  test("a value is one piece of text, never read again and never split", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.string().filter((text) => !text.includes("$")),
        (value, text) => {
          expect(filled(`${text}\${var.x}${text}`, new Map([["x", value]]))).toBe(`${text}${value}${text}`);
        },
      ),
    );
    expect(
      filled(
        "${var.a}",
        new Map([
          ["a", "${var.b} $(c) $${d}"],
          ["b", "no"],
        ]),
      ),
    ).toBe("${var.b} $(c) $${d}");
  });

  test("a doubled dollar is a plain one", () => {
    expect(filled("$${var.x} $5 $$ $${", new Map([["x", "no"]]))).toBe("${var.x} $5 $$ ${");
  });

  const cases: [text: string, found: readonly (readonly [number, string])[]][] = [
    ["a ${var.x}", []],
    ["${var.y}", [[0, "names the unknown variable y; vars declares x"]]],
    ["a ${x}", [[2, "contains ${x}; Reprise fills in only ${var.NAME}. Write $${ for a plain ${"]]],
    ["${prompt}", [[0, "contains ${prompt}; Reprise passes the prompt to the engine itself, so remove it"]]],
    ["${var.x", [[0, 'contains "${" without "}". Write $${ for a plain ${']]],
    ["${var.__proto__}", [[0, "names the unknown variable __proto__; vars declares x"]]],
    [
      "${env.HOME} ${file('x')}",
      [
        [0, "contains ${env.HOME}; Reprise fills in only ${var.NAME}. Write $${ for a plain ${"],
        [12, "contains ${file('x')}; Reprise fills in only ${var.NAME}. Write $${ for a plain ${"],
      ],
    ],
  ];
  test.each(cases)("%s", (text, found) => {
    expect(templateProblems(text, ["x"]).map(({ index, why }) => [index, why])).toEqual(found);
  });

  test("in a prompt file only text that begins with ${var. counts", () => {
    const text = "echo ${HOME} $${x} ${var.x} $${var.x}";
    expect(templateProblems(text, ["x"], "file")).toEqual([]);
    expect(filled(text, new Map([["x", "1"]]), "file")).toBe("echo ${HOME} $${x} 1 ${var.x}");
  });
});

describe("explainTrigger", () => {
  const entry = (fields: Partial<PolicyEntry>): PolicyEntry => ({
    ...{ action: "resume", message: null, append: false, run: null, timeoutMs: 600_000 },
    ...{ attempts: 1, cooldownMs: 0, match: "any" },
    ...fields,
  });
  const agent = (
    on: Partial<Record<Trigger, readonly PolicyEntry[]>>,
    mode: "interactive" | "headless" = "interactive",
  ): AgentDefinition => ({
    ...{ name: "worker", engine: "claude", args: [], mode, prompt: null, cwd: "/x", env: [] },
    policy: { on: { idle: [], dead: [], error: [], prompt: [], ...on }, idleAfterMs: 60_000, maxAttempts: 9 },
  });
  const said = (definition: AgentDefinition, trigger: Trigger, trouble: TroubleKind | null = null) =>
    explainTrigger(definition, trigger, trouble).join("\n");

  test("explains the seed's rate limit", () => {
    const error = [entry({ match: "rate_limited", cooldownMs: 60_000 }), entry({ match: "overloaded" })];
    expect(said(agent({ error }), "error", "rate_limited")).toBe(
      `agent.worker (claude, interactive), on_error rate_limited
  1. resume, once, after a cooldown of 1 m
     the conversation continues with "Continue where you left off."; if there is no conversation, or the engine and Reprise have both lost it, Reprise starts a new one and reports it
     Reprise waits for the reset that the engine names and 1 to 3 minutes more, even if the cooldown is shorter;
     Reprise does not wait for a reset more than 8 days away; where the engine names no reset: after the cooldown, 1 m
  –  resume is skipped: it answers overloaded
  Then it escalates: Reprise asks a person.
  Reprise starts at most 9 processes for this agent.`,
    );
  });

  test.each([
    [
      "a deterministic error",
      agent({ error: [entry({})] }),
      "error",
      "auth",
      "skipped, because it would not help: the engine asks for a login",
    ],
    ["nothing said", agent({}), "dead", null, "The runbook has no entry for it: it escalates"],
    [
      "an absent on_idle after a completed turn",
      agent({}, "headless"),
      "idle",
      null,
      "a completed turn ends the task as done",
    ],
    [
      "replaced prompt",
      agent({ dead: [entry({ message: "m" })] }),
      "dead",
      null,
      'a new conversation begins with "m"',
    ],
    [
      "appended message",
      agent({ dead: [entry({ message: "m", append: true })] }),
      "dead",
      null,
      'the conversation continues with "m"',
    ],
    [
      "nudge in a UI",
      agent({ idle: [entry({ action: "nudge", attempts: 3 })] }),
      "idle",
      null,
      "into its UI, never while it asks",
    ],
    [
      "headless nudge",
      agent({ idle: [entry({ action: "nudge" })] }, "headless"),
      "idle",
      null,
      "Reprise resumes the conversation with",
    ],
    [
      "gate",
      agent({ dead: [entry({ action: "gate", run: ["x"] })] }),
      "dead",
      null,
      'runs ["x"] in the agent\'s directory, 10 m at most',
    ],
  ] as const)("%s", (_name, definition, trigger, trouble, then) => {
    expect(said(definition, trigger, trouble)).toContain(then);
  });
});
