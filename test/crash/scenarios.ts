/** The activity that a fault strikes, and how it comes to its end afterwards without a fault. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Expected } from "./aftermath.ts";
import type { IoBox, Said } from "./io-box.ts";
import type { Program } from "./io.ts";

type FaultEnv = Readonly<Record<string, string>>;

export interface Scenario extends Expected {
  readonly name: string;
  /** Who writes something durable in it, and about how often. */
  readonly programs: readonly (readonly [Program, number])[];
  /** Without a fault. */
  prepare(box: IoBox): Promise<void>;
  /** Under the fault; resolves when nothing more happens by itself. */
  act(box: IoBox, env: FaultEnv): Promise<readonly Said[]>;
  /** Without a fault: brings it to its end. Sentences about broken promises. */
  finish(box: IoBox, said: readonly Said[]): Promise<readonly string[]>;
}

const nothing = async () => [];

const start: Scenario = {
  name: "start",
  programs: [["reprise.js", 320]],
  deaths: 0,
  again: [],
  prepare: async () => {},
  act: async (box, env) => [await box.say(["start", "demo", "--json", "remember 4711 @@forge"], env)],
  finish: nothing,
};

const resume: Scenario = {
  name: "resume",
  programs: [["reprise.js", 220]],
  deaths: 0,
  again: [],
  async prepare(box) {
    await box.say(["start", "demo", "--json", "remember 4711"]);
  },
  async act(box, env) {
    const [directory = ""] = box.runDirectories();
    return [await box.say(["resume", "--json", directory.slice(-8), "and 4712"], env)];
  },
  finish: nothing,
};

/** Two at once: one of them works, or one after the other (I6). */
const race: Scenario = {
  ...resume,
  name: "race",
  programs: [["reprise.js", 300]],
  async act(box, env) {
    const handle = (box.runDirectories()[0] ?? "").slice(-8);
    const words = ["and 4712 @@wait:400", "and 4713 @@wait:400"];
    return Promise.all(words.map((text) => box.say(["resume", "--json", handle, text], env)));
  },
  async finish(box, said) {
    const ends = new Map(box.events("end").map(({ pid, at }) => [Number(pid), String(at)]));
    const lives = box.events("start").map(({ pid, ppid, at }) => ({
      pid: Number(pid),
      ppid: Number(ppid),
      from: String(at),
      to: ends.get(Number(pid)) ?? null,
    }));
    const unended = lives.filter(
      ({ ppid, to }) => to === null && said.some((one) => one.pid === ppid && one.signal === null),
    );
    const overlaps = lives.flatMap((one) =>
      lives.filter((other) => one.from < other.from && one.to !== null && other.from < one.to),
    );
    return [
      ...unended.map(({ pid }) => `agent ${pid} was ended although its command lived`),
      ...overlaps.map(({ pid }) => `agent ${pid} began while another lived on its session`),
    ];
  },
};

/** With an engine that makes the session's id itself, and an agent whose text looks like the line that tells it. */
const detach: Scenario = {
  name: "detach",
  programs: [
    ["reprise.js", 80],
    ["holder.js", 250],
  ],
  deaths: 0,
  again: [],
  prepare: async () => {},
  async act(box, env) {
    const said = await box.say(["start", "codex", "--detach", "--json", "remember 4711 @@forge"], env);
    await box.quiet();
    return [said];
  },
  finish: nothing,
};

const GO_ON = "go on 4712";
const NEXT = "next 4713 @@write:nudged";

const RUNBOOK = `
[agent.worker]
engine = "demo"
mode = "headless"
prompt = "begin 4711 @@die:after-user"
on_dead = { action = "resume", message = "${GO_ON}", append = true, attempts = 3 }
on_idle = [
  { action = "gate", run = ["sh", "-c", "test -e nudged"], attempts = 9 },
  { action = "nudge", message = "${NEXT}" },
]

[agent.step]
engine = "demo"
mode = "headless"
prompt = "step 4711"
on_dead = { action = "resume", message = "${GO_ON}", append = true, attempts = 3 }

[pipeline.p]
workspace = "dir"
step = [
  { name = "one", run = ["sh", "-c", "echo one >> log"] },
  { name = "a", agent = "step" },
  { name = "two", run = ["sh", "-c", "echo two >> log"] },
]
`;

/** Until the supervisor has nothing more to do, or so long that it will not. */
async function over(box: IoBox, ms: number): Promise<string> {
  const end = Date.now() + ms;
  for (;;) {
    // Nobody need be asked while an agent works.
    await box.quiet(3_000);
    const { stdout } = await box.say(["status", "--json"]);
    const active = /"phase":"active"/.test(stdout);
    if (!active || Date.now() > end) return active ? stdout : "";
    await sleep(700);
  }
}

async function supervised(box: IoBox): Promise<readonly string[]> {
  const started = await box.say(["daemon", "start"]);
  if (started.code !== 0) return [`daemon start exits with ${started.code}: ${started.stderr}`];
  const left = await over(box, 45_000);
  return left === ""
    ? []
    : [`the supervisor does not come to an end: ${left}\n${box.daemonLog().slice(-1_500)}`];
}

