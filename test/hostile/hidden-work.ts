/**
 * Ways to hide work in a worktree from git, so that a removal could destroy it, and states in which nothing would be
 * lost. Each works on a real repository with a submodule; the names describe the hidden work and the way.
 */
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";

export interface Ground {
  /** The user's repository. */
  readonly repository: string;
  /** The worktree of the run. */
  readonly tree: string;
  readonly git: (cwd: string, ...args: string[]) => string;
}

export interface Way {
  readonly name: string;
  /** Nothing leads to the work, not even the worktree: emptying the trash changes nothing for it. */
  readonly loose?: true;
  readonly hide: (ground: Ground) => void;
}

const FILE = "src/file.txt";
/** The committed file whose name is not UTF-8. */
const bytesAt = (tree: string, byte = 0xff) =>
  Buffer.concat([Buffer.from(`${tree}/docs/byte-`), Buffer.from([byte])]);
const gitDirOf = ({ git, tree }: Ground) => git(tree, "rev-parse", "--absolute-git-dir").trim();
export const change = ({ tree }: Ground, path = FILE) =>
  writeFileSync(join(tree, path), "work of the agent\n");
const commit = ({ git, tree }: Ground, ...options: string[]) =>
  git(tree, ...options, "commit", "-q", "--allow-empty", "-m", "work of the agent");
/** A ref of the worktree as the other worktrees name it. */
const named = (ground: Ground, ref: string) =>
  ref.replace("worktrees/worktree/", `worktrees/${basename(gitDirOf(ground))}/`);
const leave = ({ git, tree }: Ground, ...options: string[]) =>
  git(tree, ...options, "checkout", "-q", "--detach", "main");
