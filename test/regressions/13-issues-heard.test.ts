/** What a conversation has heard of its issue, whatever led into it; and what a turn that only talks does not complete. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";

/** An issue whose agent was told its first text, and only talked. */
async function begun(text: string): Promise<{ box: IssueBox; handle: string; session: string }> {
  const box = new IssueBox();
  box.issue("a", text);
  box.commit();
  await box.batch();
  const { handle, session_id: session } = box.batches()[0]?.issues["a"] ?? {};
  return { box, handle: handle ?? "", session: session ?? "" };
}

/** As a person does who edits the file: its status stays. */
function rewrite(box: IssueBox, from: string, to: string): void {
  writeFileSync(join(box.cwd, "issues", "a.md"), box.text("a").replace(from, to));
}

describe("the next turn about an issue tells its whole present text", () => {
  test("after another conversation answered the turn that told it", async () => {
    const { box } = await begun("paint it RED");
    using _box = box;
    rewrite(box, "RED", "BLUE @@other-session @@write:x.txt");
    expect((await box.batch("--resume")).stdout).toMatch(/^a +failed /m);
    const before = box.told().length;
    await box.batch("--resume");
    expect(box.told().at(before)).toMatchObject({ text: expect.stringContaining("paint it BLUE") });
    expect(box.statuses()).toEqual({ a: "in_progress" });
  });

  test("in a new conversation that a person began by hand", async () => {
    const { box, handle, session } = await begun("paint it RED");
    using _box = box;
    rmSync(box.sessionFile(session));
    rmSync(join(box.runDirectories()[0] ?? "", "escrow"), { recursive: true });
    expect(await box.run(["resume", handle, "--force-fresh", "go on from anew"])).toMatchObject({ code: 0 });
    await box.batch("--resume", "--strict");
    const { text = "", session: now } = box.told().at(-1) ?? {};
    expect(now).not.toBe(session);
    expect(text).toContain("# a: Issue a\n\npaint it RED");
    expect(text).toContain("look at what changed since commit");
    expect(text).not.toContain("You were interrupted");
  });

  test("in an earlier conversation that a person returned to", async () => {
    const { box, handle, session } = await begun("paint it RED");
    using _box = box;
    rewrite(box, "RED", "BLUE");
    await box.batch("--resume", "--fresh");
    const fresh = box.told().at(-1);
    expect(fresh?.text).toContain("Work on it has begun already, in another conversation:");
    expect(fresh?.session).not.toBe(session);
    expect(await box.run(["resume", handle, "--session", session, "back"])).toMatchObject({ code: 0 });
    await box.batch("--resume");
    expect(box.told().at(-1)).toMatchObject({ session, text: expect.stringContaining("paint it BLUE") });
  });

  test("in a session that was cut back, and goes on without its copy", async () => {
    const { box, handle, session } = await begun("paint it RED");
    using _box = box;
    const file = box.sessionFile(session);
    const first = readFileSync(file);
    rewrite(box, "RED", "BLUE");
    await box.batch("--resume");
    writeFileSync(file, first);
    expect(await box.run(["resume", handle, "--ignore-copy", "what now?"])).toMatchObject({ code: 0 });
    await box.batch("--resume", "--strict");
    expect(box.told().at(-1)).toMatchObject({ session, text: expect.stringContaining("paint it BLUE") });
  });

  test("when its agent died before it was known to have heard it", async () => {
    const { box, session } = await begun("paint it RED @@exit:3:after-user");
    using _box = box;
    const told = box.told();
    expect(new Set(told.map((one) => one.session))).toEqual(new Set([session]));
    expect(told.map(({ text }) => text.includes("paint it RED"))).toEqual([true, true, true]);
  });
});

test("a turn that only talks does not complete an issue whose earlier turn was denied a tool call", async () => {
  using box = new IssueBox();
  box.issue("a", "@@deny:a.txt");
  box.gate("true");
  box.commit();
  expect((await box.batch()).stdout).toMatch(/^a +no_change .*1 tool call was denied: write a\.txt$/m);
  const again = await box.batch("--resume");
  expect(again).toMatchObject({ code: 10 });
  expect(again.stdout).toMatch(/^a +no_change .*1 tool call of an earlier turn was denied: write a\.txt$/m);
  expect(again.stdout).not.toContain("git merge");
  expect(box.statuses()).toEqual({ a: "in_progress" });
  // A change of files is work, whatever was denied before it.
  rewrite(box, "@@deny:a.txt", "@@write:a.txt");
  expect(await box.batch("--resume")).toMatchObject({ code: 0 });
  expect(box.statuses()).toEqual({ a: "closed" });
});
