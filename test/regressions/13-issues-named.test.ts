/** What a batch leaves out, and what other commands would take from it, is named with what to type. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** A batch that was killed while the agent of `a` worked. */
async function killed(box: IssueBox, ...args: string[]): Promise<{ batch: string; handle: string }> {
  const child = box.spawn(box.batchArgs(...args));
  const done = collect(child);
  await until("a works", () => box.batches().at(-1)?.issues["a"]?.tools === 1);
  child.kill("SIGKILL");
  await done;
  const last = box.batches().at(-1);
  return { batch: last?.run_id ?? "", handle: last?.issues["a"]?.handle ?? "" };
}

const write = (box: IssueBox, id: string, edit: (text: string) => string) =>
  writeFileSync(join(box.cwd, "issues", `${id}.md`), edit(box.text(id)));

describe("an issue in progress that a batch without --resume leaves out", () => {
  test("is named with the killed batch and its command, by the batch and by issues status", async () => {
    using box = new IssueBox();
    box.issue("a", "@@tool:look @@hang:after-text");
    box.issue("mine", "a person's", "status: in_progress\n");
    box.commit();
    const { batch } = await killed(box, "--scope", "ids:a");
    const words = `batch ${batch} was killed and left 1 issue in progress (a): reprise issues run --resume --scope ids:a --engine demo\n`;
    const nothing = await box.batch();
    expect(nothing.stderr).toContain("0 issues, 2 left out (in progress: a, mine)");
    expect(nothing.stderr.split(words)).toHaveLength(2);
    expect(nothing.stderr).toContain("1 issue in progress that no batch started: mine.");
    expect((await box.run(["issues", "status"])).stdout).toContain(words.slice(1));
    box.issue("b", "@@write:b.txt");
    const other = await box.json(box.batchArgs());
    const resume = "reprise issues run --resume --scope ids:a --engine demo";
    expect(other).toMatchObject({
      ok: true,
      skipped: [{ id: "a" }, { id: "mine" }],
      earlier: [{ batch, issues: ["a"], resume }],
    });
    expect((await box.run(["issues", "status"])).stdout).toContain(words.slice(1));
    expect(await box.json(["issues", "status"])).toMatchObject({ earlier: [{ batch, resume }] });
    write(box, "a", (text) => text.replace("@@hang:after-text", "@@write:a.txt"));
    expect(await box.run(resume.split(" ").slice(1))).toMatchObject({ code: 0 });
    expect(box.statuses()).toMatchObject({ a: "closed", mine: "in_progress" });
    expect((await box.run(["issues", "status"])).stdout).not.toContain(batch);
  });
});

test("rm and prune keep the run of an issue in progress, until it is closed or its work is given up", async () => {
  using box = new IssueBox();
  box.issue("a", "just talk");
  box.commit();
  await box.batch();
  const { handle } = box.batches()[0]?.issues["a"] ?? {};
  const refused = await box.run(["rm", handle ?? ""]);
  expect(refused.stderr).toContain(
    `Run ${handle} was not removed: issue a is in progress and goes on in it.`,
  );
  expect(refused.stderr).toContain(
    `To go on with it: reprise issues run --resume --scope ids:a --engine demo ${box.cwd}\n`,
  );
  expect(refused.code).not.toBe(0);
  const pruned = await box.json(["prune", "--older-than", "1ms", "--dry-run"]);
  expect(pruned).toMatchObject({ removed: [], skipped: [{ handle, code: "work_unsaved" }] });
  write(box, "a", (text) => text.replace("status: in_progress", "status: closed"));
  expect(await box.json(["prune", "--older-than", "1ms", "--dry-run"])).toMatchObject({
    removed: [{ handle }],
  });
  write(box, "a", (text) => text.replace("status: closed", "status: in_progress"));
  expect(await box.run(["rm", handle ?? "", "--discard-work"])).toMatchObject({ code: 0 });
});

