/** `reprise issues`, as docs/issues.md describes it, with the demo engine. */
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startGitHub } from "../github-server.ts";
import { IssueBox } from "./issue-box.ts";
import { CLI, collect, until } from "./sandbox.ts";

/** A batch that is killed as soon as each of these issues has a session that its agent has kept: it can go on. */
async function interrupted(box: IssueBox, ids: readonly string[], ...args: string[]): Promise<void> {
  const child = box.spawn(box.batchArgs("--max-agents", String(ids.length), ...args));
  const done = collect(child);
  await until("all have sessions, and have written their file", () => {
    const batch = box.batches().at(-1);
    const kept = box.kept();
    return ids.every((id) => {
      const { session_id: session = null, handle = null, tools = null } = batch?.issues[id] ?? {};
      const isWritten = box.worktree(handle ?? "").some((name) => name.endsWith(".txt"));
      // What a batch has not seen its agent do is not known to be heard, and is told again.
      return kept.has(session ?? "") && tools === 1 && isWritten;
    });
  });
  child.kill("SIGKILL");
  await done;
}

test("a batch gives each issue a branch, checks and closes it, lets dependencies wait, and leaves the checkout unchanged", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt", "priority: 3\n");
  box.issue("b", "@@write:b.txt", "priority: 1\ndepends_on: [c]\n");
  box.issue("c", "@@write:c.txt", "priority: 2\n");
  box.issue("x", "held", "status: blocked\n");
  box.gate('ls *.txt && test -n "$REPRISE_BASELINE"');
  box.commit();
  const baseline = box.git("rev-parse", "HEAD");
  const result = await box.batch("--max-agents", "2");
  expect(result).toMatchObject({ code: 0 });
  expect(box.statuses()).toEqual({ a: "closed", b: "closed", c: "closed", x: "blocked" });
  expect(result.stdout).toContain("git merge reprise/a-issue-a");
  expect(box.git("show", "--stat", "--format=%s %P", "reprise/c-issue-c")).toMatch(
    new RegExp(`^c: Issue c ${baseline}\n[^]*c.txt`),
  );
  expect(box.git("rev-parse", "HEAD")).toBe(baseline);
  expect(existsSync(join(box.cwd, "a.txt"))).toBe(false);
  const [batch] = box.batches();
  expect(batch?.completed_at).not.toBeNull();
  expect(batch?.issues["b"]).toMatchObject({
    status: "completed",
    engine: "demo",
    baseline_commit: baseline,
    branch: "reprise/b-issue-b",
    attempts: 1,
    gate: { passed: true },
    findings: [],
    error: null,
  });
  const order = box.told().map(({ text }) => /^# (\w+):/m.exec(text)?.[1]);
  expect(order.indexOf("c")).toBeLessThan(order.indexOf("b"));
  // Everything is done: nothing is begun again.
  expect(await box.batch("--resume")).toMatchObject({ code: 0, stdout: "There was nothing to do.\n" });
});

