/**
 * Reprise was killed in the second turn, and only its link to the session file has that turn: no command loses it,
 * whatever file the engine has afterwards.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox } from "../e2e/holder-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

let box: HolderBox;
beforeAll(() => {
  box = new HolderBox();
});
afterAll(() => box[Symbol.dispose]());

/** What the engine has after the crash, made of what it had after the first turn. */
const BACK = {
  "a backup of the first turn": (first: string) => first,
  "the first turn and another second one": (first: string) => `${first}{"type":"user","text":"and 4713"}\n`,
  "the first line of the session": (first: string) => `${first.split("\n")[0]}\n`,
} as const;

/** The second turn was under way when Reprise was killed; then the engine got another file. */
async function killed(back: (first: string) => string) {
  const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4711"]);
  const file = join(box.state, "demo/sessions", `${session.value}.jsonl`);
  const first = readFileSync(file, "utf8");
  const child = box.spawn(["resume", handle, "remember 4712 @@hang:after-user"]);
  const ended = collect(child);
  const link = join(runDirectory, "escrow/live-1");
  await until("the link has the turn", () => existsSync(link) && readFileSync(link, "utf8").includes("4712"));
  child.kill("SIGKILL");
  await ended;
  rmSync(file);
  writeFileSync(file, back(first));
  return { handle, runDirectory, session: session.value as string, file } as const;
}

const holdsTurn = (runDirectory: string) =>
  existsSync(runDirectory) &&
  readdirSync(join(runDirectory, "escrow")).some((name) =>
    readFileSync(join(runDirectory, "escrow", name), "utf8").includes("4712"),
  );

describe.each(Object.entries(BACK))("the engine has %s", (_name, back) => {
  test("resume refuses, and --restore-copy brings the turn back", async () => {
    const { handle, runDirectory } = await killed(back);
    const shown = await box.run(["show", handle]);
    expect(shown.stdout).toContain("--restore-copy");
    const refused = await box.json(["resume", handle, "--dry-run", "go on"]);
    expect(refused["error"]).toMatchObject({ code: "session_damaged" });
    const again = await box.json(["resume", handle, "go on"]);
    expect(again["error"]).toMatchObject({
      code: "session_damaged",
      message: expect.stringMatching(/--restore-copy[^]*--ignore-copy/),
    });
    expect(holdsTurn(runDirectory)).toBe(true);
    const restored = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
    expect(restored["text"]).toContain("4712");
  });

  test("rm and prune keep the run", async () => {
    const { handle, runDirectory } = await killed(back);
    const removed = await box.run(["rm", handle]);
    expect(removed).toMatchObject({ code: 8, stderr: expect.stringContaining("--discard-work") });
    const pruned = await box.json(["prune", "--older-than", "1ms"]);
    expect(JSON.stringify(pruned["removed"])).not.toContain(handle);
    expect(holdsTurn(runDirectory)).toBe(true);
  });
});

test.each([
  ["--force-fresh", (handle: string) => ["resume", handle, "--force-fresh", "new"]],
  ["--ignore-copy", (handle: string) => ["resume", handle, "--ignore-copy", "go on"]],
  ["start --run-dir", (handle: string) => ["start", "demo", "new", "--run-dir", handle]],
])("%s keeps the turn as a copy", async (_name, words) => {
  const { handle, runDirectory, session } = await killed(BACK["a backup of the first turn"]);
  expect((await box.run(words(handle))).code).toBe(0);
  expect(holdsTurn(runDirectory)).toBe(true);
  const way = ["resume", handle, "--session", session, "--restore-copy", "what do you remember?"];
  expect((await box.json(way))["text"]).toContain("4712");
});

test("rm keeps a link of which no copy can be foretold: its conversation has two parts", async () => {
  const { handle, runDirectory, file } = await killed(BACK["a backup of the first turn"]);
  writeFileSync(join(runDirectory, "escrow/live-2"), '{"type":"user","text":"and 4714"}\n', { mode: 0o600 });
  const removed = await box.run(["rm", handle]);
  expect(removed).toMatchObject({ code: 8, stderr: expect.stringContaining("live-2") });
  expect((await box.json(["resume", handle, "go on"]))["error"]).toMatchObject({ code: "session_damaged" });
  const restored = await box.json(["resume", handle, "--restore-copy", "what do you remember?"]);
  for (const word of ["4711", "4712", "4714"]) expect(restored["text"]).toContain(word);
  expect(readFileSync(file, "utf8")).toContain("4714");
});
