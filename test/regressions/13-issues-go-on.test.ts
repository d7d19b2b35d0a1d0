/** How a batch is gone on with: the printed command, plain `--resume`, rights, and stopping one issue of it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** The native arguments of every agent so far. */
function argvs(box: IssueBox): string[] {
  const starts = box.journalEntries().filter(({ event }) => event === "start");
  return starts.map((entry) => (entry["argv"] as string[]).join(" "));
}

function edit(box: IssueBox, id: string, change: (text: string) => string): void {
  writeFileSync(join(box.cwd, "issues", `${id}.md`), change(box.text(id)));
}

/** A batch that gets this signal as soon as its first agent, that of the issue, has kept the message. */
async function ended(box: IssueBox, id: string, signal: NodeJS.Signals, ...args: string[]) {
  const kept = () => box.journalEntries().filter(({ event }) => event === "kept").length;
  const before = kept();
  const child = box.spawn(["issues", "run", ...args]);
  const done = collect(child);
  await until(`${id} has a session`, () => {
    const entry = box.batches().at(-1)?.issues[id];
    return kept() > before && box.kept().has(entry?.session_id ?? "");
  });
  child.kill(signal);
  return done;
}

describe("a batch that was stopped", () => {
  test("names every option that it was started with, and plain --resume goes beyond none of them", async () => {
    using box = new IssueBox();
    box.issue("a", "@@hang:after-text");
    box.issue("b", "@@write:b.txt");
    box.commit();
    const options = ["--scope", "ids:a", "--max-issues", "2", "--engine", "demo", "--access", "read"];
    const more = ["--timeout", "90m", "--on-limit", "stop"];
    const native = ["--", "--allow", "it's so", "--model", "m1"];
    const result = await ended(box, "a", "SIGTERM", ...options, ...more, box.cwd, ...native);
    const words = "--scope ids:a --max-issues 2 --engine demo --access read --timeout 1h30m --on-limit stop";
    const rest = "-- --allow 'it'\\''s so' --model m1";
    const printed = `reprise issues run --resume ${words} ${box.cwd} ${rest}`;
    expect(result.stderr).toContain(`1 issue stayed in progress: ${printed}\n`);
    expect(box.text("a")).toContain(`(reprise issues run --resume ${words} resumes it)`);
    const here = `reprise issues run --resume ${words} ${rest}`;
    expect((await box.run(["issues", "status"])).stdout).toContain(`Continue it: ${here}\n`);
    expect((await box.run(["issues", "show", "a"])).stdout).toContain(`Continue it: ${here}\n`);
    expect((await box.json(["issues", "status", "--cwd", box.cwd]))["resume"]).toBe(printed);
    // The mark that stands for a secret stops it before anything is begun.
    const typed = await box.run(["issues", "run", "--resume", "--", "--model", "[redacted]"]);
    expect(typed).toMatchObject({ code: 2 });
    expect(box.statuses()).toEqual({ a: "in_progress", b: "open" });
  });

  test("is continued by plain --resume with the same scope, engine, rights and native options, and says so", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@hang:after-text");
    box.issue("b", "@@write:b.txt");
    box.issue("c", "@@write:c.txt");
    box.commit();
    const options = ["--scope", "ids:a,b", "--engine", "demo", "--access", "read"];
    await ended(box, "a", "SIGKILL", ...options, "--", "--model", "m1");
    edit(box, "a", (text) => text.replace(" @@hang:after-text", ""));
    const plan = await box.run(["issues", "run", "--resume", "--dry-run"]);
    const taken = "--scope ids:a,b --engine demo --access read -- --model m1";
    expect(plan.stdout).toContain(`was started: ${taken}.`);
    expect(plan.stdout).toMatch(/^a +resume /m);
    expect(plan.stdout).not.toMatch(/^c /m);
    const result = await box.run(["issues", "run", "--resume"]);
    expect(result.stderr).toContain(`was started: ${taken}.`);
    expect(argvs(box)).toHaveLength(3);
    for (const argv of argvs(box)) expect(argv).toMatch(/--access read --model m1|--model m1 --access read/);
    expect(box.statuses()).toMatchObject({ b: "closed", c: "open" });
    // An explicit option wins.
    const all = await box.json(["issues", "run", "--resume", "--scope", "all", "--dry-run"]);
    expect(all["issues"].map(({ id }: { id: string }) => id)).toContain("c");
  });
});

