/** `reprise diff` in real git repositories: what `docs/cli.md` promises. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { collect, Sandbox, until } from "./sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

function git(...args: string[]): string {
  const who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "protocol.file.allow=always"];
  return execFileSync("git", [...who, ...args], {
    cwd: box.cwd,
    env: box.env(),
    encoding: "utf8",
    stdio: "pipe",
  });
}

function commit(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) writeFileSync(join(box.cwd, path), text);
  git("add", "-A");
  git("commit", "-qm", "c");
}

async function start(...options: string[]): Promise<string> {
  return (await box.json(["start", "demo", "hello", ...options]))["handle"] as string;
}

async function changed(handle: string, ...options: string[]): Promise<Record<string, string>> {
  const { files } = await box.json(["diff", handle, ...options]);
  return Object.fromEntries(
    files.map(({ path, state, added, deleted }: any) => [path, `${state} ${added} ${deleted}`]),
  );
}

/** A digest of everything in the repository's own directory. */
function repositoryState(): string {
  const hash = createHash("sha256");
  const entries = readdirSync(join(box.cwd, ".git"), { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    hash.update(path).update(readFileSync(path));
  }
  return hash.digest("hex");
}

test("commits, uncommitted and untracked files are shown, and the repository is not touched", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n", "b.txt": "two\n", ".gitignore": "*.log\n" });
  const handle = await start();
  commit({ "a.txt": "one\nmore\n" });
  writeFileSync(join(box.cwd, "new \u001b[31m\nname.txt"), "\u001b]0;owned\u0007x\n");
  writeFileSync(join(box.cwd, "ignored.log"), "x\n");
  execFileSync("rm", [join(box.cwd, "b.txt")]);
  writeFileSync(join(box.cwd, "large.bin"), "");
  truncateSync(join(box.cwd, "large.bin"), 9 * 1024 * 1024);
  symlinkSync("/etc/passwd", join(box.cwd, "link"));
  const before = repositoryState();
  expect(await changed(handle)).toEqual({
    "a.txt": "changed 1 0",
    "b.txt": "deleted 0 1",
    "large.bin": "added null null",
    link: "added 1 0",
    "new \u001b[31m\nname.txt": "added 1 0",
  });
  const shown = await box.run(["diff", handle]);
  expect(shown.stdout).toContain("\n+more\n");
  expect(shown.stdout).toContain("\n+/etc/passwd\n");
  expect(shown.stdout).not.toMatch(/[\u001b\u0007]/);
  expect(shown.stderr).toMatch(/^reprise: compared without content, .*: large\.bin\n$/);
  const stat = await box.run(["diff", handle, "--stat"]);
  expect(stat.stdout).toMatch(/^\+1 +-0 +changed +a\.txt$/m);
  expect(stat.stdout).toMatch(/\n5 files changed\n$/);
  expect(repositoryState()).toBe(before);
  expect(readdirSync(box.state).filter((name) => name.includes("tmp"))).toEqual([]);
});

test("a later attempt is compared with the commit at its own start", async () => {
  git("init", "-q");
  commit({ "a.txt": "1\n" });
  const handle = await start();
  commit({ "b.txt": "1\n" });
  await box.json(["resume", handle, "again"]);
  commit({ "c.txt": "1\n" });
  expect(Object.keys(await changed(handle))).toEqual(["b.txt", "c.txt"]);
  expect(Object.keys(await changed(handle, "--attempt", "2"))).toEqual(["c.txt"]);
  const unknown = await box.run(["diff", handle, "--attempt", "3"]);
  expect([unknown.code, unknown.stderr]).toEqual([3, expect.stringContaining("has no attempt 3")]);
});

test("a worktree run is compared with its base, exactly", async () => {
  git("init", "-q");
  commit({ "a.txt": "1\n" });
  writeFileSync(join(box.cwd, "mine.txt"), "uncommitted\n");
  const made = await box.json(["start", "demo", "hello", "--isolate", "worktree"]);
  writeFileSync(join(made["runDirectory"], "worktree", "b.txt"), "x\n");
  const found = await box.json(["diff", made["handle"]]);
  expect(found).toMatchObject({ exact: true, files: [{ path: "b.txt", state: "added" }] });
  expect(found["patch"]).toContain("\n+x\n");
});

