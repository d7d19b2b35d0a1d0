/**
 * Bundles a program so that what its hottest command loads is one file. Every file costs a start most of a millisecond,
 * and esbuild by itself makes one for each set of commands that share something: thirty for `reprise list`.
 */
import { createHash } from "node:crypto";
import { basename, dirname, join, relative } from "node:path";
import { build } from "esbuild";

/** `hot`: modules that go into one file with all that they import at once. Returns what esbuild says of its work. */
export async function bundleHot(hot, { entryPoints, outdir, ...options }) {
  const whole = await build({ ...options, entryPoints, outdir, splitting: true, write: false });
  const { inputs } = whole.metafile;
  // What an entry itself needs is there without the hot file: `--version` loads nothing more.
  const before = loadedAtOnce(Object.values(entryPoints), inputs);
  const modules = loadedAtOnce(hot, inputs).filter(
    (file) => inputs[file]?.format === "esm" && !before.includes(file),
  );
  const later = new Set(
    modules.flatMap((file) =>
      inputs[file].imports
        .filter(({ kind, path }) => kind === "dynamic-import" && path in inputs && !modules.includes(path))
        .map(({ path }) => path),
    ),
  );
  // The hot file loads the later ones and they load it, so their names are known before either is built.
  const version = digest(whole.outputFiles.map(({ hash }) => hash));
  const hotFile = `./chunk-hot-${version}.js`;
  // With its folder: several folders have a file of the same name.
  const laterName = (file) =>
    `chunk-${[basename(file, ".ts"), ...dirname(file).split("/").slice(1)].join("-")}-${version}`;
  const exports = await exportsOf(modules, options);
  const renamed = (file) => exports[file].map((name) => [name, `${name}_${modules.indexOf(file)}`]);
  await build({
    ...options,
    entryPoints: { ...entryPoints, ...Object.fromEntries([...later].map((file) => [laterName(file), file])) },
    outdir,
    splitting: true,
    plugins: [
      ...options.plugins,
      standIns(
        modules,
        (file) =>
          `export {${renamed(file).map(([name, unique]) => `${unique} as ${name}`)}} from "${hotFile}";`,
      ),
    ],
  });
  await build({
    ...options,
    stdin: {
      contents: modules
        .map(
          (file) =>
            `export {${renamed(file).map(([name, unique]) => `${name} as ${unique}`)}} from "./${file}";`,
        )
        .join("\n"),
      resolveDir: options.absWorkingDir,
    },
    outfile: join(outdir, hotFile),
    plugins: [...options.plugins, outside(later, (file) => `./${laterName(file)}.js`)],
  });
  return whole;
}

function loadedAtOnce(files, inputs) {
  const seen = new Set();
  const visit = (file) => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const { path, kind } of inputs[file]?.imports ?? []) if (kind !== "dynamic-import") visit(path);
  };
  for (const file of files) visit(file);
  return [...seen];
}

function digest(parts) {
  return createHash("sha256").update(parts.join()).digest("hex").slice(0, 8).toUpperCase();
}

/** The names that each module exports; types are none. */
async function exportsOf(files, { absWorkingDir }) {
  const { metafile } = await build({
    absWorkingDir,
    entryPoints: files,
    outdir: "nowhere",
    format: "esm",
    write: false,
    metafile: true,
  });
  return Object.fromEntries(Object.values(metafile.outputs).map((one) => [one.entryPoint, one.exports]));
}

/** These files are loaded when they are needed, by a name of their own. */
function outside(files, nameOf) {
  return {
    name: "outside",
    setup(plugin) {
      plugin.onResolve({ filter: /^\.\.?\// }, async ({ path, kind, importer, resolveDir, pluginData }) => {
        if (kind !== "dynamic-import" || pluginData === "asked") return undefined;
        const found = await plugin.resolve(path, { kind, importer, resolveDir, pluginData: "asked" });
        const file = relative(plugin.initialOptions.absWorkingDir, found.path);
        return files.has(file) ? { path: nameOf(file), external: true } : undefined;
      });
    },
  };
}

/** What these files export comes from elsewhere. */
function standIns(files, contentsOf) {
  return {
    name: "stand-ins",
    setup(plugin) {
      const root = plugin.initialOptions.absWorkingDir;
      plugin.onResolve({ filter: /^\.\/chunk-hot-/ }, ({ path }) => ({ path, external: true }));
      plugin.onLoad({ filter: /\.[mt]?[jt]s$/ }, ({ path }) => {
        const file = relative(root, path);
        return files.includes(file) ? { contents: contentsOf(file), loader: "js" } : undefined;
      });
    },
  };
}
