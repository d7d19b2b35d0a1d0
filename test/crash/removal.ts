/** P15: removing runs never destroys work that is saved nowhere else. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";
import { gitOf, makeRepository, SAVED, type Way, WAYS } from "../hostile/hidden-work.ts";
import { type Mounted, MOUNTED } from "../hostile/mounted-work.ts";
import { NAMESPACE } from "./full-disk.ts";
import { FaultyIo } from "./io.ts";
import { killedRemovals } from "./killed-removals.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const removal: Promised = {
  id: "P15",
  what: "ways to hide work in a worktree",
  wrong: "let a removal destroy it, or kept a safe worktree",
  means:
    "`rm` and `prune` keep a worktree whose files or commits are not provably elsewhere, in every way of hiding them that the test knows; they move a worktree without such work to the trash, with every file; they delete nothing from the trash that is by then saved nowhere else; killed at any durable call, they leave it whole at its place or in the trash; they never remove files behind a mount point, not even with `--discard-work`",
  check,
};

interface Try {
  readonly way: Pick<Way, "name">;
  readonly judge: () => Promise<string | null>;
}

/** Of the durable calls of a removal, one in so many is tried. */
const KILL_STEP = { short: 24, whole: 1 } as const;

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const io = FaultyIo.open();
  using _ = typeof io === "string" ? null : io;
  const step = KILL_STEP[short ? "short" : "whole"];
  const killed = typeof io === "string" ? [] : await killedRemovals(io, { step, first: seed });
  const canMount = spawnSync("unshare", [...NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status === 0;
  const all: Try[] = [
    ...WAYS.map((way) => ({ way, judge: () => tryWay(way, false) })),
    ...SAVED.map((way) => ({ way, judge: () => tryWay(way, true) })),
    ...TRASHED.map((way) => ({
      way: { name: `in the trash: ${way.name}` },
      judge: () => tryTrashed(way, false),
    })),
    ...SAVED.map((way) => ({
      way: { name: `in the trash: ${way.name}` },
      judge: () => tryTrashed(way, true),
    })),
    ...(canMount ? MOUNTED : []).map((way) => ({ way, judge: () => tryMounted(way) })),
  ];
  // Of the short selection each sixth comes with every sixth seed.
  const queue = [
    ...all.filter((_try, at) => !short || at % 6 === seed % 6),
    ...killed.map(({ name, judge }): Try => ({ way: { name }, judge })),
  ];
  const untried = [
    ...(canMount ? [] : ["mount points: no namespace is allowed here in which one can be made"]),
    ...(typeof io === "string" ? [io] : []),
  ];
  const tried = queue.length;
  const broken: string[] = [];
  const work = async () => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      progress(`removal: ${one.way.name}`);
      const wrong = await one.judge().catch((error: unknown) => String(error));
      if (wrong !== null) broken.push(`${one.way.name}: ${wrong}`);
    }
  };
  await Promise.all([work(), work(), work()]);
  return {
    tried,
    broken,
    untried,
    figures: short
      ? {}
      : {
          "states that must be removable": SAVED.length,
          "states in the trash": TRASHED.length + SAVED.length,
          "killed removals and restores": killed.length,
        },
  };
}

async function tryWay(way: Way, isSaved: boolean): Promise<string | null> {
  using box = new Sandbox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const started = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  const tree = join(started["runDirectory"], "worktree");
  const records = new Set(listing(started["runDirectory"]));
  way.hide({ repository, tree, git });
  // What the way made, also beside the worktree or where that was moved to.
  const work = () => {
    const beside = listing(started["runDirectory"]).filter((path) => !records.has(path));
    return JSON.stringify([listing(tree), beside]);
  };
  const before = work();
  const files = JSON.stringify(listing(tree));
  const pruned = await box.json(["prune", "--older-than", "1ms", "--dry-run"]);
  const wouldGo = JSON.stringify(pruned["removed"] ?? []).includes(started["handle"]);
  if (wouldGo !== isSaved)
    return `prune --dry-run would ${wouldGo ? "remove" : "keep"} it: ${JSON.stringify(pruned)}`;
  const { code, stderr } = await box.run(["rm", started["handle"]]);
  if (isSaved) {
    if (code !== 0 || existsSync(tree)) return `rm kept it (exit ${code}): ${stderr}`;
    const kept = listing(join(box.state, "trash", started["runId"], "worktree"));
    return JSON.stringify(kept) === files ? null : "the trash lacks files of the worktree";
  }
  if (code !== 8 || !stderr.includes("--discard-work")) return `rm: exit ${code}: ${stderr}`;
  return work() === before ? null : "files are gone";
}

