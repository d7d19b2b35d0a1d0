import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { EngineEvent } from "../core/events.ts";
import { Fault } from "../core/faults.ts";
import type { Dialogue, DialogueMessage } from "../engines/engine.ts";
import { numberIn, parseObject, stringIn } from "../lib/json.ts";
import { isAlive } from "../process/process.ts";
import { type DialogueHooks, type DialogueOptions, openDialogue, type Patience } from "./app-server.ts";

const scratch = mkdtempSync(join(tmpdir(), "reprise-dialogue-"));
afterAll(() => rmSync(scratch, { recursive: true }));

const QUIET: DialogueMessage = { send: [], events: [], questions: [], settled: [], over: false };

/** A session answers `hello`, then the dialogue sends `go`; `ask`, `done` and `bug` come from the agent. */
function tinyDialogue(): Dialogue {
  const waiting = new Map<number, string>();
  let running = false;
  let stopped = false;
  const send = (id: number, method: string): DialogueMessage => {
    waiting.set(id, method);
    return { ...QUIET, send: [JSON.stringify({ id, method })] };
  };
  return {
    open: () => send(1, "hello"),
    heard(text) {
      const message = parseObject(text);
      const method = stringIn(message, "method");
      const id = numberIn(message, "id");
      if (method === "bug") throw new Error("a dialogue's bug");
      if (method === "ask") {
        const question = { id: String(id), about: "command" as const, what: "rm", cwd: null, reason: null };
        return { ...QUIET, questions: [{ ...question, key: "rm" }] };
      }
      if (method === "settled") return { ...QUIET, settled: [String(id)] };
      if (method === "done") {
        running = false;
        return { ...QUIET, events: [{ type: "turn_ended", result: "completed" }], over: true };
      }
      const asked = method === undefined && id !== undefined ? waiting.get(id) : undefined;
      if (id === undefined || asked === undefined) return { ...QUIET, events: [{ type: "unknown" }] };
      waiting.delete(id);
      if (asked !== "hello") return QUIET;
      if (stopped) return { ...QUIET, over: true };
      running = true;
      return { ...send(2, "go"), events: [{ type: "session", session: "s-1" }] };
    },
    answer: (id, decision) => ({ ...QUIET, send: [JSON.stringify({ id: Number(id), decision })] }),
    interrupt() {
      stopped = true;
      return running ? send(3, "stop") : QUIET;
    },
    waitsFor: () => [...waiting.values()],
  };
}

/** A tiny agent: `on(method)` answers, `say` speaks; it ends with its stdin. */
const AGENT = `
const say = (message) => process.stdout.write((typeof message === "string" ? message : JSON.stringify(message)) + "\\n");
const lines = require("node:readline").createInterface({ input: process.stdin });
let on = () => {};
lines.on("line", (line) => { const m = JSON.parse(line); on(m.method ?? "answer", m); });
lines.on("close", () => process.exit(0));
`;
/** A well-behaved agent. */
const GOOD = `on = (method, m) => {
  if (method === "hello" || method === "stop") say({ id: m.id });
  if (method === "go") { say({ id: m.id }); say({ method: "done" }); }
  if (method === "stop") say({ method: "done" });
};`;

interface More extends Partial<Omit<DialogueOptions, "hooks">> {
  readonly hooks?: Partial<DialogueHooks>;
}

const PATIENT = { answer: 60_000, stop: 20_000, hurry: 20_000, leave: 20_000 };

