/**
 * Bundles a program so that what its hottest commands load is a few files. Every file costs a start half a millisecond,
 * and esbuild by itself makes one for each set of commands that share something: sixty for `reprise start`.
 */
import { createHash } from "node:crypto";
import { relative } from "node:path";
import { build } from "esbuild";
import { writeCommonJs } from "./common-js.mjs";

/**
 * `groups`: the modules of a group go into one file, with all that they import at once and no earlier group has.
 * Returns what esbuild says of its work.
 */
export async function bundleHot(groups, { entryPoints, outdir, ...options }) {
  const whole = await build({ ...options, entryPoints, outdir, splitting: true, write: false });
  const { inputs } = whole.metafile;
  const version = digest(whole.outputFiles.map(({ hash }) => hash));
  // What an entry itself needs is there without a hot file: `--version` loads nothing more.
  const placed = await usedBy(Object.values(entryPoints), options);
  const files = [];
  for (const group of groups) {
    const modules = (await usedBy(group, options)).filter((file) => !placed.includes(file));
    placed.push(...modules);
    files.push({ name: `./chunk-hot${files.length}-${version}.js`, modules });
  }
  const exports = await exportsOf(
    files.flatMap(({ modules }) => modules),
    options,
  );
  const laterOf = (modules) =>
    new Set(dynamicImports(modules, inputs).filter((file) => !modules.includes(file)));
  // The hot files load the later ones and they load these, so their names are known before any is built.
  const laterName = (file) =>
    `chunk-${file
      .replace(/^src\//, "")
      .replace(/\.ts$/, "")
      .replaceAll("/", "-")}-${version}`;
  const later = new Set(files.flatMap(({ modules }) => [...laterOf(modules)]));
  const built = [
    build({
      ...options,
      entryPoints: {
        ...entryPoints,
        ...Object.fromEntries([...later].map((file) => [laterName(file), file])),
      },
      outdir,
      splitting: true,
      write: false,
      plugins: [...options.plugins, standIns(files, exports)],
    }),
    ...files.map(({ name, modules }, at) =>
      build({
        ...options,
        stdin: { contents: allOf(modules, exports), resolveDir: options.absWorkingDir },
        outfile: `${outdir}/${name}`,
        write: false,
        plugins: [
          ...options.plugins,
          outside(laterOf(modules), (file) => `./${laterName(file)}.js`),
          standIns(files.slice(0, at), exports),
        ],
      }),
    ),
  ];
  await writeCommonJs((await Promise.all(built)).flatMap(({ outputFiles }) => outputFiles));
  return whole;
}

/**
 * The modules of which something is used when these are loaded whole. A file that only passes on what others export is
 * none, so that a door does not bring along what nobody takes from it.
 */
async function usedBy(files, options) {
  for (let known = files; ;) {
    const { metafile } = await build({
      ...options,
      stdin: {
        contents: known.map((file, at) => `export * as m${at} from "./${file}";`).join("\n"),
        resolveDir: options.absWorkingDir,
      },
      write: false,
      plugins: [...options.plugins, outside({ has: () => true }, String)],
    });
    const [{ inputs }] = Object.values(metafile.outputs).filter(({ entryPoint }) => entryPoint !== undefined);
    const used = Object.keys(inputs).filter(
      (file) => inputs[file].bytesInOutput > 0 && metafile.inputs[file]?.format === "esm",
    );
    const more = used.filter((file) => !known.includes(file) && file !== "<stdin>");
    if (more.length === 0) return known;
    known = [...known, ...more];
  }
}

function dynamicImports(modules, inputs) {
  return modules.flatMap((file) =>
    inputs[file].imports
      .filter(({ kind, path }) => kind === "dynamic-import" && path in inputs)
      .map(({ path }) => path),
  );
}

function digest(parts) {
  return createHash("sha256").update(parts.join()).digest("hex").slice(0, 8).toUpperCase();
}

/** The names that each module exports, with a name that no other module has; types are none. */
async function exportsOf(files, { absWorkingDir }) {
  const { metafile } = await build({
    absWorkingDir,
    entryPoints: files,
    outdir: "nowhere",
    format: "esm",
    write: false,
    metafile: true,
  });
  return Object.fromEntries(
    Object.values(metafile.outputs).map((one) => [
      one.entryPoint,
      one.exports.map((name) => [name, `${name}_${files.indexOf(one.entryPoint)}`]),
    ]),
  );
}

function allOf(modules, exports) {
  const lines = modules.map(
    (file) => `export {${exports[file].map(([name, unique]) => `${name} as ${unique}`)}} from "./${file}";`,
  );
  return lines.join("\n");
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

/** What the modules of hot files export comes from these. */
function standIns(hot, exports) {
  return {
    name: "stand-ins",
    setup(plugin) {
      const root = plugin.initialOptions.absWorkingDir;
      plugin.onResolve({ filter: /^\.\/chunk-hot/ }, ({ path }) => ({ path, external: true }));
      plugin.onLoad({ filter: /\.[mt]?[jt]s$/ }, ({ path }) => {
        const file = relative(root, path);
        const from = hot.find(({ modules }) => modules.includes(file));
        if (from === undefined) return undefined;
        const names = exports[file].map(([name, unique]) => `${unique} as ${name}`);
        return { contents: `export {${names}} from "${from.name}";`, loader: "js" };
      });
    },
  };
}
