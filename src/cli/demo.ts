/** `reprise demo`: a scripted agent dies during a turn, is resumed, and remembers. Uses the same code as any engine. */
import { Fault } from "../core/faults.ts";
import { type AttemptOptions, type Deps, RESUME_DEFAULTS, resumeRun, startRun } from "../run/run.ts";
import { attemptOptions } from "./attempt-options.ts";
import { type Context, paint } from "./context.ts";
import { defineCommand, flag } from "./define.ts";
import { openView, type View, type ViewOptions } from "./live.ts";
import { workingDirectory } from "./start.ts";
import { finishAttempt } from "./summary.ts";

/** `@@die` makes the demo agent kill itself half-way through its answer. */
const FIRST = "My lucky number is 4711. Plan a fix for the flaky test. @@slow:15 @@die";
const LUCKY = "4711";
const SECOND = "Go on. And what was my lucky number?";

const START = {
  engine: "demo",
  message: FIRST,
  native: [],
  env: [],
  isolate: null,
  runDir: null,
  name: "demo",
  subject: null,
  trustCwd: false,
  escrow: true,
} as const;
const RESUME = { ...RESUME_DEFAULTS, want: "resume", message: SECOND } as const;

export const command = defineCommand({
  name: "demo",
  summary:
    "Kill a scripted agent in the middle of a turn and resume it by handle. Needs no key and no network.",
  options: { json: flag("print one JSON object at the end") },
  examples: ["reprise demo", "reprise demo --json"],
  run: ({ options }, context) => playDemo(context, options.json),
});

async function playDemo(context: Context, json: true | undefined): Promise<number> {
  const look: ViewOptions = json === true ? { json } : { readable: true };
  const tell = (text: string) => {
    if (json === undefined) context.print(paint(context.terminal, "bold", text));
  };
  const deps = await context.open({ cwd: null, badConfig: "refuse" });
  const options = { ...attemptOptions({}, deps, context), mode: "pipe" as const, terminal: null };

  tell(`$ reprise start demo "${FIRST}"`);
  const { run: started, reason } = await startAndDie(deps, options, openView(context, look));
  tell(`…and here the agent died in the middle of its turn: ${reason}.`);

  tell(`\n$ reprise resume ${started.handle} "${SECOND}"`);
  const view = openView(context, look);
  const resumed = await resumeRun(deps, { ...options, ...RESUME, selector: started.handle }, view).finally(
    () => view.close(),
  );
  const code = await finishAttempt(context, look, resumed, view);
  const remembers = view.text().includes(LUCKY);
  tell(
    remembers
      ? `\nThe same conversation went on: it still knows ${LUCKY}. \`reprise show ${started.handle}\` has the proof.`
      : "\nThe conversation was lost.",
  );
  return code === 0 && remembers ? 0 : 1;
}

async function startAndDie(deps: Deps, options: AttemptOptions, view: View) {
  const cwd = workingDirectory(".");
  const result = await startRun(deps, { ...options, ...START, cwd, cwdGiven: false }, view).finally(() =>
    view.close(),
  );
  await result.finish();
  const { outcome } = result.attempt;
  if (outcome?.result === "interrupted") return { run: result.run, reason: outcome.reason };
  throw new Fault(
    "engine_cannot",
    `The demo agent was to be interrupted, and it was ${outcome?.result ?? "lost"}.`,
  );
}
