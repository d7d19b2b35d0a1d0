/**
 * Runs in a separate pid namespace: a stranger with the same pid follows each dead process and notes every signal.
 * `pids-inside.ts ROUNDS SEED` prints a verdict.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isAlive } from "../e2e/holder-box.ts";
import { collect, until } from "../e2e/sandbox.ts";
import { CrashBox } from "./crash-box.ts";
import type { Verdict } from "./promise.ts";

const rounds = Number(process.argv[2] ?? 1);

/** Says when it is there, and writes down what it is sent. SIGKILL shows by its being gone. */
const STRANGER = `
const fs = require("node:fs");
for (const name of ["SIGINT", "SIGTERM", "SIGHUP", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
  process.on(name, () => fs.appendFileSync(process.argv[1], name + " "));
setInterval(() => {}, 1000);
process.stdout.write("here");`;

class Stranger implements Disposable {
  readonly #child: ChildProcess;
  readonly #heard: string;

  constructor(child: ChildProcess, heard: string) {
    this.#child = child;
    this.#heard = heard;
  }

  /** Takes the pid of a dead process. Threads of others may be faster, so it tries until it succeeds. */
  static async at(pid: number, box: CrashBox): Promise<Stranger> {
    await until(`pid ${pid} is free`, () => !existsSync(`/proc/${pid}`));
    for (let n = 0; n < 200; n += 1) {
      const heard = join(box.root, `heard-${pid}-${n}`);
      writeFileSync("/proc/sys/kernel/ns_last_pid", String(pid - 1));
      const child = spawn(process.execPath, ["-e", STRANGER, heard], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const over = new Promise((done) => child.once("exit", done));
      if (child.pid === pid) {
        await new Promise((done) => child.stdout?.once("data", done));
        return new Stranger(child, heard);
      }
      child.kill("SIGKILL");
      await over;
    }
    throw new Error(`pid ${pid} was never got`);
  }

  /** What was done to it. */
  harm(): string[] {
    const heard = existsSync(this.#heard) ? readFileSync(this.#heard, "utf8").trim() : "";
    const isGone = this.#child.exitCode !== null || this.#child.signalCode !== null;
    return [...(heard === "" ? [] : [`was sent ${heard}`]), ...(isGone ? ["was killed"] : [])];
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

type Check = (box: CrashBox, say: (text: string) => void) => Promise<number>;

/** Everybody behind a run dies, strangers get their pids, and all that can be asked of the run is asked. */
async function ownerAndAgent(box: CrashBox, say: (text: string) => void, detach: boolean): Promise<number> {
  const args = detach
    ? ["start", "--detach", "claude", "remember 4711 @@hang"]
    : ["start", "claude", "remember 4711 @@hang"];
  const child = box.spawn(args);
  child.stdin?.end();
  const over = collect(child);
  const live = await box.until("an agent that hangs", () =>
    box.events("hang").length > 0 ? box.live()[0] : null,
  );
  for (const pid of [live.holder, live.agent]) box.kill(pid);
  await over;
  await until("they are gone", () => !isAlive(live.holder) && !isAlive(live.agent));
  using one = await Stranger.at(live.holder, box);
  using other = await Stranger.at(live.agent, box);
  const handle = /-([0-9a-f]{8})\//.exec(live.marker)?.[1] ?? "";
  const expectCode = async (words: readonly string[], code: number) => {
    const result = await box.run(words);
    if (result.code !== code) say(`${words.join(" ")}: exit ${result.code}, not ${code}: ${result.stderr}`);
    return result.stdout;
  };
  const list = await expectCode(["list"], 0);
  if (!/interrupted/.test(list)) say(`it is not interrupted: ${list}`);
  await expectCode(["stop", handle], 0);
  await expectCode(["attach", handle], 1);
  const text = await expectCode(["resume", handle, "what do you remember?"], 0);
  if (!text.includes("4711")) say(`it does not remember: ${text}`);
  await expectCode(["stop", handle], 0);
  for (const stranger of [one, other]) for (const harm of stranger.harm()) say(harm);
  return 2;
}

async function daemon(box: CrashBox, say: (text: string) => void): Promise<number> {
  box.runbook(
    `[agent.worker]\nengine = "claude"\nmode = "headless"\nprompt = "begin @@hang"\n` +
      `on_dead = { action = "resume", message = "again @@hang", append = true }\n`,
  );
  const id = await box.start("worker");
  const live = await box.until("an agent that hangs", () =>
    box.events("hang").length > 0 ? box.live()[0] : null,
  );
  const pid = (await box.daemonPid()) ?? 0;
  for (const one of [pid, live.holder, live.agent]) box.kill(one);
  await until("they are gone", () => [pid, live.holder, live.agent].every((one) => !isAlive(one)));
  using first = await Stranger.at(pid, box);
  using second = await Stranger.at(live.holder, box);
  using third = await Stranger.at(live.agent, box);
  const status = await box.json<{ running?: boolean; pid?: number }>(["daemon", "status"]);
  if (status.pid === pid) say("a stranger is taken for the daemon");
  await box.run(["daemon", "stop"]);
  const started = await box.run(["daemon", "start"]);
  if (started.code !== 0) say(`no daemon starts: ${started.stderr}`);
  await box.until("the agent goes on", () => box.events("hang").length > 1);
  await box.run(["agent", "stop", id]);
  await box.run(["daemon", "stop"]);
  for (const stranger of [first, second, third]) for (const harm of stranger.harm()) say(harm);
  return 3;
}

/** The parent of a dead CLI does not bury it. */
async function zombie(box: CrashBox, say: (text: string) => void): Promise<number> {
  const cli = box.program(
    "started",
    `'${process.execPath}' '${join("dist", "reprise.js")}' "$@" & exec sleep 1000`,
  );
  const parent = spawn(cli, ["start", "claude", "remember 4711 @@hang"], {
    cwd: process.cwd(),
    env: box.env(),
    stdio: "ignore",
  });
  const live = await box.until("an agent that hangs", () =>
    box.events("hang").length > 0 ? box.live()[0] : null,
  );
  box.kill(live.holder);
  await until("it is a zombie", () =>
    /^State:\s+Z/m.test(readFileSync(`/proc/${live.holder}/status`, "utf8")),
  );
  const handle = /-([0-9a-f]{8})\//.exec(live.marker)?.[1] ?? "";
  const { status } = await box.shownRun(handle);
  if (status !== "interrupted") say(`with a dead owner it is ${status}`);
  const resumed = await box.json(["resume", handle, "what do you remember?"]);
  if (!String(resumed["text"]).includes("4711")) say(`it is not resumed: ${JSON.stringify(resumed)}`);
  parent.kill("SIGKILL");
  return 1;
}

const CHECKS: readonly (readonly [name: string, check: Check])[] = [
  ["a foreground run", (box, say) => ownerAndAgent(box, say, false)],
  ["a detached run", (box, say) => ownerAndAgent(box, say, true)],
  ["a daemon", daemon],
  ["a zombie", zombie],
];

const verdict = { tried: 0, broken: [] as string[], untried: [], figures: {} } satisfies Verdict;
for (let round = 0; round < rounds; round += 1) {
  for (const [name, check] of CHECKS) {
    await using box = new CrashBox();
    const say = (text: string) => void verdict.broken.push(`${name}: ${text}`);
    try {
      verdict.tried += await check(box, say);
    } catch (error) {
      say(String(error));
    }
  }
}
process.stdout.write(JSON.stringify(verdict));
