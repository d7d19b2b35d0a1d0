/** What `changesOf` shows of a folder that was dirty before the attempt, and that taking the snapshot changes nothing in it. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { attemptLike, hold, runLike } from "../../test/contracts/store-samples.ts";
import { testDeps } from "../../test/deps.ts";
import { gitOf } from "../../test/hostile/hidden-work.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import { attemptDir, createAttemptDir, createRunDir } from "../state/runs.ts";
import { type Changes, changesOf } from "./changes.ts";
import type { Deps } from "./deps.ts";
import { capture, type CapturePlan } from "./git/capture.ts";
import { checkedOutAt } from "./git/head.ts";
import { openSnapshot } from "./git/snapshot.ts";
import { openGit } from "./git.ts";

let root: string;
let top: string;
let deps: Deps;
let run: RunRecord;
beforeEach(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-changes-")));
  deps = await testDeps(root, { env: { PATH: process.env["PATH"] ?? "", HOME: root } });
  top = join(root, "project");
  mkdirSync(top);
  const like = runLike(1);
  run = { ...like, cwd: top, runDirectory: createRunDir(deps.state, like.runId) ?? "" };
  await deps.store.createRun(run);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const git = (...args: string[]) => gitOf(root)(top, ...args);
const at = (path: string) => join(top, path);
const remove = (path: string) => rmSync(at(path), { recursive: true });
const move = (from: string, to: string) => renameSync(at(from), at(to));

function write(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), text);
  }
}

function commit(files: Record<string, string> = {}): void {
  write(files);
  git("add", "-A");
  git("commit", "-qm", "c");
}

function pipe(path: string): void {
  spawnSync("mkfifo", [at(path)]);
}

function large(path: string, mib = 9): void {
  writeFileSync(at(path), "");
  truncateSync(at(path), mib << 20);
}

/** An attempt begins here. */
async function begin(n = 1): Promise<AttemptRecord> {
  const startedFrom = checkedOutAt(top);
  const attempt = attemptLike(run, n, startedFrom === null ? {} : { startedFrom });
  await deps.store.createAttempt(attempt, n === 1 ? await hold(deps.store, run) : 1);
  createAttemptDir(run.runDirectory, n);
  const snapshot = openSnapshot(deps, run, attempt);
  await snapshot?.take(attemptDir(run.runDirectory, n));
  await snapshot?.settled();
  return attempt;
}

function listed({ files }: Changes): Record<string, string> {
  return Object.fromEntries(
    files.map(({ path, state, from, modes, added, deleted }) => [
      path,
      [state, from, modes?.join(">"), added, deleted].filter((one) => one !== undefined).join(" "),
    ]),
  );
}

/** Everything below a folder: kinds, modes, times, content. Git renews the times of objects and shared indexes that it reads. */
function digest(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return Object.fromEntries(
    entries.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      const { mode, mtimeNs } = lstatSync(path, { bigint: true });
      const content = entry.isSymbolicLink()
        ? readlinkSync(path)
        : entry.isFile()
          ? createHash("sha256").update(readFileSync(path)).digest("hex")
          : "";
      const time = /\/\.git\/(?:objects|sharedindex)/.test(path) || !entry.isFile() ? "" : mtimeNs;
      return [path, `${mode} ${time} ${content}`];
    }),
  );
}

const noop = () => {};

interface Case {
  readonly before: () => void;
  readonly after: () => void;
  readonly shows: Record<string, string>;
  readonly patch?: RegExp;
  readonly notes?: RegExp;
}

