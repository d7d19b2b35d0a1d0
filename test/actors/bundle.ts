/** Scripted agents as programs, bundled from the source for tests that do not wait for a build. */
import { symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildSync } from "esbuild";

const ENTRIES = {
  /** The agent that ships. */
  demo: "src/demo/main.ts",
  /** The agent that plays real engines: `--as ENGINE -- ARGS`. */
  actor: "test/actors/main.ts",
};

/** Returns the path of the program, which stands in `folder`. */
export function bundleAgent(name: keyof typeof ENTRIES, folder: string): string {
  const outfile = join(folder, `${name}-agent.mjs`);
  // The database library is not bundled; it is found from where the bundle stands.
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  buildSync({
    entryPoints: [ENTRIES[name]],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["@photostructure/sqlite"],
    logLevel: "error",
  });
  return outfile;
}
