/**
 * Starts holders.
 *
 * The launcher may die at any moment: a holder with a complete request continues, a holder without one does nothing.
 */
import { spawn } from "node:child_process";
import { closeSync, fstatSync, ftruncateSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runtimeDir } from "../state/runtime.ts";
import { openLog } from "../state/tape.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { asUser } from "../process/process.ts";
import type { Deps } from "../run/run.ts";
import type { HoldRequest, HolderStart } from "./holder.ts";
import {
  encodeRequest,
  LAUNCH_FD,
  type LaunchMessages,
  type LaunchReply,
  readReply,
} from "./launch-protocol.ts";

const LOG_BYTES = 1024 * 1024;
/** A holder is mostly idle: a small nursery and no optimizer save 5 MB, and 50 MB/s are enough. */
const NODE_FLAGS = ["--max-semi-space-size=1", "--no-opt"];

/** Resolves when the agent was spawned and the holder is reachable; throws the holder's Fault. */
export async function launchHolder(
  deps: Deps,
  request: HoldRequest,
  env: Env = deps.env,
): Promise<HolderStart & Pick<LaunchMessages, "warnings">> {
  const bytes = encodeRequest({ hold: request, nodeOptions: env["NODE_OPTIONS"] ?? null });
  const log = openHolderLog(join(runtimeDir(deps.state, env), "holders.log"));
  try {
    const file = fileURLToPath(new URL("holder.js", import.meta.url));
    const child = asUser(() =>
      spawn(process.execPath, [...NODE_FLAGS, file], {
        cwd: deps.state.root,
        env: detachedEnv(env),
        detached: true,
        stdio: ["ignore", "ignore", log, "pipe"],
      }),
    );
    const failed = new Promise<never>((_resolve, reject) => {
      child.once("error", (cause) => reject(notStarted(deps, String(cause), cause)));
    });
    const pipe = child.stdio[LAUNCH_FD] as Socket | null | undefined;
    if (pipe === null || pipe === undefined) return await failed;
    pipe.write(bytes);
    const reply = await Promise.race([readReply(pipe), failed]);
    child.unref();
    pipe.destroy();
    return startIn(deps, reply);
  } finally {
    closeSync(log);
  }
}

/** The environment of a process that outlives its starter: without an agent's marker and without Node options. */
export function detachedEnv(env: Env): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && name !== "NODE_OPTIONS" && name !== "REPRISE_ATTEMPT") kept[name] = value;
  }
  return kept;
}

/** Passes on the holder's messages; throws its Fault. */
function startIn(deps: Deps, reply: LaunchReply | null): HolderStart & Pick<LaunchMessages, "warnings"> {
  if (reply === null) throw notStarted(deps, "it ended without a reply");
  const { result, warnings, notes } = reply;
  for (const warning of warnings) deps.log.warn(warning);
  for (const note of notes) deps.log.info(note);
  if (result instanceof Fault) throw result;
  if (result === "bug") throw notStarted(deps, "a bug in Reprise");
  if (result === "incomplete") throw notStarted(deps, "its reply is incomplete");
  return { ...result, warnings };
}

function notStarted(deps: Deps, why: string, cause?: unknown): Fault {
  const path = join(runtimeDir(deps.state, deps.env), "holders.log");
  return new Fault("spawn_failed", `The holder of the agent did not start: ${why}. See ${path}.`, {
    facts: { path },
    cause,
  });
}

/** The log of holders whose launcher has ended. Starts over when it is too long. */
function openHolderLog(path: string): number {
  const fd = openLog(path);
  if (fstatSync(fd).size > LOG_BYTES) ftruncateSync(fd);
  return fd;
}
