/** `reprise config edit`: the user's editor on a config file, and a check afterwards. */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { Fault } from "../../core/faults.ts";
import type { Context } from "../context.ts";
import { defineCommand, flag } from "../define.ts";
import { configPlace, printComplaints } from "./check.ts";
import { complaintsOfFile } from "./complaints.ts";

export const edit = defineCommand({
  name: "config edit",
  summary: "Open a config file in $VISUAL or $EDITOR, and check it afterwards.",
  options: { project: flag("edit the project's reprise.toml instead of yours") },
  examples: ["reprise config edit", "EDITOR='code --wait' reprise config edit --project"],
  run: async ({ options }, context) => {
    const { path: file, level } = configPlace(context, options.project === true ? "project" : "user");
    const editor = editorWords(context);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    for (;;) {
      await runEditor(editor, file);
      const problems = await complaintsOfFile(file, level);
      if (problems.length === 0) return 0;
      printComplaints(context, problems);
      if (!(await wantsAgain(context))) return 2;
    }
  },
});

function editorWords({ env }: Context): readonly [string, ...string[]] {
  const text = [env["VISUAL"], env["EDITOR"]].find((one) => one !== undefined && one.trim() !== "");
  const [program, ...args] = splitWords(text ?? "");
  if (program !== undefined) return [program, ...args];
  throw new Fault(
    "usage",
    "Which editor? Set VISUAL or EDITOR, for example: EDITOR=nano reprise config edit",
  );
}

/** Words between blanks; quotes keep blanks. No shell sees them. */
export function splitWords(text: string): readonly string[] {
  return [...text.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replaceAll(
      /"([^"]*)"|'([^']*)'/g,
      (_all, double: string | undefined, single: string | undefined) => double ?? single ?? "",
    ),
  );
}

function runEditor([program, ...args]: readonly [string, ...string[]], file: string): Promise<void> {
  return new Promise((done, fail) => {
    // The editor handles Ctrl-C itself.
    const ignore = () => {};
    process.on("SIGINT", ignore);
    const child = spawn(program, [...args, file], { stdio: "inherit" });
    const settle = (fault: Fault | null) => {
      process.off("SIGINT", ignore);
      if (fault === null) done();
      else fail(fault);
    };
    child.on("error", (error) =>
      settle(
        new Fault("usage", `The editor ${JSON.stringify(program)} cannot be started: ${error.message}.`, {
          cause: error,
        }),
      ),
    );
    child.on("close", (code, signal) =>
      settle(
        code === 0
          ? null
          : new Fault(
              "usage",
              `The editor ${JSON.stringify(program)} ended with ${signal ?? `exit code ${code}`}.`,
            ),
      ),
    );
  });
}

async function wantsAgain({ terminal }: Context): Promise<boolean> {
  if (!terminal.stdin || !terminal.stderr) return false;
  const { createInterface } = await import("node:readline/promises");
  const prompt = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return !/^n/i.test((await prompt.question("Edit again? [Y/n] ")).trim());
  } finally {
    prompt.close();
  }
}
