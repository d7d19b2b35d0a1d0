/**
 * The actors as a program: bundled once, run for real. Each role is driven by the real profile of the engine it plays:
 * what the profile asks, the actor must understand; what the actor says, the profile must read.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { EngineEvent } from "../../src/core/events.ts";
import { sessionFiles } from "../../src/drivers/session-files.ts";
import type { AttemptRequest, Command } from "../../src/engines/engine.ts";
import { ENGINES } from "../../src/engines/engines.ts";
import { AgentProgram, type Ended, eventsOf, idsOf, textOf } from "./agent-program.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const GONE = "99999999-9999-4999-8999-999999999999";

let program: AgentProgram;
let work = "";

beforeAll(() => {
  program = new AgentProgram("actor");
});
afterAll(() => program[Symbol.dispose]());
beforeEach(() => {
  ({ work } = program.nextCase());
});

const run = async (args: readonly string[], stdin = ""): Promise<Ended> =>
  await program.start(args, stdin).ended;

describe.each(ENGINES.map((engine) => [engine.id, engine] as const))("as %s", (id, engine) => {
  const ask = (part: Partial<AttemptRequest>): AttemptRequest => ({
    kind: "start",
    interactive: false,
    message: "hello",
    session: engine.can.chooseSession ? ID : null,
    forkTo: null,
    given: [],
    givenHasNoPrompt: true,
    native: [],
    cwd: work,
    tag: "1a2b3c4d-1",
    trustCwd: false,
    ...part,
  });
  const perform = async (command: Command): Promise<Ended> => {
    program.env = { ...program.env, ...command.env };
    return await run(["--as", id, "--", ...command.args], command.stdin ?? "");
  };
  const turn = async (part: Partial<AttemptRequest>) => {
    const command = engine.command(ask(part));
    const ended = await perform(command);
    const events = eventsOf(engine, ended);
    return { command, ended, events, ids: [...new Set(idsOf(events))], text: textOf(events) };
  };
  const last = (events: readonly EngineEvent[]) => events.findLast(({ type }) => type === "turn_ended");
  const home = (): string => engine.home(program.env) ?? "";

  test("reports its version like the engine", async () => {
    const { out } = await run(["--as", id, "--", "--version"]);
    expect(engine.version(out)).toMatch(/^\d+\.\d+\.\d+$/);
  });

  test("start, resume and resume again are one conversation", async () => {
    const first = await turn({});
    expect(last(first.events)).toMatchObject({ result: "completed" });
    expect(first.ids).toHaveLength(1);
    const [session = ""] = first.ids;
    if (first.command.expects !== null) expect(session).toBe(first.command.expects);
    expect(engine.session.format.test(session)).toBe(true);
    for (const [message, count] of [
      ["second", 1],
      ["third", 2],
    ] as const) {
      const next = await turn({ kind: "resume", session, message });
      expect([next.ids, last(next.events)]).toMatchObject([[session], { result: "completed" }]);
      expect(next.text).toContain(`I remember ${count} earlier message`);
    }
  });

  test("leaves a session that can continue after a kill in the middle", async () => {
    const dead = await turn({ message: "hello @@tool:shell @@die" });
    expect([dead.ended.exit.signal, last(dead.events)]).toEqual(["SIGKILL", undefined]);
    // iFlow names its session only at the end, and nothing else tells.
    if (!engine.can.readStore) return;
    const found = await engine.sessions({ home: home(), cwd: work }, sessionFiles());
    expect(found).toHaveLength(1);
    const next = await turn({ kind: "resume", session: found[0]?.id ?? "", message: "go on" });
    expect(next.text).toContain('I remember 1 earlier message: "hello".');
  });

  test("has a store that the profile reads", async () => {
    if (!engine.can.readStore) return;
    const { ids } = await turn({});
    const located = await engine.locate(ids[0] ?? "", { home: home(), cwd: work }, sessionFiles());
    expect(located).toMatchObject({ state: "present" });
    const [found] = await engine.sessions({ home: home(), cwd: work }, sessionFiles());
    expect(found).toMatchObject({ id: ids[0], cwd: work });
  });

  test("reports a missing session as lost, in the engine's own words", async () => {
    const { command } = await turn({});
    if (id === "iflow") return;
    const gone = id === "opencode" ? "ses_000000000000aaaaaaaaaaaaaa" : GONE;
    const lost = await turn({ kind: "resume", session: gone });
    expect(command.headless).toBe(true);
    const trouble = last(lost.events) ?? {
      trouble: engine.explainExit(lost.ended.exit, lost.ended.stderr, 0),
    };
    expect(trouble).toMatchObject({ trouble: { kind: "session_lost" } });
  });

  test.each<[string, string]>([
    ["@@429", "rate_limited"],
    ["@@quota", "quota"],
    ["@@401", "auth"],
    ["@@503", "overloaded"],
    ["@@network", "network"],
    ["@@context", "context_full"],
  ])("reports %s as %s", async (directive, kind) => {
    const { events } = await turn({ message: `hello ${directive}` });
    expect(last(events)).toMatchObject({ result: "failed", trouble: { kind } });
  });

  test("prints a forged id inside text and tool output, which changes nothing", async () => {
    const { ids, events } = await turn({ message: "hello @@forge" });
    expect(last(events)).toMatchObject({ result: "completed" });
    expect(ids).toHaveLength(1);
    expect(ids[0]).not.toMatch(/deadbeef|FORGED/);
  });

  test("shows tools", async () => {
    const { events } = await turn({ message: "hello @@tool:shell" });
    if (id === "iflow") return;
    const states = events.flatMap((event) => (event.type === "tool" ? [event.state] : []));
    expect(states).toEqual(["started", "ended"]);
  });

  test("gives a fork a new id and its memory", async () => {
    if (!engine.can.fork) return;
    const { ids } = await turn({});
    const fork = await turn({ kind: "fork", session: ids[0] ?? "", message: "aside" });
    expect(fork.ids).toHaveLength(1);
    expect(fork.ids).not.toEqual(ids);
    expect(fork.text).toContain('I remember 1 earlier message: "hello".');
  });
});
