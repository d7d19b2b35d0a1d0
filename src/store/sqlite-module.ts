/** Loads SQLite. The package brings its binary for the usual systems; a missing one is reported. */
import { createRequire } from "node:module";
import type { SqliteModule } from "@photostructure/sqlite";
import { Fault, wantOf } from "../core/faults.ts";

/** Uses `require`: the other loader costs every command 3 ms more. */
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
