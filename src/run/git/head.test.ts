import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkedOutAt } from "./head.ts";

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-head-")));
});
afterEach(() => rmSync(root, { recursive: true }));

const A = "a".repeat(40);
const B = "b".repeat(64);

const cases: Record<string, [files: Record<string, string>, then: string | null | undefined]> = {
  "a detached HEAD names its commit": [{ ".git/HEAD": `${A}\n` }, A],
  "a branch is read from its file": [
    { ".git/HEAD": "ref: refs/heads/x/y\n", ".git/refs/heads/x/y": `${B}\n` },
    B,
  ],
  "a packed branch is read from packed-refs": [
    {
      ".git/HEAD": "ref: refs/heads/x\n",
      ".git/packed-refs": `# pack-refs\n${B} refs/heads/xx\n${A} refs/heads/x\n`,
    },
    A,
  ],
  "a branch without a commit has none": [{ ".git/HEAD": "ref: refs/heads/x\n" }, null],
  "a worktree uses the branches of its repository": [
    {
      ".git": "gitdir: repo/worktrees/w\n",
      "repo/worktrees/w/HEAD": "ref: refs/heads/x\n",
      "repo/worktrees/w/commondir": "../..\n",
      "repo/refs/heads/x": `${A}\n`,
    },
    A,
  ],
  "a branch that leads to another one is left to git": [
    { ".git/HEAD": "ref: refs/heads/x\n", ".git/refs/heads/x": "ref: refs/heads/y\n" },
    undefined,
  ],
  "a reftable is left to git": [{ ".git/HEAD": "ref: refs/heads/.invalid\n" }, undefined],
  "a name that leaves the repository is not read": [
    { ".git/HEAD": "ref: refs/../../secret\n", secret: `${A}\n` },
    undefined,
  ],
  "an empty .git is no repository": [{ ".git/x": "" }, undefined],
};

test.each(Object.entries(cases))("%s", (_name, [files, then]) => {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const below = join(root, "deep/er");
  mkdirSync(below, { recursive: true });
  expect(checkedOutAt(below)).toEqual(then === undefined ? null : { top: root, commit: then });
});
