/**
 * What must hold however often, and whenever, processes of the supervisor are killed. The agents' own journal is the
 * judge: which agent was started, as which attempt, and with which message. Short here, long in `test/long`.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { AgentBox, type Shown, type View } from "./agent-box.ts";
import { collect } from "./sandbox.ts";

/** The same each time, so that a failure can be had again. */
export function chances(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const BUSY = `
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "begin @@wait:200"
on_idle = { action = "nudge", message = "next @@wait:200", attempts = 1000 }

[agent.ui]
run = "claude"
prompt = "begin"
idle_after = "1s"
on_idle = { action = "nudge", message = "next", attempts = 1000 }
`;

/** Two daemons fight for the lock and are killed at random moments, while agents need one all the time. */
export async function killDaemons(kills: number, seed: number): Promise<void> {
  await using box = new AgentBox();
  box.runbook(BUSY);
  const ids = [await box.start("worker"), await box.start("worker"), await box.start("ui")];
  await box.run(["daemon", "stop"]);
  const chance = chances(seed);
  const rivals = [daemon(box), daemon(box)];
  for (let kill = 0; kill < kills; kill += 1) {
    await sleep(30 + chance() * 1_200);
    const at = chance() < 0.5 ? 0 : 1;
    rivals[at]?.kill("SIGKILL");
    // The daemon that lost the race has left by itself; the next one comes at once.
    for (const [n, rival] of rivals.entries())
      if (n === at || rival.exitCode !== null || rival.signalCode !== null) rivals[n] = daemon(box);
  }
  for (const rival of rivals) await ended(rival);
  await box.run(["daemon", "start"]);
  const before = box.events("message").length;
  await box.until("all of them to go on", () => box.events("message").length >= before + 3, 60_000);
  const { agents } = await box.agent<{ agents: View[] }>(["list"]);
  expect(agents.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  for (const id of ids) await box.run(["agent", "stop", id]);
  for (const id of ids) await judge(box, id);
}

/** 0 doubled, 0 lost. */
async function judge(box: AgentBox, id: string): Promise<void> {
  const isOver = ({ attempts: all }: Shown) => all.every(({ outcome }) => outcome !== null);
  const { agent, history, attempts } = await box.shown(id, "over", isOver);
  const starts = box.events("start").filter((entry) => markerIn(entry).startsWith(`${agent.runId}/`));
  // An attempt that was stopped at the end may have written nothing.
  const due = attempts.filter(({ outcome }, at) => outcome?.result !== "cancelled" || at < starts.length);
  expect(starts.map(markerIn), "each attempt was started once, and none is missing").toEqual(
    due.map(({ n }) => `${agent.runId}/${n}`),
  );
  const pids = new Set(starts.map(({ pid }) => Number(pid)));
  const told = box.events("message").filter(({ pid }) => pids.has(Number(pid)));
  const decided = history.filter(({ kind, action }) => kind === "decided" && action === "nudge");
  const done = history.filter(({ kind, result }) => kind === "carried_out" && result === "ok");
  // What was decided last may not have been said yet when everything was stopped.
  expect(told.length - 1, "nothing was said that was not decided").toBeLessThanOrEqual(decided.length);
  expect(told.length - 1, "what was carried out was said").toBeGreaterThanOrEqual(done.length - 1);
  expect(
    new Set(
      box
        .events("session")
        .filter(({ pid }) => pids.has(Number(pid)))
        .map(({ session }) => String(session)),
    ).size,
  ).toBe(1);
  assertOneAtATime(box, pids);
}

/** No agent of a run begins while another one of the same run lives. */
function assertOneAtATime(box: AgentBox, pids: ReadonlySet<number>): void {
  const live = new Set<number>();
  for (const entry of box.journalEntries()) {
    const pid = Number(entry["pid"]);
    if (!pids.has(pid)) continue;
    if (entry["event"] === "start") {
      expect([...live], `${pid} began beside others`).toEqual([]);
      live.add(pid);
    } else if (entry["event"] === "end") live.delete(pid);
  }
}

export function markerIn(entry: Record<string, any>): string {
  return String((entry["env"] as Record<string, string>)["REPRISE_ATTEMPT"]);
}

export function daemon(box: AgentBox): ChildProcess {
  return spawn(process.execPath, [resolve("dist/daemon.js")], { env: box.env(), stdio: "ignore" });
}

export async function ended(child: ChildProcess): Promise<void> {
  const over = new Promise((done) => child.once("exit", done));
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await over;
}

/** `agent run` is killed at random moments: afterwards the agent works, or does not exist. */
export async function killStarts(kills: number, seed: number): Promise<void> {
  await using box = new AgentBox();
  box.runbook(BUSY.replaceAll("@@wait:200", "@@wait:600000"));
  await box.run(["daemon", "start"]);
  const chance = chances(seed);
  for (let kill = 0; kill < kills; kill += 1) {
    const child = box.spawn(["agent", "run", "worker", "--trust-cwd"]);
    const over = collect(child);
    await sleep(chance() * 900);
    child.kill("SIGKILL");
    await over;
  }
  const { agents } = await box.agent<{ agents: View[] }>(["list"]);
  expect(agents.length, "some were killed late enough").toBeGreaterThan(0);
  await box.until("all of them to work", () => box.messages().length >= agents.length, 60_000);
  for (const { id } of agents) await box.shown(id, "working", ({ view }) => view.state === "working");
  const after = await box.agent<{ agents: View[] }>(["list"]);
  expect(after.agents.map(({ id }) => id)).toEqual(agents.map(({ id }) => id));
  const runs = await box.json<{ runs: { handle: string; subject: string }[] }>(["list", "--limit", "1000"]);
  expect(runs.runs.map(({ handle }) => handle).toSorted()).toEqual(agents.map(({ id }) => id).toSorted());
  expect(box.events("start").map(markerIn).toSorted()).toEqual(
    runs.runs.map((run) => `${(run as unknown as { runId: string }).runId}/1`).toSorted(),
  );
}

/** The daemon is stopped for a while, as by a laptop that sleeps; agents die meanwhile. */
export async function stopForAWhile(count: number, ms: number): Promise<void> {
  await using box = new AgentBox();
  box.runbook(`
[agent.worker]
engine = "claude"
mode = "headless"
prompt = "begin @@wait:600000"
on_dead = { action = "resume", message = "go on @@wait:600000", append = true }
`);
  for (let n = 0; n < count; n += 1) await box.start("worker");
  await box.until("all to work", () => box.messages().length === count);
  await box.until("all to be stored", () => box.storedTurns() >= count);
  const pid = (await box.daemonPid()) ?? 0;
  process.kill(pid, "SIGSTOP");
  for (const { pid: agent } of box.events("message")) process.kill(Number(agent), "SIGKILL");
  await sleep(ms);
  process.kill(pid, "SIGCONT");
  await box.until("all to be back", () => box.messages().length >= 2 * count, 30_000 + count * 2_000);
  const starts = box
    .events("start")
    .slice(count)
    .map(({ at }) => Date.parse(String(at)));
  const gaps = starts.slice(1).map((at, n) => at - (starts[n] ?? 0));
  expect(Math.min(...gaps), `one after the other: ${gaps.join(" ")}`).toBeGreaterThan(300);
  expect(box.messages().slice(count)).toEqual(Array.from({ length: count }, () => "go on @@wait:600000"));
}
