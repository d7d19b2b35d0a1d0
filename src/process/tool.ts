/** A short-lived helper program (`--version`, git, an engine's export): bounded in time and in output. */
import type { ToolOptions, ToolResult } from "../core/deps.ts";
import { spawnPiped } from "./pipe.ts";
import { endTree } from "./tree.ts";

const MAX_BYTES = 16 << 20;

/**
 * A program that fails is a result; a program that cannot start is a Fault. A program that takes too long, or writes
 * more than `maxBytes` on a stream, is ended with all its children, so that truncated output never counts as success.
 */
export async function runTool(
  file: string,
  args: readonly string[],
  options: ToolOptions,
): Promise<ToolResult> {
  const { cwd, env, timeoutMs, maxBytes = MAX_BYTES, stdin = null, encoding = "utf8" } = options;
  const kept = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const room = { stdout: maxBytes, stderr: maxBytes };
  const child = await spawnPiped({ file, args, cwd, env, stdin }, (stream, chunk) => {
    const part = chunk.subarray(0, Math.max(0, room[stream]));
    room[stream] -= chunk.length;
    if (part.length > 0) kept[stream].push(part);
    if (room[stream] < 0) stop();
  });
  let stopping: Promise<unknown> | undefined;
  const stop = () => {
    stopping ??= endTree(child.identity, "", { interruptMs: 0, terminateMs: 0 }, "kill");
  };
  let timedOut = false;
  const expire = () => {
    timedOut = true;
    stop();
  };
  const timer = setTimeout(expire, timeoutMs);
  // Without any time, even a fast program is too slow: a timer might fire after its end.
  if (timeoutMs <= 0) expire();
  options.signal?.addEventListener("abort", stop, { once: true });
  if (options.signal?.aborted === true) stop();
  const exit = await child.ended;
  clearTimeout(timer);
  options.signal?.removeEventListener("abort", stop);
  await stopping;
  const { code, signal } = stopping === undefined ? exit : { code: null, signal: "SIGKILL" };
  const text = (chunks: readonly Buffer[]) => Buffer.concat(chunks).toString(encoding);
  return { code, signal, stdout: text(kept.stdout), stderr: text(kept.stderr), timedOut };
}