const TRASHED = WAYS.filter(({ loose }) => loose !== true);

/** The work appears after the removal: what was checked then is no proof when the trash is emptied. */
async function tryTrashed(way: Way, isSaved: boolean): Promise<string | null> {
  using box = new Sandbox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const started = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  await box.run(["rm", started["handle"]]);
  const entry = join(box.state, "trash", started["runId"]);
  try {
    way.hide({ repository, tree: join(entry, "worktree"), git });
  } catch (error) {
    // Git itself protects a worktree in the trash.
    if (String(error).includes("cannot move a locked working tree")) return null;
    throw error;
  }
  const before = JSON.stringify(listing(entry));
  const words = ["prune", "--older-than", "30d", "--trash-older-than", "1ms"];
  for (const given of [[...words, "--dry-run"], words]) {
    const { emptied, trashKept } = await box.json(given);
    if (emptied?.length !== (isSaved ? 1 : 0) || trashKept?.length !== (isSaved ? 0 : 1))
      return `${given.join(" ")}: ${JSON.stringify({ emptied, trashKept })}`;
  }
  if (isSaved) return existsSync(entry) ? "it is still in the trash" : null;
  if (JSON.stringify(listing(entry)) !== before) return "files are gone";
  const { code, stderr } = await box.run(["rm", started["handle"], "--discard-work"]);
  return code === 0 && !existsSync(entry) ? null : `rm --discard-work: exit ${code}: ${stderr}`;
}

/** Each command sees the mount in a separate namespace, so that nothing stays mounted. */
async function tryMounted(way: Mounted): Promise<string | null> {
  using box = new Sandbox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const started = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  const tree = join(started["runDirectory"], "worktree");
  const behind = join(box.root, "behind");
  mkdirSync(behind);
  writeFileSync(join(behind, "file"), "of somebody else\n");
  way.hide({ repository, tree, git });
  const env = {
    ...{ TREE: tree, RUN: started["runDirectory"], BEHIND: behind, REPOSITORY: repository },
    GIT_DIRECTORY: git(tree, "rev-parse", "--absolute-git-dir").trim(),
  };
  const recordings = () =>
    listing(join(started["runDirectory"], "attempts")).filter((path) => !path.endsWith("/x"));
  const before = recordings();
  for (const words of [
    ["rm", started["handle"]],
    ["rm", started["handle"], "--discard-work"],
    ["prune", "--older-than", "1ms", "--discard-work"],
  ]) {
    const script = `set -e\n(${way.mount}) 2>/dev/null\nexec "$@"`;
    const shell = [...NAMESPACE, "sh", "-c", script, "sh", process.execPath, CLI, ...words];
    const result = await collect(spawn("unshare", shell, { cwd: box.cwd, env: box.env(env) }));
    const said = `${result.stdout}${result.stderr}`;
    if (result.code !== (words[0] === "rm" ? 8 : 0) || !said.includes("is a mount point"))
      return `${words.join(" ")}: exit ${result.code}: ${said}`;
    const isThere = readFileSync(join(behind, "file"), "utf8") === "of somebody else\n";
    if (!isThere || JSON.stringify(recordings()) !== JSON.stringify(before)) return "files are gone";
  }
  return null;
}

function listing(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted() : [];
}
