/** The prompt of a removed run is in no file of the state directory, not even in free pages of the index. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

test("rm overwrites the prompt of a run in index.db", async () => {
  using box = new Sandbox();
  const { handle } = await box.json<{ handle: string }>(["start", "demo", "task xylophonewort"]);
  await box.json(["start", "demo", "another task"]);
  expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  const found = readdirSync(box.state, { recursive: true, encoding: "utf8" })
    .filter((name) => !name.startsWith("demo/") && statSync(join(box.state, name)).isFile())
    .filter((name) => readFileSync(join(box.state, name)).includes("xylophonewort"));
  expect(found).toEqual([]);
}, 60_000);