test("an issue that a person blocked or removed before it began is left for that reason, and offered when it is back", async () => {
  using box = new IssueBox();
  for (const [at, id] of ["a", "b", "c"].entries()) box.issue(id, `@@write:${id}.txt`, `priority: ${at}\n`);
  const issues = join(box.cwd, "issues");
  box.gate(`sed -i 's/^title/status: blocked\\ntitle/' ${issues}/b.md; rm -f ${issues}/c.md`);
  box.commit();
  const c = box.text("c");
  const result = await box.batch();
  expect(result.stdout).toMatch(
    /^b +left .*its status was set to blocked before its agent began, and Reprise keeps that$/m,
  );
  expect(result.stdout).toMatch(/^c +left .*the issue was removed before its agent began$/m);
  const shown = await box.json(["issues", "status"]);
  expect(shown["batch"].issues).toMatchObject({ b: { status: "left", handle: null }, c: { status: "left" } });
  expect(shown["resume"]).toBeNull();
  writeFileSync(join(issues, "c.md"), c);
  const back = await box.json(["issues", "status"]);
  expect(back["batch"].leaves.map(({ id }: { id: string }) => id)).toEqual(["b"]);
  expect(back["resume"]).toBe("reprise issues run --resume --engine demo");
});

test("a batch that goes on says how to merge what the killed one had completed", async () => {
  using box = new IssueBox();
  box.issue("hello", "@@write:hello.txt", "priority: 0\n");
  box.issue("a", "@@tool:look @@hang:after-text", "priority: 1\n");
  box.commit();
  await killed(box);
  write(box, "a", (text) => text.replace("@@hang:after-text", "@@write:a.txt"));
  const merges = (await box.batch("--resume")).stdout
    .split("\n")
    .filter((line) => line.includes("git merge"));
  expect(merges).toEqual(["  git merge reprise/hello-issue-hello", "  git merge reprise/a-issue-a"]);
});

test("no handle is shown of a run that waits for its start, and no session of an engine that refused to start", async () => {
  using box = new IssueBox();
  box.issue("a", "@@429:reset=2099-01-01T00:00:00Z", "priority: 0\n");
  box.issue("b", "just talk @@wait:1500", "priority: 1\n");
  box.issue("c", "just talk", "priority: 2\n");
  box.commit();
  const child = box.spawn(box.batchArgs("--max-agents", "2"));
  const done = collect(child);
  await until("c waits", () => box.batches().at(-1)?.issues["c"]?.status === "waiting");
  const { issues } = (await box.json(["issues", "status"]))["batch"];
  expect(issues).toMatchObject({ a: { handle: expect.any(String) }, c: { status: "waiting", handle: null } });
  child.kill("SIGTERM");
  expect((await done).stdout).toMatch(/^c +interrupted +- +- +/m);
  expect((await box.batch("--resume", "--dry-run")).stdout).toMatch(
    /^c +fresh +- +it has no earlier session: /m,
  );
  box.issue("d", "hello");
  await box.run(["issues", "run", "--engine", "claude", "--scope", "ids:d", "--", "--modle", "x"]);
  const { handle, session_id: session } = box.batches().at(-1)?.issues["d"] ?? {};
  expect([handle, session]).toEqual([expect.any(String), expect.any(String)]);
  expect(await box.json(["issues", "sessions", "d"])).toMatchObject({ sessions: [] });
  const shown = await box.json(["issues", "status"]);
  expect(shown["batch"].issues["d"]).toMatchObject({ handle, session_id: null });
});

test("a plan says of an issue that it waits for another one of the batch", async () => {
  using box = new IssueBox();
  box.issue("p", "first");
  box.issue("s", "second", "dependencies: [p]\n");
  box.commit();
  const { stdout } = await box.batch("--dry-run");
  expect(stdout).toMatch(/^p +fresh +- +it is ready: Issue p$/m);
  expect(stdout).toMatch(/^s +fresh +- +it begins when p is done: Issue s$/m);
});
