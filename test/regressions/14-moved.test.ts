/**
 * A renamed state directory. Runs in the user's folders go on by themselves. An agent that worked inside the state directory has
 * lost the path of its conversation: nothing begins, and what to type is named, and works.
 */
import { execFileSync } from "node:child_process";
import { renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

test("a run of an engine whose home is in the state directory goes on after a rename", async () => {
  using box = new Sandbox();
  const { handle } = await box.json(["start", "demo", "Remember 4711."]);
  const moved = { env: { REPRISE_HOME: join(box.root, "moved") } };
  renameSync(box.state, moved.env.REPRISE_HOME);
  const resumed = await box.run(["resume", handle, "Which number was it?"], moved);
  expect(resumed).toMatchObject({ code: 0, stderr: expect.not.stringContaining("index") });
  const [first, second] = box.journalEntries().filter(({ event }) => event === "message");
  expect(second?.["session"]).toBe(first?.["session"]);
  // What is recorded by now names the new place, and follows back as well.
  renameSync(moved.env.REPRISE_HOME, box.state);
  expect(await box.run(["resume", handle, "Again?"])).toMatchObject({ code: 0 });
}, 60_000);

test("a run in a worktree and a batch wait until the state directory has its name again", async () => {
  using box = new IssueBox();
  box.issue("one", "do it @@write:half.txt @@hang");
  box.commit();
  const { handle } = await box.json(["start", "claude", "--isolate", "worktree", "Remember 4711."]);
  const spare = await box.json(["start", "claude", "--isolate", "worktree", "Nothing to do."]);
  const batch = box.spawn(box.batchArgs());
  const ended = collect(batch);
  await until("its agent works", () => box.journalEntries().some(({ event }) => event === "hang"));
  batch.kill("SIGTERM");
  await ended;
  box.issue("one", "do it", "status: in_progress\n");
  const [{ session } = { session: "" }] = box.told().filter(({ text }) => text.includes("do it"));
  const [branches, told] = [box.git("branch", "--list"), box.told().length];

  const [state, moved] = [box.state, join(box.root, "moved")];
  const at = { env: { REPRISE_HOME: moved } };
  renameSync(state, moved);
  const back = `mv ${moved} ${state}`;
  const why = `in the state directory, which was ${state} and is now ${moved}`;
  const refused = await box.json(["resume", handle, "go"], at);
  expect(refused["error"]).toMatchObject({ code: "state_moved", facts: { original: state } });
  const { message } = refused["error"] as { message: string };
  expect(message).toContain(why);
  expect((await box.run(["show", handle], at)).stdout).toContain(back);
  const doctor = await box.run(["doctor"], at);
  expect(doctor).toMatchObject({ code: 1, stdout: expect.stringContaining(back) });
  expect(doctor.stdout.replaceAll(/\s+/g, " ")).toMatch(
    new RegExp(`The working directories of (run \\w+, ){2}run \\w+ are ${why};`, "i"),
  );
  // Git knows the worktree by its earlier path, and then by its place in the trash.
  expect(await box.run(["rm", spare["handle"]], at)).toMatchObject({ code: 0 });
  expect(box.git("worktree", "list", "--porcelain")).toMatch(
    new RegExp(`/trash/\\S+-${spare["handle"]}/worktree`),
  );
  const went = await box.run(box.batchArgs("--resume"), at);
  expect(went.stdout + went.stderr).toContain(why);
  // A link leads there, but engines ask for the path behind it.
  symlinkSync(moved, state);
  const linked = await box.run(["resume", handle, "go"], at);
  expect(linked).toMatchObject({ code: 8, stderr: expect.stringContaining(`rm ${state} && ${back}`) });
  expect(box.told()).toHaveLength(told);
  expect(box.git("branch", "--list")).toBe(branches);
  expect(box.statuses()).toEqual({ one: "in_progress" });

  const [, command = ""] = /: (rm .*? && mv .*?) && REPRISE_HOME=/.exec(linked.stderr) ?? [];
  execFileSync("sh", ["-c", command]);
  expect(await box.run(["resume", handle, "go"])).toMatchObject({ code: 0 });
  expect(await box.batch("--resume")).toMatchObject({ code: 0 });
  expect(box.told().at(-1)?.session).toBe(session);
  expect(box.statuses()).toEqual({ one: "closed" });
}, 120_000);
