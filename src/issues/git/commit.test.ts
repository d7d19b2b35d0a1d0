/** What is on the branch of an issue after its agent's turn, wherever the agent left the work. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testDeps, type TestDeps } from "../../../test/deps.ts";
import { commitWork } from "./commit.ts";
import { recordGateFiles } from "./snapshot.ts";
import type { CommitResult } from "./worktree.ts";

let root: string;
let deps: TestDeps;
let made = 0;
const sh = (cwd: string, script: string) => {
  const env = { PATH: process.env["PATH"], HOME: root, GIT_CONFIG_NOSYSTEM: "1" };
  return execFileSync("sh", ["-ec", script], { cwd, env, stdio: "pipe", encoding: "utf8" }).trim();
};

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-commit-"));
  deps = await testDeps(root, { env: { PATH: process.env["PATH"], HOME: root, GIT_CONFIG_NOSYSTEM: "1" } });
  writeFileSync(
    join(root, ".gitconfig"),
    "[user]\nname = Agent\nemail = agent@localhost\n[init]\ndefaultBranch = main\n",
  );
  sh(
    root,
    `git init -q template; cd template; mkdir d; echo a > a; echo b > d/b; echo r > readme; ln -s a link; echo '*.log' > .gitignore
git add .; export GIT_COMMITTER_DATE=2020-01-01T00:00:00Z; git commit -qm one
git checkout -q -b ahead; git commit -q --allow-empty -m ahead; git checkout -q main; git branch same`,
  );
});
afterAll(() => rmSync(root, { recursive: true }));

/** A repository with files, a link, an ignored name, and a branch that is a commit ahead; and an agent's worktree of it. */
function world(): { repository: string; cwd: string } {
  made += 1;
  const repository = join(root, `r${made}`);
  const cwd = join(root, `w${made}`);
  sh(
    root,
    `cp -a template "${repository}"; git -C "${repository}" worktree add -q -b reprise/1 "${cwd}"; touch -d 2021-01-01 "${repository}"/.git/worktrees/*/commondir`,
  );
  return { repository, cwd };
}

interface Way {
  readonly name: string;
  readonly script: string;
  /** Prints `yes` in the repository when the branch is as it should be. */
  readonly holds?: string;
  readonly left?: RegExp;
  readonly help?: RegExp;
  readonly note?: RegExp;
}

const changed = (file: string) => `[ "$(git show reprise/1:${file})" = changed ] && echo yes`;
const has = (file: string) => `git cat-file -e "reprise/1:${file}" && echo yes`;
const unmoved = `[ "$(git rev-parse reprise/1)" = "$(git rev-parse main)" ] && echo yes`;

