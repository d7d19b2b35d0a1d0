/** `reprise agent …`: supervised agents. One file for one or a few verbs; `logs` and `attach` are those of any run. */
import type { Context } from "./context.ts";
import { type VerbGroup, runVerb } from "./verbs.ts";

const GROUP: VerbGroup = {
  name: "agent",
  about: "Supervised agents, defined by a runbook (docs/runbooks.md).",
  verbs: {
    run: {
      summary: "start an agent of a runbook and supervise it",
      run: async (args, context) => (await import("./agent-run.ts")).run(args, context),
    },
    list: {
      summary: "list agents: state, since when, next action",
      run: async (args, context) => (await import("./agent-look.ts")).list(args, context),
    },
    show: {
      summary: "show one agent: definition, attempts, decisions with reasons, next action",
      run: async (args, context) => (await import("./agent-look.ts")).show(args, context),
    },
    logs: {
      summary: "print its output",
      run: async (args, context) => (await import("./logs.ts")).run(args, context),
    },
    peek: {
      summary: "print its present screen",
      run: async (args, context) => (await import("./agent-look.ts")).peek(args, context),
    },
    attach: {
      summary: "show its UI and type into it; Ctrl-] leaves",
      run: async (args, context) => (await import("./attach.ts")).run(args, context),
    },
    send: {
      summary: "send it a message",
      run: async (args, context) => (await import("./agent-act.ts")).send(args, context),
    },
    stop: {
      summary: "stop it and its supervision; its conversation stays",
      run: async (args, context) => (await import("./agent-act.ts")).stop(args, context),
    },
    resume: {
      summary: "resume the conversation of one agent, or of all agents",
      run: async (args, context) => (await import("./agent-act.ts")).resume(args, context),
    },
    rm: {
      summary: "remove ended agents and their runs",
      run: async (args, context) => (await import("./agent-rm.ts")).rm(args, context),
    },
  },
  examples: ["reprise agent run worker", "reprise agent list", "reprise agent resume --all"],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(GROUP, args, context);
}
