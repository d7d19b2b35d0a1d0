/** One digest of all that a file or a folder holds, in bounded time whatever an agent has put there. */
import { createHash } from "node:crypto";
import { type Dirent, readdirSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { isErrno } from "./files.ts";
import { MAX_SMALL, readSmallText, realPath } from "./places.ts";
import { hashFile } from "./tree.ts";

/** It cannot be compared: it holds too many entries, is a pipe or a socket, or may not be read. It is not equal to itself. */
export const UNCOMPARABLE = "uncomparable";
const MOST_ENTRIES = 10_000;
/** What else is in a folder counts by size and time. */
const MOST_BYTES = 128 << 20;

type Part = (content: string) => string;

/**
 * SHA-256 of a file, or of all files below a folder with their names, without a repository's data. `unchanged` selects the relevant
 * part of a file of at most 16 MiB. Null: missing, or a device.
 */
export function contentDigest(path: string, unchanged: Part = (content) => content): string | null {
  const stat = statOf(path);
  if (stat === null || stat === UNCOMPARABLE) return stat;
  if (stat.isCharacterDevice() || stat.isBlockDevice()) return null;
  const real = realPath(path);
  if (real === null || !(stat.isFile() || stat.isDirectory())) return UNCOMPARABLE;
  const walk = new Walk(unchanged);
  if (stat.isDirectory()) return walk.folder(real);
  const word = walk.file(real, stat);
  return typeof word === "string" ? word : sha256(JSON.stringify(word));
}

function sha256(content: string): string {
  return createHash("sha256").update(Buffer.from(content, "latin1")).digest("hex");
}

function statOf(path: string): Stats | typeof UNCOMPARABLE | null {
  try {
    return statSync(path);
  } catch (error) {
    if (isErrno(error, "ENOENT", "ENOTDIR")) return null;
    if (isErrno(error)) return UNCOMPARABLE;
    throw error;
  }
}

interface Place {
  /** Below the folder, by the names that lead there. */
  readonly name: string;
  /** Without links. */
  readonly real: string;
}

class Walk {
  readonly #unchanged: Part;
  readonly #lines: string[] = [];
  /** Each directory is walked once, however many links lead to it. */
  readonly #walked = new Map<string, string>();
  #entries = 0;
  #bytes = 0;

  constructor(unchanged: Part) {
    this.#unchanged = unchanged;
  }

  folder(real: string): string {
    const links = this.#walk({ name: "", real });
    for (let link = links.shift(); link !== undefined; link = links.shift()) {
      if (this.#entries > MOST_ENTRIES) return UNCOMPARABLE;
      links.push(...this.#follow(link));
    }
    if (this.#entries > MOST_ENTRIES) return UNCOMPARABLE;
    return sha256(this.#lines.toSorted().join("\n"));
  }

  /** The links below, which are followed when all directories have been walked under their own names. */
  #walk(top: Place): Place[] {
    const open = [top];
    const links: Place[] = [];
    for (let at = open.shift(); at !== undefined; at = open.shift()) {
      if (this.#walked.has(at.real)) {
        this.#add(at.name, "same", this.#walked.get(at.real));
        continue;
      }
      this.#walked.set(at.real, at.name);
      for (const entry of this.#entriesIn(at)) {
        const below = { name: join(at.name, entry.name), real: join(at.real, entry.name) };
        if (this.#entries > MOST_ENTRIES) return [];
        if (entry.isDirectory()) open.push(below);
        else if (entry.isSymbolicLink()) links.push(below);
        else this.#addFile(below);
      }
    }
    return links;
  }

  #entriesIn({ name, real }: Place): readonly Dirent[] {
    try {
      const found = readdirSync(real, { withFileTypes: true }).filter((entry) => entry.name !== ".git");
      this.#entries += found.length;
      return found.toSorted((one, other) => (one.name < other.name ? -1 : 1));
    } catch (error) {
      if (!isErrno(error)) throw error;
      this.#add(name, "unreadable");
      return [];
    }
  }

  #follow({ name, real: link }: Place): readonly Place[] {
    const real = realPath(link);
    const stat = real === null ? null : statOf(real);
    if (real !== null && stat !== null && stat !== UNCOMPARABLE && stat.isDirectory())
      return this.#walk({ name, real });
    if (real === null) this.#add(name, sha256(this.#unchanged("")));
    else this.#addFile({ name, real });
    return [];
  }

  #addFile({ name, real }: Place): void {
    const stat = statOf(real);
    if (stat === null || stat === UNCOMPARABLE) this.#add(name, "unreadable");
    else if (stat.isFile()) this.#add(name, ...[this.file(real, stat)].flat());
    else this.#add(name, "special", stat.mode, stat.rdev);
  }

  #add(...words: readonly unknown[]): void {
    this.#lines.push(JSON.stringify(words));
  }

  /** The digest of its content, or else what changes with it. */
  file(real: string, stat: Stats): string | readonly unknown[] {
    const known = ["size", stat.size, stat.mtimeMs, stat.ctimeMs];
    if (this.#bytes + stat.size > MOST_BYTES) return known;
    this.#bytes += stat.size;
    if (stat.size > MAX_SMALL) return hashFile(real, "sha256", () => "") ?? known;
    const content = readSmallText(real, "latin1");
    return content === null ? known : sha256(this.#unchanged(content));
  }
}
