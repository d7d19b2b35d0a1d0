/** On a real terminal: the readable live view, Ctrl-C, and the engine's own UI, recorded and continued. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: Sandbox;
let screen: Screen;
beforeAll(() => {
  if (!HAS_TMUX) return;
  box = new Sandbox();
  screen = new Screen(box);
});
afterAll(() => {
  if (!HAS_TMUX) return;
  screen[Symbol.dispose]();
  box[Symbol.dispose]();
});

function handleIn(text: string): string {
  return /^handle\s+([0-9a-f]{8})/m.exec(text)?.[1] ?? "";
}

/** The shell behaves as before: it echoes, edits lines and knows its size. */
async function expectSaneTerminal(): Promise<void> {
  const { text } = await screen.command("stty -a");
  for (const mode of ["icanon", "echo", "isig", "opost", "icrnl"])
    expect(text).toMatch(new RegExp(`[ \\n]${mode}\\b`));
  expect(screen.facts("#{cursor_flag} #{alternate_on} #{mouse_any_flag} #{keypad_cursor_flag}")).toBe(
    "1 0 0 0",
  );
}

describe.skipIf(!HAS_TMUX)("the live view", () => {
  test("shows text as it comes, tools and retries one line each, a status line while it lasts, tokens at the end", async () => {
    screen.clear();
    screen.type(`reprise start demo 'fix it @@tool:grep @@retry:100 @@long-tool:2600'; echo "ENDED $?"`);
    await screen.shows(/^\d+(\.\d)? s · attempt 1 · shell for \d/m);
    const text = await screen.shows(/^ENDED 0$/m);
    const lines = text.trimEnd().split("\n");
    expect(lines.slice(1, 5)).toEqual([
      "⚙ grep pretend grep",
      "↻ rate_limited, the engine tries again in 100 ms: Too many requests.",
      "⚙ shell pretend shell",
      `You said "fix it". This is our first exchange. model=demo-1 mood=plain access=read allow=none cwd=${box.cwd}`,
    ]);
    expect(lines[5]).toMatch(/^tokens {3}10 in, \d+ out, \d/);
    expect(lines[6]).toMatch(/^handle {3}[0-9a-f]{8} {3}\(reprise resume [0-9a-f]{8} "…"\)$/);
    expect(lines[7]).toMatch(/^run {6}\//);
    expect(lines[8]).toMatch(/^session {2}session_id [0-9a-f-]{36}$/);
    // The status line is gone without a trace, and no sequence is left over as text.
    expect(lines.slice(9)).toEqual(["ENDED 0", expect.any(String)]);
    expect(text).not.toMatch(/\[\d*[mKJ]|attempt 1|\u001b/);
    expect(screen.painted()).toContain("\u001b[36m⚙ grep");
  });

  test("the bell rings at the end if the config asks for it", async () => {
    const config = join(box.home, ".config/reprise/config.toml");
    mkdirSync(dirname(config), { recursive: true });
    const rings = async (text: string) => {
      writeFileSync(config, text);
      const { code } = await screen.command("script -qec 'reprise start demo hello' typescript");
      expect(code).toBe(0);
      return readFileSync(join(box.cwd, "typescript"), "latin1").includes("\u0007");
    };
    try {
      expect([await rings("[notify]\nbell = true\n"), await rings("")]).toEqual([true, false]);
    } finally {
      rmSync(config);
    }
  });

  test("shows native output with --raw, no colour with NO_COLOR and TERM=dumb, and a failure at the end", async () => {
    const raw = await screen.command("reprise start demo hello --raw");
    expect(raw.text).toContain('{"type":"turn.started"}');
    const plain = await screen.command("NO_COLOR=1 reprise start demo 'hello @@tool:grep'");
    expect(plain.text).toContain("⚙ grep");
    expect(screen.painted()).not.toMatch(/\u001b\[(1|2|3\d)m/);
    await screen.command("TERM=dumb reprise start demo 'hello @@tool:grep'");
    expect(screen.painted()).not.toMatch(/\u001b\[(1|2|3\d)m/);
    const limited = await screen.command("reprise start demo 'hello @@429:reset=2030-01-01T00:00:00Z'");
    expect(limited.code).toBe(75);
    expect(limited.text).toMatch(/✗ .*\n/);
    expect(limited.text).toContain("2030-01-01T00:00:00");
  });

  test("cancels on one Ctrl-C with exit 130, and the conversation continues", async () => {
    screen.clear();
    screen.type(`reprise start demo 'remember 4711 @@slow:300'; echo "ENDED $?"`);
    await screen.shows(/^You said/m);
    screen.key("C-c");
    const text = await screen.shows(/^ENDED \d+$/m);
    expect(text).toMatch(/^ENDED 130$/m);
    expect(text).toContain("cancelled:");
    const handle = handleIn(text);
    expect(await box.json(["show", handle])).toMatchObject({ status: "cancelled" });
    await expectSaneTerminal();
    const resumed = await box.json(["resume", handle, "what do you remember?"]);
    expect(resumed).toMatchObject({ ok: true });
    expect(resumed["text"]).toContain("4711");
  });
});

describe.skipIf(!HAS_TMUX)("the engine's own UI", () => {
  /** Opens a UI with one exchange in it. */
  async function chat(command: string, message: string): Promise<void> {
    screen.clear();
    screen.type(`${command}; echo "ENDED $?"`);
    await screen.shows(/^\w+> $/m);
    screen.type(message);
    await screen.shows(new RegExp(`You said "${message}"`));
  }

  async function leave(): Promise<string> {
    screen.type("/exit");
    return screen.shows(/^ENDED \d+$/m);
  }

  test.each(["demo", "claude", "codex"])(
    "%s: opens, is used, resized, left, and reopened with its memory",
    async (engine) => {
      await chat(`reprise start ${engine}`, "remember 4711");
      await screen.answers("/size", "size 100x40");
      screen.resize(90, 30);
      await screen.answers("/size", "size 90x30");
      screen.resize(100, 40);
      const left = await leave();
      expect(left).toMatch(/^ENDED 0$/m);
      const handle = handleIn(left);
      const first = await box.json(["show", handle]);
      expect(first).toMatchObject({ status: "completed", launch: { interactive: true, mode: "pty" } });
      expect(first["session"].value).toBe(sessionOfLastAgent());
      const tape = readFileSync(join(first["runDirectory"], "attempts/1/pty-output.log"), "utf8");
      expect(tape).toContain("size 90x30");
      const { stdout } = await box.run(["logs", handle, "--plain"]);
      expect(stdout).toContain("remember 4711");

      await chat(`reprise resume ${handle}`, "what was it");
      await screen.shows(/I remember \d earlier messages?: "remember 4711"/);
      await leave();
      const second = await box.json(["show", handle]);
      expect(second).toMatchObject({
        status: "completed",
        attempts: 2,
        session: { value: first["session"].value },
      });
      expect(second["history"][1]).toMatchObject({ kind: "resume", interactive: true });
      const headless = await box.json(["resume", handle, "and now without a terminal"]);
      expect(headless["text"]).toContain("4711");
      expect(headless).toMatchObject({ ok: true, session: { value: first["session"].value } });
      await expectSaneTerminal();
    },
  );

  test.each(["demo", "claude"])(
    "%s: /clear is no divergence, and the new conversation continues",
    async (engine) => {
      await chat(`reprise start ${engine}`, "remember 4711");
      const before = sessionOfLastAgent();
      screen.type("/clear");
      await screen.shows("A new conversation begins");
      screen.type("remember 1234");
      await screen.shows('You said "remember 1234"');
      const after = sessionOfLastAgent();
      expect(after).not.toBe(before);
      await recorded(engine, after);
      const left = await leave();
      const handle = handleIn(left);
      const record = await box.json(["show", handle]);
      expect(record).toMatchObject({ status: "completed", session: { value: after } });
      expect(JSON.stringify(record["history"][0].reported)).toContain(after);
      expect(JSON.stringify(record["sessions"])).toContain(before);

      await chat(`reprise resume ${handle}`, "what was it");
      await screen.shows('I remember 1 earlier message: "remember 1234"');
      screen.type("/clear");
      await screen.shows("A new conversation begins");
      screen.type("remember 99");
      await screen.shows('You said "remember 99"');
      await recorded(engine, sessionOfLastAgent());
      expect(await leave()).toMatch(/^ENDED 0$/m);
      expect(await box.json(["show", handle])).toMatchObject({
        status: "completed",
        session: { value: sessionOfLastAgent() },
      });
    },
  );

  test("a conversation of another run in the same directory is not taken for the UI's own", async () => {
    screen.clear();
    screen.type('reprise start codex; echo "ENDED $?"');
    await screen.shows(/^codex> $/m);
    const other = await box.json(["start", "codex", "remember 1234"]);
    screen.type("remember 4711");
    await screen.shows('You said "remember 4711"');
    const own = sessionOfLastAgent();
    const handle = handleIn(await leave());
    expect((await box.json(["show", handle]))["session"].value).toBe(own);
    expect(own).not.toBe(other["session"].value);
  });

  test("Ctrl-C belongs to the UI", async () => {
    await chat("reprise start demo", "remember 4711");
    screen.key("C-c");
    const text = await screen.shows(/^ENDED \d+$/m);
    // The agent says good-bye itself: it got the key, Reprise did not end it.
    expect(text).toContain("Resume this session with:");
    expect(await box.json(["show", handleIn(text)])).toMatchObject({
      session: { value: sessionOfLastAgent() },
    });
    await expectSaneTerminal();
  });

  test("is listed as interrupted and resumable after kill -9 of Reprise", async () => {
    const known = new Set(box.runDirectories());
    await chat("reprise start demo", "remember 4711");
    const directory = await until("the run", () => box.runDirectories().find((one) => !known.has(one)));
    const handle = directory.slice(-8);
    const live = (await box.json(["show", handle]))["live"];
    const agent = box.journalEntries().findLast((entry) => entry["event"] === "start")?.["pid"];
    process.kill(live.pid, "SIGKILL");
    await screen.shows(/^ENDED 137$/m);
    const list = await box.run(["list"]);
    expect(list.stdout).toMatch(new RegExp(`${handle}\\s+demo\\s+interrupted`));
    await until("the agent is gone", () => !existsSync(`/proc/${agent}`));
    // The terminal was in raw mode when its owner died; that is the shell's to repair.
    screen.tmux("respawn-pane", "-k", "-t", "screen", "sh");
    await chat(`reprise resume ${handle}`, "what was it");
    await screen.shows('I remember 1 earlier message: "remember 4711"');
    expect(await leave()).toMatch(/^ENDED 0$/m);
  });

  test("gives the terminal back when the agent dies, and the run resumes", async () => {
    await chat("reprise start demo", "remember 4711");
    screen.type("@@die");
    const text = await screen.shows(/^ENDED \d+$/m);
    expect(text).toMatch(/^ENDED 1$/m);
    expect(text).toContain("interrupted:");
    await expectSaneTerminal();
    const resumed = await box.json(["resume", handleIn(text), "go on"]);
    expect(resumed["text"]).toContain("4711");
  });

  /** Claude's registry tells while it lives; elsewhere the session files tell afterwards. */
  async function recorded(engine: string, session: string): Promise<void> {
    if (engine !== "claude") return;
    const files = box.runDirectories().map((directory) => join(directory, "run.json"));
    await until("the new id is on disk", () =>
      files.some((file) => readFileSync(file, "utf8").includes(session)),
    );
  }

  function sessionOfLastAgent(): string {
    return box.journalEntries().findLast((entry) => entry["event"] === "message")?.["session"];
  }
});
