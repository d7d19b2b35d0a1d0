/** One fault every few seconds, at random. */
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Town } from "./town.ts";

export interface Mischief {
  readonly chance: () => number;
  /** The daemon's memory is being watched: it is not killed any more. */
  readonly spareDaemon: boolean;
}

type Fault = (town: Town, mischief: Mischief) => Promise<boolean>;

const FAULTS: Readonly<Record<string, Fault>> = {
  "kill an agent": async (town, { chance }) => town.kill(someone(town, chance)?.agent),
  "kill a holder": async (town, { chance }) => town.kill(someone(town, chance)?.holder),
  "kill the daemon": async (town, { chance, spareDaemon }) => {
    const hit = !spareDaemon && town.kill(town.daemon() ?? undefined);
    if (hit) await sleep(chance() * 3_000);
    if (hit) await town.run(["daemon", "start"]);
    return hit;
  },
  "stop the daemon for seconds": (town, { chance }) => pause(town, town.daemon(), chance),
  "stop a holder for seconds": (town, { chance }) => pause(town, someone(town, chance)?.holder, chance),
  "stop an agent for seconds": (town, { chance }) => pause(town, someone(town, chance)?.agent, chance),
  "garbage on a socket": async (town, { chance }) => {
    const runtime = join(town.state, "run");
    const sockets = readdirSync(runtime).filter((name) => name.endsWith(".sock"));
    const name = sockets[Math.floor(chance() * sockets.length)];
    return name === undefined ? false : babble(join(runtime, name), chance);
  },
};

/** Tells what was done; null: there was nothing to do it to. */
export async function strike(town: Town, mischief: Mischief): Promise<string | null> {
  const names = Object.keys(FAULTS);
  const name = names[Math.floor(mischief.chance() * names.length)] ?? "";
  return (await FAULTS[name]?.(town, mischief)) === true ? name : null;
}

function someone(town: Town, chance: () => number): ReturnType<Town["live"]>[number] | undefined {
  const all = town.live().filter(({ marker }) => !marker.includes(`-${town.witness}/`));
  return all[Math.floor(chance() * all.length)];
}

async function pause(town: Town, pid: number | null | undefined, chance: () => number): Promise<boolean> {
  const stopped = town.kill(pid ?? undefined, "SIGSTOP");
  if (!stopped) return false;
  await sleep(1_000 + chance() * 7_000);
  town.kill(pid ?? undefined, "SIGCONT");
  return true;
}

function babble(path: string, chance: () => number): Promise<boolean> {
  const bytes =
    chance() < 0.5
      ? randomBytes(1 + Math.floor(chance() * 100_000))
      : Buffer.from('{"token":"no"}\n{"id":1}\n');
  return new Promise((done) => {
    const socket = createConnection(path);
    socket.on("error", () => done(false));
    socket.once("connect", () => {
      socket.write(bytes);
      setTimeout(() => {
        socket.destroy();
        done(true);
      }, 500);
    });
  });
}
