/** P5: a disk that is full, at different moments. */
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const fullDisk: Promised = {
  id: "P5",
  what: "runs with a full disk",
  wrong: "lost something, or did not report it",
  means:
    "A full disk (or one without inodes) ends a command with exit code 7 and the path, destroys nothing acknowledged, and has no effect once there is room again",
  check,
};

/** Mounts need a separate namespace; for an ordinary user together with a user namespace. */
export const NAMESPACE = process.getuid?.() === 0 ? ["-m"] : ["-rm"];

async function check({ short, seed }: Scale): Promise<Verdict> {
  if (spawnSync("unshare", [...NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).status !== 0) {
    const untried = ["a full disk: no namespace is allowed here in which one can be mounted"];
    return { tried: 0, broken: [], untried, figures: {} };
  }
  const script = resolve("test/crash/full-disk-inside.ts");
  const words = ["--import", "tsx", script, String(short ? 1 : 30), String(seed)];
  const inside = spawnSync("unshare", [...NAMESPACE, process.execPath, ...words], {
    encoding: "utf8",
    maxBuffer: 64 << 20,
  });
  if (inside.status !== 0) throw new Error(`the namespace failed: ${inside.stderr}`);
  return JSON.parse(inside.stdout) as Verdict;
}
