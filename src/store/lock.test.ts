/** A lock that dies with its process, proved by killing processes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { afterAll, afterEach, expect, test } from "vitest";
import { lockFile } from "./store.ts";

const folder = fs.mkdtempSync(join(tmpdir(), "reprise-lock-"));
fs.mkdirSync("node_modules/.cache", { recursive: true });
const bundleFolder = fs.mkdtempSync("node_modules/.cache/reprise-lock-");
const bundle = join(process.cwd(), bundleFolder, "store.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("./store.ts", import.meta.url))],
  outfile: bundle,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  external: ["@photostructure/sqlite"],
});

const children: ChildProcess[] = [];
let files = 0;
const freshPath = () => join(folder, `${(files += 1)}.lock`);

afterEach(async () => {
  for (const child of children.splice(0)) await end(child, "SIGKILL");
});
afterAll(() => {
  fs.rmSync(folder, { recursive: true });
  fs.rmSync(bundleFolder, { recursive: true });
});

/** A process that takes the lock, prints the result, and lives on. */
async function locker(path: string): Promise<{ child: ChildProcess; said: string }> {
  const script = `
    import { lockFile } from ${JSON.stringify(bundle)};
    globalThis.lock = await lockFile(process.argv[1]);
    process.stdout.write(lock === null ? "refused" : "held");
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, path], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const [chunk] = (await once(child.stdout, "data")) as [Buffer];
  return { child, said: chunk.toString() };
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill(signal);
  await once(child, "exit");
}

test("one process has the lock, and the next gets it when the first is killed", async () => {
  const path = freshPath();
  const first = await locker(path);
  const second = await locker(path);
  expect([first.said, second.said, await lockFile(path)]).toEqual(["held", "refused", null]);
  await end(second.child, "SIGKILL");
  expect(await lockFile(path)).toBeNull();
  await end(first.child, "SIGKILL");
  const lock = await lockFile(path);
  expect(lock).not.toBeNull();
  expect((await locker(path)).said).toBe("refused");
  lock?.release();
  expect((await locker(path)).said).toBe("held");
});

test("one of many processes that start at once has the lock", async () => {
  const path = freshPath();
  const said = await Promise.all([1, 2, 3, 4].map(async () => (await locker(path)).said));
  expect(said.toSorted()).toEqual(["held", "refused", "refused", "refused"]);
});

test("a second lock in the same process is refused, and releasing twice is harmless", async () => {
  const path = freshPath();
  const lock = await lockFile(path);
  expect(await lockFile(path)).toBeNull();
  expect(await lockFile(path)).toBeNull();
  lock?.release();
  lock?.release();
  const again = await lockFile(path);
  expect(again).not.toBeNull();
  lock?.release();
  expect(await lockFile(path)).toBeNull();
  again?.release();
});

test("the file becomes private, whatever its mode was", async () => {
  const path = freshPath();
  fs.writeFileSync(path, "", { mode: 0o644 });
  const lock = await lockFile(path);
  expect((fs.statSync(path).mode & 0o777).toString(8)).toBe("600");
  lock?.release();
});

test.each([
  ["no directory", (path: string) => join(path, "missing", "d.lock"), "storage_failed"],
  [
    "a file of another kind",
    (path: string) => (fs.writeFileSync(path, "x".repeat(5000)), path),
    "index_damaged",
  ],
  ["a directory", (path: string) => (fs.mkdirSync(path), path), "storage_failed"],
])("%s is a fault, not a held lock", async (_name, make, code) => {
  await expect(lockFile(make(freshPath()))).rejects.toMatchObject({ code });
});
