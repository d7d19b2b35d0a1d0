/** A merge into the user's checkout replaces no file that git would replace without a word. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { testDeps } from "../../../test/deps.ts";
import type { Deps } from "../../run/run.ts";
import { mergeWork } from "./merge.ts";

let root: string;
let deps: Deps;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-merge-"));
  deps = await testDeps(root);
  sh(`git init -qb main; git config user.name a; git config user.email a@localhost
printf '.env\ncache\n' > .gitignore; echo base > base.txt; git add .; git commit -qm one; git checkout -qb work`);
});
afterEach(() => rmSync(root, { recursive: true }));

const sh = (script: string) => execFileSync("sh", ["-ec", script], { cwd: root, encoding: "utf8" });

test.each([
  ["an ignored file", "echo agent > .env; git add -f .env", "echo mine > .env", ".env"],
  [
    "a file that the branch no longer ignores",
    ": > .gitignore; echo a > .env; git add .",
    "echo mine > .env",
    ".env",
  ],
  [
    "an ignored file in place of a folder",
    "mkdir cache; echo a > cache/x; git add -f cache",
    "echo mine > cache",
    "cache",
  ],
  [
    "an ignored folder in place of a file",
    "echo a > cache; git add -f cache",
    "mkdir cache; echo mine > cache/x",
    "cache",
  ],
  [
    "a file that is marked as unchanged",
    "echo agent > base.txt; git add .",
    "git update-index --assume-unchanged base.txt; echo mine > base.txt",
    "base.txt",
  ],
])("a merge refuses to replace %s", async (_, agent, user, path) => {
  sh(`${agent}; git commit -qm two; git checkout -q main; ${user}`);
  const file = join(root, path === "cache" && user.startsWith("mkdir") ? "cache/x" : path);
  await expect(mergeWork(deps, root, "work", "main")).rejects.toMatchObject({
    code: "work_unsaved",
    message: expect.stringContaining(`it would replace ${path} in`),
  });
  expect(readFileSync(file, "utf8")).toBe("mine\n");
  expect(sh("git log -1 --format=%s").trim()).toBe("one");
});

test("a merge leaves ignored files that it does not touch", async () => {
  sh(
    "echo a > new.txt; echo b > base.txt; git add .; git commit -qm two; git checkout -q main; echo mine > .env; mkdir cache",
  );
  await mergeWork(deps, root, "work", "main");
  expect(readFileSync(join(root, "new.txt"), "utf8")).toBe("a\n");
  expect(readFileSync(join(root, ".env"), "utf8")).toBe("mine\n");
});

test.each([
  [
    "another branch",
    "git checkout -q -b release",
    "release is checked out in ROOT. Type: git switch main && git merge work",
  ],
  [
    "no branch",
    "git checkout -q --detach",
    "no branch is checked out in ROOT. Type: git switch main && git merge work",
  ],
  [
    "a bisect",
    "git bisect start -q",
    "a bisect is in progress in ROOT. Finish it, check out main, then: git merge work",
  ],
  [
    "a rebase",
    "git commit -qm more --allow-empty; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -qi HEAD~1",
    "a rebase is in progress in ROOT. Finish it, check out main, then: git merge work",
  ],
  [
    "a merge",
    "git checkout -q -b side; git commit -qm side --allow-empty; git checkout -q main; git merge -q --no-ff --no-commit side",
    "another merge is in progress in ROOT. Finish it with `git commit`, or abort it with `git merge --abort`; then: git merge work",
  ],
  [
    "a cherry-pick",
    "git checkout -q -b side; echo s > base.txt; git commit -qam side; git checkout -q main; echo m > base.txt; git commit -qam m; git cherry-pick side || true",
    "a cherry-pick is in progress in ROOT. Finish it, check out main, then: git merge work",
  ],
  [
    "a branch that is gone",
    "git checkout -q -b other; git branch -q -D main",
    "that branch is gone. Check out the branch that is to have the work, type git merge work, and close the issue yourself",
  ],
])("a merge leaves the checkout alone with %s", async (_, user, why) => {
  sh(`echo a > new.txt; git add .; git commit -qm two; git checkout -q main; (${user}) >/dev/null 2>&1`);
  const before = sh("git rev-parse HEAD; git for-each-ref; git status --porcelain");
  await expect(mergeWork(deps, root, "work", "main")).rejects.toMatchObject({
    code: "work_unsaved",
    message: `work could not be merged into main: ${why.replace("ROOT", root)}`,
  });
  expect(sh("git rev-parse HEAD; git for-each-ref; git status --porcelain")).toBe(before);
});

test("a branch that the target has already needs no merge, whatever is checked out", async () => {
  sh(
    "echo a > new.txt; git add .; git commit -qm two; git checkout -q main; git merge -q work; git checkout -q -b other",
  );
  await mergeWork(deps, root, "work", "main");
  expect(sh("git branch --show-current").trim()).toBe("other");
});
