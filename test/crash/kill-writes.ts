/** P1: our processes are killed before, inside and after each of their durable writes. */
import { aftermath } from "./aftermath.ts";
import { IoBox } from "./io-box.ts";
import { FaultyIo, type Program } from "./io.ts";
import { inParallel } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";
import { type Scenario, SCENARIOS } from "./scenarios.ts";

interface Trial {
  readonly scenario: Scenario;
  readonly program: Program;
  readonly kind: "before" | "half";
  readonly n: number;
}

/** So many trials of each scenario and program when time is short. */
const FEW = 2;

export const killWrites: Promised = {
  id: "P1",
  what: "kills at a durable write",
  wrong: "lost or doubled something",
  means:
    "whichever durable write CLI, holder or daemon is killed at, nothing acknowledged is lost and every conversation goes on",
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
      const writes = scale.short ? about : await countWrites(io, scenario, program);
      if (!scale.short) figures[`${scenario.name}, durable calls of ${program}`] = writes;
      trials.push(...chosen(scale, { scenario, program }, writes));
    }
  }
  const broken: string[] = [];
  let hits = 0;
  let done = 0;
  await inParallel(trials, async (trial) => {
    const { wrong, hit } = await attempt(io, trial);
    done += 1;
    hits += hit ? 1 : 0;
    const what = `${trial.scenario.name}, ${trial.program} killed ${trial.kind === "half" ? "in" : "before"} call ${trial.n}`;
    if (wrong.length > 0) broken.push(`${what}: ${wrong.join(" · ")}`);
    scale.progress(`P1: ${done} of ${trials.length}, ${broken.length} broken`);
  });
  return { tried: trials.length, broken, untried: [], figures: { ...figures, "kills that struck": hits } };
}

async function countWrites(io: FaultyIo, scenario: Scenario, program: Program): Promise<number> {
  await using box = new IoBox();
  await scenario.prepare(box);
  const injection = io.inject(box.state, program, { kind: "count", n: 0 });
  await scenario.act(box, injection.env);
  return injection.count();
}

/** All of them, or some that are spread over the whole and shifted by the seed. */
function chosen(scale: Scale, where: Pick<Trial, "scenario" | "program">, writes: number): Trial[] {
  if (scale.short) {
    const step = Math.floor(writes / FEW);
    return Array.from({ length: FEW }, (_, at) => {
      const n = 1 + at * step + ((scale.seed * 37 + at * 11) % step);
      return { ...where, n, kind: n % 2 === 0 ? "before" : "half" };
    });
  }
  return Array.from({ length: writes }, (_, at) => at + 1).flatMap((n) => [
    { ...where, n, kind: "before" as const },
    { ...where, n, kind: "half" as const },
  ]);
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
