/** A batch whose runner is killed at random moments. The agents' journal, git and the issues themselves are the judges. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { chances } from "./agent-storms.ts";
import { IssueBox } from "./issue-box.ts";
import { collect } from "./sandbox.ts";

/** Kills runners so often, each batch until it is done: every issue is done once, none is lost. Tells how often it hit. */
export async function killRunners(kills: number, issues: number, seed: number): Promise<number> {
  const chance = chances(seed);
  let killed = 0;
  while (killed < kills) killed += await stormOver(issues, kills - killed, chance);
  return killed;
}

async function stormOver(issues: number, kills: number, chance: () => number): Promise<number> {
  using box = new IssueBox();
  const ids = Array.from({ length: issues }, (_, at) => `i${at}`);
  for (const [at, id] of ids.entries()) {
    const head = at > 0 && at % 5 === 0 ? `depends_on: [i${at - 1}]\n` : "";
    box.issue(id, `@@write:${id}.txt @@wait:${(at % 4) * 150}`, head);
  }
  box.gate("sleep 0.05");
  box.commit();
  let killed = 0;
  while (killed < kills && Object.values(box.statuses()).some((status) => status !== "closed")) {
    const child = box.spawn(box.batchArgs("--resume", "--max-agents", "3"));
    const done = collect(child);
    await Promise.race([sleep(100 + chance() * 700), done]);
    if (child.kill("SIGKILL")) killed += 1;
    expect((await done).stderr).not.toContain("is skipped");
    // Throws when one of them is torn.
    box.batches();
  }
  const last = await box.batch("--resume", "--max-agents", "3");
  expect([last.code, last.code === 0 ? "" : last.stdout + last.stderr]).toEqual([0, ""]);
  expect(box.statuses()).toEqual(Object.fromEntries(ids.map((id) => [id, "closed"])));
  for (const id of ids) {
    expect([id, box.text(id).split("Done by demo").length - 1]).toEqual([id, 1]);
    assertToldOnce(box, id);
    assertWorkKept(box, id);
  }
  return killed;
}

/**
 * No conversation begins its issue twice, and no two conversations about it were completed. A later message repeats the issue
 * only where the record cannot prove that the agent got it, and says so.
 */
function assertToldOnce(box: IssueBox, id: string): void {
  const about = box.told().filter(({ text }) => text.includes(`\n# ${id}: `));
  const first = about.filter(({ text }) => text.startsWith("Work on this issue "));
  expect([id, new Set(first.map(({ session }) => session)).size]).toEqual([id, first.length]);
  const again = about.filter((message) => !first.includes(message));
  const unsure = "It is not certain that this conversation has the issue as it reads now";
  expect([id, again.filter(({ text }) => !text.includes(unsure))]).toEqual([id, []]);
  const completed = new Set(
    box
      .journalEntries()
      .flatMap((entry) => (entry["event"] === "end" && entry["code"] === 0 ? [entry["pid"]] : [])),
  );
  const finished = new Set(
    box
      .journalEntries()
      .filter(
        (entry) => entry["event"] === "message" && completed.has(entry["pid"]) && isAbout(entry["text"], id),
      )
      .map((entry) => entry["session"]),
  );
  expect([id, finished.size]).toEqual([id, 1]);
}

function isAbout(text: unknown, id: string): boolean {
  return (
    typeof text === "string" && (text.includes(`\n# ${id}: `) || text.includes(`worked on issue ${id} (`))
  );
}

/**
 * Whatever the agent wrote is in one commit of the branch that the last record names. A runner that is killed right after
 * it has closed an issue leaves it recorded as passed.
 */
function assertWorkKept(box: IssueBox, id: string): void {
  const isDone = (status = "") => ["passed", "completed"].includes(status);
  const entry = box.batches().findLast(({ issues }) => isDone(issues[id]?.status))?.issues[id];
  const [directory] = box.runDirectories().filter((path) => path.endsWith(`-${entry?.handle ?? "none"}`));
  const worktree = join(directory ?? "none", "worktree");
  expect([id, box.git("-C", worktree, "status", "--porcelain")]).toEqual([id, ""]);
  const commits = box.git("log", "--format=%s", `main..${entry?.branch ?? "none"}`);
  expect([id, commits]).toEqual([id, existsSync(join(worktree, `${id}.txt`)) ? `${id}: Issue ${id}` : ""]);
}
