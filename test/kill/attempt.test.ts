/** `kill -9` of Reprise at moments spread over a whole attempt: nothing is doubled, lost or silently restarted. */
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { collect, Sandbox } from "../e2e/sandbox.ts";

const MOMENTS = 24;

test("kill -9 at 24 moments of an attempt doubles, loses and silently restarts nothing", async () => {
  using box = new Sandbox();
  const seen: Record<string, number> = {};
  // However busy the machine is, the moments are spread over the attempt as it takes its time here.
  const began = performance.now();
  await box.run(["start", "demo", "remember 4711 @@slow:10"]);
  const whole = performance.now() - began;
  for (let at = 0; at < MOMENTS; at += 1) {
    const known = new Set(box.runDirectories());
    const child = box.spawn(["start", "demo", `remember 4711 @@slow:${at % 2 === 0 ? 10 : 100}`]);
    child.stdin?.end();
    const speaks = once(child.stdout ?? child, "data");
    const done = collect(child);
    // Every other moment is counted from the agent's first word, so that some are surely in the middle of a turn.
    if (at % 2 === 1) await Promise.race([speaks, done]);
    await wait(at % 2 === 0 ? (at * whole) / MOMENTS : at);
    child.kill("SIGKILL");
    await done;

    const list = await box.json<{ runs: Record<string, any>[] }>(["list"]);
    expect(list).toMatchObject({ ok: true });
    expect(list.runs.filter((run) => run["status"] === "running")).toEqual([]);
    const run = list.runs.find((one) => !known.has(one["runDirectory"]));
    if (run === undefined) {
      seen["not yet recorded"] = (seen["not yet recorded"] ?? 0) + 1;
      continue;
    }
    const before = box.journalEntries().length;
    const resumed = await box.json(["resume", run["handle"], "what do you remember?"]);
    const starts = box
      .journalEntries()
      .slice(before)
      .filter((entry) => entry["event"] === "start");
    if (resumed["ok"] === true) {
      expect(resumed["text"]).toContain("4711");
      expect(resumed["receipt"]).toMatchObject({ verified: "engine_reported", asked: run["session"].value });
      expect(starts).toHaveLength(1);
    } else {
      expect(resumed["error"].code).toMatch(/^session_(lost|unknown)$/);
      expect(starts).toEqual([]);
    }
    const what =
      resumed["ok"] === true ? `${run["status"]}, resumed` : `${run["status"]}, ${resumed["error"].code}`;
    seen[what] = (seen[what] ?? 0) + 1;
  }
  // The moments must reach into the attempt, or nothing was tested.
  expect(seen["interrupted, resumed"]).toBeGreaterThan(2);
}, 120_000);
