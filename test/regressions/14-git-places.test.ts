/** An agent can change where and by which settings git works in its repository. Reprise's own git does not go by that. */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ACTOR } from "../e2e/sandbox.ts";

const BRANCH = "reprise/a-issue-a";

/** A repository with one issue. */
function newBox(): IssueBox {
  const box = new IssueBox();
  writeFileSync(
    join(box.home, ".gitconfig"),
    "[user]\nname = Agent\nemail = agent@localhost\n[protocol.file]\nallow = always\n",
  );
  box.issue("a", "do it");
  return box;
}

/** The agent runs the script in its worktree. */
function play(box: IssueBox, script: string): void {
  box.program(
    "claude",
    `case " $* " in *" -p "*) (exec >/dev/null 2>&1; ${script});; esac
exec ${JSON.stringify(process.execPath)} ${JSON.stringify(ACTOR)} --as claude -- "$@"`,
  );
}

const work = (box: IssueBox, ...more: string[]) =>
  box.run(["issues", "run", "--engine", "claude", "--trust-cwd", ...more]);

/** A filter that leaves a trace. */
function trap(box: IssueBox): { readonly program: string; readonly trace: string } {
  const [program, trace] = [join(box.root, "filter"), join(box.root, "trace")];
  writeFileSync(program, `#!/bin/sh\necho "$PWD" >> '${trace}'\nexec cat\n`);
  chmodSync(program, 0o755);
  return { program, trace };
}

const files = (box: IssueBox, ref = BRANCH) => box.git("ls-tree", "-r", "--name-only", ref).split("\n");

test.each(["gitdir:**/worktrees/**", "onbranch:reprise/**"])(
  "a filter that only an include for %s names does not run when a worktree is filled",
  async (condition) => {
    using box = newBox();
    play(box, "echo x > hello.txt");
    const { program, trace } = trap(box);
    writeFileSync(join(box.cwd, ".gitattributes"), "* filter=evil\n");
    box.commit();
    appendFileSync(join(box.cwd, ".git/config"), `[includeIf "${condition}"]\n\tpath = more\n`);
    box.git("config", "--file", join(box.cwd, ".git/more"), "filter.evil.smudge", program);

    const { stderr } = await box.run(["start", "demo", "hello", "--isolate", "worktree"]);
    await work(box);
    expect(existsSync(trace)).toBe(false);
    if (condition.startsWith("gitdir")) expect(stderr).toContain("the git filter evil");

    // A filter that is required there is refused before an agent begins, and nothing is left of the worktree.
    box.git("config", "--file", join(box.cwd, ".git/more"), "filter.evil.required", "true");
    if (!condition.startsWith("gitdir")) return;
    expect(await box.run(["start", "demo", "hello", "--isolate", "worktree"])).toMatchObject({ code: 2 });
    const trees = box.git("worktree", "list", "--porcelain").match(/^worktree .*runs.*$/gm) ?? [];
    expect(trees.filter((line) => !existsSync(line.slice("worktree ".length)))).toEqual([]);
    expect(existsSync(trace)).toBe(false);
  },
  120_000,
);

test("a folder of a clone that is laid out as a repository is none", async () => {
  using box = newBox();
  const { program, trace } = trap(box);
  const inner = join(box.root, "inner");
  const run = (cwd: string, ...args: string[]) => execFileSync("git", args, { cwd, env: box.env() });
  run(box.root, "init", "-q", inner);
  writeFileSync(join(inner, ".gitattributes"), "* filter=evil\n");
  run(inner, "add", "-A");
  run(inner, "commit", "-qm", "x");
  run(box.cwd, "clone", "-q", "--bare", inner, "vendor");
  const vendor = join(box.cwd, "vendor");
  for (const [key, value] of [
    ["core.bare", "false"],
    ["core.worktree", "."],
    ["filter.evil.smudge", program],
  ] as const)
    run(box.cwd, "config", "--file", join(vendor, "config"), key, value);

  const started = await box.run(["start", "demo", "hello", "--isolate", "worktree", "--cwd", vendor]);
  expect(started).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("A worktree needs a git repository"),
  });
  expect(existsSync(trace)).toBe(false);
}, 60_000);

