/** Each warning is printed once per command. */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(async () => {
  box = new Sandbox();
  await box.json(["start", "demo", "hello"]);
  const { runId } = await box.json(["start", "demo", "hello"]);
  const index = new DatabaseSync(join(box.state, "index.db"));
  index.prepare("UPDATE runs SET record = '{', status = 'running' WHERE run_id = ?").run(runId);
  index.close();
});
afterAll(() => box[Symbol.dispose]());

test.each([[["list"]], [["list", "--status", "running"]], [["doctor"]]])(
  "%j names a damaged row once, however often it reads it",
  async (args) => {
    const { stderr } = await box.run(args);
    expect(stderr.split("\n").filter((line) => line.includes("warning:"))).toEqual([
      expect.stringContaining("the index has a damaged row"),
    ]);
  },
);
