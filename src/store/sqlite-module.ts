/** Loads SQLite. Its binary comes with the package, for the usual systems; where it is missing that is said. */
import type { SqliteModule } from "@photostructure/sqlite";
import { Fault } from "../core/faults.ts";

export async function loadSqlite(): Promise<SqliteModule> {
  try {
    return await import("@photostructure/sqlite");
  } catch (cause) {
    const platform = `${process.platform}-${process.arch}`;
    throw new Fault(
      "platform_unsupported",
      `The index needs SQLite, and the package @photostructure/sqlite is missing or has no build for this system (${platform}). ` +
        "Install Reprise again; `reprise --version` and `--help` work without it.",
      { facts: { platform }, cause },
    );
  }
}
