/** P20: a scheduled resume happens once, whenever the daemon or the machine dies. */
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../e2e/agent-storms.ts";
import { until } from "../e2e/sandbox.ts";
import { CrashBox } from "./crash-box.ts";
import { inParallel } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const schedules: Promised = {
  id: "P20",
  what: "scheduled resumes around which the daemon or everything was killed",
  wrong: "were lost, happened twice, or were reported wrongly",
  means:
    "A scheduled resume happens once, in the same conversation, if the daemon or the whole machine dies at any moment around its time; a resume that may or may not have reached the agent is reported as unsure",
  check,
};

const TRIALS = { short: 6, whole: 200 };
/** From the moment it is due until well after its agent was started. */
const AROUND_MS = 2_500;
const DUE_IN_S = 2;
const END_MS = 90_000;

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const broken: string[] = [];
  const figures: Record<string, number> = {};
  const numbers = Array.from({ length: short ? TRIALS.short : TRIALS.whole }, (_, n) => n);
  await inParallel(
    numbers,
    async (n) => {
      progress(`P20: ${n + 1} of ${numbers.length}`);
      const wrong = await trial(seed * 1_000 + n, figures).catch((error: unknown) => [String(error)]);
      broken.push(...wrong.map((what) => `seed ${seed}, trial ${n}: ${what}`));
    },
    short ? 2 : 4,
  );
  return { tried: numbers.length, broken, untried: [], figures };
}

interface Scheduled {
  readonly state: string;
  readonly attempt: number | null;
}

async function trial(seed: number, figures: Record<string, number>): Promise<readonly string[]> {
  await using box = new CrashBox();
  const chance = chances(seed);
  const count = (what: string) => (figures[what] = (figures[what] ?? 0) + 1);
  const { handle } = await box.json<{ handle: string }>(["start", "demo", "remember 4711"]);
  const message = `scheduled ${seed}, what was the number?`;
  const at = Date.now() + DUE_IN_S * 1_000;
  await box.json(["resume", handle, "--at", `+${DUE_IN_S}s`, message]);
  // Some are killed long before, so that the next daemon is late.
  const kills = 1 + Math.floor(chance() * 3);
  for (let n = 0; n < kills; n += 1) {
    const moment = n === 0 ? at - 500 + chance() * AROUND_MS : Date.now() + chance() * AROUND_MS;
    await sleep(Math.max(0, moment - Date.now()));
    const all = chance() < 0.5;
    count(all ? "everything killed" : "daemon killed");
    const victims = all ? box.leftovers() : [await daemonPid(box)];
    for (const pid of victims) box.kill(pid);
    if (chance() < 0.2) await sleep(1_500);
    await box.run(["daemon", "start"]);
  }
  let last: Scheduled | undefined;
  const deadline = Date.now() + END_MS;
  for (;;) {
    ({
      scheduled: [last],
    } = await box.json<{ scheduled: Scheduled[] }>(["scheduled", "list", "--all"]));
    if (last !== undefined && last.state !== "waiting" && last.state !== "starting") break;
    if (Date.now() > deadline) return [`it is still ${last?.state ?? "gone"}`];
    await sleep(200);
  }
  await box.run(["daemon", "stop"]);
  await until("the agent has ended", () => box.live().length === 0, END_MS);
  return await judge(box, handle, message, last, count);
}

async function judge(
  box: CrashBox,
  handle: string,
  message: string,
  { state, attempt }: Scheduled,
  count: (what: string) => void,
): Promise<readonly string[]> {
  count(`reported ${state}`);
  const heard = box.messages().filter((text) => text === message).length;
  if (heard > 1) return [`the agents heard it ${heard} times (${state})`];
  const run = await box.shownRun(handle);
  const made = run.history.find((one) => one["n"] === attempt);
  if (made === undefined) return [`attempt ${attempt} does not exist (${state})`];
  if (state === "started") {
    // An agent that everything killed before it read its message is an interrupted attempt, and the run says so.
    if (heard === 1) return [];
    count("interrupted before the agent read the message");
    const outcome = made["outcome"] as { result?: string } | null;
    return outcome?.result === "interrupted" ? [] : [`it was started, but no agent heard it: ${run.status}`];
  }
  if (state === "unsure") return run.status === "interrupted" ? [] : [`unsure, but the run is ${run.status}`];
  return [`it is ${state}`];
}

async function daemonPid(box: CrashBox): Promise<number | undefined> {
  const { pid } = await box.json<{ pid?: number }>(["daemon", "status"]);
  return pid;
}
