/** `reprise issues …`: a batch of issues, each a separate run. One function per verb. */
import type { Context } from "./context.ts";
import { type VerbGroup, runVerb } from "./verbs.ts";

const look = () => import("./issues-look.ts");

const GROUP: VerbGroup = {
  name: "issues",
  about: "Let agents work on the issues of this repository, one conversation per issue (docs/issues.md).",
  verbs: {
    run: {
      summary: "let agents work on issues, check the work, close issues that pass",
      run: async (args, context) => (await import("./issues-run.ts")).run(args, context),
    },
    list: {
      summary: "list issues: ready ones, and what each other issue waits for",
      run: async (args, context) => (await look()).list(args, context),
    },
    show: {
      summary: "show one issue and its history",
      run: async (args, context) => (await look()).show(args, context),
    },
    sessions: {
      summary: "list conversations about issues, newest first",
      run: async (args, context) => (await look()).sessions(args, context),
    },
    status: {
      summary: "show the last batch: result of each issue",
      run: async (args, context) => (await look()).status(args, context),
    },
    logs: {
      summary: "print the output of an issue's agent",
      run: async (args, context) => (await look()).logs(args, context),
    },
    clean: {
      summary: "remove records of old, finished batches",
      run: async (args, context) => (await look()).clean(args, context),
    },
  },
  elsewhere: {
    resume: "To go on with the last batch: `reprise issues run --resume`.",
    stop: "A batch is stopped with Ctrl-C where it runs, and one issue of it with `reprise stop <handle>`: `reprise issues status` shows the handles.",
  },
  examples: [
    "reprise issues run --engine claude --max-agents 3",
    "reprise issues run --resume",
    "reprise issues status",
    "reprise issues logs a-12",
  ],
};

export function run(args: readonly string[], context: Context): Promise<number> {
  return runVerb(GROUP, args, context);
}
