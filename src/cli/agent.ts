/** `reprise agent …`: supervised agents. `logs` and `attach` are those of any run. */
import type { CommandGroup } from "./define.ts";

const act = () => import("./agent-act.ts");
const look = () => import("./agent-look.ts");

export const command: CommandGroup = {
  name: "agent",
  summary: "Supervised agents, defined by a runbook (docs/runbooks.md).",
  commands: {
    run: {
      summary: "start an agent of a runbook and supervise it",
      load: async () => (await import("./agent-run.ts")).run,
    },
    list: { summary: "list agents: state, since when, next action", load: async () => (await look()).list },
    show: {
      summary: "show one agent: definition, attempts, decisions with reasons, next action",
      load: async () => (await look()).show,
    },
    logs: { summary: "print its output", load: async () => (await import("./logs.ts")).command },
    peek: { summary: "print its present screen", load: async () => (await look()).peek },
    attach: {
      summary: "show its UI and type into it; Ctrl-] leaves",
      load: async () => (await import("./attach.ts")).command,
    },
    send: { summary: "send it a message", load: async () => (await act()).send },
    stop: {
      summary: "stop it and its supervision; its conversation stays",
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
