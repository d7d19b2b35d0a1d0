/** A limit says until when it lasts, on the reader's clock, and how long that is. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box[Symbol.dispose]());

/** A reset so many seconds from now. */
const limit = (seconds: number) => `@@429:reset=${new Date(Date.now() + seconds * 1_000).toISOString()}`;
const WHEN = /rate_limited until (\d{4}-\d\d-\d\d )?\d\d:\d\d \(in (30|29) min\): /;

test("the summary of a start and `show` say when a limit ends", async () => {
  const started = await box.run(["start", "demo", limit(1_795)]);
  expect(started.code).toBe(75);
  expect(started.stderr).toMatch(WHEN);
  const handle = /^handle +([0-9a-f]{8})/m.exec(started.stderr)?.[1] ?? "";
  expect((await box.run(["show", handle])).stdout).toMatch(WHEN);
  const resumed = await box.run(["resume", handle, `go on ${limit(1_795)}`]);
  expect([resumed.code, resumed.stderr]).toEqual([75, expect.stringMatching(WHEN)]);
});

test("`show` says since when a limit is over", async () => {
  const started = await box.run(["start", "demo", limit(-60)]);
  const handle = /^handle +([0-9a-f]{8})/m.exec(started.stderr)?.[1] ?? "";
  const { stdout } = await box.run(["show", handle]);
  expect(stdout).toMatch(/rate_limited \(ended (\d{4}-\d\d-\d\d )?\d\d:\d\d\): /);
});