const submodule = ({ git, tree }: Ground) => {
  git(tree, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init");
  return join(tree, "module");
};

function set(ground: Ground, key: string, value: string): void {
  ground.git(ground.repository, "config", key, value);
}

function hiddenBy(key: string, value: string, path = FILE): Way {
  return {
    name: `${path === FILE ? "a changed file" : "a new file"} behind ${key}=${value}`,
    hide(ground) {
      set(ground, key, value);
      change(ground, path);
    },
  };
}

function inSubmodule(name: string, hide: (module: string, ground: Ground) => void): Way {
  return { name, hide: (ground) => hide(submodule(ground), ground) };
}

/** A program in the repository's configuration that says what suits the work. */
function liar({ repository }: Ground, script: string): string {
  const file = join(repository, ".git", "liar.sh");
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
}

function ignoring({ tree }: Ground, folder: string, rules: string): void {
  mkdirSync(join(tree, folder), { recursive: true });
  writeFileSync(join(tree, folder, ".gitignore"), `${rules}\n`);
}

const FILES: readonly Way[] = [
  { name: "a changed file", hide: (ground) => change(ground) },
  { name: "a new file", hide: (ground) => change(ground, "new.txt") },
  {
    name: "a new file in a new folder",
    hide: (ground) => (
      mkdirSync(join(ground.tree, "a/b"), { recursive: true }),
      change(ground, "a/b/new.txt")
    ),
  },
  { name: "a deleted file", hide: ({ tree }) => rmSync(join(tree, FILE)) },
  {
    name: "an executable bit behind core.fileMode=false",
    hide: (ground) => (set(ground, "core.fileMode", "false"), chmodSync(join(ground.tree, FILE), 0o755)),
  },
  {
    name: "an executable bit behind core.fileMode=false of the worktree alone",
    hide: (ground) => (
      set(ground, "extensions.worktreeConfig", "true"),
      ground.git(ground.tree, "config", "--worktree", "core.fileMode", "false"),
      chmodSync(join(ground.tree, FILE), 0o755)
    ),
  },
  {
    name: "a changed file whose name is not UTF-8",
    hide: ({ tree }) => writeFileSync(bytesAt(tree), "work of the agent\n"),
  },
  {
    name: "a deleted file whose name is not UTF-8, and another one in its place",
    hide: ({ tree }) => renameSync(bytesAt(tree), bytesAt(tree, 0xfe)),
  },
  { name: "an executable bit", hide: ({ tree }) => chmodSync(join(tree, FILE), 0o755) },
  {
    name: "a file that became a link",
    hide: ({ tree }) => (rmSync(join(tree, FILE)), symlinkSync("/dev/null", join(tree, FILE))),
  },
  {
    name: "another target of a link",
    hide: ({ tree }) => (rmSync(join(tree, "link")), symlinkSync("elsewhere", join(tree, "link"))),
  },
  {
    name: "something staged and taken back on the disk",
    hide(ground) {
      change(ground);
      ground.git(ground.tree, "add", "-A");
      writeFileSync(join(ground.tree, FILE), "committed\n");
    },
  },
  ...["--skip-worktree", "--assume-unchanged"].map((flag) => ({
    name: `a changed file under ${flag}`,
    hide(ground: Ground) {
      ground.git(ground.tree, "update-index", flag, FILE);
      change(ground);
    },
  })),
  hiddenBy("status.showUntrackedFiles", "no", "new.txt"),
  hiddenBy("core.fileMode", "false"),
  hiddenBy("core.checkStat", "minimal"),
  hiddenBy("diff.ignoreSubmodules", "all", "new.txt"),
  hiddenBy("core.ignoreStat", "true"),
  hiddenBy("core.sparseCheckout", "true"),
  {
    name: "CRLF behind core.autocrlf=input",
    hide: (ground) => (
      set(ground, "core.autocrlf", "input"),
      writeFileSync(join(ground.tree, FILE), "committed\r\n")
    ),
  },
  {
    name: "a new file behind info/exclude",
    hide: (ground) => (
      appendFileSync(join(ground.repository, ".git/info/exclude"), "new.txt\n"),
      change(ground, "new.txt")
    ),
  },
  {
    name: "a new file behind core.excludesFile",
    hide: (ground) => (
      writeFileSync(join(ground.repository, ".git/hidden"), "new.txt\n"),
      set(ground, "core.excludesFile", join(ground.repository, ".git/hidden")),
      change(ground, "new.txt")
    ),
  },
  {
    name: "a new folder behind core.ignoreCase=true and a rule in small letters",
    hide: (ground) => (
      set(ground, "core.ignoreCase", "true"),
      mkdirSync(join(ground.tree, "BUILD")),
      change(ground, "BUILD/new.txt")
    ),
  },
  {
    name: "a file in what git keeps for the worktree",
    hide: (ground) => (
      mkdirSync(join(gitDirOf(ground), "patches")),
      writeFileSync(join(gitDirOf(ground), "patches/1.patch"), "work of the agent\n")
    ),
  },
  {
    name: "a file beside the worktree",
    hide: ({ tree }) => writeFileSync(join(tree, "../report.md"), "work of the agent\n"),
  },
  {
    name: "a worktree beside the worktree, with a new file",
    hide({ git, tree }) {
      git(tree, "worktree", "add", "-q", "-b", `beside-${Date.now()}`, "../feature");
      writeFileSync(join(tree, "../feature/new.txt"), "work of the agent\n");
    },
  },
  {
    name: "a link in the worktree's place that leads to where it was moved",
    hide({ repository, tree }) {
      const elsewhere = join(repository, "..", "elsewhere");
      renameSync(tree, elsewhere);
      symlinkSync(elsewhere, tree);
    },
  },
  {
    name: "a worktree that was moved, with a new file",
    hide(ground) {
      change(ground, "new.txt");
      ground.git(ground.repository, "worktree", "move", ground.tree, join(ground.tree, "../moved"));
    },
  },
  {
    name: "a new file behind a new .gitignore",
    hide: (ground) => (writeFileSync(join(ground.tree, ".gitignore"), "*\n"), change(ground, "new.txt")),
  },
  {
    name: "a new folder behind a .gitignore in it that names itself",
    hide: (ground) => (ignoring(ground, "out", "*"), change(ground, "out/new.txt")),
  },
  {
    name: "a new file in a committed folder behind a .gitignore that names itself",
    hide: (ground) => (ignoring(ground, "docs", "/.gitignore\n/new.txt"), change(ground, "docs/new.txt")),
  },
  {
    name: "a new folder in a folder behind a .gitignore that names itself",
    hide: (ground) => (
      ignoring(ground, "a/b", "*"),
      ignoring(ground, "a/c", "*"),
      change(ground, "a/c/new.txt")
    ),
  },
  {
    name: "a new folder that .git/info/exclude names beside a .gitignore that names itself",
    hide(ground) {
      ignoring(ground, "apart", "*");
      appendFileSync(join(ground.repository, ".git/info/exclude"), "/apart/\n");
      change(ground, "apart/new.txt");
    },
  },
  {
    name: "a file of the same size and time",
    hide: ({ tree }) => (
      utimesSync(join(tree, FILE), 1, 1),
      writeFileSync(join(tree, FILE), "committeD\n"),
      utimesSync(join(tree, FILE), 1, 1)
    ),
  },
  {
    name: "a changed file behind a file system monitor",
    hide: (ground) => (
      set(ground, "core.fsmonitor", liar(ground, "printf 'token\\0'")),
      ground.git(ground.tree, "status"),
      change(ground)
    ),
  },
  {
    name: "a changed file behind a filter that gives the old text",
    hide(ground) {
      set(ground, "filter.liar.clean", liar(ground, "echo committed"));
      set(ground, "filter.liar.smudge", liar(ground, "echo work of the agent"));
      writeFileSync(join(ground.repository, ".git/info/attributes"), "* filter=liar\n");
      change(ground);
    },
  },
  {
    name: "a file whose name is not UTF-8",
    hide: ({ tree }) =>
      writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0xff, 0xfe])]), "work\n"),
  },
  {
    name: "a file whose name has a line break",
    hide: ({ tree }) => writeFileSync(join(tree, "two\nlines"), "work\n"),
  },
  {
    name: "a file in a folder called .git",
    hide: ({ tree }) => (
      mkdirSync(join(tree, "src/.git")),
      writeFileSync(join(tree, "src/.git/work"), "work\n")
    ),
  },
  {
    name: "a repository of its own inside",
    hide: ({ git, tree }) => (
      mkdirSync(join(tree, "own")),
      git(join(tree, "own"), "init", "-q"),
      git(join(tree, "own"), "commit", "-q", "--allow-empty", "-m", "work")
    ),
  },
  {
    name: "an orphan branch that was never committed",
    hide: ({ git, tree }) => git(tree, "checkout", "-q", "--orphan", "fresh"),
  },
];

