/** Bundles the CLI and the demo agent into `dist/`: small chunks, loaded when a command needs them. */
import { chmodSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const common = {
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  minify: true,
  // Bug reports name functions, not letters.
  keepNames: false,
  legalComments: "none",
  define: { REPRISE_VERSION: JSON.stringify(version) },
  external: ["@lydell/node-pty", "@photostructure/sqlite", "@xterm/headless"],
  logLevel: "warning",
};

rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
await build({
  ...common,
  entryPoints: { reprise: "src/main.ts" },
  outdir: "dist",
  splitting: true,
  chunkNames: "chunk-[name]-[hash]",
  banner: {
    // commander is CommonJS and asks for Node's own modules by `require`.
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
});
await build({ ...common, entryPoints: { "demo-agent": "src/demo/agent.ts" }, outdir: "dist" });
const bin = fileURLToPath(new URL("../dist/reprise.js", import.meta.url));
const { writeFileSync } = await import("node:fs");
writeFileSync(bin, `#!/usr/bin/env node\n${readFileSync(bin, "utf8")}`);
chmodSync(bin, 0o755);
