/** Files that a run's options name decide on its rights: a later attempt does not go by others (I12). */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

test("an agent that changes the policy file of its run's option gets no rights by it on a resume", async () => {
  using box = new Sandbox();
  const git = (...args: readonly string[]) => execFileSync("git", args, { cwd: box.cwd, env: box.env() });
  writeFileSync(join(box.cwd, "pol.toml"), "deny");
  git("init", "-q");
  git("add", ".");
  git("-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "policy");
  const words = ["start", "gemini", "hello", "--isolate", "worktree", "--", "--policy", "pol.toml"];
  const { handle, runDirectory } = await box.json(words);

  writeFileSync(join(runDirectory, "worktree", "pol.toml"), "allow");
  for (const more of [[], ["--force-fresh"]])
    expect(await box.json(["resume", handle, "go on", ...more])).toMatchObject({
      ok: false,
      error: { code: "would_widen", message: expect.stringMatching(/pol\.toml .*--policy.*--allow-files/) },
    });
  expect(await box.json(["resume", handle, "go on", "--allow-files"])).toMatchObject({ ok: true });
  writeFileSync(join(runDirectory, "worktree", "pol.toml"), "deny");
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
}, 60_000);

test.each([
  ["codex", ["-s", "workspace-write", "-C", "sub"]],
  ["opencode", ["--dir", "sub"]],
])(
  "a link in the place of the folder that %s works in is not followed",
  async (engine, native) => {
    using box = new Sandbox();
    const [sub, outside] = [join(box.cwd, "sub"), join(box.root, "outside")];
    for (const folder of [sub, outside]) mkdirSync(folder);
    const { handle } = await box.json(["start", engine, "hello", "--trust-cwd", "--", ...native]);
    rmdirSync(sub);
    symlinkSync(outside, sub);
    for (const more of [[], ["--force-fresh"], ["--fork"]])
      expect(await box.json(["resume", handle, "go on", ...more])).toMatchObject({
        ok: false,
        error: { code: "would_widen", message: expect.stringContaining(`now leads to ${outside}`) },
      });
  },
  60_000,
);

test("a link to the folder itself in a folder with rules neither hangs a start nor hides a change", async () => {
  using box = new Sandbox();
  const plugin = join(box.cwd, "plugin");
  mkdirSync(plugin);
  symlinkSync(".", join(plugin, "self"));
  writeFileSync(join(plugin, "hooks.json"), "{}");
  const { handle } = await box.json(["start", "claude", "hello", "--", "--plugin-dir", "plugin"]);
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
  writeFileSync(join(plugin, "hooks.json"), "{ }");
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ error: { code: "would_widen" } });
}, 60_000);