const COMMITS: readonly Way[] = [
  { name: "a commit on no branch", hide: (ground) => commit(ground) },
  {
    name: "a commit on no branch that is called like a stash",
    hide: ({ git, tree }) =>
      git(tree, "commit", "-q", "--allow-empty", "-m", "WIP on main: 1234567 work of the agent"),
  },
  { name: "a commit that HEAD has left", hide: (ground) => (commit(ground), leave(ground)) },
  {
    name: "a commit that HEAD has left, without reflogs",
    hide: (ground) => (set(ground, "core.logAllRefUpdates", "false"), commit(ground), leave(ground)),
  },
  {
    name: "a commit that HEAD has left, reflogs off by option",
    hide: (ground) => (
      commit(ground, "-c", "core.logAllRefUpdates=false"),
      leave(ground, "-c", "core.logAllRefUpdates=false")
    ),
  },
  {
    name: "a commit that HEAD has left, and its reflog is gone",
    loose: true,
    hide: (ground) => (
      commit(ground),
      leave(ground),
      rmSync(join(gitDirOf(ground), "logs"), { recursive: true })
    ),
  },
  {
    name: "a commit on a branch that was deleted",
    hide: ({ git, tree }) => (
      git(tree, "switch", "-q", "-c", "gone"),
      git(tree, "commit", "-q", "--allow-empty", "-m", "work"),
      git(tree, "checkout", "-q", "--detach", "main"),
      git(tree, "branch", "-q", "-D", "gone")
    ),
  },
  {
    name: "a commit amended away",
    hide: (ground) => (
      ground.git(ground.tree, "switch", "-q", "-c", "kept"),
      change(ground),
      ground.git(ground.tree, "commit", "-q", "-a", "-m", "work"),
      ground.git(ground.tree, "reset", "-q", "--hard", "HEAD~")
    ),
  },
  ...["worktree", "bisect", "rewritten"].map((space) => ({
    name: `a commit that only refs/${space} holds`,
    hide({ git, tree }: Ground) {
      const made = git(tree, "commit-tree", "-p", "HEAD", "-m", "work", "HEAD^{tree}").trim();
      git(tree, "update-ref", `refs/${space}/kept`, made);
    },
  })),
  ...[
    ["the worktree's HEAD", "HEAD"],
    ["a ref of the worktree", "refs/worktree/kept"],
    ["the worktree's HEAD, named from outside", "worktrees/worktree/HEAD"],
  ].map(([to, ref = ""]) => ({
    name: `a commit on a branch that is a symbolic ref to ${to}`,
    hide(ground: Ground) {
      commit(ground);
      ground.git(ground.tree, "update-ref", "refs/worktree/kept", "HEAD");
      ground.git(ground.tree, "symbolic-ref", `refs/heads/mine-${Date.now()}`, named(ground, ref));
    },
  })),
  {
    name: "a commit with a tag that is a symbolic ref to a ref of the worktree",
    hide(ground) {
      commit(ground);
      ground.git(ground.tree, "update-ref", "refs/worktree/kept", "HEAD");
      ground.git(ground.tree, "symbolic-ref", `refs/tags/mine-${Date.now()}`, "refs/worktree/kept");
    },
  },
  {
    name: "a commit on a branch whose file is a link to the worktree's HEAD",
    hide(ground) {
      commit(ground);
      symlinkSync(
        join(gitDirOf(ground), "HEAD"),
        join(ground.repository, `.git/refs/heads/mine-${Date.now()}`),
      );
    },
  },
  {
    name: "a commit that HEAD has left and that is called like the index of a stash, without reflogs",
    loose: true,
    hide(ground) {
      set(ground, "core.logAllRefUpdates", "false");
      rmSync(join(gitDirOf(ground), "logs"), { recursive: true, force: true });
      ground.git(ground.tree, "commit", "-q", "--allow-empty", "-m", "index on users: speed up the login");
      leave(ground);
      rmSync(join(gitDirOf(ground), "ORIG_HEAD"), { force: true });
    },
  },
  {
    name: "a merge that HEAD has left and that is called like a stash, without reflogs",
    loose: true,
    hide(ground) {
      set(ground, "core.logAllRefUpdates", "false");
      const side = ground.git(ground.tree, "commit-tree", "-p", "main", "-m", "side", "main^{tree}").trim();
      ground.git(
        ground.tree,
        "commit-tree",
        "-p",
        "main",
        "-p",
        side,
        "-m",
        "On main: merge it",
        "main^{tree}",
      );
    },
  },
  {
    name: "a commit that a replacement makes look reachable",
    hide(ground) {
      commit(ground);
      const made = ground.git(ground.tree, "rev-parse", "HEAD").trim();
      leave(ground);
      const child = ground.git(ground.tree, "commit-tree", "-p", made, "-m", "x", "HEAD^{tree}").trim();
      ground.git(ground.repository, "replace", ground.git(ground.tree, "rev-parse", "main").trim(), child);
    },
  },
  {
    name: "a commit that a graft makes look reachable",
    hide(ground) {
      commit(ground);
      const made = ground.git(ground.tree, "rev-parse", "HEAD").trim();
      leave(ground);
      const main = ground.git(ground.tree, "rev-parse", "main").trim();
      writeFileSync(join(ground.repository, ".git/info/grafts"), `${main} ${made}\n`);
    },
  },
  {
    name: "objects that were moved into the worktree",
    hide(ground) {
      ground.git(ground.tree, "switch", "-q", "-c", "kept");
      commit(ground);
      const objects = join(ground.repository, ".git/objects");
      cpSync(objects, join(ground.tree, "..", "worktree", ".objects"), { recursive: true });
      mkdirSync(join(objects, "info"), { recursive: true });
      writeFileSync(join(objects, "info/alternates"), `${join(ground.tree, ".objects")}\n`);
    },
  },
];