test("a repository without a commit, a sparse one and one with a submodule can be compared", async () => {
  git("init", "-q");
  const unborn = await start();
  commit({ "a.txt": "1\n" });
  expect(await changed(unborn)).toEqual({ "a.txt": "added 1 0" });
  mkdirSync(join(box.cwd, "in"));
  mkdirSync(join(box.cwd, "out"));
  commit({ "in/x": "1\n", "out/y": "1\n" });
  git("sparse-checkout", "set", "in");
  const sparse = await start();
  writeFileSync(join(box.cwd, "in/x"), "2\n");
  expect(await changed(sparse)).toEqual({ "in/x": "changed 1 1" });
  git("sparse-checkout", "disable");
  git("clone", "-q", ".", join(box.root, "other"));
  git("submodule", "--quiet", "add", join(box.root, "other"), "sub");
  git("commit", "-qam", "sub");
  const outer = await start();
  writeFileSync(join(box.cwd, "sub/a.txt"), "changed in the submodule\n");
  expect(await changed(outer)).toEqual({});
  const shown = await box.run(["diff", outer]);
  expect([shown.stdout, shown.stderr]).toEqual([
    "No change found. Not everything was compared: see the notes.\n",
    "reprise: repositories in the folder are compared by commit, not looked into: sub\n",
  ]);
  execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@e", "commit", "-qam", "x"], {
    cwd: join(box.cwd, "sub"),
    env: box.env(),
  });
  expect(await changed(outer)).toEqual({ sub: "changed 1 1" });
});

test("no program that the repository names is run", async () => {
  git("init", "-q");
  commit({ "a.txt": "1\n", ".gitattributes": "* diff=evil filter=evil\n" });
  const handle = await start();
  const evil = box.program("evil", `touch ${join(box.root, "ran")}; cat`);
  for (const key of [
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "core.fsmonitor",
    "diff.external",
  ])
    git("config", key, evil);
  writeFileSync(join(box.cwd, "a.txt"), "2\n");
  expect((await box.run(["diff", handle])).stdout).toContain("\n+2\n");
  expect(readdirSync(box.root)).not.toContain("ran");
});

test("a folder outside git is refused with the reason", async () => {
  const refused = await box.run(["diff", await start()]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("`reprise diff` needs git")]);
});

test("changes from before the start are not the agent's, and a start does not touch the repository", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n", "b.txt": "two\n", "c.txt": "three\n" });
  writeFileSync(join(box.cwd, "a.txt"), "one\nmine\n");
  writeFileSync(join(box.cwd, "mine.txt"), "mine\n");
  writeFileSync(join(box.cwd, "b.txt"), "staged\n");
  git("add", "b.txt");
  execFileSync("rm", [join(box.cwd, "c.txt")]);
  const before = repositoryState();
  writesOnceReady();
  const started = await box.run(["start", "gemini", "hello"]);
  expect(repositoryState()).toBe(before);
  const handle = /^handle {3}(\w+)/m.exec(started.stderr)?.[1] ?? "";
  expect(await changed(handle)).toEqual({ "agent.txt": "added 1 0" });
  writeFileSync(join(box.cwd, "a.txt"), "one\nmine\nlater\n");
  const shown = await box.run(["diff", handle]);
  expect(shown.stdout).toMatch(/^ mine\n\+later$/m);
  expect(shown.stdout).not.toContain("+mine");
  const { runDirectory } = await box.json(["show", handle]);
  expect(await box.json(["rm", handle])).toMatchObject({ ok: true });
  expect(existsSync(runDirectory)).toBe(false);
});

test("the summary names the files that the agent changed", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n" });
  writeFileSync(join(box.cwd, "mine.txt"), "mine\n");
  writesOnceReady();
  const { stderr } = await box.run(["start", "gemini", "hello"]);
  expect(stderr).toMatch(/^changes {2}1 file: agent\.txt {3}\(reprise diff \w{8}\)$/m);
});

