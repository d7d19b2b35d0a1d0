/** `reprise help`, and the manual page of the package: what `docs/cli.md` promises. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Sandbox } from "./sandbox.ts";

let box: Sandbox;
beforeAll(() => {
  box = new Sandbox();
});
afterAll(() => box[Symbol.dispose]());

test("reprise --help fits a terminal of 24 lines and 80 columns", async () => {
  const { code, stdout, stderr } = await box.run(["--help"]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const lines = stdout.trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(23);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(stdout).toMatch(/^Run {2,}start {2,}start an agent/m);
});

test("reprise without a command shows the same on stderr, exit code 2", async () => {
  const { stdout: wanted } = await box.run(["help"]);
  expect(await box.run([])).toMatchObject({ code: 2, stdout: "", stderr: wanted });
});

test("reprise help --all lists every command with its subcommands", async () => {
  const { code, stdout } = await box.run(["help", "--all"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^ {2}start {2,}start an agent/m);
  expect(stdout).toMatch(/^ {4}agent run {2,}\S/m);
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
});

test("a topic is explained, and a command's help is its own", async () => {
  expect((await box.run(["help", "isolation"])).stdout).toContain("--isolate worktree");
  expect((await box.run(["help", "topics"])).stdout).toMatch(/^ {2}exit-codes {2,}\S/m);
  const [byHelp, byOption] = await Promise.all([
    box.run(["help", "agent", "run"]),
    box.run(["agent", "run", "--help"]),
  ]);
  expect(byHelp).toEqual(byOption);
});

test.each([
  [["help", "isolatoin"], "Did you mean `reprise help isolation`?"],
  [["help", "strat"], "Did you mean `reprise start`?"],
  [["help", "xyzzy-plugh"], "`reprise help topics` lists the topics"],
  [["help", "--frob"], "takes a command, a topic, --all or --man"],
])("%j is refused with the nearest word", async (args, words) => {
  expect(await box.run(args)).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining(words),
  });
});

const has = (program: string) => spawnSync("sh", ["-c", `command -v ${program}`]).status === 0;

test("the package has the manual page that reprise help --man prints", async () => {
  const page = readFileSync("dist/man/reprise.1", "utf8");
  expect((await box.run(["help", "--man"])).stdout).toBe(page);
  const { man, files } = JSON.parse(readFileSync("package.json", "utf8")) as {
    man: string;
    files: readonly string[];
  };
  expect({ man, isPacked: files.includes("dist") }).toEqual({ man: "dist/man/reprise.1", isPacked: true });
});

test.skipIf(!has("groff"))("groff formats the manual page without a warning", () => {
  const { stdout, stderr } = spawnSync("groff", ["-man", "-ww", "-Tutf8", "dist/man/reprise.1"], {
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  expect(stdout).toContain("reprise start");
});

test.skipIf(!has("mandoc"))("mandoc finds no mistake in the manual page", () => {
  const { stdout } = spawnSync("mandoc", ["-T", "lint", "-W", "warning", "dist/man/reprise.1"], {
    encoding: "utf8",
  });
  expect(stdout.split("\n").filter((line) => line !== "" && !line.includes("missing date"))).toEqual([]);
});
