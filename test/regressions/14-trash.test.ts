/** A removed run with a worktree stays in the trash, with everything that git keeps for the worktree, and comes back whole. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox, until } from "../e2e/sandbox.ts";
import { gitOf, makeRepository } from "../hostile/hidden-work.ts";

async function ground() {
  const box = new Sandbox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const run = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  const [handle, runId]: [string, string] = [run["handle"], run["runId"]];
  const tree = join(run["runDirectory"], "worktree");
  git(tree, "checkout", "-q", "-b", "own");
  git(tree, "commit", "-q", "--allow-empty", "-m", "work");
  const kept = join(box.state, "trash", runId);
  return { box, git, repository, handle, tree, kept, [Symbol.dispose]: () => box[Symbol.dispose]() };
}

test("rm keeps a worktree and objects that only it leads to, git gc spares them, and rm --restore brings all of it back", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  // A note that no check of commits finds.
  writeFileSync(join(box.root, "note"), "a note of the agent\n");
  const blob = git(tree, "hash-object", "-w", join(box.root, "note")).trim();
  git(tree, "update-ref", "refs/worktree/note", blob);
  const removed = await box.run(["rm", handle]);
  expect(removed.stdout).toBe(
    `Removed run ${handle}.\nIt is kept for 30 days in ${kept}; to bring it back: reprise rm --restore ${handle}\n`,
  );
  expect(existsSync(tree)).toBe(false);
  expect((await box.json(["list"]))["runs"]).toEqual([]);
  expect((await box.json(["doctor"]))["state"]["trash"]).toMatchObject({ runs: 1, partial: false });
  // The branch is free for the user, and git forgets nothing.
  git(repository, "checkout", "-q", "own");
  git(repository, "checkout", "-q", "main");
  git(repository, "worktree", "prune");
  git(repository, "reflog", "expire", "--all", "--expire=now");
  git(repository, "gc", "-q", "--prune=now");
  expect(await box.run(["rm", "--restore", handle])).toMatchObject({ code: 0 });
  expect(git(tree, "cat-file", "blob", "refs/worktree/note")).toBe("a note of the agent\n");
  expect(git(tree, "status", "--porcelain", "--branch").trim()).toBe("## own");
  expect(git(repository, "for-each-ref", "refs/reprise")).toBe("");
  expect(git(repository, "worktree", "list", "--porcelain")).not.toContain("locked");
  expect(existsSync(kept)).toBe(false);
  expect(await box.run(["resume", handle, "again"])).toMatchObject({ code: 0 });
}, 120_000);

test("prune empties the trash only after its time, and nothing of the worktree is left in the repository", async () => {
  using all = await ground();
  const { box, git, repository, handle, kept } = all;
  const pruned = await box.run(["prune", "--older-than", "1ms"]);
  expect(pruned.stdout).toContain(`to bring one back: reprise rm --restore ${handle}`);
  expect(existsSync(kept)).toBe(true);
  const dry = await box.run(["prune", "--older-than", "30d", "--trash-older-than", "1ms", "--dry-run"]);
  expect(dry.stdout).toContain(`Would remove 1 run from the trash: ${handle}.`);
  expect(existsSync(kept)).toBe(true);
  const emptied = await box.json(["prune", "--older-than", "30d", "--trash-older-than", "1ms"]);
  expect(emptied["emptied"]).toMatchObject([{ handle }]);
  expect(existsSync(kept)).toBe(false);
  expect(git(repository, "worktree", "list").trim().split("\n")).toHaveLength(1);
});

test("rm --discard-work keeps nothing", async () => {
  using all = await ground();
  const { box, git, repository, handle, kept } = all;
  expect(await box.run(["rm", handle, "--discard-work"])).toMatchObject({ code: 0 });
  expect(existsSync(kept)).toBe(false);
  expect(git(repository, "worktree", "list").trim().split("\n")).toHaveLength(1);
});

test("rm --restore refuses while the branch or the place is in use, and names what to type", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  await box.run(["rm", handle]);
  git(repository, "checkout", "-q", "own");
  const taken = await box.run(["rm", "--restore", handle]);
  expect(taken.code).toBe(8);
  expect(taken.stderr).toContain(`its branch own is checked out in ${repository}. Free it first: git -C `);
  git(repository, "switch", "-q", "--detach");
  mkdirSync(join(tree, ".."));
  const placed = await box.run(["rm", "--restore", handle]);
  expect(placed.code).toBe(8);
  expect(placed.stderr).toContain("is in the way");
  expect(existsSync(join(kept, "worktree"))).toBe(true);
  expect((await box.run(["rm", "--restore", "0000aaaa"])).stderr).toContain(`In the trash: ${handle}.`);
});

test("a worktree whose branch has moved on comes back at its own commit, on no branch", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree } = all;
  await box.run(["rm", handle]);
  git(repository, "branch", "-q", "-f", "own", "main");
  const back = await box.run(["rm", "--restore", handle]);
  expect(back).toMatchObject({ code: 0 });
  expect(back.stderr).toContain("own is gone or has moved on");
  expect(git(tree, "log", "-1", "--format=%s").trim()).toBe("work");
  expect(git(tree, "status", "--porcelain").trim()).toBe("");
});

test("the next rm finishes a removal that was killed after its rename", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  const gitDir = git(tree, "rev-parse", "--absolute-git-dir").trim();
  mkdirSync(join(box.state, "trash"), { mode: 0o700 });
  writeFileSync(
    join(tree, "..", "trash.json"),
    JSON.stringify({ v: 1, trashedAt: new Date().toISOString(), branch: "refs/heads/own", gitDir }),
    { mode: 0o600 },
  );
  renameSync(join(tree, ".."), kept);
  const again = await box.run(["rm", handle]);
  expect(again).toMatchObject({ code: 0 });
  expect(again.stdout).toContain(`reprise rm --restore ${handle}`);
  expect(readFileSync(join(gitDir, "gitdir"), "utf8")).toBe(`${join(kept, "worktree", ".git")}\n`);
  git(repository, "checkout", "-q", "own");
});

type Ground = Awaited<ReturnType<typeof ground>>;

/** What was elsewhere at the removal, and is only in the trash when the trash is emptied. */
const ONLY_THERE: Readonly<Record<string, (all: Ground) => string>> = {
  "commits whose branch was deleted": ({ git, repository }) => {
    git(repository, "branch", "-q", "-D", "own");
    return "are on no branch";
  },
  "the copy of a conversation that the engine deleted": ({ box }) => {
    rmSync(join(box.state, "demo/sessions"), { recursive: true });
    return "no longer has session";
  },
  "a file that somebody wrote into the worktree": ({ kept }) => {
    writeFileSync(join(kept, "worktree/precious.txt"), "precious\n");
    return "precious.txt";
  },
  "a private ref to a blob": ({ box, git, kept }) => {
    writeFileSync(join(box.root, "note"), "a note of the agent\n");
    const blob = git(join(kept, "worktree"), "hash-object", "-w", join(box.root, "note")).trim();
    git(join(kept, "worktree"), "update-ref", "refs/worktree/note", blob);
    return `leads to the git objects ${blob}`;
  },
  "a worktree whose repository is gone": ({ repository }) => {
    rmSync(repository, { recursive: true });
    return `its repository is no longer at ${repository}`;
  },
};

