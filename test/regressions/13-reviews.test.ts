/** A review says what happened: limits that pass, declined requests, attempts made elsewhere, why Codex crashed. */
import { readFileSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ReviewBox } from "../e2e/review-box.ts";
import { collect, until } from "../e2e/sandbox.ts";

let box: ReviewBox;
beforeEach(() => {
  box = new ReviewBox();
});
afterEach(() => box[Symbol.dispose]());

const object = (stdout: string) => JSON.parse(stdout) as Record<string, any>;
const remarks = (type: string) => box.transcript().filter((line) => line["type"] === type);
const rewrite = (fields: Record<string, unknown>) => {
  const [path = ""] = box.sidecarPaths();
  writeFileSync(path, JSON.stringify({ ...box.sidecars()[0], ...fields }));
};

describe("a turn that fails for a passing reason", () => {
  test.each(["@@429", "@@quota", "@@500", "@@network"])(
    "%s: is resumed by the same command",
    async (trouble) => {
      box.comments({ id: 1, body: trouble });
      const failed = await box.fromFile();
      const [{ handle, thread_id: thread } = {}] = box.sidecars();
      expect(failed.stderr).toContain(`the same command resumes it, so does \`reprise resume ${handle}\``);
      expect(box.sidecars()).toMatchObject([
        { status: "interrupted", reason: expect.any(String), attempts: 1 },
      ]);
      box.comments({ id: 1, body: "go on" });
      const again = await box.fromFile(["--json"]);
      expect(object(again.stdout)).toMatchObject({ ok: true, resumed: true, handle });
      expect(box.sidecars()).toMatchObject([
        { status: "completed", thread_id: thread, reason: null, resets_at: null, attempts: 2 },
      ]);
    },
  );

  test("says until when, where Codex does, and why when it is resumed", async () => {
    const reset = new Date(Date.now() + 50 * 60_000);
    box.comments({ id: 1, body: `@@429:reset=${reset.toISOString()}` });
    const failed = await box.fromFile();
    expect([failed.code, failed.stderr]).toEqual([
      75,
      expect.stringMatching(/, until (?:\d{4}-\d\d-\d\d )?\d\d:\d\d \(in (?:49|50) min\)\n/),
    ]);
    const [sidecar = {}] = box.sidecars();
    expect(Math.abs(Date.parse(sidecar["resets_at"]) - reset.getTime())).toBeLessThan(120_000);
    box.comments({ id: 1, body: "go on" });
    expect((await box.fromFile()).stderr).toMatch(
      /resuming it\nreprise: it ended because Codex was rate limited: .*, until .*\(in \d+ min\)\n/,
    );
  });

  test("is also offered if Reprise was killed before it recorded that", async () => {
    box.comments({ id: 1, body: "@@500" });
    await box.fromFile();
    rewrite({ status: "running", finished_at: null, reason: null });
    box.comments({ id: 1, body: "go on" });
    expect(object((await box.fromFile(["--json"])).stdout)).toMatchObject({ ok: true, resumed: true });
  });

  test.each(["@@context", "@@401"])(
    "differs from a turn that fails with %s, after which the next turn is fresh",
    async (trouble) => {
      box.comments({ id: 1, body: trouble });
      expect((await box.fromFile()).stderr).toContain("the same command begins a fresh session");
      expect(box.sidecars()).toMatchObject([{ status: "failed", reason: expect.any(String) }]);
      box.comments({ id: 1, body: "go on" });
      expect(object((await box.fromFile(["--json"])).stdout)).toMatchObject({ ok: true, resumed: false });
    },
  );
});

