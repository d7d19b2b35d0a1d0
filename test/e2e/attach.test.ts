/** `reprise attach` on real terminals: output, input and leaving, and that no client can harm the agent. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox, isAlive } from "./holder-box.ts";
import { collect, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: HolderBox;
beforeAll(() => {
  box = new HolderBox();
});
afterAll(() => box[Symbol.dispose]());

describe.skipIf(!HAS_TMUX)("a UI", () => {
  let screen: Screen;
  beforeAll(() => {
    screen = new Screen(box);
  });
  afterAll(() => screen[Symbol.dispose]());

  async function expectSaneTerminal(): Promise<void> {
    const { text } = await screen.command("stty -a");
    for (const mode of ["icanon", "echo", "isig", "opost", "icrnl"])
      expect(text).toMatch(new RegExp(`[ \\n]${mode}\\b`));
    expect(screen.facts("#{cursor_flag} #{alternate_on} #{mouse_any_flag}")).toBe("1 0 0");
  }

  test("can be detached, attached, typed into, resized, left, attached again, and ended", async () => {
    const handle = await box.detach("demo");
    const attach = `reprise attach ${handle} --direct; echo "ENDED $?"`;
    screen.clear();
    screen.type(attach);
    await screen.shows(/^demo> $/m);
    screen.type("remember 4711");
    await screen.shows('You said "remember 4711"');
    await screen.answers("/size", "size 100x40");
    screen.resize(90, 30);
    await screen.answers("/size", "size 90x30");
    screen.resize(100, 40);
    screen.key("C-]");
    const left = await screen.shows(/^ENDED 0$/m);
    expect(left).toContain(`${handle} keeps running. Attach again: reprise attach ${handle}`);
    await expectSaneTerminal();
    expect(isAlive(box.pid(handle))).toBe(true);

    screen.clear();
    screen.type(attach);
    await screen.shows('You said "remember 4711"');
    screen.type("what was it");
    await screen.shows("I remember 1 earlier message");
    screen.type("/exit");
    const ended = await screen.shows(/^ENDED 0$/m);
    expect(ended).toContain(`${handle} has ended: completed`);
    await expectSaneTerminal();
    expect(await box.json(["show", handle])).toMatchObject({ status: "completed", attempts: 1 });
  });

  test("has a size of 120x40 until a client lends a terminal", async () => {
    box.program("claude", "stty size; exec sleep 60");
    const handle = await box.detach("claude");
    await until("its size", () => box.tape(handle).toString().includes("40 120"));
    await box.run(["stop", handle]);
  });

  test("looks the same to two clients, and either may leave", async () => {
    using other = new Screen(box, { name: "other" });
    const handle = await box.detach("demo");
    for (const one of [screen, other]) {
      one.clear();
      one.type(`reprise attach ${handle} --direct; echo "ENDED $?"`);
      await one.shows(/demo> $/m);
    }
    screen.type("remember 1");
    await other.shows('You said "remember 1"');
    other.type("remember 2");
    await screen.shows('You said "remember 2"');
    screen.key("C-]");
    await screen.shows(/^ENDED 0$/m);
    other.type("remember 3");
    await other.shows('You said "remember 3"');
    other.type("/exit");
    await other.shows(/^ENDED 0$/m);
  });

  test("keeps its size for viewers without one, and tells them every change", async () => {
    const ask = String.raw`stty raw -echo; head -c 1 >/dev/null; printf '\033[6n'; head -c 6 | od -c -An; cat`;
    box.program("claude", ask);
    const handle = await box.detach("claude");
    using viewer = box.client(handle);
    using terminal = box.client(handle);
    const first = await viewer.call("attach", { from: 0 });
    expect(first["result"]).toMatchObject({ cols: 120, rows: 40 });
    // A viewer without a size is no terminal, so the holder answers the UI in its place.
    await viewer.call("write", { data: Buffer.from("x").toString("base64") });
    await until("its answer", () => /\[\s+1\s+;\s+1\s+R/.test(box.tape(handle).toString()));
    const second = await terminal.call("attach", { from: 0, cols: 90, rows: 30 });
    expect(second["result"]).toMatchObject({ cols: 90, rows: 30 });
    await terminal.call("resize", { cols: 90, rows: 30 });
    await terminal.call("resize", { cols: 80, rows: 24 });
    const sizes = await until("both changes", () => {
      const told = viewer.events("resized").map(({ data }) => [data["cols"], data["rows"]]);
      return told.length < 2 ? undefined : told;
    });
    expect(sizes).toEqual([
      [90, 30],
      [80, 24],
    ]);
    expect((await viewer.call("attach", { from: 0 }))["result"]).toMatchObject({ cols: 80, rows: 24 });
    await box.run(["stop", handle]);
    const attempt = join(box.runDirectory(handle), "attempts/1");
    const meta = JSON.parse(readFileSync(join(attempt, "meta.json"), "utf8"));
    expect(meta).toMatchObject({ terminal: { cols: 120, rows: 40 } });
    const recorded = readFileSync(join(attempt, "timing.jsonl"), "utf8").match(/"s":"r".*/g);
    expect(recorded).toEqual([
      '"s":"r","cols":120,"rows":40}',
      '"s":"r","cols":90,"rows":30}',
      '"s":"r","cols":80,"rows":24}',
    ]);
  });

  test("is readable afterwards: messages and answers instead of its screen", async () => {
    const handle = await box.detach("demo");
    using client = box.client(handle);
    await until("its prompt", () => box.tape(handle).toString().includes("demo>"));
    const type = (text: string) =>
      client.call("write", { data: Buffer.from(`${text}\r`).toString("base64") });
    await type("remember 4711");
    await until("its answer", () => box.tape(handle).toString().includes('You said "remember 4711"'));
    await type("/exit");
    await box.ended(handle);
    const { stdout } = await box.run(["logs", handle]);
    expect(stdout).toContain('\n> remember 4711\nYou said "remember 4711"');
    expect(stdout).not.toContain("demo>");
    const items = (await box.run(["logs", handle, "--json"])).stdout
      .trimEnd()
      .split("\n")
      .map((line): any => JSON.parse(line));
    expect(items[1]).toMatchObject({ attempt: 1, type: "message", text: "remember 4711" });
    const page = (await box.run(["export", handle, "--format", "markdown"])).stdout;
    expect(page).toMatch(/\*\*You\*\*\n\n> remember 4711\n\n\*\*demo\*\*\n\nYou said "remember 4711"/);
    expect((await box.run(["logs", handle, "--plain"])).stdout).toContain("demo>");
  });

  test("does not notice that a terminal is closed", async () => {
    const handle = await box.detach("demo");
    const other = new Screen(box, { name: "closed" });
    other.type(`reprise attach ${handle} --direct`);
    await other.shows(/demo> $/m);
    other.type("remember 4711");
    await other.shows('You said "remember 4711"');
    other[Symbol.dispose]();
    screen.clear();
    screen.type(`reprise attach ${handle} --direct; echo "ENDED $?"`);
    await screen.shows('You said "remember 4711"');
    screen.type("/exit");
    await screen.shows(/^ENDED 0$/m);
  });

  test("does not get old questions again, and its questions are answered while nobody looks", async () => {
    const ask = String.raw`stty raw -echo; printf 'asks \033[6n\033[c\r\n'; head -c 15 | od -c -An; stty sane; echo done; cat`;
    box.program("claude", ask);
    const handle = await box.detach("claude");
    await until("it got its answer", () => box.tape(handle).toString().includes("done"));
    expect(box.tape(handle).toString()).toMatch(/033\s+\[\s+1\s+;\s+1\s+R/);
    screen.clear();
    screen.type(`reprise attach ${handle} --direct; echo "ENDED $?"`);
    await screen.shows("done");
    screen.type("typed by hand");
    await screen.shows(/typed by hand\s+typed by hand/);
    // A terminal that had been asked would have typed its answer before.
    expect(box.tape(handle).toString()).not.toMatch(/\^\[\[\??\d+/);
    screen.key("C-]");
    await screen.shows(/^ENDED 0$/m);
    await box.run(["stop", handle]);
  });

  test("works in tmux on a separate server: Ctrl-] leaves, and killing tmux harms nothing", async () => {
    const handle = await box.detach("demo");
    const attach = `env -u TMUX reprise attach ${handle}; echo "ENDED $?"`;
    screen.clear();
    screen.type(attach);
    await screen.shows(/demo> $/m);
    expect(existsSync(join(box.runtime, "tmux.sock"))).toBe(true);
    screen.type("remember 4711");
    await screen.shows('You said "remember 4711"');
    await screen.answers("/size", "size 100x40");
    screen.key("C-]");
    expect(await screen.shows(/^ENDED 0$/m)).toContain("keeps running");
    screen.clear();
    screen.type(attach);
    await screen.shows('You said "remember 4711"');
    const inner = ["-S", join(box.runtime, "tmux.sock"), "kill-server"];
    expect(spawnSync("tmux", inner, { env: box.env() }).status).toBe(0);
    await screen.shows(/ENDED \d+/);
    expect(isAlive(box.pid(handle))).toBe(true);
    expect((await box.run(["stop", handle])).code).toBe(0);
  });
});

describe("the output that a client gets", () => {
  /** Prints numbered lines, waits for the file, prints some more and ends. */
  function printing(lines: number, delay: string): void {
    box.program(
      "claude",
      `i=0; while [ $i -lt ${lines} ]; do i=$((i+1)); echo "line $i of some text that fills a bit of space"; ${delay}; done\n` +
        `while [ ! -e '${box.root}/go' ]; do sleep 0.05; done; echo the end`,
    );
  }

  test("is complete for the last client after others were killed in the middle, every byte once", async () => {
    const times = Number(process.env["REPRISE_TEST_ATTACHES"] ?? 15);
    printing(times * 100, "sleep 0.002");
    const handle = await box.detach("claude");
    for (let n = 0; n < times; n += 1) {
      const client = box.spawn(["attach", handle, "--direct", "--raw"]);
      client.stdin?.end();
      const done = collect(client);
      await new Promise((resolve) => client.stdout?.once("data", resolve));
      await wait(n * 3);
      client.kill("SIGKILL");
      const { stdout } = await done;
      expect(box.tape(handle).toString().startsWith(stdout)).toBe(true);
    }
    const client = box.spawn(["attach", handle, "--direct", "--raw"]);
    client.stdin?.end();
    const last = collect(client);
    await new Promise((resolve) => client.stdout?.once("data", resolve));
    writeFileSync(join(box.root, "go"), "");
    const { stdout, stderr } = await last;
    expect(stderr).toContain("has ended: completed");
    expect(stdout).toBe(box.tape(handle).toString());
    expect(stdout).toContain(`line ${times * 100} of`);
    expect(stdout.trimEnd().endsWith("the end")).toBe(true);
  }, 120_000);

  test("reaches a stalled client in the end, without slowing an agent that prints 5 MB", async () => {
    box.program(
      "claude",
      `echo begins; while [ ! -e '${box.root}/stalled' ]; do sleep 0.05; done; head -c 5000000 /dev/zero | tr '\\0' x | fold -w 99; echo flooded; touch '${box.root}/flooded'; cat > /dev/null`,
    );
    const handle = await box.detach("claude");
    await until("the run", () => box.holder(handle));
    const client = box.spawn(["attach", handle, "--direct", "--raw"]);
    client.stdin?.end();
    const done = collect(client);
    await new Promise((resolve) => client.stdout?.once("data", resolve));
    process.kill(client.pid ?? 0, "SIGSTOP");
    writeFileSync(join(box.root, "stalled"), "");
    await until("it has printed everything", () => existsSync(join(box.root, "flooded")));
    // Nothing is kept in memory for it: it reads on from the tape.
    expect(residentMb(box.pid(handle))).toBeLessThan(90);
    process.kill(client.pid ?? 0, "SIGCONT");
    await until("the tape", () => box.tape(handle).toString().includes("flooded"));
    await box.call(handle, "write", { data: Buffer.from([4]).toString("base64") });
    await box.ended(handle);
    const { stdout } = await done;
    const tape = box.tape(handle).toString();
    expect(stdout).toBe(tape);
    expect(stdout.length).toBeGreaterThan(5_000_000);
  });
});

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

describe("typed messages", () => {
  async function idle(handle: string): Promise<void> {
    for (let tries = 0; tries < 200; tries += 1) {
      const { result } = await box.call(handle, "subscribe", {});
      if (result.activity.state === "idle" && result.certain === true) return;
      await wait(50);
    }
    throw new Error("never idle");
  }

  const said = () => box.journalEntries().filter(({ event }) => event === "message");

  test("arrive unchanged, once each, and have no effect even if hostile", async () => {
    const fresh = new HolderBox();
    using _ended = fresh;
    box = fresh;
    const handle = await box.detach("claude");
    const messages = [
      "remember 4711;",
      ";",
      "#(touch pwned) #{pane_id} `touch pwned` $(touch pwned)",
      "C-c Enter Escape",
      "-p --settings={}",
      "a\u001b[201~\rb\u0003",
      "two\nlines",
    ];
    for (const message of messages) {
      await idle(handle);
      expect((await box.call(handle, "send", { message }))["result"]).toEqual({ sent: "ok" });
    }
    expect(said().map(({ text }) => text)).toEqual([...messages.slice(0, 5), "a[201~\nb", "two\nlines"]);
    expect(existsSync(join(box.cwd, "pwned"))).toBe(false);
  });

  test("are refused while the agent works or asks, and the question stays open", async () => {
    const fresh = new HolderBox();
    using _ended = fresh;
    box = fresh;
    const handle = await box.detach("claude");
    await idle(handle);
    expect((await box.call(handle, "send", { message: "hello @@wait:3000 @@ask:rm" }))["result"]).toEqual({
      sent: "ok",
    });
    const working = (await box.call(handle, "send", { message: "1" }))["result"];
    expect(working).toEqual({ sent: "refused", why: "the agent is working" });
    await until("it asks", () => box.tape(handle).toString().includes("Do you want to proceed?"));
    await wait(600);
    const waiting = (await box.call(handle, "send", { message: "1" }))["result"];
    expect(waiting).toMatchObject({
      sent: "refused",
      why: expect.stringContaining("is waiting for permission"),
    });
    expect(box.journalEntries().filter(({ event }) => event === "approved" || event === "declined")).toEqual(
      [],
    );
    expect((await box.call(handle, "send", { message: " " }))["result"]).toEqual({
      sent: "refused",
      why: "the message is empty",
    });
  });

  test("are refused where the engine does not report that it is idle, and without a UI", async () => {
    const fresh = new HolderBox();
    using _ended = fresh;
    box = fresh;
    const ui = await box.detach("gemini");
    const headless = await box.detach("demo", "hello @@wait:5000");
    expect((await box.call(ui, "send", { message: "x" }))["result"]).toMatchObject({ sent: "refused" });
    expect((await box.call(headless, "send", { message: "x" }))["result"]).toMatchObject({
      sent: "refused",
      why: expect.stringContaining("no UI"),
    });
  });
});
