/**
 * All commands: what each is for, and the file that declares and runs it, loaded only when needed. `group` is the heading
 * in `reprise --help`, which shows the first two commands of a group with their summaries and the others by name.
 */
import type { Entry } from "./define.ts";

/** The purposes of commands, in the order of `reprise --help`. */
export type Purpose = "run" | "look" | "keep" | "supervise" | "project" | "setup";

export const COMMANDS: Readonly<Record<string, Entry & { readonly group: Purpose }>> = {
  start: {
    group: "run",
    summary: "start an agent and record its output",
    load: async () => (await import("./start.ts")).command,
  },
  resume: {
    group: "run",
    summary: "continue a run's conversation",
    load: async () => (await import("./resume.ts")).command,
  },
  attach: {
    group: "run",
    summary: "show a background run and type into it",
    load: async () => (await import("./attach.ts")).command,
  },
  stop: { group: "run", summary: "stop a live run", load: async () => (await import("./stop.ts")).command },
  wait: {
    group: "run",
    summary: "wait until runs end, are idle, ask or can continue",
    load: async () => (await import("./wait.ts")).command,
  },
  list: {
    group: "look",
    summary: "list runs, last used first",
    load: async () => (await import("./list.ts")).command,
  },
  search: {
    group: "look",
    summary: "search everything said and done in all runs",
    load: async () => (await import("./search.ts")).command,
  },
  show: {
    group: "look",
    summary: "show one run, its attempts and the proof of each resume",
    load: async () => (await import("./show.ts")).command,
  },
  logs: {
    group: "look",
    summary: "print the output of an agent",
    load: async () => (await import("./logs.ts")).command,
  },
  diff: {
    group: "look",
    summary: "show what changed in a run's folder since it began",
    load: async () => (await import("./diff.ts")).command,
  },
  usage: {
    group: "look",
    summary: "show tokens, cost and limits by day, engine, model, run or folder",
    load: async () => (await import("./usage.ts")).command,
  },
  replay: {
    group: "look",
    summary: "play a recording in the terminal",
    load: async () => (await import("./replay.ts")).command,
  },
  adopt: {
    group: "keep",
    summary: "import conversations started outside Reprise",
    load: async () => (await import("./adopt.ts")).command,
  },
  export: {
    group: "keep",
    summary: "export a run without secrets: archive, page or recording",
    load: async () => (await import("./export.ts")).command,
  },
  rm: { group: "keep", summary: "remove runs", load: async () => (await import("./rm.ts")).command },
  prune: {
    group: "keep",
    summary: "remove old runs",
    load: async () => (await import("./prune.ts")).command,
  },
  rename: {
    group: "keep",
    summary: "rename a run",
    load: async () => (await import("./rename.ts")).command,
  },
  tag: {
    group: "keep",
    summary: "add or remove a run's tags",
    load: async () => (await import("./tag.ts")).command,
  },
  agent: {
    group: "supervise",
    summary: "start, inspect and resume supervised agents",
    load: async () => (await import("./agent.ts")).command,
  },
  status: {
    group: "supervise",
    summary: "show the state and next action of all agents and pipelines",
    load: async () => (await import("./status.ts")).command,
  },
  decisions: {
    group: "supervise",
    summary: "answer questions from agents",
    load: async () => (await import("./decisions.ts")).command,
  },
  pipeline: {
    group: "supervise",
    summary: "run commands and agents of a runbook in order",
    load: async () => (await import("./pipeline.ts")).command,
  },
  runbook: {
    group: "supervise",
    summary: "check runbooks, list their agents and pipelines, explain their actions",
    load: async () => (await import("./runbook.ts")).command,
  },
  scheduled: {
    group: "supervise",
    summary: "list or cancel scheduled resumes",
    load: async () => (await import("./scheduled.ts")).command,
  },
  web: {
    group: "look",
    summary: "show runs, agents and decisions in a browser",
    load: async () => (await import("./web.ts")).command,
  },
  notify: {
    group: "supervise",
    summary: "test notifications",
    load: async () => (await import("./notify.ts")).command,
  },
  daemon: {
    group: "supervise",
    summary: "start, stop or inspect the daemon",
    load: async () => (await import("./daemon.ts")).command,
  },
  issues: {
    group: "project",
    summary: "work through a repository's issues, resume interrupted ones",
    load: async () => (await import("./issues.ts")).command,
  },
  review: {
    group: "project",
    summary: "let Codex address a pull request's review comments",
    load: async () => (await import("./review.ts")).command,
  },
  init: {
    group: "setup",
    summary: "write a commented reprise.toml and a first runbook",
    load: async () => (await import("./init.ts")).command,
  },
  doctor: {
    group: "setup",
    summary: "check engines, state directory and index",
    load: async () => (await import("./doctor.ts")).command,
  },
  config: {
    group: "setup",
    summary: "show, check and change settings",
    load: async () => (await import("./config/config.ts")).command,
  },
  demo: {
    group: "setup",
    summary: "watch an agent crash and its conversation continue",
    load: async () => (await import("./demo.ts")).command,
  },
  completion: {
    group: "setup",
    summary: "print shell completion for bash, zsh or fish",
    load: async () => (await import("./completion.ts")).command,
  },
  explain: {
    group: "setup",
    summary: "show how Reprise parses an engine's output",
    load: async () => (await import("./explain.ts")).command,
  },
};
