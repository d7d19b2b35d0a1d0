/** Where the config files are, and their text. */
import { closeSync, existsSync, fstatSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorCode, isErrno } from "../core/errno.ts";
import type { Env } from "../core/deps.ts";
import { Fault, wantOf } from "../core/faults.ts";
import { openToRead } from "./files.ts";

const MAX_CONFIG = 1024 * 1024;

/** Null: HOME is unknown. */
export function userConfigFile(env: Env): string | null {
  const base =
    env["XDG_CONFIG_HOME"] ?? (env["HOME"] === undefined ? undefined : join(env["HOME"], ".config"));
  return base === undefined || !base.startsWith("/") ? null : join(base, "reprise", "config.toml");
}

/** The nearest `reprise.toml`, from the directory up to the root of its repository. */
export function findProjectFile(cwd: string): string | null {
  for (let directory = cwd; ; directory = dirname(directory)) {
    const file = join(directory, "reprise.toml");
    if (existsSync(file)) return file;
    if (existsSync(join(directory, ".git")) || dirname(directory) === directory) return null;
  }
}

/** Null: the file does not exist. */
export function readConfigText(file: string): string | null {
  let fd: number;
  try {
    fd = openToRead(file, "follow");
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    throw unreadable(file, error);
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile())
      throw new Fault("config_invalid", `The config file ${file} is not a regular file.`, {
        facts: { file },
      });
    if (stat.size > MAX_CONFIG)
      throw new Fault("config_invalid", `The config file ${file} is larger than 1 MiB.`, { facts: { file } });
    return readFileSync(fd, "utf8");
  } catch (error) {
    throw error instanceof Fault ? error : unreadable(file, error);
  } finally {
    closeSync(fd);
  }
}

function unreadable(file: string, error: unknown): Fault {
  const why = errorCode(error) ?? "unknown error";
  const fault = new Fault("config_invalid", `The config file ${file} cannot be read (${why}).`, {
    facts: { file },
    cause: error,
  });
  return wantOf(error) ?? fault;
}
