/**
 * Which process writes to which file and works in which directory, as the system shows it. Linux only; empty elsewhere.
 */
import { readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { basename } from "node:path";
import type { ProcessIdentity } from "../core/records.ts";
import { AgentProcesses, MARKER_VARIABLE } from "./tree.ts";

/** Which of these files the process or its descendants have open for writing. */
export function writtenBy(
  root: ProcessIdentity,
  marker: string,
  paths: readonly string[],
): ReadonlySet<string> {
  const real = new Map(paths.map((path) => [quietly(() => realpathSync(path)) ?? path, path]));
  if (real.size === 0 || process.platform !== "linux") return new Set();
  const open = new AgentProcesses(root, marker).alive().flatMap(({ pid }) => filesOf(pid));
  return new Set(open.flatMap((path) => real.get(path) ?? []));
}

function filesOf(pid: number): readonly string[] {
  const names = quietly(() => readdirSync(`/proc/${pid}/fd`)) ?? [];
  return names.flatMap((name) => {
    const path = quietly(() => readlinkSync(`/proc/${pid}/fd/${name}`));
    return path?.startsWith("/") === true && writes(pid, name) ? [path] : [];
  });
}

function writes(pid: number, name: string): boolean {
  const info = quietly(() => readFileSync(`/proc/${pid}/fdinfo/${name}`, "latin1")) ?? "";
  const flags = Number.parseInt(/^flags:\s*([0-7]+)/m.exec(info)?.[1] ?? "0", 8);
  return (flags & 3) !== 0;
}

/** Whether this program runs in the directory without any attempt's marker. */
export function runsUnmarked(program: string, directory: string): boolean {
  if (process.platform !== "linux") return false;
  return (quietly(() => readdirSync("/proc")) ?? [])
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .some((pid) => {
      if (quietly(() => readlinkSync(`/proc/${pid}/cwd`)) !== directory) return false;
      const words = quietly(() => readFileSync(`/proc/${pid}/cmdline`, "utf8"))?.split("\0") ?? [];
      // The name of a script follows the program that runs it.
      if (!words.slice(0, 2).some((word) => basename(word) === program)) return false;
      const env = quietly(() => readFileSync(`/proc/${pid}/environ`, "latin1"));
      return env !== null && !`\0${env}`.includes(`\0${MARKER_VARIABLE}=`);
    });
}

/** Null: the process has ended meanwhile, or belongs to another user. */
function quietly<T>(look: () => T): T | null {
  try {
    return look();
  } catch {
    return null;
  }
}
