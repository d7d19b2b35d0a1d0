/** P15: removing runs never destroys work that is saved nowhere else. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Sandbox } from "../e2e/sandbox.ts";
import { gitOf, makeRepository, SAVED, type Way, WAYS } from "../hostile/hidden-work.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const removal: Promised = {
  id: "P15",
  what: "ways to hide work in a worktree",
  wrong: "let a removal destroy it, or kept one that was safe",
  means:
    "`rm` and `prune` keep a worktree whose files or commits are not provably elsewhere, however git is told to hide them; a worktree without such work is removed",
  check,
};

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const all = [
    ...WAYS.map((way) => ({ way, isSaved: false })),
    ...SAVED.map((way) => ({ way, isSaved: true })),
  ];
  // Of the short selection each third comes with every third seed.
  const queue = all.filter((_way, at) => !short || at % 3 === seed % 3);
  const saved = queue.filter(({ isSaved }) => isSaved).length;
  const tried = queue.length;
  const broken: string[] = [];
  const work = async () => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      progress(`removal: ${one.way.name}`);
      const wrong = await tryWay(one.way, one.isSaved).catch((error: unknown) => String(error));
      if (wrong !== null) broken.push(`${one.way.name}: ${wrong}`);
    }
  };
  await Promise.all([work(), work(), work()]);
  return { tried, broken, untried: [], figures: { "states that must be removable": saved } };
}

async function tryWay(way: Way, isSaved: boolean): Promise<string | null> {
  using box = new Sandbox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const started = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  const tree = join(started["runDirectory"], "worktree");
  way.hide({ repository, tree, git });
  const before = listing(tree);
  const pruned = await box.json(["prune", "--older-than", "1ms", "--dry-run"]);
  const wouldGo = JSON.stringify(pruned["removed"] ?? []).includes(started["handle"]);
  if (wouldGo !== isSaved)
    return `prune --dry-run would ${wouldGo ? "remove" : "keep"} it: ${JSON.stringify(pruned)}`;
  const { code, stderr } = await box.run(["rm", started["handle"]]);
  if (isSaved) return code === 0 && !existsSync(tree) ? null : `rm kept it (exit ${code}): ${stderr}`;
  if (code !== 8 || !stderr.includes("--discard-work")) return `rm: exit ${code}: ${stderr}`;
  return JSON.stringify(listing(tree)) === JSON.stringify(before) ? null : "files are gone";
}

function listing(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted() : [];
}
