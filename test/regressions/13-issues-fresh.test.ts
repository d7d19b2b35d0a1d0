/** What a batch calls done, continues and prints, as a person sees it who changes things meanwhile. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** Claude's turns begin with this shell script, when the agent's message is fixed already. */
function meanwhile(box: IssueBox, script: string): void {
  const agent = readFileSync(join(box.bin, "claude"), "utf8").split("\n")[1] ?? "";
  box.program(
    "claude",
    `case "$PWD" in */worktree) cd ../../../../project; ${script}; cd "$OLDPWD";; esac\n${agent}`,
  );
}

/** A batch that gets this signal as soon as the agent of the issue has kept its session and said something. */
async function ended(box: IssueBox, id: string, signal: NodeJS.Signals, ...args: string[]) {
  const child = box.spawn(box.batchArgs(...args));
  const done = collect(child);
  await until("it has a session", () => {
    const entry = box.batches().at(-1)?.issues[id];
    return box.kept().has(entry?.session_id ?? "") && entry?.attempts !== 0;
  });
  child.kill(signal);
  return done;
}

const claude = (box: IssueBox, ...args: string[]) =>
  box.run(["issues", "run", "--engine", "claude", "--trust-cwd", ...args]);

describe("an issue that a person changes while its agent works", () => {
  test("is closed only after its agent got the new text, in the same conversation", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    meanwhile(box, "grep -q wanted issues/a.md || echo 'also wanted @@write:b.txt' >> issues/a.md");
    expect(await claude(box)).toMatchObject({ code: 0 });
    const told = box.told();
    expect(told).toHaveLength(2);
    expect(told[1]?.text).toContain("also wanted");
    expect(told[1]?.session).toBe(told[0]?.session);
    expect(box.statuses()).toEqual({ a: "closed" });
    expect(box.git("ls-tree", "--name-only", "reprise/a-issue-a")).toContain("b.txt");
  });

  test("is closed only after its agent got the changes made while the gate ran", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.gate(
      `grep -q wanted '${box.cwd}/issues/a.md' || echo 'also wanted @@write:b.txt' >> '${box.cwd}/issues/a.md'`,
    );
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    expect(box.told()).toHaveLength(2);
    expect(box.told()[1]?.text).toContain("also wanted");
    expect(box.statuses()).toEqual({ a: "closed" });
  });

  test.each(["blocked", "open", "closed"])("keeps the status %s that a person sets", async (status) => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    meanwhile(box, `sed -i 's/^status: .*/status: ${status}/' issues/a.md`);
    const result = await claude(box);
    expect(result).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: status });
    expect(box.text("a")).not.toContain("**reprise**");
    expect(result.stdout).toContain(
      `its status was set to ${status} while its agent worked, and Reprise keeps that`,
    );
    expect(result.stderr).not.toContain("stayed in progress");
  });

  test("is not reported as in progress when its file was removed", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.issue("b", "@@write:b.txt");
    box.commit();
    meanwhile(box, "rm -f issues/a.md");
    const result = await claude(box, "--scope", "ids:a");
    expect(result).toMatchObject({ code: 10 });
    expect(result.stdout).toContain("the issue was removed while its agent worked");
    expect(result.stderr).not.toContain("stayed in progress");
  });
});

