/** A later attempt of a run has no more rights than the first, whichever way it is started (I12). */
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
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
  "%s disables no sandbox on a resume",
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

describe("codex does not trust a folder that it did not trust when the run was started, for", () => {
  const trust = () => {
    const [{ cwd }, file] = [box, join(box.home, ".codex", "config.toml")];
    mkdirSync(join(box.home, ".codex"), { recursive: true });
    appendFileSync(file, `[projects.${JSON.stringify(cwd)}]\ntrust_level = "trusted"\n`);
  };
  const distrusts = (line: string | undefined) =>
    line?.includes(`-c projects={${JSON.stringify(box.cwd)}={trust_level="untrusted"}`);

  test("a resume, a fork and a fresh conversation after another run made Codex trust it", async () => {
    const starts = watched("codex");
    const { handle } = await box.json(["start", "codex", "hello", "--", "-s", "read-only"]);
    trust();
    const result = await box.run(["resume", handle, "go on", "--trust-cwd"]);
    expect(result.stderr).toContain("was started without --trust-cwd, so it has no effect on this attempt");
    for (const more of ["--fork", "--force-fresh"])
      expect(await box.json(["resume", handle, "go on", more])).toMatchObject({ ok: true });
    expect(starts().map(distrusts)).toEqual([false, true, true, true]);
  });

  test("no run that began in a folder it trusted, or that let Codex trust it", async () => {
    const starts = watched("codex");
    const writable = await box.run(["start", "codex", "hello", "--", "-s", "workspace-write"]);
    expect(writable.stderr).toContain("run outside the sandbox");
    const given = await box.json(["start", "codex", "hello", "--trust-cwd", "--", "-s", "read-only"]);
    trust();
    const known = await box.json(["start", "codex", "hello", "--", "-s", "read-only"]);
    const [, , first] = (await box.run(["list", "--handles"])).stdout.trim().split("\n");
    for (const handle of [first ?? "", given["handle"], known["handle"]])
      expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
    expect(starts().map(distrusts)).toEqual(Array.from({ length: 6 }, () => false));
  });
});

describe("a resume, a fork and a fresh conversation are refused", () => {
  const ways: Record<string, readonly string[]> = {
    resume: ["go on"],
    fork: ["--fork", "go on"],
    fresh: ["--force-fresh", "anew"],
  };

  test.each(Object.entries(ways))("where a link replaced the working directory: %s", async (_name, words) => {
    const cwd = join(box.root, "place");
    mkdirSync(cwd);
    const { handle } = await box.json(["start", "codex", "hello", "--cwd", cwd]);
    const elsewhere = join(box.root, "elsewhere");
    renameSync(cwd, elsewhere);
    symlinkSync(elsewhere, cwd);
    expect(await box.json(["resume", handle, ...words])).toMatchObject({
      ok: false,
      error: { code: "cwd_missing", facts: { now: elsewhere } },
    });
  });

  test("where the worktree that Claude made is gone", async () => {
    const { handle } = await box.json(["start", "claude", "hello"]);
    const file = sessionFile(".claude/projects");
    const gone = `${box.root}/gone/.claude/worktrees/foo`;
    const lines = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "");
    const moved = lines.map((line) => JSON.stringify({ ...JSON.parse(line), cwd: gone }));
    writeFileSync(file, `${moved.join("\n")}\n`);
    const result = await box.json(["resume", handle, "go on", "--ignore-copy"]);
    expect(result).toMatchObject({ ok: false, error: { code: "cwd_missing", facts: { cwd: gone } } });
  });

  test("where no attempt of Codex named a session, so that its sandbox is unknown", async () => {
    const starts = watched("codex");
    renameSync(join(box.bin, "real-codex"), join(box.bin, "whole-codex"));
    box.program("real-codex", `[ "$1" = --version ] && echo 'codex-cli 0.166.0' && exit 0; exit 1`);
    const { handle } = await box.json(["start", "codex", "hello"]);
    renameSync(join(box.bin, "whole-codex"), join(box.bin, "real-codex"));
    const refused = await box.json(["resume", handle, "--force-fresh", "anew"]);
    expect(refused).toMatchObject({ ok: false, error: { code: "option_unkept", facts: { option: "-s" } } });
    const narrow = ["--native", "-s", "--native", "read-only"];
    expect(await box.json(["resume", handle, "--force-fresh", "anew", ...narrow])).toMatchObject({
      ok: true,
    });
    expect(starts().at(-1)).toContain("-s read-only");
  });
});

test("a working directory that was made again at the same place belongs to the run", async () => {
  const cwd = join(box.root, "place");
  mkdirSync(cwd);
  const { handle } = await box.json(["start", "codex", "hello", "--cwd", cwd]);
  renameSync(cwd, `${cwd}.old`);
  mkdirSync(cwd);
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
});

/** Codex writes the sandbox of each turn into its rollout; the scripted one does not. */
function beganIn(sandbox: string): void {
  const payload = { sandbox_policy: { type: sandbox } };
  appendFileSync(sessionFile(".codex/sessions"), `${JSON.stringify({ type: "turn_context", payload })}\n`);
}

function sessionFile(store: string): string {
  const folder = join(box.home, store);
  const [file = ""] = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".jsonl"),
  );
  return join(folder, file);
}
