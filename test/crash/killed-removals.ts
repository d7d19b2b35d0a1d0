/** Removals and restores that are killed at a durable call: the worktree is whole at its place or in the trash, and goes on. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gitOf, makeRepository } from "../hostile/hidden-work.ts";
import { IoBox } from "./io-box.ts";
import type { FaultyIo } from "./io.ts";

type Act = "rm" | "restore";

export interface KilledRemoval {
  readonly name: string;
  readonly judge: () => Promise<string | null>;
}

/** Every durable call in the state directory and the repository; `step`: only each so many. */
export async function killedRemovals(
  io: FaultyIo,
  { step, first }: { readonly step: number; readonly first: number },
): Promise<readonly KilledRemoval[]> {
  const trials: KilledRemoval[] = [];
  for (const act of ["rm", "restore"] as const) {
    await using ground = await prepared(act);
    const { box, handle } = ground;
    const injection = io.inject(box.root, "reprise.js", { kind: "count", n: 0 });
    await box.say(wordsOf(act, handle), injection.env);
    for (let n = 1 + (first % step); n <= injection.count(); n += step)
      trials.push({ name: `${act} killed before durable call ${n}`, judge: () => killed(io, act, n) });
  }
  return trials;
}

function wordsOf(act: Act, handle: string): string[] {
  return act === "rm" ? ["rm", handle] : ["rm", "--restore", handle];
}

interface KillGround extends AsyncDisposable {
  readonly box: IoBox;
  readonly handle: string;
  readonly runId: string;
  readonly git: (cwd: string, ...args: string[]) => string;
}

async function prepared(act: Act): Promise<KillGround> {
  const box = new IoBox();
  const git = gitOf(box.home);
  const repository = makeRepository(box.root, git);
  const run = await box.json(["start", "demo", "hello", "--isolate", "worktree", "--cwd", repository]);
  const tree = join(run["runDirectory"], "worktree");
  git(tree, "checkout", "-q", "-b", "own");
  writeFileSync(join(tree, "made.txt"), "work\n");
  git(tree, "add", "made.txt");
  git(tree, "commit", "-q", "-m", "work");
  const { handle, runId } = run;
  if (act === "restore") await box.run(["rm", handle]);
  return { box, handle, runId, git, [Symbol.asyncDispose]: () => box[Symbol.asyncDispose]() };
}

async function killed(io: FaultyIo, act: Act, n: number): Promise<string | null> {
  await using ground = await prepared(act);
  const { box, handle, runId } = ground;
  const injection = io.inject(box.root, "reprise.js", { kind: "before", n });
  await box.say(wordsOf(act, handle), injection.env);
  const places = ["runs", "trash"].map((name) => join(box.state, name, runId, "worktree"));
  const there = places.filter((path) => existsSync(path));
  if (there.length !== 1 || !isWhole(there[0] ?? "")) return `whole at ${there.length} places`;
  // A removal goes on in the same command; a restore may have ended before it was killed.
  const again = await box.run(wordsOf(act, handle));
  if (again.code !== 0 && again.code !== 3) return `again: exit ${again.code}: ${again.stderr}`;
  if (act === "rm") {
    if (!existsSync(places[1] ?? "")) return "it is not in the trash";
    const back = await box.run(["rm", "--restore", handle]);
    if (back.code !== 0) return `restore: exit ${back.code}: ${back.stderr}`;
  }
  return await wrongAfter(ground, places[0] ?? "");
}

/** All files with their bytes. */
function isWhole(tree: string): boolean {
  const files = readdirSync(tree);
  return (
    files.includes(".git") &&
    files.includes("src") &&
    readFileSync(join(tree, "made.txt"), "utf8") === "work\n"
  );
}

async function wrongAfter({ box, handle, git }: KillGround, tree: string): Promise<string | null> {
  if (!existsSync(tree) || !isWhole(tree)) return "the restored worktree is not whole";
  const status = git(tree, "status", "--porcelain", "--branch").trim();
  if (status !== "## own") return `git status: ${status}`;
  const { code, stderr } = await box.run(["resume", handle, "again"]);
  return code === 0 ? null : `resume: exit ${code}: ${stderr}`;
}
