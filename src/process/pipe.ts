/** A child whose stdout and stderr are two pipes. */
import type { Writable } from "node:stream";
import type { Exit } from "../core/events.ts";
import {
  launch,
  lockWords,
  settle,
  TAKE_LOCK,
  type Child,
  type ChildSpec,
  type Flow,
  type SpawnedChild,
  type OnOutput,
  shellUnsafeEnv,
} from "./child.ts";
import { deathSignalPrefix } from "./program.ts";

/**
 * Node's pipes are socket pairs. Other processes cannot open those through /proc, so none can forge a line of the
 * agent.
 */
export async function spawnPiped(spec: ChildSpec, onOutput: OnOutput): Promise<Child> {
  const launched = await launch(spec, { prefix: await guard(spec), output: "pipe" });
  const { stdout, stderr } = launched.process;
  if (stdout === null || stderr === null) throw new Error("a pipe was not made");
  const flow: Flow = { paused: false, chunks: 0 };
  const streams = [stdout, stderr];
  for (const [stream, name] of [
    [stdout, "stdout"],
    [stderr, "stderr"],
  ] as const) {
    stream.on("error", () => {});
    stream.on("data", (chunk: Buffer) => {
      flow.chunks += 1;
      onOutput(name, chunk);
    });
  }
  const applyPause = () => {
    for (const stream of streams) {
      if (flow.paused) stream.pause();
      else stream.resume();
    }
  };
  return {
    identity: launched.identity,
    ended: end(launched, flow, applyPause),
    pause() {
      flow.paused = true;
      applyPause();
    },
    resume() {
      flow.paused = false;
      applyPause();
    },
    write: (data) => write(launched.process.stdin, data),
    closeInput: () => void launched.process.stdin?.end(),
    resize() {},
  };
}

/**
 * The parent may have died before its death signal was set up; the program must not begin then. Constant: everything
 * that varies is a positional parameter.
 */
const GUARD = `
[ "$PPID" = "$1" ] || exit 143
${TAKE_LOCK}
shift 3
exec "$@"
`;

async function guard(spec: ChildSpec): Promise<readonly string[]> {
  const lock = lockWords(spec);
  if ((await deathSignalPrefix()).length === 0 && lock[0] === "") return [];
  return ["/bin/sh", "-c", GUARD, "sh", String(process.pid), ...lock, ...shellUnsafeEnv(spec.env)];
}

/** The largest queue for a program that does not read. */
const MAX_WAITING = 16 * 1024 * 1024;

function write(stdin: Writable | null, data: Buffer | string): boolean {
  // Ignores writes after the child closed its stdin.
  if (stdin === null || !stdin.writable) return true;
  if (stdin.writableLength + Buffer.byteLength(data) > MAX_WAITING) return false;
  stdin.write(data);
  return true;
}

async function end(launched: SpawnedChild, flow: Flow, applyPause: () => void): Promise<Exit> {
  const { stdin, stdout, stderr } = launched.process;
  const streams = [stdout, stderr].filter((stream) => stream !== null);
  const closed = Promise.all(
    streams.map((stream) => new Promise<void>((resolve) => stream.once("close", resolve))),
  );
  const exit = await launched.exited;
  // Node resumes all pipes after an exit; a pause must last until it is lifted.
  setImmediate(applyPause);
  await settle(closed, flow);
  for (const stream of streams) stream.destroy();
  stdin?.destroy();
  return exit;
}
