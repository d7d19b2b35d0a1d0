/** What a bug report can name: our own files and lines, out of a minified bundle. */
import { expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

test("REPRISE_DEBUG=1 prints a trace that names source files and lines", async () => {
  using box = new Sandbox();
  const { code, stderr } = await box.run(["resume", "ffffffff"], { env: { REPRISE_DEBUG: "1" } });
  expect([code, stderr]).toEqual([3, expect.stringMatching(/src\/run\/select\.ts:\d+:\d+/)]);
});
