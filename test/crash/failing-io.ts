/** P2: calls of the system fail, once or from then on. A command says so as a fault, with the place, or does all of its work. */
import { chances } from "../e2e/agent-storms.ts";
import { aftermath, stackIn } from "./aftermath.ts";
import { IoBox, type Said } from "./io-box.ts";
import { type Errno, ERRNOS, FaultyIo, type Program } from "./io.ts";
import { inParallel, shuffled } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";
import { type Scenario, SCENARIOS } from "./scenarios.ts";

interface Trial {
  readonly scenario: Scenario;
  readonly program: Program;
  readonly kind: "once" | "from";
  readonly errno: Errno;
  readonly n: number;
}

/**
 * With how many calls a kind of failure is tried at most. The holder and the daemon fail where nobody waits for an exit
 * code: there, the files left behind are judged.
 */
const WHERE: readonly (readonly [Scenario, Program, most: number])[] = [
  [SCENARIOS.start, "reprise.js", 10],
  [SCENARIOS.resume, "reprise.js", 10],
  [SCENARIOS.detach, "reprise.js", 10],
  [SCENARIOS.detach, "holder.js", 10],
  [SCENARIOS.review, "reprise.js", 10],
  [SCENARIOS.issues, "reprise.js", 10],
];
/** Each takes as long as a supervisor needs to give up. */
const SUPERVISED: typeof WHERE = [
  [SCENARIOS.agent, "reprise.js", 4],
  [SCENARIOS.agent, "holder.js", 4],
  [SCENARIOS.agent, "daemon.js", 4],
  [SCENARIOS.pipeline, "daemon.js", 4],
];
const FEW = 2;

export const failingIo: Promised = {
  id: "P2",
  what: "failing system calls",
  wrong: "were not reported as a fault or damaged something",
  means:
    "When a call fails with EIO, ENOSPC, EMFILE, EACCES or EROFS, once or permanently, the command reports it or does its work, and the data stay intact",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  const io = FaultyIo.open();
  if (typeof io === "string") return { tried: 0, broken: [], untried: [io], figures: {} };
  using _ = io;
  const figures: Record<string, number> = { "the fault struck": 0, "full success all the same": 0 };
  const broken: string[] = [];
  const trials = scale.short ? fewTrials(scale) : await manyTrials(io, scale, figures);
  let done = 0;
  await inParallel(trials, async (trial) => {
    const { wrong, hit, code } = await attempt(io, trial);
    done += 1;
    if (hit) figures["the fault struck"] = (figures["the fault struck"] ?? 0) + 1;
    if (hit && code === 0)
      figures["full success all the same"] = (figures["full success all the same"] ?? 0) + 1;
    const { scenario, program, kind, errno, n } = trial;
    const what = `${scenario.name}, call ${n} of ${program} fails with ${errno}${kind === "from" ? " and all that follow" : ""}`;
    if (wrong.length > 0) broken.push(`${what}: ${wrong.join(" · ")}`);
    scale.progress(`P2: ${done} of ${trials.length}, ${broken.length} broken`);
  });
  return { tried: trials.length, broken, untried: [], figures };
}

/** Each place with two errors, at moments that the seed chooses. */
function fewTrials({ seed }: Scale): Trial[] {
  return WHERE.flatMap(([scenario, program], place) =>
    Array.from({ length: FEW }, (_, at): Trial => {
      const number = seed + place * FEW + at;
      const errno = ERRNOS[number % ERRNOS.length] ?? "EIO";
      const kind = number % 2 === 0 ? "once" : "from";
      return { scenario, program, kind, errno, n: 1 + ((number * 53) % (errno === "EIO" ? 300 : 60)) };
    }),
  );
}

