/** Mistakes that batches of issues once made, each as the user met it. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

test("--merge leaves a merge of the user's alone; work on another branch of the worktree is ours, what a gate left is not; an id may be any word; a gate's secret is not kept", async () => {
  using box = new IssueBox();
  const file = join(box.cwd, "shared.txt");
  box.issue("constructor", "@@write:mine.txt");
  const own = "git rev-parse -q --verify own || { git checkout -q -b own; touch own.txt; exit 1; }";
  box.gate(`${own} # --token=ghp_abcdefghijklmnopqrstuvwxyz0123456789`);
  writeFileSync(file, "base\n");
  box.commit();
  box.git("checkout", "-q", "-b", "other");
  writeFileSync(file, "theirs\n");
  box.commit();
  box.git("checkout", "-q", "main");
  writeFileSync(file, "ours\n");
  box.commit();
  expect(() => box.git("merge", "other")).toThrow("Command failed");
  writeFileSync(file, "carefully put together\n");
  const first = await box.batch("--merge");
  expect(first).toMatchObject({ code: 10 });
  expect(first.stdout).toContain("another merge is in progress");
  expect(readFileSync(file, "utf8")).toBe("carefully put together\n");
  expect(box.git("rev-parse", "--verify", "MERGE_HEAD")).toBe(box.git("rev-parse", "other"));
  expect(box.batches()[0]?.issues["constructor"]).toMatchObject({
    engine: "demo",
    title: "Issue constructor",
  });
  const metadata = readdirSync(box.metadataDirectory()).map((name) =>
    readFileSync(join(box.metadataDirectory(), name), "utf8"),
  );
  expect(metadata.join("\n")).not.toContain("ghp_");
  box.git("commit", "-qam", "merged by hand");
  expect(await box.batch("--resume", "--merge")).toMatchObject({ code: 0 });
  expect(existsSync(join(box.cwd, "mine.txt"))).toBe(true);
  expect(existsSync(join(box.cwd, "own.txt"))).toBe(false);
});

test("work in the checkout is not taken for a worktree; a killed batch is not under way", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt @@wait:60000");
  box.commit();
  const child = box.spawn(box.batchArgs("--isolate", "none"));
  const done = collect(child);
  await until("it has a session", () => typeof box.batches()[0]?.issues["a"]?.session_id === "string");
  const state = async () => {
    const { live, batch } = await box.json(["issues", "status", "--json"]);
    return [live, batch.issues.a.status];
  };
  expect(await state()).toEqual([true, "running"]);
  child.kill("SIGKILL");
  await done;
  expect(await state()).toEqual([false, "interrupted"]);
  writeFileSync(join(box.cwd, "precious.txt"), "not committed");
  const head = box.git("rev-parse", "HEAD");
  const result = await box.batch("--resume", "--isolate", "worktree");
  expect(result).toMatchObject({ code: 10 });
  expect(result.stdout).toContain("its work is in the checkout; --isolate none resumes it");
  expect(box.git("rev-parse", "HEAD")).toBe(head);
  expect(box.git("status", "--short", "precious.txt")).toBe("?? precious.txt");
  const logs = await box.json(["issues", "logs", "a", "--cwd", box.cwd, "--json"]);
  expect(logs).toMatchObject({
    ok: true,
    issue: "a",
    attempt: 1,
    text: expect.stringContaining("session_id"),
  });
});

test("an obstacle for every issue is reported before any issue is claimed", async () => {
  using box = new IssueBox();
  box.issue("a", "go");
  const unborn = await box.batch();
  expect(unborn).toMatchObject({ code: 2 });
  expect(unborn.stderr).toContain("Worktrees need a git repository with a commit");
  box.commit();
  box.git("branch", "reprise");
  const taken = await box.batch();
  expect(taken).toMatchObject({ code: 2 });
  expect(taken.stderr).toContain("git branch -m reprise");
  expect(box.statuses()).toEqual({ a: "open" });
});

test("no hook of the repository runs; a gate has one mark; commits in a lost worktree are continued", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.gate('echo "$REPRISE_ATTEMPT" >> "$HOME/marks"; test -f done', "attempts = 1\n");
  box.commit();
  mkdirSync(join(box.cwd, ".git", "hooks"), { recursive: true });
  for (const hook of ["post-checkout", "pre-commit", "commit-msg"])
    writeFileSync(
      join(box.cwd, ".git", "hooks", hook),
      `#!/bin/sh\necho ${hook} >> "$HOME/hooks"\nexit 1\n`,
      {
        mode: 0o755,
      },
    );
  for (const flags of [[], ["--resume"]]) expect(await box.batch(...flags)).toMatchObject({ code: 10 });
  const marks = readFileSync(join(box.home, "marks"), "utf8").trimEnd().split("\n");
  expect([marks.length, new Set(marks).size]).toEqual([2, 1]);
  const worktree = /^worktree (.*\/worktree)$/m.exec(box.git("worktree", "list", "--porcelain"))?.[1] ?? "";
  rmSync(worktree, { recursive: true });
  expect(await box.batch("--resume")).toMatchObject({ code: 10 });
  box.git("merge-base", "--is-ancestor", "reprise/a-issue-a", "reprise/a-issue-a-2");
  expect(box.told().at(-1)?.text).toContain("look at what changed since commit");
  expect(existsSync(join(box.home, "hooks"))).toBe(false);
});

test("`issues logs --redacted` hides secrets in JSON as well", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt @@stderr:sk-abcdefghijklmnopqrstuvwxyz");
  box.commit();
  expect(await box.batch()).toMatchObject({ code: 0 });
  const { text } = await box.json(["issues", "logs", "a", "--redacted", "--json"]);
  expect(text).toContain("[redacted]");
  expect(text).not.toContain("sk-abc");
});