test.each<[where: string, script: (checkout: string, filter: string) => string]>([
  [
    "of the checkout, at a merge",
    (checkout, filter) =>
      `git config -f '${checkout}/.git/modules/sub/config' filter.evil.clean '${filter}'; touch -d '100 seconds ago' '${checkout}/sub/f'`,
  ],
  [
    "of the worktree, at a commit",
    (_checkout, filter) =>
      `git submodule -q update --init; git -C sub config filter.evil.clean '${filter}'; touch -d '100 seconds ago' sub/f`,
  ],
])(
  "a filter in the settings of a submodule %s does not run",
  async (_where, script) => {
    using box = newBox();
    const { program, trace } = trap(box);
    const origin = join(box.root, "origin");
    const run = (cwd: string, ...args: string[]) =>
      execFileSync("git", args, { cwd, env: box.env(), stdio: "pipe" });
    run(box.root, "init", "-q", origin);
    writeFileSync(join(origin, ".gitattributes"), "* filter=evil\n");
    writeFileSync(join(origin, "f"), "1\n");
    run(origin, "add", "-A");
    run(origin, "commit", "-qm", "x");
    run(box.cwd, "submodule", "--quiet", "add", origin, "sub");
    // Neither of them may bring git to look into it.
    run(box.cwd, "config", "--file", ".gitmodules", "submodule.sub.ignore", "none");
    box.commit();
    play(box, `${script(box.cwd, program)}; echo x > hello.txt`);
    const { code, stdout } = await work(box, "--merge");
    expect(existsSync(trace) ? readFileSync(trace, "utf8") : "").toBe("");
    expect({ code, stdout }).toMatchObject({ code: 0 });
    expect(files(box, "main")).toContain("hello.txt");
  },
  120_000,
);

test.each([
  ["core.worktree", "git config core.worktree OUTSIDE"],
  [
    "core.worktree of the worktree",
    "git config extensions.worktreeConfig true; git config --worktree core.worktree OUTSIDE",
  ],
  ["core.bare", "git config core.bare true"],
])(
  "%s, set by an agent, leads Reprise nowhere else",
  async (_setting, script) => {
    using box = newBox();
    const outside = join(box.root, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "key.txt"), "private\n");
    box.commit();
    play(box, `echo x > hello.txt; ${script.replace("OUTSIDE", outside)}`);
    await work(box, "--merge");
    expect(readdirSync(outside)).toEqual(["key.txt"]);
    expect(existsSync(join(box.cwd, "hello.txt"))).toBe(true);
    expect(files(box)).toContain("hello.txt");
    expect(files(box)).not.toContain("key.txt");
  },
  120_000,
);

test("a link in the place of an agent's worktree is neither committed nor emptied", async () => {
  using box = newBox();
  const outside = join(box.root, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "key.txt"), "private\n");
  box.commit();
  play(box, `D=$(pwd); cd /; mv $D $D.old; cp $D.old/.git '${outside}/.git'; ln -s '${outside}' $D`);
  const { stdout } = await work(box);
  const entry = box.batches().at(-1)?.issues["a"];
  expect(entry).toMatchObject({
    status: "failed",
    error: expect.stringContaining("a symbolic link leads to"),
  });
  expect(stdout).toContain("is not the directory that Reprise made");
  expect(files(box)).not.toContain("key.txt");

  expect(await box.run(["rm", entry?.handle ?? ""])).toMatchObject({ code: 8 });
  await box.run(["rm", entry?.handle ?? "", "--discard-work"]);
  expect(readFileSync(join(outside, "key.txt"), "utf8")).toBe("private\n");
}, 120_000);