async function open(script: string, { hooks, ...more }: More = {}) {
  const log: string[] = [];
  const events: EngineEvent[] = [];
  const agent = await openDialogue({
    marker: `dialogue-${process.pid}-${Math.random()}`,
    child: {
      file: process.execPath,
      args: ["-e", `${AGENT}${script}`],
      cwd: scratch,
      env: { PATH: process.env["PATH"] ?? "" },
    },
    dialogue: tinyDialogue(),
    hooks: {
      raw: (stream, chunk) => void (chunk.length < 200 && log.push(`${stream} ${chunk.toString().trim()}`)),
      events(seen) {
        for (const { event, line } of seen) {
          log.push(`event ${line} ${event.type === "unknown" ? `unknown ${event.lines}` : event.type}`);
          events.push(event);
        }
      },
      wire(direction, line) {
        if (line.length < 200) log.push(`${direction} ${line}`);
        return true;
      },
      question: ({ id, what }) => void log.push(`question ${id} ${what}`),
      settled: (id) => void log.push(`settled ${id}`),
      stuck: (why) => void log.push(`stuck: ${why}`),
      ...hooks,
    },
    ladder: { interruptMs: 2_000, terminateMs: 2_000 },
    patience: PATIENT,
    ...more,
  });
  const until = async (what: string) => {
    const deadline = performance.now() + 15_000;
    while (!log.some((entry) => entry.includes(what))) {
      if (performance.now() > deadline) throw new Error(`waited in vain for ${what}: ${log.join("\n")}`);
      await sleep(5);
    }
  };
  return { agent, log, events, until };
}

