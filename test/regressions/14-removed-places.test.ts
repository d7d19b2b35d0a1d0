/** What a run, or the engine, needs lies in the directory that `rm` would remove, under another name. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { NAMESPACE } from "../crash/full-disk.ts";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";
import { gitOf, makeRepository } from "../hostile/hidden-work.ts";

async function isolated(box: Sandbox) {
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const started = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  return { ...started, tree: join(started["runDirectory"], "worktree") } as Record<string, any>;
}

const canMount = spawnSync("unshare", [...NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;

test.skipIf(!canMount).each([
  ["a live run", "--detach", "hold @@wait:20000", "", 4],
  ["an ended run", "", "hello", "", 8],
  ["a live run in a part of it", "--detach", "hold @@wait:20000", "/src", 4],
])(
  "rm keeps the directory that %s names through a bind mount",
  async (_name, option, message, part, exit) => {
    using box = new Sandbox();
    const { handle, tree } = await isolated(box);
    const [bound, script] = [
      join(box.root, "bound"),
      `set -e; mount --bind "$TREE$PART" "$BOUND"; cd "$BOUND"
     "$NODE" "$CLI" start demo "$MESSAGE" $OPTION --json; sleep 1
     set +e; "$NODE" "$CLI" rm "$HANDLE"; echo "exit $?"; cd /
     for one in $("$NODE" "$CLI" list --handles); do "$NODE" "$CLI" stop "$one"; done`,
    ];
    mkdirSync(bound);
    const env = {
      ...{ TREE: tree, PART: part, BOUND: bound, HANDLE: handle, MESSAGE: message, OPTION: option },
      ...{ NODE: process.execPath, CLI },
    };
    const shell = spawn("unshare", [...NAMESPACE, "sh", "-c", script], { cwd: box.cwd, env: box.env(env) });
    const { stdout, stderr } = await collect(shell);
    expect({ stdout, stderr }).toEqual({
      stdout: expect.stringContaining(`exit ${exit}`),
      stderr: expect.stringMatching(/was not removed: run \w+ works in/),
    });
    expect(existsSync(join(tree, "src/file.txt"))).toBe(true);
  },
);

test("rm keeps a run when the engine's home is a link into its worktree", async () => {
  using box = new Sandbox();
  const { handle, tree, runDirectory } = await isolated(box);
  const home = join(box.state, "demo");
  mkdirSync(join(tree, "build"));
  renameSync(home, join(tree, "build/home"));
  symlinkSync(join(tree, "build/home"), home);
  const { code, stderr } = await box.run(["rm", handle]);
  expect({ code, stderr }).toEqual({ code: 8, stderr: expect.stringContaining("would be removed with it") });
  expect(readdirSync(join(home, "sessions"))).toHaveLength(1);
  expect(readFileSync(join(runDirectory, "run.json"), "utf8")).toContain(handle);
});
