/**
 * Starts holders. A holder's order goes through a pipe, never through an argument or a file, because it may contain
 * secrets.
 *
 * The launcher may die at any moment: a holder with a complete order continues, a holder without one does nothing.
 */
import { spawn } from "node:child_process";
import { closeSync, fstatSync, ftruncateSync } from "node:fs";
import type { Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openLog, runtimeDir } from "../state/state.ts";
import type { Env } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { arrayIn, fieldIn, type JsonObject, numberIn, stringIn } from "../lib/json.ts";
import { asUser } from "../process/process.ts";
import type { Deps } from "../run/run.ts";
import type { HoldRequest, HolderStart } from "./holder.ts";
import { decodeFault, encode, FrameReader } from "../ipc/ipc.ts";

/** The order, sent to the holder's fourth descriptor in one frame. */
export interface HolderOrder {
  readonly wish: HoldRequest;
  /** Removed from the holder's environment, but passed on to its agent. */
  readonly nodeOptions: string | null;
}

export interface HolderReply {
  /** The holder's warnings before its agent was spawned. */
  readonly warnings: readonly string[];
}

/** The descriptor for the order and its answer. */
export const ORDER_FD = 3;

const LOG_BYTES = 1024 * 1024;
/** A holder is mostly idle: a small nursery and no optimizer save 5 MB, and 50 MB/s are enough. */
const NODE_FLAGS = ["--max-semi-space-size=1", "--no-opt"];

/** Resolves when the agent was spawned and the holder is reachable; throws the holder's Fault. */
export async function launchHolder(
  deps: Deps,
  request: HoldRequest,
  env: Env = deps.env,
): Promise<HolderStart & HolderReply> {
  const order: HolderOrder = { wish: request, nodeOptions: env["NODE_OPTIONS"] ?? null };
  const bytes = encode({ ...order });
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
    const pipe = child.stdio[ORDER_FD] as Socket | null | undefined;
    if (pipe === null || pipe === undefined) return await failed;
    pipe.write(bytes);
    const answer = await Promise.race([answerOf(pipe), failed]);
    child.unref();
    pipe.destroy();
    return understood(deps, answer);
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

/** Null: the holder ended without an answer. */
function answerOf(pipe: Socket): Promise<JsonObject | null> {
  const reader = new FrameReader();
  return new Promise((resolve) => {
    pipe.on("error", () => resolve(null));
    pipe.once("close", () => resolve(null));
    pipe.on("data", (chunk: Buffer) => {
      try {
        const [answer] = reader.read(chunk);
        if (answer !== undefined) resolve(answer);
      } catch {
        resolve(null);
      }
    });
  });
}

function understood(deps: Deps, answer: JsonObject | null): HolderStart & HolderReply {
  if (answer === null) throw notStarted(deps, "it ended without a word");
  const warnings = arrayIn(answer, "warnings").map(String);
  for (const note of warnings) deps.log.warn(note);
  for (const note of arrayIn(answer, "notes")) deps.log.info(String(note));
  const error = fieldIn(answer, "error");
  if (error !== undefined) throw decodeFault(error) ?? notStarted(deps, "a bug in Reprise");
  const [handle, runId] = [stringIn(answer, "handle"), stringIn(answer, "runId")];
  const attempt = numberIn(answer, "attempt");
  if (handle === undefined || runId === undefined || attempt === undefined)
    throw notStarted(deps, "it gave no answer that makes sense");
  const parent = stringIn(answer, "parent");
  return { handle, runId, attempt, warnings, ...(parent === undefined ? {} : { parent }) };
}

function notStarted(deps: Deps, why: string, cause?: unknown): Fault {
  const path = join(runtimeDir(deps.state, deps.env), "holders.log");
  return new Fault("spawn_failed", `The process that holds the agent did not start: ${why}. See ${path}.`, {
    facts: { path },
    cause,
  });
}

/** The log of holders whose starter is gone. Starts over when it has become long. */
function openHolderLog(path: string): number {
  const fd = openLog(path);
  if (fstatSync(fd).size > LOG_BYTES) ftruncateSync(fd);
  return fd;
}
