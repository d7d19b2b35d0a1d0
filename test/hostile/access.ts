/** P12: another user of the machine gets nothing, and nothing that somebody put in our way is followed, waited for or believed. */
import type { Promised, Scale, Verdict } from "../crash/promise.ts";
import { intrude } from "./intruder.ts";
import { PLANTS, tryPlant } from "./plants.ts";

export const access: Promised = {
  id: "P12",
  what: "attempts to get in or to trick Reprise",
  wrong: "succeeded",
  means:
    "Under umask 000, a second user can read, list, change and connect to nothing of Reprise; Reprise refuses or survives links, pipes, foreign and open directories in its places, without a hang and without a change behind them",
  check,
};

async function check(scale: Scale): Promise<Verdict> {
  const isRoot = process.getuid?.() === 0;
  const broken: string[] = [];
  let tried = 0;
  if (isRoot) {
    scale.progress("access: a second user");
    const found = await intrude();
    tried += found.tried;
    broken.push(...found.broken);
  }
  // A few at a time: each is one process that does little.
  const possible = PLANTS.filter(({ needsRoot }) => isRoot || needsRoot !== true);
  // Of the short selection each third comes with every third seed.
  const queue = possible.filter((_plant, at) => !scale.short || at % 3 === scale.seed % 3);
  const planted = queue.length;
  const work = async () => {
    for (let plant = queue.shift(); plant !== undefined; plant = queue.shift()) {
      scale.progress(`access: ${plant.name}`);
      broken.push(...(await tryPlant(plant)));
    }
  };
  await Promise.all([work(), work(), work()]);
  const untried = isRoot ? [] : ["everything that needs a second user: only root can become one"];
  return {
    tried: tried + planted,
    broken,
    untried,
    figures: { "tries of a second user": tried, "traps in our places": planted },
  };
}
