/** Whatever ends an attempt, the run is listed truly, keeps its session id, and resumes the same conversation. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { collect, Sandbox, until } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

/** Starts a run that will not end by itself and waits until its tape has the text; null: until the agent runs. */
async function startUntil(message: string, text: string | null) {
  const before = box.journalEntries().length;
  const known = new Set(box.runDirectories());
  const child = box.spawn(["start", "demo", message]);
  child.stdin?.end();
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
  const done = collect(child);
  const entry = await until("the agent's start", () =>
    box
      .journalEntries()
      .slice(before)
      .find((one) => one["event"] === "start"),
  );
  const runDirectory = await until("the run directory", () =>
    box.runDirectories().find((one) => !known.has(one)),
  );
  const tape = join(runDirectory, "attempts", "1", "stdout.log");
  if (text !== null)
    await until(`${text} on the tape`, () => existsSync(tape) && readFileSync(tape, "utf8").includes(text));
  return {
    child,
    done,
    agentPid: Number(entry["pid"]),
    handle: runDirectory.slice(-8),
    runDirectory,
    stderr: () => said,
  };
}

function isRunning(pid: number): boolean {
  const stat = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, "utf8") : "";
  return stat !== "" && !/\) [ZX] /.test(stat);
}

function markedProcesses(handle: string): string[] {
  const found = spawnSync(
    "sh",
    ["-c", `grep -lz "REPRISE_ATTEMPT=.*${handle}" /proc/[0-9]*/environ 2>/dev/null`],
    { encoding: "utf8" },
  );
  return found.stdout.split("\n").filter(Boolean);
}

