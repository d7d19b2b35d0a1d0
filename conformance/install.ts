/** The pinned engines on disk: installed once, by exact version and checksum, without running their install scripts. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { PinnedLab } from "./pinned.ts";
import { Mistake } from "./options.ts";

const FOLDER = fileURLToPath(new URL("./engines/", import.meta.url));
/** Says which lock file the folder was installed from. */
const STAMP = join(FOLDER, "node_modules", ".installed-from");

export function installEngines(say: (text: string) => void): void {
  const lock = createHash("sha256")
    .update(readFileSync(join(FOLDER, "package-lock.json")))
    .digest("hex");
  if (existsSync(STAMP) && readFileSync(STAMP, "utf8") === lock) return;
  say("installing the pinned engines, about 1.3 GB …");
  // The programs are run by the path of their native binaries, so nothing of what the install scripts link is needed.
  const result = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: FOLDER,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, npm_config_loglevel: "error" },
  });
  if (result.status !== 0) throw new Mistake("the engines could not be installed");
  writeFileSync(STAMP, lock);
}

/** The version that the program prints, or the obstacle. */
export function versionOf(
  lab: PinnedLab,
  root: string,
): { readonly version: string | null; readonly problem: string | null } {
  const { program } = lab;
  if (!existsSync(program))
    return {
      version: null,
      problem: `not installed: there is no package of it for ${process.platform}-${process.arch}`,
    };
  const env = { PATH: process.env["PATH"] ?? "", HOME: root, TMPDIR: root };
  const result = spawnSync(program, ["--version"], {
    env,
    encoding: "utf8",
    timeout: 60_000,
    killSignal: "SIGKILL",
  });
  const version = /\d+\.\d+\.\d+[\w.+-]*/.exec(result.stdout ?? "")?.[0] ?? null;
  if (version === lab.version) return { version, problem: null };
  return { version, problem: `says that it is ${version ?? "nothing"} instead of ${lab.version}` };
}
