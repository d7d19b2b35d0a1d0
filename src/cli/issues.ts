/** `reprise issues …`: a batch of issues, each a separate run. */
import type { CommandGroup } from "./define.ts";

const look = () => import("./issues-look.ts");
const batches = () => import("./issues-batches.ts");

export const command: CommandGroup = {
  name: "issues",
  summary: "Let agents work on the issues of this repository, one conversation per issue.",
  commands: {
    run: {
      summary: "let agents work on issues, check the work, close issues that pass",
      load: async () => (await import("./issues-run.ts")).run,
    },
    list: {
      summary: "list issues: which are ready, and what blocks the others",
      load: async () => (await look()).list,
    },
    show: { summary: "show one issue and its history", load: async () => (await look()).show },
    sessions: {
      summary: "list conversations about issues, newest first",
      load: async () => (await look()).sessions,
    },
    status: {
      summary: "show the last batch: result of each issue",
      load: async () => (await batches()).status,
    },
    logs: {
      summary: "print the output of an issue's agent",
      load: async () => (await import("./issues-logs.ts")).logs,
    },
    clean: { summary: "remove records of old, finished batches", load: async () => (await batches()).clean },
  },
  elsewhere: {
    resume: "To continue the last batch: `reprise issues run --resume`.",
    stop: "Stop a batch with Ctrl-C in its terminal, and one of its issues with `reprise stop <handle>`; `reprise issues status` shows the handles.",
  },
  examples: [
    "reprise issues run --engine claude --max-agents 3",
    "reprise issues run --resume",
    "reprise issues status",
    "reprise issues logs a-12",
  ],
};
