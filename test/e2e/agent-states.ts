/** Agents in every state there is, and what `agent resume --all --kill` says and does to each. */
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { AgentBox, type View } from "./agent-box.ts";

const agent = (name: string, rest: string) => `
[agent.${name}]
engine = "claude"
idle_after = "1h"
${rest}
`;

const RUNBOOK = [
  agent("working", 'mode = "headless"\nprompt = "work @@wait:600000"'),
  agent("dead", 'mode = "headless"\nprompt = "work @@wait:600000"'),
  agent("lost", 'mode = "headless"\nprompt = "work @@wait:600000"'),
  agent("stopped", 'mode = "headless"\nprompt = "work @@wait:600000"'),
  agent("finished", 'mode = "headless"\nprompt = "work"'),
  agent("idle", 'mode = "interactive"\nprompt = "hello"'),
  agent("asking", 'mode = "interactive"\nprompt = "hello @@ask:pwd"'),
].join("\n");

const NAMES = ["working", "dead", "lost", "stopped", "finished", "idle", "asking"] as const;
type Name = (typeof NAMES)[number];

/** How many times each state is there. */
export async function resumeAll(times: number): Promise<void> {
  await using box = new AgentBox();
  box.runbook(RUNBOOK);
  const ids: { name: Name; id: string; before: number }[] = [];
  for (let n = 0; n < times; n += 1) {
    for (const name of NAMES) ids.push({ name, id: await prepared(box, name), before: 0 });
  }
  const told = box.messages().length;
  const result = await box.run(["agent", "resume", "--all", "--kill", "--json"]);
  const { resumed, restarted, skipped } = JSON.parse(result.stdout) as Result;
  const named = (name: Name) => ids.filter((one) => one.name === name).map(({ id }) => id);
  const isBack = ["working", "dead", "lost", "idle"] as const;
  const back = [...resumed, ...restarted.map(({ id }) => id)];
  expect(back.toSorted()).toEqual(isBack.flatMap(named).toSorted());
  expect(restarted.map(({ id }) => id).toSorted()).toEqual(named("lost").toSorted());
  // Those that were stopped or have finished are not asked for.
  expect(skipped.map(({ id }) => id).toSorted()).toEqual(named("asking").toSorted());
  for (const { reason } of skipped) expect(reason).toContain("asks for permission");
  const due = told + isBack.length * times;
  await box.until("all that were resumed to be told something", () => box.messages().length >= due);
  const { agents } = await box.agent<{ agents: View[] }>(["list", "--all"]);
  const attempts = (name: Name) => agents.filter((one) => one.name === name).map((one) => one.attempts);
  for (const name of NAMES) {
    const expected = isBack.some((one) => one === name) ? 2 : 1;
    expect([name, attempts(name)]).toEqual([name, Array.from({ length: times }, () => expected)]);
  }
  expect(box.messages()).toHaveLength(due);
  expect([...box.events("approved"), ...box.events("declined")]).toEqual([]);
  for (const id of named("lost")) {
    const { attempts: all } = await box.show(id);
    expect(all.at(-1)?.kind).toBe("fresh");
  }
}

interface Result {
  readonly resumed: readonly string[];
  readonly restarted: readonly { readonly id: string; readonly reason: string }[];
  readonly skipped: readonly { readonly id: string; readonly reason: string }[];
}

async function prepared(box: AgentBox, name: Name): Promise<string> {
  const told = box.events("message").length;
  const id = await box.start(name);
  await box.until("its turn", () => box.events("message").length > told);
  const { session, pid } = box.events("message").at(-1) ?? {};
  await box.until("its turn to be stored", () => box.storedTurns(`${session}.jsonl`) > 0);
  switch (name) {
    case "working":
    case "idle":
      await box.shown(id, name, ({ view }) => view.state === name);
      break;
    case "asking":
      await box.shown(id, "waiting", ({ view }) => view.state === "waiting" && view.decision !== null);
      break;
    case "finished":
      await box.shown(id, "done", ({ view }) => view.phase === "done");
      break;
    case "stopped":
      await box.run(["agent", "stop", id]);
      break;
    case "dead":
    case "lost":
      process.kill(Number(pid), "SIGKILL");
      await box.shown(id, "asked", ({ view }) => view.decision !== null);
      if (name === "lost") forget(box, String(session), id);
  }
  return id;
}

/** The engine's copy and ours. */
function forget(box: AgentBox, session: string, id: string): void {
  for (const root of [box.home, box.state]) {
    for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
      const isCopy = root === box.state && file.includes(`-${id}/escrow/`);
      if (file.endsWith(`${session}.jsonl`) || isCopy) rmSync(join(root, file), { force: true });
    }
  }
}
