/** Runners that are killed at random moments, as many as a test run has time for; `npm run test:long` has more. */
import { expect, test } from "vitest";
import { killRunners } from "../e2e/issue-storms.ts";

test("a batch whose runner is killed again and again does every issue once", async () => {
  expect(await killRunners(10, 12, 5)).toBe(10);
}, 180_000);
