/**
 * `npm run soak -- [--minutes N] [--agents 40] [--seed N] [--json FILE]`: scripted agents under a daemon, a fault every few
 * seconds, and what must always hold looked at all the time. Prints a row a minute; exits with 1 on a violation.
 */
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { readArguments } from "../../scripts/arguments.ts";
import type { Shown, View } from "../e2e/agent-box.ts";
import { chances, markerIn } from "../e2e/agent-storms.ts";
import { Gauge } from "./gauge.ts";
import { strike } from "./mischief.ts";
import { Town } from "./town.ts";

const USAGE = `
npm run soak -- [--minutes N] [--agents N] [--seed N] [--json FILE]

  --minutes N   how long, 20 unless told; parts of a minute are allowed
  --agents N    how many agents, 40 unless told
  --seed N      which faults, and when; another one each time unless told
  --json FILE   writes all figures to this file

npm run soak -- --minutes 2 --agents 10
npm run soak -- --minutes 20 --agents 40 --json test/soak/results.json
`;
const values = readArguments(USAGE, { minutes: "amount", agents: "count", seed: "seed", json: "file" });

const MINUTES = values.minutes ?? 20;
const AGENTS = values.agents ?? 40;
const SEED = values.seed ?? Date.now() % 1_000_000;
/** The last part is quiet: every process that was hit must come back by itself. */
const QUIET_MS = Math.min(120_000, MINUTES * 60_000 * 0.25);
/** From then on the daemon is left alive, so that its memory can be watched. */
const SPARE_AFTER = 0.3;
const FAULT_MS = 4_000;
const LOOK_MS = 5_000;
const ASKS = 5;
const ASK_MS = 500;
/** Decisions that one agent may need in a minute, over the whole soak: more is a storm. */
const STORM = 12;
/** What counts as flat, once there were minutes enough to tell. */
const FLAT = { minutes: 8, kibPerMinute: 512, liveKibPerMinute: 32, fds: 8 };

class Soak {
  readonly violations = new Set<string>();
  readonly faults: Record<string, number> = {};
  readonly rows: Record<string, number>[] = [];
  readonly daemon = new Gauge();
  readonly holder = new Gauge();
  readonly #town: Town;
  readonly #chance = chances(SEED);
  readonly #began = Date.now();
  #answered = 0;

  constructor(town: Town) {
    this.#town = town;
  }

