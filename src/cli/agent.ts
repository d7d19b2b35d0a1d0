/** `reprise agent …`: supervised agents. One verb a file or a few; `logs` and `attach` are those of any run. */
import type { Context } from "./context.ts";
import { type Family, runVerb } from "./verbs.ts";

const FAMILY: Family = {
  name: "agent",
  about: "Agents that are kept moving by a runbook (docs/runbooks.md).",
  verbs: {
    run: {
      summary: "start an agent of a runbook and keep it moving",
      run: async (args, context) => (await import("./agent-run.ts")).run(args, context),
    },
    list: {
      summary: "list agents: state, since when, what comes next",
      run: async (args, context) => (await import("./agent-look.ts")).list(args, context),
    },
    show: {
      summary: "show one agent: definition, attempts, what was decided and why, what comes next",
      run: async (args, context) => (await import("./agent-look.ts")).show(args, context),
    },
    logs: {
      summary: "print what it printed",
      run: async (args, context) => (await import("./logs.ts")).run(args, context),
    },
    peek: {
      summary: "print what it shows right now",
      run: async (args, context) => (await import("./agent-look.ts")).peek(args, context),
    },
    attach: {
      summary: "look at it and type into it; Ctrl-] leaves",
      run: async (args, context) => (await import("./attach.ts")).run(args, context),
    },
    send: {
      summary: "tell it something",
      run: async (args, context) => (await import("./agent-act.ts")).send(args, context),
    },
    stop: {
      summary: "end it and its supervision; its conversation stays",
      run: async (args, context) => (await import("./agent-act.ts")).stop(args, context),
    },
    resume: {
      summary: "bring back an agent, or all of them, with their conversations",
      run: async (args, context) => (await import("./agent-act.ts")).resume(args, context),
    },
    rm: {
      summary: "remove agents that have ended, with their runs",
      run: async (args, context) => (await import("./agent-rm.ts")).rm(args, context),
    },
  },
  examples: ["reprise agent run worker", "reprise agent list", "reprise agent resume --all"],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(FAMILY, args, context);
}
