/** `reprise config path` and `reprise config check`. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { plural } from "../../lib/plural.ts";
import { findProjectFile, userConfigFile } from "../../state/config-text.ts";
import { type Context, currentDirectory } from "../context.ts";
import { defineCommand, JSON_FLAG } from "../define.ts";
import { type Complaint, complaintsOfFile, type ConfigLevel } from "./complaints.ts";

export interface ConfigPlace {
  readonly level: ConfigLevel;
  readonly path: string;
  readonly exists: boolean;
}

/** The user's file, then the project's: the file that counts here, or its place in the current directory. */
export function configPlaces(context: Context): readonly ConfigPlace[] {
  const user = userConfigFile(context.env);
  const cwd = currentDirectory();
  const project = cwd === null ? null : (findProjectFile(cwd) ?? join(cwd, "reprise.toml"));
  const places = [
    { level: "user", path: user },
    { level: "project", path: project },
  ] as const;
  return places.flatMap(({ level, path: file }) =>
    file === null ? [] : [{ level, path: file, exists: existsSync(file) }],
  );
}

export function configPlace(context: Context, level: ConfigLevel): ConfigPlace {
  const place = configPlaces(context).find((one) => one.level === level);
  if (place !== undefined) return place;
  throw new Fault(
    "usage",
    level === "user"
      ? "Reprise does not know where your config file is: HOME is not set. Set HOME or XDG_CONFIG_HOME."
      : "The current directory does not exist. Change to the project first.",
  );
}

export const path = defineCommand({
  name: "config path",
  summary: "Print the config files that apply here. The project's file overrides yours.",
  options: { json: JSON_FLAG },
  examples: ["reprise config path", "reprise config path --json | jq -r '.files[].path'"],
  run: ({ reply }, context) => {
    const files = configPlaces(context);
    reply({ files }, () => {
      for (const file of files)
        context.print(`${file.level.padEnd(9)}${harmlessLine(file.path)}${file.exists ? "" : " (missing)"}`);
    });
    return 0;
  },
});

export const check = defineCommand({
  name: "config check",
  summary: "Report every mistake in the config files as file:line:column. Exits with 2 if it finds one.",
  options: { json: JSON_FLAG },
  examples: ["reprise config check", "reprise config check --json | jq .problems"],
  run: async ({ options }, context) => {
    const files = configPlaces(context).filter(({ exists }) => exists);
    const problems = (await Promise.all(files.map((file) => complaintsOfFile(file.path, file.level)))).flat();
    if (options.json === true) printChecked(context, files, problems);
    else {
      printComplaints(context, problems);
      for (const file of files)
        if (problems.every((one) => one.file !== file.path))
          context.print(`${harmlessLine(file.path)}: good`);
      if (files.length === 0)
        context.log.info("no config file exists yet; `reprise init` writes one for this project");
    }
    return problems.length === 0 ? 0 : 2;
  },
});

function printChecked(context: Context, files: readonly ConfigPlace[], problems: readonly Complaint[]): void {
  const message = `${plural(problems.length, "mistake")} in the config files.`;
  const facts = { problems: problems.length, retryable: false };
  const failed = { ok: false, error: { code: "config_invalid", message, facts } };
  context.printJson({ ...(problems.length > 0 ? failed : { ok: true }), files, problems });
}

export function printComplaints(context: Context, problems: readonly Complaint[]): void {
  for (const { file, line, column, reason } of problems)
    context.print(`${harmlessLine(file)}:${line}:${column}: ${harmlessLine(reason, 500)}`);
}