describe("--resume", () => {
  test("test_resume_session_id_applied: issues in progress continue their own conversations, the rest starts fresh", async () => {
    using box = new IssueBox();
    for (const id of ["a", "b", "c"]) box.issue(id, `@@write:${id}.txt @@wait:60000`);
    box.issue("later", "@@write:later.txt", "depends_on: [a]\n");
    box.commit();
    await interrupted(box, ["a", "b", "c"]);
    expect(box.statuses()).toEqual({ a: "in_progress", b: "in_progress", c: "in_progress", later: "open" });
    const before = box.told();
    const [first] = box.batches();
    writeFileSync(join(box.cwd, "meanwhile.txt"), "the baseline moves on");
    box.commit();
    // Without --resume they are left alone.
    expect(await box.batch()).toMatchObject({ code: 0 });
    expect(box.told()).toHaveLength(before.length);

    const result = await box.batch("--resume", "--strict", "--verbose", "--max-agents", "3");
    expect(result).toMatchObject({ code: 0 });
    expect(box.statuses()).toEqual({ a: "closed", b: "closed", c: "closed", later: "closed" });
    const last = box.batches().at(-1);
    for (const id of ["a", "b", "c"]) {
      const then = first?.issues[id];
      expect(last?.issues[id]).toMatchObject({
        session_id: then?.session_id,
        handle: then?.handle,
        baseline_commit: then?.baseline_commit,
        branch: then?.branch,
        attempts: 2,
      });
      expect(result.stderr).toContain(`Resuming session ${then?.session_id} for ${id}`);
      const said = box.told().filter(({ session }) => session === then?.session_id);
      expect(said.map(({ text }) => text.split("\n")[0])).toEqual([
        "Work on this issue in the repository that you are in, until it is done. Do not push, and do not merge.",
        `You were interrupted while you worked on issue ${id} (Issue ${id}). Go on where you left off.`,
      ]);
    }
  });

  test("names the resumed session only with --verbose", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:w.txt @@wait:60000");
    box.commit();
    await interrupted(box, ["a"]);
    const result = await box.batch("--resume");
    expect(result).toMatchObject({ code: 0 });
    expect(result.stderr).not.toContain("Resuming session");
  });

  test("test_resume_session_id_none_skipped: without prior runs, lenient starts fresh and says so", async () => {
    using box = new IssueBox();
    box.issue("a", "go @@write:go.txt", "status: in_progress\n");
    box.commit();
    const result = await box.batch("--resume");
    expect(result).toMatchObject({ code: 0 });
    expect(result.stderr).toContain("warning: a starts a new conversation: it has no earlier session.");
    expect(box.statuses()).toEqual({ a: "closed" });
  });

  test("does not offer another engine's id", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:w.txt @@wait:60000");
    box.commit();
    await interrupted(box, ["a"]);
    const other = await box.run(["issues", "run", "--engine", "codex", "--resume", "--dry-run"]);
    expect(other.stdout).toMatch(/^a +fresh +- +it has no earlier session/m);
  });

  test("with --fresh keeps the work and drops the conversation", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@wait:60000");
    box.commit();
    await interrupted(box, ["a"]);
    const [first] = box.batches();
    box.issue("a", "go @@write:go.txt", "status: in_progress\n");
    const result = await box.batch("--resume", "--fresh");
    expect(result).toMatchObject({ code: 0 });
    const entry = box.batches().at(-1)?.issues["a"];
    expect(entry).toMatchObject({ handle: first?.issues["a"]?.handle, branch: "reprise/a-issue-a" });
    expect(entry?.session_id).not.toBe(first?.issues["a"]?.session_id);
    expect(box.told().at(-1)?.text).toContain(`look at what changed since commit ${entry?.baseline_commit}`);
    expect(box.git("show", "--stat", "--format=", "reprise/a-issue-a")).toContain("a.txt");
  });
});

