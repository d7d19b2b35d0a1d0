/** P6: what an agent has started does not outlive it, whichever way it ends and however it tries to get away. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { AgentBox } from "../e2e/agent-box.ts";
import { isAlive } from "../e2e/holder-box.ts";
import { IssueBox } from "../e2e/issue-box.ts";
import { collect, type Sandbox, until } from "../e2e/sandbox.ts";
import { watchAgents } from "./crash-box.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const descendants: Promised = {
  id: "P6",
  what: "descendants of agents",
  wrong: "left alive",
  means:
    "No process of an agent (plain, deaf to SIGHUP, in a separate group, in a separate session, forked twice, reparented) outlives stop, timeout, Ctrl-C or, after a crash, the next resume or stop",
  check,
};

/** Six kinds of processes to get away with, each as a line of a shell that is given what to run as `"$@"`. */
const KINDS: Readonly<Record<string, string>> = {
  plain: '"$@" &',
  "hup-deaf": "(trap '' HUP; exec \"$@\") &",
  "own-group": `python3 -c 'import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])' "$@" &`,
  "own-session": 'setsid "$@" &',
  "forked-twice": '( setsid "$@" & )',
  reparented: '( "$@" & )',
};

/** `deaf`: signals that all of them ignore. */
function spawnAll(pids: string, deaf: string): string {
  const body = (kind: string) =>
    `trap '' ${deaf || "''"}; echo "$$ ${kind}" >>"${pids}/$$"; exec sleep 1000 9>&-`.replace(
      "trap '' ''; ",
      "",
    );
  const lines = Object.entries(KINDS).map(
    ([kind, line]) => `set -- sh -c '${body(kind).replaceAll("'", "'\\''")}'\n${line}`,
  );
  // What a completed turn leaves running is the user's: the attempt that goes on after a crash starts nothing.
  return `case $REPRISE_ATTEMPT in */1)
(\n${lines.join("\n")}\n)
until [ "$(ls '${pids}' | wc -l)" -ge ${lines.length} ]; do sleep 0.02; done
esac`;
}

interface Case {
  readonly name: string;
  readonly run: (box: Box) => Promise<void>;
}

type Box = Sandbox & AsyncDisposable;

const FOREGROUND: readonly (readonly [name: string, message: string, end: (live: Live) => Promise<void>])[] =
  [
    ["stop", "@@hang", async ({ box, handle }) => void (await box.run(["stop", handle]))],
    ["Ctrl-C", "@@hang", async ({ child }) => void child.kill("SIGINT")],
    ["SIGTERM", "@@hang", async ({ child }) => void child.kill("SIGTERM")],
    ["SIGHUP", "@@hang", async ({ child }) => void child.kill("SIGHUP")],
    ["Ctrl-C twice", "@@ignore-sigterm @@hang", interruptTwice],
    ["kill -9 of the agent", "@@hang", async ({ agent }) => void process.kill(agent, "SIGKILL")],
    ["kill -9 of Reprise, then stop", "@@hang", (live) => killThen(live, ["stop", live.handle])],
    ["kill -9 of Reprise, then resume", "@@hang", (live) => killThen(live, ["resume", live.handle, "go on"])],
  ];

interface Live {
  readonly box: Box;
  readonly child: ReturnType<Sandbox["spawn"]>;
  readonly done: Promise<unknown>;
  readonly handle: string;
  readonly agent: number;
  readonly stderr: () => string;
}

async function check({ short, progress }: Scale): Promise<Verdict> {
  const cases = ["pipe", "pty"].flatMap((mode) => [
    ...FOREGROUND.map(([name, message, end]): Case => ({
      name: `${mode}: ${name}`,
      run: (box) => foreground(box, mode, { message, end }),
    })),
    { name: `${mode}: --timeout`, run: (box: Box) => deadline(box, mode) },
    { name: `${mode}: stop of a detached run`, run: (box: Box) => detached(box, mode, "stop") },
    { name: `${mode}: kill -9 of a holder`, run: (box: Box) => detached(box, mode, "kill") },
  ]);
  const supervised = ["headless", "interactive"].map((mode): Case => ({
    name: `agent stop, ${mode}`,
    run: (box) => agentStop(box as AgentBox, mode),
  }));
  const batches = [2, 3].map((times): Case => ({
    name: `issues run, Ctrl-C × ${times}`,
    run: (box) => batch(box as IssueHouse, times),
  }));
  const broken: string[] = [];
  let tried = 0;
  const todo = [...cases, ...supervised, ...batches].flatMap((one) =>
    (short ? [""] : ["", "HUP INT TERM"]).map((deaf) => ({ ...one, deaf })),
  );
  const work = async () => {
    for (let next = todo.shift(); next !== undefined; next = todo.shift()) {
      progress(`P6: ${next.name}`);
      const result = await attempt(
        next,
        batches.some(({ name }) => name === next?.name),
      );
      tried += result.tried;
      broken.push(
        ...result.left.map((kind) => `${next?.name} (deaf to ${next?.deaf || "nothing"}): ${kind}`),
      );
    }
  };
  await Promise.all([work(), work(), work()]);
  return { tried, broken, untried: [], figures: {} };
}

