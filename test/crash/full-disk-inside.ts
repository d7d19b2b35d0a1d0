/**
 * Runs in a separate mount namespace, with a state directory on a disk of a few megabytes that is filled and emptied
 * again. `full-disk-inside.ts ROUNDS SEED` prints a verdict.
 */
import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, statfsSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../e2e/agent-storms.ts";
import { collect, type Result } from "../e2e/sandbox.ts";
import { CrashBox, type ShownRun } from "./crash-box.ts";
import type { Verdict } from "./promise.ts";

const rounds = Number(process.argv[2] ?? 1);
const chance = chances(Number(process.argv[3] ?? 1));

/** The state directory is on a separate disk; engines keep their files elsewhere. */
class SmallDisk extends CrashBox {
  readonly #filler = join(this.state, "filler");

  constructor(options: string) {
    super();
    mkdirSync(this.state, { mode: 0o700 });
    execFileSync("mount", ["-t", "tmpfs", "-o", `mode=700,${options}`, "tmpfs", this.state]);
  }

  /** Until so many bytes are left. */
  fill(leave: number): void {
    const file = openSync(this.#filler, "w");
    try {
      for (;;) {
        const { bavail, bsize } = statfsSync(this.state);
        const room = bavail * bsize - leave;
        if (room <= 0) return;
        writeSync(file, Buffer.alloc(Math.min(room, 1 << 20)));
      }
    } catch {
      // Full.
    } finally {
      closeSync(file);
    }
  }

  /** Until there is no inode left. */
  crowd(): void {
    mkdirSync(this.#filler);
    try {
      for (let n = 0; ; n += 1) writeFileSync(join(this.#filler, String(n)), "");
    } catch {
      // Full.
    }
  }

  empty(): void {
    rmSync(this.#filler, { recursive: true, force: true });
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.empty();
    for (const pid of this.leftovers()) this.kill(pid);
    await this.strays();
    execFileSync("umount", ["-l", this.state]);
    await super[Symbol.asyncDispose]();
  }
}

interface Scene {
  readonly box: SmallDisk;
  readonly say: (text: string) => void;
  /** A run that was completed while there was room. */
  readonly old: string;
}

type Moment = (scene: Scene) => Promise<void>;

/** From nothing at all to nearly enough. */
const someRoom = () => [0, 0, 4, 16, 64, 200, 500, 1_200][Math.floor(chance() * 8)] ?? 0;

const MOMENTS: Readonly<Record<string, Moment>> = {
  async "before a start"({ box, say }) {
    box.fill(someRoom() * 1024);
    judge(await box.run(["start", "claude", "remember new"]), box, say);
  },
  async "before a resume"({ box, say, old }) {
    box.fill(someRoom() * 1024);
    judge(await box.run(["resume", old, "remember more"]), box, say);
  },
  async "while an agent talks"({ box, say }) {
    const child = box.spawn(["start", "claude", "remember new @@slow:40 @@flood:400000"]);
    child.stdin?.end();
    const done = collect(child);
    await Promise.race([sleep(chance() * 1_500), done]);
    box.fill(someRoom() * 1024);
    judge(await done, box, say);
  },
  async "while an agent talks too much"({ box, say }) {
    judge(await box.run(["start", "claude", "remember new @@flood:30000000"]), box, say);
  },
  async "while a holder works"({ box }) {
    await box.run(["start", "--detach", "claude", "remember new @@slow:40 @@flood:2000000"]);
    box.fill(someRoom() * 1024);
    await box.until("it has ended", () => box.live().length === 0, 30_000);
  },
  async "and Reprise is killed"({ box }) {
    const child = box.spawn(["start", "claude", "remember new @@slow:40"]);
    child.stdin?.end();
    const done = collect(child);
    await Promise.race([sleep(chance() * 1_500), done]);
    box.fill(0);
    child.kill("SIGKILL");
    await done;
  },
  async "while a daemon works"({ box, say }) {
    box.runbook(
      `[agent.worker]\nengine = "claude"\nmode = "headless"\nprompt = "begin @@wait:200"\n` +
        `on_idle = { action = "nudge", message = "next @@wait:200", attempts = 1000 }\n` +
        `on_dead = { action = "resume", message = "again @@wait:200", append = true, attempts = 1000 }\n`,
    );
    const id = await box.start("worker");
    await box.until("it works", () => box.messages().length > 1);
    box.fill(someRoom() * 1024);
    await sleep(2_000 + chance() * 2_000);
    box.empty();
    const before = box.messages().length;
    await box.run(["daemon", "start"]);
    await box
      .until("it goes on", () => box.messages().length > before, 90_000)
      .catch(async (error: unknown) => {
        say(`the agent does not go on: ${String(error)} ${JSON.stringify((await box.show(id)).view)}`);
      });
    await box.run(["agent", "stop", id]);
    await box.run(["daemon", "stop"]);
  },
  "before a daemon starts": (scene) => startDaemon(scene, () => scene.box.fill(someRoom() * 1024)),
  "before something is removed": (scene) => removeOne(scene, () => scene.box.fill(0)),
  async "before old runs are pruned"({ box, say }) {
    const runs = await Promise.all([1, 2, 3].map(() => box.json<ShownRun>(["start", "claude", "tidy"])));
    rmSync(join(box.state, "reserve"), { force: true });
    box.fill(someRoom() * 64);
    const pruned = await box.run(["prune", "--older-than", "1ms"]);
    for (const { handle } of runs) {
      const isThere = box.runDirectories().some((path) => path.endsWith(handle));
      const line = pruned.stdout.split("\n").find((one) => one.includes(handle)) ?? pruned.stderr;
      const saysGone = line.startsWith("Removed") || line.includes("is removed, but the index");
      if (isThere === saysGone) say(`prune: ${isThere ? "there" : "gone"}: ${line}`);
    }
  },
  "without inodes, before a daemon starts": (scene) => startDaemon(scene, () => scene.box.crowd()),
  "without inodes, before something is removed": (scene) => removeOne(scene, () => scene.box.crowd()),
  async "without inodes"({ box, say, old }) {
    box.crowd();
    judge(await box.run(["start", "claude", "remember new"]), box, say);
    judge(await box.run(["resume", old, "remember more"]), box, say);
  },
};

async function startDaemon({ box, say }: Scene, fill: () => void): Promise<void> {
  fill();
  judge(await box.run(["daemon", "start"]), box, say);
  box.empty();
  await box.run(["daemon", "stop"]);
}

/** Removing makes room, so it must work on a full disk. */
async function removeOne({ box, say }: Scene, fill: () => void): Promise<void> {
  const { handle } = await box.json<ShownRun>(["start", "claude", "tidy @@flood:2000000"]);
  fill();
  const { code, stderr } = await box.run(["rm", handle]);
  if (code !== 0) say(`rm: exit ${code}: ${stderr}`);
  judge(await box.run(["start", "claude", "remember new"]), box, say);
}

/** It worked, or it says that it did not and where. */
function judge({ code, stderr }: Result, box: SmallDisk, say: (text: string) => void): void {
  figures[`exit ${code}`] = (figures[`exit ${code}`] ?? 0) + 1;
  if (code !== 0 && code !== 7) say(`exit ${code}: ${stderr}`);
  if (code === 7 && !stderr.includes(box.state)) say(`no path is named: ${stderr}`);
  if (code === 7 && !/No room|disk is full|could not write/i.test(stderr)) say(`not called full: ${stderr}`);
  if (/this is a bug|\n\s+at /.test(stderr)) say(`a stack: ${stderr}`);
}

async function play(name: string, moment: Moment, say: (text: string) => void): Promise<void> {
  await using box = new SmallDisk(name.startsWith("without inodes") ? "size=32m,nr_inodes=300" : "size=12m");
  const first = await box.json<ShownRun>(["start", "claude", "remember 4711"]);
  const before = await box.shownRun(first.handle);
  await moment({ box, say, old: first.handle });
  // Existing runs can be shown, full or not.
  for (const words of [["list"], ["show", first.handle]]) {
    const { code, stderr } = await box.run(words);
    if (code !== 0) say(`${words.join(" ")}: exit ${code}: ${stderr}`);
  }
  box.empty();
  const after = await box.shownRun(first.handle);
  if (JSON.stringify(after.history[0]) !== JSON.stringify(before.history[0]))
    say("an old attempt has changed");
  for (const handle of [first.handle, ...box.runDirectories().map((path) => path.slice(-8))]) {
    const { session, runId } = await box.shownRun(handle);
    const words = ["4711", "new", "more"].filter(
      (word) => session.value !== null && box.stored(session.value, `remember ${word}`),
    );
    const resumed = await box.json(["resume", handle, "go on"]);
    const text = String(resumed["text"] ?? "");
    const isAllowed =
      words.length === 0 && /^session_(lost|unknown|damaged)$/.test(String(resumed["error"]?.code));
    if (resumed["ok"] !== true && !isAllowed) say(`${runId} is not resumed: ${JSON.stringify(resumed)}`);
    for (const word of words)
      if (resumed["ok"] === true && !text.includes(`remember ${word}`))
        say(`${runId} forgot ${word}: ${text}`);
  }
  for (const text of [
    ...(await box.damage()),
    ...box.overlaps(),
    ...box.repeats((message) => message.includes("remember")),
    ...(await box.strays()).map((pid) => `process ${pid} was left`),
  ])
    say(text);
}

const figures: Record<string, number> = {};
const verdict = { tried: 0, broken: [] as string[], untried: [], figures } satisfies Verdict;
const todo = Array.from({ length: rounds }, () => Object.entries(MOMENTS)).flat();
const work = async () => {
  for (let next = todo.shift(); next !== undefined; next = todo.shift()) {
    const [name, moment] = next;
    const say = (text: string) => void verdict.broken.push(`full ${name}: ${text}`);
    verdict.tried += 1;
    await play(name, moment, say).catch((error: unknown) => say(String(error)));
  }
};
await Promise.all([work(), work(), work()]);
process.stdout.write(JSON.stringify(verdict));