describe("without a UI", () => {
  test("counts and names declined requests", async () => {
    box.comments({ id: 1, body: "do it @@ask:rm @@ask-files:owned.txt" });
    const { stderr } = await box.fromFile();
    expect(stderr).toMatch(
      /reprise: declined, as nobody can be asked: 2 requests: [^\n]*rm[^\n]*; add owned\.txt\n/,
    );
    expect(object((await box.fromFile(["--json"])).stdout)).toMatchObject({ ok: true, declined: 2 });
    box.comments({ id: 1, body: "nothing" });
    expect(object((await box.fromFile(["--json"])).stdout)).toMatchObject({ ok: true, declined: 0 });
  });

  test("writes Codex's actions to stderr and its answer to stdout", async () => {
    box.comments({ id: 1, body: "do it @@tool:shell @@retry" });
    const { stdout, stderr } = await box.fromFile();
    expect(stdout).toMatch(/^You said "[^\n]*\n$/);
    expect(stderr).toMatch(/^⚙ .*shell/m);
    expect(stderr).toMatch(/^↻ /m);
  });

  test.each([
    [[], "1 stored approval, not given again without --keep-approvals: add notes.txt"],
    [["--keep-approvals"], "1 stored approval, given again: add notes.txt"],
  ])("names stored approvals when a session continues: %j", async (args, says) => {
    box.comments({ id: 1, body: "@@ask-files:notes.txt" });
    await box.cued("die:end");
    const [{ key, about, what, t: at } = {}] = remarks("approval");
    rewrite({ approvals: [{ key, about, what, at }] });
    expect((await box.fromFile(args)).stderr).toContain(`reprise: ${says}\n`);
  });

  test("the transcript has the diff of a file change with its answer, without secrets", async () => {
    box.comments({ id: 1, body: "@@ask-files:notes.txt" });
    await box.fromFile();
    expect(remarks("approval")).toMatchObject([
      { about: "files", decision: "decline", changes: [{ what: "add notes.txt", diff: "+patched" }] },
    ]);
  });

  test("explains a crash of Codex by its last words on stderr, harmless and without secrets", async () => {
    const words = "panicked at '\\033[2Jboom': Authorization: Bearer abcdefghijklmnopqrstuvwxyz";
    box.program("codex", `printf "${words}\\n" >&2; exit 101`);
    const run = await box.fromFile();
    expect(run.stderr).toMatch(/reprise: stderr: panicked at 'boom': Authorization: \S*.*\[redacted\]/);
    const { lastWords } = object((await box.fromFile(["--json", "--resume", "never"])).stdout);
    expect(lastWords).toEqual([expect.stringContaining("panicked at")]);
    expect(run.stderr + String(lastWords)).not.toContain("abcdefghijklmnop");
  });
});

describe("a resume by handle", () => {
  test("appears in the sidecar and in the transcript", async () => {
    await box.cued("die:first-delta");
    const [before = {}] = box.sidecars();
    expect((await box.run(["resume", before["handle"], "go on by hand"])).code).toBe(0);
    expect(box.sidecars()).toEqual([
      { ...before, status: "completed", attempts: 2, reason: null, finished_at: expect.any(String) },
    ]);
    expect(box.sidecars()[0]?.["finished_at"] > before["finished_at"]).toBe(true);
    const lines = box.transcript();
    const from = lines.findIndex(({ type, attempt }) => type === "session_resumed" && attempt === 2);
    expect(lines[from]).toMatchObject({ thread_id: before["thread_id"], handle: before["handle"] });
    expect(lines[from + 1]).toMatchObject({ type: "message", text: "go on by hand" });
    expect(
      lines.slice(from).some(({ dir, message }) => dir === "in" && message?.type === "turn.completed"),
    ).toBe(true);
    expect(lines.at(-1)).toMatchObject({ type: "attempt_ended", attempt: 2, status: "completed" });
    // Looking again tells nothing twice.
    await box.fromFile(["--resume", "always"]);
    expect(remarks("attempt_ended")).toHaveLength(1);
  });

  test("that failed for a passing reason leaves a session that is offered", async () => {
    await box.cued("die:first-delta");
    const [{ handle } = {}] = box.sidecars();
    expect((await box.run(["resume", handle, "@@429"])).code).toBe(75);
    expect(box.sidecars()).toMatchObject([
      { status: "interrupted", attempts: 2, reason: expect.any(String) },
    ]);
    expect(object((await box.fromFile(["--json"])).stdout)).toMatchObject({
      ok: true,
      resumed: true,
      handle,
    });
  });

  test("that is killed is reported by the next review", async () => {
    await box.fromFile();
    const [{ handle } = {}] = box.sidecars();
    const child = box.spawn(["resume", handle, "@@hang"]);
    const result = collect(child);
    await until("it hangs", () => box.journalEntries().some(({ event }) => event === "hang"));
    expect(box.sidecars()).toMatchObject([{ status: "running", finished_at: null }]);
    child.kill("SIGKILL");
    await result;
    const again = await box.fromFile(["--json"]);
    expect(object(again.stdout)).toMatchObject({ ok: true, resumed: true, handle });
    expect(box.sidecars()).toMatchObject([{ status: "completed", attempts: 3 }]);
    const told = box
      .transcript()
      .filter(({ type }) => type === "session_resumed" || type === "attempt_ended")
      .map(({ type, attempt, status }) => [type, attempt, status].filter(Boolean).join(" "));
    expect(told).toEqual(["session_resumed 2", "attempt_ended 2 interrupted", "session_resumed"]);
  });

  test("with a damaged sidecar still continues, and leaves the file", async () => {
    await box.cued("die:first-delta");
    const [{ handle } = {}] = box.sidecars();
    const [path = ""] = box.sidecarPaths();
    writeFileSync(path, "{");
    expect((await box.run(["resume", handle, "go on"])).code).toBe(0);
    expect(readFileSync(path, "utf8")).toBe("{");
  });
});
