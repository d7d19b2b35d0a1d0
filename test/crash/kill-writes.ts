/** P1: our processes are killed before, inside and after each of their durable writes. */
import { chances } from "../e2e/agent-storms.ts";
import { aftermath } from "./aftermath.ts";
import { IoBox } from "./io-box.ts";
import { FaultyIo, type Program } from "./io.ts";
import { inParallel, shuffled } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";
import { type Scenario, SCENARIOS } from "./scenarios.ts";

interface Trial {
  readonly scenario: Scenario;
  readonly program: Program;
  readonly kind: "before" | "half";
  readonly n: number;
}

/** When time is short: so many trials of the most important writes, and one of each other. */
const FEW = 5;
const HEART: readonly string[] = ["start, reprise.js", "resume, reprise.js", "detach, holder.js"];

export const killWrites: Promised = {
  id: "P1",
  what: "kills at a durable write",
  wrong: "lost or duplicated something",
  means:
    "Killing the CLI, a holder or the daemon at any durable write loses nothing acknowledged, and every conversation continues",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  const io = FaultyIo.open();
  if (typeof io === "string") return { tried: 0, broken: [], untried: [io], figures: {} };
  using _ = io;
  const figures: Record<string, number> = {};
  const trials: Trial[] = [];
  for (const scenario of Object.values(SCENARIOS)) {
    for (const [program, about] of scenario.programs) {
      const isHeart = HEART.includes(`${scenario.name}, ${program}`);
      const calls =
        scale.short && !isHeart
          ? { count: about, writes: new Set<number>(), pages: new Set<number>(), renames: [] }
          : await countCalls(io, scenario, program);
      if (!scale.short) figures[`${scenario.name}, durable calls of ${program}`] = calls.count;
      const choose = scale.short ? some : all;
      trials.push(...choose(calls, scale.seed).map((moment) => ({ scenario, program, ...moment })));
    }
  }
  const broken: string[] = [];
  let hits = 0;
  let done = 0;
  await inParallel(shuffled(trials, chances(scale.seed)), async (trial) => {
    const { wrong, hit } = await attempt(io, trial);
    done += 1;
    hits += hit ? 1 : 0;
    const what = `${trial.scenario.name}, ${trial.program} killed ${trial.kind === "half" ? "in" : "before"} call ${trial.n}`;
    if (wrong.length > 0) broken.push(`${what}: ${wrong.join(" · ")}`);
    scale.progress(`P1: ${done} of ${trials.length}, ${broken.length} broken`);
  });
  return { tried: trials.length, broken, untried: [], figures: { ...figures, "kills that struck": hits } };
}

interface Calls {
  readonly count: number;
  readonly writes: ReadonlySet<number>;
  readonly pages: ReadonlySet<number>;
  readonly renames: readonly number[];
}

async function countCalls(io: FaultyIo, scenario: Scenario, program: Program): Promise<Calls> {
  await using box = new IoBox();
  await scenario.prepare(box);
  const injection = io.inject(box.state, program, { kind: "count", n: 0 });
  await scenario.act(box, injection.env);
  const count = injection.count();
  const numbers = Array.from({ length: count }, (_, at) => at + 1);
  const writes = new Set(numbers.filter((n) => injection.isWrite(n)));
  const pages = new Set(numbers.filter((n) => injection.isPage(n)));
  return { count, writes, pages, renames: injection.renames() };
}

type Moment = Pick<Trial, "kind" | "n">;

/**
 * Before each call, which is after the one before it, and in the middle of each write. The pages of one transaction are one
 * write: before the first, and in the middle of one of them.
 */
function all({ count, writes, pages }: Calls, seed: number): Moment[] {
  const chance = chances(seed);
  const moments: Moment[] = [];
  for (let n = 1; n <= count; n += 1) {
    moments.push({ n, kind: "before" });
    const first = n;
    while (pages.has(first) && pages.has(n + 1)) n += 1;
    if (pages.has(first)) moments.push({ n: first + Math.floor(chance() * (n - first + 1)), kind: "half" });
    else if (writes.has(n)) moments.push({ n, kind: "half" });
  }
  return moments;
}

/** By the seed: right after a file got its name, where the most can be seen half done, and anywhere. */
function some({ count, renames }: Calls, seed: number): Moment[] {
  const chance = chances(seed);
  const anywhere = (): Moment => ({
    n: 1 + Math.floor(chance() * count),
    kind: chance() < 0.5 ? "before" : "half",
  });
  if (renames.length === 0) return [anywhere()];
  const after = (): Moment => ({
    n: 1 + (renames[Math.floor(chance() * renames.length)] ?? 0),
    kind: "before",
  });
  return Array.from({ length: FEW }, (_, at) => (at % 2 === 0 ? after() : anywhere()));
}

async function attempt(io: FaultyIo, trial: Trial): Promise<{ wrong: readonly string[]; hit: boolean }> {
  const { scenario, program, kind, n } = trial;
  await using box = new IoBox();
  try {
    await scenario.prepare(box);
    const injection = io.inject(box.state, program, { kind, n });
    const said = await scenario.act(box, injection.env);
    const wrong = [...(await scenario.finish(box, said)), ...(await aftermath(box, said, scenario))];
    return { wrong, hit: injection.hits() > 0 };
  } catch (error) {
    return {
      wrong: [`the trial itself failed: ${error instanceof Error ? error.message : String(error)}`],
      hit: false,
    };
  }
}
