/** `reprise attach <handle>`: connects this terminal to a detached run. */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { attachInTmux, attachTerminal, findTmux, type HolderLink, openHolder } from "../detached/detached.ts";
import { harmlessLine } from "../lib/harmless.ts";
import { type Deps, exitCodeFor } from "../run/run.ts";
import { inspectRun, offerFor } from "../run/inspect.ts";
import { selectRun } from "../run/select.ts";
import { withEngineOf } from "./summary.ts";
import type { Context } from "./context.ts";
import { defineCommand, flag, LIVE_HANDLE } from "./define.ts";
import { eventFrom } from "./events-text.ts";
import { openView } from "./live.ts";
import { writeOut } from "./plain.ts";
import { itemsOf } from "./transcript.ts";

export const command = defineCommand({
  name: "attach",
  summary:
    "Show a background run and type into it. Detach with Ctrl-], or with Ctrl-C if the agent has no UI.",
  args: { handle: LIVE_HANDLE },
  options: {
    direct: flag("use this terminal directly, even if tmux is installed"),
    raw: flag("write the exact bytes of a UI to a pipe or file, instead of plain text"),
  },
  examples: [
    "reprise attach 1a2b3c4d",
    "reprise attach 1a2b --direct      (without tmux)",
    "reprise start claude --detach     (a run to attach to)",
  ],
  run: async ({ args, options: { direct, raw } }, context) => {
    if (raw === true && context.terminal.stdout)
      throw new Fault("usage", "--raw is for a pipe or a file. On a terminal, attach shows the UI itself.");
    const deps = await context.open({ cwd: null });
    const found = await selectRun(deps, args.handle);
    const link = await openHolder(deps, found);
    if (link === null) return notHeld(context, deps, found);
    await using held = link;
    const tmux = direct === true || !isTerminal(context) ? null : findTmux(deps);
    const lends = held.hello.interactive && (isTerminal(context) || raw === true);
    const left = lends ? await useTerminal(deps, held, tmux) : await watch(context, deps, held, found);
    if (left) {
      context.log.info(`${found.handle} keeps running. Attach again: reprise attach ${found.handle}`);
      return 0;
    }
    return await howItEnded(context, deps, await untilEnded(deps, found, held.hello.attempt));
  },
});

function isTerminal({ terminal }: Context): boolean {
  return terminal.stdin && terminal.stdout;
}

/** True: the user left and the agent keeps working. */
async function useTerminal(deps: Deps, link: HolderLink, tmux: string | null): Promise<boolean> {
  if (tmux === null) return (await attachTerminal(link)) === "detached";
  const over = link.closed.then(() => false);
  await attachInTmux(deps, tmux, link.hello.handle);
  // The client inside may see the end a moment before us.
  return Promise.race([over, sleep(300, true)]);
}

/**
 * Shows an agent without a UI as `start` does. A UI's output to a pipe, which may lead to a terminal, becomes harmless
 * text (I11). True: the user left with Ctrl-C, and the agent keeps working.
 */
async function watch(context: Context, deps: Deps, link: HolderLink, found: RunRecord): Promise<boolean> {
  const { attempt: n, interactive } = link.hello;
  const leave = new AbortController();
  const over = { yet: false };
  void link.closed.then(() => (over.yet = true));
  const view = openView(context, { readable: true, watching: true });
  view.onStop(() => leave.abort());
  if (context.terminal.stderr) context.log.info(`watching ${found.handle}; Ctrl-C leaves it running`);
  const source = { deps, found, n, terminal: context.terminal, signal: leave.signal, ended: () => over.yet };
  try {
    for await (const item of itemsOf(source, { interactive }, true)) {
      const event = eventFrom(item);
      if (event !== null) view.events([{ event, stream: "stdout", line: 0 }]);
      // The reader closed the pipe, so it has left.
      if (process.stdout.writableNeedDrain && !(await writeOut(""))) leave.abort();
    }
  } finally {
    view.close();
  }
  return leave.signal.aborted;
}

async function notHeld(context: Context, deps: Deps, found: RunRecord): Promise<number> {
  if (found.status !== "running") return howItEnded(context, deps, found);
  const { live } = await inspectRun(deps, found.runId);
  if (live === null) return howItEnded(context, deps, await selectRun(deps, found.runId));
  throw new Fault(
    "run_busy",
    `Run ${found.handle} runs in another terminal (pid ${live.pid}), so you cannot attach to it. ` +
      `Follow its output: reprise logs ${found.handle} -f. ` +
      "To attach to a run, start it with --detach, or press Ctrl-] in its UI first.",
    { facts: { handle: found.handle, pid: live.pid } },
  );
}

/** The holder records the end before it releases the run; a dead holder is detected on sight. */
async function untilEnded(deps: Deps, found: RunRecord, attempt: number): Promise<RunRecord> {
  for (let look = 0; ; look += 1) {
    const now = await selectRun(deps, found.runId);
    if (now.status !== "running" || now.attempts > attempt || look >= 100) return now;
    await sleep(100);
  }
}

async function howItEnded(context: Context, deps: Deps, found: RunRecord): Promise<number> {
  const { handle } = found;
  const attempt = (await deps.store.listAttempts(found.runId)).at(-1);
  const outcome = attempt?.outcome ?? null;
  if (outcome === null) {
    context.log.info(`${handle} is ${found.status}. Look at it: reprise show ${handle}`);
    return 1;
  }
  const { why, next } = await offerFor(await withEngineOf(context, deps, found), found);
  const again = why === null ? next : `reprise show ${handle}`;
  context.log.info(
    `${handle} has ended: ${outcome.result}, ${harmlessLine(outcome.reason, 300)}. Next: ${again}`,
  );
  return exitCodeFor(outcome, null);
}
