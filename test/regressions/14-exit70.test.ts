/**
 * Missing resources of the system are reported as such, never as a bug of Reprise (exit 70) and never with a stack
 * trace.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { CLI, collect, Sandbox, until } from "../e2e/sandbox.ts";

/** Node itself needs some, more or less by its version: what cannot even print its version is not tried. */
const LIMITS = [19, 20, 21, 30, 39, 48];

test("with too few descriptors every command says so or does its work", async () => {
  using box = new Sandbox();
  const { handle } = await box.json<{ handle: string }>(["start", "demo", "hello"]);
  const commands = [["list"], ["start", "demo", "hello"], ["resume", handle, "go on"]];
  const limited = (limit: number, args: readonly string[]) =>
    collect(
      spawn("/bin/sh", ["-c", `ulimit -n ${limit}; exec "$@"`, "sh", process.execPath, CLI, ...args], {
        cwd: box.cwd,
        env: box.env(),
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
  let told = 0;
  for (const limit of LIMITS) {
    if ((await limited(limit, ["--version"])).code !== 0) continue;
    const ends = await Promise.all(commands.map((args) => limited(limit, args)));
    for (const [at, { code, stderr }] of ends.entries()) {
      const what = `ulimit -n ${limit}; reprise ${commands[at]?.join(" ")}: ${stderr}`;
      expect([0, 7], what).toContain(code);
      expect(stderr, what).not.toMatch(/a bug|^ {4}at /m);
      if (code === 7) expect(stderr, what).toContain("Too many open files");
      if (code === 7) told += 1;
    }
  }
  expect(told).toBeGreaterThan(0);
  expect(await box.json(["resume", handle, "go on"])).toMatchObject({ ok: true });
}, 60_000);

test("a process that cannot be examined for lack of descriptors is not taken for ended", async () => {
  using box = new Sandbox();
  const script = join(box.root, "look.ts");
  writeFileSync(
    script,
    `import { openSync } from "node:fs";
import { findMarked, isAlive, self } from ${JSON.stringify(resolve("src/process/process.ts"))};
const own = self();
try { for (;;) openSync("/dev/null", "r"); } catch {}
const said = [() => isAlive(own), () => self(), () => findMarked("x").length].map((look) => {
  try { return String(look()); } catch (error) { return error instanceof Error && "code" in error ? String(error.code) : "?"; }
});
process.stdout.write(said.join(" "));`,
  );
  const words = ["-c", 'ulimit -n 128; exec "$@"', "sh", process.execPath, "--import", "tsx", script];
  const { stdout } = await collect(spawn("/bin/sh", words, { stdio: ["ignore", "pipe", "inherit"] }));
  expect(stdout).toBe("too_many_files too_many_files EMFILE");
}, 60_000);

test("an index that is removed while an agent works is reported, and the run is found again", async () => {
  using box = new Sandbox();
  const go = join(box.root, "go");
  const wait = `while [ ! -e '${go}' ]; do sleep 0.05; done\n`;
  box.program("claude", wait + readFileSync(join(box.bin, "claude"), "utf8"));
  const ended = collect(box.spawn(["start", "claude", "hello"]));
  const isRecorded = () =>
    box.runDirectories().some((path) => existsSync(join(path, "attempts", "1", "meta.json")));
  await until("the attempt is recorded", isRecorded);
  for (const name of ["index.db", "index.db-wal", "index.db-shm"])
    rmSync(join(box.state, name), { force: true });
  writeFileSync(go, "");
  const { code, stderr } = await ended;
  expect({ code, stderr }).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("was removed while it was in use"),
  });
  expect(stderr).not.toContain("a bug");
  expect(await box.json(["list"])).toMatchObject({ runs: [{ status: "completed" }] });
}, 60_000);