/** The repository has a, b and dir/c, committed. */
const CASES: Record<string, Case> = {
  "nothing changed in a clean folder": { before: noop, after: noop, shows: {} },
  "nothing changed in a dirty folder": {
    before: () => {
      write({ a: "mine\n", new: "mine\n" });
      remove("b");
    },
    after: noop,
    shows: {},
  },
  "of a file that was dirty before, only the later lines": {
    before: () => write({ a: "mine\n" }),
    after: () => write({ a: "mine\nagent\n" }),
    shows: { a: "changed 1 0" },
    patch: /^ mine\n\+agent\n$/m,
  },
  "a file that is put back to its commit": {
    before: () => write({ a: "mine\n" }),
    after: () => git("checkout", "-q", "a"),
    shows: { a: "changed 1 1" },
    patch: /^-mine\n\+a\n$/m,
  },
  "an untracked file that was there before is changed, another one deleted, a third added": {
    before: () => write({ x: "1\n", y: "1\n" }),
    after: () => {
      write({ x: "2\n", z: "new\n" });
      remove("y");
    },
    shows: { x: "changed 1 1", y: "deleted 0 1", z: "added 1 0" },
  },
  "a deleted file comes back": {
    before: () => remove("a"),
    after: () => git("checkout", "-q", "a"),
    shows: { a: "added 1 0" },
  },
  "a tracked and an untracked file are renamed": {
    before: () => write({ x: "a longer text that git recognizes\n" }),
    after: () => {
      move("x", "y");
      move("dir/c", "c");
    },
    shows: { y: "renamed x 0 0", c: "renamed dir/c 0 0" },
    patch: /^rename from x\nrename to y$/m,
  },
  "a mode changes, with and without content": {
    before: () => chmodSync(at("b"), 0o755),
    after: () => chmodSync(at("a"), 0o755),
    shows: { a: "changed 100644>100755 0 0" },
    patch: /^old mode 100644\nnew mode 100755$/m,
  },
  "a binary file": {
    before: () => write({ bin: "\0\u0001" }),
    after: () => write({ bin: "\0\u0002" }),
    shows: { bin: "changed  " },
    patch: /^Binary files a\/bin and b\/bin differ$/m,
  },
  "a link leads elsewhere": {
    before: () => symlinkSync("/etc/passwd", at("link")),
    after: () => {
      remove("link");
      symlinkSync("/etc/group", at("link"));
    },
    shows: { link: "changed 1 1" },
    patch: /^-\/etc\/passwd\n/m,
  },
  "a file becomes a folder and a folder a file": {
    before: () => {
      remove("a");
      write({ "a/in": "1\n" });
    },
    after: () => {
      remove("dir");
      write({ dir: "1\n" });
    },
    shows: { "dir/c": "deleted 0 1", dir: "added 1 0" },
  },
  "a folder becomes a link": {
    before: () => {
      remove("dir");
      symlinkSync(root, at("dir"));
    },
    after: () => write({ a: "2\n" }),
    shows: { a: "changed 1 1" },
  },
  "staging, unstaging and committing earlier changes change no file": {
    before: () => {
      write({ a: "staged\n", x: "1\n", y: "1\n" });
      git("add", "a", "x");
      write({ a: "staged and more\n" });
    },
    after: () => {
      git("reset", "-q");
      git("add", "-A");
      git("commit", "-qm", "all");
    },
    shows: {},
  },
  "a file that git learns to ignore is not deleted": {
    before: () => write({ x: "1\n", y: "1\n" }),
    after: () => write({ ".gitignore": "x\ny\n", y: "2\n" }),
    shows: { ".gitignore": "added 2 0", y: "changed 1 1" },
  },
  "ignored files are left out": {
    before: () => write({ ".gitignore": "*.log\n", "x.log": "1\n" }),
    after: () => write({ "x.log": "2\n", "y.log": "1\n" }),
    shows: {},
  },
  "large files count by size and time, even when they are committed": {
    before: () => ["one", "two", "three"].forEach((name) => large(name)),
    after: () => {
      large("two", 10);
      git("add", "one");
      git("commit", "-qm", "large");
      move("three", "four");
      large("five");
    },
    shows: { two: "changed  ", four: "renamed three  ", five: "added  " },
    notes: /^compared without content, by size and time: .*one/,
  },
  "a repository in the folder counts by its commit": {
    before: () => {
      git("init", "-q", "nested");
      git("init", "-q", "other");
      write({ "nested/x": "1\n" });
    },
    after: () => {
      git("-C", "nested", "add", "x");
      git("-C", "nested", "commit", "-qm", "x");
      write({ "other/x": "1\n" });
    },
    shows: { nested: "changed  " },
    notes: /^repositories in the folder are compared by commit, not looked into: nested, other$/,
  },
  "a conflict that was there before is not the agent's": {
    before: () => {
      git("checkout", "-qb", "side");
      commit({ a: "side\n" });
      git("checkout", "-q", "main");
      commit({ a: "main\n" });
      expect(() => git("merge", "-q", "side")).toThrow();
    },
    after: () => appendFileSync(at("a"), "agent\n"),
    shows: { a: "changed 1 0" },
  },
  "an intended file": {
    before: () => {
      write({ x: "1\n" });
      git("add", "-N", "x");
    },
    after: noop,
    shows: {},
  },
  "a split index": {
    before: () => {
      git("update-index", "--split-index");
      git("config", "core.splitIndex", "true");
      write({ a: "2\n" });
    },
    after: () => write({ b: "2\n" }),
    shows: { b: "changed 1 1" },
  },
  "files that the index flags as unchanged, or to skip": {
    before: () => {
      write({ b: "mine\n" });
      git("update-index", "--assume-unchanged", "b");
    },
    after: () => {
      git("update-index", "--assume-unchanged", "a");
      write({ a: "2\n", b: "mine\nagent\n" });
      git("update-index", "--skip-worktree", "dir/c", "a");
      remove("dir/c");
    },
    shows: { a: "changed 1 1", b: "changed 1 0", "dir/c": "deleted 0 1" },
  },
  "a flagged file that a sparse checkout leaves out, and that is there": {
    before: () => git("sparse-checkout", "set", "--no-cone", "/a", "/b"),
    after: () => {
      git("update-index", "--skip-worktree", "b");
      git("config", "sparse.expectFilesOutsideOfPatterns", "true");
      write({ b: "2\n" });
    },
    shows: { b: "changed 1 1" },
  },
  "a file with its old size and time, whatever the repository's settings compare": {
    before: () => {
      utimesSync(at("a"), 1_700_000_000, 1_700_000_000);
      git("config", "core.checkStat", "minimal");
      git("config", "core.trustctime", "false");
      git("update-index", "--refresh");
    },
    after: () => {
      // Git compares whole seconds.
      const second = () => Math.floor(lstatSync(at("a")).ctimeMs / 1_000);
      const before = second();
      do {
        write({ a: "z\n" });
        utimesSync(at("a"), 1_700_000_000, 1_700_000_000);
      } while (second() === before);
    },
    shows: { a: "changed 1 1" },
  },
  "that it did not look into a repository which git links": {
    before: () => {
      git("init", "-q", "lib");
      git("-C", "lib", "commit", "-q", "--allow-empty", "-m", "1");
      git("add", "lib");
      git("commit", "-qm", "lib");
    },
    after: () => write({ "lib/new": "1\n" }),
    shows: {},
    notes: /^repositories in the folder are compared by commit, not looked into: lib$/,
  },
  "changes although a setting names a pipe as the file with ignore rules": {
    before: noop,
    after: () => {
      pipe("../pipe");
      for (const key of ["core.excludesFile", "core.attributesFile", "diff.orderFile"])
        git("config", key, join(root, "pipe"));
      write({ a: "2\n" });
    },
    shows: { a: "changed 1 1" },
  },
  "hostile names": {
    before: () => write({ 'x:y "z" \\ \n': "1\n", "-x": "1\n", ":(top)": "1\n" }),
    after: () => write({ 'x:y "z" \\ \n': "2\n", "-x": "2\n", ":(top)": "2\n" }),
    shows: { 'x:y "z" \\ \n': "changed 1 1", "-x": "changed 1 1", ":(top)": "changed 1 1" },
  },
};

