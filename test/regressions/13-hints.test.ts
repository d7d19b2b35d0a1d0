/** The message about a wrong command line leads to the right one. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Sandbox } from "../e2e/sandbox.ts";

let box: Sandbox;
beforeAll(() => void (box = new Sandbox()));
afterAll(() => box[Symbol.dispose]());

describe("options of the engine", () => {
  test.each([
    [["start", "codex", "x", "--model", "gpt-5"], "reprise start codex x -- --model gpt-5"],
    [["start", "codex", "--model", "gpt-5", "fix it"], "reprise start codex 'fix it' -- --model gpt-5"],
    [
      ["start", "--cwd", "/tmp", "claude", "it's", "--model=opus", "--timeout", "2h", "--", "--verbose"],
      "reprise start --cwd /tmp claude 'it'\\''s' --timeout 2h -- --model=opus --verbose",
    ],
    [["start", "gemini", "x", "-m", "flash"], "reprise start gemini x -- -m flash"],
    [["start", "codex", "a b", "--frob", "3"], "reprise start codex 'a b' -- --frob 3"],
    [["issues", "run", "--model", "opus"], "reprise issues run -- --model opus"],
    [["issues", "run", "--resume", "--mood", "plain"], "reprise issues run --resume -- --mood plain"],
    [["issues", "run", ".", "--engine", "codex", "-m", "o9"], "reprise issues run . --engine codex -- -m o9"],
  ])("%j gets the command line that passes them on", async (args, line) => {
    const result = await box.run(args);
    expect(result).toMatchObject({ code: 2, stdout: "" });
    expect(result.stderr).toContain(`Native options go after \`--\`: ${line}\n`);
    expect(result.stderr).not.toContain("Did you mean");
  });

  test("are accepted by the suggested command line", async () => {
    const { stderr } = await box.run(["start", "codex", "hello", "--model", "lab-1"]);
    const words = (stderr.split("`--`: reprise ")[1] ?? "").trim().split(" ");
    expect((await box.json(words))["text"]).toContain("model=lab-1");
  });

  test("are not suggested for a mistyped option of Reprise, which is corrected instead", async () => {
    const { stderr } = await box.run(["start", "codex", "x", "--isolte", "dir"]);
    expect(stderr).toContain("Did you mean --isolate?");
    expect(stderr).not.toContain("Native options");
  });

  test("lead to --native on resume", async () => {
    const { stderr } = await box.run(["resume", "--model", "x", "1a2b3c4d"]);
    expect(stderr).toContain("--native --model --native NAME");
  });
});

describe("words of other tools", () => {
  test.each([
    [["ls"], /^(HANDLE|No runs yet)/],
    [["agent", "ls"], "No agents"],
    [["version"], /^\d+\.\d+\.\d+\n$/],
    [["-v"], /^\d+\.\d+\.\d+\n$/],
    [["help", "ls"], "Usage: reprise list"],
    [["help", "agent", "run"], "Usage: reprise agent run"],
  ])("such as %j are understood", async (args, words) => {
    const result = await box.run(args);
    expect(result).toMatchObject({ code: 0, stdout: expect.stringMatching(words) });
  });

  test("such as continue resume", async () => {
    const { handle } = await box.json(["start", "demo", "remember 4711"]);
    expect(await box.json(["continue", handle, "what do you remember?"])).toMatchObject({
      ok: true,
      attempt: 2,
      text: expect.stringContaining("4711"),
    });
  });

  test.each([
    [["run", "codex", "fix it"], "`reprise start codex 'fix it'`"],
    [["codex", "fix it"], "`reprise start codex 'fix it'`"],
    [["ps", "-a"], "`reprise list --status running`"],
    [["history"], "`reprise list`"],
    [["kill", "1a2b3c4d"], "`reprise stop 1a2b3c4d`"],
    [["delete", "1a2b3c4d"], "`reprise rm 1a2b3c4d`"],
    [["fork", "1a2b3c4d"], "`reprise resume --fork 1a2b3c4d`"],
    [["--here", "list"], "`reprise list --here`"],
    [["agent", "kill", "1a2b"], "`reprise agent stop 1a2b`"],
    [["pipeline", "stop", "1a2b"], "`reprise pipeline cancel 1a2b`"],
    [["help", "run"], "`reprise help runs`"],
    [["help", "launch"], "`reprise start`"],
  ])("such as %j get the command to type", async (args, line) => {
    const result = await box.run(args);
    expect(result).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(`Did you mean ${line}?`),
    });
  });

  test.each([
    [["issues", "resume"], "To continue the last batch: `reprise issues run --resume`."],
    [["issues", "continue", "a-12"], "To continue the last batch: `reprise issues run --resume`."],
    [["issues", "stop"], "with Ctrl-C in its terminal, and one of its issues with `reprise stop <handle>`"],
  ])("such as %j get the command that does it", async (args, words) => {
    const result = await box.run(args);
    expect(result).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(words) });
    expect(result.stderr).not.toContain("Did you mean");
  });

  test.each([["run"], ["rum"], ["ls -l"], ["rn"], ["um"]])(
    "such as %s never lead to a removal",
    async (word) => {
      expect((await box.run([word])).stderr).not.toMatch(/reprise (rm|prune)/);
    },
  );
});