describe("--strict", () => {
  test("strict=True fails issue when lookup returns None: that issue alone, before anything is claimed or started", async () => {
    using box = new IssueBox();
    box.issue("a", "go @@write:go.txt", "status: in_progress\n");
    box.issue("b", "go @@write:go.txt");
    box.commit();
    const before = box.text("a");
    const result = await box.batch("--resume", "--strict");
    expect(result).toMatchObject({ code: 10 });
    expect(result.stdout).toMatch(/^a +failed .*Session resumption failed: it has no earlier session$/m);
    expect(box.text("a")).toBe(before);
    expect(box.statuses()).toEqual({ a: "in_progress", b: "closed" });
    expect(box.told()).toHaveLength(1);
  });

  test.each([
    ["strict=True fails issue when the engine rejects the stale session", ["--strict"], 10, "in_progress"],
    ["a stale session in lenient mode triggers fallback, not failure, where the work is", [], 0, "closed"],
  ] as const)("%s", async (_name, flags, code, status) => {
    using box = new IssueBox();
    for (const id of ["a", "b"]) box.issue(id, "@@write:w.txt @@wait:60000");
    writeFileSync(join(box.cwd, "reprise.toml"), 'escrow = "off"\n');
    box.commit();
    await interrupted(box, ["a", "b"]);
    const [first] = box.batches();
    const lost = first?.issues["a"]?.session_id ?? "";
    rmSync(box.sessionFile(lost));
    box.issue("a", "go @@write:go.txt", "status: in_progress\n");
    const dry = await box.json(["issues", "run", "--engine", "demo", "--resume", ...flags, "--dry-run"]);
    const result = await box.batch("--resume", ...flags);
    expect(result).toMatchObject({ code });
    expect(box.statuses()).toEqual({ a: status, b: "closed" });
    const entry = box.batches().at(-1)?.issues["a"];
    if (flags.length > 0) {
      expect(entry?.error).toMatch(/^Session resumption failed: .*does not have session/);
      expect(dry["issues"][0]).toMatchObject({ id: "a", do: "fail", why: entry?.error });
    } else {
      expect(result.stderr).toContain(`does not have session ${lost}`);
      expect(entry).toMatchObject({ status: "completed", handle: first?.issues["a"]?.handle });
      expect(dry["issues"][0]).toMatchObject({ id: "a", do: "fresh", warn: true });
    }
    expect(dry["issues"][1]).toMatchObject({
      id: "b",
      do: "resume",
      session: first?.issues["b"]?.session_id,
    });
  });

  test.each([
    ["before any tool call: begun afresh where the work is", "before-session", [], "closed"],
    ["after a tool call: the call would run again, so it fails", "in-tool", [], "in_progress"],
    ["with --strict: it fails", "before-session", ["--strict"], "in_progress"],
  ] as const)("a session that disappears during the start, %s", async (_name, place, flags, status) => {
    using box = new IssueBox();
    // The engine's store has the session; the engine itself, when it is asked to go on, has not.
    const file = join(box.cwd, "issues", "a.md");
    const write = (body: string, head: string) =>
      writeFileSync(file, `---\ntitle: Door @@lost:${place} quietly\n${head}---\n${body}\n`);
    write("@@write:w.txt @@wait:60000", "");
    box.commit();
    await interrupted(box, ["a"]);
    const then = box.batches()[0]?.issues["a"];
    write(place === "in-tool" ? "go" : "go @@write:go.txt", "status: in_progress\n");
    const result = await box.batch("--resume", ...flags);
    expect(result).toMatchObject({ code: status === "closed" ? 0 : 10 });
    expect(box.statuses()).toEqual({ a: status });
    const now = box.batches().at(-1)?.issues["a"];
    const sessions = box.told().map(({ session }) => session);
    expect(now).toMatchObject({ handle: then?.handle, branch: then?.branch });
    if (status === "closed") {
      expect(result.stderr).toContain("warning: a starts a new conversation: session_lost: no session");
      expect([sessions.length, new Set(sessions).size, now?.attempts]).toEqual([3, 2, 3]);
    } else {
      // No agent got a message after that, and the id stays known.
      expect(sessions).toEqual([then?.session_id, then?.session_id]);
      expect(now?.session_id).toBe(then?.session_id);
      const why = `session_lost: no session ${then?.session_id} any more`;
      expect(now?.error).toBe(
        flags.length > 0 ? `Session resumption failed: ${why}` : `${why}, after 1 tool call of this turn`,
      );
    }
  });

  test.each([
    [["--strict"], "--strict requires --resume flag"],
    [["--fresh"], "--fresh requires --resume flag"],
    [["--resume", "--fresh", "--strict"], "--fresh drops the conversations"],
    [["--isolate", "none", "--max-agents", "2"], "one agent at a time"],
    [["--scope", "some"], "--scope takes all, ids:a,b or epic:X."],
  ])("%j is a usage error", async (flags, text) => {
    using box = new IssueBox();
    const result = await box.batch(...flags);
    expect(result).toMatchObject({ code: 2 });
    expect(result.stderr).toContain(text);
  });

  test("help lists the group and its words", async () => {
    using box = new IssueBox();
    const help = (await box.run(["issues", "run", "--help"])).stdout.replace(/\s+/g, " ");
    expect(help).toContain(
      "Scope & Ordering: -r, --resume Prioritize in_progress issues AND attempt to resume their prior sessions --strict with --resume: fail issues that have no prior session to resume",
    );
  });
});

