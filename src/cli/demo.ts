/** `reprise demo`: a scripted agent dies in the middle of a turn, is resumed, and remembers. Same code as any engine. */
import { Fault } from "../core/faults.ts";
import { resumeRun, startRun } from "../run/run.ts";
import { attemptOptions } from "./attempt-options.ts";
import { makeCommand, parse } from "./command.ts";
import { type Context, paint } from "./context.ts";
import { openView, type ViewOptions } from "./live.ts";
import { workingDirectory } from "./start.ts";
import { finishAttempt } from "./summary.ts";

/** `@@die` makes the demo agent kill itself half-way through its answer. */
const FIRST = "My lucky number is 4711. Plan a fix for the flaky test. @@slow:15 @@die";
const SECOND = "Go on. And what was my lucky number?";

export async function run(args: readonly string[], context: Context): Promise<number> {
  const parser = makeCommand({
    name: "demo",
    summary: "A scripted agent dies in the middle of a turn, is resumed by handle, and remembers. No key, no network.",
    examples: ["reprise demo", "reprise demo --json"],
  }).option("--json", "print one JSON object at the end");
  parse(parser, args);
  const { json } = parser.opts<{ json?: true }>();
  const look: ViewOptions = json === true ? { json } : { readable: true };
  const tell = (text: string) => {
    if (json === undefined) context.print(paint(context.terminal, "bold", text));
  };
  const cwd = workingDirectory(".");
  const deps = await context.open({ cwd: null });
  const options = { ...attemptOptions({}, deps, context), mode: "pipe" as const, terminal: null };

  tell(`$ reprise start demo "${FIRST}"`);
  const view = openView(context, look);
  const started = await startRun(
    deps,
    { ...options, engine: "demo", message: FIRST, native: [], env: [], cwd, isolate: null, runDir: null, name: "demo", subject: null, trustCwd: false, escrow: true },
    view,
  ).finally(() => view.close());
  await started.finish();
  const { handle } = started.run;
  if (started.attempt.outcome?.result !== "interrupted") {
    throw new Fault("storage_failed", `The demo agent was to be interrupted, and it was ${started.attempt.outcome?.result ?? "lost"}.`);
  }
  tell(`…and here the agent died in the middle of its turn: ${started.attempt.outcome.reason}.`);

  tell(`\n$ reprise resume ${handle} "${SECOND}"`);
  const again = openView(context, look);
  const resumed = await resumeRun(
    deps,
    { ...options, selector: handle, want: "resume", message: SECOND, native: [], keep: false, env: [], hasTerminal: false, trustCwd: false },
    again,
  ).finally(() => again.close());
  const code = await finishAttempt(context, look, resumed, again);
  const remembers = again.text().includes("4711");
  tell(remembers ? `\nThe same conversation went on: it still knows 4711. \`reprise show ${handle}\` has the proof.` : "\nThe conversation was lost.");
  return code === 0 && remembers ? 0 : 1;
}
