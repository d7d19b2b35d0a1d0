/** Bundles the CLI and the demo agent into `dist/`: small chunks, loaded when a command needs them. */
import { chmodSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));
const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
/** commander loads child_process only for sub-commands in files of their own, which we have none of; it costs 8 ms. */
const withoutSpawning = {
  name: "commander-without-child-process",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:)?child_process$/ }, ({ importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path: "nothing", namespace: "nothing" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "module.exports = {}", loader: "js" }));
  },
};
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
  plugins: [withoutSpawning],
  logLevel: "warning",
};

// Built aside and put in place as a whole: a program that runs meanwhile keeps its files.
const place = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const [aside, dist, old] = [place(`.dist-${process.pid}`), place("dist"), place(`.dist-old-${process.pid}`)];
await build({
  ...common,
  entryPoints: { reprise: "src/main.ts" },
  outdir: aside,
  splitting: true,
  chunkNames: "chunk-[name]-[hash]",
  banner: {
    // commander is CommonJS and asks for Node's own modules by `require`.
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
});
await build({ ...common, entryPoints: { "demo-agent": "src/demo/agent.ts" }, outdir: aside });
// What is inside the bundle is distributed with it, so its licences are too.
const bundled = ["commander", "smol-toml", "zod"].map((name) => {
  const licence = readFileSync(new URL(`../node_modules/${name}/LICENSE`, import.meta.url), "utf8");
  return `${name}\n\n${licence.trim()}\n`;
});
writeFileSync(`${aside}/THIRD-PARTY-LICENSES.txt`, bundled.join(`\n${"-".repeat(80)}\n\n`));
const bin = `${aside}/reprise.js`;
writeFileSync(bin, `#!/usr/bin/env node\n${readFileSync(bin, "utf8")}`);
chmodSync(bin, 0o755);
if (existsSync(dist)) renameSync(dist, old);
renameSync(aside, dist);
rmSync(old, { recursive: true, force: true });
