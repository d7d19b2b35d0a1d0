/** Titles of issues may hold secrets: no argument of git has them, no branch and no commit message. */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { IssueBox } from "../e2e/issue-box.ts";

test("a secret in an issue's title reaches git by stdin alone, and neither a branch nor a commit message", async () => {
  using box = new IssueBox();
  const secret = `ghp_${"q7Xb2LmZ".repeat(4)}Ab12`;
  const password = "hunter2-and-more";
  const known = "plainCanary00112233";
  writeFileSync(
    join(box.cwd, "issues", "a.md"),
    `---\ntitle: Login with ${secret} fails, password=${password} \u202e ${known}\n---\n@@write:a.txt\n`,
  );
  box.commit();
  const [real, told] = [execFileSync("which", ["git"], { encoding: "utf8" }).trim(), join(box.root, "told")];
  // What every user of the machine could read of each call.
  box.program("git", `printf '%s\\n' "$*" >> '${told}'\nexec '${real}' "$@"`);
  const { code, stderr } = await box.run(box.batchArgs("--merge"), { env: { MY_TOKEN: known } });
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const calls = readFileSync(told, "utf8");
  expect(calls).toMatch(/ commit-tree [0-9a-f]+ -p [0-9a-f]+$/m);
  const branches = box.git("for-each-ref", "--format=%(refname)");
  const messages = box.git("log", "--all", "--format=%B");
  expect(branches).toContain("refs/heads/reprise/a-login-with");
  expect(messages).toContain("Login with");
  for (const text of [calls, branches, messages]) {
    expect(text.toLowerCase()).not.toContain(secret.toLowerCase());
    expect(text.toLowerCase()).not.toContain(secret.slice(4, 20).toLowerCase());
    expect(text.toLowerCase()).not.toContain(password);
    expect(text.toLowerCase()).not.toContain(known.toLowerCase());
    expect(text).not.toContain("\u202e");
  }
}, 60_000);
