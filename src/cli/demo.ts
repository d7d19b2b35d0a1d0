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
const FIRST = "My lucky number is 4711. Plan a fix for the flaky test.";
const LUCKY = "4711";
const SECOND = "Go on. And what was my lucky number?";
/** Milliseconds between the words of the agent, and between two scenes. A person can follow; a script need not. */
const PACE = { person: { word: 50, scene: 1_200 }, script: { word: 1, scene: 0 } } as const;
type Pace = (typeof PACE)[keyof typeof PACE];

const START = {
  engine: "demo",
  native: [],
  env: [],
  isolate: null,
  runDir: null,
  name: "demo",
  subject: null,
  trustCwd: false,
  escrow: true,
} as const;
const RESUME = { ...RESUME_DEFAULTS, want: "resume" } as const;

export const command = defineCommand({
  name: "demo",
  summary:
    "Kill a scripted agent in the middle of a turn and resume it by handle. Needs no key and no network.",
  options: {
    fast: flag("skip the pauses, for scripts"),
    json: flag("print one JSON object at the end; implies --fast"),
  },
  examples: ["reprise demo", "reprise demo --fast", "reprise demo --json"],
  run: ({ options }, context) =>
    playDemo(
      context,
      options.json,
      options.fast === true || options.json === true ? PACE.script : PACE.person,
    ),
});

async function playDemo(context: Context, json: true | undefined, pace: Pace): Promise<number> {
  const look: ViewOptions = json === true ? { json } : { readable: true };
  const tell = async (text: string) => {
    if (json !== undefined) return;
    context.print(paint(context.terminal, "bold", text));
    await new Promise((wake) => setTimeout(wake, pace.scene));
  };
  const deps = await context.open({ cwd: null, badConfig: "refuse" });
  const options = { ...attemptOptions({}, deps, context), mode: "pipe" as const, terminal: null };

  await tell(`$ reprise start demo "${FIRST}"`);
  const slow = `@@slow:${pace.word}`;
  const start = { ...options, message: `${FIRST} ${slow} @@die` };
  const { run: started, reason } = await startAndDie(deps, start, openView(context, look));
  await tell(`…and here the agent died in the middle of its turn: ${reason}.`);

  await tell(`\n$ reprise resume ${started.handle} "${SECOND}"`);
  const view = openView(context, look);
  const message = `${SECOND} ${slow}`;
  const resumed = await resumeRun(
    deps,
    { ...options, ...RESUME, message, selector: started.handle },
    view,
  ).finally(() => view.close());
  const code = await finishAttempt(context, look, resumed, { view, deps });
  const remembers = view.text().includes(LUCKY);
  await tell(
    remembers ? `\nThe same conversation went on: it still knows ${LUCKY}.` : "\nThe conversation was lost.",
  );
  if (json === undefined && remembers) for (const line of nextLines(started.handle)) context.print(line);
  return code === 0 && remembers ? 0 : 1;
}

function nextLines(handle: string): readonly string[] {
  return [
    "Try next:",
    `  reprise show ${handle}        the proof: the id asked for and the id reported`,
    `  reprise logs ${handle}        both attempts, word by word`,
    "  reprise doctor               the engines that Reprise finds here",
    "  reprise init                 settings and a first runbook for your project",
    '  reprise start codex "…"      an agent of yours',
  ];
}

async function startAndDie(deps: Deps, options: AttemptOptions & { readonly message: string }, view: View) {
  const cwd = workingDirectory(".");
  const result = await startRun(deps, { ...options, ...START, cwd, cwdGiven: false }, view).finally(() =>
    view.close(),
  );
  await result.finish();
  const { outcome } = result.attempt;
  if (outcome?.result === "interrupted") return { run: result.run, reason: outcome.reason };
  throw new Fault(
    "engine_cannot",
    `The demo agent must end as interrupted, but it ended as ${outcome?.result ?? "lost"}.`,
  );
}
