/**
 * Runs that are started and resumed, in the foreground or detached, while their processes are killed. After each kill
 * the run is looked at and resumed, and the next one may be a new run or the same again.
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { collect, type Result } from "../e2e/sandbox.ts";
import { CrashBox, type Double, type ShownRun } from "./crash-box.ts";
import type { Storm, StormScale } from "./kills.ts";

/** A full look at the index after so many kills: it takes as long as an attempt. */
const DOCTOR_EVERY = 5;
/** Several at once try to resume after so many of them. */
const RACE_EVERY = 3;

export async function killAttempts(scale: StormScale, how: "foreground" | "detached"): Promise<Storm> {
  await using box = new CrashBox();
  const storm = new AttemptStorm(box, scale, how);
  for (let kill = 1; kill <= scale.kills; kill += 1) {
    scale.progress(`P4 ${how}: ${kill} of ${scale.kills}`);
    await storm.kill(kill);
  }
  await storm.end();
  return { kills: scale.kills, broken: storm.broken, figures: storm.figures };
}

interface Known {
  readonly handle: string;
  readonly engine: Double;
  /** The messages it got, in order; each of these words is sent once. */
  readonly words: string[];
  history: readonly Record<string, unknown>[];
  resumable: boolean;
}

class AttemptStorm {
  readonly broken: string[] = [];
  readonly figures: Record<string, number> = {};
  readonly #box: CrashBox;
  readonly #scale: StormScale;
  readonly #how: "foreground" | "detached";
  readonly #runs: Known[] = [];
  /** How long an attempt takes here; learned from those that were not killed. */
  #wholeMs = 900;
  #words = 0;
  #looks = 0;

  constructor(box: CrashBox, scale: StormScale, how: "foreground" | "detached") {
    this.#box = box;
    this.#scale = scale;
    this.#how = how;
  }

  async kill(n: number): Promise<void> {
    const run = this.#choose();
    const victim = this.#how === "foreground" ? await this.#killClient(run) : await this.#killHolder(run);
    this.#count(`kills of ${victim}`);
    const now = run ?? (await this.#appeared());
    if (now === null) this.#count("killed before anything was recorded");
    else await this.#look(now);
    if (n % DOCTOR_EVERY === 0) this.#say("the index", await this.#box.damage());
  }

  async end(): Promise<void> {
    this.#say("the index", await this.#box.damage());
    this.#say("agents at once", this.#box.overlaps());
    this.#say(
      "the journal",
      this.#box.repeats((text) => /\bw\d+\b/.test(text)),
    );
    this.#say("left running", (await this.#box.strays()).map(String));
    this.#say("temporary files", this.#box.temporary(join(this.#box.state, "runs")));
    const { runs } = await this.#box.json<{ runs: { handle: string }[] }>(["list", "--limit", "1000"]);
    const listed = new Set(runs.map(({ handle }) => handle));
    for (const { handle } of this.#runs) if (!listed.has(handle)) this.#say("lost", [handle]);
  }

  #choose(): Known | null {
    const { chance } = this.#scale;
    // A run whose engine never stored anything cannot be resumed, and nothing more is learned from it.
    const alive = this.#runs.filter(({ resumable }) => resumable);
    if (alive.length < 2 || chance() < 0.4) return null;
    return alive[Math.floor(chance() * alive.length)] ?? null;
  }

  #message(run: Known | null): string {
    this.#words += 1;
    const word = wordOf(this.#words);
    run?.words.push(word);
    return `remember ${word} @@slow:${Math.floor(this.#scale.chance() * 30)}`;
  }

