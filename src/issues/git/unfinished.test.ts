/** What an agent can leave in git, and whether that is finished work. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../../test/deps.ts";
import { commitWork } from "./commit.ts";
import { mergeWork } from "./merge.ts";
import { unfinishedWork } from "./unfinished.ts";

/** Two commits that change the same line, so that git cannot join them by itself. */
const FORK =
  "o=other-$$; git checkout -q -b $o; echo b > a; git commit -qam b; git checkout -q -; echo c > a; git commit -qam c";
const INIT = "git -c protocol.file.allow=always submodule --quiet update --init; cd sub";
const COMMITS = "git checkout -q -b $1; for n in 1 2 3; do echo $n > $n; git add .; git commit -qm $n; done";
const NESTED = "mkdir -p deep/lib; (cd deep/lib; git init -q; echo w > mine; git add .; git commit -qm mine)";

const LEFT: readonly (readonly [what: string, script: string, said: string | null])[] = [
  ["a merge with conflicts", `${FORK}; git merge -q $o`, "a merge is not finished, and a has conflicts"],
  ["a merge whose conflicts were added", `${FORK}; git merge -q $o; git add -A`, "a merge is not finished"],
  ["a cherry-pick", `${FORK}; git cherry-pick $o`, "a cherry-pick is not finished, and a has conflicts"],
  ["a revert", `${FORK}; git revert --no-edit $o`, "a revert is not finished, and a has conflicts"],
  [
    "a cherry-pick of several commits, after the first",
    `${FORK}; git cherry-pick $o HEAD~1; echo d > a; git commit -qam d`,
    "a cherry-pick or revert is not finished",
  ],
  [
    "a stash with conflicts",
    "echo b > a; git stash -q; echo c > a; git commit -qam c; git stash pop",
    "a has conflicts",
  ],
  [
    "a rebase that stopped for an edit",
    `${COMMITS}; GIT_SEQUENCE_EDITOR="sed -i '1s/pick/edit/'" git rebase -q -i HEAD~3`,
    "a rebase is not finished",
  ],
  [
    "a patch that does not apply",
    `${FORK}; git format-patch -q -1 $o --stdout | git am -q -3`,
    "a rebase or `git am` is not finished, and a has conflicts",
  ],
  [
    "a repository inside",
    NESTED,
    "deep/lib is a repository inside the worktree, and its content is on no branch",
  ],
  [
    "a repository inside that was committed as a link",
    `${NESTED}; git add deep; git commit -qm lib`,
    "deep/lib is a repository inside the worktree, and its content is on no branch",
  ],
  [
    "a submodule with a commit that was not pushed",
    `${INIT}; git checkout -q -B main; echo w > mine; git add .; git commit -qm mine`,
    "the submodule sub has commits that none of its remote branches has",
  ],
  ["a repository in place of the worktree", "rm -f .git; git init -q; git add .; git commit -qm all", "LINK"],
  ["no repository any more", "rm -f .git", "LINK"],
  ["a link to another worktree", "git worktree add -q --detach ../$1-2; cp ../$1-2/.git .git", "LINK"],
  ["files that are not committed", "echo w > mine; echo b > a", null],
  ["a merge that is committed", `${FORK}; git merge -q $o; echo d > a; git commit -qam d`, null],
  ["a branch of the agent's own", COMMITS, null],
  ["a submodule at another commit of its remote", `${INIT}; git checkout -q origin/main`, null],
  [
    "a repository that git ignores",
    "mkdir cache; cd cache; git init -q; git commit -q --allow-empty -m x",
    null,
  ],
];

describe("work that an agent left in its worktree", () => {
  let root: string;
  let deps: TestDeps;
  let repository: string;
  const sh = (cwd: string, script: string, name = "") => {
    const env = { PATH: process.env["PATH"], HOME: root, GIT_CONFIG_NOSYSTEM: "1" };
    try {
      execFileSync("sh", ["-c", script, "sh", name], { cwd, env, stdio: "pipe" });
    } catch {
      // A conflict is a failure to git.
    }
  };

  beforeAll(async () => {
    root = mkdtempSync(join(tmpdir(), "reprise-work-"));
    deps = await testDeps(root);
    repository = join(root, "repository");
    writeFileSync(
      join(root, ".gitconfig"),
      "[user]\nname = Agent\nemail = agent@localhost\n[init]\ndefaultBranch = main\n",
    );
    sh(
      root,
      `git init -q remote; cd remote; echo 1 > f; git add .; git commit -qm one
cd ..; git init -q repository; cd repository
git -c protocol.file.allow=always submodule --quiet add "$PWD/../remote" sub
echo a > a; echo cache > .gitignore; git add .; git commit -qm one
cd ../remote; echo 2 > f; git commit -qam two`,
    );
  });
  afterAll(() => rmSync(root, { recursive: true }));

  test.each(LEFT.map((way, at) => [...way, at] as const))("%s", async (_, script, said, at) => {
    const name = `w${at}`;
    const cwd = join(root, name);
    sh(repository, `git worktree add -q -b reprise/${name} "${cwd}"`);
    sh(cwd, script, name);
    const baseline = execFileSync("git", ["rev-parse", "main"], { cwd: repository, encoding: "utf8" }).trim();
    const link = "the worktree's .git no longer leads to the repository, so no branch holds the work";
    const found = await unfinishedWork(deps, { cwd, root: repository, isolated: true, baseline });
    expect(found).toBe(said === "LINK" ? link : said);
  });

  test("commits and merges have the author and committer of the user's environment, or of the user's own settings file", async () => {
    const cwd = join(root, "identity");
    sh(repository, `git worktree add -q -b reprise/identity "${cwd}"; echo w > "${cwd}/mine"`);
    const settings = join(root, "settings");
    writeFileSync(settings, "[user]\nname = File\nemail = file@localhost\n");
    const who = (name: string) => ({ NAME: name, EMAIL: `${name}@localhost` });
    const variables = (role: string) =>
      Object.entries(who(role.toLowerCase())).map(([key, value]) => [`GIT_${role}_${key}`, value]);
    const env = { PATH: deps.env["PATH"], HOME: join(root, "nobody") };
    const named = { ...env, ...Object.fromEntries(["AUTHOR", "COMMITTER"].flatMap(variables)) };
    const work = { worktree: cwd, branch: "reprise/identity", message: "w" };
    await commitWork({ ...deps, env: named }, work);
    await mergeWork(
      { ...deps, env: { ...env, GIT_CONFIG_GLOBAL: settings } },
      repository,
      work.branch,
      "main",
    );
    const log = ["log", "-2", "--format=%an %ae %cn %ce", "--first-parent", "main", "reprise/identity"];
    const people = execFileSync("git", log, { cwd: repository, encoding: "utf8" }).split("\n");
    expect(people).toContain("File file@localhost File file@localhost");
    expect(people).toContain("author author@localhost committer committer@localhost");
  });
});
