/** Loads SQLite. Its binary comes with the package, for the usual systems; where it is missing that is said. */
import { createRequire } from "node:module";
import type { SqliteModule } from "@photostructure/sqlite";
import { Fault, wantOf } from "../core/faults.ts";

/** By `require`, as the other loader needs 3 ms more, of which every command would have its part. */
export function loadSqlite(): SqliteModule {
  try {
    return createRequire(import.meta.url)("@photostructure/sqlite") as SqliteModule;
  } catch (cause) {
    const want = wantOf(cause);
    if (want !== null) throw want;
    const platform = `${process.platform}-${process.arch}`;
    throw new Fault(
      "platform_unsupported",
      `The index needs SQLite, and the package @photostructure/sqlite is missing or has no build for this system (${platform}). ` +
        "Install Reprise again; `reprise --version` and `--help` work without it.",
      { facts: { platform }, cause },
    );
  }
}