describe("changesOf", () => {
  test.each(Object.entries(CASES))("shows %s", async (_name, { before, after, shows, patch, notes }) => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n", b: "b\n", "dir/c": "c\n" });
    before();
    const untouched = digest(top);
    await begin();
    expect(digest(top)).toEqual(untouched);
    after();
    const touched = digest(top);
    const changes = await changesOf(deps, run, { patch: true });
    expect([listed(changes), changes.exact]).toEqual([shows, true]);
    if (patch !== undefined) expect(changes.patch).toMatch(patch);
    expect(changes.notes.join("\n")).toMatch(notes ?? /^$/);
    expect(digest(top)).toEqual(touched);
    expect(readdirSync(deps.state.root).filter((name) => name.includes("tmp"))).toEqual([]);
  });

  test("compares each attempt with its own start", async () => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n" });
    write({ a: "mine\n" });
    await begin();
    write({ x: "1\n" });
    await begin(2);
    write({ y: "1\n" });
    expect(listed(await changesOf(deps, run, { patch: false }))).toEqual({ x: "added 1 0", y: "added 1 0" });
    const second = await changesOf(deps, run, { attempt: 2, patch: false });
    expect([listed(second), second.exact]).toEqual([{ y: "added 1 0" }, true]);
  });

  test("compares repositories without a commit, with SHA-256, sparse, and with a submodule", async () => {
    git("init", "-q", "-b", "main", "--object-format=sha256");
    write({ x: "1\n" });
    await begin();
    write({ x: "2\n", y: "1\n" });
    expect(listed(await changesOf(deps, run, { patch: false }))).toEqual({
      x: "changed 1 1",
      y: "added 1 0",
    });
    commit({ "in/x": "1\n", "out/y": "1\n" });
    git("sparse-checkout", "set", "--sparse-index", "in");
    write({ "in/x": "mine\n", "in/new": "mine\n" });
    await begin(2);
    write({ "in/x": "agent\n" });
    expect(listed(await changesOf(deps, run, { attempt: 2, patch: false }))).toEqual({
      "in/x": "changed 1 1",
    });
    git("sparse-checkout", "disable");
    git("init", "-q", "--object-format=sha256", "sub");
    git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "1");
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./sub", "sub");
    git("commit", "-qam", "sub");
    git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "2");
    await begin(3);
    write({ "sub/x": "in the submodule\n" });
    const inside = await changesOf(deps, run, { attempt: 3, patch: false });
    expect([listed(inside), inside.notes]).toEqual([
      {},
      ["repositories in the folder are compared by commit, not looked into: sub"],
    ]);
    git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "3");
    expect(listed(await changesOf(deps, run, { attempt: 3, patch: false }))).toEqual({ sub: "changed 1 1" });
  });

  test("runs no filter, not even the user's own", async () => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n", ".gitattributes": "* filter=own\n" });
    writeFileSync(
      join(root, ".gitconfig"),
      `[filter "own"]\n\tclean = touch ${join(root, "ran")}\n\trequired\n`,
    );
    write({ a: "mine\n" });
    await begin();
    write({ a: "agent\n" });
    const { patch } = await changesOf(deps, run, { patch: true });
    expect(patch).toMatch(/^-mine\n\+agent\n$/m);
    expect(existsSync(join(root, "ran"))).toBe(false);
  });

  test("keeps the snapshot private, and keeps nothing of a clean folder but the tree's id", async () => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n" });
    const before = process.umask(0);
    try {
      await begin();
      expect(readdirSync(attemptDir(run.runDirectory, 1))).toEqual(["start.json"]);
      write({ a: "mine\n" });
      await begin(2);
    } finally {
      process.umask(before);
    }
    const directory = attemptDir(run.runDirectory, 2);
    const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
    expect(entries.filter((entry) => entry.isFile()).length).toBe(3);
    for (const entry of entries)
      expect(statSync(join(entry.parentPath, entry.name)).mode & 0o777).toBe(entry.isFile() ? 0o600 : 0o700);
  });

  const UNREADABLE: Record<string, [spoil: () => void, says: RegExp]> = {
    "the folder is gone": [
      () => rmSync(top, { recursive: true }),
      /with: \S+\/project is gone\. `reprise diff`/,
    ],
    "the repository is gone": [
      () => remove(".git"),
      /could not read the files of \S+: .*not a git repository/,
    ],
    "its .git leads nowhere": [
      () => {
        remove(".git");
        write({ ".git": "gitdir: /nonexistent\n" });
      },
      /its \.git leads nowhere/,
    ],
    "HEAD is empty": [() => write({ ".git/HEAD": "" }), /not a git repository/],
    "the index is a directory": [
      () => {
        remove(".git/index");
        mkdirSync(at(".git/index"));
      },
      /\.git\/index is not a file/,
    ],
    "a file with rules is a pipe": [() => pipe(".gitignore"), /\.gitignore is not a file/],
    "a pipe in a folder keeps git waiting": [() => pipe("dir/.gitignore"), /git needed more than 0\.5 s/],
    "a pipe keeps the settings from being read": [
      () => {
        git("config", "include.path", join(root, "pipe"));
        pipe("../pipe");
      },
      /could not read the git settings in \S+: git did not answer in time/,
    ],
  };

  test.each(Object.entries(UNREADABLE))(
    "ends with the reason and no temporary file when %s",
    async (_name, [spoil, says]) => {
      git("init", "-q", "-b", "main");
      commit({ a: "a\n", "dir/c": "c\n" });
      await begin();
      spoil();
      const refused = changesOf(deps, run, { patch: true, timeoutMs: 500 });
      await expect(refused).rejects.toMatchObject({
        code: "cwd_invalid",
        message: expect.stringMatching(says),
      });
      expect(readdirSync(deps.state.root).filter((name) => name.includes("tmp"))).toEqual([]);
    },
  );

  const EARLIER = /compared with the commit at the start; changes that were uncommitted then are included/;

  const WITHOUT: Record<string, [lose: (directory: string) => void, why: RegExp | null]> = {
    "an attempt of a version without snapshots": [
      (directory) => {
        rmSync(join(directory, "start.json"));
        rmSync(join(directory, "start"), { recursive: true });
      },
      null,
    ],
    "a snapshot that was not finished": [
      (directory) => rmSync(join(directory, "start.json")),
      /it was not finished, because Reprise was killed or still takes it/,
    ],
    "a snapshot without its objects": [
      (directory) => rmSync(join(directory, "start"), { recursive: true }),
      /git cannot read it any more/,
    ],
    "an empty object, as after a power cut": [
      (directory) => {
        const objects = readdirSync(join(directory, "start/objects"), {
          recursive: true,
          withFileTypes: true,
        });
        for (const entry of objects) if (entry.isFile()) truncateSync(join(entry.parentPath, entry.name));
      },
      /git cannot read it any more/,
    ],
    "a damaged record": [
      (directory) => writeFileSync(join(directory, "start.json"), "{"),
      /start\.json cannot be used: it is not JSON/,
    ],
    "a record of a snapshot that was given up": [
      (directory) =>
        writeFileSync(
          join(directory, "start.json"),
          JSON.stringify({ v: 1, tree: null, why: "git needed more than 20 s", standIns: [] }),
        ),
      /there is no snapshot of the start: git needed more than 20 s/,
    ],
  };

  test.each(Object.entries(WITHOUT))(
    "compares %s with the commit, and says so",
    async (_name, [lose, why]) => {
      git("init", "-q", "-b", "main");
      commit({ a: "a\n" });
      write({ x: "mine\n" });
      await begin();
      lose(attemptDir(run.runDirectory, 1));
      write({ a: "agent\n" });
      const { notes, exact, ...changes } = await changesOf(deps, run, { patch: false });
      expect(listed({ ...changes, notes, exact })).toEqual({ a: "changed 1 1", x: "added 1 0" });
      expect([exact, notes.length]).toEqual([false, why === null ? 1 : 2]);
      expect(notes.join("\n")).toMatch(EARLIER);
      if (why !== null) expect(notes.join("\n")).toMatch(why);
    },
  );

  test("gives a snapshot with too many files up, and keeps nothing of it", async () => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n" });
    mkdirSync(at("many"));
    for (let n = 0; n <= 5_000; n += 1) writeFileSync(at(`many/${n}`), "");
    await begin();
    expect(readdirSync(attemptDir(run.runDirectory, 1))).toEqual(["start.json"]);
    const { notes } = await changesOf(deps, run, { patch: false });
    expect(notes[0]).toMatch(/5001 files are uncommitted, and at most 5000 can be kept/);
  });
});