/** Of the calls that can fail with an error, each or so many, evenly spread: which ones, the seed says. */
async function manyTrials(
  io: FaultyIo,
  { seed }: Scale,
  figures: Record<string, number>,
): Promise<readonly Trial[]> {
  const chance = chances(seed);
  const trials: Trial[] = [];
  for (const [scenario, program, most] of [...WHERE, ...SUPERVISED]) {
    for (const errno of ERRNOS) {
      const calls = await countCalls(io, { scenario, program, kind: "once", errno, n: 0 });
      figures[`${scenario.name}, calls of ${program} that can fail with ${errno}`] = calls;
      for (const kind of ["once", "from"] as const) {
        const step = Math.max(1, calls / most);
        for (let at = chance() * step; at < calls; at += step)
          trials.push({ scenario, program, kind, errno, n: 1 + Math.floor(at) });
      }
    }
  }
  return shuffled(trials, chance);
}

async function countCalls(io: FaultyIo, { scenario, program, errno }: Trial): Promise<number> {
  await using box = new IoBox();
  await scenario.prepare(box);
  const injection = io.inject(box.state, program, { kind: "once", n: 0, errno });
  await scenario.act(box, injection.env);
  return injection.count();
}

async function attempt(
  io: FaultyIo,
  trial: Trial,
): Promise<{ wrong: readonly string[]; hit: boolean; code: number | null }> {
  const { scenario, program, kind, errno, n } = trial;
  await using box = new IoBox();
  try {
    await scenario.prepare(box);
    const injection = io.inject(box.state, program, { kind, errno, n });
    const said = await scenario.act(box, injection.env);
    if (isSupervised(trial)) await mend(box);
    const wrong = [
      ...said.flatMap((one) => badlySaid(one, box, errno)),
      ...(await scenario.finish(box, said)),
      ...(await aftermath(box, said, { ...scenario, deaths: scenario.deaths + lostTries(trial) })),
    ];
    return { wrong, hit: injection.hits() > 0, code: said[0]?.code ?? null };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { wrong: [`the trial itself failed: ${why}`], hit: false, code: null };
  }
}

/** A supervisor tries again and again, each time in vain as long as the disk refuses. */
function lostTries(trial: Trial): number {
  return trial.kind === "from" && isSupervised(trial) ? 5 : 0;
}

function isSupervised({ scenario }: Trial): boolean {
  return SUPERVISED.some(([one]) => one === scenario);
}

/**
 * The fault lives on in the daemon and its children: another daemon continues. An agent that gave up asks, and gets a
 * message to continue.
 */
async function mend(box: IoBox): Promise<void> {
  await box.strays();
  await box.say(["daemon", "start"]);
  const { stdout } = await box.say(["decisions", "list", "--ids"]);
  for (const id of stdout.split("\n").filter(Boolean)) await box.say(["decisions", "resolve", id, "1"]);
}

/** Storage failure, with the path; a batch whose issues failed names it for each. */
function badlySaid(one: Said, box: IoBox, errno: Errno): string[] {
  const { args, code, signal, stdout, stderr } = one;
  const text = stdout + stderr;
  const what = args.slice(0, 2).join(" ");
  if (stackIn(one).length > 0) return [];
  // 4: a supervisor that cannot start. 5: SQLite's word for a page that cannot be read.
  const others = args[0] === "issues" ? [10] : ["agent", "pipeline"].includes(args[0] ?? "") ? [4] : [];
  const damaged = code === 5 && text.includes("index_damaged");
  if (code !== 0 && code !== 7 && !damaged && !others.includes(code ?? -1))
    return [`${what} ended with ${code ?? signal}: ${text.slice(0, 600)}`];
  if (code === 7 && errno === "ENOSPC" && text.includes("read only"))
    return [`${what} says something else of a full disk: ${text.slice(0, 600)}`];
  // Too few descriptors are no place's fault: what helps is named instead.
  if (errno === "EMFILE" && code === 7 && text.includes("Too many open files") && text.includes("ulimit -n"))
    return [];
  if ([4, 5, 7].includes(code ?? 0) && !text.includes(box.state))
    return [`${what} does not name the place: ${text.slice(0, 600)}`];
  return [];
}
