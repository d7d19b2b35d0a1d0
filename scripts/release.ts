/**
 * `npm run release -- --version 0.2.0`: checks the tree, dates the changelog, packs the package and tags the commit. It
 * pushes and publishes nothing; the last lines name the commands for that.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { readArguments } from "./arguments.ts";
import { datedChangelog, isNewer } from "./release-notes.ts";

const USAGE = `
npm run release -- --version X.Y.Z [--dry-run]

Checks that the working tree is clean and on main, runs all checks, sets the version,
dates the changelog, packs the package, commits and tags. Pushes and publishes nothing.

  --version X.Y.Z   the new version, newer than the present one
  --dry-run         check everything, change nothing
`;

const { version, "dry-run": dryRun } = readArguments(USAGE, { version: "text", "dry-run": "flag" });
const run = (program: string, ...args: readonly string[]) =>
  execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
const show = (program: string, ...args: readonly string[]) =>
  execFileSync(program, args, { stdio: ["ignore", "inherit", "inherit"] });
const stop = (why: string): never => {
  console.error(`Not released: ${why}`);
  process.exit(1);
};

const before = (JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version;
if (version === undefined || !isNewer(version, before))
  stop(`--version needs a version that is newer than ${before}, such as 1.2.3`);
const next = version as string;
if (run("git", "status", "--porcelain") !== "") stop("the working tree has changes; commit or stash them");
const branch = run("git", "branch", "--show-current");
if (branch !== "main") stop(`releases are made on main, and this is ${branch || "no branch"}`);
if (run("git", "tag", "--list", `v${next}`) !== "") stop(`the tag v${next} exists already`);
const changelog = datedChangelog(readFileSync("CHANGELOG.md", "utf8"), next, new Date());
if (changelog === null) stop("CHANGELOG.md has no entries under `## Unreleased`");
show("npm", "test");
if (dryRun) {
  console.log(`Everything is ready for v${next}. Nothing was changed.`);
  process.exit(0);
}
writeFileSync("CHANGELOG.md", changelog as string);
run("npm", "version", next, "--no-git-tag-version");
const packed = run("npm", "pack", "--silent", "--ignore-scripts");
run("git", "commit", "--all", "--quiet", "--message", `chore(release): ${next}`);
run("git", "tag", "--annotate", `v${next}`, "--message", `Reprise ${next}`);
console.log(`Packed ${packed} and tagged v${next}. To publish it:`);
console.log(`  git push --follow-tags\n  npm publish ${packed}`);
