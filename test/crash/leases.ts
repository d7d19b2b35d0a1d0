/**
 * P16: one agent in a run, wherever its owner is, and from wherever, by whichever clock and in whichever copy a command
 * looks.
 */
import { type ChildProcess, spawnSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chances } from "../e2e/agent-storms.ts";
import { type Place, PLACES, runThere, spawnThere, whyNoNamespaces } from "../e2e/namespaces.ts";
import { isAlive } from "../e2e/holder-box.ts";
import { CrashBox } from "./crash-box.ts";
import { inParallel } from "./pool.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const leases: Promised = {
  id: "P16",
  what: "commands from other namespaces, clocks and copies",
  wrong: "duplicated or ended an agent, or found a dead owner's run locked",
  means:
    "Commands from another pid, network or time namespace, with a clock that is hours off, without the index or in a copy of the state directory start no second agent in a run, end no healthy agent, and resume a run whose owner died",
  check,
};

/** Owners in the whole run; each is looked at from elsewhere several times, so that there are more than 500 tries. */
const OWNERS = { short: 2, whole: 70 };

async function check({ short, seed, progress }: Scale): Promise<Verdict> {
  const why = whyNoNamespaces();
  if (why !== null) return { tried: 0, broken: [], untried: [why], figures: {} };
  const broken: string[] = [];
  const figures: Record<string, number> = {};
  const asks = await asksInCopies();
  let tried = 0;
  const numbers = Array.from({ length: short ? OWNERS.short : OWNERS.whole }, (_, n) => n);
  await inParallel(
    numbers,
    async (n) => {
      progress(`P16: owner ${n + 1} of ${numbers.length}`);
      const one = new Case(seed * 1_000 + n, { figures, asks });
      await one.play().catch((error: unknown) => one.say(String(error)));
      tried += one.tried;
      broken.push(...one.broken);
    },
    short ? 2 : 4,
  );
  const untried = asks ? [] : ["copies of state directories at rest: this build does not tell a copy"];
  return { tried, broken, untried, figures };
}

/** Does this build ask before it uses a copied state directory? */
async function asksInCopies(): Promise<boolean> {
  await using box = new CrashBox();
  return (await box.run(["doctor", "--help"])).stdout.includes("--accept-copy");
}

const PLACE_NAMES = Object.keys(PLACES) as Place[];
/** Where the processes of this machine are seen. */
const SEES_ALL: readonly Place[] = ["here", "time"];
const HOUR = 3_600_000;
const CLOCKS = [0, HOUR, -HOUR, 30 * 24 * HOUR, -2 * HOUR];
const LOOKS = 6;
const FREE_MS = 30_000;
/** What owners were once known by, and below which chance it is lost. */
const LOSSES = [
  [0.15, "index"],
  [0.3, "lives"],
  [0.45, "index and lives"],
] as const;
type Lost = (typeof LOSSES)[number][1] | null;

interface Shared {
  readonly figures: Record<string, number>;
  readonly asks: boolean;
}

/** One owner with one agent, the commands that look at it, its death, and its successor. */
class Case {
  tried = 0;
  readonly broken: string[] = [];
  readonly #seed: number;
  readonly #shared: Shared;
  readonly #chance: () => number;
  readonly #place: Place;
  readonly #done: string[] = [];
  #copies = 0;

  constructor(seed: number, shared: Shared) {
    this.#seed = seed;
    this.#shared = shared;
    this.#chance = chances(seed);
    this.#place = this.#pick(PLACE_NAMES);
  }

