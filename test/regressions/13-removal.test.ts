/** `rm` and `prune` leave what another run needs, and what cannot be read, and say so. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox } from "../e2e/holder-box.ts";
import { gitOf } from "../hostile/hidden-work.ts";

let box: HolderBox;
let repository: string;
let git: ReturnType<typeof gitOf>;
beforeAll(() => {
  box = new HolderBox();
  git = gitOf(box.home);
  repository = join(box.root, "repository");
  mkdirSync(join(repository, "api"), { recursive: true });
  writeFileSync(join(repository, "api/a.txt"), "one\n");
  writeFileSync(join(repository, ".gitignore"), "build/\n");
  git(repository, "init", "-q", "-b", "main");
  git(repository, "add", "-A");
  git(repository, "commit", "-q", "-m", "first");
});
afterAll(() => box[Symbol.dispose]());

/** A run in a worktree of its own, which has ended. */
async function isolated(kind = "worktree"): Promise<{ readonly handle: string; readonly place: string }> {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello", "--isolate", kind], {
    cwd: repository,
  });
  return { handle, place: join(runDirectory, kind === "dir" ? "work" : kind) };
}

describe("the directory of a run that another run needs", () => {
  test("stays while that run is live, also with --discard-work", async () => {
    const { handle, place } = await isolated();
    const other = await box.detach("demo", "work @@hang", "--cwd", join(place, "api"));
    for (const words of [[], ["--discard-work"]]) {
      const refused = await box.json(["rm", handle, ...words]);
      expect(refused).toMatchObject({ error: { code: "run_busy" } });
      expect(refused["error"].message).toContain(`reprise stop ${other}`);
      const pruned = await box.json(["prune", "--older-than", "1ms", "--status", "completed", ...words]);
      expect(JSON.stringify(pruned["skipped"])).toContain(`run ${other}`);
    }
    expect(existsSync(join(place, "api/a.txt"))).toBe(true);
    await box.run(["stop", other]);
    // It can be resumed there.
    const refused = await box.json(["rm", handle]);
    expect(refused).toMatchObject({ error: { code: "work_unsaved" } });
    expect(refused["error"].message).toContain(`run ${other} works in ${join(place, "api")}`);
    expect(await box.run(["rm", other])).toMatchObject({ code: 0 });
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  });

  test("stays while its repository is that of another run's worktree", async () => {
    const { handle, place } = await isolated("dir");
    const inner = join(place, "lib");
    mkdirSync(inner);
    git(inner, "init", "-q");
    git(inner, "commit", "-q", "--allow-empty", "-m", "inner");
    const other = await box.detach("demo", "work @@hang", "--isolate", "worktree", "--cwd", inner);
    const refused = await box.json(["rm", handle, "--discard-work"]);
    expect(refused).toMatchObject({ error: { code: "run_busy" } });
    expect(refused["error"].message).toContain(`reprise stop ${other}`);
    await box.run(["stop", other]);
    expect(existsSync(join(inner, ".git/HEAD"))).toBe(true);
    expect(await box.run(["rm", handle, "--discard-work"])).toMatchObject({ code: 0 });
  });
});
