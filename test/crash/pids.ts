/** P7: pids that are used again, and processes that are dead but not buried. */
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const pids: Promised = {
  id: "P7",
  what: "reused pids and zombies",
  wrong: "mistaken for another process",
  means:
    "A process with the reused pid of a dead owner, agent, holder or daemon never gets a signal and blocks no start, resume or stop; a zombie counts as dead",
  check,
};

/** A namespace in which the next pid can be chosen; its first process buries the dead. */
const NAMESPACE = [
  ...(process.getuid?.() === 0 ? [] : ["-r"]),
  "-m",
  "-p",
  "-f",
  "--mount-proc",
  "--kill-child",
];
const CHOOSES = "echo 100 >/proc/sys/kernel/ns_last_pid";

async function check({ short, seed }: Scale): Promise<Verdict> {
  if (spawnSync("unshare", [...NAMESPACE, "sh", "-c", CHOOSES]).status !== 0) {
    const untried = ["reused pids: no namespace is allowed here in which pids can be chosen"];
    return { tried: 0, broken: [], untried, figures: {} };
  }
  const script = resolve("test/crash/pids-inside.ts");
  const words = [process.execPath, "--import", "tsx", script, String(short ? 2 : 25), String(seed)];
  const inside = spawnSync("unshare", [...NAMESPACE, "sh", "-c", '"$@"; exit $?', "sh", ...words], {
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  if (inside.status !== 0) throw new Error(`the namespace failed: ${inside.stderr}`);
  return JSON.parse(inside.stdout) as Verdict;
}
