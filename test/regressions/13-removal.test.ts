/** `rm` and `prune` leave what another run needs, and what cannot be read, and say so. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox } from "../e2e/holder-box.ts";
import { plainly } from "../e2e/namespaces.ts";
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

/** A run in a separate worktree, which has ended. */
async function isolated(kind = "worktree"): Promise<{ readonly handle: string; readonly place: string }> {
  const { handle, runDirectory } = await box.json(["start", "demo", "hello", "--isolate", kind], {
    cwd: repository,
  });
  return { handle, place: join(runDirectory, kind === "dir" ? "work" : kind) };
}

describe("the directory of a run that another run needs", () => {
  test("stays while that run is live, even with --discard-work", async () => {
    const { handle, place } = await isolated();
    const other = await box.detach("demo", "work @@hang", "--cwd", join(place, "api"));
    for (const words of [[], ["--discard-work"]]) {
      const refused = await box.json(["rm", handle, ...words]);
      expect(refused).toMatchObject({ error: { code: "run_busy" } });
      expect(refused["error"].message).toContain(`reprise stop ${other}`);
    }
    const pruned = await box.json([
      "prune",
      "--older-than",
      "1ms",
      "--status",
      "completed",
      "--discard-work",
    ]);
    expect(JSON.stringify(pruned["skipped"])).toContain(`run ${other}`);
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

describe("an unreadable folder", () => {
  /** A directory that not even its owner may look into. */
  function close(place: string): string {
    const data = join(place, "build/data");
    mkdirSync(data, { recursive: true });
    writeFileSync(join(data, "precious"), "work\n");
    chmodSync(data, 0o000);
    return data;
  }

  test("counts as work, and prune names the removed runs", async () => {
    const { handle, place } = await isolated();
    const other = await box.json(["start", "demo", "hello"]);
    const data = close(place);
    const refused = await plainly(box, "rm", handle);
    expect(refused).toMatchObject({
      code: 8,
      stderr: expect.stringContaining(`${data} cannot be read (EACCES)`),
    });
    const pruned = await plainly(box, "prune", "--older-than", "1ms");
    expect(pruned.stdout).toContain(`Removed ${other["handle"]}`);
    expect(pruned.stdout).toContain(`Kept ${handle}`);
    expect(pruned.code).toBe(0);
    chmodSync(data, 0o700);
    expect(await plainly(box, "rm", handle)).toMatchObject({ code: 0 });
  });

  test("is left with --discard-work, and named with the remedy: once, and then by doctor", async () => {
    const { handle, place } = await isolated();
    close(place);
    const failed = await plainly(box, "rm", handle, "--discard-work");
    const left = /rm -rf '?([^'\s]+)/.exec(failed.stderr)?.[1] ?? "";
    expect(failed).toMatchObject({ code: 7, stderr: expect.stringContaining("EACCES") });
    expect(existsSync(left)).toBe(true);
    const again = await plainly(box, "rm", handle);
    expect(again).toMatchObject({ code: 0, stderr: "" });
    const found = await plainly(box, "doctor");
    expect(found.code).toBe(1);
    expect(found.stdout).toContain(`rm -rf ${left}`);
    chmodSync(join(left, "worktree/build/data"), 0o700);
    expect((await plainly(box, "doctor")).stdout).not.toContain(left);
    expect(existsSync(left)).toBe(false);
  });

  test("or a path that is too long counts as work", async () => {
    const { handle, place } = await isolated();
    const deep = `mkdir build; cd build; for n in $(seq 60); do mkdir ${"d".repeat(100)}; cd ${"d".repeat(100)}; done; echo work >file`;
    expect(spawnSync("sh", ["-c", deep], { cwd: place }).status).toBe(0);
    const refused = await box.run(["rm", handle]);
    expect(refused).toMatchObject({ code: 8, stderr: expect.stringContaining("(ENAMETOOLONG)") });
    expect(refused.stderr.length).toBeLessThan(1_000);
    expect(spawnSync("rm", ["-rf", join(place, "build")]).status).toBe(0);
    expect(await box.run(["rm", handle])).toMatchObject({ code: 0 });
  });
});
