/** Turns errors of SQLite and the file system into faults that name the index and what to type. No I/O. */
import { errorCode, isErrno } from "../core/errno.ts";
import { Fault, wantOf } from "../core/faults.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Any other error is our bug and stays unchanged. */
export function faultOf(error: unknown, path: string, schema = 0): unknown {
  const facts = { path };
  const errno = errnoOf(error);
  const code = sqliteCodeOf(error);
  if (error instanceof Fault || (errno === null && code === null)) return error;
  const why = error instanceof Error ? error.message : String(error);
  const want = errno === null ? null : wantOf(Object.assign(new Error(why), { code: errno }));
  if (want !== null) return new Fault(want.code, want.message, { facts, cause: error });
  const fault = (
    kind: "storage_full" | "storage_failed" | "index_damaged" | "index_busy" | "denied",
    text: string,
  ) => new Fault(kind, text, { facts, cause: error });

  if (code === SQLITE.BUSY || code === SQLITE.LOCKED || code === SQLITE.PROTOCOL) {
    return fault("index_busy", `The index ${path} is locked by another process (${why}). Try again.`);
  }
  if (code === SQLITE.FULL || errno === "ENOSPC" || errno === "EDQUOT") {
    return fault("storage_full", `No room to write ${path} (${why}). Free some space and try again.`);
  }
  if (code === SQLITE.ERROR && schema > MIGRATIONS.length) return newerSchema(path, schema);
  // All our statements fit our schema, so a statement that does not compile has met a damaged schema.
  if (code === SQLITE.CORRUPT || code === SQLITE.NOTADB || code === SQLITE.ERROR) {
    return fault(
      "index_damaged",
      `The index ${path} is damaged (${why}). Type \`reprise doctor --rebuild-index\`.`,
    );
  }
  if (errno === "EPERM") return fault("denied", `${path} belongs to another user (${why}).`);
  if (errno !== null || isUnwritable(error)) {
    return fault("storage_failed", `The index ${path} cannot be read or written (${why}).`);
  }
  return error;
}

const SQLITE = {
  ERROR: 1,
  PERM: 3,
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  PROTOCOL: 15,
  NOTADB: 26,
};

export function newerSchema(path: string, found: number): Fault {
  const known = MIGRATIONS.length;
  return new Fault(
    "schema_newer",
    `The index ${path} has schema ${found}; this Reprise knows schema ${known}. Use the newer Reprise that wrote it, ` +
      "or move the file aside and type `reprise doctor --rebuild-index`.",
    { facts: { path, found, known } },
  );
}

export function notAFile(path: string): Fault {
  return new Fault(
    "storage_failed",
    `${path} is a directory, but the index must be a file. Move the directory away; the next command rebuilds the index from the run directories.`,
    { facts: { path } },
  );
}

/** The file or its directory is not writable, whatever the file contains. */
export function isUnwritable(error: unknown): boolean {
  const { PERM, READONLY, IOERR, CANTOPEN } = SQLITE;
  return [PERM, READONLY, IOERR, CANTOPEN].includes(sqliteCodeOf(error) ?? 0);
}

/**
 * The primary code; SQLite puts details into the higher bytes. For `all` and `iterate` the package reports only the
 * text.
 */
function sqliteCodeOf(error: unknown): number | null {
  if (!(error instanceof Error) || errorCode(error) !== "ERR_SQLITE_ERROR") return null;
  if ("errcode" in error && typeof error.errcode === "number") return error.errcode & 0xff;
  return CODE_OF_TEXT.get(error.message) ?? SQLITE.ERROR;
}

const CODE_OF_TEXT = new Map([
  ["database is locked", SQLITE.BUSY],
  ["database table is locked", SQLITE.LOCKED],
  ["attempt to write a readonly database", SQLITE.READONLY],
  ["disk I/O error", SQLITE.IOERR],
  ["database disk image is malformed", SQLITE.CORRUPT],
  ["database or disk is full", SQLITE.FULL],
  ["unable to open database file", SQLITE.CANTOPEN],
  ["locking protocol", SQLITE.PROTOCOL],
  ["file is not a database", SQLITE.NOTADB],
]);

/** Errors that name a missing resource. SQLite's own code covers all others. */
const NAME_OF_ERRNO = new Map<unknown, string>([
  [23, "ENFILE"],
  [24, "EMFILE"],
  [28, "ENOSPC"],
  [122, "EDQUOT"],
]);

/** Of file system errors, and of errors that SQLite passes on by number. */
export function errnoOf(error: unknown): string | null {
  if (error instanceof Error && "systemErrno" in error) return NAME_OF_ERRNO.get(error.systemErrno) ?? null;
  return isErrno(error) ? error.code : null;
}