  async run(): Promise<void> {
    const end = this.#began + MINUTES * 60_000;
    const quiet = end - QUIET_MS;
    const people = [1, 2].map((n) => this.#town.person(() => Date.now() > quiet, chances(SEED + n)));
    const harm = this.#harm(quiet);
    for (let look = 1; Date.now() < end; look += 1) {
      await sleep(LOOK_MS);
      this.#look();
      const minute = Math.floor((Date.now() - this.#began) / 60_000);
      if (minute > this.rows.length) {
        await this.#ask();
        this.#row();
      }
      if ((look * LOOK_MS) % 30_000 === 0) await this.#answer();
    }
    if (this.rows.length < MINUTES) this.#row();
    await Promise.all([...people, harm]);
    await this.#judge(quiet);
  }

  async #harm(until: number): Promise<void> {
    let isReplaced = false;
    while (Date.now() < until) {
      await sleep(FAULT_MS * (0.5 + this.#chance()));
      const spareDaemon = Date.now() - this.#began > MINUTES * 60_000 * SPARE_AFTER;
      if (spareDaemon && !isReplaced) await this.#town.replaceDaemon();
      isReplaced = spareDaemon;
      const done = await strike(this.#town, { chance: this.#chance, spareDaemon });
      if (done !== null) this.faults[done] = (this.faults[done] ?? 0) + 1;
    }
    await this.#town.run(["daemon", "start"]);
  }

  /** What the agents' own locks and journal say; nobody is asked. */
  #look(): void {
    for (const marker of this.#town.overlaps()) this.violations.add(`${marker} began beside another agent`);
    for (const text of this.#town.repeats((message) => message.startsWith("person ")))
      this.violations.add(text);
    this.daemon.read(this.#town.daemon());
    this.holder.read(this.#town.holders().find(({ handle }) => handle === this.#town.witness)?.pid ?? null);
  }

  /** How much of the daemon's memory is no garbage, at its quietest: its current work also counts. */
  async #ask(): Promise<void> {
    const pid = this.#town.daemon();
    if (pid === null) return;
    const answers: number[] = [];
    for (let asked = 0; asked < ASKS; asked += 1) {
      answers.push((await this.#town.liveKib(pid)) ?? Number.POSITIVE_INFINITY);
      await sleep(ASK_MS);
    }
    const least = Math.min(...answers);
    this.daemon.readLive(pid, Number.isFinite(least) ? least : null);
  }

  /** An agent that gave up asks a person, and gets a message to continue. */
  async #answer(): Promise<void> {
    const { stdout } = await this.#town.run(["decisions", "list", "--ids"]);
    for (const id of stdout.split("\n").filter(Boolean)) {
      await this.#town.run(["decisions", "resolve", id, "1"]);
      this.#answered += 1;
    }
  }

  #row(): void {
    const row = {
      minute: Math.round((Date.now() - this.#began) / 60_000),
      faults: Object.values(this.faults).reduce((sum, n) => sum + n, 0),
      "agents alive": this.#town.live().length,
      attempts: this.#town.events("start").length,
      messages: this.#town.messages().length,
      questions: this.#answered,
      "daemon KiB": this.daemon.last?.rssKib ?? 0,
      "of it in use": this.daemon.lastLive,
      "daemon fds": this.daemon.last?.fds ?? 0,
      "holder KiB": this.holder.last?.rssKib ?? 0,
      "holder fds": this.holder.last?.fds ?? 0,
      violations: this.violations.size,
    };
    if (this.rows.length === 0) console.log(Object.keys(row).join(" | "));
    this.rows.push(row);
    console.log(
      Object.entries(row)
        .map(([name, value]) => String(value).padStart(name.length))
        .join(" | "),
    );
  }

  async #judge(quiet: number): Promise<void> {
    const { agents } = await this.#town.agent<{ agents: View[] }>(["list"]);
    const heard = this.#heardSince(quiet);
    const live = this.#town.live();
    for (const id of this.#town.ids) {
      const view = agents.find((one) => one.id === id);
      const works = heard.has(id) || live.some(({ marker }) => marker.includes(`-${id}/`));
      if (view === undefined) this.violations.add(`agent ${id} was lost`);
      else if (!works && view.next === null && view.decision === null)
        this.violations.add(`agent ${id} does not go on: ${JSON.stringify(view)}`);
    }
    const todo = [...this.#town.ids];
    const work = async () => {
      for (let id = todo.shift(); id !== undefined; id = todo.shift())
        await this.#judgeOne(id).catch((error: unknown) => {
          this.violations.add(`agent ${id}: ${String(error).slice(0, 300)}`);
        });
    };
    await Promise.all([work(), work(), work()]);
    await this.#town.run(["daemon", "stop"]);
    for (const text of [
      ...(await this.#town.damage()),
      ...(await this.#town.strays()).map((pid) => `process ${pid} was left`),
      ...this.#town.temporary().map((name) => `${name} was left`),
    ])
      this.violations.add(text);
    this.#look();
    for (const handle of this.#town.people()) {
      const { status } = await this.#town.shownRun(handle);
      if (status === "running") this.violations.add(`run ${handle} of a person says that it runs`);
    }
    this.#flat("daemon", this.daemon);
    this.#flat("holder", this.holder);
  }

  #heardSince(ms: number): Set<string> {
    const recent = this.#town
      .attributed("message")
      .filter(({ entry }) => Date.parse(String(entry["at"])) > ms);
    return new Set(recent.map(({ marker }) => /-([0-9a-f]{8})\//.exec(marker)?.[1] ?? ""));
  }

  /** Every attempt is recorded, every message was decided, and there was no storm of decisions. */
  async #judgeOne(id: string): Promise<void> {
    await this.#town.run(["agent", "stop", id]);
    const isOver = ({ attempts: all }: Shown) => all.every(({ outcome }) => outcome !== null);
    const { agent, attempts, history } = await this.#town.shown(id, "over", isOver, 60_000);
    const starts = this.#town
      .events("start")
      .filter((entry) => markerIn(entry).startsWith(`${agent.runId}/`));
    const known = new Set(attempts.map(({ n }) => `${agent.runId}/${n}`));
    for (const marker of starts.map(markerIn))
      if (!known.has(marker)) this.violations.add(`${marker} ran and is not recorded`);
    const decided = history.filter(({ kind }) => kind === "decided").length;
    const told = this.#town
      .attributed("message")
      .filter(({ marker }) => marker.startsWith(`${agent.runId}/`)).length;
    if (told > decided + 1) this.violations.add(`${id} was told ${told} messages, ${decided} were decided`);
    if (decided > STORM * Math.max(1, MINUTES))
      this.violations.add(`${id}: ${decided} decisions are a storm`);
  }

  #flat(name: string, gauge: Gauge): void {
    if (gauge.minutes() < FLAT.minutes) return;
    const { first, last } = gauge.fds();
    if (gauge.slope() > FLAT.kibPerMinute)
      this.violations.add(`the ${name} grows by ${Math.round(gauge.slope())} KiB a minute`);
    const live = gauge.liveSlope();
    if (live !== null && live > FLAT.liveKibPerMinute)
      this.violations.add(`what the ${name} uses grows by ${Math.round(live)} KiB a minute`);
    if (last - first > FLAT.fds) this.violations.add(`the ${name} had ${first} descriptors and has ${last}`);
  }

  summary(): Record<string, unknown> {
    const of = (gauge: Gauge) => ({
      "RSS slope, KiB/min": Math.round(gauge.slope()),
      ...(gauge.liveSlope() === null ? {} : { "in use, KiB/min": Math.round(gauge.liveSlope() ?? 0) }),
      "watched, min": Math.round(gauge.minutes() * 10) / 10,
      "fds first": gauge.fds().first,
      "fds last": gauge.fds().last,
    });
    return {
      minutes: MINUTES,
      agents: this.#town.ids.length,
      seed: SEED,
      faults: this.faults,
      attempts: this.#town.events("start").length,
      messages: this.#town.messages().length,
      questions: this.#answered,
      daemon: of(this.daemon),
      holder: of(this.holder),
      violations: [...this.violations],
    };
  }
}

await using town = new Town();
console.log(`${AGENTS} agents move in (seed ${SEED})`);
await town.settle(AGENTS);
const soak = new Soak(town);
await soak.run();
const summary = soak.summary();
console.log(JSON.stringify(summary, null, 2));
if (values.json !== undefined)
  writeFileSync(values.json, `${JSON.stringify({ ...summary, rows: soak.rows }, null, 2)}\n`);
process.exitCode = soak.violations.size === 0 ? 0 : 1;