describe("capture", () => {
  /** Files that the agent may have changed first, and whether the tree is doubtful. */
  async function late(since: number | null, more: Partial<CapturePlan> = {}) {
    const place = mkdtempSync(join(root, "place-"));
    const open = await openGit(deps, top);
    const plan: CapturePlan = {
      top,
      place,
      objects: [],
      room: Infinity,
      mostPaths: Infinity,
      standIns: new Set(),
      also: [],
      changingSince: () => since,
      timeoutMs: 60_000,
      ...more,
    };
    const { env, unsure, isLate, standIns } = await capture(open, plan);
    const stage = spawnSync("git", ["ls-files"], {
      cwd: top,
      env: { ...process.env, ...env },
      encoding: "utf8",
    });
    return { files: stage.stdout.trim().split("\n"), unsure, isLate, standIns };
  }

  const newest = () =>
    Math.max(
      ...["a", "b", "dir/c", "x", "y", ".", "dir"].map((path) => changedAt(path)).filter(Number.isFinite),
    );
  const changedAt = (path: string) => lstatSync(at(path), { throwIfNoEntry: false })?.ctimeMs ?? NaN;

  beforeEach(() => {
    git("init", "-q", "-b", "main");
    commit({ a: "a\n", b: "b\n", "dir/c": "c\n" });
    write({ a: "mine\n", x: "mine\n" });
  });

  const LATE: Record<
    string,
    [change: () => void, then: { unsure: string[]; isLate: boolean; files: string[] }]
  > = {
    "nothing changed since the agent's start": [
      noop,
      { unsure: [], isLate: false, files: ["a", "b", "dir/c", "x"] },
    ],
    "a dirty file changed": [
      () => write({ a: "agent\n" }),
      { unsure: ["a"], isLate: true, files: ["a", "b", "dir/c", "x"] },
    ],
    "an untracked file appeared": [
      () => write({ y: "agent\n" }),
      { unsure: ["y"], isLate: true, files: ["a", "b", "dir/c", "x"] },
    ],
    "a tracked file was deleted": [
      () => remove("dir/c"),
      { unsure: ["dir/c"], isLate: true, files: ["a", "b", "dir/c", "x"] },
    ],
    "an untracked file was deleted": [
      () => remove("x"),
      { unsure: [], isLate: true, files: ["a", "b", "dir/c"] },
    ],
    "a dirty file was put back": [
      () => writeFileSync(at("a"), "a\n"),
      { unsure: [], isLate: true, files: ["a", "b", "dir/c", "x"] },
    ],
  };

  test.each(Object.entries(LATE))(
    "knows whether %s while it read the files",
    async (_name, [change, then]) => {
      // The agent starts 50 ms after the last change of the user.
      const since = newest() + 50;
      while (Date.now() <= since) await new Promise((wake) => setTimeout(wake, 5));
      change();
      expect(await late(since)).toEqual({ ...then, standIns: [] });
    },
  );

  test("keeps the smaller files when there is no room for all", async () => {
    write({ y: "a larger file\n" });
    expect(await late(null, { room: 12 })).toMatchObject({ standIns: ["y"], isLate: false });
  });

  test("names the reason when git takes too long or is ended", async () => {
    await expect(late(null, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: "cwd_invalid",
      facts: { why: "git was ended" },
    });
    await expect(late(null, { timeoutMs: 0 })).rejects.toMatchObject({
      facts: { why: "git needed more than 0 s" },
    });
  });
});
