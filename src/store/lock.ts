/**
 * An exclusive lock on a separate file, held by SQLite: unlike a pid file, it does not outlive its process.
 *
 * The file stays empty. Never open it with `fs` while it is held: closing such a descriptor would drop the lock.
 */
import { makePrivate } from "./connection.ts";
import { faultOf } from "./sqlite-faults.ts";
import { loadSqlite } from "./sqlite-module.ts";
import { Fault } from "../core/faults.ts";
import type { FileLock } from "./contract.ts";

export async function lockWithSqlite(path: string): Promise<FileLock | null> {
  const { DatabaseSync } = loadSqlite();
  let db: InstanceType<typeof DatabaseSync> | null = null;
  try {
    makePrivate(path);
    db = new DatabaseSync(path, { timeout: 0, defensive: true });
    // The transaction is never committed. No prepared statements: an uncollected statement keeps the file open.
    db.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
  } catch (error) {
    db?.close();
    const fault = faultOf(error, path);
    if (fault instanceof Fault && fault.code === "index_busy") return null;
    throw fault;
  }
  const held = db;
  return {
    release() {
      if (held.isOpen) held.close();
    },
  };
}
