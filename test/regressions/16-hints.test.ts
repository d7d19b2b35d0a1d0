/** Commands suggest only what works, and say which input they want. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: Sandbox;
let handle: string;
beforeAll(async () => {
  box = new Sandbox();
  ({ handle } = await box.json<{ handle: string }>(["start", "demo", "hello"]));
}, 60_000);
afterAll(() => box[Symbol.dispose]());

test("replay in a pipe suggests a format that export can make of this run", async () => {
  const { code, stderr } = await box.run(["replay", handle]);
  expect(code).toBe(2);
  expect(stderr).toContain(`reprise export ${handle} --format html`);
});

test.each([
  ["talk.md", /^# /],
  ["talk.html", /^<!doctype html>/i],
])("export makes what the name %s asks for", async (name, content) => {
  expect(await box.run(["export", handle, "--output", name])).toMatchObject({ code: 0 });
  expect(readFileSync(join(box.cwd, name), "utf8")).toMatch(content);
});

test("export refuses to name an archive of a run without a UI as a recording", async () => {
  expect((await box.run(["export", handle, "--output", "talk.cast"])).code).toBe(3);
  expect(existsSync(join(box.cwd, "talk.cast"))).toBe(false);
});

test("the word cost leads to usage", async () => {
  const { code, stderr } = await box.run(["cost"]);
  expect(code).toBe(2);
  expect(stderr).toContain("reprise usage");
});

test("a wrong value of --color is answered with the right ones", async () => {
  expect(await box.run(["list", "--color=sometimes"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--color=auto, --color=always or --color=never"),
  });
});

test("one number of a new price is refused with the command that sets both, and that command works", async () => {
  const refused = await box.run(["config", "set", 'prices."demo-1".input', "2"]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toContain(`reprise config set 'prices."demo-1"' '{ input = 1.25, output = 10 }'`);
  const words = ["config", "set", 'prices."demo-1"', "{ input = 1.25, output = 10 }"];
  expect(await box.run(words)).toMatchObject({ code: 0 });
  expect(await box.run(["config", "set", 'prices."demo-1".input', "2"])).toMatchObject({ code: 0 });
  const unknown = ["config", "set", "prices.unknown", "{ input = 1.25, output = 10 }"];
  expect(await box.run(unknown)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("prices.unknown is no model"),
  });
}, 30_000);

test("notify test shows the last line that the command printed", async () => {
  using other = new Sandbox();
  mkdirSync(join(other.home, ".config/reprise"), { recursive: true });
  const command = other.program("tell", "echo first >&2; echo 'no such topic' >&2; exit 3");
  writeFileSync(join(other.home, ".config/reprise/config.toml"), `[notify]\ncommand = ["${command}"]\n`);
  expect(await other.run(["notify", "test"])).toMatchObject({
    code: 1,
    stdout: "failed: notify.command: it failed (exit code 3): no such topic\n",
  });
});

test.skipIf(!HAS_TMUX)(
  "list --watch draws nothing on a dumb terminal",
  async () => {
    using screen = new Screen(box);
    const { text, code } = await screen.command("TERM=dumb reprise list --watch");
    expect(code).toBe(2);
    expect(text).toContain("needs a terminal that can draw");
  },
  30_000,
);

test("a denied tool call is named after a completed attempt and by show", async () => {
  using other = new Sandbox();
  const started = await other.run(["start", "demo", "write it @@deny:a.txt"]);
  expect(started).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("1 tool call was denied by the engine"),
  });
  const { runs } = await other.json(["list"]);
  const shown = await other.run(["show", runs[0].handle]);
  expect(shown.stdout).toContain("1 tool call was denied by the engine");
});

test("notify test names the cause of a webhook that cannot be called, without its address", async () => {
  using other = new Sandbox();
  mkdirSync(join(other.home, ".config/reprise"), { recursive: true });
  const webhook = "http://127.0.0.1:6000/key-4711";
  writeFileSync(join(other.home, ".config/reprise/config.toml"), `[notify]\nwebhook = "${webhook}"\n`);
  expect(await other.run(["notify", "test"])).toMatchObject({
    code: 1,
    stdout: "failed: notify.webhook: fetch failed (bad port)\n",
  });
});