describe("gates", () => {
  test("send a failure back into the same conversation, and findings open a resumed turn", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    const tries = join(box.root, "tries");
    box.gate(`echo x >> ${tries}; echo 'the test of the door fails'; test "$(wc -l < ${tries})" -ge 2`);
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    const entry = box.batches()[0]?.issues["a"];
    expect(entry).toMatchObject({ attempts: 2, status: "completed" });
    const said = box.told();
    expect(said.map(({ session }) => session)).toEqual([entry?.session_id, entry?.session_id]);
    expect(said[1]?.text).toContain("the test of the door fails");
  });

  test("have bounded attempts and keep findings, with which --resume begins", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    const open = join(box.root, "open");
    box.gate(`echo nobody opened it; test -e ${open}`, "attempts = 2\n");
    box.commit();
    const failed = await box.batch();
    expect(failed).toMatchObject({ code: 10 });
    const first = box.batches()[0]?.issues["a"];
    expect(first).toMatchObject({ status: "failed", attempts: 2, gate: { passed: false } });
    expect(first?.error).toMatch(/^the gate failed 2 times: sh -c/);
    expect(box.text("a")).toContain("> **reprise** ");
    expect(box.statuses()).toEqual({ a: "in_progress" });
    writeFileSync(open, "");
    expect(await box.batch("--resume")).toMatchObject({ code: 0 });
    const last = box.told().at(-1);
    expect(last?.session).toBe(first?.session_id);
    expect(last?.text).toContain("so it comes first, even if the work seems complete:");
    expect(last?.text).toContain("nobody opened it");
  });

  test("fail an issue after two turns without progress, however many attempts are left", async () => {
    using box = new IssueBox();
    box.issue("a", "nothing is ever written");
    box.gate("false", "attempts = 50\n");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 10 });
    expect(box.batches()[0]?.issues["a"]).toMatchObject({ attempts: 3, status: "failed" });
    expect(box.batches()[0]?.issues["a"]?.error).toContain("the agent changes nothing");
  });

  test.each([
    ["a gate that hangs", "sleep 600 & sleep 600", 'timeout = "1s"\n', "took longer than 1 s and was ended."],
    ["a gate that prints without end", "yes", "", "printed more than 16 MiB and was ended."],
    ["a gate that fails without a word", "exit 3", "", "failed with exit code 3."],
  ])("%s", async (_name, script, more, says) => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.gate(script, `${more}attempts = 1\n`);
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 10 });
    expect(box.batches()[0]?.issues["a"]?.gate?.detail.split("\n")[0]).toContain(says);
  });

  test("of a project that is not trusted do not run", async () => {
    using box = new IssueBox();
    box.issue("a", "go @@write:go.txt");
    box.gate("true");
    box.commit();
    const result = await box.run(["issues", "run", "--engine", "demo"]);
    expect(result).toMatchObject({ code: 8 });
    expect(result.stderr).toContain("sets issues.gate");
    expect(box.statuses()).toEqual({ a: "open" });
  });
});

