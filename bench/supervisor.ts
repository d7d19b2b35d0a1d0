/**
 * The supervisor under load: scripted agents that print without a pause, their holders and the daemon, all as built.
 * Measured from outside. BENCH_AGENTS and BENCH_SECONDS make it shorter.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createConnection, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CLI, makeRoot, type Part, quantile, residentBytes as resident, type Row } from "./part.ts";

const AGENTS = Number(process.env["BENCH_AGENTS"] ?? 100);
const SECONDS = Number(process.env["BENCH_SECONDS"] ?? 300);
const BYTES_A_SECOND = 20_000;
const LINES_A_SECOND = 20;

const root = makeRoot();
const state = join(root, "state");
const project = join(root, "project");
const env = {
  PATH: process.env["PATH"] ?? "",
  HOME: join(root, "home"),
  REPRISE_HOME: state,
  LANG: "C.UTF-8",
  BENCH_GO: join(root, "go"),
};
const rows: Row[] = [];

export const supervisor: Part = async (progress) => {
  try {
    setUp();
    for (const [what, measure] of Object.entries({ idle, startAll, adopt, flood, bytes, death })) {
      progress(what);
      await measure();
    }
    return rows;
  } finally {
    for (const pid of ours()) spawnSync("kill", ["-9", String(pid)]);
    rmSync(root, { recursive: true, force: true, maxRetries: 5 });
  }
};

/** Waits for the word to go, prints for so many seconds, and says how much that was. */
const AGENT = `#!/usr/bin/perl
use Time::HiRes qw(sleep time);
$| = 1;
my @words = split " ", join "", <STDIN>;
my ($seconds, $id) = @words;
print qq({"type":"init","session_id":"s-$$"}\\n);
sleep 0.1 until -e $ENV{BENCH_GO};
my $line = qq({"type":"message","role":"assistant","content":{"text":") . ("x" x (${BYTES_A_SECOND / LINES_A_SECOND} - 62)) . qq("}}\\n);
my $end = time + $seconds;
while (time < $end) { print $line; sleep ${1 / LINES_A_SECOND}; }
print qq({"type":"result","ok":true}\\n);
`;

const CONFIG = `
[engines.flood]
program = "${join(root, "flood")}"
start = ["ask"]
resume = ["ask", "{session}"]
session = { field = "session_id", format = "s-[0-9]+" }
[engines.flood.events]
session = "type=init"
text = "type=message role=assistant : content.text"
done = "type=result"
`;

const RUNBOOK = `
[agent.flood]
engine = "flood"
mode = "headless"
prompt = "${SECONDS} go"
on_idle = "done"
on_dead = { action = "resume", message = "${SECONDS} go", append = true, attempts = 5 }
`;

function setUp(): void {
  mkdirSync(join(env.HOME, ".config", "reprise"), { recursive: true });
  mkdirSync(join(project, "runbooks"), { recursive: true });
  writeFileSync(join(root, "flood"), AGENT);
  chmodSync(join(root, "flood"), 0o755);
  writeFileSync(join(env.HOME, ".config", "reprise", "config.toml"), CONFIG);
  writeFileSync(join(project, "runbooks", "bench.toml"), RUNBOOK);
}

async function idle(): Promise<void> {
  reprise("daemon", "start");
  const pid = daemonPid();
  await sleep(2_000);
  const before = processorTime(pid);
  await sleep(20_000);
  const used = (processorTime(pid) - before) / 20_000;
  rows.push(
    row("idle daemon: processor", `${percent(used)} of a core`, "< 1 %", used < 0.01),
    row("idle daemon: memory", mib(resident(pid)), "≤ 60 MB", resident(pid) <= 60e6),
  );
}

