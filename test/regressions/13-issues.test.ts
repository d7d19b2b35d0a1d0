/**
 * A batch never claims more than happened: what it calls done, what agents may do, what they get as messages, what
 * people see.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startGitHub } from "../github-server.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** The native arguments of every agent so far. */
function argvs(box: IssueBox): string[] {
  const starts = box.journalEntries().filter(({ event }) => event === "start");
  return starts.map((entry) => (entry["argv"] as string[]).join(" "));
}

/** Changes the text of an issue as a person would, with an editor. */
function edit(box: IssueBox, id: string, change: (text: string) => string): void {
  writeFileSync(join(box.cwd, "issues", `${id}.md`), change(box.text(id)));
}

/** A batch that is killed as soon as each of these issues has a session that its agent has kept. */
async function killed(box: IssueBox, ids: readonly string[], ...args: string[]): Promise<void> {
  const child = box.spawn(box.batchArgs(...args));
  const done = collect(child);
  await until("all have sessions", () => {
    const batch = box.batches().at(-1);
    const kept = box.kept();
    return ids.every((id) => kept.has(batch?.issues[id]?.session_id ?? ""));
  });
  child.kill("SIGKILL");
  await done;
}

describe("without a gate, done needs a change", () => {
  test("an agent that was denied its tools, or changed nothing, leaves its issue open as no_change, and the denied calls are named", async () => {
    using box = new IssueBox();
    box.issue("a", "@@deny:a.ts @@deny:b.ts");
    box.issue("b", "just talk");
    box.issue("c", "@@write:c.txt @@deny:d.ts");
    box.commit();
    const result = await box.batch();
    expect(result).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "in_progress", b: "in_progress", c: "closed" });
    const words = "2 tool calls were denied: write a.ts, write b.ts";
    expect(box.batches()[0]?.issues).toMatchObject({
      a: { status: "no_change", error: `the agent changed nothing; ${words}` },
      b: { status: "no_change", error: "the agent changed nothing" },
      c: { status: "completed" },
    });
    expect(result.stdout).toMatch(new RegExp(`^a +no_change .*${words}$`, "m"));
    expect(result.stdout).toMatch(/^c +completed .*1 tool call was denied: write d\.ts$/m);
    expect(result.stderr).toContain("2 issues stayed in progress: reprise issues run --resume");
    expect(box.text("a")).toContain(`no_change: the agent changed nothing; ${words}`);
    expect((await box.run(["issues", "status"])).stdout).toContain(words);
    // The agent is asked again, told what was wrong, in its conversation; not judged by the same empty branch.
    const before = box.told().length;
    expect(await box.batch("--resume")).toMatchObject({ code: 10 });
    const again = box.told().slice(before);
    expect(again.map(({ session }) => session)).toEqual([
      box.batches()[0]?.issues["a"]?.session_id,
      box.batches()[0]?.issues["b"]?.session_id,
    ]);
    expect(again[0]?.text).toContain(`Your last turn ended, but no file has changed. ${words}`);
  });

  test("a batch of one issue without a change ends with exit code 10 and says so in JSON", async () => {
    using box = new IssueBox();
    box.issue("a", "@@deny:a.ts");
    box.commit();
    const result = await box.run(["issues", "run", "--json", "--engine", "demo"]);
    expect(result.code).toBe(10);
    expect(JSON.parse(result.stdout)).toMatchObject({ ok: false, issues: [{ id: "a", state: "no_change" }] });
  });

  test("in the checkout itself, where claims and notes change files too, only the agent's changes count", async () => {
    using box = new IssueBox();
    box.issue("a", "just talk");
    box.issue("b", "@@write:b.txt");
    box.commit();
    writeFileSync(join(box.cwd, "mine.txt"), "not committed before");
    expect(await box.batch("--isolate", "none")).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "in_progress", b: "closed" });
  });

  test("a commit that the agent made itself is a change, and an empty commit is not", async () => {
    using box = new IssueBox();
    box.issue("a", "go");
    box.issue("b", "go");
    box.commit();
    const commit = "git -c user.name=A -c user.email=a@localhost commit -q -m own";
    const agent = readFileSync(join(box.bin, "claude"), "utf8").split("\n")[1] ?? "";
    box.program(
      "claude",
      `case "$PWD" in */worktree) case "$(git branch --show-current)" in
  reprise/a-*) echo hi > own.txt; git add -A; ${commit};;
  *) ${commit} --allow-empty;; esac;; esac
${agent}`,
    );
    expect(await box.run(["issues", "run", "--engine", "claude"])).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "closed", b: "in_progress" });
  });

  test("a gate that passes on an empty branch does not prove the work of an agent that was denied its tools", async () => {
    using box = new IssueBox();
    box.issue("a", "@@deny:a.ts");
    box.issue("b", "there is nothing to do here");
    box.gate("true");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 10 });
    expect(box.statuses()).toEqual({ a: "in_progress", b: "closed" });
  });
});

