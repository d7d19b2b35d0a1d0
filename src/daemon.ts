/**
 * The daemon's entry: one detached process that supervises all agents. It may be killed at any moment. Body:
 * supervisor/daemon.ts.
 */
import { keepDebuggersOut, keepFilesPrivate } from "./process/umask.ts";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { stateDirectory } from "./state/directory.ts";
import { exitCodeOf, Fault } from "./core/faults.ts";
import { openDeps } from "./setup.ts";
import { openDaemonLog, runDaemon } from "./supervisor/supervisor.ts";
import { daemonPlaces } from "./supervisor/daemon-client.ts";
import { VERSION } from "./version.ts";

const AGAIN_MS = 5_000;

keepFilesPrivate();
keepDebuggersOut();
// The process that started the daemon may close its terminal or pipe.
process.on("SIGHUP", () => {});
process.on("SIGPIPE", () => {});

const terminal = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };
const early: string[] = [];
const quiet = { warn: (text: string) => void early.push(text), info: () => {} };
void main();

async function main(): Promise<never> {
  const opened = await openWorld();
  const log = openDaemonLog(daemonPlaces(opened).log, opened.clock, process.pid);
  for (const text of early) log.warn(text);
  const deps = { ...opened, log };
  // State is undefined after a bug, so the daemon exits; the next command starts a daemon that finds everything in the
  // store.
  process.on("uncaughtException", (error) => {
    log.note("a bug", { detail: String(error.stack ?? error) });
    process.exit(70);
  });
  try {
    await runDaemon(deps, { version: VERSION, log });
  } catch (error) {
    const detail =
      error instanceof Fault ? error.message : String(error instanceof Error ? error.stack : error);
    log.warn(detail);
    process.exitCode = exitCodeOf(error);
  }
  await deps.store[Symbol.asyncDispose]();
  process.exit();
}

/**
 * An index that is lost while an agent works is rebuilt after that agent ends, and the daemon must be there to do it.
 */
async function openWorld(): ReturnType<typeof openDeps> {
  for (let said = false; ; said = true) {
    try {
      return await openDeps({ cwd: null, badConfig: "refuse", log: quiet, terminal });
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      const line = { at: new Date().toISOString(), pid: process.pid, level: "warn", message: error.message };
      if (!said) process.stderr.write(`${JSON.stringify(line)}\n`);
      if (error.code !== "index_damaged" || !existsSync(stateDirectory(process.env)))
        process.exit(exitCodeOf(error));
      await sleep(AGAIN_MS);
    }
  }
}