test.each(Object.entries(ONLY_THERE))(
  "prune keeps %s, until the user gives it up",
  async (_name, lose) => {
    using all = await ground();
    const { box, git, repository, handle, kept } = all;
    await box.run(["rm", handle]);
    const why = lose(all);
    const files = readdirSync(kept, { recursive: true }).length;
    const words = ["prune", "--older-than", "30d", "--trash-older-than", "1ms"];
    for (const given of [[...words, "--dry-run"], words]) {
      const emptied = await box.json(given);
      expect(emptied).toMatchObject({ ok: true, emptied: [], trashFailed: [] });
      expect(emptied["trashKept"]).toEqual([
        { handle, code: "work_unsaved", reason: expect.stringContaining(why) },
      ]);
    }
    const told = await box.run(words);
    expect(told).toMatchObject({ code: 0, stdout: expect.not.stringContaining("from the trash:") });
    expect(told.stdout.replaceAll(/\s+/g, " ")).toContain(
      `To bring it back: reprise rm --restore ${handle}; to throw it away: reprise rm ${handle} --discard-work`,
    );
    expect(readdirSync(kept, { recursive: true })).toHaveLength(files);
    const given = await box.run(["rm", handle, "--discard-work"]);
    expect(given).toMatchObject({ code: 0, stdout: `Removed run ${handle} from the trash.\n` });
    expect(existsSync(kept)).toBe(false);
    if (!existsSync(repository)) return;
    expect(git(repository, "worktree", "list").trim().split("\n")).toHaveLength(1);
    expect(git(repository, "for-each-ref", "refs/reprise")).toBe("");
  },
  60_000,
);

