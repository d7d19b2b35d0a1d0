/** What people decide about issues while agents work on them, and what a batch then says and does. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** Claude's turns begin with this shell script in the user's checkout; `$id` is the issue of its worktree. */
function meanwhile(box: IssueBox, script: string): void {
  const agent = readFileSync(join(box.bin, "claude"), "utf8").trim().split("\n").at(-1) ?? "";
  const id = "id=$(git branch --show-current | sed 's,^reprise/,,; s,-.*,,')";
  box.program(
    "claude",
    `case " $* " in *" -p "*) (${id}; cd '${box.cwd}' && { ${script}; });; esac\n${agent}`,
  );
}

const claude = (box: IssueBox, ...args: string[]) =>
  box.run(["issues", "run", "--engine", "claude", "--trust-cwd", ...args]);

/** Changes an issue's file as a person would, with an editor. */
function edit(box: IssueBox, id: string, change: (text: string) => string): void {
  writeFileSync(join(box.cwd, "issues", `${id}.md`), change(box.text(id)));
}

const LATER = new Date(Date.now() + 25 * 60_000).toISOString();
const set = (id: string, status: string) => `sed -i 's/^status: .*/status: ${status}/' "issues/${id}.md"`;

/** A batch in the checkout that is killed when its agent has kept its session and `when` is true. */
async function killed(box: IssueBox, id: string, when: () => boolean): Promise<void> {
  const child = box.spawn(box.batchArgs("--isolate", "none", "--scope", `ids:${id}`));
  const done = collect(child);
  await until("it can be resumed", () => {
    const entry = box.batches().at(-1)?.issues[id];
    return box.kept().has(entry?.session_id ?? "") && entry?.attempts !== 0 && when();
  });
  child.kill("SIGKILL");
  await done;
}

describe("a status that a person sets while a turn does not complete", () => {
  test("is seen after a crash, a failure, a failed gate and a limit with a wait, and stays", async () => {
    using box = new IssueBox();
    box.issue("crash", "@@write:a.txt @@die", "priority: 0\n");
    box.issue("failure", "@@write:a.txt @@context", "priority: 0\n");
    box.issue("removed", "@@write:a.txt @@die", "priority: 0\n");
    box.issue("gate", "@@write:a.txt", "priority: 0\n");
    box.issue("limit", `@@write:a.txt @@429:reset=${LATER}`);
    box.gate(`cd '${box.cwd}' && ${set("gate", "open")}; exit 3`, "attempts = 1\n");
    box.commit();
    meanwhile(
      box,
      `case "$id" in crash) ${set("crash", "deferred")};; failure) ${set("failure", "closed")};;
removed) rm issues/removed.md;; limit) ${set("limit", "blocked")};; esac`,
    );
    const result = await claude(box);
    expect(result).toMatchObject({ code: 10 });
    expect(box.told()).toHaveLength(5);
    const statuses = { crash: "deferred", failure: "closed", gate: "open", limit: "blocked" };
    expect(box.statuses()).toEqual(statuses);
    const reasons = {
      crash: "",
      failure: "context_full",
      gate: "the gate failed once",
      limit: "rate_limited",
    };
    for (const id of Object.keys(statuses) as (keyof typeof statuses)[]) {
      const words = `its status was set to ${statuses[id]} while its agent worked, and Reprise keeps that`;
      expect(result.stdout).toMatch(new RegExp(`^${id} +left .*${words}; .*${reasons[id]}`, "m"));
      expect(box.text(id)).not.toContain("**reprise**");
    }
    expect(result.stdout).toMatch(/^removed +left .*the issue was removed while its agent worked/m);
    expect(result.stderr).not.toContain("stayed in progress");
  });

  test("is seen when a limit stops the batch", async () => {
    using box = new IssueBox();
    box.issue("a", `@@429:reset=${LATER}`);
    box.commit();
    meanwhile(box, set("a", "blocked"));
    const result = await claude(box, "--on-limit", "stop", "--json");
    expect(result).toMatchObject({ code: 75 });
    expect(JSON.parse(result.stdout)).toMatchObject({
      issues: [{ id: "a", state: "left", status: "blocked" }],
    });
    expect(box.statuses()).toEqual({ a: "blocked" });
  });
});

