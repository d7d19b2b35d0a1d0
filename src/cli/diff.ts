/** `reprise diff <handle>`: what changed in a run's folder since it began. */
import { spawn } from "node:child_process";
import type { Env, Processes } from "../core/deps.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { table } from "../lib/table.ts";
import { type Changes, changesOf } from "../run/changes.ts";
import { selectRun } from "../run/select.ts";
import { type Context, paint, type Terminal } from "./context.ts";
import { count, defineCommand, flag, JSON_FLAG, RUN_HANDLE, withValue } from "./define.ts";
import { widthLimit } from "./words.ts";

export const command = defineCommand({
  name: "diff",
  summary: "Show what changed in a run's folder since the run or an attempt began. Needs git.",
  args: { handle: RUN_HANDLE },
  options: {
    attempt: withValue("<n>", "since this attempt began (default: the first)", count(1, 999_999_999)),
    stat: flag("only the names of files, with added and deleted lines"),
    json: JSON_FLAG,
  },
  examples: [
    "reprise diff 1a2b3c4d",
    "reprise diff 1a2b --attempt 2 --stat",
    "reprise diff 1a2b --json | jq .files",
  ],
  run: async ({ args, options, reply }, context) => {
    const deps = await context.open({ cwd: null });
    const run = await selectRun(deps, args.handle);
    const patch = options.stat !== true;
    const { attempt } = options;
    const wanted = { ...(attempt === undefined ? {} : { attempt }), patch };
    const changes = await stoppable((signal) => changesOf(deps, run, { ...wanted, signal }));
    if (options.json === true) {
      reply({ handle: run.handle, ...changes }, "");
      return 0;
    }
    for (const note of changes.notes) context.log.info(harmlessLine(note, 1_000));
    const lines = patch ? patchLines(context.terminal, changes) : statLines(context.terminal, changes);
    if (lines.length === 0)
      context.print(
        changes.notes.length === 0
          ? "No file changed."
          : "No change found. Not everything was compared: see the notes.",
      );
    else await show(context, deps.processes, deps.env, lines);
    return 0;
  },
});

/** A signal ends git first, so that its temporary files can be removed, and then Reprise. */
async function stoppable<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  let by: NodeJS.Signals | null = null;
  const stop = (signal: NodeJS.Signals) => {
    by = signal;
    abort.abort();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, stop);
  try {
    return await work(abort.signal);
  } finally {
    for (const signal of signals) process.off(signal, stop);
    if (by !== null) process.kill(process.pid, by);
  }
}

function statLines(terminal: Terminal, { files }: Changes): readonly string[] {
  if (files.length === 0) return [];
  const rows = files.map(({ path, state, from, modes, added, deleted }) => [
    added === null ? "binary" : `+${added}`,
    deleted === null ? "" : `-${deleted}`,
    modes === undefined ? state : `${state}, mode ${modes[0].slice(-3)} to ${modes[1].slice(-3)}`,
    `${from === undefined ? "" : `${harmlessLine(from, 1_000)} => `}${harmlessLine(path, 1_000)}`,
  ]);
  return [...table(rows, widthLimit(terminal)), `${plural(files.length, "file")} changed`];
}

function patchLines(terminal: Terminal, { patch }: Changes): readonly string[] {
  const lines = patch === "" ? [] : patch.replace(/\n$/, "").split("\n");
  return lines.map((line) => {
    const text = harmless(line);
    if (/^(?:diff --git |index |--- |\+\+\+ |old mode |new mode |similarity |rename )/.test(line))
      return paint(terminal, "bold", text);
    if (line.startsWith("@@")) return paint(terminal, "cyan", text);
    if (line.startsWith("+")) return paint(terminal, "green", text);
    return line.startsWith("-") ? paint(terminal, "red", text) : text;
  });
}

/** On a terminal through the user's pager; without one, or in a pipe, as it is. */
async function show(
  context: Context,
  processes: Processes,
  env: Env,
  lines: readonly string[],
): Promise<void> {
  // An argument array: no shell reads the variable.
  const [name = "", ...args] = (env["PAGER"] ?? "less").split(/\s+/).filter(Boolean);
  const program = context.terminal.stdout && name !== "" ? processes.resolveProgram(name, env) : null;
  if (program === null) for (const line of lines) context.print(line);
  else await page(program, args, env, `${lines.join("\n")}\n`);
}

async function page(program: string, args: readonly string[], env: Env, text: string): Promise<void> {
  const pager = spawn(program, args, { stdio: ["pipe", "inherit", "inherit"], env: { LESS: "FRX", ...env } });
  // The pager reads the keys: Ctrl-C is its business until it ends.
  const ignore = () => {};
  process.on("SIGINT", ignore);
  try {
    await new Promise<void>((resolve) => {
      pager.once("close", () => resolve());
      pager.once("error", () => resolve());
      // A pager that is left early reads no more.
      pager.stdin.on("error", () => {});
      pager.stdin.end(text);
    });
  } finally {
    process.off("SIGINT", ignore);
  }
}
