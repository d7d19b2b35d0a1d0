/**
 * A SQLite file beside the index whose content can be made again. It is private like the index, but nothing is synced:
 * the death of a process loses nothing, and a file that a power cut damaged is made again.
 */
import { statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { Fault } from "../core/faults.ts";
import { fileSystemOf, journalFor, makePrivate } from "./connection.ts";
import { faultOf, isUnwritable } from "./sqlite-faults.ts";
import { loadSqlite } from "./sqlite-module.ts";

export type SideDatabase = DatabaseSyncInstance;

export interface SideOptions {
  readonly readOnly: boolean;
  readonly busyTimeoutMs: number;
}

/** What an error of such a file means. Null: a bug. */
export function sideTrouble(error: unknown, path: string): "busy" | "damaged" | "unwritable" | null {
  const fault = faultOf(error, path);
  if (!(fault instanceof Fault)) return null;
  if (fault.code === "index_busy") return "busy";
  return fault.code === "index_damaged" ? "damaged" : "unwritable";
}

/** The same as a fault that says what to type. Any other error is our bug and stays unchanged. */
export function sideFault(error: unknown, path: string): unknown {
  const fault = faultOf(error, path);
  if (!(fault instanceof Fault) || fault.code !== "storage_failed") return fault;
  const isDirectory = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  const what = isDirectory
    ? `${path} is a directory, but it must be a file.`
    : `${path} cannot be read or written (${error instanceof Error ? error.message : String(error)}).`;
  return new Fault(
    fault.code,
    `${what} ${isDirectory ? "M" : "Check the disk, or m"}ove it away; the same command then creates a new one.`,
    {
      facts: { path },
      cause: error,
    },
  );
}

export function openSideDatabase(path: string, { readOnly, busyTimeoutMs }: SideOptions): SideDatabase {
  const { DatabaseSync } = loadSqlite();
  const options = { readOnly, timeout: busyTimeoutMs, defensive: true };
  if (readOnly) return openReadOnly();
  makePrivate(path);
  const db = new DatabaseSync(path, options);
  try {
    const { version } = db.prepare("SELECT sqlite_version() AS version").get() as { version: string };
    const { mode } = journalFor(version, fileSystemOf(path));
    db.exec(
      `PRAGMA journal_mode = ${mode}; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF`,
    );
    return db;
  } catch (error) {
    db.close();
    throw error;
  }

  /** In a directory that cannot be written, SQLite needs the promise that nobody writes. */
  function openReadOnly(): SideDatabase {
    const reader = new DatabaseSync(path, options);
    try {
      reader.prepare("PRAGMA user_version").get();
      return reader;
    } catch (error) {
      reader.close();
      if (!isUnwritable(error)) throw error;
      return new DatabaseSync(`${pathToFileURL(path).href}?immutable=1`, options);
    }
  }
}