describe("kill -9 of Reprise", () => {
  const moments: [name: string, message: string, text: string | null, resumable: boolean][] = [
    ["before the session line", "remember 4711 @@hang:before-session", null, false],
    ["after the session line", "remember 4711 @@hang:after-session", "session_id", false],
    ["in a tool call", "remember 4711 @@hang:in-tool", "tool.started", true],
    ["half-way through the answer", "remember 4711 @@hang", "You ", true],
    ["after the whole answer", "remember 4711 @@hang:after-text", "cwd=", true],
  ];
  test.each(moments)("%s", async (_name, message, text, resumable) => {
    const { child, done, handle, agentPid } = await startUntil(message, text);
    child.kill("SIGKILL");
    await done;
    const list = await box.run(["list"]);
    expect(list.stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+interrupted`));
    const { session } = await box.json(["show", handle]);
    expect(session.value).toMatch(/^[0-9a-f-]{36}$/);
    await until("the agent is gone", () => !isRunning(agentPid));
    const resumed = await box.run(["resume", handle, "what do you remember?"]);
    if (!resumable) {
      // Nothing was written by the engine yet: refused by name, never a silent new conversation.
      expect(resumed.code).toBe(3);
      expect(resumed.stderr).toContain("does not have session");
    } else {
      expect(resumed.stdout).toContain("4711");
      expect(resumed.code).toBe(0);
    }
    expect(markedProcesses(handle)).toEqual([]);
  });
});

test("kill -9 before the agent asks for a signal at its owner's death keeps the agent from beginning", async () => {
  using own = new Sandbox();
  const asked = join(own.root, "asked");
  // Slow, and only when an agent is started with it: a probe has no attempt.
  own.program(
    "setpriv",
    `[ -z "$REPRISE_ATTEMPT" ] || { : >'${asked}'; sleep 0.5; }\nPATH=\${PATH#*:}\nexec setpriv "$@"`,
  );
  const child = own.spawn(["start", "claude", "hello @@hang"]);
  const done = collect(child);
  await until("the agent is being started", () => existsSync(asked));
  child.kill("SIGKILL");
  await done;
  await until("nothing is left", () => processesOf(own).length === 0);
  expect(own.journalEntries()).toEqual([]);
});

function processesOf({ state }: Sandbox): string[] {
  const script = `grep -lz "^REPRISE_HOME=${state}$" /proc/[0-9]*/environ 2>/dev/null`;
  return spawnSync("sh", ["-c", script], { encoding: "utf8" }).stdout.split("\n").filter(Boolean);
}

test("kill -9 between the attempt's row and its directory is repaired on sight, and hides no other run", async () => {
  const { child, done, handle, runDirectory } = await startUntil("remember 4711 @@hang", "You ");
  child.kill("SIGKILL");
  await done;
  rmSync(join(runDirectory, "attempts"), { recursive: true });
  const { runs } = await box.json(["list"]);
  expect(runs.find((run: Record<string, unknown>) => run["handle"] === handle)).toMatchObject({
    status: "interrupted",
    attempts: 1,
  });
  expect(existsSync(join(runDirectory, "attempts/1/meta.json"))).toBe(true);
  const resumed = await box.json(["resume", handle, "what do you remember?"]);
  expect(resumed).toMatchObject({ ok: true, attempt: 2 });
  expect(resumed["text"]).toContain("4711");
});

test("kill -9 between the attempt's record of the id and the run's keeps the id", async () => {
  const { child, done, handle, runDirectory } = await startUntil("remember 4711 @@hang", "You ");
  child.kill("SIGKILL");
  await done;
  const file = join(runDirectory, "run.json");
  const run = JSON.parse(readFileSync(file, "utf8"));
  const before = {
    ...run,
    session: { ...run.session, value: null, source: null, verifiedAt: null },
    sessions: [],
  };
  writeFileSync(file, JSON.stringify(before));
  await box.run(["doctor", "--rebuild-index"]);
  const resumed = await box.json(["resume", handle, "what do you remember?"]);
  expect(resumed["text"]).toContain("4711");
});

describe("signals to Reprise", () => {
  const signals: [signal: "SIGINT" | "SIGTERM" | "SIGHUP", code: number, status: string][] = [
    ["SIGINT", 130, "cancelled"],
    ["SIGTERM", 143, "interrupted"],
    ["SIGHUP", 129, "interrupted"],
  ];
  test.each(signals)("%s", async (signal, code, status) => {
    const { child, done, handle, agentPid } = await startUntil("remember 4711 @@hang", "You ");
    child.kill(signal);
    const result = await done;
    expect(result.code).toBe(code);
    expect(isRunning(agentPid)).toBe(false);
    expect(await box.json(["show", handle])).toMatchObject({ status });
    const resumed = await box.run(["resume", handle, "what do you remember?"]);
    expect(resumed.stdout).toContain("4711");
  });

  test("a second SIGINT ends an agent that ignores the first", async () => {
    const { child, done, handle, stderr } = await startUntil("remember 4711 @@ignore-sigterm @@hang", "You ");
    child.kill("SIGINT");
    await until("the first request was heard", () => stderr().includes("Ctrl-C again"));
    child.kill("SIGINT");
    expect(await done).toMatchObject({ code: 130 });
    expect(markedProcesses(handle)).toEqual([]);
    expect(await box.json(["show", handle])).toMatchObject({ status: "cancelled" });
  });
});

describe("the agent dies", () => {
  test("kill -9 of the agent is an interruption, and the conversation goes on", async () => {
    const { handle, agentPid, done } = await startUntil("remember 4711 @@hang", "You ");
    process.kill(agentPid, "SIGKILL");
    expect(await done).toMatchObject({ code: 1 });
    expect(await box.json(["show", handle])).toMatchObject({ status: "interrupted" });
    const resumed = await box.json(["resume", handle, "what do you remember?"]);
    expect(resumed).toMatchObject({ ok: true, attempt: 2 });
    expect(resumed["text"]).toContain("4711");
  });

  test("its descendants do not survive the end of the attempt", async () => {
    const { child, done, handle } = await startUntil("remember 4711 @@fork-child @@hang", "You ");
    await until("the grandchild", () => markedProcesses(handle).length >= 2);
    child.kill("SIGTERM");
    await done;
    expect(markedProcesses(handle)).toEqual([]);
  });
});

describe("two at once", () => {
  test("two resumes of one handle: one runs, the other gets session_busy, exit 4", async () => {
    const { handle } = await box.json(["start", "demo", "remember 4711"]);
    const results = await Promise.all([
      box.run(["resume", "--json", handle, "one @@wait:1500"]),
      box.run(["resume", "--json", handle, "two @@wait:1500"]),
    ]);
    expect(results.map((result) => result.code).toSorted()).toEqual([0, 4]);
    const refused = results.find((result) => result.code === 4);
    expect(JSON.stringify(refused)).toContain("Another process is working on run");
    expect(await box.json(["show", handle])).toMatchObject({ attempts: 2 });
  });

  test("eight racing resumes deliver one message each or none, never two agents at a time", async () => {
    const { handle } = await box.json(["start", "demo", "remember 4711"]);
    const before = box.journalEntries().length;
    await Promise.all(
      Array.from({ length: 8 }, (_, at) => box.run(["resume", handle, `racer ${at} @@wait:100`])),
    );
    let live = 0;
    for (const entry of box.journalEntries().slice(before)) {
      if (entry["event"] === "start") live += 1;
      if (entry["event"] === "end") live -= 1;
      expect(live).toBeLessThanOrEqual(1);
    }
  });
});

test("a conversation other than the requested one is diverged, with a loud message and a non-zero exit code", async () => {
  const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
  const resumed = await box.json(["resume", handle, "go on @@other-session"]);
  expect(resumed).toMatchObject({
    ok: false,
    exitCode: 1,
    outcome: { result: "diverged" },
    receipt: { verified: "diverged", asked: session.value },
  });
  const record = await box.json(["show", handle]);
  expect(record).toMatchObject({ status: "diverged", session: { value: session.value } });
  // The conversation that was asked for is still there and still the run's.
  const again = await box.json(["resume", handle, "what do you remember?"]);
  expect(again["text"]).toContain("4711");
});

describe("deadlines", () => {
  test("the idle limit ends a silent agent, and the run resumes", async () => {
    const stopped = await box.json(["start", "--idle-timeout", "1s", "demo", "remember 4711 @@hang"]);
    expect(stopped).toMatchObject({ outcome: { result: "interrupted", reason: "no sign of life for 1 s" } });
    const resumed = await box.json(["resume", stopped["handle"], "what do you remember?"]);
    expect(resumed["text"]).toContain("4711");
  });
  test("an open tool call stops the idle clock", async () => {
    const done = await box.json(["start", "demo", "work @@long-tool:2500", "--idle-timeout", "1s"]);
    expect(done).toMatchObject({ ok: true });
  });
  test("a tool call has its own limit", async () => {
    const stopped = await box.json(["start", "demo", "work @@hang:in-tool", "--tool-timeout", "1s"]);
    expect(stopped["outcome"].reason).toMatch(/ran for more than 1 s/);
  });
});

describe("troubles", () => {
  const cases: [directive: string, kind: string, code: number][] = [
    ["@@429", "rate_limited", 75],
    ["@@500", "overloaded", 75],
    ["@@network", "network", 75],
    ["@@401", "auth", 8],
    ["@@context", "context_full", 1],
    ["@@quota", "quota", 1],
  ];
  test.each(cases)("%s is %s, exit %d, and stays resumable", async (directive, kind, code) => {
    const failed = await box.json(["start", "demo", `remember 4711 ${directive}`]);
    expect(failed).toMatchObject({
      ok: false,
      exitCode: code,
      outcome: { result: "failed", trouble: { kind } },
    });
    const resumed = await box.json(["resume", failed["handle"], "what do you remember?"]);
    expect(resumed).toMatchObject({ ok: true });
  });
});
