/** A later attempt of a run has no more rights than the first, whichever way it is started (I12). */
import { appendFileSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

/** The engine, with a list of the arguments and of the trust that each start had. */
function watched(engine: string): () => readonly string[] {
  const [real, log] = [join(box.bin, `real-${engine}`), join(box.root, "starts.log")];
  renameSync(join(box.bin, engine), real);
  box.program(
    engine,
    `printf '%s trust=%s\\n' "$*" "$GEMINI_CLI_TRUST_WORKSPACE" >> '${log}'; exec '${real}' "$@"`,
  );
  return () =>
    readFileSync(log, "utf8")
      .trim()
      .split("\n")
      .filter((line) => !line.startsWith("--version"));
}

describe("codex takes the sandbox of the run's first conversation, not of today's config, for", () => {
  const ways: Record<string, (run: Record<string, any>) => readonly string[]> = {
    "a resume": ({ handle }) => ["resume", handle, "go on"],
    "a fork": ({ handle }) => ["resume", handle, "--fork", "go on"],
    "a fresh conversation": ({ handle }) => ["resume", handle, "--force-fresh", "anew"],
    "a start in its directory": ({ runDirectory }) => ["start", "codex", "--run-dir", runDirectory, "anew"],
  };
  test.each(Object.entries(ways))("%s", async (_name, words) => {
    const starts = watched("codex");
    const run = await box.json(["start", "codex", "hello"]);
    beganIn("read-only");
    expect(await box.json(words(run))).toMatchObject({ ok: true });
    expect(starts()).toHaveLength(2);
    expect(starts()[0]).not.toContain("-s ");
    expect(starts()[1]).toContain("-s read-only");
  });

  test("a fresh conversation after a fresh conversation", async () => {
    const starts = watched("codex");
    const { handle } = await box.json(["start", "codex", "hello"]);
    beganIn("read-only");
    for (const message of ["two", "three"])
      expect(await box.json(["resume", handle, "--force-fresh", message])).toMatchObject({ ok: true });
    expect(starts()[2]).toContain("-s read-only");
  });
});

test.each(["--sandbox=no", "--sandbox=0", "--sandbox=", "-s=off", "--no-sandbox"])(
  "%s switches no sandbox off on a resume",
  async (word) => {
    for (const engine of ["gemini", "iflow"]) {
      const { handle } = await box.json(["start", engine, "hello", "--", "--sandbox"]);
      expect(await box.json(["resume", handle, "go on", "--native", word])).toMatchObject({
        ok: false,
        error: { code: "would_widen" },
      });
    }
  },
);

describe("--trust-cwd on a resume", () => {
  test("does not let an engine trust the folder of a run that was started without it, and says so", async () => {
    const starts = watched("gemini");
    const { handle } = await box.json(["start", "gemini", "hello"]);
    for (const more of [[], ["--force-fresh"]]) {
      const result = await box.run(["resume", handle, "go on", "--trust-cwd", ...more]);
      expect(result).toMatchObject({ code: 0 });
      expect(result.stderr).toContain("was started without --trust-cwd");
    }
    expect(starts().map((line) => line.endsWith("trust="))).toEqual([true, true, true]);
  });

  test("is not needed again, and says nothing, where the run was started with it", async () => {
    const starts = watched("gemini");
    const { handle } = await box.json(["start", "gemini", "hello", "--trust-cwd"]);
    const result = await box.run(["resume", handle, "go on", "--trust-cwd"]);
    expect(result.stderr).not.toContain("was started without --trust-cwd");
    expect(starts().map((line) => line.endsWith("trust=true"))).toEqual([true, true]);
  });
});

/** Codex writes the sandbox of each turn into its rollout; the scripted one does not. */
function beganIn(sandbox: string): void {
  const folder = join(box.home, ".codex", "sessions");
  const [file = ""] = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".jsonl"),
  );
  const payload = { sandbox_policy: { type: sandbox } };
  appendFileSync(join(folder, file), `${JSON.stringify({ type: "turn_context", payload })}\n`);
}
