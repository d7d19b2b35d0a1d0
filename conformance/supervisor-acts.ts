/**
 * The real engines under supervision: agents that are killed, limited, asked and told things, while their supervisor is
 * killed too. The model is the judge of what arrived, and how often.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LabWorld } from "../src/certify/world.ts";
import { type LabUi, labNamed } from "./pinned.ts";
import type { RequestRecord } from "../src/certify/model-server/server.ts";
import { Late, processesOf, signal, until } from "../src/certify/place.ts";
import { must } from "./review.ts";
import { DEADLINE_MS, Supervised } from "./supervised.ts";
import { say } from "./terminal.ts";

type Act = (world: LabWorld, words: readonly string[]) => Promise<void>;

const FILE = "made-by-agent";
/** What a bare resume says, and what the runbook of the seed says. */
const [BARE, APPENDED] = ["Continue where you left off.", "Continue from where you left off."];
/** After a cooldown the supervisor looks once a second, and typing takes its time. */
const LATE_MS = 15_000;
/** So long nothing is typed into a question that is open. */
const OPEN_MS = 5_000;

export const SUPERVISOR_ACTS: Readonly<Record<string, Act>> = {
  /** A runbook as people write it: killed, the agent goes on; limited, it goes on after the cooldown. */
  "supervisor-runbook": async (world, [ending = "", cooldown = ""]) => {
    await using agents = new Supervised(world);
    const ui = uiOf(world);
    agents.runbook(ending === "hcl" ? seedInHcl(cooldown) : seedInToml(cooldown), ending as "toml" | "hcl");
    const id = await agents.start("worker");
    const first = await agents.attach(id);
    await say(first, ui, "Begin.", () => agents.turns().length > 0);
    await first.shows("SEEN users=1");
    await agents.answered("Begin.");
    signal(await agents.pid(id), "SIGKILL");
    const resumed = await agents.answered(APPENDED);
    holds(resumed, ["Begin.", APPENDED]);
    must(resumed.assistants > 0, "the model was not sent its own answer");
    await first.ended;

    const again = await agents.attach(id);
    for (const text of ["Begin.", APPENDED, "SEEN users=2"]) await again.shows(text);
    const limited = "More. @@429";
    await say(again, ui, limited, () => agents.turns().some(({ act }) => act === "refuse"));
    const told = await agents.asked(BARE, Number(cooldown) * 1_000 + DEADLINE_MS);
    holds(told, ["Begin.", APPENDED, limited, BARE]);
    const refusals = agents.turns().filter(({ act }) => act === "refuse");
    const waited = told.atMs - (refusals.at(-1)?.atMs ?? 0);
    world.log.push(`  told ${waited} ms after the limit`);
    const least = Number(cooldown) * 1_000;
    must(waited >= least && waited <= least + LATE_MS, `it was told ${waited} ms after the limit`);
    await again.shows("SEEN users=4");
    await agents.answered(BARE);
    arrived(agents, ["Begin.", APPENDED, BARE]);
    const { attempts } = await agents.show(id);
    must(attempts.length === 2, `it was started ${attempts.length} times`);
    await agents.reprise("agent", "stop", id);
    await again.ended;
  },

  /** A nudge that is due, and a person's message, wait while the engine asks; the person answers in the UI. */
  "supervisor-question": async (world) => {
    await using agents = new Supervised(world);
    const { run, wish, yes, asks } = questionOf(world);
    const nudge = "1 more thing: go on.";
    agents.runbook(`[agent.asker]
run = "${run}"
mode = "interactive"
prompt = "Begin."
idle_after = "1s"
on_idle = [{ action = "nudge", message = "${nudge}", attempts = 2 }, { action = "done" }]
on_prompt = "escalate"
`);
    const id = await agents.start("asker");
    await agents.asked("Begin.");
    world.server.script([wish]);
    const decision = await agents.decision(id);
    must(decision.trigger === "prompt" && decision.lastWords !== "", JSON.stringify(decision));
    const before = agents.turns().length;
    const sent = await agents.reprise("agent", "send", id, "1 yes");
    must(sent.code === 4 && /permission/.test(sent.stderr), `agent send: exit ${sent.code} ${sent.stderr}`);
    await sleep(OPEN_MS);
    const { stdout: screen } = await agents.reprise("agent", "peek", id);
    must(asks.test(screen) && !screen.includes("1 yes"), `the screen shows ${screen}`);
    must(!existsSync(join(world.place.project, FILE)), "the question was answered by what was typed");
    must(agents.turns().length === before, "the engine went on without an answer");
    must((await agents.show(id)).view.state === "waiting", "the question is not open any more");

    const terminal = await agents.attach(id);
    await terminal.shows(asks);
    terminal.press(yes);
    await until("the tool ran", () => existsSync(join(world.place.project, FILE)), DEADLINE_MS);
    await agents.isDone(id);
    await terminal.ended;
    arrived(agents, ["Begin.", nudge, nudge]);
    const { decisions } = await agents.json<{ decisions: { state: string }[] }>("decisions", "list", "--all");
    must(decisions.map(({ state }) => state).join() === "overtaken", JSON.stringify(decisions));
  },

  /** The supervisor dies while the agent works, or in the middle of what it was about to do. */
  "supervisor-killed": async (world, [moment = ""]) => {
    await using agents = new Supervised(world);
    const { is, resumes } = momentNamed(moment);
    const begin = `Begin. @@slow:${resumes ? 60_000 : 4_000}`;
    agents.runbook(`[agent.worker]
run = "${world.lab.engine}"
mode = "interactive"
prompt = "${begin}"
idle_after = "1s"
on_idle = [{ action = "nudge", message = "Finish.", attempts = 1 }, { action = "done" }]
on_dead = { action = "resume", message = "Come back.", append = true }
`);
    const daemon = (await agents.json<{ pid: number }>("daemon", "start")).pid;
    const id = await agents.start("worker");
    await agents.streams(begin);
    if (resumes) signal(await agents.pid(id), "SIGKILL");
    await until(`the moment ${moment}`, () => is(agents), DEADLINE_MS);
    signal(daemon, "SIGKILL");
    await agents.startDaemons();
    const { attempts } = await agents.isDone(id);
    must(attempts.length === (resumes ? 2 : 1), `it was started ${attempts.length} times`);
    arrived(agents, [begin, ...(resumes ? ["Come back."] : []), "Finish."]);
    holds(agents.turns().at(-1), agents.delivered());
  },

  /** The holder of the agent dies, and the agent's terminal with it. */
  "supervisor-holder": async (world) => {
    await using agents = new Supervised(world);
    const begin = "Begin. @@slow:60000";
    agents.runbook(`[agent.worker]
run = "${world.lab.engine}"
mode = "interactive"
prompt = "${begin}"
idle_after = "1s"
on_idle = "done"
on_dead = { action = "resume", message = "Come back.", append = true }
`);
    const id = await agents.start("worker");
    await agents.streams(begin);
    const before = (await agents.show(id)).attempts.at(-1);
    signal(before?.owner.pid ?? -1, "SIGKILL");
    await agents.asked("Come back.");
    const left = processesOf(world.place.root).filter((pid) => pid === before?.agent?.pid);
    must(left.length === 0, "the agent was there twice");
    await agents.isDone(id);
    arrived(agents, [begin, "Come back."]);
    holds(agents.turns().at(-1), agents.delivered());
  },

  /** Everything is killed at once. Then the agents are brought back, one by its runbook and both by the person. */
  "supervisor-reboot": async (world) => {
    await using agents = new Supervised(world);
    const { engine } = world.lab;
    agents.runbook(`[agent.ui]
run = "${engine}"
mode = "interactive"
prompt = "First of one."
idle_after = "1h"

[agent.turns]
run = "${engine}"
mode = "headless"
prompt = "First of two. @@slow:60000"
on_dead = { action = "resume", message = "${APPENDED}", append = true }
`);
    const ids = [await agents.start("ui"), await agents.start("turns")];
    await agents.answered("First of one.");
    await agents.streams("First of two. @@slow:60000");
    for (let left = processesOf(world.place.root); left.length > 0; left = processesOf(world.place.root)) {
      for (const pid of left) signal(pid, "SIGKILL");
      await sleep(20);
    }
    const { resumed, ...others } = await agents.json<Resumed>("agent", "resume", "--all");
    // This includes the agent that the starting supervisor brought back before the command asked for it.
    must(resumed.toSorted().join() === ids.toSorted().join(), JSON.stringify({ resumed, ...others }));
    holds(await agents.answered(BARE), ["First of one.", BARE]);
    await agents.isDone(ids[1] ?? "");
    const second = agents.turns().findLast(({ users }) => users[0]?.startsWith("First of two."));
    must(second?.users.length === 2, `the conversation was not continued: ${JSON.stringify(second?.users)}`);
    const said = agents.delivered().filter((text) => text === BARE || text === APPENDED);
    must(said.length === 2, `the model was told to go on ${said.length} times`);
  },

  /** A viewer of an agent may vanish in any way. */
  "supervisor-terminal": async (world) => {
    await using agents = new Supervised(world);
    agents.runbook(`[agent.worker]
run = "${world.lab.engine}"
mode = "interactive"
prompt = "Begin."
idle_after = "1h"
`);
    const id = await agents.start("worker");
    await agents.answered("Begin.");
    const pid = await agents.pid(id);
    const terminal = await agents.attach(id, true);
    await terminal.shows("SEEN users=1");
    signal(terminal.pid, "SIGKILL");
    await terminal.ended;
    const other = await agents.attach(id, true);
    await other.shows("SEEN users=1");
    signal(tmuxServer(join(agents.runtime, "tmux.sock")), "SIGKILL");
    await other.ended;
    const direct = await agents.attach(id);
    await direct.shows("SEEN users=1");
    direct.close("SIGKILL");
    await direct.ended;
    must((await agents.pid(id)) === pid, "the agent is another one");
    const sent = await agents.reprise("agent", "send", id, "Still there?");
    must(sent.code === 0, `agent send: exit ${sent.code} ${sent.stderr}`);
    holds(await agents.answered("Still there?"), ["Begin.", "Still there?"]);
    arrived(agents, ["Begin.", "Still there?"]);
  },

  /** Without a UI: a limit is waited for, a gate is not passed until the work is done. */
  "supervisor-turns": async (world) => {
    await using agents = new Supervised(world);
    const [limited, again, finish] = ["Begin. @@429", "Try again.", `Finish. @@tool:touch ${FILE}`];
    agents.runbook(`[agent.worker]
engine = "${world.lab.engine}"
args = ${JSON.stringify(world.lab.tools)}
mode = "headless"
prompt = "${limited}"
on_error = [
  { match = "auth", action = "fail" },
  { match = "rate_limited", action = "resume", message = "${again}", append = true, cooldown = "3s" },
]
on_idle = [
  { action = "gate", run = ["test", "-e", "${FILE}"], attempts = 2 },
  { action = "nudge", message = "${finish}", attempts = 1 },
]
`);
    const id = await agents.start("worker");
    const { attempts, agent } = await agents.isDone(id);
    must(attempts.length === 3 && /gate/.test(agent.reason ?? ""), JSON.stringify({ attempts, agent }));
    arrived(agents, [again, finish]);
    holds(agents.turns().at(-1), [limited, again, finish]);
    const last = agents.turns().findLast(({ act }) => act === "refuse");
    const waited = (await agents.asked(again)).atMs - (last?.atMs ?? 0);
    must(waited >= 3_000 && waited <= 3_000 + LATE_MS, `it was told ${waited} ms after the limit`);
  },

  /** Nothing is left to try: a person is asked, and the answer continues the conversation. */
  "supervisor-exhausted": async (world) => {
    await using agents = new Supervised(world);
    const [limited, again, own] = ["Begin. @@429", "Try again. @@429", "Go on without it."];
    agents.runbook(`[agent.worker]
engine = "${world.lab.engine}"
mode = "headless"
prompt = "${limited}"
on_error = [{ match = "rate_limited", action = "resume", message = "${again}", append = true, cooldown = "1s" }]
`);
    const id = await agents.start("worker");
    const { id: decision, trigger, trouble, options } = await agents.decision(id);
    must(trigger === "error" && trouble?.kind === "rate_limited", JSON.stringify({ trigger, trouble }));
    const does = options.map((option) => option.does).join();
    must(does === "resume,fresh,done,fail,dismiss", `its options: ${does}`);
    const { done } = await agents.json<{ done: boolean }>("decisions", "resolve", decision, "1", "-m", own);
    must(done, "the answer was not carried out");
    await agents.isDone(id);
    arrived(agents, [own]);
    holds(agents.turns().at(-1), [limited, again, own]);
  },
};