describe("the turn of an issue", () => {
  test("that never completed is not replaced by a question that a person asked in its conversation", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:half.txt @@hang:after-text");
    box.commit();
    await ended(box, "a", "SIGKILL");
    const { handle } = box.batches()[0]?.issues["a"] ?? {};
    expect(await box.run(["resume", handle ?? "", "Only a question"])).toMatchObject({ code: 0 });
    const plan = await box.batch("--resume", "--dry-run");
    expect(plan.stdout).toMatch(/^a +resume /m);
    const before = box.told().length;
    const text = box.text("a").replace("@@hang:after-text", "");
    writeFileSync(join(box.cwd, "issues", "a.md"), text);
    await box.batch("--resume");
    const [next] = box.told().slice(before);
    expect(next?.text).toContain("You were interrupted while you worked on issue a");
  });

  test("that completed is checked, even if a person asked a question after it", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.gate("echo x >> $HOME/gate; sleep 60");
    box.commit();
    const child = box.spawn(box.batchArgs());
    const done = collect(child);
    await until("the gate runs", () => existsSync(join(box.home, "gate")));
    child.kill("SIGKILL");
    await done;
    const { handle } = box.batches()[0]?.issues["a"] ?? {};
    await box.run(["resume", handle ?? "", "Only a question"]);
    expect((await box.batch("--resume", "--dry-run")).stdout).toMatch(/^a +check /m);
  });

  test("that completed without a change, or before a gate that failed, is not called interrupted", async () => {
    using box = new IssueBox();
    box.issue("a", "just talk");
    box.commit();
    await box.batch();
    await box.batch("--resume");
    box.issue("b", "@@write:b.txt");
    box.gate("false", "attempts = 1\n");
    await box.batch("--scope", "ids:b");
    await box.batch("--resume", "--scope", "ids:b");
    expect(box.batches().at(-1)?.issues["b"]?.error).toMatch(/^the gate failed once: /);
    const said = box.told().map(({ text }) => text.split("\n")[0]);
    const again = (id: string) =>
      `Your last turn ended, but issue ${id} (Issue ${id}) is not done. Go on with it until it is.`;
    expect([said[1], said[3]]).toEqual([again("a"), again("b")]);
  });
});

describe("the printed command", () => {
  test("continues with the same engine in the same place, as plain --resume does; another engine is not tried", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@hang:after-text");
    box.commit();
    const stopped = await ended(box, "a", "SIGTERM", "--isolate", "none");
    const command = "reprise issues run --resume --engine demo --isolate none";
    expect(stopped.stderr).toContain(`1 issue stayed in progress: ${command}\n`);
    expect(box.text("a")).toContain(`(${command} resumes it)`);
    const plain = await box.run(["issues", "run", "--resume", "--dry-run"]);
    expect(plain.stdout).toMatch(/^a +resume /m);
    const plan = await box.run([...command.split(" ").slice(1), "--dry-run"]);
    expect(plan.stdout).toMatch(/^a +resume /m);
    // Where nothing is written down of how the batch was started, the engine is named.
    const [file] = box.batches();
    const path = join(box.metadataDirectory(), `${file?.run_id ?? ""}.json`);
    writeFileSync(path, readFileSync(path, "utf8").replace('"options":', '"forgotten":'));
    const other = await box.run(["issues", "run", "--resume"]);
    expect(other).toMatchObject({ code: 10 });
    expect(other.stderr).toContain("its session is one of demo, and --engine demo continues it");
    expect(box.statuses()).toEqual({ a: "in_progress" });
  });
});

test("in the checkout itself, changes by others do not complete an agent that changed nothing", async () => {
  using box = new IssueBox();
  box.issue("lazy", "just talk");
  box.commit();
  expect(await box.batch("--isolate", "none")).toMatchObject({ code: 10 });
  writeFileSync(join(box.cwd, "mine.txt"), "a person's own");
  expect(await box.batch("--isolate", "none", "--resume")).toMatchObject({ code: 10 });
  expect(box.statuses()).toEqual({ lazy: "in_progress" });
});

test("a batch that is stopped while it waits for the engine repeats the engine's message", async () => {
  using box = new IssueBox();
  box.issue("a", "@@503");
  box.commit();
  const child = box.spawn(box.batchArgs());
  let said = "";
  child.stderr?.on("data", (chunk) => (said += String(chunk)));
  const done = collect(child);
  await until("it waits", () => said.includes("a: waiting"));
  child.kill("SIGTERM");
  await done;
  expect((await box.run(["issues", "status"])).stdout).toMatch(
    /the batch was stopped while it waited: overloaded/,
  );
});