  say(what: string): void {
    this.broken.push(`case ${this.#seed} (${[`owner: ${this.#place}`, ...this.#done].join("; ")}): ${what}`);
  }

  async play(): Promise<void> {
    await using box = new CrashBox();
    const deaf = this.#chance() < 0.3;
    const owner = await this.#begin(box, deaf);
    try {
      const handle = box.runDirectories()[0]?.slice(-8) ?? "";
      const lost = this.#lose(box);
      for (let look = 0; look < LOOKS; look += 1) await this.#look(box, handle);
      if (this.#chance() < 0.4) await this.#copy(box, handle);
      this.#judgeLiving(box);
      await this.#end(box, owner, deaf);
      await this.#comeAfter(box, handle, lost);
      if (this.#shared.asks) await this.#copyAtRest(box, handle);
      const overlaps = box.overlaps();
      if (overlaps.length > 0) this.say(`agents at once: ${overlaps.join(", ")}`);
    } finally {
      owner.kill("SIGKILL");
    }
  }

  async #begin(box: CrashBox, deaf: boolean): Promise<ChildProcess> {
    const detach = this.#chance() < 0.4 ? ["--detach"] : [];
    const message = `remember 4711 ${deaf ? "@@ignore-sigterm " : ""}@@hang`;
    this.#note(`${detach[0] ?? "foreground"}${deaf ? ", deaf to SIGTERM" : ""}`);
    const args = ["start", ...detach, "claude", message];
    const child = spawnThere(box, { place: this.#place, stays: true }, args);
    child.stdin?.on("error", () => {});
    child.stdin?.end();
    child.stdout?.resume();
    child.stderr?.resume();
    await box.until("the agent works", () => box.events("hang").length === 1, 60_000);
    return child;
  }

  /** Something that owners were once known by is gone. */
  #lose(box: CrashBox): Lost {
    const chance = this.#chance();
    const what: Lost = LOSSES.find(([below]) => chance < below)?.[1] ?? null;
    if (what !== null) this.#note(`${what} removed`);
    if (what?.includes("lives") === true) rmSync(join(box.state, "lives"), { recursive: true, force: true });
    if (what?.includes("index") === true)
      for (const name of readdirSync(box.state).filter((one) => one.startsWith("index.db")))
        rmSync(join(box.state, name));
    return what;
  }

  async #look(box: CrashBox, handle: string): Promise<void> {
    const place = this.#pick(PLACE_NAMES);
    const commands = [
      ...[
        ["list"],
        ["list", "--status", "running"],
        ["show", handle],
        ["logs", handle],
        ["status"],
        ["doctor"],
      ],
      ...[
        ["resume", handle, "a second one"],
        ["resume", handle, "another one", "--detach"],
      ],
      ...[
        ["resume", handle, "a new one", "--force-fresh"],
        ["rm", handle],
        ["rm", handle, "--discard-work"],
      ],
      ...[
        ["prune", "--older-than", "1ms"],
        ["doctor", "--rebuild-index"],
      ],
      // Where signals reach the owner, it may be stopped: then it is no healthy agent that is ended.
      ...(SEES_ALL.includes(place)
        ? []
        : [
            ["stop", handle],
            ["stop", handle, "--owner-gone"],
          ]),
    ];
    const words = this.#pick(commands.filter(([name, , more]) => this.#mayBeTold(name, more)));
    await this.#tell(box, place, words);
  }

  /** A user who says that a living owner is gone is believed where nothing else is known. */
  #mayBeTold(_name: string | undefined, more: string | undefined): boolean {
    return more !== "--owner-gone" || !this.#done.some((done) => done.includes("lives removed"));
  }

  async #tell(box: CrashBox, place: Place, words: readonly string[], home?: string): Promise<number | null> {
    const aheadMs = this.#pick(CLOCKS);
    this.tried += 1;
    this.#note(`${place} ${aheadMs / HOUR} h: ${words.slice(0, 1).concat(words.slice(2)).join(" ")}`);
    const env = home === undefined ? {} : { REPRISE_HOME: home };
    const { code, stderr } = await runThere(box, { place, aheadMs, env }, words);
    this.#count(`exit ${code ?? "by a signal"} of ${words[0] ?? ""}`);
    if (code === 70 || code === null) this.say(`exit ${code ?? "by a signal"}: ${stderr}`);
    return code;
  }

  /** While the owner lives: the run in a copy of the directory has an owner as well. */
  async #copy(box: CrashBox, handle: string): Promise<void> {
    const copy = this.#copied(box);
    const code = await this.#tell(box, this.#pick(PLACE_NAMES), ["resume", handle, "in a copy"], copy);
    if (code === 0) this.say("a copy resumed what the original works on");
  }