describe("a conversation", () => {
  test("delivers raw bytes, then the line, then its events, then the reply", async () => {
    const { agent, log } = await open(GOOD);
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    const told = log.filter((entry) => !entry.startsWith("stdout"));
    expect(log.indexOf('stdout {"id":1}')).toBeLessThan(log.indexOf('in {"id":1}'));
    expect(told).toEqual([
      'out {"id":1,"method":"hello"}',
      'in {"id":1}',
      "event 1 session",
      'out {"id":2,"method":"go"}',
      'in {"id":2}',
      'in {"method":"done"}',
      "event 3 turn_ended",
    ]);
  });

  test("puts a question to the owner, and sends the answer back", async () => {
    const { agent, log, until } = await open(`on = (method, m) => {
      if (method === "hello") say({ id: m.id });
      if (method === "go") { say({ id: m.id }); say({ method: "ask", id: 0 }); }
      if (method === "answer") { say({ method: "settled", id: 0 }); say({ method: "done" }); }
    };`);
    await until("question 0 rm");
    agent.answer("0", "accept");
    await agent.ended;
    expect(log.filter((entry) => /^(question|settled|out \{"id":0)/.test(entry))).toEqual([
      "question 0 rm",
      'out {"id":0,"decision":"accept"}',
      "settled 0",
    ]);
  });

  test("does not send a line that the owner cannot keep", async () => {
    const marks = join(scratch, "went-on");
    const wire = (direction: string, line: string) => direction === "in" || line.includes("hello");
    const { agent } = await open(
      `on = (method, m) => {
        if (method === "go") require("fs").writeFileSync(${JSON.stringify(marks)}, "");
        if (method === "hello") { say({ id: m.id }); setTimeout(() => process.exit(4), 300); }
      };`,
      { hooks: { wire } },
    );
    expect(await agent.ended).toEqual({ code: 4, signal: null });
    expect(existsSync(marks)).toBe(false);
  });
});

describe("an agent that behaves badly", () => {
  test("that is absent is reported as not installed", async () => {
    const child = { file: "no-such-agent", args: [], cwd: scratch, env: { PATH: "/nowhere" } };
    const fault = await open("", { child }).then(
      () => null,
      (error: unknown) => error,
    );
    expect(fault instanceof Fault && fault.code).toBe("engine_missing");
  });

  const odd: Record<string, [said: string, unknown: number]> = {
    "prints no JSON": ['say("warming up"); say("{"); say("");', 3],
    "answers without a request": ['say({ id: 77 }); say({ id: "1" }); say({ id: null, result: {} });', 3],
    "answers twice": ["say({ id: 1 }); say({ id: 1 });", 2],
    "sends unknown messages": ['say({ method: "new/thing", params: {} }); say([]); say("null");', 3],
    "makes the dialogue fail": ['say({ method: "bug" });', 1],
    "prints a line beyond all limits": ['say("x".repeat(17 * 1024 * 1024));', 1],
  };
  test.each(Object.entries(odd))("that %s does not end the conversation", async (_name, [said, unknown]) => {
    const { agent, events } = await open(
      `${GOOD} const good = on; on = (method, m) => {
      if (method === "go") { ${said} }
      good(method, m);
    };`,
    );
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    const count = events.reduce((sum, event) => sum + (event.type === "unknown" ? (event.lines ?? 1) : 0), 0);
    expect([events[0]?.type, events.at(-1)?.type, count]).toEqual(["session", "turn_ended", unknown]);
  });

  test("that asks twice reaches its owner twice", async () => {
    const { agent, log, until } = await open(`on = (method, m) => {
      if (method === "hello") { say({ id: m.id }); say({ method: "ask", id: 0 }); say({ method: "ask", id: 0 }); }
      if (method === "go") { say({ id: m.id }); say({ method: "done" }); }
    };`);
    await until("event 5 turn_ended");
    await agent.ended;
    expect(log.filter((entry) => entry.startsWith("question"))).toEqual(["question 0 rm", "question 0 rm"]);
  });

  test("that floods causes few events, and all its lines are counted", async () => {
    const { agent, events } = await open(
      `${GOOD} const good = on; on = (method, m) => {
      if (method === "go") process.stdout.write('{"method":"noise"}\\n'.repeat(200_000), () => good(method, m));
      else good(method, m); };`,
    );
    await agent.ended;
    const noise = events.flatMap((event) => (event.type === "unknown" ? [event.lines ?? 1] : []));
    expect(noise.reduce((sum, lines) => sum + lines, 0)).toBe(200_000);
    expect(noise.length).toBeLessThan(5_000);
    expect(events.at(-1)?.type).toBe("turn_ended");
  });

  const deaths: Record<string, [script: string, seen: readonly string[]]> = {
    "before it reads": ["process.exit(3);", []],
    "before its first answer": ["on = () => process.exit(3);", []],
    "after its first answer": [
      'on = (method, m) => { if (method === "hello") say({ id: m.id }); else process.exit(3); };',
      ["session"],
    ],
    "while it asks": [
      `on = (method, m) => { if (method === "hello") say({ id: m.id });
        else { say({ id: m.id }); process.stdout.write('{"method":"ask","id":0}\\n{"meth', () => process.exit(3)); } };`,
      ["session", "unknown"],
    ],
  };
  test.each(Object.entries(deaths))(
    "that dies %s has its end reported, and nothing invented",
    async (_name, [script, seen]) => {
      const { agent, events } = await open(script);
      expect(await agent.ended).toEqual({ code: 3, signal: null });
      expect(events.map((event) => event.type)).toEqual(seen);
    },
  );

  test("that is ended again after its death keeps nothing alive in this process", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((what) => what === "Timeout").length;
    const { agent } = await open("process.exit(3);");
    await agent.ended;
    const before = timers();
    await agent.end("terminate");
    expect(timers()).toBe(before);
  });

  test.each([
    ["hello", 300, ""],
    ["go", 2_000, 'on = (method, m) => { if (method === "hello") say({ id: m.id }); };'],
    [
      "go",
      2_000,
      `setInterval(() => say({ method: "noise" }), 20);
       on = (method, m) => { if (method === "hello") say({ id: m.id }); };`,
    ],
  ])(
    "that never answers %s makes the driver name the request to the owner",
    async (request, answer, script) => {
      const { agent, log, until } = await open(script, { patience: { ...PATIENT, answer, hurry: 300 } });
      await until("stuck");
      expect(log.filter((entry) => entry.startsWith("stuck"))).toEqual([
        `stuck: the agent did not answer ${request} within ${Math.round(answer / 1000)} s`,
      ]);
      expect(await agent.end("terminate")).toEqual({ survivors: [] });
    },
  );

  test("that does not read gets a bounded queue", async () => {
    const dialogue = {
      ...tinyDialogue(),
      open: () => ({ ...QUIET, send: Array.from({ length: 20 }, () => "x".repeat(1 << 20)) }),
      waitsFor: () => [],
    };
    const { agent, log } = await open("process.stdin.pause(); setInterval(() => {}, 1000);", { dialogue });
    expect(log).toEqual(["stuck: the agent does not read what it is sent"]);
    await agent.end("kill");
    expect((await agent.ended).signal).toBe("SIGKILL");
  });

  test("that stays after everything is done is ended", async () => {
    const { agent } = await open(
      `${GOOD} process.on("exit", () => {}); lines.removeAllListeners("close");
      setInterval(() => {}, 1000);`,
      { patience: { ...PATIENT, leave: 300 } },
    );
    expect(await agent.ended).toEqual({ code: null, signal: "SIGTERM" });
  });
});

