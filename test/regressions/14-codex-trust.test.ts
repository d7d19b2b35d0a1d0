/** Codex trusts no folder that the run began without, whatever the run's own options name; and a warning names what helps. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

const untrusted = (folder: string) => `projects={"${folder}"={trust_level="untrusted"}}`;

test("a resume, a fork and a fresh conversation do not trust the folder where the run's own option names another one", async () => {
  using box = new Sandbox();
  const [real, log] = [join(box.bin, "real-codex"), join(box.root, "starts.log")];
  renameSync(join(box.bin, "codex"), real);
  box.program(
    "codex",
    `for word; do case "$word" in projects*) last="$word";; esac; done
    case "$*" in *--version*) ;; *) echo "$last" >> '${log}';; esac; exec '${real}' "$@"`,
  );
  const own = untrusted("/elsewhere");
  const { handle } = await box.json(["start", "codex", "hello", "--", "-s", "read-only", "-c", own]);
  mkdirSync(join(box.home, ".codex"), { recursive: true });
  const trusted = `[projects.${JSON.stringify(box.cwd)}]\ntrust_level = "trusted"\n`;
  appendFileSync(join(box.home, ".codex", "config.toml"), trusted);
  for (const more of [[], ["--fork"], ["--force-fresh"]])
    expect(await box.json(["resume", handle, "go on", ...more])).toMatchObject({ ok: true });
  const [first, ...later] = readFileSync(log, "utf8").trim().split("\n");
  expect(first).toBe(own);
  const held = `projects={"/elsewhere"={trust_level="untrusted"},"${box.cwd}"={trust_level="untrusted"}`;
  expect(later.map((line) => line.startsWith(held))).toEqual([true, true, true]);
}, 60_000);

test("the warning of a worktree names an option that the next start can use, and only that one silences it", async () => {
  using box = new Sandbox();
  const repository = join(box.root, "repository");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.email=a@b", "-c", "user.name=n", ...args], { cwd: repository });
  mkdirSync(repository);
  git("init", "-q", "-b", "main");
  git("commit", "-q", "--allow-empty", "-m", "first");
  const start = async (...more: string[]) => {
    const words = [
      "start",
      "codex",
      "hello",
      "--isolate",
      "worktree",
      "--",
      "-s",
      "workspace-write",
      ...more,
    ];
    const { code, stderr } = await box.run(words, { cwd: repository });
    expect(code).toBe(0);
    return stderr;
  };
  expect(await start()).toContain(`start with -- -c '${untrusted(repository)}' instead`);
  expect(await start("-c", untrusted("/elsewhere"))).toContain("run outside the sandbox");
  expect(await start("-c", untrusted(repository))).not.toContain("run outside the sandbox");
}, 60_000);
