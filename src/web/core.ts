/** What the server may do: the commands of the CLI, and the use cases behind `start` and `resume`. `cli/web.ts` wires it. */
import type { JsonObject } from "../lib/json.ts";
import type { AttemptOptions, Deps } from "../run/run.ts";

export interface Core {
  /** For reading, without the config of a project. */
  readonly deps: Deps;
  readonly version: string;
  /** Runs a command with `--json` and returns what it prints. Throws its Fault. */
  ask(args: readonly string[]): Promise<JsonObject>;
  /** With the config of this directory, whose programs the user must have trusted. */
  configure(cwd: string): Promise<Deps>;
  /** Limits and mode of an attempt that names none. */
  attempt(deps: Deps): AttemptOptions;
  /** Throws a Fault for a name or tag that commands would not accept. */
  checkName(name: string): string;
  checkTags(tags: readonly string[]): readonly string[];
}
