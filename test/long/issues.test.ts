/** What takes too long for every run: many runners that are killed at random moments. */
import { expect, test } from "vitest";
import { killRunners } from "../e2e/issue-storms.ts";

test("120 killed runners over batches of 20 issues do every issue once", async () => {
  expect(await killRunners(120, 20, 3)).toBe(120);
}, 1_800_000);
