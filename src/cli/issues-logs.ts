/** `reprise issues logs`: the output of the agent that worked last on an issue. */
import { Fault } from "../core/faults.ts";
import { defineCommand, flag } from "./define.ts";
import { CWD, historyOf, issueArgument, open } from "./issues-source.ts";
import { LOGS_OPTIONS, logText, printLogs } from "./logs.ts";

export const logs = defineCommand({
  name: "issues logs",
  summary: "Print the messages and tool calls of an issue's last agent as readable text.",
  args: { issue: issueArgument("Which issue? Example: reprise issues logs a-12") },
  options: {
    cwd: CWD,
    ...LOGS_OPTIONS,
    json: flag("print one JSON object with the output of an attempt as plain text"),
  },
  examples: ["reprise issues logs a-12 -f", "reprise issues logs a-12 --attempt 1"],
  run: async ({ args: { issue: id }, options }, context) => {
    if (options.json === true && (options.follow === true || options.raw === true))
      throw new Fault("usage", "--json prints the plain text recorded so far: leave out --follow and --raw.");
    const { deps, root } = await open(context, options);
    const past = historyOf(deps, root).find(({ issue, handle }) => issue === id && handle !== null);
    if (past?.handle === undefined || past.handle === null)
      throw new Fault("issue_unknown", `No agent has worked on issue ${id.slice(0, 100)} of ${root} yet.`, {
        facts: { id: id.slice(0, 100), repository: root },
      });
    const { handle } = past;
    if (options.json !== true) return printLogs(context, deps, handle, options);
    const printed = await logText(context, deps, handle, options);
    context.printJson({ ok: true, repository: root, issue: id, handle, ...printed });
    return 0;
  },
});