describe("the rights of a batch's agents", () => {
  test("are the engine's own edit mode, unless native options, config or --access say otherwise", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    const plan = await box.run(["issues", "run", "--engine", "demo", "--dry-run"]);
    expect(plan.stdout).toContain("New runs: access edit (--access write).");
    const start = await box.batch();
    expect(start).toMatchObject({ code: 0 });
    expect(start.stderr).toContain("1 issue · access edit (--access write)");
    expect(argvs(box)[0]).toContain("--access write");
    const planned = async (...args: string[]) => {
      const all = ["issues", "run", "--engine", "demo", "--dry-run", ...args];
      return (await box.json(all))["access"];
    };
    box.issue("b", "go");
    expect(await planned("--access", "full")).toEqual({
      level: "full",
      options: ["--access", "all"],
      by: null,
    });
    expect(await planned("--", "--access=read")).toEqual({ level: "edit", options: [], by: "--access=read" });
    writeFileSync(join(box.cwd, "reprise.toml"), '[issues]\naccess = "read"\n');
    expect(await planned()).toEqual({ level: "read", options: ["--access", "read"], by: null });
    // A project that gives its agents rights needs consent, like a project that runs programs.
    writeFileSync(join(box.cwd, "reprise.toml"), '[issues]\naccess = "full"\n');
    const untrusted = await box.run(["issues", "run", "--engine", "demo"]);
    expect(untrusted).toMatchObject({ code: 8 });
    expect(untrusted.stderr).toContain("sets issues.access");
  });

  test.each([
    ["claude", "--permission-mode acceptEdits"],
    ["codex", "--sandbox workspace-write"],
    ["gemini", "--approval-mode auto_edit"],
    ["iflow", "--auto-edit"],
  ])("%s starts with %s", async (engine, options) => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    expect(await box.run(["issues", "run", "--engine", engine])).toMatchObject({ code: 0 });
    expect(argvs(box)[0]).toContain(options);
  });

  test("an engine that cannot be held to a level is refused before anything is claimed", async () => {
    using box = new IssueBox();
    box.issue("a", "go");
    box.commit();
    const result = await box.run(["issues", "run", "--engine", "opencode", "--access", "read"]);
    expect(result.code).not.toBe(0);
    expect(result.stderr).toContain('OpenCode has no option that Reprise knows for access "read"');
    expect(box.statuses()).toEqual({ a: "open" });
  });
});

describe("options given with --resume", () => {
  test("reach the agent of an issue in progress, within the rights that its run began with", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@wait:60000");
    box.commit();
    await killed(box, ["a"], "--access", "read");
    const dry = (...args: string[]) =>
      box.json([...box.batchArgs("--resume", "--dry-run", "--json"), ...args]);
    const planned = await box.run(box.batchArgs("--resume", "--dry-run", "--", "--model", "other"));
    expect(planned.stdout).toContain(
      "keep the options that they began with, and get for now: --model other.",
    );
    const [narrow] = (await dry("--", "--model", "other"))["issues"];
    expect(narrow).toMatchObject({ do: "resume", options: ["--model", "other"] });
    for (const wide of [
      ["--access", "full"],
      ["--", "--allow", "everything"],
      ["--fresh", "--access", "full"],
    ]) {
      const [issue] = (await dry(...wide))["issues"];
      expect(issue).toMatchObject({ do: "leave" });
      expect(issue.why).toContain("never gets more rights");
    }
    const left = await box.batch("--resume", "--fresh", "--access", "full");
    expect(left).toMatchObject({ code: 10 });
    expect(argvs(box)).toHaveLength(1);
    edit(box, "a", (text) => text.replace(" @@wait:60000", ""));
    expect(await box.batch("--resume", "--", "--model", "other")).toMatchObject({ code: 0 });
    // The mode of the start, not the default of today.
    expect(argvs(box)[1]).toMatch(/--access read .*--model other|--model other .*--access read/);
  });

  test("reach a new conversation where the work is", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@wait:60000");
    box.commit();
    await killed(box, ["a"]);
    edit(box, "a", (text) => text.replace(" @@wait:60000", ""));
    expect(await box.batch("--resume", "--fresh", "--", "--model", "other")).toMatchObject({ code: 0 });
    expect(argvs(box)[1]).toContain("--model other");
    expect(argvs(box)[1]).toContain("--access write");
  });
});

