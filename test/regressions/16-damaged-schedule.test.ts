/** A damaged record of a scheduled resume is named with a cure, and never in the way of other commands. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AgentBox } from "../e2e/agent-box.ts";

async function ground() {
  const box = new AgentBox();
  const { handle } = await box.json<{ handle: string }>(["start", "demo", "hello"]);
  await box.json(["resume", handle, "--at", "+1h", "go on"]);
  const directory = join(box.state, "scheduled");
  const path = join(directory, readdirSync(directory).find((name) => name.endsWith(".json")) ?? "");
  return { box, handle, path, [Symbol.asyncDispose]: () => box[Symbol.asyncDispose]() };
}

test.each(["garbage\n", '{"v":1}\n'])(
  "doctor names the damaged scheduled resume %j, and cancel moves it aside for a new one",
  async (content) => {
    await using all = await ground();
    const { box, handle, path } = all;
    writeFileSync(path, content);
    const { findings } = await box.json(["doctor"]);
    const told = { what: expect.stringContaining(path), todo: `mv '${path}' '${path}.damaged'` };
    expect(findings).toContainEqual(expect.objectContaining(told));
    expect(await box.run(["resume", handle, "--at", "+1h", "go on"])).toMatchObject({
      code: 5,
      stderr: expect.stringContaining(`reprise scheduled cancel ${handle}`),
    });
    expect(await box.run(["scheduled", "cancel", handle])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`${path}.damaged`),
    });
    expect(readFileSync(`${path}.damaged`, "utf8")).toBe(content);
    expect(await box.json(["resume", handle, "--at", "+1h", "go on"])).toMatchObject({ ok: true });
  },
  60_000,
);

test("rm removes a run with a damaged scheduled resume", async () => {
  await using all = await ground();
  const { box, handle, path } = all;
  writeFileSync(path, "garbage\n");
  expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  expect(existsSync(path)).toBe(false);
}, 60_000);
