/** Every attempt is in the search when it has ended, whoever started it: no search has to catch up with it. */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ReviewBox } from "../e2e/review-box.ts";
import { type Sandbox } from "../e2e/sandbox.ts";

/** Handles of the runs in `search.db`, without a search. */
function indexed(box: Sandbox): readonly string[] {
  const database = new DatabaseSync(join(box.state, "search.db"), { readOnly: true });
  try {
    const rows = database.prepare("SELECT run_id FROM conversations WHERE run_id IS NOT NULL").all();
    return rows.map((row) => String((row as Record<string, unknown>)["run_id"]).slice(-8)).toSorted();
  } finally {
    database.close();
  }
}

async function all(box: Sandbox): Promise<readonly string[]> {
  const { runs } = await box.json<{ runs: { handle: string }[] }>(["list"]);
  return runs.map(({ handle }) => handle).toSorted();
}

test("the issues of a batch", async () => {
  using box = new IssueBox();
  box.issue("one", "rename the cart");
  box.issue("two", "fix the flaky test");
  box.commit();
  await box.run(["search", "nothing"]);
  await box.batch();
  expect(await all(box)).toHaveLength(2);
  expect(indexed(box)).toEqual(await all(box));
}, 60_000);

test("a review", async () => {
  using box = new ReviewBox();
  await box.run(["search", "nothing"]);
  await box.fromFile();
  expect(await all(box)).toHaveLength(1);
  expect(indexed(box)).toEqual(await all(box));
}, 60_000);