const LINKS: readonly Way[] = [
  {
    name: "a .git that is a repository of its own",
    hide: ({ git, tree }) => (
      rmSync(join(tree, ".git")),
      git(tree, "init", "-q"),
      git(tree, "add", "-A"),
      git(tree, "commit", "-q", "-m", "work")
    ),
  },
  { name: "a .git that is gone", hide: ({ tree }) => rmSync(join(tree, ".git")) },
  {
    name: "a .git that leads to the main checkout",
    hide: (ground) => (
      change(ground),
      ground.git(ground.repository, "checkout", "-q", "-B", "hide"),
      writeFileSync(join(ground.tree, ".git"), `gitdir: ${join(ground.repository, ".git")}\n`)
    ),
  },
  {
    name: "a .git that leads to another, clean worktree",
    hide(ground) {
      const other = join(ground.repository, "..", `clean-${Date.now()}`);
      ground.git(ground.repository, "worktree", "add", "-q", "--detach", other);
      const link = ground.git(other, "rev-parse", "--absolute-git-dir").trim();
      change(ground);
      writeFileSync(join(ground.tree, ".git"), `gitdir: ${link}\n`);
    },
  },
  {
    name: "a repository that lives in the worktree",
    hide(ground) {
      change(ground);
      ground.git(ground.tree, "add", "-A");
      commit(ground);
      const link = gitDirOf(ground);
      renameSync(link, `${link}-away`);
    },
  },
  {
    name: "core.worktree that names a clean checkout",
    hide: (ground) => (
      set(ground, "extensions.worktreeConfig", "true"),
      ground.git(ground.tree, "config", "--worktree", "core.worktree", ground.repository),
      change(ground)
    ),
  },
];

