/** All commands: what each is for, and the file that declares and runs it, loaded only when needed. */
import type { CommandGroup } from "./define.ts";

export const COMMANDS: CommandGroup["commands"] = {
  start: {
    summary: "start an agent and record everything it does",
    load: async () => (await import("./start.ts")).command,
  },
  resume: {
    summary: "continue the same conversation",
    load: async () => (await import("./resume.ts")).command,
  },
  list: { summary: "list runs, newest first", load: async () => (await import("./list.ts")).command },
  show: {
    summary: "show one run, its attempts and the proof of each resume",
    load: async () => (await import("./show.ts")).command,
  },
  attach: {
    summary: "show a background run and type into it",
    load: async () => (await import("./attach.ts")).command,
  },
  logs: { summary: "print the output of an agent", load: async () => (await import("./logs.ts")).command },
  export: {
    summary: "export a run as a redacted archive",
    load: async () => (await import("./export.ts")).command,
  },
  stop: { summary: "stop a live run", load: async () => (await import("./stop.ts")).command },
  rm: { summary: "remove runs", load: async () => (await import("./rm.ts")).command },
  prune: { summary: "remove old runs", load: async () => (await import("./prune.ts")).command },
  adopt: {
    summary: "import conversations started outside Reprise",
    load: async () => (await import("./adopt.ts")).command,
  },
  review: {
    summary: "let Codex address a pull request's review comments",
    load: async () => (await import("./review.ts")).command,
  },
  issues: {
    summary: "work through a repository's issues and resume interrupted ones",
    load: async () => (await import("./issues.ts")).command,
  },
  runbook: {
    summary: "check runbooks, list their definitions, explain their reactions",
    load: async () => (await import("./runbook.ts")).command,
  },
  agent: {
    summary: "start, inspect and resume supervised agents",
    load: async () => (await import("./agent.ts")).command,
  },
  pipeline: {
    summary: "run commands and agents of a runbook in order",
    load: async () => (await import("./pipeline.ts")).command,
  },
  decisions: {
    summary: "answer questions from agents",
    load: async () => (await import("./decisions.ts")).command,
  },
  status: {
    summary: "show all agents and pipelines: state, since when, next action",
    load: async () => (await import("./status.ts")).command,
  },
  daemon: {
    summary: "start, stop or inspect the daemon",
    load: async () => (await import("./daemon.ts")).command,
  },
  doctor: {
    summary: "check engines, state directory and index",
    load: async () => (await import("./doctor.ts")).command,
  },
  explain: {
    summary: "show how Reprise parses an engine's output",
    load: async () => (await import("./explain.ts")).command,
  },
  demo: {
    summary: "watch an agent crash and its conversation continue",
    load: async () => (await import("./demo.ts")).command,
  },
  completion: {
    summary: "print shell completion for bash, zsh or fish",
    load: async () => (await import("./completion.ts")).command,
  },
};
