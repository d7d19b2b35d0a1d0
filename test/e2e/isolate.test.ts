/** `--isolate`: a place of the agent's own inside the run directory, and nothing in it lost by cleaning up. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
let repository: string;
beforeAll(() => {
  box = new Sandbox();
  repository = join(box.root, "repository");
  mkdirSync(join(repository, "packages/deep"), { recursive: true });
  writeFileSync(join(repository, "packages/deep/file.txt"), "committed\n");
  git(repository, "init", "-q", "-b", "main");
  git(repository, "add", ".");
  git(repository, "commit", "-q", "-m", "first");
});
afterAll(() => box[Symbol.dispose]());

function git(cwd: string, ...args: string[]): string {
  const name = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
  const result = spawnSync("git", [...name, ...args], { cwd, env: box.env(), encoding: "utf8" });
  if (result.status !== 0) throw new Error(`git ${args.join(" ")}: ${result.stderr}`);
  return result.stdout;
}

function lastStart(): Record<string, any> | undefined {
  return box.journalEntries().findLast((entry) => entry["event"] === "start");
}

describe("dir", () => {
  test("the agent gets a fresh directory in the run directory, and resume works in it", async () => {
    const { handle, runDirectory } = await box.json([
      "start",
      "demo",
      "remember 4711 @@write:a.txt",
      "--isolate",
      "dir",
    ]);
    const work = join(runDirectory, "work");
    expect(lastStart()).toMatchObject({ cwd: work });
    expect(await box.json(["show", handle])).toMatchObject({ cwd: work, launch: { isolate: "dir" } });
    const resumed = await box.json(["resume", handle, "what do you remember? @@write:b.txt"], {
      cwd: box.root,
    });
    expect(resumed["text"]).toContain("4711");
    expect(lastStart()).toMatchObject({ cwd: work });
    expect([existsSync(join(work, "a.txt")), existsSync(join(work, "b.txt"))]).toEqual([true, true]);
    expect(existsSync(join(box.cwd, "a.txt"))).toBe(false);
  });
});

describe("worktree", () => {
  test("the summary names the changed files and commands that really merge them", async () => {
    const { stderr } = await box.run(["start", "demo", "hello @@write:new.txt", "--isolate", "worktree"], {
      cwd: repository,
    });
    expect(stderr).toMatch(/^changes {2}1 file: new\.txt {3}\(reprise diff [0-9a-f]{8}\)$/m);
    const command = (name: string) => new RegExp(`^${name} +(.*)$`, "m").exec(stderr)?.[1] ?? "false";
    const shell = (text: string, cwd: string) =>
      spawnSync("sh", ["-c", text], {
        cwd,
        env: box.env({
          GIT_AUTHOR_NAME: "t",
          GIT_AUTHOR_EMAIL: "t@example.org",
          GIT_COMMITTER_NAME: "t",
          GIT_COMMITTER_EMAIL: "t@example.org",
        }),
        encoding: "utf8",
      });
    expect(shell(`${command("commit")} -q -m work`, repository)).toMatchObject({ status: 0 });
    expect(shell(command("merge"), repository)).toMatchObject({ status: 0 });
    expect(readFileSync(join(repository, "new.txt"), "utf8")).toContain("hello");
    git(repository, "reset", "-q", "--hard", "HEAD~1");
  });

  test("is made of the repository's commit, and the repository itself stays unchanged", async () => {
    writeFileSync(join(repository, "untracked.txt"), "mine\n");
    const status = git(repository, "status", "--porcelain");
    const started = await box.json([
      "start",
      "claude",
      "remember 4711 @@write:new.txt",
      "--isolate",
      "worktree",
      "--cwd",
      repository,
    ]);
    expect(started).toMatchObject({ ok: true });
    const worktree = join(started["runDirectory"], "worktree");
    expect(lastStart()).toMatchObject({ cwd: worktree });
    expect(readFileSync(join(worktree, "packages/deep/file.txt"), "utf8")).toBe("committed\n");
    expect(existsSync(join(worktree, "untracked.txt"))).toBe(false);
    expect(existsSync(join(worktree, "new.txt"))).toBe(true);
    expect(git(repository, "status", "--porcelain")).toBe(status);
    expect(git(repository, "branch", "--list").trim()).toBe("* main");
    const resumed = await box.json(["resume", started["handle"], "what do you remember?"]);
    expect(resumed["text"]).toContain("4711");
    expect(lastStart()).toMatchObject({ cwd: worktree });
  });

  test("from a sub-directory works in the same sub-directory of the worktree", async () => {
    const deep = join(repository, "packages/deep");
    const { handle, runDirectory } = await box.json(["start", "demo", "hello", "--isolate", "worktree"], {
      cwd: deep,
    });
    const cwd = join(runDirectory, "worktree/packages/deep");
    expect(lastStart()).toMatchObject({ cwd });
    expect(await box.run(["resume", handle, "again"])).toMatchObject({ code: 0 });
    expect(lastStart()).toMatchObject({ cwd });
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  });

  test("from a sub-directory that the commit does not have is refused, and nothing is left behind", async () => {
    const fresh = join(repository, "not-committed");
    mkdirSync(fresh);
    const [runs, trees] = [box.runDirectories().length, git(repository, "worktree", "list")];
    const result = await box.run(["start", "demo", "hello", "--isolate", "worktree"], { cwd: fresh });
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain("not-committed");
    expect(git(repository, "worktree", "list")).toBe(trees);
    expect(box.runDirectories()).toHaveLength(runs);
  });

  const none: [name: string, make: (directory: string) => void][] = [
    ["no repository", () => undefined],
    ["a repository without a commit", (directory) => void git(directory, "init", "-q")],
  ];
  test.each(none)("%s: causes a clear fault, and nothing is written or started", async (name, make) => {
    const directory = join(box.root, name.replaceAll(" ", "-"));
    mkdirSync(directory);
    make(directory);
    const [runs, entries] = [box.runDirectories().length, box.journalEntries().length];
    const result = await box.run(["start", "demo", "hello", "--isolate", "worktree"], { cwd: directory });
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain(
      `needs a git repository with a commit, and ${realpathSync(directory)} is not in one`,
    );
    expect(box.runDirectories()).toHaveLength(runs);
    expect(box.journalEntries()).toHaveLength(entries);
    expect((await box.run(["list", "--here", "--handles"], { cwd: directory })).stdout).toBe("");
  });
});

describe("rm", () => {
  const work: [name: string, spoil: (worktree: string) => void, words: RegExp][] = [
    [
      "uncommitted work",
      (tree) => writeFileSync(join(tree, "packages/deep/file.txt"), "changed\n"),
      /uncommitted work/,
    ],
    ["untracked work", (tree) => writeFileSync(join(tree, "new.txt"), "new\n"), /uncommitted work/],
    [
      "unmerged work",
      (tree) => {
        writeFileSync(join(tree, "new.txt"), "new\n");
        git(tree, "add", ".");
        git(tree, "commit", "-q", "-m", "work of the agent");
      },
      /on no branch/,
    ],
    [
      "a commit that HEAD has left",
      (tree) => {
        git(tree, "commit", "-q", "--allow-empty", "-m", "work of the agent");
        git(tree, "checkout", "-q", "--detach", "main");
      },
      /on no branch: [0-9a-f]{7,} /,
    ],
    [
      "a commit that a ref of the worktree's own holds",
      (tree) => {
        const commit = git(tree, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}").trim();
        git(tree, "update-ref", "refs/worktree/kept", commit);
      },
      /on no branch/,
    ],
  ];
  test.each(work)("%s is refused, and --discard-work removes it", async (_name, spoil, words) => {
    const { handle, runDirectory } = await box.json([
      "start",
      "demo",
      "hello",
      "--isolate",
      "worktree",
      "--cwd",
      repository,
    ]);
    const worktree = join(runDirectory, "worktree");
    spoil(worktree);
    const refused = await box.run(["rm", handle]);
    expect(refused).toMatchObject({ code: 8, stdout: "" });
    expect(refused.stderr).toMatch(words);
    expect(refused.stderr).toContain("--discard-work");
    expect(existsSync(worktree)).toBe(true);
    expect(await box.run(["rm", handle, "--discard-work"])).toMatchObject({ code: 0 });
    expect(existsSync(runDirectory)).toBe(false);
    expect(git(repository, "worktree", "list")).not.toContain(handle);
  });

  test("treats work on a branch as saved", async () => {
    const { handle, runDirectory } = await box.json([
      "start",
      "demo",
      "hello",
      "--isolate",
      "worktree",
      "--cwd",
      repository,
    ]);
    const worktree = join(runDirectory, "worktree");
    git(worktree, "switch", "-q", "-c", "kept");
    writeFileSync(join(worktree, "new.txt"), "new\n");
    git(worktree, "add", ".");
    git(worktree, "commit", "-q", "-m", "kept work");
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
    expect(git(repository, "log", "--format=%s", "kept", "-1")).toBe("kept work\n");
  });
});
