/** What a batch offers to type works when it is typed, and what `issues status` says is so at that moment. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

function configure(box: IssueBox, ...args: string[]): void {
  const directory = join(box.home, ".config", "reprise");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.toml"), `[engines.claude]\nargs = ${JSON.stringify(args)}\n`);
}

/** The words of a printed command. */
const typed = (command: string) => command.replace(/^reprise /, "").split(" ");
const file = (box: IssueBox, id: string) => join(box.cwd, "issues", `${id}.md`);
const edit = (box: IssueBox, id: string, from: string, to: string) =>
  writeFileSync(file(box, id), box.text(id).replace(from, to));

/** A batch that is killed when the issue's agent has kept its message. */
async function killed(box: IssueBox, id: string, ...args: string[]): Promise<string> {
  const child = box.spawn(["issues", "run", ...args]);
  const done = collect(child);
  const entry = () => box.batches().at(-1)?.issues[id];
  await until(`${id} has a session`, () => box.kept().has(entry()?.session_id ?? ""));
  child.kill("SIGKILL");
  await done;
  edit(box, id, " @@hang:after-text", "");
  return entry()?.handle ?? "";
}

test("a batch whose config had a mistyped argument continues after its correction, and says so", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  configure(box, "--modle", "x", "--disallowedTools", "Bash");
  const wrong = await box.run(["issues", "run", "--engine", "claude"]);
  expect(wrong).toMatchObject({ code: 10 });
  expect(wrong.stderr).toContain("First correct [engines.claude] args in your config file");
  const [, command = ""] = /: (reprise issues run --resume .*)$/m.exec(wrong.stderr) ?? [];
  const first = (await box.run(["issues", "status"])).stdout;
  expect(first).toContain("First correct [engines.claude] args");
  // The limits of the batch still count, and the way out works.
  configure(box, "--model", "x");
  const less = await box.run([...typed(command), "--dry-run"]);
  expect(less).toMatchObject({ code: 8, stderr: expect.stringContaining("had --disallowedTools Bash") });
  expect(less.stderr).toContain("set the status of issues in progress to open");
  configure(box, "--model", "x", "--disallowedTools", "Bash");
  const status = (await box.run(["issues", "status"])).stdout;
  expect(status).toContain(`Continue it: ${command}\n`);
  expect(status).not.toContain("First correct");
  expect(await box.run(typed(command))).toMatchObject({ code: 0 });
  expect(box.statuses()).toEqual({ a: "closed" });
});

test("a batch with --strict offers the command without it for issues that can only start over", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt @@hang:after-text");
  box.commit();
  const handle = await killed(box, "a", "--engine", "demo");
  rmSync(box.sessionFile(box.batches()[0]?.issues["a"]?.session_id ?? ""));
  for (const path of box.runDirectories().filter((one) => one.endsWith(handle)))
    rmSync(join(path, "escrow"), { recursive: true, force: true });
  const strict = await box.json(["issues", "run", "--resume", "--strict"]);
  expect(strict).toMatchObject({ exitCode: 10, issues: [{ id: "a", state: "failed" }] });
  expect(strict["resume"]).toBe("reprise issues run --resume --engine demo");
  expect(strict["byHand"]).toBe(
    "Without --strict, an issue whose conversation cannot continue begins a new one.",
  );
  expect((await box.json(["issues", "status"]))["resume"]).toBe(strict["resume"]);
  expect((await box.json(["issues", "show", "a"]))["resume"]).toBe(strict["resume"]);
  expect(await box.run(typed(strict["resume"]))).toMatchObject({ code: 0 });
});

test("an issue to which the given options would add rights is offered without them, and only effective options are named", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt @@hang:after-text");
  box.issue("b", "@@write:b.txt");
  box.commit();
  await killed(box, "a", "--engine", "claude", "--access", "read");
  const wider = ["--", "--permission-mode", "bypassPermissions"];
  const plan = await box.json(["issues", "run", "--resume", "--dry-run", ...wider]);
  expect(plan["taken"]["options"]).toEqual(["--engine", "claude"]);
  const beside = await box.run(["issues", "run", "--resume", ...wider]);
  expect(beside).toMatchObject({ code: 10 });
  expect(beside.stderr).toMatch(/was started: --engine claude\. Other/);
  const [, command = ""] = /1 issue stayed in progress: (.*)$/m.exec(beside.stderr) ?? [];
  expect(command).toBe("reprise issues run --resume --engine claude --scope ids:a");
  expect(beside.stdout).toMatch(/^a +left /m);
  expect(beside.stdout).not.toMatch(/start a new run instead/i);
  expect((await box.json(["issues", "status"]))["resume"]).toBe(command);
  expect(await box.run(typed(command))).toMatchObject({ code: 0 });
  expect(box.statuses()).toEqual({ a: "closed", b: "closed" });
  expect(new Set(box.told().map(({ session }) => session)).size).toBe(2);
});