  #args(run: Known | null): string[] {
    const { chance } = this.#scale;
    const detach = this.#how === "detached" ? ["--detach"] : [];
    if (run !== null) return ["resume", ...detach, run.handle, this.#message(run)];
    const mode = chance() < 0.3 ? ["--mode", "pty"] : [];
    return ["start", ...detach, ...mode, chance() < 0.7 ? "claude" : "codex", this.#message(null)];
  }

  /** The CLI is killed, and with it whatever it holds. What it has printed is on the tape. */
  async #killClient(run: Known | null): Promise<string> {
    const child = this.#box.spawn(this.#args(run));
    child.stdin?.end();
    const speaks = once(child.stdout ?? child, "data").catch(() => {});
    const done = collect(child);
    // Half of the moments are counted from the agent's first word, so that they are surely in the middle of a turn.
    const isLate = this.#scale.chance() < 0.5;
    if (isLate) await Promise.race([speaks, done]);
    await Promise.race([sleep(this.#scale.chance() * (isLate ? 300 : this.#wholeMs)), done]);
    child.kill("SIGKILL");
    const result = await done;
    if (run !== null) await this.#checkTape(run, result);
    return run === null ? "start" : "resume";
  }

  async #checkTape(run: Known, { stdout }: Result): Promise<void> {
    if (stdout === "") return;
    const { runDirectory, attempts } = await this.#box.shownRun(run.handle);
    const tape = readFileSync(join(runDirectory, "attempts", String(attempts), "stdout.log"), "utf8");
    if (!tape.startsWith(stdout)) this.#say(run.handle, ["what was printed is not on the tape"]);
  }

  /** A process behind a detached attempt: its holder, its agent, or the CLI that starts it. */
  async #killHolder(run: Known | null): Promise<string> {
    const { chance } = this.#scale;
    const child = this.#box.spawn(this.#args(run));
    child.stdin?.end();
    const done = collect(child);
    if (chance() < 0.2) {
      await Promise.race([sleep(chance() * this.#wholeMs), done]);
      child.kill("SIGKILL");
      await done;
      return "a CLI that detaches";
    }
    const { code, stdout, stderr } = await done;
    if (code !== 0) {
      this.#say(run?.handle ?? "start", [`it was not started: ${stderr}`]);
      return "nobody";
    }
    await sleep((chance() * this.#wholeMs) / 2);
    const last = this.#box.live().find(({ marker }) => marker.includes(`-${stdout.trim()}/`));
    const isAgent = chance() < 0.3;
    const pid = isAgent ? last?.agent : last?.holder;
    return this.#box.kill(pid) ? (isAgent ? "an agent" : "a holder") : "nobody: it had ended";
  }

  /** A run that was not there before; it is acknowledged from now on. */
  async #appeared(): Promise<Known | null> {
    const known = new Set(this.#runs.map(({ handle }) => handle));
    const { runs } = await this.#box.json<{ runs: { handle: string; agentName: Double }[] }>([
      "list",
      "--limit",
      "1000",
    ]);
    const fresh = runs.find(({ handle }) => !known.has(handle));
    if (fresh === undefined) return null;
    const run = {
      handle: fresh.handle,
      engine: fresh.agentName,
      words: [wordOf(this.#words)],
      history: [],
      resumable: true,
    };
    this.#runs.push(run);
    return run;
  }

  async #look(run: Known): Promise<void> {
    const shown = await this.#settled(run);
    const before = run.history;
    if (JSON.stringify(shown.history.slice(0, before.length)) !== JSON.stringify(before))
      this.#say(run.handle, ["an attempt that was over is not what it was"]);
    const open = shown.history.filter(({ state }) => state !== "ended");
    if (open.length > 0)
      this.#say(run.handle, [`${open.length} attempts are open, and nobody works on them`]);
    this.#looks += 1;
    await this.#resume(run, shown, this.#looks % RACE_EVERY === 0 ? 3 : 1);
    run.history = (await this.#box.shownRun(run.handle)).history;
  }

  /** A detached attempt may still be at work, by right. */
  async #settled(run: Known): Promise<ShownRun> {
    const end = Date.now() + 20_000;
    for (;;) {
      await this.#box.run(["list"]);
      const shown = await this.#box.shownRun(run.handle);
      if (shown.status !== "running" || Date.now() > end) {
        if (shown.status === "running") this.#say(run.handle, ["it says that it is running, for 20 s"]);
        return shown;
      }
      await sleep(100);
    }
  }

  /** The engine has the conversation: it goes on, and remembers what the engine had stored. Otherwise it is refused. */
  async #resume(run: Known, shown: ShownRun, racers: number): Promise<void> {
    const session = shown.session.value;
    const stored = session === null ? [] : run.words.filter((word) => this.#box.stored(session, word));
    const began = performance.now();
    const from = this.#box.events("start").length;
    const all = Array.from({ length: racers }, async (_, n) => {
      // One after the other, so that each finds another one at work.
      await sleep(n * this.#scale.chance() * this.#wholeMs);
      const message = racers === 1 ? this.#message(run) : `${this.#message(run)} @@wait:1000`;
      return this.#box.json(["resume", run.handle, message]);
    });
    const answers = await Promise.all(all);
    const done = answers.filter((answer) => answer["ok"] === true);
    if (done.length === 0) {
      const codes = answers.map((answer) => String(answer["error"]?.code ?? answer["outcome"]?.reason));
      this.#count(`refused: ${codes[0] ?? ""}`);
      run.resumable = false;
      // A start that was cut off before its directory was made has told nobody of the run.
      const isUnborn = shown.history.length === 0 && codes.every((code) => code === "run_dir_missing");
      const allowed = isUnborn || codes.every((code) => /^session_(lost|unknown|damaged|busy)$/.test(code));
      if (stored.length > 0 || !allowed) this.#say(run.handle, [`not resumed: ${codes.join(", ")}`]);
      if (this.#box.events("start").length > from)
        this.#say(run.handle, ["refused, and an agent was started"]);
      return;
    }
    // A process that came too late gets a refusal, and does no harm to the first.
    const harmed = answers.filter(
      ({ ok, error }) => ok !== true && !/^(session|run)_busy$/.test(error?.code),
    );
    for (const { error, outcome } of harmed)
      this.#say(run.handle, [`of several at once one failed: ${error?.code ?? outcome?.reason}`]);
    if (racers === 1) this.#wholeMs = performance.now() - began;
    this.#count("resumed");
    for (const answer of done) {
      const text = String(answer["text"]);
      const forgotten = stored.filter((word) => !text.includes(`remember ${word}"`));
      if (forgotten.length > 0) this.#say(run.handle, [`forgot ${forgotten.join(" ")} in ${text}`]);
      if (answer["session"]?.value !== session) this.#say(run.handle, ["it goes on in another conversation"]);
    }
  }

  #say(where: string, what: readonly string[]): void {
    for (const text of what) this.broken.push(`${this.#how}, ${where}: ${text}`);
  }

  #count(what: string): void {
    const name = `${this.#how}: ${what}`;
    this.figures[name] = (this.figures[name] ?? 0) + 1;
  }
}

/** No word is the beginning of another. */
function wordOf(n: number): string {
  return `w${String(n).padStart(5, "0")}`;
}
