/** `reprise rename <handle> <name>` */
import { Fault } from "../core/faults.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { renameRun } from "../run/label.ts";
import { selectRun } from "../run/select.ts";
import { defineCommand, flag, JSON_FLAG, personName, RUN_HANDLE } from "./define.ts";

export const command = defineCommand({
  name: "rename",
  summary: "Rename a live or ended run. Commands accept the name wherever they accept a handle.",
  usage: "[options] <handle> <name>",
  args: { handle: RUN_HANDLE, name: { help: "up to 100 printable characters" } },
  excess: "The name is one argument: put it in quotes.",
  options: { clear: flag("remove the name"), json: JSON_FLAG },
  examples: ['reprise rename 1a2b3c4d "cart rename"', 'reprise rename "cart rename" --clear'],
  run: async ({ args, options, reply }, context) => {
    if ((args.name === undefined) !== (options.clear === true))
      throw new Fault("usage", "Give a new name or --clear: reprise rename HANDLE NAME");
    const name = args.name === undefined ? null : personName(args.name);
    const deps = await context.open({ cwd: null });
    const run = await renameRun(deps, await selectRun(deps, args.handle), name);
    reply({ handle: run.handle, runId: run.runId, name: run.name }, () =>
      context.print(
        run.name === null
          ? `Run ${run.handle} now has no name.`
          : `Run ${run.handle} now has the name ${harmlessLine(run.name)}.`,
      ),
    );
    return 0;
  },
});
