/** Pages of a run for other people, replays on a real terminal, and waiting in scripts. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { collect, Sandbox, until } from "./sandbox.ts";
import { HAS_TMUX, Screen } from "./screen.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const KEY = "sk-ant-REPRISE0canary0share0000001";

describe("export --format", () => {
  test("writes Markdown to a pipe and HTML to a file, with attempts, proof and tool calls", async () => {
    const { handle } = await box.json(["start", "demo", "fix <b>it</b> for @octocat @@tool:grep"]);
    await box.json(["resume", handle, "go on"]);
    const piped = await box.run(["export", handle, "--format", "markdown"]);
    expect(piped).toMatchObject({ code: 0, stderr: "" });
    expect(piped.stdout).toContain("## Attempt 2: resume, completed");
    expect(piped.stdout).toMatch(/^\*same conversation: Reprise asked for /m);
    expect(piped.stdout).toContain("<details><summary>1 tool call</summary>\n\n- `grep pretend grep`");
    expect(piped.stdout).toContain("> fix \\<b\\>it\\</b\\> for `@octocat`");
    const file = join(box.root, "page.html");
    const made = await box.json(["export", handle, "--format", "html", "--output", file]);
    const page = readFileSync(file, "utf8");
    expect(made).toMatchObject({ ok: true, handle, path: file, bytes: Buffer.byteLength(page), leftOut: [] });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(page).toContain("fix &lt;b&gt;it&lt;/b&gt; for @octocat");
    const again = await box.run(["export", handle, "--format", "html", "--output", file]);
    expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining("--force") });
    const one = await box.run(["export", handle, "--format", "markdown", "--attempt", "2", "--output", "-"]);
    expect(one.stdout).not.toContain("## Attempt 1");
  });

  test("refuses options that do not fit the format", async () => {
    const { handle } = await box.json(["start", "demo", "hello"]);
    const refusals = [
      [["--attempt", "1"], 2, "all attempts"],
      [["--format", "asciicast"], 3, "--format html"],
      [["--format", "html", "--attempt", "7"], 3, "no attempt 7"],
      [["--format", "html", "--output", "-", "--json"], 2, "not both"],
      [["--format", "html", "--output", join(box.state, "x.html")], 2, "state directory"],
    ] as const;
    for (const [args, code, words] of refusals) {
      const result = await box.run(["export", handle, ...args]);
      expect([args.join(" "), result.code]).toEqual([args.join(" "), code]);
      expect(result.stderr + result.stdout).toContain(words);
    }
  });

  test("leaves secrets out, and output whose secrets are no longer known", async () => {
    const { handle } = await box.json([
      ...["start", "demo", `remember ${KEY} @@tool:grep`],
      ...["--env", "LAB_TOKEN=correct-horse-1"],
    ]);
    for (const format of ["markdown", "html"]) {
      const { stdout } = await box.run(["export", handle, "--format", format, "--output", "-"]);
      expect(stdout).toContain("[redacted".replace("[", format === "markdown" ? "\\[" : "["));
      expect(stdout).not.toContain(KEY);
    }
  });
});

describe("replay without a terminal", () => {
  test("is refused, and names logs and export", async () => {
    const { handle } = await box.json(["start", "demo", "hello"]);
    const refused = await box.run(["replay", handle]);
    expect(refused).toMatchObject({ code: 2, stdout: "" });
    expect(refused.stderr).toContain(`reprise logs ${handle}`);
    expect(refused.stderr).toContain(`reprise export ${handle} --format html`);
    expect((await box.run(["replay", handle, "--speed", "0"])).code).toBe(2);
  });
});

describe("wait", () => {
  test("returns the exit codes of ended runs, the first that is not zero", async () => {
    const good = await box.json(["start", "demo", "hello"]);
    const bad = await box.run(["start", "demo", "hello @@429:reset=2000-01-01T00:00:00Z", "--json"]);
    const limited = JSON.parse(bad.stdout) as { handle: string };
    expect((await box.run(["wait", good["handle"]])).code).toBe(0);
    const both = await box.run(["wait", good["handle"], limited.handle, "--json"]);
    expect(both.code).toBe(75);
    expect(JSON.parse(both.stdout)).toMatchObject({
      ok: true,
      for: "end",
      runs: [
        { handle: good["handle"], status: "completed", met: true, exitCode: 0 },
        { handle: limited.handle, status: "failed", met: true, exitCode: 75 },
      ],
    });
    expect((await box.run(["wait", limited.handle, "--for", "reset"])).code).toBe(0);
    const none = await box.run(["wait", good["handle"], "--for", "reset", "--json"]);
    expect([none.code, JSON.parse(none.stdout)]).toMatchObject([3, { error: { code: "limit_unknown" } }]);
  });

  test("waits for a background run, gives up after --timeout with 124, and ends with 130 on Ctrl-C", async () => {
    const { handle } = await box.json(["start", "demo", "hello @@hang", "--detach"]);
    const late = await box.run(["wait", handle, "--timeout", "700ms", "--json"]);
    expect([late.code, JSON.parse(late.stdout)]).toMatchObject([124, { error: { code: "wait_timeout" } }]);
    // A signal that comes before the waiting begins ends the process as any other.
    let code: number | null = null;
    for (let patience = 1_000; code === null && patience < 60_000; patience *= 2) {
      const child = box.spawn(["wait", handle]);
      const waiting = collect(child);
      setTimeout(() => child.kill("SIGINT"), patience);
      ({ code } = await waiting);
    }
    expect(code).toBe(130);
    const other = collect(box.spawn(["wait", handle, "--json"]));
    await box.run(["stop", handle]);
    expect(await other).toMatchObject({ code: 130 });
  });

  test("counts a run whose owner was killed as interrupted", async () => {
    const started = box.spawn(["start", "demo", "hello @@hang", "--json"]);
    const ended = collect(started);
    const handle = await until("the run is listed", () => {
      const entry = box.runDirectories().map((path) => readMeta(path));
      return entry.find((one) => one?.["owner"]?.pid === started.pid)?.["handle"] as string | undefined;
    });
    const waiting = collect(box.spawn(["wait", handle, "--json"]));
    started.kill("SIGKILL");
    await ended;
    const { code, stdout } = await waiting;
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { runs: [{ status: "interrupted" }] }]);
  });
});

function readMeta(path: string): Record<string, any> | null {
  try {
    const run = JSON.parse(readFileSync(join(path, "run.json"), "utf8")) as Record<string, any>;
    const meta = JSON.parse(readFileSync(join(path, "attempts/1/meta.json"), "utf8")) as Record<string, any>;
    return meta["state"] === "running" ? { ...meta, handle: run["handle"] } : null;
  } catch {
    return null;
  }
}

describe.skipIf(!HAS_TMUX)("replay in a terminal", () => {
  let screen: Screen;
  let handle: string;
  beforeAll(async () => {
    if (!HAS_TMUX) return;
    screen = new Screen(box, { cols: 80, rows: 24 });
    // A UI that draws, asks the terminal, sets a title and fills the clipboard.
    box.program(
      "claude",
      String.raw`case "$*" in *--version*) echo "2.1.0 (Claude Code)"; exit 0;; esac
printf '\033[?1049h\033[2J\033[31mRED FRAME\033[0m\033[c\033[6n\033]0;EVIL TITLE\007\033]52;c;RVZJTA==\007\033[?1000h\033[?2004h'
sleep 0.3
printf '\033[5;1Hsecret ${KEY.slice(0, 20)}'
sleep 0.3
printf '${KEY.slice(20)} \033[10;1Hsize '; stty size
sleep 1.5
printf '\033[12;1HLAST WORDS'
sleep 3
printf '\033[?1049l'`,
    );
    screen.clear();
    screen.type('reprise start claude; echo "ENDED $?"');
    const text = await screen.shows(/^ENDED \d+$/m, 60_000);
    handle = /\b([0-9a-f]{8})\b/.exec(text)?.[1] ?? "";
  });
  afterAll(() => {
    if (HAS_TMUX) screen[Symbol.dispose]();
  });

  const facts = () =>
    screen.facts("#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{pane_title}");

  test("draws the frames, leaks no reply, title or clipboard, and leaves the terminal as it was", async () => {
    // The UI itself set both when it ran.
    screen.tmux("select-pane", "-T", "plain");
    screen.tmux("delete-buffer");
    await screen.command("printf 'BEFORE\\n'");
    const before = [facts(), screen.text().trimEnd()];
    screen.type(`reprise replay ${handle} --speed 1; echo "ENDED $?"`);
    await screen.shows("RED FRAME");
    await screen.shows("size 24 80");
    screen.key("Space");
    await screen.shows(/paused 00:0\d\/00:0\d 1x/);
    expect(screen.painted()).toContain("\u001b[31mRED FRAME");
    screen.key("+");
    await screen.shows("2x");
    screen.resize(60, 20);
    await screen.shows("cut: recorded at 80x24");
    screen.resize(80, 24);
    screen.key("Right");
    await screen.shows("LAST WORDS");
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
    expect(facts()).toBe(before[0]);
    expect(screen.text()).toContain(before[1] ?? "");
    expect(screen.text()).not.toMatch(/EVIL|\[\?|;\d+R|RED FRAME/);
    expect(screen.tmux("show-buffer")).toBe("");
  });

  test("ends with 130 on Ctrl-C and on SIGTERM, with the terminal restored", async () => {
    const before = facts();
    for (const how of ["C-c", "SIGTERM"]) {
      screen.clear();
      screen.type(`reprise replay ${handle} --speed 0.1; echo "ENDED $?"`);
      await screen.shows("RED FRAME");
      if (how === "C-c") screen.key("C-c");
      else {
        const pid = screen.facts("#{pane_pid}");
        const child = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0];
        process.kill(Number(child), "SIGTERM");
      }
      await screen.shows(/^ENDED 130$/m);
      expect(facts()).toBe(before);
    }
    const { text } = await screen.command("stty -a");
    expect(text).toMatch(/[ \n]icanon\b.*[ \n]echo\b/s);
  });

  test("an asciicast holds drawn frames with times, without the agent's own sequences and without a half-drawn secret", async () => {
    const { code, stdout } = await box.run(["export", handle, "--format", "asciicast"]);
    expect(code).toBe(0);
    const [header, ...events] = stdout
      .trimEnd()
      .split("\n")
      .map((line): any => JSON.parse(line));
    expect(header).toMatchObject({ version: 2, width: expect.any(Number), height: expect.any(Number) });
    expect(events.length).toBeGreaterThan(1);
    const drawn = events.map(([, , data]) => data as string).join("");
    expect(drawn).toContain("RED FRAME");
    expect(drawn).toContain("LAST WORDS");
    expect(drawn).not.toMatch(/EVIL|\u001b\]|\u001b\[(?:c|6n|\?1049|\?1000)/);
    expect(drawn).not.toContain(KEY.slice(0, 12));
    expect(drawn).toContain("secret ••••••");
  });

  test("plays at an even pace without times, and headless runs as lines with times", async () => {
    const { runDirectory } = await box.json(["show", handle]);
    writeFileSync(join(runDirectory, "attempts/1/timing.jsonl"), "");
    screen.clear();
    screen.type(`reprise replay ${handle}; echo "ENDED $?"`);
    await screen.shows("end 00:00");
    screen.key("q");
    expect(await screen.shows(/^ENDED 0$/m)).toContain("even pace");
    const { handle: headless } = await box.json(["start", "demo", "hello @@tool:grep"]);
    screen.clear();
    screen.type(`reprise replay ${headless}; echo "ENDED $?"`);
    const shown = await screen.shows(/end 00:0\d/);
    expect(shown).toMatch(/^00:0\d {2}⚙ grep pretend grep$/m);
    expect(shown).toMatch(/^00:0\d {2}You said "hello"/m);
    screen.key("q");
    await screen.shows(/^ENDED 0$/m);
  });
});