interface Resumed {
  readonly resumed: readonly string[];
}

interface Moment {
  readonly is: (agents: Supervised) => boolean;
  /** The agent was killed, and is being brought back. */
  readonly resumes: boolean;
}

const MOMENTS: Readonly<Record<string, Moment>> = {
  working: { is: (agents) => agents.turns().at(-1)?.state === "streaming", resumes: false },
  nudge: { is: (agents) => agents.hasDecided("nudge"), resumes: false },
  // Pasted, and Enter was not pressed yet.
  typed: { is: (agents) => agents.hasDrawn("Finish."), resumes: false },
  decided: { is: (agents) => agents.hasDecided("resume"), resumes: true },
  launched: { is: (agents) => agents.hasDecided("resume") && agents.holders().length > 0, resumes: true },
  asked: {
    is: (agents) => agents.turns().some(({ users }) => users.at(-1)?.trim() === "Come back."),
    resumes: true,
  },
};

function momentNamed(name: string): Moment {
  const moment = MOMENTS[name];
  if (moment === undefined) throw new Error(`no such moment: ${name}`);
  return moment;
}

function seedInToml(cooldown: string): string {
  return `[agent.worker]
run = "claude"
on_dead = { action = "resume", message = "${APPENDED}", append = true }
on_error = [
  { match = "rate_limited", action = "resume", cooldown = "${cooldown}s" },
]
`;
}

