/** Custom engines whose definition changed, is gone, or cannot name a session: what is said is true and leads on. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { definesParrot, writeConfig } from "../e2e/parrot.ts";
import { Sandbox, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
  definesParrot(box);
});
afterEach(() => box[Symbol.dispose]());

test("an id that does not fit the format of today is named, and no new conversation is offered", async () => {
  const { handle, session } = await box.json(["start", "parrot", "hello"]);
  definesParrot(box, { format: "uuid" });
  const words = `its session id ${session.value} does not fit engines.parrot.session.format of the config. Correct the format`;
  for (const more of [[], ["--session", session.value]]) {
    const { code, stderr } = await box.run(["resume", handle, ...more, "go on"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
    expect(stderr).not.toMatch(/session\.value|--force-fresh/);
  }
  const { stdout } = await box.run(["show", handle]);
  expect(stdout.replaceAll(/\s+/g, " ")).toContain(words);
  expect(stdout).not.toContain("--force-fresh");
  definesParrot(box);
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({
    ok: true,
    session: { value: session.value },
  });
});

test("no message for people names session.value", async () => {
  const { handle } = await box.json(["start", "parrot", "NOID"]);
  const { stderr } = await box.run(["resume", handle, "go on"]);
  expect(stderr).toContain(`Run ${handle} cannot be resumed: no session id is known. `);
  expect(stderr).not.toContain("session.value");
});

test("a run whose engine is defined no more offers no resume, and doctor names it", async () => {
  const { handle } = await box.json(["start", "parrot", "hello"]);
  writeConfig(box, "");
  const back = "no config file defines its engine parrot. Put [engines.parrot] back into your config file";
  const { stdout } = await box.run(["show", handle]);
  expect(stdout.replaceAll(/\s+/g, " ")).toContain(back);
  expect(stdout).not.toContain(`reprise resume ${handle}`);
  expect(await box.json(["show", handle])).toMatchObject({ resumable: false });
  const refused = await box.run(["resume", handle, "go on"]);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(back)]);
  const doctor = (await box.run(["doctor"])).stdout;
  expect(doctor).toContain(`these runs cannot be resumed: ${handle}`);
  expect(doctor).toContain("put [engines.parrot] back into your config file");
});

test.skipIf(!HAS_TMUX)("a UI that names no session says at its start that it cannot be resumed", async () => {
  using screen = new Screen(box);
  screen.type("reprise start parrot");
  await until("the warning", () =>
    screen.text().replaceAll(/\s+/g, " ").includes("this conversation cannot be resumed: Reprise cannot see"),
  );
});

test("a detached UI that names no session records why", async () => {
  const { handle } = await box.json(["start", "parrot", "--mode", "pty", "--detach"]);
  let shown = "";
  for (let look = 0; look < 100 && !shown.includes("no session id"); look += 1)
    shown = (await box.run(["show", handle])).stdout.replaceAll(/\s+/g, " ");
  expect(shown).toContain("engines.parrot.session.choose is not set");
  expect(shown).toContain("no session id: a UI prints no lines that Reprise reads");
});
