/** A file that can be opened and not read, as on a bad disk, is a fault of that file: never a bug, never "empty". */
import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CLI, collect, Sandbox } from "../e2e/sandbox.ts";

/** Its first page is never mapped, so every read fails with EIO. */
const BAD = "/proc/self/mem";

describe("a read that fails", () => {
  let box: Sandbox;
  let handle = "";
  beforeAll(async () => {
    box = new Sandbox();
    ({ handle } = await box.json<{ handle: string }>(["start", "demo", "hello"]));
  });
  afterAll(() => box[Symbol.dispose]());

  /** The CLI with this file as its stdin. */
  const redirected = async (from: string, args: readonly string[]) => {
    const fd = openSync(from, "r");
    const child = spawn(process.execPath, [CLI, ...args], {
      cwd: box.cwd,
      env: box.env(),
      stdio: [fd, "pipe", "pipe"],
    });
    closeSync(fd);
    return collect(child);
  };

  test.each([
    [
      "start --message-file",
      () => box.run(["start", "demo", "--message-file", BAD]),
      `${BAD} cannot be read (EIO)`,
    ],
    [
      "resume --message-file",
      () => box.run(["resume", handle, "--message-file", BAD]),
      `${BAD} cannot be read (EIO)`,
    ],
    ["start --stdin", () => redirected(BAD, ["start", "demo", "--stdin"]), "stdin cannot be read (EIO)"],
    [
      "start --stdin from a directory",
      () => redirected("/", ["start", "demo", "--stdin"]),
      "stdin cannot be read (it is a directory)",
    ],
    [
      "explain",
      () => redirected(BAD, ["explain", "--engine", "codex"]),
      "Standard input cannot be read (EIO)",
    ],
    [
      "explain of a directory",
      () => redirected("/", ["explain", "--engine", "codex"]),
      "Standard input cannot be read (it is a directory)",
    ],
    [
      "explain of a file",
      () => box.run(["explain", "--engine", "codex", BAD]),
      `"${BAD}" cannot be read (EIO)`,
    ],
  ] as const)("%s names the input", async (_, run, said) => {
    const { code, stderr } = await run();
    expect([code, stderr]).toEqual([2, expect.stringContaining(said)]);
    expect(stderr).not.toContain("a bug");
  });

  test("of a project's config refuses agents, of the user's config as well, and other commands only warn", async () => {
    const project = join(box.cwd, "reprise.toml");
    symlinkSync(BAD, project);
    for (const args of [
      ["start", "demo", "x"],
      ["resume", handle, "x"],
    ]) {
      const { code, stderr } = await box.run(args);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${project} cannot be read (EIO)`)]);
    }
    rmSync(project);
    const user = join(box.home, ".config", "reprise", "config.toml");
    mkdirSync(join(user, ".."), { recursive: true });
    symlinkSync(BAD, user);
    const listed = await box.run(["list"]);
    expect([listed.code, listed.stderr]).toEqual([
      0,
      expect.stringContaining(`${user} cannot be read (EIO)`),
    ]);
    const doctor = await box.run(["doctor"]);
    expect([doctor.code, doctor.stdout]).toEqual([
      1,
      expect.stringContaining(`${user} cannot be read (EIO)`),
    ]);
  });
});