const WAYS: readonly Way[] = [
  { name: "a changed file", script: "echo changed > a", holds: changed("a") },
  {
    name: "a changed file that git is told to assume unchanged",
    script: "git update-index --assume-unchanged a; echo changed > a",
    holds: changed("a"),
  },
  {
    name: "a changed file that git is told to skip",
    script: "git update-index --skip-worktree a; echo changed > a",
    holds: changed("a"),
  },
  {
    name: "a new file outside of a sparse checkout, whose other files stay",
    script: "mkdir e; git sparse-checkout set --no-cone /e; mkdir -p d; echo changed > d/n",
    holds: `${changed("d/n")}; git cat-file -e reprise/1:d/b; git cat-file -e reprise/1:a`,
  },
  {
    name: "a changed file outside of a sparse checkout in cone mode with a sparse index",
    script: "mkdir e; git sparse-checkout set --cone --sparse-index e; mkdir -p d; echo changed > d/b",
    holds: `${changed("d/b")}; git cat-file -e reprise/1:a`,
  },
  {
    name: "an executable file behind core.fileMode=false",
    script: "git config core.fileMode false; chmod +x a",
    holds: "git ls-tree reprise/1 a | grep -q ^100755 && echo yes",
  },
  {
    name: "a second spelling of a name behind core.ignoreCase=true",
    script: "git config core.ignoreCase true; echo changed > README",
    holds: changed("README"),
  },
  {
    name: "a changed file of the same size and time behind core.checkStat=minimal",
    script:
      "git config core.checkStat minimal; git config core.trustctime false; touch -r a t; printf 'b\\n' > a; touch -r t a; rm t",
    holds: `[ "$(git show reprise/1:a)" = b ] && echo yes`,
  },
  {
    name: "a file in the place of a link behind core.symlinks=false",
    script: "git config core.symlinks false; rm link; echo changed > link",
    left: /^link is not a link/,
    holds: unmoved,
  },
  {
    name: "a new file that .git/info/exclude hides since the work began",
    script: 'echo new > "$(git rev-parse --git-common-dir)/info/exclude"; echo changed > new; echo w > w',
    left: /^new is on no branch: .*info\/exclude/,
    help: /move the rule to a \.gitignore/,
    holds: has("w"),
  },
  {
    name: "a new file that a setting of the repository hides",
    script: 'echo new > ../rules; git config core.excludesFile "$PWD/../rules"; echo w > new',
    left: /^new is on no branch: .*rules/,
  },
  {
    name: "a new folder whose own .gitignore hides all of it",
    script: "mkdir n; echo '*' > n/.gitignore; echo w > n/w",
    note: /^n\/.* not on the branch: n\/\.gitignore/,
  },
  {
    name: "a cache whose own .gitignore hides it",
    script:
      "mkdir n; echo '*' > n/.gitignore; echo 'Signature: 8a477f597d28d172789f06886806bc55' > n/CACHEDIR.TAG",
  },
  { name: "what a committed .gitignore hides", script: "echo w > x.log", holds: unmoved },
  { name: "no branch", script: "git checkout -q --detach; echo changed > a", holds: changed("a") },
  {
    name: "a commit on no branch",
    script: "git checkout -q --detach; echo changed > a; git commit -qam x",
    holds: changed("a"),
  },
  {
    name: "a branch of the agent's own",
    script: "git checkout -q -b own; echo changed > a; git commit -qam x; echo changed > w",
    holds: `${changed("w")} && [ "$(git show own:a)" = changed ] && ! git cat-file -e own:w`,
  },
  {
    name: "a branch of the user's",
    script: "git checkout -q same; echo changed > a",
    holds: `${changed("a")} && [ "$(git rev-parse same)" = "$(git rev-parse main)" ]`,
  },
  {
    name: "a commit on a branch of the user's",
    script: "git checkout -q same; echo changed > a; git commit -qam x; git checkout -q reprise/1",
    note: /^the agent itself committed on same$/,
    holds: unmoved,
  },
  {
    name: "a branch of the user's with commits that the issue's branch lacks",
    script: "git checkout -q ahead; echo changed > a",
    left: /^the worktree is on the branch ahead, which has commits from before the work/,
    holds: unmoved,
  },
  {
    name: "a branch that lacks commits of the issue's branch",
    script: "echo w > w; git add .; git commit -qm w; git checkout -q same; echo changed > a",
    left: /^the worktree is on the branch same, without what was committed on reprise\/1/,
    holds: has("w"),
  },
  {
    name: "a branch without a commit",
    script: "git checkout -q --orphan none; echo changed > a",
    left: /^the worktree is on the branch none, which has no commit$/,
    help: /switch reprise\/1$/,
    holds: unmoved,
  },
  {
    name: "another branch, while the issue's own is checked out elsewhere",
    script: 'git checkout -q same; echo w > w; git worktree add -q "$PWD-2" reprise/1',
    left: /reprise\/1 is checked out in .*-2$/,
    help: /^Switch that checkout/,
    holds: unmoved,
  },
  {
    name: "a branch that the agent removed",
    script: "git checkout -q --detach; git branch -q -D reprise/1; echo changed > a",
    holds: changed("a"),
  },
  {
    name: "a file for a filter that only the repository names",
    script: "git config filter.x.clean cat; echo 'a filter=x' > .gitattributes; echo changed > a",
    left: /^a needs the git filter x, .* plain text$/,
    help: /\(git config --global\); or commit it yourself: git -C /,
    holds: unmoved,
  },
  {
    name: "a file for a filter that only the repository names, which git is told to skip",
    script:
      "git config filter.x.clean cat; echo 'a filter=x' > .gitattributes; git update-index --skip-worktree a; echo changed > a",
    left: /^a needs the git filter x, /,
    holds: unmoved,
  },
  {
    name: "a file for a filter that the user's own settings name as well",
    script:
      "git config filter.x.clean false; git config --global filter.x.clean cat; echo 'a filter=x' > .gitattributes; echo changed > a",
    holds: changed("a"),
  },
];

describe("an agent leaves", () => {
  test.each(WAYS)("$name", async ({ script, holds, left, help, note }) => {
    const { repository, cwd } = world();
    sh(cwd, script);
    const found: CommitResult = await commitWork(deps, {
      worktree: cwd,
      branch: "reprise/1",
      message: "1: w",
    });
    expect(found.left ?? "").toMatch(left ?? /^$/);
    if (help !== undefined) expect(found.help).toMatch(help);
    expect(found.notes.join("\n")).toMatch(note ?? /^$/);
    if (holds !== undefined) expect(sh(repository, `${holds} || echo no`)).toBe("yes");
    if (left === undefined) expect(sh(cwd, "git symbolic-ref HEAD")).toBe("refs/heads/reprise/1");
    expect(sh(repository, "git log --format=%s main")).toBe("one");
  });
});

describe("what a gate left in the worktree", () => {
  const LOGS = "echo log > gate.txt; echo log > both.txt; echo formatted > a; rm d/b";

  test.each([
    ["it ran to its end", "ended"],
    ["it was killed", "found"],
  ] as const)("is on the branch only where the agent changed it, when %s", async (_, when) => {
    const { repository, cwd } = world();
    const work = { worktree: cwd, branch: "reprise/1", message: "1: w" };
    sh(cwd, "echo one > w");
    await commitWork(deps, work);
    await recordGateFiles(deps, cwd, "begins");
    sh(cwd, LOGS);
    await recordGateFiles(deps, cwd, when);
    sh(cwd, "echo two > w; echo agent > both.txt");
    expect(await commitWork(deps, work)).toEqual({ left: null, notes: [] });
    expect(sh(repository, "git diff --name-only main reprise/1")).toBe("both.txt\nw");
    expect(sh(cwd, "cat a gate.txt; git status --porcelain")).toBe(
      "formatted\nlog\n M a\n D d/b\n?? gate.txt",
    );
    // The next gate leaves nothing more, and what is there is still not the agent's.
    await recordGateFiles(deps, cwd, "begins");
    await recordGateFiles(deps, cwd, "ended");
    sh(cwd, "echo agent > a");
    await commitWork(deps, work);
    expect(sh(repository, "git diff --name-only main reprise/1")).toBe("a\nboth.txt\nw");
  });
});