/** An agent that writes a file. On a slow machine the snapshot may be under way when it starts, so it waits for its end. */
function writesOnceReady(): void {
  const ready = `ls '${box.state}'/runs/*/attempts/1/start.json >/dev/null 2>&1`;
  box.program(
    "gemini",
    `[ "$1" = --version ] && exec echo 1; until ${ready}; do sleep 0.1; done; echo x >agent.txt`,
  );
}

/** Git that hangs while it lists the files for a snapshot. */
function slowGit(): string {
  const mark = join(box.root, "listing");
  const real = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
  box.program(
    "git",
    `case "$*" in *"ls-files --stage"*) : >'${mark}'; exec sleep 60;; esac; exec '${real}' "$@"`,
  );
  return mark;
}

const INCLUDED = "changes that were uncommitted then are included";

test("a slow git does not keep the agent from working, and diff says that there is no snapshot", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n" });
  writeFileSync(join(box.cwd, "mine.txt"), "mine\n");
  slowGit();
  const handle = await start();
  execFileSync("rm", [join(box.bin, "git")]);
  const { stdout, stderr } = await box.run(["diff", handle, "--stat"]);
  expect(stderr).toContain("no snapshot of the start: the agent ended before Reprise had read the folder");
  expect(stderr).toContain(INCLUDED);
  expect(stdout).toContain("mine.txt");
});

test("a run can be resumed after kill -9 during the snapshot, and diff names the gap", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n" });
  const mark = slowGit();
  const child = box.spawn(["start", "demo", "hello @@hang"]);
  const ended = collect(child);
  await until(
    "the agent hangs",
    () => existsSync(mark) && box.journalEntries().some(({ event }) => event === "hang"),
  );
  child.kill("SIGKILL");
  await ended;
  execFileSync("rm", [join(box.bin, "git")]);
  const handle = box.runDirectories()[0]?.slice(-8) ?? "";
  expect((await box.run(["resume", handle, "go on"])).code).toBe(0);
  writeFileSync(join(box.cwd, "b.txt"), "two\n");
  const first = await box.run(["diff", handle, "--stat"]);
  expect(first.stderr).toMatch(/no snapshot of the start: it was not finished, because Reprise was killed/);
  expect(await changed(handle, "--attempt", "2")).toEqual({ "b.txt": "added 1 0" });
});

test("without git a run works, and diff says that git is missing", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n" });
  const env = { PATH: box.bin };
  const { handle } = await box.json(["start", "demo", "hello"], { env });
  const refused = await box.run(["diff", handle], { env });
  expect([refused.code, refused.stderr]).toEqual([
    expect.any(Number),
    expect.stringContaining("git is not installed"),
  ]);
  expect((await box.run(["diff", handle])).stderr).toContain(INCLUDED);
});

test.each(["SIGINT", "SIGTERM"] as const)(
  "%s ends a diff, its git and its temporary files",
  async (signal) => {
    git("init", "-q");
    commit({ "a.txt": "one\n" });
    const handle = await start();
    const mark = slowGit();
    const child = box.spawn(["diff", handle]);
    const ended = collect(child);
    await until("git hangs", () => existsSync(mark));
    expect(readdirSync(box.state).filter((name) => name.includes("tmp"))).toHaveLength(1);
    child.kill(signal);
    await ended;
    expect(child.signalCode).toBe(signal);
    expect(readdirSync(box.state).filter((name) => name.includes("tmp"))).toEqual([]);
  },
);

test("hidden changes are shown, and nothing is claimed of a folder that changed beyond recognition", async () => {
  git("init", "-q");
  commit({ "a.txt": "one\n" });
  const handle = await start();
  expect((await box.run(["diff", handle])).stdout).toBe("No file changed.\n");
  git("update-index", "--assume-unchanged", "a.txt");
  writeFileSync(join(box.cwd, "a.txt"), "two\n");
  expect(await changed(handle)).toEqual({ "a.txt": "changed 1 1" });
  execFileSync("rm", ["-r", join(box.cwd, ".git/index")]);
  mkdirSync(join(box.cwd, ".git/index"));
  const refused = await box.run(["diff", handle]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("index is not a file")]);
});
