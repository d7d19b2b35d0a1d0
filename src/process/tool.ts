/** A short-lived helper program (`--version`, git, an engine's export): bounded in time and in output. */
import type { Exit } from "../core/events.ts";
import type { ChildSpec } from "./child.ts";
import { spawnPiped } from "./pipe.ts";
import { endTree } from "./tree.ts";

export interface ToolOptions extends Pick<ChildSpec, "cwd" | "env"> {
  readonly timeoutMs: number;
  /** For each stream; what is beyond it is read and dropped. */
  readonly maxBytes: number;
  /** Absent: stdin is empty. */
  readonly stdin?: string;
}

export interface ToolResult extends Exit {
  readonly stdout: string;
  readonly stderr: string;
  /** It was ended with all its children because the time was up. */
  readonly timedOut: boolean;
  /** Output was dropped. */
  readonly cut: boolean;
}

/** A program that fails is a result; one that cannot be started is a Fault. */
export async function runTool(
  file: string,
  args: readonly string[],
  options: ToolOptions,
): Promise<ToolResult> {
  const kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const room = { stdout: options.maxBytes, stderr: options.maxBytes };
  let cut = false;
  const { cwd, env, stdin = null } = options;
  const child = await spawnPiped({ file, args, cwd, env, stdin }, (stream, chunk) => {
    if (chunk.length > room[stream]) cut = true;
    const part = chunk.subarray(0, room[stream]);
    room[stream] -= part.length;
    if (part.length > 0) kept[stream].push(part);
  });
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    void endTree(child.identity, "", { interruptMs: 0, terminateMs: 0 }, "kill");
  }, options.timeoutMs);
  const exit = await child.ended;
  clearTimeout(timer);
  const text = (chunks: readonly Buffer[]) => Buffer.concat(chunks).toString("utf8");
  return { ...exit, stdout: text(kept.stdout), stderr: text(kept.stderr), timedOut, cut };
}
