/**
 * The entry of the daemon: one detached process that watches all agents. It may be killed at any moment.
 */
import { exitCodeOf, Fault } from "./core/faults.ts";
import { openDeps } from "./setup.ts";
import { daemonPlaces, openDaemonLog, runDaemon } from "./supervisor/supervisor.ts";
import { VERSION } from "./version.ts";

process.umask(0o077);
// Whoever started us may close its terminal or its pipe.
process.on("SIGHUP", () => {});
process.on("SIGPIPE", () => {});

const terminal = { stdin: false, stdout: false, stderr: false, columns: 80, rows: 24, color: false };
const early: string[] = [];
const quiet = { warn: (text: string) => void early.push(text), info: () => {} };
const opened = await openDeps({ cwd: null, log: quiet, terminal });
const log = openDaemonLog(daemonPlaces(opened).log, opened.clock, process.pid);
for (const text of early) log.warn(text);
const deps = { ...opened, log };
// What is unknown after a bug is not gone on with: the next command starts a daemon that finds everything in the store.
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
