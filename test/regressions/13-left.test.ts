/** A conversation that can be restored is kept for its user: batches and reviews leave it, say why, and say what to type. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { ReviewBox } from "../e2e/review-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

/** What a person types: the words of a command that was printed, with `go on` in place of the message. */
const typed = (command: string) =>
  command
    .replace(/^reprise /, "")
    .replace('"…"', "continue")
    .split(" ");

/** The last lines of a session are lost: its copy in the run directory has more. */
function cut(path: string, keep = 2): void {
  const lines = readFileSync(path, "utf8").split("\n");
  expect(lines.length).toBeGreaterThan(keep + 1);
  writeFileSync(path, `${lines.slice(0, keep).join("\n")}\n`);
}

/** A batch that is stopped when the issue's agent has kept its message. Its conversation has a copy. */
async function stopped(box: IssueBox, id: string, ...args: string[]): Promise<string> {
  const child = box.spawn(["issues", "run", "--engine", "demo", ...args]);
  const done = collect(child);
  await until(`${id} has a session`, () =>
    box.kept().has(box.batches().at(-1)?.issues[id]?.session_id ?? ""),
  );
  child.kill("SIGTERM");
  await done;
  return box.batches().at(-1)?.issues[id]?.handle ?? "";
}

const sessionOf = (box: IssueBox, id: string) => box.batches()[0]?.issues[id]?.session_id ?? "";
const edit = (box: IssueBox, id: string, from: string, to: string) =>
  writeFileSync(join(box.cwd, "issues", `${id}.md`), box.text(id).replace(from, to));

describe("an issue in progress whose session lacks a part of its copy", () => {
  test("is left with the reason and the commands, and continues after one of them", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@hang:after-text");
    box.commit();
    const handle = await stopped(box, "a");
    edit(box, "a", " @@hang:after-text", "");
    cut(box.sessionFile(sessionOf(box, "a")), 1);
    const restore = `reprise resume ${handle} --restore-copy "…"`;
    for (const command of [["status"], ["show", "a"]]) {
      const { stdout } = await box.run(["issues", ...command]);
      expect(stdout).toContain(restore);
      expect(stdout).not.toContain("Continue it:");
    }
    const plan = await box.json(["issues", "run", "--resume", "--dry-run"]);
    expect(plan["issues"]).toMatchObject([{ id: "a", do: "leave", why: expect.stringContaining(restore) }]);
    const messages = box.told().length;
    const left = await box.run(["issues", "run", "--resume"]);
    expect(left).toMatchObject({ code: 10, stdout: expect.stringContaining(restore) });
    expect(left.stdout).toMatch(/^a +left +[0-9a-f]{8} /m);
    expect(box.told()).toHaveLength(messages);
    expect(box.statuses()).toEqual({ a: "in_progress" });
    const strict = await box.json(["issues", "run", "--resume", "--strict"]);
    expect(strict).toMatchObject({
      exitCode: 10,
      issues: [{ state: "failed", why: expect.stringMatching(/^Session resumption failed: /) }],
    });
    expect(box.told()).toHaveLength(messages);
    expect(strict["resume"]).toBeNull();
    expect(await box.run(typed(restore))).toMatchObject({ code: 0 });
    const { resume } = await box.json(["issues", "status"]);
    expect(resume).toBe("reprise issues run --resume --strict --engine demo");
    expect(await box.run(typed(resume))).toMatchObject({ code: 0 });
    expect(new Set(box.told().map(({ session }) => session)).size).toBe(1);
    expect(box.statuses()).toEqual({ a: "closed" });
  });

  test("fails when the session is cut while the batch works, and no new conversation begins", async () => {
    using box = new IssueBox();
    // The gate cuts the session of the turn before it, as somebody else might.
    const sessions = join(box.state, "demo", "sessions");
    box.gate(
      `for f in '${sessions}'/*.jsonl; do head -n 2 "$f" > "$f.x"; cat "$f.x" > "$f"; rm "$f.x"; done; exit 1`,
    );
    box.issue("a", "@@write:a.txt");
    box.commit();
    const result = await box.batch();
    expect(result).toMatchObject({ code: 10 });
    expect(result.stdout).toMatch(/^a +failed /m);
    expect(result.stdout).toContain("--restore-copy");
    expect(box.told()).toHaveLength(1);
    expect(box.runDirectories()).toHaveLength(1);
  });
});