test("issues status says until when the batch waits for a limit, and which issues have not begun", async () => {
  using box = new IssueBox();
  const reset = new Date(Date.now() + 1_795_000).toISOString();
  box.issue("a", `@@429:reset=${reset}`, "priority: 0\n");
  box.issue("b", "@@write:b.txt");
  box.issue("c", "@@write:c.txt");
  box.commit();
  const child = box.spawn(box.batchArgs());
  const done = collect(child);
  await until("it waits", () => box.batches().at(-1)?.issues["a"]?.status === "waiting");
  const status = (await box.run(["issues", "status"])).stdout;
  expect(status).toMatch(/^a +waiting .*rate_limited: .*[^.], until (\S+ )?\d\d:\d\d \(in (30|29) min\)/m);
  expect(status).toContain("2 issues have not begun yet: b, c\n");
  expect((await box.run(["issues", "sessions"])).stdout).toMatch(
    /^a +waiting .* until .*\(in (30|29) min\)/m,
  );
  child.kill("SIGTERM");
  expect((await done).stdout).toMatch(/rate_limited: .*[^.], until /);
});

test("issues status offers no batch without issues, and names runs of lost issues only while the source lacks them", async () => {
  using box = new IssueBox();
  expect(await box.json(["issues", "status"])).toMatchObject({ batch: null, resume: null, orphans: [] });
  box.issue("a", "@@write:a.txt @@hang:after-text");
  box.commit();
  const handle = await killed(box, "a", "--engine", "demo");
  const command = "reprise issues run --resume --engine demo";
  expect((await box.json(["issues", "status"]))["resume"]).toBe(command);
  const kept = readFileSync(file(box, "a"), "utf8");
  const orphan = { id: "a", handle, branch: "reprise/a-issue-a" };
  const lost = `the source no longer has it; its run ${handle} on branch reprise/a-issue-a is kept`;
  // Just after the kill, and after a batch that has found nothing to do.
  for (const runs of [false, true]) {
    rmSync(file(box, "a"));
    if (runs) box.issue("z", "done", "status: closed\n");
    if (runs) expect(await box.batch("--resume")).toMatchObject({ code: 0 });
    expect(await box.json(["issues", "status"])).toMatchObject({ resume: null, orphans: [orphan] });
    const gone = (await box.run(["issues", "status"])).stdout;
    expect(gone).toContain(lost);
    expect(gone).not.toContain("Continue it:");
    writeFileSync(file(box, "a"), kept);
    expect(await box.json(["issues", "status"])).toMatchObject({ resume: command, orphans: [] });
    expect((await box.run(["issues", "status"])).stdout).not.toContain("no longer has it");
  }
  expect(await box.run(typed(command))).toMatchObject({ code: 0 });
});

test("the merge command names the repository when the batch was started from elsewhere", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  const done = await box.run(["issues", "run", "--engine", "demo", box.cwd], { cwd: box.home });
  expect(done.stdout).toContain(`  git -C ${box.cwd} merge reprise/a-issue-a\n`);
});

test.each([[[]], [["--merge"]]])(
  "an issue whose gate passes without a change is not called merged, and no empty branch is offered, with %j",
  async (merge) => {
    using box = new IssueBox();
    box.issue("a", "just talk");
    box.gate("exit 0");
    box.commit();
    const done = await box.batch(...merge);
    expect([done.code, box.statuses()]).toEqual([0, { a: "closed" }]);
    expect(done.stdout).toMatch(/^a +completed .*the gate passed; the agent changed nothing/m);
    expect(done.stdout).not.toContain("git merge");
    expect(box.text("a")).toMatch(
      /Done by demo \(reprise run \w+\): the gate passed; the agent changed nothing\./,
    );
    expect(box.text("a")).not.toMatch(/merged from|on branch/);
  },
);