test("a private ref that was there at the removal keeps its blob when the trash is emptied, and prune --discard-work gives it up", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  writeFileSync(join(box.root, "note"), "a note of the agent\n");
  const blob = git(tree, "hash-object", "-w", join(box.root, "note")).trim();
  git(tree, "update-ref", "refs/worktree/note", blob);
  await box.run(["rm", handle]);
  const words = ["prune", "--older-than", "30d", "--trash-older-than", "1ms"];
  expect((await box.json(words))["trashKept"]).toMatchObject([{ handle, code: "work_unsaved" }]);
  expect(git(repository, "cat-file", "blob", blob)).toBe("a note of the agent\n");
  expect((await box.json([...words, "--discard-work"]))["emptied"]).toMatchObject([{ handle }]);
  expect(existsSync(kept)).toBe(false);
});

test("rm --restore, rm and prune move no directory in which another run works", async () => {
  using all = await ground();
  const { box, handle, tree, kept } = all;
  await box.run(["rm", handle]);
  const there = join(kept, "worktree");
  const task = ["go on @@hang", "--cwd", there];
  const agent = box.spawn(["start", "demo", ...task]);
  await until("it works", () => box.journalEntries().some(({ event }) => event === "hang"));
  const { runs } = await box.json(["list"]);
  const [live] = (runs as { handle: string }[]).map((run) => run.handle);
  const refused = await box.run(["rm", "--restore", handle]);
  expect(refused).toMatchObject({
    code: 4,
    stderr: expect.stringContaining(
      `Run ${handle} was not restored: run ${live} works in ${there}. End it first: reprise stop ${live}`,
    ),
  });
  const pruned = await box.json(["prune", "--older-than", "30d", "--trash-older-than", "1ms"]);
  expect(pruned["trashKept"]).toMatchObject([{ handle, code: "run_busy" }]);
  const discarded = await box.run(["rm", handle, "--discard-work"]);
  expect(discarded).toMatchObject({ code: 4, stderr: expect.stringContaining(`reprise stop ${live}`) });
  expect(existsSync(there)).toBe(true);
  const ended = new Promise((done) => agent.once("exit", done));
  expect(await box.run(["stop", live ?? ""])).toMatchObject({ code: 0 });
  await ended;
  // Its conversation can continue only there.
  const resumable = await box.run(["rm", "--restore", handle]);
  expect(resumable).toMatchObject({ code: 8, stderr: expect.stringContaining(`reprise rm ${live}`) });
  expect(await box.run(["resume", live ?? "", "again"])).toMatchObject({ code: 0 });
  await box.run(["rm", live ?? ""]);
  expect(await box.run(["rm", "--restore", handle])).toMatchObject({ code: 0 });
  expect(existsSync(tree)).toBe(true);
}, 60_000);

test("rm --restore says that the repository has moved, and works after the command that it names", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  await box.run(["rm", handle]);
  const moved = `${repository}-moved`;
  renameSync(repository, moved);
  const refused = await box.run(["rm", "--restore", handle]);
  expect(refused.code).toBe(8);
  expect(refused.stderr).toContain(`its repository is no longer at ${repository}`);
  const [, command = ""] = /type there: `git ([^`]+)`/.exec(refused.stderr) ?? [];
  expect(command).toBe(`worktree repair ${join(kept, "worktree")}`);
  git(moved, ...command.split(" "));
  expect(await box.run(["rm", "--restore", handle])).toMatchObject({ code: 0 });
  expect(git(tree, "status", "--porcelain", "--branch").trim()).toBe("## own");
});

test("rm --discard-work leaves nothing of a removal that was killed after its rename", async () => {
  using all = await ground();
  const { box, git, repository, handle, tree, kept } = all;
  const gitDir = git(tree, "rev-parse", "--absolute-git-dir").trim();
  mkdirSync(join(box.state, "trash"), { mode: 0o700 });
  const note = { v: 1, trashedAt: new Date().toISOString(), branch: "refs/heads/own", gitDir };
  writeFileSync(join(tree, "..", "trash.json"), JSON.stringify(note), { mode: 0o600 });
  renameSync(join(tree, ".."), kept);
  expect(await box.run(["rm", handle, "--discard-work"])).toMatchObject({ code: 0 });
  expect(existsSync(kept)).toBe(false);
  expect(git(repository, "worktree", "list").trim().split("\n")).toHaveLength(1);
});
