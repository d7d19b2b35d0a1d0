/** Names, tags, titles and lists: how a person finds a run. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HAS_TMUX, Screen } from "./screen.ts";
import { collect, Sandbox, until } from "./sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

const start = async (...args: string[]): Promise<string> =>
  (await box.json(["start", "demo", ...args]))["handle"] as string;
const handles = async (args: readonly string[], cwd = box.cwd): Promise<readonly string[]> =>
  (await box.run(["list", "--handles", ...args], { cwd })).stdout.split("\n").filter(Boolean);
const run = async (handle: string): Promise<Record<string, any>> => await box.json(["show", handle]);

/** A run in the background whose agent works until it is stopped. */
async function live(...args: string[]): Promise<string> {
  const handle = await start("x @@hang", "--detach", ...args);
  await until("the agent works", () => box.journalEntries().some(({ pid }) => pid !== undefined));
  return handle;
}

describe("a name", () => {
  test("stands for the handle, in any case, and never for another run's handle or prefix", async () => {
    const one = await start("first", "--name", "Cart rename");
    const two = await start("second");
    for (const given of ["Cart rename", "cart RENAME", one, one.slice(0, 6)])
      expect((await run(given))["handle"]).toBe(one);
    // A name that is the beginning of another run's handle.
    const prefix = two.slice(0, 4);
    expect((await box.run(["rename", one, prefix])).code).toBe(0);
    const refused = await box.json(["show", prefix]);
    expect(refused).toMatchObject({ ok: false, error: { code: "handle_ambiguous" } });
    expect(refused["error"]["facts"]["handles"].toSorted()).toEqual([one, two].toSorted());
    expect((await run(two))["handle"]).toBe(two);
    // Resume takes the name as well.
    await box.run(["rename", one, "cart"]);
    expect(await box.json(["resume", "cart", "go on"])).toMatchObject({ ok: true, handle: one });
  });

  test("that several ended runs have is refused, with what tells them apart", async () => {
    const one = await start("first task", "--name", "same");
    const two = await start("second task", "--name", "same");
    const { code, stderr } = await box.run(["show", "same"]);
    expect(code).toBe(2);
    expect(stderr).toContain(`"same" fits 2 runs: ${two} (same, demo, `);
    expect(stderr).toContain(one);
    expect((await box.json(["show", "same"]))["error"]["facts"]).toMatchObject({
      given: "same",
      handles: [two, one],
    });
  });

  test("of a live run belongs to it alone until it ends", async () => {
    const ended = await start("x", "--name", "cart");
    const handle = await live("--name", "busy");
    const again = await box.json(["start", "demo", "x", "--name", "busy"]);
    expect(again).toMatchObject({
      ok: false,
      error: { code: "name_taken", facts: { handle, name: "busy" } },
    });
    expect(await box.json(["rename", ended, "busy"])).toMatchObject({ error: { code: "name_taken" } });
    expect(await handles([])).toHaveLength(2);
    expect((await box.run(["rename", handle, "busy"])).code).toBe(0);
    await box.run(["stop", "busy"]);
    expect((await box.run(["rename", ended, "busy"])).code).toBe(0);
  });

  test.each([
    ["begins with a dash", "-x"],
    ["is a handle", "1A2B3C4D"],
    ["is a run id", "20260101T000000Z-demo-1a2b3c4d"],
    ["has a line break", "a\nb"],
    ["has control characters", "\u001b]0;x\u0007"],
    ["has 101 characters", "x".repeat(101)],
    ["is blank", "  "],
  ])("that %s is refused", async (_why, name) => {
    const handle = await start("x");
    const refused = await box.run(["rename", "--", handle, name]);
    expect(refused).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("name") });
    expect((await run(handle))["name"]).toBeNull();
  });

  test("with blanks and 100 characters is found, and --clear removes it", async () => {
    const name = `a ${"é".repeat(97)}b`;
    const handle = await start("x", "--name", name);
    expect((await run(name))["handle"]).toBe(handle);
    expect((await box.run(["rename", name, "--clear"])).stdout).toBe(`Run ${handle} now has no name.\n`);
    expect((await box.json(["show", name]))["error"]["code"]).toBe("handle_invalid");
    expect((await box.run(["rename", handle])).code).toBe(2);
    expect((await box.run(["rename", handle, "x", "--clear"])).code).toBe(2);
  });
});

