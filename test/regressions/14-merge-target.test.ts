/** `issues run --merge` merges into the branch that was checked out when the batch began, and into no other. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";

/** The gate runs while the user works in the checkout: here it does what the user does. */
function userDoes(box: IssueBox, script: string): void {
  box.gate(`[ -e '${box.root}/done' ] || { touch '${box.root}/done'; cd '${box.cwd}'; ${script}; }`);
}

const log = (box: IssueBox, ref: string) => box.git("log", "--format=%s", ref).split("\n");

test("a branch that the user checks out while an agent works gets no merge; --resume merges into the first one", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.issue("b", "@@write:b.txt");
  userDoes(box, "git checkout -q release");
  box.commit();
  box.git("branch", "release");
  writeFileSync(join(box.cwd, "unreleased"), "1");
  box.commit();
  const main = box.git("rev-parse", "main");
  const release = box.git("rev-parse", "release");

  const first = await box.batch("--merge", "--json");
  expect(first.code).toBe(10);
  const { issues } = JSON.parse(first.stdout) as { issues: { state: string; why: string }[] };
  expect(issues.map(({ state }) => state)).toEqual(["failed", "failed"]);
  expect(issues[0]?.why).toContain(
    `reprise/a-issue-a could not be merged into main: release is checked out in ${box.cwd}. Type: git switch main && git merge reprise/a-issue-a`,
  );
  expect([box.git("rev-parse", "main"), box.git("rev-parse", "release")]).toEqual([main, release]);
  expect(box.git("show", "reprise/a-issue-a:a.txt")).not.toBe("");
  // The second one began after the switch, and is to be merged into main all the same.
  expect(box.git("merge-base", "main", "reprise/b-issue-b")).toBe(main);
  expect(box.statuses()).toEqual({ a: "in_progress", b: "in_progress" });
  expect(box.batches().at(-1)).toMatchObject({
    config: { merge_into: "main" },
    issues: { a: { status: "failed", merge_into: "main" } },
  });

  // The command that the summary names, with release still checked out.
  expect(await box.batch("--resume", "--merge")).toMatchObject({ code: 10 });
  expect(box.git("rev-parse", "release")).toBe(release);

  // One by hand, one by Reprise.
  box.git("stash", "-q");
  box.git("switch", "-q", "main");
  box.git("stash", "pop", "-q");
  box.git("merge", "-q", "--no-edit", "reprise/a-issue-a");
  const { code, stdout } = await box.batch("--resume");
  expect([code, code === 0 ? "" : stdout]).toEqual([0, ""]);
  expect(stdout).toMatch(/b\s+completed\s+\S+\s+reprise\/b-issue-b\s+merged into main/);
  expect(box.statuses()).toEqual({ a: "closed", b: "closed" });
  expect(box.text("b")).toContain("merged from reprise/b-issue-b into main.");
  expect([existsSync(join(box.cwd, "a.txt")), existsSync(join(box.cwd, "b.txt"))]).toEqual([true, true]);
  expect(log(box, "release")).toHaveLength(1);
});

test("an issue of an earlier batch keeps its branch when a later batch merges into another one", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  userDoes(box, "git checkout -q release");
  box.commit();
  box.git("branch", "release");
  writeFileSync(join(box.cwd, "unreleased"), "1");
  box.commit();
  expect(await box.batch("--merge")).toMatchObject({ code: 10 });
  box.issue("b", "@@write:b.txt");
  expect(await box.batch("--merge")).toMatchObject({ code: 0 });
  expect(await box.batch("--resume", "--merge")).toMatchObject({ code: 10 });
  expect(box.statuses()).toEqual({ a: "in_progress", b: "closed" });
  expect(existsSync(join(box.cwd, "unreleased"))).toBe(false);
});

test("--merge without a checked-out branch is refused before an issue is claimed", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  box.git("checkout", "-q", "--detach");
  const { code, stderr } = await box.batch("--merge");
  expect(code).toBe(2);
  expect(stderr).toContain("--merge needs a branch to merge into, and no branch is checked out");
  expect(box.statuses()).toEqual({ a: "open" });
});
