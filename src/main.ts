#!/usr/bin/env node
/**
 * The program's entry: finds the command, runs it, and turns errors into a message and an exit code.
 *
 * Start-up time matters: imports happen when needed, and `--version` needs none.
 */
import { keepDebuggersOut, keepFilesPrivate } from "./process/umask.ts";
import { VERSION } from "./version.ts";

keepFilesPrivate();
keepDebuggersOut();
// Before the other files are loaded: Node reads their source maps only then.
if (process.env["REPRISE_DEBUG"] === "1") process.setSourceMapsEnabled(true);

/** Node's own exit code for a program that still waits when nothing can happen any more. */
const UNSETTLED = 13;
const args = process.argv.slice(2);

if (args[0] === "--version" || args[0] === "-V" || args[0] === "-v") process.stdout.write(`${VERSION}\n`);
else {
  // Until the command says how it ended: a command that waits for nothing has not succeeded.
  process.exitCode = UNSETTLED;
  void run().then((code) => (process.exitCode = code));
}

/** If not even the first file can be opened, no other code could report it. */
async function run(): Promise<number> {
  const cli = await import("./cli/cli.ts").catch(tooManyFiles);
  if (cli === null) return 7;
  return cli.main(args, {
    altered: async (given) => (await import("./process/raw.ts")).alteredArguments(given),
    open: async (options) => (await import("./setup.ts")).openDeps(options),
    configure: async (deps, options) => (await import("./setup.ts")).configure(deps, options),
    trust: async (deps, files, options) => (await import("./setup.ts")).trust(deps, files, options),
  });
}

function tooManyFiles(error: unknown): null {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code !== "EMFILE" && code !== "ENFILE") throw error;
  process.stderr.write("reprise: Too many open files. Allow more with `ulimit -n 1024` and try again.\n");
  return null;
}
