/** `resume --at` and `resume --when-reset`, carried out by a real daemon; `scheduled`; `notify test`. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";

let box: AgentBox;
beforeEach(() => {
  box = new AgentBox();
});
afterEach(() => box[Symbol.asyncDispose]());

async function start(...args: string[]): Promise<string> {
  const started = await box.json<{ handle: string }>(["start", "demo", ...args]);
  return started.handle;
}

/** The record of the run's scheduled resume. */
async function scheduled(): Promise<Record<string, unknown> | undefined> {
  const found = await box.json<{ scheduled: Record<string, unknown>[] }>(["scheduled", "list", "--all"]);
  return found.scheduled[0];
}

async function untilOver(): Promise<Record<string, unknown>> {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await scheduled();
    if (found !== undefined && found["state"] !== "waiting" && found["state"] !== "starting") return found;
    if (Date.now() > end) throw new Error(`still ${String(found?.["state"])}\n${box.daemonLog()}`);
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

const file = () =>
  join(
    box.state,
    "scheduled",
    readdirSync(join(box.state, "scheduled")).find((name) => name.endsWith(".json")) ?? "",
  );

/** The file that gets all notifications. */
function tells(): string {
  mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
  const told = join(box.root, "told.json");
  const command = box.program("tell", `cat >> '${told}'`);
  writeFileSync(join(box.home, ".config/reprise/config.toml"), `[notify]\ncommand = ["${command}"]\n`);
  return told;
}

describe("a scheduled resume", () => {
  test("continues the same conversation at its time, and notifies the person", async () => {
    const told = tells();
    const handle = await start("remember 4711");
    const made = await box.json(["resume", handle, "--at", "+1s", "what was the number?"]);
    expect(made).toMatchObject({
      ok: true,
      scheduled: { handle, state: "waiting", by: "time", attempt: null, message: "what was the number?" },
    });
    expect(await untilOver()).toMatchObject({ state: "started", attempt: 2, id: `${handle}-1` });
    await box.until("the attempt has ended", () => box.events("end").length === 2);
    await box.until(
      "the person was told",
      () => existsSync(told) && readFileSync(told, "utf8").includes('"ended"'),
    );
    const shown = await box.json(["show", handle]);
    expect(shown).toMatchObject({ attempts: 2, status: "completed" });
    expect(shown["history"][1]).toMatchObject({ scheduled: `${handle}-1`, message: "what was the number?" });
    const events = readFileSync(told, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { event: string });
    expect(events.map(({ event }) => event).toSorted()).toEqual(["ended", "scheduled"]);
  });

  test("is listed, refuses a second one and removal, and is cancelled", async () => {
    const handle = await start("hello");
    expect((await box.run(["resume", handle, "--at", "+5h", "go on"])).code).toBe(0);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
    const shown = await box.run(["show", handle]);
    expect(shown.stdout).toMatch(
      /^scheduled +resumes at .*\d\d:\d\d: "go on" \(cancel it: reprise scheduled cancel/m,
    );
    expect(await box.json(["show", handle])).toMatchObject({ scheduled: { id: `${handle}-1` } });
    for (const command of ["scheduled", "list", "status"])
      expect((await box.run([command])).stdout).toMatch(new RegExp(`${handle}.*\\d\\d:\\d\\d`));
    // A person who resumes the run by hand must know that it is resumed again later.
    expect((await box.run(["resume", handle, "now"])).stderr).toMatch(
      /warning: a resume of this run is scheduled for .*\d\d:\d\d and stays. Cancel it: reprise scheduled cancel/,
    );
    expect(await box.json(["list"])).toMatchObject({
      runs: [{ scheduled: { id: `${handle}-1`, state: "waiting" } }],
    });
    expect(await box.run(["resume", handle, "--at", "+6h", "x"])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining(`reprise scheduled cancel ${handle}`),
    });
    expect(await box.run(["rm", handle])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("has a scheduled resume"),
    });
    expect((await box.run(["scheduled", "cancel", handle])).code).toBe(0);
    expect(await scheduled()).toMatchObject({ state: "cancelled" });
    expect((await box.run(["scheduled", "cancel", handle])).code).toBe(2);
    expect((await box.run(["rm", handle])).code).toBe(0);
    expect(readdirSync(join(box.state, "scheduled")).filter((name) => name.endsWith(".json"))).toEqual([]);
  });

  test("waits for a live run and then sends its message", async () => {
    const handle = (await box.run(["start", "demo", "remember 4711 @@wait:4000", "--detach"])).stdout.trim();
    await box.json(["resume", handle, "--at", "+1s", "and now?"]);
    expect(await untilOver()).toMatchObject({ state: "started", attempt: 2 });
    await box.until("the agent has heard it", () => box.messages().includes("and now?"));
  });

  test("is carried out late, and once, by a daemon that starts after the time", async () => {
    const told = tells();
    const handle = await start("remember 4711");
    await box.json(["resume", handle, "--at", "+1h", "late? @@500"]);
    await box.run(["daemon", "stop"]);
    const record = JSON.parse(readFileSync(file(), "utf8")) as Record<string, unknown>;
    const dueAt = new Date(Date.now() - 7_200_000).toISOString();
    writeFileSync(file(), JSON.stringify({ ...record, dueAt }));
    expect((await box.run(["scheduled"])).stderr).toContain("reprise daemon start");
    await box.run(["daemon", "start"]);
    const over = await untilOver();
    expect(over).toMatchObject({ state: "started" });
    expect(over["lateMs"]).toBeGreaterThanOrEqual(7_200_000);
    await box.until("the agent has heard it", () => box.messages().includes("late? @@500"));
    expect(box.messages().filter((text) => text === "late? @@500")).toHaveLength(1);
    await box.until("the person was told", () => existsSync(told));
    expect(readFileSync(told, "utf8")).toMatch(/the scheduled resume was started, 2 h [^"]*late"/);
    await box.until("the attempt has ended", () => box.events("end").length === 2);
    expect((await box.run(["wait", handle])).code).not.toBe(0);
    expect((await box.run(["scheduled", "list", "--all"])).stdout).toMatch(
      /started, failed .*\(2 h.* late\)/,
    );
  });

  test("follows the reset of a limit", async () => {
    const none = await start("hello");
    expect(await box.run(["resume", none, "--when-reset", "go on"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("hit no limit"),
    });
    const reset = new Date(Date.now() + 30_000).toISOString();
    const limited = await box.run(["start", "demo", `@@429:reset=${reset}`]);
    const handle = /handle +(\w+)/.exec(limited.stderr)?.[1] ?? "";
    const later = `reprise resume ${handle} --when-reset "…"`;
    expect(limited.stderr).toContain(`later    ${later} resumes when the limit ends`);
    expect((await box.run(["show", handle])).stdout).toMatch(new RegExp(`^next .* or +${later} `, "m"));
    await box.json(["resume", handle, "--when-reset", "and on"]);
    // A run that waits already gets no second offer.
    expect((await box.run(["show", handle])).stdout).not.toContain("--when-reset");
    expect(await untilOver()).toMatchObject({ state: "started", by: "reset", dueAt: reset });
    await box.until("the agent has heard it", () => box.messages().includes("and on"));
  });

  test.each([
    ["a time that is none", ["--at", "noon"], "--at takes a time"],
    ["a time in the past", ["--at", "2020-01-01 07:30"], "is in the past"],
    ["two times", ["--at", "07:30", "--when-reset"], "not both"],
    ["a fork", ["--at", "07:30", "--fork"], "Give --at or --fork, not both."],
    ["a variable", ["--at", "07:30", "--env", "A=1"], "Give --at or --env, not both."],
  ])("refuses %s", async (_name, options, words) => {
    const handle = await start("hello");
    expect(await box.run(["resume", handle, ...options, "--", "x"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(words),
    });
    expect(existsSync(join(box.state, "scheduled"))).toBe(false);
  });

  test("does not store a secret", async () => {
    const handle = await start("hello");
    const env = { MY_API_TOKEN: "swordfish-4711-abcdef" };
    expect(
      await box.run(["resume", handle, "--at", "+1h", "use swordfish-4711-abcdef"], { env }),
    ).toMatchObject({ code: 2, stderr: expect.stringContaining("looks like a secret") });
  });

  test("that cannot be resumed is refused at once", async () => {
    expect((await box.run(["resume", "00000000", "--at", "+1h", "x"])).code).toBe(3);
  });
});

describe("notify test", () => {
  test("reports each way, and fails if none works", async () => {
    expect(await box.run(["notify", "test"])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("No way"),
    });
    mkdirSync(join(box.home, ".config/reprise"), { recursive: true });
    const command = box.program("tell", `cat > '${box.root}/told'`);
    writeFileSync(join(box.home, ".config/reprise/config.toml"), `[notify]\ncommand = ["${command}"]\n`);
    expect(await box.run(["notify", "test"])).toMatchObject({ code: 0, stdout: "sent: notify.command\n" });
    expect(JSON.parse(readFileSync(join(box.root, "told"), "utf8"))).toMatchObject({ event: "test" });
  });
});
