/** Two runs may record one conversation. A resume restores no copy while the other run has a longer one. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const lose = (session: string) => rmSync(join(box.state, "demo", "sessions", `${session}.jsonl`));

/** Two runs in one session, of which the second has more; the engine has lost it. */
async function shared(...first: string[]) {
  const one = await box.json(["start", "demo", ...first, "remember 4711"]);
  const session = String(one["session"].value);
  const two = await box.json(["start", "demo", "remember 4712", "--", "--resume", session]);
  lose(session);
  return { one: one["handle"], two: two["handle"], session };
}

test("the longer copy of another run is named, restored there, and then both continue the whole conversation", async () => {
  const { one, two, session } = await shared();
  const before = box.journalEntries().length;
  for (const option of [[], ["--restore-copy"], ["--dry-run"], ["--fork"]]) {
    const refused = await box.run(["resume", one, ...option, "go on"]);
    expect([refused.code, refused.stderr]).toEqual([
      5,
      expect.stringMatching(
        new RegExp(
          `does not have session ${session} .*, and run ${two} has a copy of it, longer than the copy of this run .*\`reprise resume ${two} (--fork )?"…"\` continues it there`,
        ),
      ),
    ]);
  }
  expect(box.journalEntries()).toHaveLength(before);
  const shown = await box.run(["show", one]);
  expect(shown.stdout).toContain(`reprise resume ${two} "…"`);

  const there = await box.json(["resume", two, "what do you remember?"]);
  expect(there["receipt"]).toMatchObject({
    restoredFromEscrow: true,
    restoredCopy: { id: expect.stringMatching(/^[0-9a-f]{8}$/), takenAt: expect.any(String) },
  });
  const here = await box.json(["resume", one, "what do you remember?"]);
  expect(here["receipt"]).toMatchObject({ restoredFromEscrow: false });
  expect(here["text"]).toContain("4712");
});

test("--copy restores the run's own copy, and the receipt says what it lacks; then each run names the other", async () => {
  const { one, two, session } = await shared();
  const refused = await box.run(["resume", one, "go on"]);
  const copy = /--copy ([0-9a-f]{8})/.exec(refused.stderr)?.[1] ?? "";
  const own = await box.json(["resume", one, "--copy", copy, "remember 4713"]);
  expect(own["receipt"]).toMatchObject({
    restoredCopy: { id: copy },
    lacks: [expect.stringContaining(`run ${two} has a copy of the same session`)],
  });
  expect((await box.run(["show", one])).stdout).toContain(
    `restored the run's copy of it first (copy ${copy}, made`,
  );

  // Now each of the two has something that the other one lacks.
  lose(session);
  for (const [handle, other] of [
    [one, two],
    [two, one],
  ]) {
    const { code, stderr } = await box.run(["resume", String(handle), "go on"]);
    expect(code).toBe(5);
    expect(stderr).toContain(`run ${other} has a copy of it, with text that the copy of this run lacks`);
    expect(stderr).toMatch(new RegExp(`reprise resume ${other} --session ${session} --copy [0-9a-f]{8} "…"`));
  }
});

test("a run without a copy names the run that has one", async () => {
  const { one, two } = await shared("--no-escrow");
  const { code, stderr } = await box.run(["resume", one, "go on"]);
  expect(code).toBe(5);
  expect(stderr).toContain(`run ${two} has a copy of it (made `);
  expect(stderr).not.toContain("--copy");
});
