/**
 * Agents under the daemon, each of which gets a message to continue whenever its turn is over, while daemons, holders,
 * agents and commands are killed at random moments.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Shown, View } from "../e2e/agent-box.ts";
import { markerIn } from "../e2e/agent-storms.ts";
import { collect } from "../e2e/sandbox.ts";
import { CrashBox } from "./crash-box.ts";
import type { Storm, StormScale } from "./kills.ts";

const RUNBOOK = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "begin @@wait:800"
on_idle = { action = "nudge", message = "next @@wait:800", attempts = 1000 }
on_dead = { action = "resume", message = "again @@wait:800", append = true, attempts = 1000 }

[agent.ui]
run = "claude"
prompt = "begin"
idle_after = "1s"
on_idle = { action = "nudge", message = "next", attempts = 1000 }
on_dead = { action = "resume", message = "again", append = true, attempts = 1000 }
`;

const WORKERS = 3;
const DOCTOR_EVERY = 25;
const VICTIMS = ["daemon", "holder", "agent", "command"] as const;

export async function killSupervised({ kills, chance, progress }: StormScale): Promise<Storm> {
  await using box = new CrashBox();
  box.runbook(RUNBOOK);
  const broken: string[] = [];
  const figures: Record<string, number> = {};
  const ids: string[] = [];
  for (let n = 0; n < WORKERS; n += 1) ids.push(await box.start("worker"));
  ids.push(await box.start("ui"));
  for (let n = 1; n <= kills; n += 1) {
    progress(`P4 supervised: ${n} of ${kills}`);
    await sleep(50 + chance() * 600);
    const victim = VICTIMS[n % VICTIMS.length] ?? "daemon";
    const hit = await strike(box, victim, { ids, chance });
    const name = `supervised: kills of ${hit ? victim : `${victim}: it had ended`}`;
    figures[name] = (figures[name] ?? 0) + 1;
    figures[ASKED] = (figures[ASKED] ?? 0) + (await answer(box, broken));
    if (n % DOCTOR_EVERY === 0) broken.push(...(await box.damage()).filter(isBroken));
  }
  broken.push(...(await judge(box, ids)));
  return { kills, broken: broken.map((text) => `supervised: ${text}`), figures };
}

const ASKED = "supervised: agents that were killed too often, and asked a person";

/** As a person does who is asked: go on. Who was killed again and again before its turn was over is to ask, nobody else. */
async function answer(box: CrashBox, broken: string[]): Promise<number> {
  const { decisions } = await box.json<{ decisions: { id: string; what: string }[] }>(["decisions", "list"]);
  for (const { id, what } of decisions) {
    if (!what.includes("it has failed too often without a completed turn"))
      broken.push(`${id} asks: ${what}`);
    await box.run(["decisions", "resolve", id, "1"]);
  }
  return decisions.length;
}

/** Processes that were ended a moment ago are put right by the daemon, which may have been killed as well. */
function isBroken(finding: string): boolean {
  return !finding.includes("left processes behind");
}

interface Aim {
  readonly ids: readonly string[];
  readonly chance: () => number;
}

async function strike(
  box: CrashBox,
  victim: (typeof VICTIMS)[number],
  { ids, chance }: Aim,
): Promise<boolean> {
  const id = ids[Math.floor(chance() * ids.length)] ?? "";
  if (victim === "daemon") {
    const hit = box.kill((await box.daemonPid()) ?? undefined);
    await box.run(["daemon", "start"]);
    return hit;
  }
  if (victim === "command") {
    const child = box.spawn([
      "agent",
      chance() < 0.5 ? "list" : "show",
      ...(chance() < 0.5 ? [] : [id]),
      "--json",
    ]);
    const over = collect(child);
    await sleep(chance() * 300);
    const hit = child.kill("SIGKILL");
    await over;
    return hit;
  }
  // An agent's parent is its holder.
  const live = box.live();
  const one = live[Math.floor(chance() * live.length)];
  return box.kill(victim === "holder" ? one?.holder : one?.agent);
}

/** All of them go on; then they are stopped, and the agents' own journal says what happened. */
async function judge(box: CrashBox, ids: readonly string[]): Promise<string[]> {
  const broken: string[] = [];
  await box.run(["daemon", "start"]);
  const before = counts(box);
  await sleep(4_000);
  const end = Date.now() + 90_000;
  let idle: string[] = [];
  do {
    await answer(box, broken);
    await sleep(500);
    const now = counts(box);
    idle = ids.filter((id) => (now.get(id) ?? 0) <= (before.get(id) ?? 0));
  } while (idle.length > 0 && Date.now() < end);
  for (const id of idle) broken.push(`${id} does not go on: ${JSON.stringify((await box.show(id)).view)}`);
  const { agents } = await box.agent<{ agents: View[] }>(["list"]);
  for (const id of ids) if (!agents.some((agent) => agent.id === id)) broken.push(`${id} was lost`);
  for (const id of ids) await box.run(["agent", "stop", id]);
  for (const id of ids) broken.push(...(await judgeOne(box, id)));
  await box.run(["daemon", "stop"]);
  broken.push(
    ...box.overlaps().map((marker) => `${marker} began beside another agent of its run`),
    ...box.repeats(() => false),
    ...(await box.damage()),
    ...(await box.strays()).map((pid) => `process ${pid} was left`),
    ...box.temporary().map((name) => `${name} was left`),
  );
  return broken;
}

function counts(box: CrashBox): Map<string, number> {
  const told = new Map<string, number>();
  for (const { marker } of box.attributed("message")) {
    const id = /-([0-9a-f]{8})\//.exec(marker)?.[1] ?? "";
    told.set(id, (told.get(id) ?? 0) + 1);
  }
  return told;
}

async function judgeOne(box: CrashBox, id: string): Promise<string[]> {
  const isOver = ({ attempts: all }: Shown) => all.every(({ outcome }) => outcome !== null);
  const { agent, history, attempts } = await box.shown(id, "over", isOver);
  const starts = box.events("start").filter((entry) => markerIn(entry).startsWith(`${agent.runId}/`));
  const broken: string[] = [];
  const numbers = attempts.map(({ n }) => n);
  if (numbers.some((n, at) => n !== at + 1)) broken.push(`${id}: attempts are missing: ${numbers.join(" ")}`);
  const known = new Set(numbers.map((n) => `${agent.runId}/${n}`));
  for (const marker of starts.map(markerIn))
    if (!known.has(marker)) broken.push(`${id}: ${marker} ran and is not recorded`);
  const told = box.attributed("message").filter(({ marker }) => marker.startsWith(`${agent.runId}/`)).length;
  const decided = history.filter(
    ({ kind, action }) => kind === "decided" && (action === "nudge" || action === "resume"),
  );
  if (told - 1 > decided.length)
    broken.push(`${id} was told ${told} messages, ${decided.length} were decided`);
  return broken;
}
