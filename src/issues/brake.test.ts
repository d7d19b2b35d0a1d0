import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { Brake, obeyRequests, requestStop } from "./brake.ts";

test("the brake of one issue stops that issue alone, and follows that of the batch", async () => {
  const whole = new Brake();
  using one = new Brake(whole);
  using other = new Brake(whole);
  const told: string[] = [];
  one.onStop((request) => told.push(`one ${request}`));
  other.onStop((request) => told.push(`other ${request}`));
  one.pressAlone();
  expect([one.force, one.isAlone, other.force, whole.force]).toEqual([2, true, 0, 0]);
  expect(await one.waitUntil(Number.POSITIVE_INFINITY, () => 0)).toBe(false);
  whole.press("SIGTERM");
  expect([one.isAlone, other.force, other.isAlone]).toEqual([false, 2, false]);
  one.pressAlone();
  expect(told).toEqual(["one interrupt", "other SIGTERM", "one end"]);
});

test("a request by file stops the run that it names, once, and one that is taken back stops nothing", async () => {
  const directory = mkdtempSync(join(tmpdir(), "reprise-brake-"));
  try {
    const whole = new Brake();
    using mine = new Brake(whole);
    using theirs = new Brake(whole);
    const at = (handle: string) => ({ directory, batch: "b1", handle: () => handle });
    using _mine = obeyRequests(mine, at("11111111"));
    using _theirs = obeyRequests(theirs, at("22222222"));
    requestStop(directory, "b0", "22222222")();
    requestStop(directory, "b1", "11111111");
    await vi.waitUntil(() => mine.force === 2, { timeout: 10_000 });
    expect(readdirSync(directory)).toEqual([]);
    expect([theirs.force, whole.force]).toEqual([0, 0]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
