/** The program itself, on the cases that need no engine. `npm run build` first. */
import { spawn, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { processesOf, until } from "../src/certify/place.ts";

const REPOSITORY = fileURLToPath(new URL("..", import.meta.url));
const DEADLINE_MS = 50_000;

class Desk implements Disposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "conformance-test-")));
  readonly tmp = join(this.root, "tmp");
  readonly report = join(this.root, "report");

  constructor() {
    mkdirSync(this.tmp);
  }

  start(args: readonly string[]) {
    const child = spawn(process.execPath, ["--import", "tsx", "conformance/run.ts", ...args], {
      cwd: REPOSITORY,
      env: { ...process.env, TMPDIR: this.tmp },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const said = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (said.stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (said.stderr += chunk.toString()));
    const ended = new Promise<number | null>((done) => void child.once("close", done));
    return { child, said, ended };
  }

  /** The folders of runs. The TypeScript loader keeps another folder here. */
  folders(): readonly string[] {
    return readdirSync(this.tmp).filter((name) => name.startsWith("rc-"));
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

test.each([
  [["--jobs", "x"], '--jobs is a number from 1 to 64, not "x"'],
  [["--engine", "codex", "--engine", "nope"], '"nope" is no engine; there are '],
  [["--engine", "iflow", "--report", "/dev/null/x"], "--report: nothing can be written to /dev/null/x: "],
])("%j is refused with one line and exit code 2", async (args, says) => {
  using desk = new Desk();
  const { said, ended } = desk.start(args);
  expect(await ended).toBe(2);
  expect(said.stdout).toBe("");
  expect(said.stderr).toMatch(/^conformance: .*\n$/);
  expect(said.stderr).toContain(says);
  expect(desk.folders()).toEqual([]);
});

test("a run removes the leftovers of dead runs, and writes a report that names nothing of the machine", async () => {
  using desk = new Desk();
  const { pid } = spawnSync("true");
  const other = spawnSync("true").pid;
  for (const name of [`rc-${pid}`, `rc-${process.pid}`, `rc-${other}`])
    mkdirSync(join(desk.tmp, name, "x"), { recursive: true });
  writeFileSync(join(desk.tmp, `rc-${other}`, "kept"), "");
  const { said, ended } = desk.start(["--engine", "iflow", "--report", desk.report]);
  expect(await ended, said.stdout + said.stderr).toBe(0);
  expect(desk.folders().toSorted()).toEqual([`rc-${process.pid}`, `rc-${other}`].toSorted());
  expect(readdirSync(desk.report).toSorted()).toEqual(["report.json", "report.md"]);
  const texts = readdirSync(desk.report).map((name) => readFileSync(join(desk.report, name), "utf8"));
  for (const text of texts) {
    for (const word of [desk.root, REPOSITORY.replace(/\/$/, ""), process.execPath])
      expect(text).not.toContain(word);
  }
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s ends the suite and leaves no folder, process or report", async (name, code) => {
  using desk = new Desk();
  const { child, said, ended } = desk.start(["--case", "scripted-resume", "--report", desk.report]);
  await until(
    "an agent is at work",
    () => processesOf(desk.tmp).length > 1 && said.stdout.includes(" cases; "),
    DEADLINE_MS,
  );
  child.kill(name);
  expect(await ended, said.stdout + said.stderr).toBe(code);
  expect(desk.folders()).toEqual([]);
  expect(processesOf(`${desk.tmp}/rc-${child.pid}`)).toEqual([]);
  expect(existsSync(desk.report)).toBe(false);
});
