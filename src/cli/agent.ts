/** `reprise agent …`: supervised agents. One verb a file or a few; `logs` and `attach` are those of any run. */
import { Fault } from "../core/faults.ts";
import { nearest } from "../lib/suggest.ts";
import type { Run } from "./cli.ts";
import { HelpShown } from "./command.ts";
import type { Context } from "./context.ts";

interface Verb {
  readonly summary: string;
  load(): Promise<Run>;
}

const VERBS: Readonly<Record<string, Verb>> = {
  run: {
    summary: "start an agent of a runbook and keep it moving",
    load: async () => (await import("./agent-run.ts")).run,
  },
  list: {
    summary: "list agents: state, since when, what comes next",
    load: async () => (await import("./agent-look.ts")).list,
  },
  show: {
    summary: "show one agent: definition, attempts, what was decided and why, what comes next",
    load: async () => (await import("./agent-look.ts")).show,
  },
  logs: { summary: "print what it printed", load: async () => (await import("./logs.ts")).run },
  peek: {
    summary: "print what it shows right now",
    load: async () => (await import("./agent-look.ts")).peek,
  },
  attach: {
    summary: "look at it and type into it; Ctrl-] leaves",
    load: async () => (await import("./attach.ts")).run,
  },
  send: { summary: "tell it something", load: async () => (await import("./agent-act.ts")).send },
  stop: {
    summary: "end it and its supervision; its conversation stays",
    load: async () => (await import("./agent-act.ts")).stop,
  },
  resume: {
    summary: "bring back an agent, or all of them, with their conversations",
    load: async () => (await import("./agent-act.ts")).resume,
  },
};

export async function run(args: readonly string[], context: Context): Promise<number> {
  const [name, ...rest] = args;
  if (name === undefined || name === "--help" || name === "-h") {
    context.print(help());
    if (name !== undefined) throw new HelpShown();
    return 2;
  }
  // `--json` may stand before the verb, too.
  if (name === "--json" && rest[0] !== undefined) return run([rest[0], "--json", ...rest.slice(1)], context);
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (verb === undefined) {
    const near = nearest(name, Object.keys(VERBS));
    const hint = near === null ? "`reprise agent --help` lists what it does." : `Did you mean ${near}?`;
    throw new Fault("usage", `\`reprise agent\` does not know ${JSON.stringify(name.slice(0, 80))}. ${hint}`);
  }
  return (await verb.load())(rest, context);
}

function help(): string {
  const width = Math.max(...Object.keys(VERBS).map((name) => name.length));
  return [
    "Usage: reprise agent <verb> [options]",
    "",
    "Agents that are kept moving by a runbook (docs/runbooks.md).",
    "",
    ...Object.entries(VERBS).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`),
    "",
    "Examples:",
    "  reprise agent run worker",
    "  reprise agent list",
    "  reprise agent resume --all",
  ].join("\n");
}