describe("the offer for issues that a batch left", () => {
  /** What the summary, `status`, `show` and their JSON offer, which must be one and the same. */
  async function offered(box: IssueBox, summary: Record<string, any>, id: string | null) {
    const status = await box.json(["issues", "status"]);
    expect(status["resume"]).toBe(summary["resume"]);
    const line = /^Continue it: (.*)$/m;
    const printed = (await box.run(["issues", "status"])).stdout;
    expect(line.exec(printed)?.[1] ?? null).toBe(summary["resume"]);
    if (id === null) return printed;
    expect((await box.json(["issues", "show", id]))["resume"]).toBe(summary["resume"]);
    return printed;
  }

  test("is the command with their engine, which works when it is typed", async () => {
    using box = new IssueBox();
    box.issue("a", "@@write:a.txt @@hang:after-text");
    box.issue("b", "@@write:b.txt");
    box.commit();
    await stopped(box, "a", "--scope", "ids:a");
    edit(box, "a", " @@hang:after-text", "");
    expect(await box.run(["issues", "run", "--engine", "codex", "--scope", "ids:b"])).toMatchObject({
      code: 0,
    });
    box.issue("c", "@@write:c.txt");
    const command = "reprise issues run --resume --engine demo --scope ids:a";
    const beside = await box.run(["issues", "run", "--resume"]);
    expect(beside).toMatchObject({
      code: 10,
      stderr: expect.stringContaining(`1 issue stayed in progress: ${command}\n`),
    });
    const left = await box.json(["issues", "run", "--resume"]);
    expect(left).toMatchObject({ exitCode: 10, issues: [{ id: "a", state: "left" }], resume: command });
    const printed = await offered(box, left, "a");
    expect(printed).toContain("It started no issue.\n");
    expect(printed).toMatch(/^1 +a: it has no earlier session of claude: .*--engine demo continues it$/m);
    expect(await box.run(typed(left["resume"]))).toMatchObject({ code: 0 });
    expect(box.statuses()).toEqual({ a: "closed", b: "closed", c: "closed" });
  });

  test("is empty for issues that the source has lost, and their runs and branches are named", async () => {
    using box = new IssueBox();
    for (const id of ["a", "b", "c"]) box.issue(id, "@@write:w.txt");
    edit(box, "b", "@@write:w.txt", "@@write:w.txt @@hang:after-text");
    box.commit();
    const handle = await stopped(box, "b", "--scope", "ids:a,b,c");
    for (const id of ["b", "c"]) rmSync(join(box.cwd, "issues", `${id}.md`));
    const kept = `run ${handle} on branch reprise/b-issue-b is kept: reprise show ${handle}`;
    const result = await box.run(["issues", "run", "--resume"]);
    expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining(kept) });
    const again = await box.json(["issues", "run", "--resume"]);
    expect(again).toMatchObject({
      resume: null,
      orphans: [{ id: "b", handle, branch: "reprise/b-issue-b" }],
    });
    expect(await offered(box, again, null)).toContain(kept);
    expect((await box.run(["issues", "show", "b"])).stderr).toContain(`reprise show ${handle}`);
  });
});

test("a review whose session was cut is refused with what to type, stays offered, and no fresh one replaces it", async () => {
  using box = new ReviewBox();
  await box.cued("die:first-delta");
  const [{ handle, thread_id: thread } = {}] = box.sidecars();
  const sessions = join(box.home, ".codex", "sessions");
  const names = readdirSync(sessions, { recursive: true, encoding: "utf8" });
  cut(join(sessions, names.find((name) => name.includes(thread)) ?? ""), 1);
  const restore = `reprise resume ${handle} --restore-copy "…"`;
  for (const when of ["always", "auto", "auto"]) {
    const refused = await box.fromFile(["--resume", when]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining(restore) });
    expect(box.sidecars()).toMatchObject([{ status: "interrupted", handle }]);
    expect(refused.stderr).toContain(
      "The session is kept. To start a new session instead, add: --resume never",
    );
  }
  expect(await box.run(typed(restore))).toMatchObject({ code: 0 });
  expect(box.sidecars()).toMatchObject([{ status: "completed", thread_id: thread, attempts: 2 }]);
});
