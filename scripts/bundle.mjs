/** How our programs are bundled: by the build, and by tests and benches for programs of their own. */
import { fileURLToPath } from "node:url";

/** commander loads child_process only for sub-commands in files of their own, which we have none of; it costs 8 ms. */
const commanderWithoutSpawning = {
  filter: /^(node:)?child_process$/,
  importer: /[\\/]commander[\\/]/,
};

/** zod says what is wrong in fifty languages, more than half of its code; we say it ourselves. It asks for English apart. */
const zodWithoutLanguages = { filter: /locales\/index\.js$/, importer: /[\\/]zod[\\/]/ };

const leaveOut = {
  name: "leave-out",
  setup({ onResolve, onLoad }) {
    for (const { filter, importer } of [commanderWithoutSpawning, zodWithoutLanguages]) {
      onResolve({ filter }, (module) =>
        importer.test(module.importer) ? { path: "nothing", namespace: "nothing" } : undefined,
      );
    }
    onLoad({ filter: /.*/, namespace: "nothing" }, () => ({ contents: "module.exports = {}", loader: "js" }));
  },
};

/** @type {import("esbuild").BuildOptions} */
export const common = {
  absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  minify: true,
  // Bug reports name functions, not letters.
  keepNames: false,
  legalComments: "none",
  external: ["@lydell/node-pty", "@photostructure/sqlite", "@xterm/headless"],
  plugins: [leaveOut],
  // With REPRISE_DEBUG=1 a trace names our files and lines. The sources themselves are not shipped.
  sourcemap: "linked",
  sourcesContent: false,
  logLevel: "warning",
  // CommonJS modules ask for Node's own modules by `require`.
  banner: {
    js: 'import { createRequire as __createRequire } from "node:module"; const require = __createRequire(import.meta.url);',
  },
};
