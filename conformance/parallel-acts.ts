/**
 * Many agents start at the same moment in one folder, and each conversation must still be there afterwards. The model
 * is the judge: a resumed conversation holds its own two messages and nothing of its neighbours.
 */
import type { LabWorld } from "../src/certify/world.ts";
import { environment, type Ended, run, settle } from "../src/certify/place.ts";
import { must } from "./review.ts";

/** Resumes are not the point here: as many at a time as the machine has patience for. */
const RESUMES_AT_ONCE = 4;

interface Printed {
  readonly handle: string;
  readonly session: { readonly value: string | null };
}

export const PARALLEL_ACTS: Readonly<
  Record<string, (world: LabWorld, words: readonly string[]) => Promise<void>>
> = {
  /** `parallel 20 5`: twenty starts at once, each resumed; five rounds in the same folder. */
  parallel: async (world, [count = "20", rounds = "1"]) => {
    settle(world.place, world.lab, world.server.url);
    // As on a machine where the engine was used before: OpenCode makes its database at its first start, and several that
    // make it at once fail by themselves.
    await reprise(world, startOf(world, "the first start"));
    for (let round = 1; round <= Number(rounds); round += 1) await oneRound(world, Number(count), round);
  },
};

async function oneRound(world: LabWorld, count: number, round: number): Promise<void> {
  const numbers = Array.from({ length: count }, (_, n) => `${round}-${n + 1}`);
  const started = await Promise.all(numbers.map((name) => reprise(world, startOf(world, name))));
  const sessions = started.map(({ session }) => session.value);
  must(new Set(sessions).size === count, `round ${round}: ${count} starts, sessions ${sessions.join(", ")}`);
  const waiting = started.map(({ handle }, n) => ({ handle, name: numbers[n] ?? "" }));
  const lost: string[] = [];
  const worker = async () => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift())
      await resumed(world, one).catch((error: unknown) => lost.push(String(error)));
  };
  world.resumes.meant += count;
  await Promise.all(Array.from({ length: RESUMES_AT_ONCE }, worker));
  must(lost.length === 0, `round ${round}: ${lost.length} of ${count} were not resumed: ${lost[0] ?? ""}`);
}

async function resumed(world: LabWorld, { handle, name }: { handle: string; name: string }): Promise<void> {
  const message = `What was the word of ${name}?`;
  await reprise(world, ["resume", "--json", handle, message]);
  const turn = world.server.requests.find(({ kind, users }) => kind === "turn" && users.at(-1) === message);
  const wanted = JSON.stringify([told(name), message]);
  must(JSON.stringify(turn?.users) === wanted, `${name} held ${JSON.stringify(turn?.users)}, not ${wanted}`);
  world.resumes.worked += 1;
}

function told(name: string): string {
  return `Remember the word of ${name}.`;
}

function startOf({ lab }: LabWorld, name: string): readonly string[] {
  return ["start", lab.engine, "--json", ...lab.flags, told(name), "--", ...lab.native];
}

async function reprise(
  { bench, place, lab, server, log }: LabWorld,
  args: readonly string[],
): Promise<Printed> {
  const env = environment(place, lab, server.url);
  const ended: Ended = await run(process.execPath, [bench.cli, ...args], {
    cwd: place.project,
    env,
    stdin: null,
  }).ended;
  log.push(
    `$ reprise ${args.join(" ")}\n  exit ${ended.code ?? ended.signal} ${ended.stdout}${ended.stderr}`,
  );
  must(ended.code === 0, `reprise ${args.join(" ")}: exit ${ended.code}: ${ended.stdout} ${ended.stderr}`);
  return JSON.parse(ended.stdout) as Printed;
}
