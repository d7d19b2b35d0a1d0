/** How far a batch is, and what it used: while it works, and afterwards. */
import { describe, expect, test } from "vitest";
import { IssueBox } from "./issue-box.ts";
import { collect, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

/** Two issues that end, and one whose agent works until it is stopped. */
function withIssues(): IssueBox {
  const box = new IssueBox();
  box.issue("a", "go @@write:a.txt");
  box.issue("b", "go @@write:b.txt", "depends_on: [a]\n");
  box.issue("c", "wait @@hang", "depends_on: [b]\n");
  box.commit();
  return box;
}

const hasTwoDone = (box: IssueBox) => {
  const [batch] = box.batches();
  const { a, b, c } = batch?.issues ?? {};
  return a?.status === "completed" && b?.status === "completed" && c?.status === "running";
};

test("`issues status` says how much is done, about how long the rest takes, and what was used", async () => {
  using box = withIssues();
  const child = box.spawn(box.batchArgs());
  const ended = collect(child);
  await until("two of three are done", () => hasTwoDone(box));
  const { totals, live } = await box.json(["issues", "status"]);
  expect(live).toBe(true);
  expect(totals).toMatchObject({
    ...{ planned: 3, done: 2, completed: 2, aboutLeftMs: expect.any(Number) },
    tokens: { input: expect.any(Number), output: expect.any(Number) },
  });
  expect((await box.run(["issues", "status"])).stdout).toMatch(
    /^2 of 3 done, about \d+(?:\.\d)? \w+ left · tokens \d+ in, \d+ out$/m,
  );
  child.kill("SIGTERM");
  await ended;
  const { stdout } = await box.run(["issues", "status"]);
  expect(stdout).toMatch(/^2 of 3 completed · tokens \d+ in, \d+ out$/m);
  expect((await box.json(["issues", "status"]))["totals"]).toMatchObject({ done: 3, aboutLeftMs: null });
}, 60_000);

test("the end of a batch names what its issues used", async () => {
  using box = new IssueBox();
  box.issue("a", "go @@write:a.txt");
  box.commit();
  const { stdout } = await box.batch();
  expect(stdout).toMatch(/^tokens \d+ in, \d+ out$/m);
}, 60_000);

describe.skipIf(!HAS_TMUX)("in tmux", () => {
  test("the live view has the same line", async () => {
    using box = withIssues();
    using screen = new Screen(box, { name: "totals", cols: 100, rows: 30 });
    screen.type(`reprise ${box.batchArgs().join(" ")}; echo "ENDED $?"`);
    await screen.shows(/^2 of 3 done, about \d+(?:\.\d)? \w+ left · tokens \d+ in, \d+ out$/m);
    screen.key("C-c");
    await screen.shows("Ctrl-C again interrupts the agents");
    screen.key("C-c");
    await screen.shows(/^ENDED \d+$/m);
  }, 60_000);
});