describe("messages to an agent", () => {
  test("a reopened issue continues in its conversation, with its present text, and is gated again", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.gate('echo gate >> "$HOME/gates"; ls *.txt');
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    const first = box.batches()[0]?.issues["a"];
    for (const [status, flags] of [
      ["open", []],
      ["in_progress", ["--resume"]],
    ] as const) {
      edit(box, "a", (text) =>
        text
          .replace("status: closed", `status: ${status}`)
          .replace(/^.*@@write:\S+/m, `Also ${status} @@write:${status}.txt`),
      );
      const dry = await box.json(["issues", "run", "--engine", "demo", "--dry-run", ...flags]);
      expect(dry["issues"]).toMatchObject([
        { id: "a", do: "resume", session: first?.session_id, why: expect.stringContaining("opened again") },
      ]);
      expect(await box.batch(...flags)).toMatchObject({ code: 0 });
      expect(box.statuses()).toEqual({ a: "closed" });
      const last = box.told().at(-1);
      expect(last?.session).toBe(first?.session_id);
      expect(last?.text).toContain("has been opened again: it is not done");
      expect(last?.text).toContain(`Its text is new. It reads now:\n\nAlso ${status}`);
      expect(last?.text).not.toContain("Done by demo");
      expect(box.git("show", "--stat", "--format=", first?.branch ?? "")).toContain(`${status}.txt`);
    }
    expect(readFileSync(join(box.home, "gates"), "utf8").trim().split("\n")).toHaveLength(3);
  });

  test("a reopened issue without a further change is not closed again", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    edit(box, "a", (text) =>
      text.replace("status: closed", "status: open").replace("@@write:a.txt", "More of it."),
    );
    expect(await box.batch()).toMatchObject({ code: 10 });
    expect(box.batches().at(-1)?.issues["a"]).toMatchObject({ status: "no_change" });
    expect(box.statuses()).toEqual({ a: "in_progress" });
  });

  test("a reopened issue that begins a new conversation also needs a new change", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    const [directory = ""] = box.runDirectories();
    for (const change of ["a new conversation where the work is", "a new run on what was committed"]) {
      edit(box, "a", (text) =>
        text.replace(/status: \w+/, "status: in_progress").replace("@@write:a.txt", "More."),
      );
      if (change.startsWith("a new run")) {
        // As if the first batch were the last: completed, and its run is gone.
        for (const name of readdirSync(box.metadataDirectory()).toSorted().slice(1))
          if (name.endsWith(".json")) rmSync(join(box.metadataDirectory(), name));
        rmSync(directory, { recursive: true });
      }
      expect([change, (await box.batch("--resume", "--fresh")).code]).toEqual([change, 10]);
      expect([change, box.batches().at(-1)?.issues["a"]?.status]).toEqual([change, "no_change"]);
    }
  });

  test("changes of an issue reach the resumed agent once, marked as new, without our own notes", async () => {
    using box = new IssueBox();
    box.issue("a", "First words. @@write:a.txt @@context");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 10 });
    expect(box.text("a")).toContain("> **reprise** ");
    edit(box, "a", (text) =>
      text.replace("title: Issue a", "title: Another title").replace("First words.", "Second words."),
    );
    expect(await box.batch("--resume")).toMatchObject({ code: 10 });
    const told = box.told().at(-1)?.text ?? "";
    expect(told).toContain("The issue was changed since you last read it. What follows is new:");
    expect(told).toContain("Its title is now: Another title");
    expect(told).toContain("Its text is now:\n\nSecond words.");
    expect(told).not.toContain("reprise");
    // Nothing else is new afterwards.
    edit(box, "a", (text) => text.replace("@@context", ""));
    expect(await box.batch("--resume")).toMatchObject({ code: 0 });
    expect(box.told().at(-1)?.text).toContain("Its text is now:");
    expect(box.told().at(-1)?.text).not.toContain("Its title is now");
  });

  test("a turn that ended before its issue changed does not close the issue with the old text", async () => {
    using box = new IssueBox();
    const open = join(box.root, "open");
    box.issue("a", "@@write:a.txt");
    box.gate(`test -e '${open}'`, "attempts = 1\n");
    box.commit();
    // The gate passes, and the closing fails: another merge is under way.
    writeFileSync(open, "");
    mkdirSync(join(box.cwd, ".git"), { recursive: true });
    writeFileSync(join(box.cwd, ".git", "MERGE_HEAD"), `${box.git("rev-parse", "HEAD")}\n`);
    expect(await box.batch("--merge")).toMatchObject({ code: 10 });
    box.git("update-ref", "-d", "MERGE_HEAD");
    const before = box.told().length;
    edit(box, "a", (text) => text.replace("@@write:a.txt", "More. @@write:more.txt"));
    expect(await box.batch("--resume", "--merge")).toMatchObject({ code: 0 });
    expect(box.told()).toHaveLength(before + 1);
    expect(existsSync(join(box.cwd, "more.txt"))).toBe(true);
  });

  test("comments on GitHub reach the agent, new ones marked, without ours", async () => {
    using box = new IssueBox();
    writeFileSync(join(box.cwd, "readme"), "a file");
    box.commit();
    await using github = await startGitHub();
    const comments = ["Mind the gap."];
    github.issues = [
      { number: 1, state: "open", title: "First", body: "@@tool:look @@context", labels: [], comments },
    ];
    const source = ["--repo", "acme/shop", "--api-url", github.url, "--token", "ghp_0123456789"];
    expect(await box.batch(...source)).toMatchObject({ code: 10 });
    expect(box.told()[0]?.text).toContain("Comments on the issue:\n\n");
    expect(box.told()[0]?.text).toContain("Mind the gap.");
    github.issues[0]?.comments.push("Use blue. @@write:blue.txt");
    expect(await box.batch("--resume", ...source)).toMatchObject({ code: 0 });
    const told = box.told().at(-1)?.text ?? "";
    expect(told).toContain("New comments:\n\n");
    expect(told).toContain("Use blue.");
    expect(told).not.toContain("Mind the gap.");
    expect(told).not.toContain("context_full");
  });

  test("comments and acceptance criteria of Beads reach a resumed agent", async () => {
    using box = new IssueBox();
    const file = join(box.cwd, ".beads", "issues.jsonl");
    mkdirSync(join(box.cwd, ".beads"));
    const write = (more: object) =>
      writeFileSync(
        file,
        `${JSON.stringify({ id: "a", title: "A", description: "@@tool:look @@context", status: "open", ...more })}\n`,
      );
    write({});
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 10 });
    const notes = (JSON.parse(readFileSync(file, "utf8")) as { notes: string }).notes;
    expect(notes).toContain("context_full");
    const comments = [{ id: 1, author: "ann", text: "Round corners. @@write:a.txt" }];
    write({ status: "in_progress", notes, acceptance_criteria: "It shines.", comments });
    expect(await box.batch("--resume")).toMatchObject({ code: 10 });
    const told = box.told().at(-1)?.text ?? "";
    expect(told).toContain("## Acceptance criteria\n\nIt shines.");
    expect(told).toContain("New comments:\n\nann: Round corners.");
    expect(told).not.toContain(notes);
  });
});

