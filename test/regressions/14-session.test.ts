/** An agent outlives Reprise without the marker in its environment: its session tells that it belongs to the attempt. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test as anyTest } from "vitest";
import { identify } from "../../src/process/process.ts";
import { ACTOR, collect, Sandbox, until } from "../e2e/sandbox.ts";

/** Where the kernel does not name sessions, such an agent is named and refused instead: `src/run/stop.test.ts`. */
const test = anyTest.skipIf(!existsSync("/proc/self/autogroup"));

/** Passes on what an agent needs, and nothing of Reprise. */
const BARE = `env -i PATH="$PATH" HOME="$HOME" REPRISE_DEMO_LOG="$REPRISE_DEMO_LOG" '${process.execPath}' '${ACTOR}' --as codex -- "$@"
exit $?`;

interface Orphan {
  readonly handle: string;
  readonly pid: number;
}

const told = (box: Sandbox) => box.journalEntries().filter(({ event }) => event === "message");

/** The run's agent works on, its launcher and Reprise are dead. */
async function orphan(box: Sandbox): Promise<Orphan> {
  box.program("codex", BARE);
  const { handle } = await box.json<{ handle: string }>(["start", "codex", "hello"]);
  const child = box.spawn(["resume", handle, "long @@wait:60000"]);
  const done = collect(child);
  const { pid } = await until("the agent has its message", () => told(box)[1] as { pid: number } | undefined);
  // What an agent prints when nobody reads any more ends it.
  const tape = join(box.runDirectories()[0] ?? "", "attempts", "2", "stdout.log");
  await until("the agent has begun", () => readFileSync(tape, "utf8").includes("turn.started"));
  child.kill("SIGKILL");
  await done;
  await until("the agent is an orphan", () => parentOf(pid) === 1);
  return { handle, pid };
}

function parentOf(pid: number): number | null {
  return identify(pid) === null ? null : Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)]));
}

test("doctor names an agent without the marker that outlived Reprise, and stop ends it", async () => {
  using box = new Sandbox();
  const { handle, pid } = await orphan(box);
  expect((await box.run(["doctor"])).stdout).toContain(`left processes behind: pid ${pid}`);
  const stopped = await box.run(["stop", handle]);
  expect(stopped).toMatchObject({ code: 0, stdout: expect.stringContaining("1 of its processes") });
  expect(identify(pid)).toBeNull();
  expect((await box.run(["doctor"])).stdout).not.toContain("left processes behind");
});

test("a resume ends an agent without the marker before it starts the next", async () => {
  using box = new Sandbox();
  const { handle, pid } = await orphan(box);
  expect(await box.run(["resume", handle, "second"])).toMatchObject({ code: 0 });
  expect(identify(pid)).toBeNull();
  expect(told(box).map(({ text }) => text)).toEqual(["hello", "long @@wait:60000", "second"]);
});
