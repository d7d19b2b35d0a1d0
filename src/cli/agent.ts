/** `reprise agent …`: supervised agents. `logs` and `attach` are those of any run. */
import type { CommandGroup } from "./define.ts";

const act = () => import("./agent-act.ts");
const look = () => import("./agent-look.ts");

export const command: CommandGroup = {
  name: "agent",
  summary: "Supervised agents, defined by a runbook.",
  commands: {
    run: {
      summary: "start an agent of a runbook and supervise it",
      load: async () => (await import("./agent-run.ts")).run,
    },
    list: {
      summary: "list agents: state, time in that state, next action",
      load: async () => (await look()).list,
    },
    show: {
      summary: "show one agent: definition, attempts, decisions with reasons, next action",
      load: async () => (await look()).show,
    },
    logs: { summary: "print an agent's output", load: async () => (await import("./logs.ts")).command },
    peek: { summary: "print an agent's current screen", load: async () => (await look()).peek },
    attach: {
      summary: "show an agent's UI and type into it; Ctrl-] detaches",
      load: async () => (await import("./attach.ts")).command,
    },
    send: { summary: "send a message to an agent", load: async () => (await act()).send },
    stop: {
      summary: "stop an agent and its supervision; its conversation stays",
      load: async () => (await act()).stop,
    },
    resume: {
      summary: "resume the conversation of one agent, or of all agents",
      load: async () => (await act()).resume,
    },
    rm: {
      summary: "remove ended agents and their runs",
      load: async () => (await act()).rm,
    },
  },
  examples: ["reprise agent run worker", "reprise agent list", "reprise agent resume --all"],
};