describe("limits and stops", () => {
  test("--on-limit stop ends the batch with 75; the session is kept and continues", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@429:reset=2099-01-01T00:00:00Z");
    box.issue("b", "go @@write:go.txt");
    box.commit();
    const stopped = await box.batch("--on-limit", "stop");
    expect(stopped).toMatchObject({ code: 75 });
    expect(stopped.stdout).toContain(", until 2099-01-01 ");
    expect(box.statuses()).toEqual({ a: "in_progress", b: "open" });
    const [first] = box.batches();
    expect(await box.batch("--resume", "--strict")).toMatchObject({ code: 0 });
    expect(box.batches().at(-1)?.issues["a"]?.session_id).toBe(first?.issues["a"]?.session_id);
  });

  test("a limit that ends soon is awaited", async () => {
    using box = new IssueBox();
    box.issue("a", `@@write:a.txt @@429:reset=${new Date(Date.now() + 1_000).toISOString()}`);
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    expect(box.batches()[0]?.issues["a"]).toMatchObject({ attempts: 2, status: "completed" });
  });

  test("a required login ends the batch with 8", async () => {
    using box = new IssueBox();
    box.issue("a", "@@401");
    box.issue("b", "go @@write:go.txt");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 8 });
    expect(box.statuses()).toEqual({ a: "in_progress", b: "open" });
  });

  test("an agent that dies continues in its conversation", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@die");
    box.commit();
    expect(await box.batch()).toMatchObject({ code: 0 });
    expect(new Set(box.told().map(({ session }) => session)).size).toBe(1);
  });

  test("Ctrl-C drains, and interrupts the second time; --resume continues", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:w.txt @@wait:1500");
    box.issue("b", "@@write:w.txt @@wait:60000");
    box.issue("c", "go @@write:go.txt");
    box.commit();
    const child = box.spawn(box.batchArgs("--max-agents", "2"));
    const done = collect(child);
    await until("both talk", () => box.kept().size === 2);
    child.kill("SIGINT");
    await until("a is done", () => box.statuses()["a"] === "closed");
    child.kill("SIGINT");
    const result = await done;
    expect(result).toMatchObject({ code: 130 });
    expect(result.stderr).toContain("no new issue is begun; Ctrl-C again interrupts the agents");
    expect(box.statuses()).toEqual({ a: "closed", b: "in_progress", c: "open" });
    const kept = box.batches()[0]?.issues["b"];
    expect(kept).toMatchObject({ status: "interrupted" });
    expect(await box.batch("--resume", "--strict")).toMatchObject({ code: 0 });
    expect(box.batches().at(-1)?.issues["b"]?.session_id).toBe(kept?.session_id);
    expect(box.statuses()).toEqual({ a: "closed", b: "closed", c: "closed" });
  });

  test("the second of two batches is refused and names the first", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:w.txt @@wait:60000");
    box.commit();
    const child = box.spawn(box.batchArgs());
    const done = collect(child);
    await until("it talks", () => box.kept().size === 1);
    const second = await box.batch();
    expect(second).toMatchObject({ code: 4 });
    expect(second.stderr).toContain(`pid ${child.pid ?? 0}`);
    child.kill("SIGKILL");
    await done;
    expect(await box.batch("--resume")).toMatchObject({ code: 0 });
  });
});

describe("the place of the work", () => {
  test("--isolate none works in the checkout itself and commits nothing", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    expect(await box.batch("--isolate", "none")).toMatchObject({ code: 0 });
    expect(existsSync(join(box.cwd, "a.txt"))).toBe(true);
    expect(box.git("branch", "--list", "reprise/*")).toBe("");
    expect(box.git("log", "--oneline").split("\n")).toHaveLength(1);
  });

  test("--merge merges, so that dependent issues see the work; a conflict fails that issue", async () => {
    using box = new IssueBox();
    box.issue("a", "one @@write:same.txt");
    box.issue("b", "two @@write:same.txt");
    box.commit();
    const result = await box.batch("--merge", "--max-agents", "2");
    expect(result).toMatchObject({ code: 10 });
    expect(result.stdout).toContain("could not be merged into main: ");
    expect(Object.values(box.statuses()).toSorted()).toEqual(["closed", "in_progress"]);
    expect(box.git("status", "--porcelain", "--untracked-files=no", "--", "same.txt")).toBe("");
    expect(existsSync(join(box.cwd, "same.txt"))).toBe(true);
    // Its work has passed: once it is merged by hand, only the closing is left.
    const messages = box.told().length;
    const left = Object.entries(box.statuses()).find(([, status]) => status !== "closed")?.[0] ?? "";
    box.git("merge", "--no-edit", "-X", "ours", `reprise/${left}-issue-${left}`);
    const again = await box.batch("--resume", "--merge", "--strict");
    expect([again.code, again.code === 0 ? "" : again.stdout + again.stderr]).toEqual([0, ""]);
    expect(box.statuses()).toEqual({ a: "closed", b: "closed" });
    expect(box.told()).toHaveLength(messages);
  });

  test("git is tried again after it meets a worktree that another git is making", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt");
    box.commit();
    const git = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
    const met = join(box.root, "met");
    // As git does it: the branch is made, the worktree is not.
    box.program(
      "git",
      `case "$*" in *" worktree add --no-checkout -b "*) if [ ! -e '${met}' ]; then
  : > '${met}'
  while [ "$1" != -b ]; do shift; done
  ${git} branch "$2" "$4"
  echo 'fatal: failed to read .git/worktrees/worktree7/commondir: Success' >&2
  exit 128
fi;; esac
exec ${git} "$@"`,
    );
    expect(await box.batch()).toMatchObject({ code: 0 });
    expect(existsSync(met)).toBe(true);
    expect(box.git("branch", "--list", "reprise/*")).toMatch(/^\+ reprise\/a-issue-a$/);
    expect(box.git("show", "--stat", "--format=", "reprise/a-issue-a")).toContain("a.txt");
  });

  test("titles that make bad branch names get good ones", async () => {
    using box = new IssueBox();
    const titles = ["--upload-pack=x", "a..b @{1} .lock", "ÄÖÜ\u0007ß", "日本", "long ".repeat(100)];
    for (const [at, title] of titles.entries()) {
      writeFileSync(join(box.cwd, "issues", `t${at}.md`), `---\ntitle: '${title}'\n---\n@@write:t.txt\n`);
    }
    box.commit();
    expect(await box.batch("--max-agents", "2")).toMatchObject({ code: 0 });
    expect(box.git("branch", "--list", "reprise/*").split("\n")).toHaveLength(titles.length);
  });

  test("an engine that vanishes between issues ends the batch and leaves the rest open", async () => {
    using box = new IssueBox();
    box.issue("a", "go @@write:go.txt");
    box.issue("b", "go @@write:go.txt");
    box.gate(`rm -f ${join(box.bin, "gemini")}`);
    box.commit();
    const result = await box.run(["issues", "run", "--engine", "gemini", "--trust-cwd"]);
    expect(result).toMatchObject({ code: 6 });
    expect(box.statuses()["a"]).toBe("closed");
    expect(box.statuses()["b"]).not.toBe("closed");
  });
});

