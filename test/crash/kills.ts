/** P4: `kill -9` of the CLI, of holders, of daemons and of agents at random moments. */
import { spawnSync } from "node:child_process";
import { killRunners } from "../e2e/issue-storms.ts";
import { chances } from "../e2e/agent-storms.ts";
import { killAttempts } from "./kill-attempts.ts";
import { killSupervised } from "./kill-supervised.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

/** What one storm found. */
export interface Storm {
  readonly kills: number;
  readonly broken: readonly string[];
  readonly figures: Readonly<Record<string, number>>;
}

export interface StormScale {
  readonly kills: number;
  readonly chance: () => number;
  readonly progress: Scale["progress"];
}

/** Of a thousand: how many each storm has. */
const SHARES = { attempts: 300, detached: 200, supervised: 350, issues: 150 };

export const kills: Promised = {
  id: "P4",
  what: "kills of CLI, holder, daemon and agent",
  wrong: "lost, duplicated or left something behind",
  means:
    "After `kill -9` at any moment, the index is sound, everything acknowledged is there, at most the running attempt is interrupted, conversations continue, no agent is started or messaged twice, and nothing is left behind",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  if (spawnSync("flock", ["--version"]).status !== 0) {
    const untried = ["flock (util-linux) is missing, and with it the judge over two agents at once"];
    return { tried: 0, broken: [], untried, figures: {} };
  }
  // About one in ten comes too late.
  const total = scale.short ? 40 : 1_150;
  const of = (share: number, salt: number): StormScale => ({
    kills: Math.max(6, Math.round((total * share) / 1_000)),
    chance: chances(scale.seed + salt),
    progress: scale.progress,
  });
  // Side by side: each spends most of its time waiting.
  const storms = await Promise.all([
    whole("foreground", of(SHARES.attempts, 1), (its) => killAttempts(its, "foreground")),
    whole("detached", of(SHARES.detached, 2), (its) => killAttempts(its, "detached")),
    whole("supervised", of(SHARES.supervised, 3), killSupervised),
    whole("issues", of(SHARES.issues, 4), (its) => killBatches(its, scale.seed)),
  ]);
  const figures = Object.assign({}, ...storms.map((storm) => storm.figures)) as Record<string, number>;
  const missed = Object.entries(figures).filter(([name]) => name.endsWith("it had ended"));
  return {
    tried: storms.reduce((sum, { kills: all }) => sum + all, 0) - missed.reduce((sum, [, n]) => sum + n, 0),
    broken: storms.flatMap((storm) => storm.broken),
    untried: [],
    figures,
  };
}

/** A storm that cannot go on, since something is not as it must be, has found something. */
async function whole(
  name: string,
  scale: StormScale,
  storm: (scale: StormScale) => Promise<Storm>,
): Promise<Storm> {
  try {
    return await storm(scale);
  } catch (error) {
    return { kills: scale.kills, broken: [`${name}: ${String(error)}`], figures: {} };
  }
}

async function killBatches({ kills: wanted }: StormScale, seed: number): Promise<Storm> {
  const done = await killRunners(wanted, 12, seed);
  return { kills: done, broken: [], figures: { "issues: kills of the runner": done } };
}
