/**
 * The `Processes` of `Deps`: the process table, and the kernel's locks as proof of owners that the table does not show.
 */
import { hostname } from "node:os";
import { join } from "node:path";
import type { StateDir } from "./state/directory.ts";
import { hasAgentOf } from "./state/runs.ts";
import type { Processes } from "./core/deps.ts";
import { Fault } from "./core/faults.ts";
import type { Life } from "./core/records.ts";
import * as processes from "./process/process.ts";
import { judgeOwner, type Lives, openLives } from "./store/store.ts";

/** How long an agent may take to obey SIGINT, and then SIGTERM. */
const LADDER = { interruptMs: 5_000, terminateMs: 5_000 };

/**
 * Judges owners by the kernel's knowledge of their lives, wherever they are. Looks nothing up before the first call.
 */
export async function processesOf(state: StateDir): Promise<Processes> {
  const lives = await openLives(join(state.root, "lives"), () => processes.self().boot);
  const isAtWork = forAMoment((boot: string) => hasAgentOf(boot, state, processes.isFlocked));
  const runs = (boot: string) => lives.holds(boot) || isAtWork(boot);
  const sight = { machine: hostname(), isListed: processes.isAlive, lives, runs };
  const examine: Processes["examine"] = (owner) => judgeOwner(owner, { ...sight, self: processes.self() });
  return {
    ...realProcesses,
    owner: () => ({ ...processes.self(), ...lifeOrRoom(lives, state) }),
    examine,
    isAlive: (identity) => examine(identity) !== "gone",
    hasOtherOwner: (known) => lives.hasOther(known),
  };
}

const MOMENT_MS = 1_000;

/** After a reboot every interrupted run asks the same question, and each answer scans all runs. */
function forAMoment(look: (boot: string) => boolean): (boot: string) => boolean {
  const known = new Map<string, { readonly answer: boolean; readonly untilMs: number }>();
  return (boot) => {
    const now = performance.now();
    const found = known.get(boot);
    if (found !== undefined && now < found.untilMs) return found.answer;
    const answer = look(boot);
    known.set(boot, { answer, untilMs: performance.now() + MOMENT_MS });
    return answer;
  };
}

/**
 * Commands that free space must work on a full disk, without a life. Processes that cannot see this one then treat it as
 * in doubt, and wait.
 */
function lifeOrRoom(lives: Lives, { refusal }: StateDir): { readonly life?: Life } {
  if (refusal !== null) throw refusal;
  try {
    return { life: lives.own() };
  } catch (error) {
    if (error instanceof Fault && error.code === "storage_full") return {};
    throw error;
  }
}

/** Judged by the process table. */
const realProcesses: Processes = {
  self: processes.self,
  owner: processes.owner,
  isAlive: processes.isAlive,
  examine: processes.examine,
  identify: processes.identify,
  signal: processes.signal,
  findMarked: processes.findMarked,
  findMarkedBy: processes.findMarkedBy,
  findStrays: processes.findStrays,
  endTree: (root, marker, from) => processes.endTree(root, marker, LADDER, from),
  resolveProgram: processes.resolveProgram,
  opensTerminals: async () => (await import("./process/pty.ts")).opensTerminals(),
  // Spawning code loads with the first spawn: commands that only read runs do not need it.
  runTool: async (file, args, options) => (await import("./process/tool.ts")).runTool(file, args, options),
};
