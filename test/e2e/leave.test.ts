/** Ctrl-] in the UI of a foreground run: the shell gets the terminal back, and the agent works on. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox, isAlive } from "./holder-box.ts";
import { until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

const HAS_BASH = existsSync("/bin/bash");

describe.skipIf(!HAS_TMUX || process.platform !== "linux")("Ctrl-] in a foreground UI", () => {
  let box: HolderBox;
  let screen: Screen;
  beforeAll(() => {
    box = new HolderBox();
    screen = new Screen(box);
  });
  afterAll(() => {
    screen[Symbol.dispose]();
    box[Symbol.dispose]();
  });

  /** Opens a UI with one exchange in it and leaves it. Returns the handle. */
  async function leave(on: Screen, command: string): Promise<string> {
    on.clear();
    on.type(command);
    await on.shows(/^demo> $/m);
    on.type("remember 4711");
    await on.shows('You said "remember 4711"');
    on.key("C-]");
    const text = await on.shows(/^reprise: [0-9a-f]{8} keeps running/m);
    const handle = /^reprise: ([0-9a-f]{8}) keeps running. Attach again: reprise attach \1$/m.exec(text)?.[1];
    expect(handle).toBeDefined();
    return handle ?? "";
  }

  async function expectSaneTerminal(): Promise<void> {
    const { text } = await screen.command("stty -a");
    for (const mode of ["icanon", "echo", "isig", "opost", "icrnl"])
      expect(text).toMatch(new RegExp(`[ \\n]${mode}\\b`));
    expect(screen.facts("#{cursor_flag} #{alternate_on} #{mouse_any_flag}")).toBe("1 0 0");
  }

  test("returns to the shell, and the same agent is attached, used, ended and resumed", async () => {
    const config = join(box.home, ".config/reprise/config.toml");
    const told = join(box.root, "told");
    mkdirSync(dirname(config), { recursive: true });
    writeFileSync(config, `[notify]\ncommand = ["sh", "-c", "cat >>'${told}'"]\n`);
    const handle = await leave(screen, "reprise start demo");
    const agent = box.agent();
    await expectSaneTerminal();
    expect(isAlive(agent)).toBe(true);
    expect(await box.json(["show", handle])).toMatchObject({ status: "running" });
    // The process that the user started is the holder, and no longer stopped.
    const owner = box.pid(handle);
    await until("it runs", () => !/\) T /.test(readFileSync(`/proc/${owner}/stat`, "utf8")));

    screen.clear();
    screen.type(`reprise attach ${handle} --direct; echo "ENDED $?"`);
    await screen.shows('You said "remember 4711"');
    screen.type("what was it");
    await screen.shows("I remember 1 earlier message");
    expect(box.agent()).toBe(agent);
    screen.type("/exit");
    const ended = await screen.shows(/^ENDED 0$/m);
    expect(ended).toContain(`${handle} has ended: completed`);
    await until("its owner has ended", () => !isAlive(owner));
    expect(screen.text()).not.toMatch(/^(handle|session) {2}/m);
    await expectSaneTerminal();
    expect(await box.json(["show", handle])).toMatchObject({ status: "completed", attempts: 1 });
    expect(box.tape(handle).toString()).toContain("I remember 1 earlier message");
    expect(readFileSync(told, "utf8")).toContain(handle);

    expect(await leave(screen, `reprise resume ${handle}`)).toBe(handle);
    expect((await box.run(["stop", handle])).code).toBe(0);
    expect(await box.json(["show", handle])).toMatchObject({ status: "cancelled", attempts: 2 });
    const resumed = await box.json(["resume", handle, "go on"]);
    expect(resumed["text"]).toContain("4711");
  });

  test.skipIf(!HAS_BASH)(
    "leaves the modes of the shell's line editor alone when the agent ends",
    async () => {
      using other = new Screen(box, { name: "bash" });
      other.type("exec bash --norc --noprofile");
      await other.shows(/^bash-\S+ $/m);
      const handle = await leave(other, "reprise start demo");
      const modes = () => {
        const { stdout } = spawnSync("stty", ["-a", "-F", other.facts("#{pane_tty}")], { encoding: "utf8" });
        return stdout;
      };
      // What is typed before the prompt is back may be lost, and the job runs a moment after it.
      await other.shows(/Stopped[^]*^bash-\S+ $/m);
      let jobs = "";
      for (let tries = 0; tries < 50 && !jobs.includes("Running"); tries += 1)
        jobs = (await other.command("jobs")).text;
      expect(jobs).toMatch(/^\[1\]\+\s+Running\s+reprise start demo/m);
      await until("bash edits a line", () => modes().includes("-icanon"));
      const before = modes();
      const owner = box.pid(handle);
      await box.run(["stop", handle]);
      await until("its owner has ended", () => !isAlive(owner));
      expect(modes()).toBe(before);
    },
  );

  test("keeps the agent when the terminal closes, and ends it with its owner", async () => {
    const other = new Screen(box, { name: "closed" });
    const handle = await leave(other, "reprise start demo");
    const [agent, owner] = [box.agent(), box.pid(handle)];
    const shell = Number(other.facts("#{pane_pid}"));
    other[Symbol.dispose]();
    await until("the shell has ended", () => !isAlive(shell));
    screen.clear();
    screen.type(`reprise attach ${handle} --direct`);
    await screen.shows('You said "remember 4711"');
    screen.type("what was it");
    await screen.shows("I remember 1 earlier message");
    screen.key("C-]");
    await screen.shows("keeps running");
    expect([isAlive(agent), isAlive(owner)]).toEqual([true, true]);
    process.kill(owner, "SIGKILL");
    await until("the agent has ended", () => !isAlive(agent));
    expect(await box.json(["show", handle])).toMatchObject({ status: "interrupted" });
  });

  test("is a key of the UI where no shell waits for the run", async () => {
    const ask = "stty raw -echo; printf 'ready\\r\\n'; head -c 1 | od -c -An; stty sane; echo done; exec cat";
    box.program("claude", ask);
    using other = new Screen(box, { name: "alone" });
    other.tmux("respawn-pane", "-k", "-t", "alone", "exec reprise start claude");
    await other.shows("ready");
    other.key("C-]");
    await other.shows(/^ +035$/m);
    await other.shows("done");
    expect(other.text()).not.toContain("keeps running");
  });
});
