import { spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type BundleEntry, writeBundle } from "./bundle.ts";

let folder: string;
let state: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reprise-bundle-"));
  state = mkdtempSync(join(tmpdir(), "reprise-bundle-state-"));
});
afterEach(() => {
  for (const one of [folder, state]) rmSync(one, { recursive: true, force: true });
});

const ENTRIES: readonly BundleEntry[] = [
  { name: "one/run.json", data: Buffer.from("{}\n") },
  { name: "one/attempts/1/empty.txt", data: Buffer.alloc(0) },
  { name: "one/attempts/1/output.txt", data: Buffer.alloc(100_000, "a line\n") },
  { name: "one/attempts/1/block.txt", data: Buffer.alloc(512, "x") },
];

async function* given() {
  yield* ENTRIES;
}

const write = (path: string, force = false, entries: AsyncIterable<BundleEntry> = given()) =>
  writeBundle(path, entries, { force, outside: state, nowMs: 1_780_000_000_000 });

test("tar reads the bundle, its mode is 0600 under any umask, and no other file is left", async () => {
  const path = join(folder, "b.tar.gz");
  const before = process.umask(0);
  const size = await write(path).finally(() => process.umask(before));
  expect(statSync(path)).toMatchObject({ size, mode: 0o100600 });
  expect(readdirSync(folder)).toEqual(["b.tar.gz"]);
  const out = join(folder, "out");
  mkdirSync(out);
  const { status, stderr } = spawnSync("tar", ["xzf", path, "-C", out], { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
  for (const { name, data } of ENTRIES) expect(readFileSync(join(out, name))).toEqual(data);
});

test("an export replaces an existing file only with --force", async () => {
  const path = join(folder, "b.tar.gz");
  writeFileSync(path, "mine");
  await expect(write(path)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringContaining("--force"),
  });
  expect(readFileSync(path, "utf8")).toBe("mine");
  await write(path, true);
  expect(readFileSync(path).subarray(0, 2)).toEqual(Buffer.from([0x1f, 0x8b]));
});

test("an export keeps a file that appears while the bundle is written", async () => {
  const path = join(folder, "b.tar.gz");
  async function* slow() {
    yield* given();
    writeFileSync(path, "mine");
  }
  await expect(write(path, false, slow())).rejects.toMatchObject({ code: "usage" });
  expect([readFileSync(path, "utf8"), readdirSync(folder)]).toEqual(["mine", ["b.tar.gz"]]);
});

test.each(["a link", "a directory", "a pipe"])(
  "an export refuses %s in its place, even with --force",
  async (what) => {
    const path = join(folder, "b.tar.gz");
    const victim = join(folder, "victim");
    writeFileSync(victim, "as it was");
    if (what === "a link") symlinkSync(victim, path);
    else if (what === "a directory") mkdirSync(path);
    else spawnSync("mkfifo", [path]);
    for (const force of [false, true])
      await expect(write(path, force)).rejects.toMatchObject({ code: "denied" });
    expect(readFileSync(victim, "utf8")).toBe("as it was");
  },
);

test.each(["state/index.db", "state/runs/new.tar.gz", "link/index.db"])(
  "an export refuses %s, which belongs to the state directory, even with --force",
  async (name) => {
    mkdirSync(join(folder, "state/runs"), { recursive: true });
    symlinkSync("state", join(folder, "link"));
    writeFileSync(join(folder, "state/index.db"), "as it was");
    await expect(
      writeBundle(join(folder, name), given(), { force: true, outside: join(folder, "state"), nowMs: 0 }),
    ).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("state directory") });
    expect(readFileSync(join(folder, "state/index.db"), "utf8")).toBe("as it was");
    expect(readdirSync(join(folder, "state")).toSorted()).toEqual(["index.db", "runs"]);
  },
);

test("a failure halfway leaves no file behind", async () => {
  async function* broken() {
    yield* given();
    throw new Error("no more");
  }
  await expect(write(join(folder, "b.tar.gz"), false, broken())).rejects.toThrow("no more");
  expect(readdirSync(folder)).toEqual([]);
  await expect(write(join(folder, "nowhere/b.tar.gz"))).rejects.toMatchObject({ code: "storage_failed" });
});
