/**
 * `keep.ts PROGRAM ARGS…`: runs one of our programs in a separate temporary folder. However it ends, by itself or by a
 * signal, all processes whose environment names the folder end with it, and the folder is removed. This is a separate
 * process: it is never too busy for a signal, and the program may be killed.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { endAll } from "../src/certify/place.ts";

/** A process that is between two programs has no environment for a moment, so it is looked for more than once. */
const LOOKS = 3;
const LOOK_MS = 100;

const [program = "", ...args] = process.argv.slice(2);
const stopped = new Promise<number>((stop) => {
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => stop(128 + constants.signals[name]));
});
const root = makeFolder(tmpdir());
// What has to be in memory, and not on a disk.
const memory = existsSync("/dev/shm") ? makeFolder("/dev/shm") : null;
try {
  const child = spawn(process.execPath, ["--import", "tsx", program, ...args], {
    stdio: "inherit",
    // With the slash this is a path below the folder, which identifies its processes.
    env: { ...process.env, TMPDIR: `${root}/`, ...(memory === null ? {} : { MEMORY_FOLDER: memory }) },
  });
  const ended = new Promise<number>((done, fail) => {
    child.on("error", fail);
    child.on("exit", (code, signal) => done(code ?? 128 + constants.signals[signal ?? "SIGKILL"]));
  });
  process.exitCode = await Promise.race([stopped, ended]);
  child.kill("SIGKILL");
} finally {
  for (let look = 0; look < LOOKS; look += 1) {
    await endAll(root);
    await sleep(LOOK_MS);
  }
  remove(root);
  if (memory !== null) remove(memory);
}

/** Open to everybody, as the one in which it lies: a second user must be kept out by Reprise. */
function makeFolder(place: string): string {
  const folder = realpathSync(mkdtempSync(join(place, "reprise-kept-")));
  chmodSync(folder, 0o755);
  return folder;
}

/** Some of the tests close directories to themselves. */
function remove(folder: string): void {
  spawnSync("chmod", ["-R", "u+rwX", folder], { stdio: "ignore" });
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
}
