/** The table "resume or fresh", row by row. The names of phase 5 of the specification are test names. */
import { describe, expect, test } from "vitest";
import { CONTINUE_MESSAGE } from "../core/runbook.ts";
import { type Alive, planAgentResume, type AgentResumeFacts, type AgentResumePlan } from "./plan.ts";

const SAY = "The limit is over.";
const base: AgentResumeFacts = {
  message: null,
  append: false,
  prompt: "fix it",
  priorSession: "present",
  alive: "no",
  kill: false,
  mode: "interactive",
};

const continued = "the engine is asked to continue the conversation";
const replaced = "the message replaces the prompt";
const none = "there is no conversation to continue";
const lost = "the engine has lost the conversation, and there is no copy";
const restored = "the engine is asked to continue the conversation from the run's copy; it has lost its own";
const told = "it is alive, so Reprise types the message there";

const rows: Record<string, [given: Partial<AgentResumeFacts>, then: AgentResumePlan]> = {
  resume_returns_resume_effects: [
    { message: SAY, append: true },
    { do: "resume", message: SAY, why: continued },
  ],
  resume_with_message_replaces_prompt: [{ message: SAY }, { do: "fresh", message: SAY, why: replaced }],
  resume_with_append_appends_to_prompt: [
    { message: SAY, append: true, prompt: "untouched" },
    { do: "resume", message: SAY, why: continued },
  ],
  resume_without_message_uses_resume_session: [
    {},
    { do: "resume", message: CONTINUE_MESSAGE, why: continued },
  ],
  resume_with_no_prior_session_falls_back: [
    { priorSession: "none" },
    { do: "fresh", message: "fix it", why: none },
  ],
  resume_agent_dead_attempts_recovery: [
    { alive: "no", mode: "headless" },
    { do: "resume", message: CONTINUE_MESSAGE, why: continued },
  ],
  resume_agent_dead_no_session_history_fresh_spawn: [
    { alive: "no", mode: "headless", priorSession: "none" },
    { do: "fresh", message: "fix it", why: none },
  ],
  "a bare resume ignores append": [
    { append: true },
    { do: "resume", message: CONTINUE_MESSAGE, why: continued },
  ],
  "a lost conversation is restored from escrow": [
    { priorSession: "lost_but_escrow" },
    { do: "resume", message: CONTINUE_MESSAGE, why: restored },
  ],
  "a message goes into the restored conversation": [
    { priorSession: "lost_but_escrow", message: SAY, append: true },
    { do: "resume", message: SAY, why: restored },
  ],
  "a requested new conversation begins with the prompt, and no message is claimed": [
    { fresh: true },
    { do: "fresh", message: "fix it", why: "it starts over with its prompt" },
  ],
  "a requested new conversation with a message begins with that": [
    { fresh: true, message: SAY },
    { do: "fresh", message: SAY, why: replaced },
  ],
  "a requested new conversation without a prompt opens the UI, and continues nothing": [
    { fresh: true, prompt: null },
    { do: "fresh", message: null, why: "its UI opens without a prompt" },
  ],
  "headless, a new conversation without a prompt": [
    { fresh: true, prompt: null, mode: "headless" },
    { do: "refuse", message: null, why: "it has no prompt for a new conversation" },
  ],
  "lost, and escrow too": [{ priorSession: "lost" }, { do: "fresh", message: "fix it", why: lost }],
  "lost, with a message: prompt and message": [
    { priorSession: "lost", message: SAY, append: true },
    { do: "fresh", message: `fix it\n\n${SAY}`, why: lost },
  ],
  "lost, with a message that replaces": [
    { priorSession: "lost", message: SAY },
    { do: "fresh", message: SAY, why: replaced },
  ],
  "nothing to continue and nothing to say opens the UI": [
    { priorSession: "none", prompt: null },
    { do: "fresh", message: null, why: none },
  ],
  "headless, nothing to continue and nothing to say": [
    { priorSession: "none", prompt: null, mode: "headless" },
    {
      do: "refuse",
      message: null,
      why: "there is no conversation to continue, and it has no prompt for another",
    },
  ],
  "alive and idle after its error: the message is a nudge": [
    { alive: "idle_after_error", message: SAY, append: true },
    { do: "nudge", message: SAY, why: told },
  ],
  "alive and idle after its error: bare": [
    { alive: "idle_after_error" },
    { do: "nudge", message: CONTINUE_MESSAGE, why: told },
  ],
  "alive and idle after its error: it gets a replacing message as well": [
    { alive: "idle_after_error", message: SAY },
    { do: "nudge", message: SAY, why: told },
  ],
  "alive and idle after its error, with --kill": [
    { alive: "idle_after_error", kill: true },
    { do: "kill_and_resume", message: CONTINUE_MESSAGE, why: `Reprise ends it first; ${continued}` },
  ],
  unresponsive: [
    { alive: "unresponsive" },
    {
      do: "kill_and_resume",
      message: CONTINUE_MESSAGE,
      why: `it does not answer, so Reprise ends it first; ${continued}`,
    },
  ],
  "unresponsive, and its conversation is lost": [
    { alive: "unresponsive", priorSession: "lost" },
    { do: "kill_and_fresh", message: "fix it", why: `it does not answer, so Reprise ends it first; ${lost}` },
  ],
  "busy, with --kill": [
    { alive: "busy", kill: true, message: SAY, append: true },
    { do: "kill_and_resume", message: SAY, why: `Reprise ends it first; ${continued}` },
  ],
  "busy, with --kill and a message that replaces": [
    { alive: "busy", kill: true, message: SAY },
    { do: "kill_and_fresh", message: SAY, why: `Reprise ends it first; ${replaced}` },
  ],
  "a kill that would leave nothing is refused": [
    { alive: "busy", kill: true, priorSession: "none", prompt: null, mode: "headless" },
    {
      do: "refuse",
      message: null,
      why: "there is no conversation to continue, and it has no prompt for another",
    },
  ],
  "busy is left alone": [
    { alive: "busy" },
    {
      do: "refuse",
      message: null,
      why: "it is working; send a message when its turn is over",
    },
  ],
  "idle is left alone": [
    { alive: "idle", message: SAY, append: true },
    { do: "refuse", message: null, why: "it is alive and idle" },
  ],
  "nothing is typed into a headless agent": [
    { alive: "idle_after_error", mode: "headless" },
    { do: "refuse", message: null, why: "it is alive and idle" },
  ],
};