/** Ways to take a submodule out of the checkout; git keeps its repository. */
const AWAY: Readonly<Record<string, (git: Ground["git"], tree: string) => void>> = {
  "was deinitialized": (git, tree) => void git(tree, "submodule", "deinit", "-q", "-f", "module"),
  "was removed": (git, tree) => {
    git(tree, "switch", "-q", "-c", `without-${Date.now()}`);
    git(tree, "rm", "-q", "-f", "module");
    git(tree, "commit", "-q", "-m", "without");
  },
};

const SUBMODULES: readonly Way[] = [
  inSubmodule("a changed file in a submodule", (module) => writeFileSync(join(module, "part.txt"), "work\n")),
  inSubmodule("a new file in a submodule", (module) => writeFileSync(join(module, "new.txt"), "work\n")),
  inSubmodule("a commit in a submodule", (module, { git }) =>
    git(module, "commit", "-q", "--allow-empty", "-m", "work"),
  ),
  inSubmodule("a commit in a submodule that its HEAD has left", (module, { git }) => {
    git(module, "commit", "-q", "--allow-empty", "-m", "work");
    git(module, "checkout", "-q", "--detach", "HEAD~");
  }),
  inSubmodule("a branch in a submodule", (module, { git }) => {
    git(module, "switch", "-q", "-c", "work");
    git(module, "commit", "-q", "--allow-empty", "-m", "work");
    git(module, "checkout", "-q", "--detach", "HEAD~");
  }),
  inSubmodule("a stash in a submodule", (module, { git }) => {
    writeFileSync(join(module, "part.txt"), "work\n");
    git(module, "stash", "-q");
  }),
  ...["all", "dirty", "untracked"].flatMap((ignore) => [
    inSubmodule(`a changed file in a submodule with ignore=${ignore}`, (module, ground) => {
      set(ground, "submodule.module.ignore", ignore);
      writeFileSync(join(module, "part.txt"), "work\n");
    }),
    inSubmodule(`a new file in a submodule with ignore=${ignore}`, (module, ground) => {
      set(ground, "submodule.module.ignore", ignore);
      writeFileSync(join(module, "new.txt"), "work\n");
    }),
  ]),
  inSubmodule("a submodule that became a repository of its own", (module, { git }) => {
    rmSync(join(module, ".git"));
    git(module, "init", "-q");
    git(module, "commit", "-q", "--allow-empty", "-m", "work");
  }),
  ...Object.entries(AWAY).flatMap(([name, away]) => [
    inSubmodule(`a commit in a submodule that ${name}`, (module, { git, tree }) => {
      git(module, "commit", "-q", "--allow-empty", "-m", "work");
      away(git, tree);
    }),
    inSubmodule(`a stash in a submodule that ${name}`, (module, { git, tree }) => {
      writeFileSync(join(module, "part.txt"), "work\n");
      git(module, "stash", "-q");
      away(git, tree);
    }),
  ]),
  inSubmodule("a staged file in a submodule that was deinitialized", (module, { git, tree }) => {
    writeFileSync(join(module, "part.txt"), "work\n");
    git(module, "add", "-A");
    git(tree, "submodule", "deinit", "-q", "-f", "module");
  }),
  inSubmodule("a large file of a submodule", (module, { git }) => {
    const objects = join(git(module, "rev-parse", "--absolute-git-dir").trim(), "lfs/objects/aa/bb");
    mkdirSync(objects, { recursive: true });
    writeFileSync(join(objects, "large"), "work\n");
  }),
  inSubmodule("a skipped file in a submodule", (module, { git }) => {
    git(module, "update-index", "--skip-worktree", "part.txt");
    writeFileSync(join(module, "part.txt"), "work\n");
  }),
];

