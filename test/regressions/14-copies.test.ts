/** Copies of a conversation that hold more than the engine has: they stay, are listed, and go back on request. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const sessionFile = (id: string) => join(box.state, "demo", "sessions", `${id}.jsonl`);

function copiesIn(runDirectory: string): string[] {
  const escrow = join(runDirectory, "escrow");
  return readdirSync(escrow).map((name) => readFileSync(join(escrow, name), "utf8"));
}

/** The user goes on with a session whose second turn was cut off. */
async function ignoredCopy() {
  const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4711"]);
  const file = sessionFile(session.value);
  const first = readFileSync(file, "utf8");
  await box.json(["resume", handle, "remember 4712"]);
  writeFileSync(file, first);
  const ignored = await box.run(["resume", handle, "--ignore-copy", "remember 4713"]);
  return { handle, runDirectory, file, ignored } as const;
}

describe("--ignore-copy", () => {
  test("keeps the longer copy through later attempts, and --restore-copy puts it back", async () => {
    const { handle, runDirectory, file, ignored } = await ignoredCopy();
    expect(ignored.code).toBe(0);
    expect(ignored.stderr).toContain(`reprise resume ${handle} --restore-copy "…"`);
    expect(ignored.stderr).not.toContain("cannot be resumed");
    await box.json(["resume", handle, "remember 4714"]);
    expect(copiesIn(runDirectory).filter((copy) => copy.includes("4712"))).toHaveLength(1);
    const shown = await box.run(["show", handle]);
    expect(shown.stdout.match(/of session .*: whole/g)).toHaveLength(2);
    const dry = await box.json(["resume", handle, "--restore-copy", "--dry-run"]);
    expect(dry).toMatchObject({ receipt: { restoredFromEscrow: true } });
    const restored = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
    expect(restored).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(restored["text"]).toContain("4712");
    expect(readFileSync(file, "utf8")).not.toContain("4714");
    expect(copiesIn(runDirectory).filter((copy) => copy.includes("4714"))).toHaveLength(1);
  });
});

test("--restore-copy starts nothing when the run has no copy with more than the session", async () => {
  const { handle } = await box.json(["start", "demo", "remember 4711"]);
  const before = box.journalEntries().length;
  const refused = await box.run(["resume", handle, "--restore-copy", "go on"]);
  expect(refused).toMatchObject({ code: 3, stderr: expect.stringContaining("nothing to restore") });
  const unknown = await box.run(["resume", handle, "--session", "00000000", "go on"]);
  expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining("has no session 00000000") });
  expect(box.journalEntries()).toHaveLength(before);
});

describe("--force-fresh", () => {
  test.each([
    ["lost", (file: string) => rmSync(file), []],
    ["cut short", (file: string) => writeFileSync(file, cutShort(file)), ["--restore-copy"]],
  ] as const)("names the way back to a conversation that is %s", async (_state, harm, more) => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const id = session.value as string;
    harm(sessionFile(id));
    const { stderr } = await box.run(["resume", handle, "--force-fresh", "remember 4712"]);
    const way = ["resume", handle, "--session", id, ...more];
    expect(stderr).toContain(`reprise ${way.join(" ")} "…"`);
    // The second attempt in the new conversation once took the last copy of the earlier one away.
    await box.json(["resume", handle, "remember 4713"]);
    if (more.length === 0) {
      const lost = await box.run(["adopt", "demo", id]);
      expect(lost.stderr).toContain(`reprise ${way.join(" ")} "…"`);
    }
    const back = await box.json([...way, "what do you remember?"]);
    expect(back).toMatchObject({ ok: true, session: { value: id }, receipt: { asked: id, reported: id } });
    expect(back["text"]).toContain("4711");
    expect(back["text"]).not.toContain("4712");
  });
});

function cutShort(file: string): string {
  const [line = ""] = readFileSync(file, "utf8").split(/(?<=\n)/);
  return line;
}
