/**
 * The files of the page: a fixed list, made by the build and read once into memory. A request names an entry of the
 * list; no part of a request becomes a path.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Fault } from "../core/faults.ts";
import { isErrno } from "../core/errno.ts";
import { isObject, parseObject, stringIn } from "../lib/json.ts";

export interface PageFile {
  readonly type: string;
  readonly bytes: Buffer;
  /** The name has a hash of the content. */
  readonly immutable: boolean;
}

/** The paths of screens, which all get the same page. */
const SCREENS =
  /^\/(?:$|inbox$|runs$|search$|agents$|batches$|reviews$|usage$|doctor$|help$|runs\/[0-9a-f]{4,8}(?:\/(?:terminal|changes|attempts|replay(?:\/\d{1,9})?))?$)/;

export function loadPage(): ReadonlyMap<string, PageFile> {
  const at = (name: string) => fileURLToPath(new URL(`web/${name}`, import.meta.url));
  try {
    const list = parseObject(readFileSync(at("files.json"), "utf8")) ?? {};
    return new Map(
      Object.entries(list).flatMap(([path, entry]) => {
        const [file, type] = [stringIn(entry, "file"), stringIn(entry, "type")];
        if (!isObject(entry) || file === undefined || type === undefined) return [];
        return [[path, { type, bytes: readFileSync(at(file)), immutable: path.startsWith("/assets/") }]];
      }),
    );
  } catch (error) {
    if (!isErrno(error, "ENOENT")) throw error;
    throw new Fault(
      "storage_failed",
      "The page of `reprise web` is missing from this installation. Install Reprise again.",
    );
  }
}

export function pageFile(page: ReadonlyMap<string, PageFile>, path: string): PageFile | undefined {
  return page.get(SCREENS.test(path) ? "/" : path);
}