/** A repository below a path that the committed .gitignore names, so that git says nothing of it. */
function belowIgnored(
  name: string,
  make: (ground: Ground, build: string) => string,
  hide: (inner: string, ground: Ground) => void,
): Way {
  return {
    name: `${name} below an ignored folder`,
    hide(ground) {
      const build = join(ground.tree, "build");
      mkdirSync(build);
      hide(make(ground, build), ground);
    },
  };
}

const clone = ({ git, repository }: Ground, build: string) => {
  git(build, "clone", "-q", repository, "clone");
  return join(build, "clone");
};
const fresh = ({ git }: Ground, build: string) => {
  git(build, "init", "-q", "own");
  return join(build, "own");
};
const linked = ({ git, tree }: Ground, build: string) => {
  git(tree, "worktree", "add", "-q", "--detach", join(build, "linked"), "main");
  return join(build, "linked");
};
const work = (inner: string, path = FILE) => writeFileSync(join(inner, path), "work of the agent\n");
const commitIn = (inner: string, { git }: Ground) =>
  git(inner, "commit", "-q", "--allow-empty", "-m", "work of the agent");

const NESTED: readonly Way[] = [
  belowIgnored("a commit in a clone", clone, commitIn),
  belowIgnored("a changed file in a clone", clone, (inner) => work(inner)),
  belowIgnored("a new file in a clone", clone, (inner) => work(inner, "new.txt")),
  belowIgnored("a stash in a clone", clone, (inner, { git }) => (work(inner), git(inner, "stash", "-q"))),
  belowIgnored("a commit that the HEAD of a clone has left", clone, (inner, ground) => {
    commitIn(inner, ground);
    ground.git(inner, "reset", "-q", "--hard", "HEAD~");
  }),
  belowIgnored("a commit that the HEAD of a clone has left, without reflogs", clone, (inner, ground) => {
    ground.git(inner, "config", "core.logAllRefUpdates", "false");
    commitIn(inner, ground);
    ground.git(inner, "reset", "-q", "--hard", "HEAD~");
    rmSync(join(inner, ".git/logs"), { recursive: true });
    rmSync(join(inner, ".git/ORIG_HEAD"), { force: true });
  }),
  belowIgnored(
    "a commit that only a remote branch of a clone holds, whose origin is gone",
    clone,
    (inner, ground) => {
      commitIn(inner, ground);
      ground.git(inner, "update-ref", "refs/remotes/origin/main", "HEAD");
      ground.git(inner, "config", "remote.origin.url", join(ground.tree, "gone"));
    },
  ),
  belowIgnored("a commit in a clone of a clone", clone, (inner, ground) => {
    commitIn(inner, ground);
    ground.git(join(inner, ".."), "clone", "-q", inner, "second");
    rmSync(inner, { recursive: true });
  }),
  belowIgnored("a commit in the ignored folder of a clone", clone, (inner, ground) => {
    mkdirSync(join(inner, "build"));
    commitIn(fresh(ground, join(inner, "build")), ground);
  }),
  belowIgnored("a commit in the submodule of a clone", clone, (inner, ground) => {
    ground.git(inner, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init");
    commitIn(join(inner, "module"), ground);
  }),
  belowIgnored("a commit in a submodule of a clone that was deinitialized", clone, (inner, ground) => {
    ground.git(inner, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init");
    commitIn(join(inner, "module"), ground);
    ground.git(inner, "submodule", "deinit", "-q", "-f", "module");
  }),
  belowIgnored("a commit in a deinitialized submodule of a worktree", linked, (inner, ground) => {
    ground.git(inner, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init");
    commitIn(join(inner, "module"), ground);
    ground.git(inner, "submodule", "deinit", "-q", "-f", "module");
  }),
  belowIgnored("a large file of a clone", clone, (inner) => {
    mkdirSync(join(inner, ".git/lfs/objects/aa/bb"), { recursive: true });
    writeFileSync(join(inner, ".git/lfs/objects/aa/bb/large"), "work\n");
  }),
  belowIgnored("a commit that a symbolic ref of a clone calls fetched", clone, (inner, ground) => {
    ground.git(inner, "config", "remote.origin.url", "https://127.0.0.1:1/x.git");
    commitIn(inner, ground);
    ground.git(inner, "symbolic-ref", "refs/remotes/origin/sent", "HEAD");
  }),
  belowIgnored("a new folder in a clone behind core.ignoreCase=true", clone, (inner, { git }) => {
    git(inner, "config", "core.ignoreCase", "true");
    mkdirSync(join(inner, "BUILD"));
    work(inner, "BUILD/new.txt");
  }),
  belowIgnored("the repository of a worktree elsewhere", clone, (inner, { git, repository }) =>
    git(inner, "worktree", "add", "-q", "--detach", join(repository, "..", `elsewhere-${Date.now()}`)),
  ),
  belowIgnored("a commit in a new repository", fresh, commitIn),
  belowIgnored("a commit in a repository from which its remote borrows objects", fresh, (inner, ground) => {
    const remote = join(ground.repository, `../borrows-${Date.now()}.git`);
    commitIn(inner, ground);
    ground.git(inner, "clone", "-q", "--bare", "--shared", inner, remote);
    ground.git(inner, "remote", "add", "origin", remote);
    ground.git(inner, "fetch", "-q", "origin", "+refs/heads/*:refs/remotes/origin/*");
  }),
  belowIgnored("a file in a new repository without a commit", fresh, (inner) => work(inner, "new.txt")),
  belowIgnored("a repository without a HEAD", fresh, (inner, ground) => {
    commitIn(inner, ground);
    rmSync(join(inner, ".git/HEAD"));
  }),
  belowIgnored("a commit in a bare repository", clone, (inner, ground) => {
    commitIn(inner, ground);
    ground.git(join(inner, ".."), "clone", "-q", "--bare", inner, "bare.git");
    rmSync(inner, { recursive: true });
  }),
  belowIgnored("a new file in a worktree", linked, (inner) => work(inner, "new.txt")),
  belowIgnored("a commit on no branch in a worktree", linked, commitIn),
  belowIgnored("a commit in a clone whose git directory is elsewhere in it", clone, (inner, ground) => {
    commitIn(inner, ground);
    ground.git(inner, "init", "-q", "--separate-git-dir", join(inner, "../apart"));
  }),
  belowIgnored("a commit in a clone whose name is not UTF-8", clone, (inner, ground) => {
    commitIn(inner, ground);
    renameSync(inner, Buffer.concat([Buffer.from(`${inner}-`), Buffer.from([0xff])]));
  }),
];

export const WAYS: readonly Way[] = [...FILES, ...COMMITS, ...LINKS, ...SUBMODULES, ...NESTED];

/** Nothing would be lost, so the removal must go through. */
export const SAVED: readonly Way[] = [
  { name: "nothing was changed", hide: () => {} },
  { name: "an empty folder", hide: ({ tree }) => mkdirSync(join(tree, "empty/deep"), { recursive: true }) },
  {
    name: "what a committed .gitignore names",
    hide: ({ tree }) => (mkdirSync(join(tree, "build")), writeFileSync(join(tree, "build/out"), "made\n")),
  },
  {
    name: "a cache with its tag and its own .gitignore",
    hide(ground) {
      ignoring(ground, ".tool_cache", "*");
      writeFileSync(
        join(ground.tree, ".tool_cache/CACHEDIR.TAG"),
        "Signature: 8a477f597d28d172789f06886806bc55\n",
      );
      writeFileSync(join(ground.tree, ".tool_cache/data"), "made\n");
    },
  },
  {
    name: "a Python environment with its own .gitignore",
    hide(ground) {
      ignoring(ground, ".venv", "*");
      writeFileSync(join(ground.tree, ".venv/pyvenv.cfg"), "home = /usr/bin\n");
    },
  },
  {
    name: "what a committed .gitignore names in a folder beside nothing else",
    hide({ git, tree }) {
      git(tree, "switch", "-q", "-c", `ignores-${Date.now()}`);
      writeFileSync(join(tree, ".gitignore"), "build/\n*.log\n");
      git(tree, "commit", "-q", "-a", "-m", "ignore logs");
      mkdirSync(join(tree, "logs/deep"), { recursive: true });
      writeFileSync(join(tree, "logs/deep/a.log"), "made\n");
    },
  },
  {
    name: "a commit on a branch",
    hide: (ground) => (
      ground.git(ground.tree, "switch", "-q", "-c", `kept-${Date.now()}`),
      change(ground),
      ground.git(ground.tree, "commit", "-q", "-a", "-m", "kept")
    ),
  },
  {
    name: "a commit with a tag",
    hide: (ground) => (commit(ground), ground.git(ground.tree, "tag", `kept-${Date.now()}`)),
  },
  { name: "a submodule as it was", hide: (ground) => void submodule(ground) },
  {
    name: "a submodule as it was, deinitialized",
    hide: (ground) => {
      submodule(ground);
      ground.git(ground.tree, "submodule", "deinit", "-q", "-f", "module");
    },
  },
  {
    name: "a commit on a branch beside a symbolic ref to it",
    hide(ground) {
      const branch = `kept-${Date.now()}`;
      ground.git(ground.tree, "switch", "-q", "-c", branch);
      commit(ground);
      ground.git(ground.tree, "symbolic-ref", `refs/heads/${branch}-too`, `refs/heads/${branch}`);
    },
  },
  {
    name: "a stash of untracked files that was given back in the main checkout",
    hide({ git, repository }) {
      const file = join(repository, "new.txt");
      writeFileSync(file, "mine\n");
      git(repository, "stash", "-q", "-u");
      git(repository, "stash", "pop", "-q");
      rmSync(file);
    },
  },
  {
    name: "files left out by a sparse checkout",
    hide: ({ git, tree }) => git(tree, "sparse-checkout", "set", "docs"),
  },
  {
    name: "a stash that was given back in the main checkout",
    hide({ git, repository }) {
      writeFileSync(join(repository, FILE), "mine\n");
      git(repository, "stash", "-q");
      git(repository, "stash", "pop", "-q");
    },
  },
  { name: "a file with other line ends in the checkout", hide: () => {} },
  {
    name: "core.fileMode=false, and no mode was changed",
    hide: (ground) => set(ground, "core.fileMode", "false"),
  },
  belowIgnored("a clone as it was", clone, () => {}),
  belowIgnored("a clone whose commit was pushed", clone, (inner, ground) => {
    commitIn(inner, ground);
    ground.git(inner, "push", "-q", "origin", `HEAD:refs/heads/pushed-${Date.now()}`);
  }),
  belowIgnored("a clone as it was, without its remote", clone, (inner, { git }) =>
    git(inner, "remote", "remove", "origin"),
  ),
  belowIgnored("a shallow clone of a tag", fresh, (inner, { git, repository }) => {
    git(repository, "tag", "-f", "v1");
    rmSync(inner, { recursive: true });
    git(join(inner, ".."), "clone", "-q", "--depth=1", "--branch=v1", `file://${repository}`, inner);
  }),
  belowIgnored("a worktree as it was", linked, () => {}),
  belowIgnored("a new repository with nothing in it", fresh, () => {}),
  belowIgnored("a .git that leads nowhere", fresh, (inner) => {
    rmSync(join(inner, ".git"), { recursive: true });
    writeFileSync(join(inner, ".git"), "gitdir: ../../.git/modules/part\n");
    writeFileSync(join(inner, "package.json"), "{}\n");
  }),
];

/** A repository with folders, a link, line ends that are converted, and a submodule that is checked out. */
export function makeRepository(root: string, git: Ground["git"]): string {
  const [part, repository] = [join(root, "part"), join(root, "repository")];
  for (const folder of [part, join(repository, "src"), join(repository, "docs")])
    mkdirSync(folder, { recursive: true });
  writeFileSync(join(part, "part.txt"), "part\n");
  git(part, "init", "-q", "-b", "main");
  git(part, "add", "-A");
  git(part, "commit", "-q", "-m", "part");
  git(repository, "init", "-q", "-b", "main");
  writeFileSync(join(repository, FILE), "committed\n");
  writeFileSync(join(repository, "docs/page.md"), "page\n");
  writeFileSync(bytesAt(repository), "committed\n");
  writeFileSync(join(repository, ".gitignore"), "build/\n");
  writeFileSync(join(repository, ".gitattributes"), "*.bat text eol=crlf\n");
  writeFileSync(join(repository, "run.bat"), "echo\r\n");
  symlinkSync("src", join(repository, "link"));
  git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", part, "module");
  git(repository, "add", "-A");
  git(repository, "commit", "-q", "-m", "first");
  return repository;
}

/** Git as the user and the agent call it, without settings of the machine. */
export function gitOf(home: string): Ground["git"] {
  const name = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
  const env = { PATH: process.env["PATH"] ?? "", HOME: home, GIT_CONFIG_NOSYSTEM: "1", LC_ALL: "C" };
  return (cwd, ...args) => {
    const result = spawnSync("git", [...name, ...args], { cwd, env, encoding: "utf8" });
    if (result.status !== 0) throw new Error(`git ${args.join(" ")}: ${result.stderr}`);
    return result.stdout;
  };
}
