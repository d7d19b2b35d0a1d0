/** "Nothing of Reprise listens on TCP": Node itself would, on SIGUSR1. */
import { expect, test } from "vitest";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

test("SIGUSR1 opens no port for debuggers and ends nothing", async () => {
  using box = new Sandbox();
  const child = box.spawn(["start", "demo", "hello @@wait:1500"]);
  const ended = collect(child);
  await until("the agent has its message", () =>
    box.journalEntries().some(({ event }) => event === "message"),
  );
  child.kill("SIGUSR1");
  const { code, stderr } = await ended;
  expect(stderr).not.toContain("Debugger");
  expect(code).toBe(0);
});
