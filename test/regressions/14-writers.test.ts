/** Files that several processes rewrite lose no entry of any of them. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, Sandbox } from "../e2e/sandbox.ts";

const STARTS = 24;

interface Told {
  readonly launch: { readonly program: string; readonly version: string | null };
}

test("folders that are trusted at the same time are all remembered, and so are the versions of their engines", async () => {
  using box = new Sandbox();
  const folders = Array.from({ length: STARTS }, (_, n) => join(box.root, `p${n}`));
  for (const [n, folder] of folders.entries()) {
    mkdirSync(folder);
    const known = '[ "$1" = --version ] && echo "2.0.1 (Claude Code)" && exit\n';
    const program = box.program(`claude-${n}`, known + readFileSync(join(box.bin, "claude"), "utf8"));
    writeFileSync(join(folder, "reprise.toml"), `[engines.claude]\nprogram = ${JSON.stringify(program)}\n`);
  }
  const ends = await Promise.all(
    folders.map((cwd) => box.run(["start", "claude", "--trust-cwd", "--json", "hello"], { cwd })),
  );
  expect(ends.map(({ code, stderr }) => (code === 0 ? "" : stderr)).filter(Boolean)).toEqual([]);
  const kept = (name: string) =>
    Object.keys(JSON.parse(readFileSync(join(box.state, name), "utf8")) as Record<string, string>);
  expect(kept("trusted.json").toSorted()).toEqual(
    folders.map((folder) => join(folder, "reprise.toml")).toSorted(),
  );
  const programs = new Set(kept("versions.json").map((key) => key.split("\u0000")[0]));
  // An engine that did not answer in time on a busy machine has no version to keep.
  const answered = box.runDirectories().flatMap((directory) => {
    const { launch } = JSON.parse(readFileSync(join(directory, "run.json"), "utf8")) as Told;
    return launch.version === null ? [] : [launch.program];
  });
  expect(answered.length).toBeGreaterThan(STARTS / 4);
  expect(answered.filter((program) => !programs.has(program))).toEqual([]);
}, 180_000);

test("every line that another program appends to .beads/issues.jsonl while a batch works is still there", async () => {
  using box = new IssueBox();
  mkdirSync(join(box.cwd, ".beads"));
  const file = join(box.cwd, ".beads", "issues.jsonl");
  const line = (id: string, status: string) =>
    `${JSON.stringify({ id, title: `Issue ${id}`, description: `@@write:${id}.txt`, status })}\n`;
  const ids = Array.from({ length: 8 }, (_, n) => `a-${n}`);
  // Enough text that reading and replacing it takes a while.
  const rest = Array.from({ length: 4_000 }, (_, n) => line(`old-${n}`, "closed")).join("");
  writeFileSync(file, ids.map((id) => line(id, "open")).join("") + rest);
  box.commit();
  // Opens, appends and closes, again and again, as `echo >>` does, until its stdin ends; then says how often.
  const script = `const fs = require("node:fs"); let n = 0; let isOver = false;
    process.stdin.on("end", () => { isOver = true; }).resume();
    const step = () => { for (let i = 0; i < 5; i += 1, n += 1) fs.appendFileSync(${JSON.stringify(file)}, JSON.stringify({ id: "new-" + n, title: "t", status: "closed" }) + "\\n");
      if (isOver) process.stdout.write(String(n)); else setTimeout(step, 1); }; step();`;
  const appender = spawn(process.execPath, ["-e", script], { stdio: "pipe" });
  const told = collect(appender);
  const result = await box.batch("--max-agents", "4");
  appender.stdin.end();
  const { stdout } = await told;
  expect(result).toMatchObject({ code: 0 });
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  const found = new Set(lines.map((text) => (JSON.parse(text) as { id: string }).id));
  const lost = Array.from({ length: Number(stdout) }, (_, n) => `new-${n}`).filter((id) => !found.has(id));
  expect(Number(stdout)).toBeGreaterThan(100);
  expect(lost).toEqual([]);
  expect(lines).toHaveLength(ids.length + 4_000 + Number(stdout));
}, 180_000);