describe("Beads", () => {
  /** A `bd` that fails as often as the file says, then exports what it keeps, which is newer than the JSONL. */
  function beads(box: IssueBox, failures: number, words: string): void {
    mkdirSync(join(box.cwd, ".beads"), { recursive: true });
    const issue = { id: "a", title: "As it was", description: "@@write:a.txt", status: "open" };
    writeFileSync(join(box.cwd, ".beads", "issues.jsonl"), `${JSON.stringify(issue)}\n`);
    writeFileSync(join(box.cwd, ".beads", "beads.db"), "the database");
    writeFileSync(join(box.root, "kept.jsonl"), `${JSON.stringify({ ...issue, title: "As it is" })}\n`);
    writeFileSync(join(box.root, "failures"), String(failures));
    box.program(
      "bd",
      `n=$(cat '${box.root}/failures')
if [ "$1" = export ] && [ "$n" -gt 0 ]; then echo $((n - 1)) > '${box.root}/failures'; echo '${words}' >&2; exit 1; fi
[ "$1" = export ] && cat '${box.root}/kept.jsonl'; exit 0`,
    );
    box.commit();
  }

  test("bd export is repeated after one failure, and its file is neither read nor written directly", async () => {
    using box = new IssueBox();
    beads(box, 1, "database is locked");
    const result = await box.json(["issues", "list"]);
    expect(result["issues"]).toMatchObject([{ id: "a", title: "As it is" }]);
  });

  test.each(["database is locked", "no beads database found"])(
    "bd export that keeps failing (%s) stops the batch, with what to do",
    async (words) => {
      using box = new IssueBox();
      beads(box, 1000, words);
      const before = readFileSync(join(box.cwd, ".beads", "issues.jsonl"), "utf8");
      const result = await box.batch();
      expect(result.code).not.toBe(0);
      expect(result.stderr).toContain(words);
      expect(result.stderr).toContain("Reprise read and wrote nothing");
      expect(readFileSync(join(box.cwd, ".beads", "issues.jsonl"), "utf8")).toBe(before);
      expect(box.told()).toEqual([]);
    },
  );
});

