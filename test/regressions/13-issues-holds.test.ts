/** While a live batch works on an issue, the issue's run belongs to the batch, even at the gate and between turns. */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

const entry = (box: IssueBox, id: string) => box.batches().at(-1)?.issues[id];

interface Held {
  readonly handle: string;
  readonly pid: number;
  readonly state: string;
}

/** What would take the run away, or change it, is refused and names the batch and the way out. */
async function expectHeld(box: IssueBox, held: Held, commands: readonly string[][]): Promise<void> {
  const { handle, pid, state } = held;
  const batch = box.batches().at(-1)?.run_id ?? "";
  for (const args of commands) {
    const { code, stderr } = await box.run(args);
    expect({ args, code }).toEqual({ args, code: 4 });
    expect(stderr).toContain(`Run ${handle} belongs to batch ${batch} (pid ${pid}), which works on issue`);
    expect(stderr).toMatch(new RegExp(`\\(${state}\\)\\..* reprise stop ${handle}$`, "m"));
  }
  const shown = (await box.run(["show", handle])).stdout;
  expect(shown).toMatch(new RegExp(`^batch +${batch}, pid ${pid}: works on issue \\w+ \\(${state}\\)$`, "m"));
  expect(shown).toMatch(new RegExp(`^next +reprise stop ${handle} `, "m"));
  expect(shown).not.toContain("reprise resume");
  expect((await box.run(["issues", "sessions"])).stdout).toMatch(new RegExp(` ${state} .* ${handle} `));
}

test("no other process removes, resumes or forks a run whose gate runs; the run of a finished issue is free", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt", "priority: 1\n");
  box.issue("b", "@@write:b.txt", "priority: 2\n");
  const [runs, open] = [join(box.home, "gate"), join(box.home, "open")];
  box.gate(
    `test $REPRISE_ISSUE = a && exit; echo x >> '${runs}'; until test -e '${open}'; do sleep 0.05; done; ls b.txt`,
  );
  box.commit();
  const child = box.spawn(box.batchArgs());
  const done = collect(child);
  await until("the gate runs", () => existsSync(runs));
  const [free, held] = [entry(box, "a")?.handle ?? "", entry(box, "b")?.handle ?? ""];
  await expectHeld(box, { handle: held, pid: child.pid ?? 0, state: "checking" }, [
    ["rm", held],
    ["resume", held, "a word by hand"],
    ["resume", held, "--fork", "a word by hand"],
    ["resume", held, "--dry-run"],
  ]);
  expect((await box.run(["list"])).stdout).toMatch(
    new RegExp(`^${held} +demo +completed \\(checking\\) `, "m"),
  );
  const pruned = await box.run(["prune", "--older-than", "1ms", "--discard-work", "--dry-run"]);
  expect(pruned.stdout).toContain(`Kept ${held}: Run ${held} belongs to batch`);
  expect(await box.run(["resume", free, "a question"])).toMatchObject({ code: 0 });
  writeFileSync(open, "");
  expect(await done).toMatchObject({ code: 0 });
  expect(box.statuses()).toEqual({ a: "closed", b: "closed" });
  expect(await box.run(["resume", held, "a question"])).toMatchObject({ code: 0 });
});

test("a run that waits for the end of a limit belongs to the batch until the issue is stopped or the batch has died", async () => {
  using box = new IssueBox();
  const reset = new Date(Date.now() + 25 * 60_000).toISOString();
  box.issue("a", `@@write:a.txt @@429:reset=${reset}`);
  box.issue("b", "@@write:b.txt");
  box.commit();
  const child = box.spawn(box.batchArgs());
  const done = collect(child);
  await until("it waits", () => entry(box, "a")?.status === "waiting");
  const handle = entry(box, "a")?.handle ?? "";
  await expectHeld(box, { handle, pid: child.pid ?? 0, state: "waiting" }, [
    ["rm", "--discard-work", handle],
  ]);
  expect((await box.run(["list"])).stdout).toMatch(
    new RegExp(`^${handle} +demo +limited \\(waiting\\) `, "m"),
  );
  expect((await box.run(["stop", handle])).stdout).toContain("Issue a is interrupted.");
  expect(await box.run(["resume", handle, "--dry-run"])).toMatchObject({ code: 0 });
  // The other issue waits for the same limit, before its run has begun.
  await until("the other one waits", () => entry(box, "b")?.status === "waiting");
  child.kill("SIGKILL");
  await done;
  expect((await box.run(["issues", "status"])).stdout).toMatch(/^b +interrupted /m);
});
