/** Whatever config files say by now, new runs of a batch get no more rights than the batch gave them when it began. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";

function configure(box: IssueBox, text: string): void {
  const directory = join(box.home, ".config", "reprise");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "config.toml"), text);
}

const args = (...words: string[]) => `[engines.claude]\nargs = ${JSON.stringify(words)}\n`;
const ACCESS = '[issues]\naccess = "read"\n';

/** A batch that fails at its first issue and leaves the second one. */
async function stopped(box: IssueBox, ...more: string[]): Promise<void> {
  box.issue("a", "@@context");
  box.issue("b", "@@write:b.txt", "depends_on: [a]\n");
  box.commit();
  expect(await box.run(["issues", "run", "--engine", "claude", ...more])).toMatchObject({ code: 10 });
}

test("a continued batch refuses config arguments that give its new runs more rights, and continues without them", async () => {
  using box = new IssueBox();
  configure(box, ACCESS + args("--model", "opus", "--disallowedTools", "Bash"));
  await stopped(box);
  const resume = ["issues", "run", "--resume"];
  const same = [...resume, "--engine", "claude", "--access", "read"];
  for (const [typed, words, said] of [
    [
      resume,
      ["--disallowedTools", "Bash", "--permission-mode", "bypassPermissions"],
      "[engines.claude] args of a config file has --permission-mode bypassPermissions now. Nothing was started.",
    ],
    [same, ["--disallowedTools", "Bash", "--add-dir", "/"], "has --add-dir / now."],
    [resume, ["--model", "opus"], "had --disallowedTools Bash, and it is gone."],
  ] as const) {
    configure(box, ACCESS + args(...words));
    const refused = await box.run([...typed, "--dry-run"]);
    expect(refused).toMatchObject({ code: 8 });
    expect(refused.stderr).toContain(said);
    expect(refused.stderr).toContain("reprise issues run --engine claude");
  }
  expect(await box.run(resume)).toMatchObject({ code: 8 });
  configure(box, args("--disallowedTools", "Bash", "--model", "sonnet"));
  const plan = await box.json([...resume, "--dry-run"]);
  expect(plan["access"]).toMatchObject({ level: "read", options: ["--permission-mode", "plan"] });
  expect(plan["issues"].at(-1).options.join(" ")).toBe(
    "--disallowedTools Bash --model sonnet --permission-mode plan",
  );
  const other = await box.run([...resume, "--dry-run"], { env: { CLAUDE_CODE_SIMPLE: "1" } });
  expect(other).toMatchObject({ code: 8 });
  expect(other.stderr).toContain("the variable CLAUDE_CODE_SIMPLE decides what claude may do");
});

test("a requested --access is not overridden by a wider option of a config file", async () => {
  using box = new IssueBox();
  box.issue("a", "@@write:a.txt");
  box.commit();
  configure(box, args("--permission-mode", "bypassPermissions"));
  const run = ["issues", "run", "--engine", "claude", "--dry-run"];
  const refused = await box.run([...run, "--access", "read"]);
  expect(refused).toMatchObject({ code: 8 });
  expect(refused.stderr).toContain(
    "--access read has no effect: [engines.claude] args of a config file has --permission-mode bypassPermissions",
  );
  expect(await box.run(run)).toMatchObject({ code: 0 });
  expect(await box.run([...run, "--access", "full"])).toMatchObject({ code: 0 });
});