class IssueHouse extends IssueBox implements AsyncDisposable {
  async [Symbol.asyncDispose](): Promise<void> {
    this[Symbol.dispose]();
  }
}

async function attempt(
  { run, deaf }: Case & { readonly deaf: string },
  isBatch: boolean,
): Promise<{ tried: number; left: string[] }> {
  await using box = isBatch ? new IssueHouse() : new AgentBox();
  const pids = join(box.root, "pids");
  mkdirSync(pids);
  watchAgents(box, spawnAll(pids, deaf));
  const known = () =>
    (existsSync(pids) ? readdirSync(pids) : []).map((name) => readFileSync(join(pids, name), "utf8").trim());
  let fault: string[] = [];
  try {
    await run(box);
  } catch (error) {
    fault = [String(error)];
  }
  const all = known();
  const left = all.filter((line) => isAlive(Number.parseInt(line, 10)));
  for (const line of left) process.kill(Number.parseInt(line, 10), "SIGKILL");
  const missing = Object.keys(KINDS).filter((kind) => !all.some((line) => line.endsWith(` ${kind}`)));
  return {
    tried: all.length,
    left: [...fault, ...left, ...missing.map((kind) => `${kind} was never started`)],
  };
}

async function foreground(
  box: Box,
  mode: string,
  how: { readonly message: string; readonly end: (live: Live) => Promise<void> },
): Promise<void> {
  const child = box.spawn(["start", "--mode", mode, "claude", `hello ${how.message}`]);
  child.stdin?.end();
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const done = collect(child);
  const agent = await hanging(box);
  const handle = box.runDirectories()[0]?.slice(-8) ?? "";
  await how.end({ box, child, done, handle, agent, stderr: () => stderr });
  await done;
}

/** The pid of an agent that waits for its end. */
async function hanging(box: Sandbox): Promise<number> {
  const hang = await until(
    "the agent hangs",
    () => box.journalEntries().find(({ event }) => event === "hang"),
    60_000,
  );
  return Number(hang["pid"]);
}

async function interruptTwice({ child, stderr }: Live): Promise<void> {
  child.kill("SIGINT");
  await until("the first request was heard", () => stderr().includes("Ctrl-C again"));
  child.kill("SIGINT");
}

async function killThen({ box, child, done }: Live, command: readonly string[]): Promise<void> {
  child.kill("SIGKILL");
  await done;
  await box.run(command);
}

async function deadline(box: Box, mode: string): Promise<void> {
  const result = await box.run(["start", "--mode", mode, "--timeout", "3s", "claude", "hello @@hang"]);
  if (!/time limit/.test(result.stderr)) throw new Error(`no time limit was reached: ${result.stderr}`);
}

async function detached(box: Box, mode: string, end: "stop" | "kill"): Promise<void> {
  const started = await box.run(["start", "--detach", "--mode", mode, "claude", "hello @@hang"]);
  const handle = started.stdout.trim();
  await hanging(box);
  if (end === "kill") {
    const file = join(box.state, "run", `h-${handle}.json`);
    const { identity } = JSON.parse(readFileSync(file, "utf8")) as { identity: { pid: number } };
    process.kill(identity.pid, "SIGKILL");
    await until("the holder is gone", () => !isAlive(identity.pid));
  }
  await box.run(["stop", handle]);
}

async function agentStop(box: AgentBox, mode: string): Promise<void> {
  const how = mode === "headless" ? 'engine = "claude"\nmode = "headless"' : 'run = "claude"';
  box.runbook(`[agent.worker]\n${how}\nprompt = "hello @@hang"\n`);
  const id = await box.start("worker");
  await hanging(box);
  await box.run(["agent", "stop", id]);
  await box.run(["daemon", "stop"]);
}

/** The first Ctrl-C begins no other issue, the second asks the agents to stop, the third ends them. */
async function batch(box: IssueHouse, times: number): Promise<void> {
  box.issue("one", times === 2 ? "@@hang" : "@@ignore-sigterm @@hang");
  box.commit();
  const child = box.spawn(["issues", "run", "--engine", "claude", "--trust-cwd"]);
  child.stdin?.end();
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const done = collect(child);
  await hanging(box);
  for (let n = 0; n < times; n += 1) {
    const before = stderr.length;
    child.kill("SIGINT");
    if (n + 1 < times) await until("Ctrl-C is heard", () => stderr.length > before);
  }
  await done;
  for (const path of box.runDirectories()) await box.run(["stop", path.slice(-8)]);
}
