/**
 * Bundles the CLI, the demo agent and the certify program into `dist/`: small chunks, loaded when a command needs them;
 * the page of `reprise web` into `dist/web`; and the manual page.
 * Bundles the actors of the tests beside their source, where the package does not take them along.
 */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundleHot } from "./bundle-hot.mjs";
import { bundleWeb } from "./bundle-web.mjs";
import { common } from "./bundle.mjs";
import { writeCommonJs } from "./common-js.mjs";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
const { banner: _, ...rest } = common;
const options = {
  ...rest,
  sourcemap: "inline",
  define: { REPRISE_VERSION: JSON.stringify(version) },
  metafile: true,
};

// Built aside and put in place as a whole: a program that runs meanwhile keeps its files.
const place = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const [aside, dist, old] = [place(`.dist-${process.pid}`), place("dist"), place(`.dist-old-${process.pid}`)];
const chunks = { outdir: aside, chunkNames: "chunk-[name]-[hash]" };
const LIST = ["src/cli/cli.ts", "src/setup.ts", "src/store/sqlite.ts", "src/cli/list.ts"];
const START = ["src/cli/start.ts", "src/cli/resume.ts"];
// Loaded by every attempt, in a repository also before its agent starts.
const ATTEMPT = [
  "src/process/tool.ts",
  "src/run/git/snapshot.ts",
  "src/search/search.ts",
  "src/store/side-database.ts",
  "src/cli/summary-changes.ts",
];
const built = await Promise.all([
  bundleHot([LIST, START, ATTEMPT], { ...options, ...chunks, entryPoints: { reprise: "src/main.ts" } }),
  // Apart, as they live long and in numbers: a holder has nothing of the command line in its memory.
  program({ ...chunks, entryPoints: { holder: "src/holder.ts", daemon: "src/daemon.ts" }, splitting: true }),
  program({ entryPoints: { "demo-agent": "src/demo/main.ts" }, outdir: aside }),
  program({ entryPoints: { certify: "src/certify/certify.ts" }, outdir: aside }),
]);
writeFileSync(`${aside}/package.json`, '{ "type": "commonjs" }\n');
// The certify program reads its cases from the folder beside it.
cpSync(place("src/certify/cases"), `${aside}/cases`, { recursive: true });
// For engines that believe only files of root: a system-wide installation has them (`SettingsFile`).
mkdirSync(`${aside}/settings`);
writeFileSync(
  `${aside}/settings/gemini-defaults.json`,
  '{"general":{"sessionRetention":{"enabled":false}}}\n',
);
// What is inside the bundle is distributed with it, so its licences are too.
const page = await bundleWeb(`${aside}/web`, version);
const inputs = [...built.map(({ metafile }) => metafile), page].flatMap((metafile) =>
  Object.keys(metafile.inputs),
);
const foreign = inputs.filter(
  (file) => !/^(?:src|web)\/|(^|\/)node_modules\/|^(?:nothing|ascii-width):/.test(file),
);
if (foreign.length > 0)
  throw new Error(`the package must hold only src/, web/ and dependencies, not ${foreign.join(", ")}`);
const packages = new Set(inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []));
const licences = [...packages].toSorted().map((folder) => {
  const file = readdirSync(place(folder)).find((name) => /^licen[cs]e/i.test(name));
  // A package without a licence file names its licence and its author.
  const { name, license, author } = JSON.parse(readFileSync(place(`${folder}/package.json`), "utf8"));
  const text =
    file === undefined ? `${license}, ${author}` : readFileSync(place(`${folder}/${file}`), "utf8");
  return `${name}\n\n${text.trim()}\n`;
});
writeFileSync(`${aside}/THIRD-PARTY-LICENSES.txt`, licences.join(`\n${"-".repeat(80)}\n\n`));
chmodSync(`${aside}/reprise.js`, 0o755);
// Made by the program itself, from the declarations of its commands.
const manual = spawnSync(process.execPath, [`${aside}/reprise.js`, "help", "--man"], { encoding: "utf8" });
if (manual.status !== 0) throw new Error(`the manual page could not be made: ${manual.stderr}`);
mkdirSync(`${aside}/man`);
writeFileSync(`${aside}/man/reprise.1`, manual.stdout);
if (existsSync(dist)) renameSync(dist, old);
renameSync(aside, dist);
rmSync(old, { recursive: true, force: true });

const actor = place("test/actors/dist/actor.js");
await build({
  ...common,
  define: options.define,
  entryPoints: [place("test/actors/main.ts")],
  outfile: `${actor}.${process.pid}`,
});
renameSync(`${actor}.${process.pid}`, actor);

async function program(more) {
  const made = await build({ ...options, ...more, write: false });
  await writeCommonJs(made.outputFiles);
  return made;
}