function seedInHcl(cooldown: string): string {
  return `agent "worker" {
  run = "claude"

  on_dead {
    action  = "resume"
    message = "${APPENDED}"
    append  = true
  }

  on_error {
    match    = "rate_limited"
    action   = "resume"
    cooldown = "${cooldown}s"
  }
}
`;
}

/** By engine: how it comes to ask, what it shows then, and the key that says yes. */
function questionOf({ lab }: LabWorld) {
  if (lab.engine === "codex") {
    const run = "codex -a on-request -s read-only";
    return { run, wish: `@@escalate:touch ${FILE}`, yes: "y", asks: /Yes, proceed/ };
  }
  const run = "claude --permission-mode default";
  return { run, wish: `@@tool:touch ${FILE}`, yes: "Enter", asks: /Do you want to proceed/ };
}

function uiOf({ lab }: LabWorld): LabUi {
  const { ui } = labNamed(lab.id);
  if (ui === null) throw new Error(`${lab.id} has no UI that a case uses`);
  return ui;
}

/** The model was sent exactly these messages, in this order. */
function holds(turn: RequestRecord | undefined, messages: readonly string[]): void {
  const users = (turn?.users ?? []).map((text) => text.trim());
  must(users.join("|") === messages.join("|"), `the model was sent ${JSON.stringify(users)}`);
}

/** Each of these began one turn of the model, and nothing else did. */
function arrived(agents: Supervised, messages: readonly string[]): void {
  const said = agents.delivered();
  if (said.join("|") !== messages.join("|")) throw new Late(`the model was told ${JSON.stringify(said)}`);
}

function tmuxServer(socket: string): number {
  const words = ["-S", socket, "-f", "/dev/null", "display-message", "-p", "#{pid}"];
  return Number(spawnSync("tmux", words, { encoding: "utf8" }).stdout);
}