describe("a label", () => {
  test("given while the agent works outlives the owner's own records", async () => {
    const handle = await live("--name", "before", "--tag", "one");
    expect((await box.run(["rename", handle, "after"])).code).toBe(0);
    expect((await box.run(["tag", handle, "+two", "-one"])).stdout).toBe("two\n");
    expect(await handles(["--name", "after", "--tag", "two"])).toEqual([handle]);
    await box.run(["stop", handle]);
    const ended = await run("after");
    expect(ended).toMatchObject({ handle, name: "after", tags: ["two"] });
    expect(ended["status"]).not.toBe("running");
    // Neither the record of the owner nor an index made of the directories has the older label.
    rmSync(join(box.state, "index.db"));
    expect(await handles(["--name", "after", "--tag", "two"])).toEqual([handle]);
    expect(await box.json(["resume", "after", "go on"])).toMatchObject({ ok: true, handle });
    expect(await run(handle)).toMatchObject({ name: "after", tags: ["two"], attempts: 2 });
  });

  test("given while the agent works outlives an owner that was killed", async () => {
    const child = box.spawn(["start", "demo", "x @@hang", "--name", "before"]);
    const ended = collect(child);
    await until("the agent works", () => box.journalEntries().some(({ pid }) => pid !== undefined));
    expect((await box.run(["rename", "before", "after"])).code).toBe(0);
    child.kill("SIGKILL");
    await ended;
    const found = await run("after");
    expect(found).toMatchObject({ status: "interrupted", name: "after" });
    expect(await handles(["--name", "before"])).toEqual([]);
    await box.run(["stop", "after"]);
  });

  test("whose writer died before the index had it is taken from the run directory", async () => {
    const handle = await start("x", "--name", "before");
    await box.run(["rename", handle, "after"]);
    const [directory = ""] = box.runDirectories();
    const file = join(directory, "label.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ v: 1, name: "after", relabelled: 1 });
    writeFileSync(file, JSON.stringify({ v: 1, name: "last", relabelled: 2 }));
    expect((await run(handle))["name"]).toBe("last");
    expect(await handles(["--name", "last"])).toEqual([handle]);
    // A label that cannot be read hides no run.
    writeFileSync(file, "{");
    expect((await run(handle))["name"]).toBe("last");
    expect((await box.run(["rename", handle, "again"])).code).toBe(0);
    expect((await run("again"))["handle"]).toBe(handle);
  });

  test.each(["+a b", "+a,b", "+", `+${"x".repeat(41)}`, "+\u001b[2J", "+-x", "x"])(
    "with the change %j is refused",
    async (change) => {
      const handle = await start("x");
      expect(await box.run(["tag", handle, change])).toMatchObject({ code: 2, stdout: "" });
    },
  );

  test("has at most 20 tags, each once", async () => {
    const many = Array.from({ length: 20 }, (_, n) => `t${n}`);
    const handle = await start("x", "--tag", "t0", "--tag", "t0");
    expect((await box.json(["tag", handle, ...many.map((tag) => `+${tag}`)]))["tags"]).toEqual(many);
    expect(await box.run(["tag", handle, "+more"])).toMatchObject({ code: 2 });
    expect((await box.json(["tag", handle, "-t0", "--add", "more"]))["tags"]).toContain("more");
    expect((await box.run(["tag", handle, "+x", "-x"])).code).toBe(2);
  });
});

describe("list", () => {
  test("begins with the run last used, or sorts by another measure", async () => {
    const one = await start("first task");
    const two = await start("second task @@exit:1");
    expect(await handles([])).toEqual([two, one]);
    await box.run(["resume", one, "go on"]);
    expect(await handles([])).toEqual([one, two]);
    expect(await handles(["--sort", "created"])).toEqual([two, one]);
    expect(await handles(["--sort", "tokens"])).toEqual([one, two]);
    expect(await handles(["--sort", "duration", "--limit", "1"])).toHaveLength(1);
    expect((await box.run(["list", "--sort", "size"])).code).toBe(2);
  });

  test("finds text in title, name, tags, folder, engine and handle, in any case", async () => {
    const one = await start("Rename the CART module", "--tag", "shop");
    const two = await start("x", "--name", "Größe 100%");
    for (const [text, found] of [
      ["cart mod", [one]],
      ["SHOP", [one]],
      ["GRÖSSE", []],
      ["größe 100%", [two]],
      ["DEMO", [two, one]],
      [box.cwd.slice(-12), [two, one]],
      [two, [two]],
      ["%", [two]],
      ["no such text", []],
    ] as const)
      expect([text, await handles(["--grep", text])]).toEqual([text, found]);
    expect(await handles(["--tag", "shop", "--tag", "none"])).toEqual([]);
  });

  test("with --here shows the same folder of the repository's worktrees, and runs no program", async () => {
    const git = (...args: string[]) =>
      execFileSync("git", ["-c", "user.name=x", "-c", "user.email=x@x", ...args], { cwd: box.cwd });
    git("init", "-q");
    mkdirSync(join(box.cwd, "sub"));
    git("commit", "-q", "--allow-empty", "-m", "x");
    const other = join(box.root, "other");
    git("worktree", "add", "-q", other);
    mkdirSync(join(other, "sub"));
    const inMain = await start("one");
    const { handle: inOther } = await box.json(["start", "demo", "two"], { cwd: other });
    const { handle: inSub } = await box.json(["start", "demo", "three"], { cwd: join(other, "sub") });
    const isolated = await start("four", "--isolate", "worktree");
    expect(await handles(["--here"])).toEqual([isolated, inOther, inMain]);
    expect(await handles(["--here"], other)).toEqual([isolated, inOther, inMain]);
    expect(await handles(["--here"], join(box.cwd, "sub"))).toEqual([inSub]);
  });

  test("with --last resumes the run last used that can be resumed", async () => {
    const one = await start("first");
    const two = await start("second");
    await start("third @@die:before-session");
    await box.run(["resume", one, "go on"]);
    expect(await box.json(["resume", "--last", "more"])).toMatchObject({ handle: one });
    await box.run(["resume", two, "go on"]);
    expect(await box.json(["resume", "--last", "more"])).toMatchObject({ handle: two });
  });

  test.each([[[]], [["--json"]], [["--handles"]]])("--watch with %j is refused in a pipe", async (more) => {
    expect((await box.run(["list", "--watch", ...more])).code).toBe(2);
  });

  test.skipIf(!HAS_TMUX)(
    "with --watch draws again when a run changes, and restores the terminal",
    async () => {
      const handle = await start("first task");
      using screen = new Screen(box, { cols: 80, rows: 24 });
      screen.type('reprise list --watch; echo "LEFT $?"');
      await screen.shows(new RegExp(`^${handle} +demo +completed .*first task`, "m"));
      await box.run(["rename", handle, "another name"]);
      await screen.shows(/another name/);
      expect(screen.facts("#{alternate_on}")).toBe("1");
      screen.key("q");
      await screen.shows(/^LEFT 0$/m);
      expect(screen.facts("#{cursor_flag} #{alternate_on}")).toBe("1 0");
      screen.type('reprise list -w; echo "LEFT $?"');
      await until("the table is shown again", () => screen.facts("#{alternate_on}") === "1");
      screen.key("C-c");
      await screen.shows(/^LEFT 130$/m);
    },
  );
});
