/** How our programs are bundled: by the build, and by tests and benches for programs of their own. */
import { fileURLToPath } from "node:url";

/** commander loads child_process only for sub-commands in files of their own, which we have none of; it costs 8 ms. */
const commanderWithoutSpawning = {
  filter: /^(node:)?child_process$/,
  importer: /[\\/]commander[\\/]/,
};
/** Ink talks to React's developer tools when it is told to; they bring a web socket client with them. */
const inkWithoutDevtools = { filter: /^\.\/devtools\.js$/, importer: /[\\/]ink[\\/]/ };

/** zod says what is wrong in fifty languages, more than half of its code; we say it ourselves. It asks for English apart. */
const zodWithoutLanguages = { filter: /locales\/index\.js$/, importer: /[\\/]zod[\\/]/ };

/** Ink is shown nothing but ASCII (src/tui/view.tsx), and what knows of the widths of all else costs 45 ms to load. */
const inkWithoutWidths = { filter: /^string-width$/, contents: "export default (text) => text.length;" };

const leaveOut = {
  name: "leave-out",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: inkWithoutWidths.filter }, () => ({ path: "ascii-width", namespace: "ascii-width" }));
    onLoad({ filter: /.*/, namespace: "ascii-width" }, () => ({ contents: inkWithoutWidths.contents }));
    for (const { filter, importer } of [commanderWithoutSpawning, inkWithoutDevtools, zodWithoutLanguages]) {
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
  // React has a slow half for developers, chosen by this variable.
  define: { "process.env.NODE_ENV": '"production"' },
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