async function startAll(): Promise<void> {
  const waiting = Array.from({ length: AGENTS }, (_, at) => at);
  const worker = async () => {
    for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
      const child = spawn(process.execPath, [CLI, "agent", "run", "flood", "--trust-cwd", "--json"], {
        cwd: project,
        env,
        stdio: "ignore",
      });
      await new Promise((done) => child.once("exit", done));
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  await until("all agents to be watched", () => views().length === AGENTS);
}

async function adopt(): Promise<void> {
  process.kill(daemonPid(), "SIGKILL");
  const begin = performance.now();
  reprise("daemon", "start");
  await until(
    "all agents to be adopted",
    () => views().filter((one) => one.state === "working" || one.state === "starting").length === AGENTS,
  );
  const took = performance.now() - begin;
  rows.push(row(`${AGENTS} live agents adopted after a restart`, seconds(took), "< 5 s", took < 5_000));
}

async function flood(): Promise<void> {
  const pid = daemonPid();
  const probe = await Probe.open();
  const before = processorTime(pid);
  const begin = performance.now();
  writeFileSync(env.BENCH_GO, "");
  const lags: number[] = [];
  let most = 0;
  let holders: number[] = [];
  while (performance.now() - begin < SECONDS * 1_000) {
    lags.push(await probe.ask());
    most = Math.max(most, resident(pid));
    // Some time before the end, when all of them still work.
    if (holders.length === 0 && performance.now() - begin > SECONDS * 800)
      holders = pidsOf("holder.js")
        .map(resident)
        .toSorted((one, other) => one - other);
    await sleep(50);
  }
  const used = (processorTime(pid) - before) / (performance.now() - begin);
  probe.close();
  const lag = quantile(lags, 0.99);
  rows.push(
    row(
      `${AGENTS} agents at 20 KB/s: daemon, processor`,
      `${percent(used)} of a core`,
      "< 15 %",
      used < 0.15,
    ),
    row(`${AGENTS} agents at 20 KB/s: daemon, memory`, mib(most), "< 250 MB", most < 250e6),
    row("the daemon's answer, p99", `${lag.toFixed(1)} ms of ${lags.length}`, "< 100 ms", lag < 100),
    row(
      "a holder's memory, largest",
      `${mib(holders.at(-1) ?? Number.NaN)}, median ${mib(quantile(holders, 0.5))} of ${holders.length}`,
      "≤ 60 MB",
      (holders.at(-1) ?? 0) <= 60e6,
    ),
  );
}

async function bytes(): Promise<void> {
  await until("all agents to be done", () => views().length === 0, 120_000);
  let lost = 0;
  let kept = 0;
  for (const run of readdirSync(join(state, "runs")).filter((name) => !name.startsWith("."))) {
    const directory = join(state, "runs", run, "attempts", "1");
    const meta = JSON.parse(readFileSync(join(directory, "meta.json"), "utf8")) as {
      bytes: { stdout: number };
    };
    const size = statSync(join(directory, "stdout.log")).size;
    kept += size;
    const text = readFileSync(join(directory, "stdout.log"), "utf8");
    if (size !== meta.bytes.stdout || !text.endsWith('{"type":"result","ok":true}\n')) lost += 1;
  }
  rows.push(row("tapes that lack their end", `${lost} of ${AGENTS} (${mib(kept)} in all)`, "0", lost === 0));
}

async function death(): Promise<void> {
  const delays: number[] = [];
  for (let at = 0; at < 5; at += 1) {
    rmSync(env.BENCH_GO, { force: true });
    const { id } = JSON.parse(reprise("agent", "run", "flood", "--trust-cwd", "--json")) as { id: string };
    const { attempts } = show(id);
    const killedAt = Date.now();
    process.kill(attempts[0]?.agent?.pid ?? 0, "SIGKILL");
    await until("a decision", () => show(id).history.some(({ kind }) => kind === "decided"));
    const decided = show(id).history.find(({ kind }) => kind === "decided");
    delays.push((decided?.at ?? Number.NaN) - killedAt);
    reprise("agent", "stop", id);
  }
  const worst = Math.max(...delays);
  rows.push(row("death of an agent → decision, worst of 5", seconds(worst), "< 2 s", worst < 2_000));
}

/** A client of the daemon that asks for nothing: the answer takes as long as the daemon's loop is late. */
class Probe {
  readonly #socket: Socket;
  #answered: () => void = () => {};

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", () => this.#answered());
  }

  static async open(): Promise<Probe> {
    const token = readFileSync(join(state, "run", "d.token"), "utf8").trim();
    const probe = new Probe(createConnection(join(state, "run", "d.sock")));
    await probe.#say({ token });
    return probe;
  }

  async ask(): Promise<number> {
    const begin = performance.now();
    await this.#say({ id: 1, method: "nothing" });
    return performance.now() - begin;
  }

  close(): void {
    this.#socket.destroy();
  }

  #say(frame: object): Promise<void> {
    const answered = new Promise<void>((done) => (this.#answered = done));
    this.#socket.write(`${JSON.stringify(frame)}\n`);
    return answered;
  }
}

function reprise(...args: string[]): string {
  const { stdout, status, stderr } = spawnSync(process.execPath, [CLI, ...args], { cwd: project, env });
  if (status !== 0) throw new Error(`reprise ${args.join(" ")}: exit ${status}\n${stderr.toString()}`);
  return stdout.toString();
}

function views(): { id: string; state: string }[] {
  const agents = JSON.parse(reprise("status", "--json")) as { agents: { id: string; state: string }[] };
  return agents.agents;
}

interface Shown {
  readonly attempts: readonly { readonly agent: { readonly pid: number } | null }[];
  readonly history: readonly { readonly kind: string; readonly at: number }[];
}

function show(id: string): Shown {
  return JSON.parse(reprise("agent", "show", id, "--json")) as Shown;
}

function daemonPid(): number {
  return (JSON.parse(reprise("daemon", "status", "--json")) as { pid: number }).pid;
}

/** Milliseconds of processor time so far, of all threads. */
function processorTime(pid: number): number {
  return readdirSync(`/proc/${pid}/task`)
    .map(
      (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]) / 1e6,
    )
    .reduce((sum, one) => sum + one, 0);
}

/** Processes of this bench that run the given program of ours. */
function pidsOf(program: string): number[] {
  return ours().filter((pid) => fileOf(pid, "cmdline").includes(program));
}

function ours(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => fileOf(pid, "environ").includes(`REPRISE_HOME=${state}\0`));
}

/** Empty: it has ended, or it is somebody else's. */
function fileOf(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

async function until(what: string, look: () => boolean, deadlineMs = 60_000): Promise<void> {
  const end = Date.now() + deadlineMs;
  while (!look()) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await sleep(100);
  }
}

function row(what: string, measured: string, target: string, ok: boolean): Row {
  return { what, measured, target, ok };
}

const percent = (part: number) => `${(part * 100).toFixed(2)} %`;
const mib = (count: number) => `${(count / 1e6).toFixed(1)} MB`;
const seconds = (value: number) => `${(value / 1_000).toFixed(2)} s`;
