/** Every way to hide work that P15 tries with `rm` and `prune`, as far as it is about repositories and names. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { gitOf, type Ground, makeRepository, SAVED, type Way, WAYS } from "../../test/hostile/hidden-work.ts";
import { createRunDir, saveRunFile } from "../audit/audit.ts";
import type { RunRecord } from "../core/records.ts";
import { runLike } from "../store/conformance-samples.ts";
import type { Deps } from "./deps.ts";
import { workAtRisk } from "./unsaved.ts";

let root: string;
let deps: Deps;
let repository: string;
let git: Ground["git"];
let runs = 0;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "reprise-unsaved-"));
  deps = await testDeps(root);
  git = gitOf(root);
  repository = makeRepository(root, git);
});
afterAll(() => rmSync(root, { recursive: true }));

/** What is said of a worktree with such work in it. */
async function judge({ hide }: Way): Promise<string | null> {
  runs += 1;
  const like = runLike(runs, { agentName: "demo", status: "completed" });
  const runDirectory = createRunDir(deps.state, like.runId) ?? "";
  const tree = join(runDirectory, "worktree");
  const launch = { ...like.launch, isolate: "worktree" } as const;
  const run: RunRecord = { ...like, runDirectory, cwd: tree, launch, createdAt: new Date().toISOString() };
  saveRunFile(run);
  git(repository, "worktree", "add", "-q", "--detach", tree, "main");
  hide({ repository, tree, git });
  try {
    return await workAtRisk(deps, run);
  } finally {
    // Some of the ways are settings of the repository.
    git(repository, "config", "core.fileMode", "true");
    rmSync(join(repository, ".git/config.worktree"), { force: true });
    git(repository, "worktree", "remove", "--force", "--force", tree);
  }
}

const isHere = ({ name }: Way) =>
  /below an ignored folder|not UTF-8|core\.fileMode|nothing was changed/.test(name);

describe("work that would be lost", () => {
  test.each(WAYS.filter(isHere))("$name", async (way) => {
    expect(await judge(way)).toEqual(expect.any(String));
  });
});

describe("nothing would be lost with", () => {
  test.each(SAVED.filter(isHere))("$name", async (way) => {
    expect(await judge(way)).toBeNull();
  });
});