  /** Original and copy, one after the other; the original goes first. It may have been renamed before the copy was made, or after. */
  async #copyAtRest(box: CrashBox, handle: string): Promise<void> {
    const renamed = this.#pick(["never", "before", "after"] as const);
    this.#note(`the original was renamed: ${renamed}`);
    const moved = join(box.root, "moved");
    if (renamed !== "never") {
      renameSync(box.state, moved);
      const code = await this.#tell(box, this.#pick(PLACE_NAMES), ["stop", handle], moved);
      if (code !== 0) this.say("a renamed state directory does not go on");
    }
    if (renamed === "before") renameSync(moved, box.state);
    const copy = this.#copied(box, renamed === "after" ? moved : box.state);
    if (renamed === "after") renameSync(moved, box.state);
    const began = box.events("hang").length;
    const first = spawnThere(box, { place: this.#place, stays: true }, ["resume", handle, "go on @@hang"]);
    first.stdin?.end();
    try {
      await box.until("the original works", () => box.events("hang").length > began, 60_000);
      const code = await this.#tell(box, this.#pick(PLACE_NAMES), ["resume", handle, "in a copy"], copy);
      if (code === 0) this.say("a copy that was made at rest resumed what the original works on");
    } finally {
      first.kill("SIGKILL");
    }
  }

  #copied(box: CrashBox, state = box.state): string {
    this.#copies += 1;
    const copy = join(box.root, `copy-${this.#copies}`);
    // Sockets are not copied, and nobody needs them.
    cpSync(state, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") });
    return copy;
  }

  #judgeLiving(box: CrashBox): void {
    const starts = box.events("start").length;
    if (starts !== 1) this.say(`${starts} agents were started while the first one worked`);
    if (!this.#agentLives(box)) this.say("a healthy agent was ended");
  }

  /** By the lock that the agent itself took. */
  #agentLives(box: CrashBox): boolean {
    const [name = ""] = readdirSync(join(box.root, "locks"));
    return spawnSync("flock", ["-n", join(box.root, "locks", name), "true"]).status === 1;
  }

  /** The whole place dies, or the owner alone. */
  async #end(box: CrashBox, owner: ChildProcess, deaf: boolean): Promise<void> {
    const alone = SEES_ALL.includes(this.#place) || this.#chance() < 0.6;
    this.#note(alone ? "the owner is killed" : "its place is killed");
    if (!alone) owner.kill("SIGKILL");
    else for (const pid of box.leftovers().filter(isOwner)) box.kill(pid);
    await box.until("the owner is gone", () => box.leftovers().filter(isOwner).length === 0, 60_000);
    if (!deaf || !alone) await box.until("the agent is gone", () => !this.#agentLives(box), 60_000);
    else this.#count("agents that outlived their owner");
  }

  /**
   * In the end the run is resumed from anywhere; a command that cannot see a surviving agent resumes it after that
   * agent has ended.
   */
  async #comeAfter(box: CrashBox, handle: string, lost: Lost): Promise<void> {
    const place = this.#pick(PLACE_NAMES);
    const deadline = Date.now() + FREE_MS;
    const starts = box.events("start").length;
    for (;;) {
      const survives = this.#agentLives(box);
      const code = await this.#tell(box, place, ["resume", handle, "what do you remember?"]);
      if (code === 0) break;
      if (survives && box.events("start").length > starts)
        this.say("a second agent was started beside a survivor");
      for (const pid of survives ? box.leftovers().filter(isAgent) : []) box.kill(pid);
      // From another pid namespace nothing shows that an agent is gone with its owner: the user says so.
      if (!survives || lost?.includes("lives") === true)
        await this.#tell(box, place, ["stop", handle, "--owner-gone"]);
      if (Date.now() > deadline) {
        this.say(`still locked ${FREE_MS / 1_000} s after its owner died`);
        return;
      }
      await sleep(50);
    }
    this.#count("runs that went on after their owner died");
  }

  #pick<T>(items: readonly T[]): T {
    const item = items[Math.floor(this.#chance() * items.length)];
    if (item === undefined) throw new Error("nothing to choose from");
    return item;
  }

  #note(what: string): void {
    this.#done.push(what);
  }

  #count(what: string): void {
    this.#shared.figures[what] = (this.#shared.figures[what] ?? 0) + 1;
  }
}

function isOwner(pid: number): boolean {
  return (
    isAlive(pid) &&
    /\/(?:reprise|holder)\.js\0/.test(commandOf(pid)) &&
    !/unshare|exec sleep/.test(commandOf(pid))
  );
}

function isAgent(pid: number): boolean {
  return isAlive(pid) && /\/(?:demo-agent|actor)\.js\0/.test(commandOf(pid));
}

function commandOf(pid: number): string {
  const path = `/proc/${pid}/cmdline`;
  try {
    return existsSync(path) ? readFileSync(path, "latin1") : "";
  } catch {
    return "";
  }
}
