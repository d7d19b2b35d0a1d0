/** `reprise issues …`: a batch of issues, each a run of its own. One function a verb. */
import type { Context } from "./context.ts";
import { type Family, runVerb } from "./verbs.ts";

const look = () => import("./issues-look.ts");

const FAMILY: Family = {
  name: "issues",
  about:
    "Issues of this repository, worked on by agents, each in a conversation of its own (docs/issues.md).",
  verbs: {
    run: {
      summary: "let agents work on issues, check the work, close what passes",
      run: async (args, context) => (await import("./issues-run.ts")).run(args, context),
    },
    list: {
      summary: "list issues: what is ready, and what each of the others waits for",
      run: async (args, context) => (await look()).list(args, context),
    },
    show: {
      summary: "show one issue and what was done about it",
      run: async (args, context) => (await look()).show(args, context),
    },
    sessions: {
      summary: "list the conversations about issues, newest first",
      run: async (args, context) => (await look()).sessions(args, context),
    },
    status: {
      summary: "show the last batch: what became of each issue",
      run: async (args, context) => (await look()).status(args, context),
    },
    logs: {
      summary: "print what the agent of an issue printed",
      run: async (args, context) => (await look()).logs(args, context),
    },
    clean: {
      summary: "remove records of old batches that nothing is left to do about",
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
  return runVerb(FAMILY, args, context);
}
