import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { placesHere } from "./here.ts";

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-here-")));
});
afterEach(() => rmSync(root, { recursive: true }));

function repository(): string {
  const main = join(root, "main");
  mkdirSync(join(main, ".git/worktrees/w"), { recursive: true });
  writeFileSync(join(main, ".git/HEAD"), "ref: refs/heads/main\n");
  return main;
}

test("a folder outside any repository is alone", () => {
  expect(placesHere(root)).toEqual([root]);
});

test("a repository has the worktrees that git lists, also those that are gone", () => {
  const main = repository();
  writeFileSync(join(main, ".git/worktrees/w/gitdir"), `${join(root, "gone/.git")}\n`);
  expect(placesHere(join(main, "sub"))).toEqual([join(main, "sub"), join(root, "gone/sub")]);
});

test("lists that are no lists are left out", () => {
  const main = repository();
  mkdirSync(join(main, ".git/worktrees/x"));
  writeFileSync(join(main, ".git/worktrees/x/gitdir"), "\u0000/etc/passwd");
  mkdirSync(join(main, ".git/worktrees/y/gitdir"), { recursive: true });
  expect(placesHere(main)).toEqual([main]);
});