describe("stopping", () => {
  const TURN = `on = (method, m) => { if (method !== "answer") say({ id: m.id }); if (method === "go") console.error("at work");`;

  test("an interrupt asks the turn to end", async () => {
    const { agent, log, until } = await open(`${TURN} if (method === "stop") say({ method: "done" }); };`);
    await until("at work");
    agent.interrupt();
    agent.interrupt();
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    expect(log.filter((entry) => entry.startsWith("out")).at(-1)).toBe('out {"id":3,"method":"stop"}');
  });

  test("a turn that has not begun does not begin", async () => {
    const { agent, log } = await open(GOOD);
    agent.interrupt();
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    expect(log.filter((entry) => entry.startsWith("out"))).toEqual(['out {"id":1,"method":"hello"}']);
  });

  test("an agent whose turn neither begins nor stops is released", async () => {
    const { agent, log } = await open("", { patience: { ...PATIENT, stop: 300 } });
    agent.interrupt();
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    expect(log).toEqual(['out {"id":1,"method":"hello"}']);
  });

  test("an agent that ignores the request to stop its turn is released", async () => {
    const { agent, log, until } = await open(
      `${GOOD} on = (method, m) => {
      if (method === "hello") say({ id: m.id }); if (method === "go") console.error("at work"); };`,
      {
        patience: { ...PATIENT, stop: 300 },
      },
    );
    await until("at work");
    agent.interrupt();
    expect(await agent.ended).toEqual({ code: 0, signal: null });
    expect(log.at(-1)).toBe('out {"id":3,"method":"stop"}');
  });

  const stays = 'lines.removeAllListeners("close"); setInterval(() => {}, 1000);';
  test.each([
    ["obeys", `${TURN} if (method === "stop") say({ method: "done" }); };`, { code: 0, signal: null }],
    ["heeds only the end of its stdin", `${TURN} };`, { code: 0, signal: null }],
    ["heeds only SIGTERM", `${TURN} }; ${stays}`, { code: null, signal: "SIGTERM" }],
    [
      "heeds nothing",
      `${TURN} }; ${stays} process.on("SIGTERM", () => {});`,
      { code: null, signal: "SIGKILL" },
    ],
  ])("an agent that %s is ended, both slowly and in a hurry", async (_name, script, exit) => {
    const end = async (from: "interrupt" | "terminate", patience: Partial<Patience>) => {
      const { agent, log, until } = await open(script, {
        ladder: { interruptMs: 300, terminateMs: 300 },
        patience: { ...PATIENT, ...patience },
      });
      await until("at work");
      expect(await agent.end(from)).toEqual({ survivors: [] });
      expect([await agent.ended, isAlive(agent.identity)]).toEqual([exit, false]);
      expect(log).toContain('out {"id":3,"method":"stop"}');
    };
    await Promise.all([end("interrupt", { stop: 1_000 }), end("terminate", { hurry: 1_000 })]);
  });

  test("a kill acts immediately", async () => {
    const { agent, log, until } = await open(`${TURN} };`);
    await until("at work");
    await agent.end("kill");
    expect((await agent.ended).signal).toBe("SIGKILL");
    expect(log.some((entry) => entry.includes("stop"))).toBe(false);
  });
});
