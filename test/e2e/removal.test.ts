/** The next command finishes a removal that was killed, and leaves a removal in progress to its process. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentBox } from "./agent-box.ts";
import { HolderBox, isAlive } from "./holder-box.ts";
import { until } from "./sandbox.ts";

let box: AgentBox;
beforeAll(() => {
  box = new AgentBox();
});
afterAll(() => box[Symbol.asyncDispose]());

const left = () => readdirSync(join(box.state, "runs")).filter((name) => name.startsWith(".trash-"));
const deadPid = () => spawnSync("true").pid;

/** As a removal by this process leaves it: the directory has another name, the index still has the run. */
async function halfRemoved(pid: number): Promise<string> {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
  renameSync(runDirectory, join(dirname(runDirectory), `.trash-${pid}-aabbcc`));
  return handle;
}

test.each([
  ["the same rm", (handle: string) => ["rm", handle]],
  ["prune", () => ["prune", "--older-than", "30d"]],
  ["the end of an attempt", () => ["start", "demo", "hello"]],
  ["the supervisor", () => ["daemon", "start"]],
])("%s finishes an interrupted removal", async (_what, args) => {
  const handle = await halfRemoved(deadPid());
  expect((await box.run(args(handle))).code).toBe(0);
  await until("the recordings are gone", () => left().length === 0);
});

test("a running removal is left alone, and list does not look into it", async () => {
  const runs = join(box.state, "runs");
  const [live, dead] = [process.pid, deadPid()].map((pid) => join(runs, `.trash-${pid}-aabbcc`));
  for (const path of [live ?? "", dead ?? ""]) {
    mkdirSync(path);
    writeFileSync(join(path, "stdout.log"), "");
  }
  await box.run(["list"]);
  expect(left()).toHaveLength(2);
  await box.run(["prune", "--older-than", "30d", "--dry-run"]);
  expect(left()).toHaveLength(2);
  await box.run(["prune", "--older-than", "30d"]);
  expect([existsSync(live ?? ""), existsSync(dead ?? "")]).toEqual([true, false]);
});

test("rm ends an agent that outlived its killed holder and ignores SIGTERM", async () => {
  using other = new HolderBox();
  const handle = await other.detach("demo", "x @@ignore-sigterm @@hang");
  await until("the agent hangs", () => other.journalEntries().some(({ event }) => event === "hang"));
  const [agent, holder] = [other.agent(), other.pid(handle)];
  process.kill(holder, "SIGKILL");
  await until("the holder is gone", () => !isAlive(holder));
  expect(isAlive(agent)).toBe(true);
  expect(await other.run(["rm", handle])).toMatchObject({ code: 0 });
  expect(isAlive(agent)).toBe(false);
});