test("--dry-run announces what then happens", async () => {
  using box = new IssueBox();
  for (const id of ["a", "b"]) box.issue(id, "@@write:w.txt @@wait:60000");
  box.commit();
  await interrupted(box, ["a", "b"]);
  box.issue("c", "go @@write:go.txt", "priority: 0\n");
  box.issue("d", "go @@write:go.txt", "status: in_progress\n");
  box.issue("e", "go @@write:go.txt", "status: blocked\n");
  box.issue("f", "go @@write:go.txt", "depends_on: [e]\n");
  const [first] = box.batches();
  const before = box.statuses();
  const dry = await box.json(["issues", "run", "--engine", "demo", "--resume", "--dry-run"]);
  expect(box.statuses()).toEqual(before);
  expect(box.batches()).toHaveLength(1);
  const messages = box.told().length;
  await box.batch("--resume");
  const last = box.batches().at(-1);
  const ids: string[] = dry["issues"].map(({ id }: { id: string }) => id);
  expect(ids).toEqual(last?.planned);
  // Of two agents that work at once, either may be recorded first.
  expect(ids.toSorted()).toEqual(Object.keys(last?.issues ?? {}).toSorted());
  for (const planned of dry["issues"]) {
    const entry = last?.issues[planned.id];
    const said = box
      .told()
      .slice(messages)
      .filter(({ session }) => session === entry?.session_id);
    expect([planned.id, said.length]).toEqual([planned.id, 1]);
    const resumed = said[0]?.text.startsWith("You were interrupted") === true;
    expect([planned.id, planned.do]).toEqual([planned.id, resumed ? "resume" : "fresh"]);
    if (resumed)
      expect([entry?.session_id, entry?.session_id]).toEqual([
        planned.session,
        first?.issues[planned.id]?.session_id,
      ]);
  }
  expect(dry["skipped"].map(({ id }: { id: string }) => id).toSorted()).toEqual(["e", "f"]);
});

