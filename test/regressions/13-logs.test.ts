/** Issue 13: `logs` is readable and harmless, on a terminal and in a pipe, across attempts; the tape needs `--raw`. */
import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HolderBox } from "../e2e/holder-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { CLI, collect, until } from "../e2e/sandbox.ts";
import { HAS_TMUX, Screen } from "../e2e/screen.ts";

let box: HolderBox;
beforeAll(() => {
  box = new HolderBox();
});
afterAll(() => box[Symbol.dispose]());

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;
const WHEN = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`;

/** Questions to the terminal, a title, a screen drawn by rows. */
const UI = String.raw`\033[c\033[6n\033]0;owned\007\033[2J\033[1;1Hfirst row\033[3;1Hthird row\r\n`;

/** A run of a UI that has ended. */
async function uiRun(): Promise<string> {
  box.program("claude", `stty -echo; printf '${UI}'`);
  const handle = await box.detach("claude");
  await box.ended(handle);
  return handle;
}

/** A headless run with two attempts, the second of which failed. */
async function twoAttempts(): Promise<string> {
  const { handle } = await box.json(["start", "demo", "fix it @@tool:grep @@retry:10"]);
  await box.run(["resume", handle, "and more @@429"]);
  return handle as string;
}

describe("a pipe", () => {
  test("gets harmless text of a UI, as its screen showed it, and the exact tape with --raw", async () => {
    const handle = await uiRun();
    const piped = await box.run(["logs", handle]);
    expect(piped.code).toBe(0);
    expect(piped.stdout).not.toMatch(CONTROLS);
    expect(piped.stdout).toMatch(
      new RegExp(`^attempt 1 · start · ${WHEN} · \\w+.*\nfirst row\n\nthird row\n$`),
    );
    for (const more of [["--stream", "stdout"], ["--plain"], ["--redacted"], ["-f"]]) {
      const { stdout } = await box.run(["logs", handle, ...more]);
      expect([more, CONTROLS.test(stdout), stdout.includes("third row")]).toEqual([more, false, true]);
    }
    const raw = spawnSync(process.execPath, [CLI, "logs", handle, "--raw"], { env: box.env(), cwd: box.cwd });
    expect(raw.stdout.equals(box.tape(handle))).toBe(true);
    expect(raw.stdout.includes("\x1b[6n")).toBe(true);
  });

  test("gets harmless text from `attach`, and every byte with --raw", async () => {
    const go = join(box.root, "go");
    box.program("claude", `printf '${UI}'; while [ ! -e '${go}' ]; do sleep 0.05; done`);
    const handle = await box.detach("claude");
    const clients = [box.spawn(["attach", handle]), box.spawn(["attach", handle, "--raw"])];
    const seen = clients.map((client) => ({ text: "", client }));
    for (const one of seen) one.client.stdout?.on("data", (chunk: Buffer) => (one.text += chunk.toString()));
    const [text, raw] = clients.map(collect);
    await until("both have it", () => seen.every((one) => one.text.includes("third row")));
    writeFileSync(go, "");
    expect((await text)?.stdout).not.toMatch(CONTROLS);
    expect((await raw)?.stdout).toBe(box.tape(handle).toString());
  });
});

describe("a run without a UI", () => {
  test("reads like the live view, in all attempts, with each message and end", async () => {
    const handle = await twoAttempts();
    const { code, stdout } = await box.run(["logs", handle]);
    expect(code).toBe(0);
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(new RegExp(`^attempt 1 · start · ${WHEN} · completed after \\S+ m?s$`)),
      "> fix it @@tool:grep @@retry:10",
      "⚙ grep pretend grep",
      "↻ rate_limited, the engine tries again in 10 ms: Too many requests.",
      expect.stringMatching(/^You said "fix it". This is our first exchange. model=demo-1 .* cwd=\//),
      "",
      expect.stringMatching(new RegExp(`^attempt 2 · resume · ${WHEN} · failed after \\S+ m?s: `)),
      "> and more @@429",
      "✗ Too many requests.",
      "",
    ]);
    const second = await box.run(["logs", handle, "--attempt", "2"]);
    expect(stdout.endsWith(`\n${second.stdout}`)).toBe(true);
    expect(second.stdout).toMatch(/^attempt 2 /);
  });

  test("gives its events as JSON lines with --json", async () => {
    const handle = await twoAttempts();
    const { code, stdout } = await box.run(["logs", handle, "--json"]);
    const items = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, any>);
    expect(code).toBe(0);
    expect(items.every((item) => item["attempt"] === 1 || item["attempt"] === 2)).toBe(true);
    const heads = items.filter((item) => item["type"] === "attempt");
    expect(heads).toMatchObject([
      {
        attempt: 1,
        kind: "start",
        outcome: { result: "completed" },
        message: "fix it @@tool:grep @@retry:10",
      },
      { attempt: 2, kind: "resume", outcome: { result: "failed" } },
    ]);
    expect(items.filter((item) => item["type"] === "tool" && item["state"] === "started")).toMatchObject([
      { attempt: 1, name: "grep", stream: "stdout" },
    ]);
    const said = items.map((item) => (item["type"] === "text" ? item["text"] : "")).join("");
    expect(said).toContain('You said "fix it". This is our first exchange.');
    for (const other of [["--raw"], ["--plain"], ["--stream", "events"]])
      expect((await box.run(["logs", handle, "--json", ...other])).code).toBe(2);
  });

  test("whose engine printed text instead of JSON is shown as that text", async () => {
    box.program("claude", String.raw`cat >/dev/null; printf 'plain words\n\033[31mof the model\033[0m\n'`);
    const { handle } = await box.json(["start", "claude", "hello", "--", "--output-format", "text"]);
    const { stdout } = await box.run(["logs", handle]);
    expect(stdout.split("\n").slice(1)).toEqual(["> hello", "plain words", "of the model", ""]);
    const go = join(box.root, "spoken");
    box.program("claude", `cat >/dev/null; echo live words; while [ ! -e '${go}' ]; do sleep 0.05; done`);
    const text = ["--", "--output-format", "text"];
    const live = (await box.run(["start", "claude", "hello", "--detach", ...text])).stdout.trim();
    for (const args of [
      ["attach", live],
      ["logs", live, "-f"],
    ]) {
      const client = box.spawn(args);
      const ended = collect(client);
      let seen = "";
      client.stdout?.on("data", (chunk: Buffer) => (seen += chunk.toString()));
      await until(`${args[0]} shows it`, () => seen.includes("live words"));
      client.kill("SIGINT");
      await ended;
    }
    writeFileSync(go, "");
  });

  test("is followed into its next attempt, until no attempt is live", async () => {
    const handle = await box.detach("demo", "first @@hang");
    const follower = box.spawn(["logs", handle, "-f"]);
    let seen = "";
    follower.stdout?.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    const followed = collect(follower);
    await until("the first words", () => seen.includes('You said "first"'));
    // It stands still while the attempt ends and the next one begins.
    follower.kill("SIGSTOP");
    expect((await box.run(["stop", handle])).code).toBe(0);
    expect((await box.run(["resume", handle, "--detach", "second @@tool:grep @@hang"])).code).toBe(0);
    follower.kill("SIGCONT");
    await until("the next words", () => seen.includes('You said "second"'));
    expect((await box.run(["stop", handle])).code).toBe(0);
    const { code, stdout } = await followed;
    expect(code).toBe(0);
    const at = (text: RegExp) => stdout.search(text);
    const order = [/^attempt 1 · start .* running$/m, /You said "first"/, /^attempt 1 ended: cancelled/m];
    const next = [
      /^attempt 2 · resume .* running$/m,
      /^⚙ grep/m,
      /You said "second"/,
      /^attempt 2 ended: cancelled/m,
    ];
    const places = [...order, ...next].map(at);
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    expect(places[0]).toBe(0);
  });

  test("stays harmless when another program has written into its events", async () => {
    const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
    const bad = [
      { type: "tool", state: "started", name: "\u001b]52;c;x\u0007", detail: 7 },
      { type: "tool", state: "started", name: "na\u001b[2Jme" },
      { type: "retry", trouble: { kind: "\u001b[31m", message: "x" } },
      { type: "turn_ended", result: "\u001b[31mfailed" },
      { type: "text" },
      { type: "notice", message: { a: 1 } },
      [],
    ];
    const lines = bad.map((one) => JSON.stringify(one)).join("\n");
    appendFileSync(join(runDirectory, "attempts/1/events.jsonl"), `${lines}\n{"type":"text","te`);
    for (const more of [[], ["--json"], ["--redacted"]]) {
      const { code, stdout, stderr } = await box.run(["logs", handle, ...more]);
      expect([more, code, stderr, CONTROLS.test(stdout)]).toEqual([more, 0, "", false]);
    }
    expect((await box.run(["logs", handle])).stdout).toContain("⚙ na\\x1b[2Jme");
  });

  test("whose first attempt lost its files is shown from the next one, with a warning", async () => {
    const handle = await twoAttempts();
    spawnSync("rm", ["-r", join(box.runDirectory(handle), "attempts/1")]);
    const { code, stdout, stderr } = await box.run(["logs", handle]);
    expect([code, stdout.startsWith("attempt 2 ")]).toEqual([0, true]);
    expect(stderr).toContain("attempts/1");
  });

  test("of 40 MB is shown within a heap of 48 MB", async () => {
    const { handle, runDirectory } = await box.json(["start", "demo", "hello"]);
    const event = { t: 1, stream: "stdout", line: 1, type: "text", text: "x".repeat(900), delta: true };
    const chunk = `${JSON.stringify(event)}\n`.repeat(1_000);
    for (let at = 0; at < 40; at += 1) appendFileSync(join(runDirectory, "attempts/1/events.jsonl"), chunk);
    const child = box.spawn(["logs", handle], { env: { NODE_OPTIONS: "--max-old-space-size=48" } });
    child.stdin?.end();
    let bytes = 0;
    let said = "";
    child.stdout?.on("data", (part: Buffer) => (bytes += part.length));
    child.stderr?.on("data", (part: Buffer) => (said += part.toString()));
    const code = await new Promise((done) => child.on("close", done));
    expect([code, said]).toEqual([0, ""]);
    expect(bytes).toBeGreaterThan(36_000_000);
  });

  test.skipIf(!HAS_TMUX)("looks the same on a terminal, with colours", async () => {
    using screen = new Screen(box, { name: "logs" });
    const handle = await twoAttempts();
    const { text } = await screen.command(`reprise logs ${handle}`);
    const { stdout } = await box.run(["logs", handle]);
    expect(text).toContain(stdout.trimEnd());
    expect(screen.painted()).toMatch(/\u001b\[36m(?:\u001b\[49m)?⚙ grep/);
  });
});

test("`issues logs` reads like `logs`", async () => {
  using issues = new IssueBox();
  issues.issue("a", "work @@tool:grep");
  issues.commit();
  await issues.batch();
  const { code, stdout } = await issues.run(["issues", "logs", "a"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(new RegExp(`^attempt 1 · start · ${WHEN} · completed`));
  expect(stdout).toMatch(/^⚙ grep pretend grep$/m);
  expect(stdout).not.toContain('{"type"');
  expect(existsSync(issues.cwd)).toBe(true);
  const raw = await issues.run(["issues", "logs", "a", "--raw"]);
  const tape = join(issues.runDirectories()[0] ?? "", "attempts/1/pty-output.log");
  expect(raw.stdout).toBe(readFileSync(tape, "utf8"));
});
