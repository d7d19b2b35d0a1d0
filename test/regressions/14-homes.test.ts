/** Where conversations are: a home that means another place each time, and a directory that is gone. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

test("an engine home that is not absolute is refused before anything is recorded", async () => {
  using box = new Sandbox();
  const refused = await box.run(["start", "codex", "hello"], { env: { CODEX_HOME: ".codex" } });
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain("Give an absolute path in CODEX_HOME or HOME");
  expect(box.runDirectories()).toEqual([]);
});

test("a conversation whose directory is gone is adopted, and no resume is offered", async () => {
  using box = new Sandbox();
  const cwd = join(box.root, "elsewhere");
  mkdirSync(cwd);
  const { handle, session } = await box.json<{ handle: string; session: { value: string } }>(
    ["start", "claude", "hello"],
    { cwd },
  );
  expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  rmSync(cwd, { recursive: true });
  const { code, stdout } = await box.run(["adopt", "claude", session.value]);
  expect([code, stdout]).toEqual([
    0,
    expect.stringContaining("It cannot be resumed: its working directory is gone"),
  ]);
  expect(stdout).not.toContain("reprise resume");
});