test("a status that a person sets while an issue waits for a limit is seen before its agent continues", async () => {
  using box = new IssueBox();
  box.issue("a", `@@429:reset=${new Date(Date.now() + 5_000).toISOString()}`);
  box.commit();
  const child = box.spawn(box.batchArgs());
  let said = "";
  child.stderr?.on("data", (chunk) => {
    const waited = said.includes("a: waiting");
    said += String(chunk);
    if (!waited && said.includes("a: waiting"))
      edit(box, "a", (text) => text.replace("in_progress", "closed"));
  });
  const { stdout } = await collect(child);
  expect(stdout).toMatch(/^a +left .*its status was set to closed while it waited, and Reprise keeps that$/m);
  expect(box.told()).toHaveLength(1);
});

describe("an issue that a person reopens", () => {
  test("continues in its conversation and on its branch after it was left as blocked, closed or removed", async () => {
    using box = new IssueBox();
    const left = { a: "blocked", b: "closed", c: "removed", passed: "blocked" };
    const ids = Object.keys(left) as (keyof typeof left)[];
    const issues = (text: string, some: readonly string[]) => {
      for (const id of some) box.issue(id, `${text} @@write:${text}.txt`, "status: open\n");
    };
    issues("first", ids);
    box.gate(
      `cd '${box.cwd}'; test -e ../again || test $REPRISE_ISSUE != passed || ${set("passed", "blocked")}`,
    );
    box.commit();
    const script = `case "$id" in a) ${set("a", "blocked")};; b) ${set("b", "closed")};; c) rm issues/c.md;; esac`;
    meanwhile(box, `test -e ../again || ${script}`);
    expect(await claude(box)).toMatchObject({ code: 10 });
    const [first] = box.batches();
    expect(ids.map((id) => first?.issues[id]?.status)).toEqual(ids.map(() => "left"));
    writeFileSync(join(box.root, "again"), "");
    issues("second", ["a", "b", "c"]);
    edit(box, "passed", (text) => text.replace("status: blocked", "status: open"));
    const plan = await box.run(["issues", "run", "--engine", "claude", "--dry-run"]);
    for (const id of ids)
      expect(plan.stdout).toMatch(
        new RegExp(`^${id} +resume .*it was opened again, and its conversation continues`, "m"),
      );
    expect(await claude(box)).toMatchObject({ code: 0 });
    const second = box.batches().at(-1);
    for (const id of ids) {
      const [was, is] = [first?.issues[id], second?.issues[id]];
      expect([is?.session_id, is?.handle, is?.branch]).toEqual([was?.session_id, was?.handle, was?.branch]);
      const told = box.told().filter(({ session }) => session === was?.session_id);
      expect(told).toHaveLength(2);
      if (id === "passed") continue;
      expect(told[1]?.text).toContain("Its text is now:\n\nsecond");
      expect(box.git("ls-tree", "--name-only", is?.branch ?? "")).toMatch(/^first\.txt\n[^]*^second\.txt$/m);
    }
  });

  test("starts over when it was in progress, and its earlier run and branch are named", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@context");
    box.commit();
    await box.batch();
    const { handle, branch } = box.batches()[0]?.issues["a"] ?? {};
    edit(box, "a", (text) => text.replace("status: in_progress", "status: open").replace(" @@context", ""));
    const other = await box.run(["issues", "run", "--engine", "claude", "--dry-run"]);
    expect(other.stdout).toContain(
      `its earlier run ${handle ?? ""} of demo on branch ${branch ?? ""} is kept`,
    );
    const result = await box.batch();
    expect(result).toMatchObject({ code: 0 });
    expect(result.stderr).toContain(
      `its earlier run ${handle ?? ""} on branch ${branch ?? ""} is kept (to continue it, set it to in_progress and use --resume)`,
    );
  });

  test("keeps its conversation when bd cannot claim it, and is not called in progress", async () => {
    using box = new IssueBox();
    const kept = join(box.root, "kept.jsonl");
    const line = JSON.stringify({ id: "a", title: "A", description: "@@write:a.txt", status: "open" });
    mkdirSync(join(box.cwd, ".beads"));
    writeFileSync(join(box.cwd, ".beads", "issues.jsonl"), `${line}\n`);
    writeFileSync(kept, `${line}\n`);
    box.program(
      "bd",
      `put() { sed -i "s/\\"status\\":\\"[a-z_]*\\"/\\"status\\":\\"$1\\"/" '${kept}'; }
case "$1 $3" in
"export ") cat '${kept}';;
"update --status") if test -e '${box.root}/broken'; then echo 'database is locked' >&2; exit 1; fi; put "$4";;
close*) put closed;;
esac`,
    );
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    const first = box.batches()[0]?.issues["a"];
    writeFileSync(kept, `${line.replace("@@write:a.txt", "More. @@write:more.txt")}\n`);
    writeFileSync(join(box.root, "broken"), "");
    const failed = await box.batch();
    expect(failed.code).not.toBe(0);
    expect(failed.stdout).toMatch(
      /^a +left .*it could not be claimed: bd update failed: database is locked/m,
    );
    expect(failed.stderr).not.toContain("stayed in progress");
    rmSync(join(box.root, "broken"));
    expect(await box.batch()).toMatchObject({ code: 0 });
    const [, told] = box.told();
    expect(told?.session).toBe(first?.session_id);
    expect(told?.text).toContain("has been opened again: it is not done");
  });
});