describe("output for people", () => {
  test("has the end of a failing gate's output in the summary, in `issues status` and in `issues show`", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.gate("seq -f 'line %g of the tests' 1 50; exit 3", "attempts = 1\n");
    box.commit();
    const summary = await box.batch();
    expect(summary).toMatchObject({ code: 10 });
    const states = [...summary.stderr.matchAll(/^(?:reprise: )?a: (\w+)/gm)].map(([, state]) => state);
    expect(states).toEqual(["running", "checking", "failed"]);
    for (const { stdout } of [
      summary,
      await box.run(["issues", "status"]),
      await box.run(["issues", "show", "a"]),
    ]) {
      expect(stdout).toMatch(/^a: sh -c .* failed with exit code 3\.$/m);
      expect(stdout).toContain("  line 50 of the tests\n");
      expect(stdout).toContain("  line 31 of the tests\n");
      expect(stdout).not.toContain("  line 30 of the tests\n");
    }
  });

  test("says until when and how long a limit lasts", async () => {
    using box = new IssueBox();
    box.issue("a", `@@write:a.txt @@429:reset=${new Date(Date.now() + 25 * 60_000).toISOString()}`);
    box.commit();
    const child = box.spawn(box.batchArgs());
    const done = collect(child);
    await until("it waits", () => box.batches()[0]?.issues["a"]?.attempts === 1 && box.told().length === 1);
    await until("its agent has ended", () => box.journalEntries().some(({ event }) => event === "end"));
    child.kill("SIGINT");
    const { stderr } = await done;
    expect(stderr).toMatch(/a waits until (?:\S+ )?\d\d:\d\d \(in 2[4-6] min\): rate_limited/);
    expect(stderr).toMatch(/a: waiting until (?:\S+ )?\d\d:\d\d \(in 2[4-6] min\)$/m);
  });

  test("says until when and how long for a batch that stops at a limit, and keeps the time itself", async () => {
    using box = new IssueBox();
    const reset = new Date(Date.now() + 25 * 60_000).toISOString();
    box.issue("a", `@@429:reset=${reset}`);
    box.commit();
    const stopped = await box.batch("--on-limit", "stop");
    expect(stopped).toMatchObject({ code: 75 });
    expect(stopped.stdout).toMatch(/, until (?:\S+ )?\d\d:\d\d \(in 2[4-6] min\)$/m);
    expect(box.batches()[0]?.issues["a"]?.error).toContain(`(until ${reset})`);
  });
});

test("an issue's run is resumed by its handle without another question when the project's settings are trusted", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.gate("true");
  box.commit();
  expect(await box.batch()).toMatchObject({ code: 0 });
  const handle = box.batches()[0]?.issues["a"]?.handle ?? "";
  expect(await box.run(["resume", handle, "and now?"])).toMatchObject({ code: 0 });
});
