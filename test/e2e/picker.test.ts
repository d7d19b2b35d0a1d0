/** The picker in a real terminal: a command that does not name its run asks for it, and the terminal is as it was after. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Sandbox, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

const EVIL = "\u001b]0;owned\u0007\u001b[2J\u202etxt";
const NORMAL = "0 1 1";
const modes = (screen: Screen) => screen.facts("#{alternate_on} #{cursor_flag} #{wrap_flag}");

let box: Sandbox;
const handles: Record<string, string> = {};

beforeAll(async () => {
  box = new Sandbox();
  const other = join(box.root, "other");
  mkdirSync(other);
  const start = async (key: string, message: string, cwd?: string) => {
    const { handle } = await box.json(
      ["start", "demo", message, "--tag", `about-${key}`],
      cwd === undefined ? {} : { cwd },
    );
    handles[key] = String(handle);
  };
  await start("cart", "rename the cart module");
  await start("test", "fix the flaky test");
  await start("evil", `evil ${EVIL}`);
  await start("notes", "write the changelog", other);
}, 60_000);
afterAll(() => box[Symbol.dispose]());

describe.skipIf(!HAS_TMUX)("in tmux", () => {
  test.each([
    [80, 24],
    [120, 40],
    [200, 50],
  ])("%i × %i: lists the runs of this folder with the last exchange, and takes one", async (cols, rows) => {
    using screen = new Screen(box, { name: `size-${cols}`, cols, rows });
    screen.type(`reprise logs; echo "ENDED $?"`);
    const first = await screen.shows(/3 of 4, this folder[^]*You said "evil/);
    const shown = first.split("\n").map((line) => line.trimEnd());
    expect(shown[0]).toMatch(/^reprise logs: which run\? +3 of 4, this folder$/);
    expect(shown[2]).toMatch(/^❯ evil \S*owned.* demo +completed +(?:now|\d+ m?s) +\S+$/);
    expect(shown[3]).toMatch(/^  fix the flaky test +demo +completed +(?:now|\d+ m?s) +\S+$/);
    expect(shown[4]).toMatch(/^  rename the cart module /);
    expect(first).not.toContain("write the changelog");
    expect(screen.facts("#{pane_title}")).not.toContain("owned");
    for (const line of shown) expect(line.length).toBeLessThanOrEqual(cols);
    screen.key("C-a");
    await screen.shows(/4 of 4, all folders[^]*write the changelog/);
    screen.tmux("send-keys", "-l", "crt");
    await screen.shows(/^❯ rename the cart module/m);
    await screen.shows('You said "rename the cart module"');
    screen.key("Enter");
    const text = await screen.shows(/^ENDED 0$/m);
    expect(text).toMatch(/^> rename the cart module$/m);
    expect(text).not.toContain("which run?");
    expect(modes(screen)).toBe(NORMAL);
  });

  test("resume asks for a message and sends it, also with several lines", async () => {
    using screen = new Screen(box, { name: "message" });
    screen.type(`reprise resume; echo "ENDED $?"`);
    await screen.shows(/of 4, this folder/);
    screen.tmux("send-keys", "-l", "flaky");
    await screen.shows(/^❯ fix the flaky test/m);
    screen.key("Enter");
    await screen.shows("Message to");
    screen.tmux("send-keys", "-l", "go ön ");
    screen.tmux("set-buffer", "one\ntwo");
    screen.tmux("paste-buffer", "-p");
    await screen.shows(/go ön one\n +two/);
    screen.key("Enter");
    await screen.shows(/^ENDED 0$/m);
    const said = box.journalEntries().map((entry) => String(entry["text"] ?? ""));
    expect(said).toContain("go ön one\ntwo");
  });

  test("resume sends a text that is no handle to the picked run", async () => {
    using screen = new Screen(box, { name: "text" });
    screen.type(`reprise resume "what is left to do?"; echo "ENDED $?"`);
    await screen.shows('Send "what is left to do?" to which run?');
    screen.tmux("send-keys", "-l", "about-cart");
    await screen.shows(/^❯ rename the cart module/m);
    screen.key("Enter");
    await screen.shows(/^ENDED 0$/m);
    const { history } = await box.json(["show", handles["cart"] ?? ""]);
    expect(history.at(-1).message).toBe("what is left to do?");
  });

  test("resume asks where to send all words when the first one names no run", async () => {
    using screen = new Screen(box, { name: "words" });
    screen.type(`reprise resume caart go on; echo "ENDED $?"`);
    await screen.shows('Send "caart go on" to which run?');
    screen.tmux("send-keys", "-l", "about-cart");
    await screen.shows(/^❯ rename the cart module/m);
    screen.key("Enter");
    await screen.shows(/^ENDED 0$/m);
    const { history } = await box.json(["show", handles["cart"] ?? ""]);
    expect(history.at(-1).message).toBe("caart go on");
  });

  test("rm removes the marked runs after y", async () => {
    const made = await Promise.all(
      ["first to go", "second to go"].map((message) => box.json(["start", "demo", message])),
    );
    using screen = new Screen(box, { name: "marked" });
    screen.type(`reprise rm; echo "ENDED $?"`);
    await screen.shows("which runs?");
    screen.tmux("send-keys", "-l", "to go");
    // The best two: a folder's random name may fit as well, below them.
    await screen.shows(/^> to go\b.*\n❯ .*to go .*\n  .*to go /m);
    screen.key("Tab");
    screen.key("Tab");
    await screen.shows("Tab mark (2)");
    screen.key("Enter");
    await screen.shows(/Remove 2 runs: .*\? \[y\/n\]/);
    screen.key("y");
    const text = await screen.shows(/^ENDED 0$/m);
    for (const { handle } of made) expect(text).toContain(`Removed run ${handle}.`);
  });

  test("Esc leaves with 130 and nothing done; stop offers only live runs", async () => {
    using screen = new Screen(box, { name: "leave" });
    screen.type(`reprise stop; echo "ENDED $?"`);
    await screen.shows("There is no such run.");
    screen.key("Escape");
    await screen.shows(/^ENDED 130$/m);
    expect(modes(screen)).toBe(NORMAL);
  });

  test("a resize in the middle redraws, and kill -9 leaves the terminal as it was", async () => {
    using screen = new Screen(box, { name: "killed", cols: 80, rows: 24 });
    screen.type("stty -a > modes-before");
    screen.type(`sh -c 'echo $$ > picker.pid; exec reprise show'; echo "ENDED $?"`);
    await screen.shows("of 4, this folder");
    screen.resize(120, 40);
    await until(
      "the picker fills the new size",
      () => screen.text().split("\n")[0]?.trimEnd().length === 120,
    );
    screen.resize(80, 24);
    await until("the picker fits the old size", () => screen.text().split("\n")[0]?.trimEnd().length === 80);
    screen.tmux("run-shell", `kill -9 $(cat ${box.cwd}/picker.pid)`);
    // The shell may have written its prompt before: on the screen that is left.
    await until("the screen is the old one", () => modes(screen) === NORMAL);
    await screen.answers("stty -a > modes-after; cmp modes-before modes-after && echo SA''ME", "SAME");
  });
});

test("without a terminal the message of the missing argument stays", async () => {
  const missing = await box.run(["logs"]);
  expect(missing).toMatchObject({
    code: 2,
    stderr: "reprise: Which run? `reprise list` shows the handles.\n",
  });
  const text = await box.run(["resume", "what is left?"]);
  expect(text.code).not.toBe(0);
  expect(text.stderr).toContain('"what is left?"');
  expect((await box.json(["stop"]))["error"]).toMatchObject({ code: "usage" });
});
