/** `--fork` makes a separate run, and the run that was forked keeps its conversation. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { collect, Sandbox, until } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

const sessionFile = (id: string) => join(box.state, "demo", "sessions", `${id}.jsonl`);
const runFile = (run: Record<string, any>) => readFileSync(join(run["runDirectory"], "run.json"), "utf8");

test.each(["demo", "codex", "claude", "opencode"])(
  "a fork of %s is a separate run, and the old handle keeps the old conversation",
  async (engine) => {
    const parent = await box.json(["start", engine, "remember 4711"]);
    const before = runFile(parent);
    const fork = await box.json(["resume", parent["handle"], "--fork", "remember 4712"]);
    expect(fork).toMatchObject({
      ok: true,
      kind: "fork",
      attempt: 1,
      resumable: true,
      parent: { runId: parent["runId"], handle: parent["handle"], session: parent["session"].value },
      receipt: { asked: parent["session"].value, verified: "forked" },
    });
    expect(fork["handle"]).not.toBe(parent["handle"]);
    expect(fork["session"].value).not.toBe(parent["session"].value);
    expect(runFile(parent)).toBe(before);

    const old = await box.json(["resume", parent["handle"], "what?"]);
    expect(old).toMatchObject({
      ok: true,
      attempt: 2,
      session: { value: parent["session"].value },
      parent: null,
    });
    expect(old["text"]).toContain("4711");
    expect(old["text"]).not.toContain("4712");
    const next = await box.json(["resume", fork["handle"], "what?"]);
    expect(next).toMatchObject({ ok: true, attempt: 2, session: { value: fork["session"].value } });
    expect(next["text"]).toMatch(/4711[\s\S]*4712/);
  },
);

test("a fork with an engine that cannot fork begins no run", async () => {
  const { handle } = await box.json(["start", "gemini", "hello"]);
  const runs = box.runDirectories().length;
  expect(await box.json(["resume", handle, "--fork", "go on"])).toMatchObject({
    ok: false,
    error: { code: "engine_cannot" },
  });
  expect(box.runDirectories()).toHaveLength(runs);
});

describe("a fork", () => {
  test("shows its parent in the summary, in show, detached and in a dry run", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const dry = await box.run(["resume", handle, "--fork", "x", "--dry-run"]);
    expect(dry.stdout).toMatch(/new run.*in the same directory/);
    const { stderr } = await box.run(["resume", handle, "--fork", "x"]);
    const fork = /^handle {3}([0-9a-f]{8})/m.exec(stderr)?.[1] ?? "";
    expect(stderr).toContain(`fork of  ${handle}`);
    expect(stderr).toContain(`(reprise resume ${fork} "…")`);
    expect((await box.run(["show", fork])).stdout).toMatch(
      new RegExp(`fork of +${handle} +session ${session.value}`),
    );
    const detached = await box.json(["resume", handle, "--fork", "x", "--detach"]);
    expect(detached).toMatchObject({ ok: true, attempt: 1, parent: handle });
    const { runs } = await box.json<{ runs: Record<string, any>[] }>(["list"]);
    expect(
      runs
        .filter(({ parent }) => parent?.handle === handle)
        .map((run) => run["handle"])
        .toSorted(),
    ).toEqual([fork, detached["handle"]].toSorted());
  });

  test("keeps the rights and options of its parent, and gets no others", async () => {
    const { handle } = await box.json(["start", "demo", "one", "--", "--access", "read", "--model", "m1"]);
    const wider = ["resume", handle, "--fork", "--native", "--access", "--native", "all", "two"];
    expect(await box.json(wider)).toMatchObject({ ok: false, error: { code: "would_widen" } });
    const fork = await box.json(["resume", handle, "--fork", "two"]);
    expect(fork["text"]).toMatch(/model=m1 .*access=read/);
    const again = ["resume", fork["handle"], "--native", "--access", "--native", "all", "three"];
    expect(await box.json(again)).toMatchObject({ ok: false, error: { code: "would_widen" } });
    expect((await box.json(["resume", fork["handle"], "three"]))["text"]).toMatch(/model=m1 .*access=read/);
  });

  test("keeps its parent when the index is rebuilt", async () => {
    using own = new Sandbox();
    const parent = await own.json(["start", "demo", "remember 4711"]);
    const fork = await own.json(["resume", parent["handle"], "--fork", "x"]);
    rmSync(join(own.state, "index.db"));
    await own.run(["doctor", "--rebuild-index"]);
    expect(await own.json(["show", fork["handle"]])).toMatchObject({ parent: { handle: parent["handle"] } });
    expect(await own.json(["show", parent["handle"]])).not.toHaveProperty("parent");
    expect((await own.json(["resume", fork["handle"], "what?"]))["text"]).toContain("4711");
  });

  test("that named another session does not continue in the conversation of its parent", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    const before = readFileSync(sessionFile(session.value), "utf8");
    const strange = await box.json(["resume", handle, "--fork", "x @@other-session"]);
    await box.json(["resume", strange["handle"], "go on"]);
    expect(readFileSync(sessionFile(session.value), "utf8")).toBe(before);
  });

  test("whose engine never named the copy has no conversation, and leads back to its parent", async () => {
    using own = new Sandbox();
    const { handle } = await own.json(["start", "codex", "remember 4711"]);
    own.program("codex", "echo 'no room' >&2; exit 1");
    const { stderr } = await own.run(["resume", handle, "--fork", "x"]);
    const fork = /^handle {3}([0-9a-f]{8})/m.exec(stderr)?.[1] ?? "";
    expect(stderr).toContain("cannot be resumed");
    expect(stderr).not.toContain(`reprise resume ${fork}`);
    expect((await own.run(["show", fork])).stdout).toContain(`reprise resume ${handle} --fork "…"`);
    expect(await own.json(["resume", fork, "go on"])).toMatchObject({ error: { code: "session_unknown" } });
  });

  test("offers its parent only while that exists, and by the command that leads to that conversation", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    await box.json(["resume", handle, "--force-fresh", "other"]);
    const forked = await box.run(["resume", handle, "--fork", "--session", session.value, "x"]);
    const back = `reprise resume ${handle} --session ${session.value} "…"`;
    expect(forked.stderr).toContain(`fork of  ${handle}   (${back} goes on there)`);
    const fork = /^handle {3}([0-9a-f]{8})/m.exec(forked.stderr)?.[1] ?? "";
    const words = ["resume", handle, "--session", session.value, "what?"];
    expect((await box.json(words))["text"]).toContain("4711");
    const detached = await box.run(["resume", handle, "--fork", "--session", session.value, "x", "--detach"]);
    expect(detached.stderr).toContain(back);
    await box.run(["rm", handle]);
    const { stderr } = await box.run(["resume", fork, "go on"]);
    expect(stderr).toContain(`fork of  ${handle}   (that run is no longer there)`);
    expect(stderr).not.toContain(`reprise resume ${handle}`);
  });

  test("that was killed before its first word is known from the engine's store, which is no report of the engine", async () => {
    using own = new Sandbox();
    const { handle } = await own.json(["start", "claude", "remember 4711"]);
    own.program(
      "claude",
      `while [ $# -gt 0 ]; do case $1 in --resume) old=$2;; --session-id) new=$2;; esac; shift; done
      file=$(find "$HOME/.claude/projects" -name "$old.jsonl")
      sed "s/$old/$new/g" "$file" > "$(dirname "$file")/$new.jsonl"; kill -9 $$`,
    );
    const { stderr } = await own.run(["resume", handle, "--fork", "x"]);
    expect(stderr).toMatch(/^session {2}.*a copy of the conversation: the engine's store has it/m);
    expect(stderr).not.toContain("the engine reported");
    const fork = /^handle {3}([0-9a-f]{8})/m.exec(stderr)?.[1] ?? "";
    const { stdout } = await own.run(["show", fork]);
    expect(stdout).toMatch(/a copy of .*, which the engine's store has under the new id/);
    expect(stdout).not.toContain("the engine reported");
  });

  test("of a lost conversation is made from the copy of its parent", async () => {
    const { handle, session } = await box.json(["start", "demo", "remember 4711"]);
    rmSync(sessionFile(session.value));
    const fork = await box.json(["resume", handle, "--fork", "what?"]);
    expect(fork).toMatchObject({ ok: true, receipt: { restoredFromEscrow: true } });
    expect(fork["text"]).toContain("4711");
    expect((await box.json(["resume", handle, "what?"]))["text"]).toContain("4711");
  });

  test("leaves the parent free as soon as the engine has named the copy", async () => {
    const { handle } = await box.json(["start", "demo", "remember 4711"]);
    const known = new Set(box.runDirectories());
    const child = box.spawn(["resume", handle, "--fork", "x @@hang"]);
    child.stdin?.end();
    const done = collect(child);
    const run = await until("the fork", () => box.runDirectories().find((path) => !known.has(path)));
    const record = join(run, "attempts/1/meta.json");
    await until(
      "its session",
      () => existsSync(record) && JSON.parse(readFileSync(record, "utf8")).reported.length > 0,
    );
    expect((await box.json(["resume", handle, "what?"]))["text"]).toContain("4711");
    expect(await box.run(["stop", run.slice(-8)])).toMatchObject({ code: 0 });
    await done;
  });

  test("that was killed leaves its parent unchanged, and can itself be resumed", async () => {
    const parent = await box.json(["start", "demo", "remember 4711"]);
    const before = runFile(parent);
    const known = new Set(box.runDirectories());
    const child = box.spawn(["resume", parent["handle"], "--fork", "remember 4712 @@hang"]);
    child.stdin?.end();
    const done = collect(child);
    const run = await until("the fork", () => box.runDirectories().find((path) => !known.has(path)));
    const tape = join(run, "attempts/1/stdout.log");
    await until("its answer", () => existsSync(tape) && readFileSync(tape, "utf8").includes("You "));
    child.kill("SIGKILL");
    await done;
    expect(await box.json(["show", run.slice(-8)])).toMatchObject({
      status: "interrupted",
      parent: { handle: parent["handle"] },
    });
    expect(runFile(parent)).toBe(before);
    expect((await box.json(["resume", run.slice(-8), "what?"]))["text"]).toMatch(/4711[\s\S]*4712/);
    expect((await box.json(["resume", parent["handle"], "what?"]))["text"]).not.toContain("4712");
  });

  test("of a live run is refused", async () => {
    const known = new Set(box.runDirectories());
    const child = box.spawn(["start", "demo", "x @@hang"]);
    child.stdin?.end();
    const done = collect(child);
    const run = await until("the run", () => box.runDirectories().find((path) => !known.has(path)));
    const tape = join(run, "attempts/1/stdout.log");
    await until("its answer", () => existsSync(tape) && readFileSync(tape, "utf8").includes("You "));
    const handle = run.slice(-8);
    expect(await box.json(["resume", handle, "--fork", "y"])).toMatchObject({
      error: { code: "session_busy" },
    });
    await box.run(["stop", handle]);
    await done;
  });

  test("works in the isolated directory of its parent, which cannot be removed meanwhile", async () => {
    const repo = join(box.root, "fork-repo");
    mkdirSync(repo);
    const git = (...args: string[]) =>
      spawnSync("git", ["-c", "user.name=n", "-c", "user.email=e@x", ...args], { cwd: repo });
    git("init", "-q");
    git("commit", "-q", "--allow-empty", "-m", "x");
    const parent = await box.json(["start", "demo", "one", "--isolate", "worktree"], { cwd: repo });
    const fork = await box.json(["resume", parent["handle"], "--fork", "two"]);
    const [one, two] = [await box.json(["show", parent["handle"]]), await box.json(["show", fork["handle"]])];
    expect(two).toMatchObject({ cwd: one["cwd"], launch: { isolate: null } });
    const refused = await box.json(["rm", parent["handle"]]);
    expect(JSON.stringify(refused)).toContain(`run ${fork["handle"]} works in the same directory`);
    expect(existsSync(one["cwd"])).toBe(true);
    expect(await box.run(["rm", fork["handle"]])).toMatchObject({ code: 0 });
    expect(existsSync(one["cwd"])).toBe(true);
    expect(await box.run(["rm", parent["handle"]])).toMatchObject({ code: 0 });
  });
});

test("a run that an earlier version forked in place is shown and resumed unchanged", async () => {
  const { handle, runDirectory, session } = await box.json(["start", "demo", "remember 4711"]);
  await box.json(["resume", handle, "more"]);
  const meta = join(runDirectory, "attempts/2/meta.json");
  writeFileSync(meta, JSON.stringify({ ...JSON.parse(readFileSync(meta, "utf8")), kind: "fork" }));
  const shown = await box.run(["show", handle]);
  expect([shown.code, shown.stderr]).toEqual([0, ""]);
  expect(shown.stdout).toContain("attempt 2  fork");
  expect(await box.json(["resume", handle, "what?"])).toMatchObject({
    ok: true,
    attempt: 3,
    session: { value: session.value },
  });
});