describe("resume or fresh", () => {
  test.each(Object.entries(rows))("%s", (_name, [given, then]) => {
    expect(planAgentResume({ ...base, ...given })).toEqual(then);
  });
});

describe("over every combination", () => {
  const sessions = ["present", "lost_but_escrow", "lost", "none"] as const;
  const states: readonly Alive[] = ["no", "idle", "idle_after_error", "busy", "waiting", "unresponsive"];
  const all = states.flatMap((alive) =>
    sessions.flatMap((priorSession) =>
      [null, SAY].flatMap((message) =>
        [true, false].flatMap((append) =>
          [true, false].flatMap((kill) =>
            (["interactive", "headless"] as const).map((mode) => ({
              ...base,
              alive,
              priorSession,
              message,
              append,
              kill,
              mode,
            })),
          ),
        ),
      ),
    ),
  );

  test("an agent that asks for permission is never touched, not even by --kill", () => {
    const waiting = all.filter(({ alive }) => alive === "waiting").map((facts) => planAgentResume(facts));
    expect(waiting).toHaveLength(64);
    expect(new Set(waiting.map((plan) => `${plan.do} ${plan.message}`))).toEqual(new Set(["refuse null"]));
  });

  test("a live agent never gets a second process beside it", () => {
    for (const facts of all.filter(({ alive }) => alive !== "no")) {
      expect(["nudge", "refuse", "kill_and_resume", "kill_and_fresh"]).toContain(planAgentResume(facts).do);
    }
  });

  test("only an existing conversation continues, and a replacing message never enters a dead agent's conversation", () => {
    for (const facts of all) {
      const plan = planAgentResume(facts);
      if (!plan.do.endsWith("resume")) continue;
      expect(["present", "lost_but_escrow"]).toContain(facts.priorSession);
      expect(facts.message === null || facts.append).toBe(true);
    }
  });
});