describe("in the checkout itself", () => {
  test("an agent's edit of its issue costs one turn, and changes by others do not complete an agent that ran no tool", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.issue("b", "just talk");
    box.commit();
    meanwhile(
      box,
      "echo more >> mine.txt; ! grep -q in_progress issues/a.md || echo '- ticked' >> issues/a.md",
    );
    const result = await claude(box, "--isolate", "none");
    expect(result).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "closed", b: "in_progress" });
    const told = box.told();
    expect(told).toHaveLength(3);
    expect(told[1]?.text).toContain("If you made this change yourself");
    expect(result.stdout).toMatch(
      /^a +completed .*files changed in the folder; the issue's text changed again in the last turn, and Reprise did not send it/m,
    );
    expect(result.stdout).toMatch(/^b +no_change .*files changed in the folder, but the agent ran no tool$/m);
  });

  test("after a kill -9, changed files complete an issue only if its agent had run a tool before, and the plan says whose count", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@hang:after-text");
    box.issue("b", "just talk @@hang:after-text");
    box.commit();
    const plan = await box.run(["issues", "run", "--engine", "demo", "--isolate", "none", "--dry-run"]);
    expect(plan.stdout).toContain("a change by any program in this folder counts as work on the issue");
    const tools = () => box.batches().at(-1)?.issues["a"]?.tools ?? 0;
    await killed(box, "a", () => existsSync(join(box.cwd, "a.txt")) && tools() > 0);
    await killed(box, "b", () => true);
    writeFileSync(join(box.cwd, "mine.txt"), "a person's own");
    edit(box, "a", (text) => text.replace(/@@write.*/, "That is all."));
    // It looks around now, and what it finds is older.
    edit(box, "b", (text) => text.replace(/@@hang\S+/, "@@tool"));
    const result = await box.batch("--isolate", "none", "--resume", "--scope", "all");
    expect(result).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "closed", b: "in_progress" });
    expect(result.stdout).toMatch(/^a +completed .*files changed in the folder$/m);
  });
});
