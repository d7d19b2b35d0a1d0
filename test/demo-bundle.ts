/** The demo agent as a program of its own, bundled from the source for tests that do not wait for a build. */
import { symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildSync } from "esbuild";

/** Returns the path of the program, which stands in `folder`. */
export function bundleDemoAgent(folder: string): string {
  const outfile = join(folder, "demo-agent.mjs");
  // The database library is not bundled; it is found from where the bundle stands.
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  buildSync({
    entryPoints: ["src/demo/agent.ts"],
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