describe("the rights of a continued run", () => {
  test("are those of its newest conversation, and the first line and the plan name them", async () => {
    using box = new IssueBox();
    box.issue("a", "@@hang:after-text");
    box.commit();
    const batch = (...more: string[]) => ended(box, "a", "SIGKILL", "--engine", "demo", ...more);
    await batch("--access", "full");
    box.issue("b", "@@write:b.txt");
    const fresh = await batch("--resume", "--fresh", "--access", "read", "--scope", "ids:a");
    expect(fresh.stderr).toContain("1 issue · access read (--access read)");
    expect(argvs(box).at(-1)).toContain("--access read");
    // Another batch in between, so that nothing is taken from the one before.
    await box.run(["issues", "run", "--engine", "demo", "--scope", "ids:b"]);
    box.issue("c", "@@write:c.txt");
    edit(box, "a", (text) => text.replace("@@hang:after-text", "@@write:a.txt"));
    const plain = await box.run(["issues", "run", "--engine", "demo", "--resume"]);
    expect(plain.stderr).toContain(
      "2 issues · new runs: access edit (--access write) · what goes on keeps --access read",
    );
    expect(argvs(box).slice(-2)[0]).toContain("--access read");
    expect(argvs(box).slice(-2)[0]).not.toContain("--access all");
  });

  test("include a narrower option of a stopped batch, which also holds for plain --resume", async () => {
    using box = new IssueBox();
    box.issue("a", "@@hang:after-text");
    box.commit();
    const batch = (...more: string[]) => ended(box, "a", "SIGKILL", "--engine", "demo", ...more);
    await batch("--access", "edit");
    // A new message for the agent: it hangs again, and has not finished its turn when the batch is killed.
    box.issue("a", "once more @@hang:after-text", "status: in_progress\n");
    await batch("--resume", "--access", "read");
    const dry = await box.json(["issues", "run", "--resume", "--dry-run"]);
    expect(dry["issues"]).toMatchObject([{ id: "a", do: "resume", access: "--access read" }]);
    // A bound that is wider than the run is none: it does not stand in its way.
    box.issue("b", "@@hang:after-text");
    await ended(box, "b", "SIGKILL", "--engine", "demo", "--access", "full", "--scope", "ids:b");
    const both = await box.json(["issues", "run", "--resume", "--scope", "all", "--dry-run"]);
    const held = both["issues"].map((issue: Record<string, unknown>) => [issue["do"], issue["access"]]);
    expect(held).toEqual([
      ["resume", "--access write"],
      ["resume", "--access all"],
    ]);
  });

  test("a new conversation in any run is held to the options that it began with", async () => {
    using box = new IssueBox();
    const { handle } = await box.json(["start", "demo", "one", "--", "--access", "all"]);
    const narrow = ["--native", "--access", "--native", "read"];
    await box.run(["resume", "--force-fresh", ...narrow, handle, "two"]);
    expect((await box.json(["resume", handle, "three"]))["text"]).toContain("access=read");
    const wider = await box.json(["resume", "--native", "--access", "--native", "all", handle, "four"]);
    expect(wider).toMatchObject({ ok: false, error: { code: "would_widen" } });
  });
});

test("work without a gate is not planned as having passed one, and the log shows where the message was cut", async () => {
  using box = new IssueBox();
  box.issue("a", `${"a long story ".repeat(30)} @@write:a.txt`);
  box.commit();
  expect(await box.batch()).toMatchObject({ code: 0 });
  const { stdout } = await box.run(["issues", "logs", "a"]);
  const asked = stdout.split("\n").filter((line) => line.startsWith("> "));
  expect(asked.at(-1)).toMatch(/a long story .*…$/);
  // As a crash just before the closing leaves it.
  const [last] = box.batches();
  const file = join(box.metadataDirectory(), `${last?.run_id ?? ""}.json`);
  writeFileSync(file, readFileSync(file, "utf8").replace('"status":"completed"', '"status":"passed"'));
  edit(box, "a", (text) => text.replace("status: closed", "status: in_progress"));
  const plan = await box.batch("--resume", "--dry-run");
  expect(plan.stdout).toMatch(
    /^a +close .*its last turn was completed and changed files; there was no gate/m,
  );
});

test("reprise stop of one issue's run stops that issue, and the batch continues with the others", async () => {
  using box = new IssueBox();
  box.issue("a", "@@hang:after-text");
  box.issue("b", "@@write:b.txt");
  box.commit();
  const child = box.spawn(box.batchArgs());
  const done = collect(child);
  const entry = () => box.batches().at(-1)?.issues["a"];
  await until("it runs", () => box.kept().has(entry()?.session_id ?? ""));
  const stopped = await box.run(["stop", entry()?.handle ?? ""]);
  expect(stopped).toMatchObject({ code: 0 });
  expect(stopped.stderr).toContain("to stop this run; its other issues continue");
  expect(stopped.stdout).toMatch(/Run \w{8} has stopped \(cancelled\)\. Continue it: reprise resume/);
  expect(stopped.stdout).toContain("Issue a is interrupted. It stays in progress");
  expect(await done).toMatchObject({ code: 10 });
  expect(box.statuses()).toEqual({ a: "in_progress", b: "closed" });
});