const agent: Scenario = {
  name: "agent",
  programs: [
    ["reprise.js", 150],
    ["holder.js", 750],
    ["daemon.js", 300],
  ],
  deaths: 1,
  again: [GO_ON, NEXT],
  prepare: async (box) => box.runbook(RUNBOOK),
  async act(box, env) {
    const said = await box.say(["agent", "run", "worker", "--trust-cwd", "--json"], env);
    // A daemon that was killed stays away until the next command: the rest is for `finish`.
    if (said.code === 0) await over(box, 20_000);
    return [said];
  },
  finish: supervised,
};

const pipeline: Scenario = {
  name: "pipeline",
  programs: [
    ["reprise.js", 130],
    ["holder.js", 250],
    ["daemon.js", 300],
  ],
  deaths: 0,
  again: [GO_ON],
  prepare: async (box) => box.runbook(RUNBOOK),
  async act(box, env) {
    const said = await box.say(["pipeline", "run", "p", "--trust-cwd", "--json"], env);
    if (said.code === 0) await over(box, 20_000);
    return [said];
  },
  finish: supervised,
};

const ISSUES = ["a", "b"];
const BATCH = ["issues", "run", "--engine", "demo", "--trust-cwd", "--resume", "--max-agents", "2"];

const issues: Scenario = {
  name: "issues",
  programs: [["reprise.js", 660]],
  deaths: 0,
  again: [],
  async prepare(box) {
    git(box, "init", "-q", "-b", "main");
    git(box, "config", "user.name", "Tester");
    git(box, "config", "user.email", "tester@localhost");
    mkdirSync(join(box.cwd, "issues"));
    for (const id of ISSUES)
      writeFileSync(
        join(box.cwd, "issues", `${id}.md`),
        `---\ntitle: Issue ${id}\n---\nfix ${id} @@write:${id}.txt\n`,
      );
    // An agent that died before it wrote anything does not write it later; the gate says that this is all right.
    writeFileSync(join(box.cwd, "reprise.toml"), '[issues.gate]\ncommands = [["true"]]\n');
    git(box, "add", "-A");
    git(box, "commit", "-q", "-m", "as it is");
  },
  act: async (box, env) => [await box.say(BATCH, env)],
  async finish(box) {
    const { code, stdout, stderr } = await box.say(BATCH);
    const wrong = code === 0 ? [] : [`the batch does not come to its end (${code}): ${stdout}${stderr}`];
    for (const id of ISSUES) {
      const text = readFileSync(join(box.cwd, "issues", `${id}.md`), "utf8");
      if (!text.includes("status: closed")) wrong.push(`issue ${id} is not closed`);
      const done = text.split("Done by demo").length - 1;
      if (done !== 1) wrong.push(`issue ${id} was done ${done} times`);
    }
    return wrong;
  },
};

const REVIEW = ["review", "acme/shop#42", "--run", "--json", "--comments"];

const review: Scenario = {
  name: "review",
  programs: [["reprise.js", 400]],
  deaths: 0,
  again: [],
  async prepare(box) {
    git(box, "init", "-q", "-b", "faster");
    git(box, "remote", "add", "origin", "https://github.com/acme/shop.git");
    git(
      box,
      "-c",
      "user.name=a",
      "-c",
      "user.email=a@example.com",
      "commit",
      "-q",
      "--allow-empty",
      "-m",
      "x",
    );
    const comment = { id: 1, body: "Prices are floats here.", author: "alice", author_association: "MEMBER" };
    const place = { file_path: "src/cart.ts", line_number: 2, created_at: "2026-04-14T16:00:49Z" };
    writeFileSync(join(box.root, "comments.jsonl"), `${JSON.stringify({ ...comment, ...place })}\n`);
  },
  act: async (box, env) => [await box.say([...REVIEW, join(box.root, "comments.jsonl")], env)],
  async finish(box) {
    const folder = join(box.state, "reviews");
    const again = await box.say([...REVIEW, join(box.root, "comments.jsonl")]);
    const wrong =
      again.code === 0 ? [] : [`the review does not come to its end: ${again.stdout}${again.stderr}`];
    // Lines of a transcript may be torn; what it is found by may not.
    for (const name of readdirSync(folder).filter((one) => one.endsWith(".json")))
      if (!isJson(readFileSync(join(folder, name), "utf8"))) wrong.push(`${name} is not JSON`);
    return wrong;
  },
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function git(box: IoBox, ...args: string[]): void {
  const env = { PATH: process.env["PATH"], HOME: box.home, GIT_CONFIG_NOSYSTEM: "1" };
  execFileSync("git", args, { cwd: box.cwd, env, stdio: "pipe" });
}

export const SCENARIOS = { start, resume, race, detach, agent, pipeline, issues, review } as const;
