/**
 * The launch protocol: one frame from the launcher to the new holder and one frame back, through a pipe that the holder
 * inherits. The request may contain secrets, so it never goes through an argument or a file.
 */
import type { Socket } from "node:net";
import { Fault } from "../core/faults.ts";
import { decodeFault, encode, encodeFault, FrameReader } from "../ipc/ipc.ts";
import { arrayIn, fieldIn, type JsonObject, numberIn, stringIn } from "../lib/json.ts";
import type { HolderStart, HoldRequest } from "./holder.ts";

/** The holder's descriptor for the request and its reply. */
export const LAUNCH_FD = 3;

export interface LaunchRequest {
  readonly hold: HoldRequest;
  /** Removed from the holder's environment, but passed on to its agent. */
  readonly nodeOptions: string | null;
}

/** The holder's messages before its agent was spawned. */
export interface LaunchMessages {
  readonly warnings: readonly string[];
  readonly notes: readonly string[];
}

export interface LaunchReply extends LaunchMessages {
  /** Once the agent was spawned: the attempt. A Fault: the refusal. bug: the holder's log has the stack. */
  readonly result: HolderStart | Fault | "bug" | "incomplete";
}

export function encodeRequest(request: LaunchRequest): Buffer {
  return encode({ ...request });
}

/** Null: the launcher died before it sent the whole request. */
export async function readRequest(pipe: Socket): Promise<LaunchRequest | null> {
  return (await firstFrame(pipe)) as LaunchRequest | null;
}

/** A text is the stack of a bug. */
export function encodeReply(result: HolderStart | Fault | string, messages: LaunchMessages): Buffer {
  if (typeof result === "string") return encode({ error: { code: "bug", message: result }, ...messages });
  return encode({ ...(result instanceof Fault ? { error: encodeFault(result) } : result), ...messages });
}

/** Null: the holder ended without a reply. */
export async function readReply(pipe: Socket): Promise<LaunchReply | null> {
  const frame = await firstFrame(pipe);
  if (frame === null) return null;
  const texts = (key: "warnings" | "notes") => arrayIn(frame, key).map(String);
  return { result: resultIn(frame), warnings: texts("warnings"), notes: texts("notes") };
}

function resultIn(frame: JsonObject): LaunchReply["result"] {
  const error = fieldIn(frame, "error");
  if (error !== undefined) return decodeFault(error) ?? "bug";
  const [handle, runId] = [stringIn(frame, "handle"), stringIn(frame, "runId")];
  const attempt = numberIn(frame, "attempt");
  if (handle === undefined || runId === undefined || attempt === undefined) return "incomplete";
  const parent = stringIn(frame, "parent");
  return { handle, runId, attempt, ...(parent === undefined ? {} : { parent }) };
}

/** Null: the pipe closed first, or its content violates the protocol. */
function firstFrame(pipe: Socket): Promise<JsonObject | null> {
  const reader = new FrameReader();
  return new Promise((resolve) => {
    pipe.on("error", () => resolve(null));
    pipe.once("close", () => resolve(null));
    pipe.on("data", (chunk: Buffer) => {
      try {
        const [frame] = reader.read(chunk);
        if (frame !== undefined) resolve(frame);
      } catch {
        resolve(null);
      }
    });
  });
}
