/**
 * The entry of a holder: one detached process that runs one attempt and ends with its agent.
 *
 * Its order comes through an inherited descriptor; after the answer nothing ties it to its starter.
 */
import { keepDebuggersOut, keepFilesPrivate } from "./process/umask.ts";
import { Socket } from "node:net";
import { writeSync } from "node:fs";
import type { WorldOptions } from "./cli/cli.ts";
import { Fault, wantOf } from "./core/faults.ts";
import { hold } from "./detached/holder.ts";
import { type HolderOrder, ORDER_FD } from "./detached/launch.ts";
import { encode, encodeFault, FrameReader } from "./ipc/wire.ts";
import type { JsonObject } from "./lib/json.ts";
import { selectRun } from "./run/select.ts";
import { configure, openDeps } from "./setup.ts";

keepFilesPrivate();
keepDebuggersOut();

const heard = { warnings: [] as string[], notes: [] as string[] };
let answered = false;
const log = {
  warn: (message: string) => void (answered ? write("warn", message) : heard.warnings.push(message)),
  info: (message: string) => void (answered ? write("info", message) : heard.notes.push(message)),
};

const pipe = new Socket({ fd: ORDER_FD, readable: true, writable: true });
// The starter may be gone; the holder continues.
pipe.on("error", () => {});
const order = await read(pipe);
if (order !== null) {
  if (order.nodeOptions !== null) process.env["NODE_OPTIONS"] = order.nodeOptions;
  process.exitCode = await carryOut(order);
}
// A forgotten timer or socket must not keep a process without an agent.
process.exit();

async function carryOut({ wish }: HolderOrder): Promise<number> {
  try {
    const terminal = { stdin: false, stdout: false, stderr: false, columns: 120, rows: 40, color: false };
    const options = { log, terminal, runsAgents: true, trustCwd: wish.request.trustCwd };
    const deps = await world(wish, options);
    const result = await hold(deps, wish, (launched) => answer({ ...launched }));
    answer({ handle: result.run.handle, runId: result.run.runId, attempt: result.attempt.n });
    for (const diagnostic of result.attempt.diagnostics) log.warn(`${result.run.handle}: ${diagnostic}`);
    await deps.store[Symbol.asyncDispose]();
    return result.exitCode;
  } catch (thrown) {
    const error = wantOf(thrown) ?? thrown;
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    write("error", error instanceof Fault ? error.message : detail);
    answer({ error: error instanceof Fault ? encodeFault(error) : { code: "bug", message: detail } });
    return 1;
  }
}

/** A resumed run uses the config of its directory; the starter has already asked about trust. */
async function world(wish: HolderOrder["wish"], options: WorldOptions) {
  if (wish.do === "start") return openDeps({ ...options, cwd: wish.request.cwd });
  const deps = await openDeps({ ...options, cwd: null });
  const run = await selectRun(deps, wish.request.selector);
  return configure(deps, { ...options, cwd: run.cwd });
}

/** Only the first answer counts; later ones go to the log. */
function answer(frame: JsonObject): void {
  if (answered) return;
  answered = true;
  pipe.end(encode({ ...frame, ...heard }));
}

/** Null: the starter died before it sent the whole order. */
function read(from: Socket): Promise<HolderOrder | null> {
  const reader = new FrameReader();
  return new Promise((resolve) => {
    from.once("close", () => resolve(null));
    from.on("data", (chunk: Buffer) => {
      const [frame] = reader.read(chunk);
      if (frame !== undefined) resolve(frame as unknown as HolderOrder);
    });
  });
}

/** stderr is a file: the line is written when this returns, even if we die right after. */
function write(level: string, message: string): void {
  try {
    writeSync(
      2,
      `${JSON.stringify({ at: new Date().toISOString(), pid: process.pid, level, message: message.slice(0, 4_000) })}\n`,
    );
  } catch {
    // A full disk takes no log.
  }
}