test("the commands list, show, status and logs describe a batch", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.issue("b", "go @@write:go.txt", "depends_on: [a]\nstatus: blocked\n");
  box.commit();
  expect((await box.run(["issues", "list"])).stdout).toMatch(
    /^a +open +P2 +Issue a\nb +blocked +P2 +Issue b {2}\(waits for a\)$/m,
  );
  await box.batch();
  expect((await box.json(["issues", "list"]))["issues"]).toMatchObject([{ id: "b", waitsFor: [] }]);
  expect(await box.json(["issues", "show", "a"])).toMatchObject({
    issue: { id: "a", status: "closed" },
    history: [{ status: "completed" }],
  });
  expect(await box.json(["issues", "sessions"])).toMatchObject({
    sessions: [{ issue: "a", engine: "demo" }],
  });
  expect(await box.json(["issues", "status"])).toMatchObject({
    batch: { issues: { a: { status: "completed" } } },
  });
  expect((await box.run(["issues", "logs", "a", "--plain"])).stdout).toContain("session_id");
  expect((await box.run(["issues", "logs", "b"])).code).toBe(3);
  expect((await box.run(["issues", "show", "zzz"])).code).toBe(3);
  expect(await box.json(["issues", "clean"])).toMatchObject({ removed: [] });
  expect((await box.json(["issues", "clean", "--older-than", "1ms"]))["removed"]).toHaveLength(1);
  expect(readdirSync(box.metadataDirectory()).filter((name) => name.endsWith(".json"))).toEqual([]);
  expect((await box.run(["issues", "status"])).stdout).toContain("has had no batch yet");
});

test("GitHub issues are claimed by a label, closed with a comment, noted on failure; strangers' are left out", async () => {
  using box = new IssueBox();
  writeFileSync(join(box.cwd, "readme"), "a file");
  box.commit();
  await using github = await startGitHub();
  const common = { state: "open", labels: [], comments: [] } as const;
  github.issues = [
    { ...common, number: 1, title: "First", body: "@@write:one.txt", labels: ["P3"], comments: [] },
    { ...common, number: 2, title: "Second", body: "Blocked by #1. @@context", labels: [], comments: [] },
    {
      ...common,
      number: 3,
      title: "Theirs",
      body: "run this",
      labels: [],
      comments: [],
      association: "NONE",
    },
  ];
  const source = ["--repo", "acme/shop", "--api-url", github.url, "--token", "ghp_0123456789"];
  expect(await box.batch(...source)).toMatchObject({ code: 10 });
  expect(github.issues.map(({ state, labels }) => [state, labels])).toEqual([
    ["closed", ["P3", "in_progress"]],
    ["open", ["in_progress"]],
    ["open", []],
  ]);
  expect(github.issues[0]?.comments).toEqual([
    expect.stringMatching(/^Done by demo .* on branch reprise\/1-first\.$/),
  ]);
  expect(github.issues[1]?.comments).toEqual([expect.stringContaining("failed: context_full")]);
  expect(box.told()).toHaveLength(2);
});

test("--watch takes later issues until it is stopped", async () => {
  using box = new IssueBox();
  box.issue("a", "go @@write:go.txt");
  box.commit();
  const child = box.spawn(box.batchArgs("--watch"));
  const done = collect(child);
  await until("a is done", () => box.statuses()["a"] === "closed");
  box.issue("b", "go @@write:go.txt");
  await until("b is done", () => box.statuses()["b"] === "closed", 50_000);
  child.kill("SIGTERM");
  expect(await done).toMatchObject({ code: 143 });
  expect(box.batches()).toHaveLength(1);
});

test("the walk-through of docs/issues.md works word for word", async () => {
  using box = new IssueBox();
  box.program("reprise", `exec '${process.execPath}' '${CLI}' "$@"`);
  const page = readFileSync("docs/issues.md", "utf8");
  const part = page.slice(page.indexOf("## Five minutes"), page.indexOf("## Where issues come from"));
  const script = [...part.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, lines = ""]) => lines).join("");
  // The machine dies when the agent has begun, however long that takes here.
  const begun = `ls ${JSON.stringify(box.state)}/runs/*/worktree/bye.txt > /dev/null 2>&1`;
  box.program("timeout", `shift 3; "$@" & until ${begun}; do sleep 0.05; done; kill -9 $!; wait $!`);
  const child = spawn("sh", ["-e"], { cwd: box.root, env: box.env(), stdio: "pipe" });
  child.stdin.end(script);
  const { code, stdout, stderr } = await collect(child);
  expect([code, code === 0 ? "" : stderr]).toEqual([0, ""]);
  expect(stdout).toMatch(/^bye +resume +[0-9a-f-]{36} +its conversation continues/m);
  expect(stderr).toMatch(/Resuming session [0-9a-f-]{36} for bye/);
  expect(stdout).toMatch(/^bye +closed/m);
  expect(stdout).toContain("Say hello.");
}, 120_000);
