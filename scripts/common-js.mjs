/**
 * Writes bundles as CommonJS: Node loads a program of the other kind 10 ms later. esbuild splits only the other kind,
 * so each of its files is turned afterwards.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { transform } from "esbuild";
import { common } from "./bundle.mjs";

const URL_OF_FILE = 'const __url = require("node:url").pathToFileURL(__filename).href;';

/** `files`: what esbuild did not write, with a map inside each file. */
export async function writeCommonJs(files) {
  for (const { path, text } of files) {
    const name = basename(path);
    const { code, map } = await transform(text, {
      ...{ format: "cjs", platform: common.platform, target: common.target, minify: common.minify },
      ...{ legalComments: "none", logLevel: "warning" },
      ...{ sourcemap: "external", sourcesContent: false },
      // Node's rules for what `import` gets from a CommonJS package.
      sourcefile: name.replace(/\.js$/, ".mjs"),
      supported: { "dynamic-import": false },
      define: { "import.meta.url": "__url" },
      banner: `"use strict";${text.includes("import.meta.url") ? URL_OF_FILE : ""}`,
    });
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${code}//# sourceMappingURL=${name}.map\n`);
    writeFileSync(`${path}.map`, map);
  }
}
