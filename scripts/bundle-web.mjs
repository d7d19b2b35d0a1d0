/**
 * Bundles the page of `reprise web` into a folder: content hashes in the names, the terminal in a chunk of its own.
 * `files.json` beside them is the only list of what the server hands out: address → file, content type.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, extname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".webmanifest": "application/manifest+json",
};

const source = (name) => fileURLToPath(new URL(`../web/${name}`, import.meta.url));

/** Returns esbuild's metafile, for the licences of what is inside. */
export async function bundleWeb(outdir, version) {
  mkdirSync(`${outdir}/assets`, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
    entryPoints: { main: "web/main.tsx", style: "web/style.css" },
    outdir: `${outdir}/assets`,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    define: { REPRISE_VERSION: JSON.stringify(version) },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "browser",
    target: ["chrome111", "firefox113", "safari16.4"],
    minify: true,
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
    metafile: true,
  });
  const files = {};
  const add = (address, file, type = TYPES[extname(file)]) => (files[address] = { file, type });
  const names = Object.keys(metafile.outputs).map((path) => basename(path));
  for (const name of names) add(`/assets/${name}`, `assets/${name}`);

  const copy = (name) => {
    const bytes = readFileSync(source(name));
    const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 8).toUpperCase();
    const hashed = name.replace(/(\.[a-z]+)$/, `-${hash}$1`);
    writeFileSync(`${outdir}/assets/${hashed}`, bytes);
    add(`/assets/${hashed}`, `assets/${hashed}`);
    return `/assets/${hashed}`;
  };
  const icon = copy("icon.svg");
  const fill = (name, values) => {
    const text = readFileSync(source(name), "utf8").replaceAll(/\{\{(\w+)\}\}/g, (_, key) => values[key]);
    writeFileSync(`${outdir}/${name}`, text);
  };
  const built = (name) =>
    `/assets/${names.find((file) => file.startsWith(`${name}-`) && !file.endsWith(".map"))}`;
  // What the first script needs is fetched with it, not after it.
  const first =
    metafile.outputs[Object.keys(metafile.outputs).find((path) => /\/main-[^/]*\.js$/.test(path))];
  const preload = first.imports
    .filter(({ kind }) => kind === "import-statement")
    .map(({ path }) => `<link rel="modulepreload" href="/assets/${basename(path)}" />`)
    .join("\n    ");
  fill("index.html", { icon, preload, script: built("main"), style: built("style") });
  fill("manifest.webmanifest", { icon });
  add("/", "index.html");
  add("/manifest.webmanifest", "manifest.webmanifest");
  writeFileSync(`${outdir}/files.json`, `${JSON.stringify(files, null, 2)}\n`);
  return metafile;
}
