/**
 * The program of a holder: one background process that runs one attempt and ends with its agent.
 *
 * Its request comes through an inherited descriptor. After its reply it no longer depends on its launcher. Body:
 * detached/holder.ts.
 */
import { keepDebuggersOut, keepFilesPrivate } from "./process/umask.ts";
import { Socket } from "node:net";
import { existsSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { WorldOptions } from "./cli/cli.ts";
import { Fault, outageOf } from "./core/faults.ts";
import type { AttemptRecord, RunRecord } from "./core/records.ts";
import { hold, type HolderStart } from "./detached/holder.ts";
import { encodeReply, LAUNCH_FD, type LaunchRequest, readRequest } from "./detached/launch-protocol.ts";
import { endNotice, limitNotice, notify } from "./notify/notify.ts";
import type { Deps } from "./run/run.ts";
import { selectRun } from "./run/select.ts";
import { configure, openDeps } from "./setup.ts";

keepFilesPrivate();
keepDebuggersOut();

const early = { warnings: [] as string[], notes: [] as string[] };
let replied = false;
const log = {
  warn: (message: string) => void (replied ? write("warn", message) : early.warnings.push(message)),
  info: (message: string) => void (replied ? write("info", message) : early.notes.push(message)),
};

const pipe = new Socket({ fd: LAUNCH_FD, readable: true, writable: true });
// The launcher may be gone; the holder continues.
pipe.on("error", () => {});
void main();

async function main(): Promise<never> {
  const launch = await readRequest(pipe);
  if (launch !== null) {
    if (launch.nodeOptions !== null) process.env["NODE_OPTIONS"] = launch.nodeOptions;
    process.exitCode = await run(launch.hold);
  }
  // A forgotten timer or socket must not keep a process alive that has no agent.
  process.exit();
}

async function run(request: LaunchRequest["hold"]): Promise<number> {
  try {
    const terminal = { stdin: false, stdout: false, stderr: false, columns: 120, rows: 40, color: false };
    const options = { log, terminal, runsAgents: true, trustCwd: request.request.trustCwd };
    const deps = await depsFor(request, options);
    const result = await hold(deps, request, reply);
    reply({ handle: result.run.handle, runId: result.run.runId, attempt: result.attempt.n });
    for (const diagnostic of result.attempt.diagnostics) log.warn(`${result.run.handle}: ${diagnostic}`);
    await tellEnd(deps, result.run, result.attempt);
    await deps.store[Symbol.asyncDispose]();
    return result.exitCode;
  } catch (thrown) {
    const error = outageOf(thrown) ?? thrown;
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    write("error", error instanceof Fault ? error.message : detail);
    reply(error instanceof Fault ? error : detail);
    return 1;
  }
}

/** A supervised agent's end is the runbook's business, but a limit concerns the account. */
async function tellEnd(deps: Deps, ended: RunRecord, attempt: AttemptRecord): Promise<void> {
  const limit = limitNotice(ended, attempt, deps.clock.now());
  const isSupervised = existsSync(join(ended.runDirectory, "agent.json"));
  const notice = limit ?? (isSupervised ? null : endNotice(ended, attempt));
  if (notice !== null) await notify(deps, notice, `run ${ended.handle}`);
}

/** A resumed run uses the config of its directory; the launcher has already asked about trust. */
async function depsFor(request: LaunchRequest["hold"], options: WorldOptions) {
  if (request.do === "start") return openDeps({ ...options, cwd: request.request.cwd });
  const deps = await openDeps({ ...options, cwd: null });
  const found = await selectRun(deps, request.request.selector);
  return configure(deps, { ...options, cwd: found.cwd });
}

/** Only the first reply is sent; later messages go to the log. */
function reply(result: HolderStart | Fault | string): void {
  if (replied) return;
  replied = true;
  pipe.end(encodeReply(result, early));
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
