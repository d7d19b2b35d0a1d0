import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { directoryId, mountsBelow, namesOf, otherDevices, otherNames } from "./mounts.ts";

const line = (point: string) => `36 35 98:0 / ${point} rw,noatime shared:1 - ext4 /dev/sda1 rw`;

test.for<[string, string, readonly string[]]>([
  ["the directory itself", "/runs/a", ["/runs/a"]],
  ["a directory below it", "/runs/a/work/x", ["/runs/a/work/x"]],
  [
    "a name with a blank, a backslash and a line break",
    String.raw`/runs/a/b\040c\134d\012e`,
    ["/runs/a/b c\\d\ne"],
  ],
  ["a name in UTF-8", Buffer.from("/runs/a/é").toString("latin1"), ["/runs/a/é"]],
  ["a directory above it", "/runs", []],
  ["a name that only begins like it", "/runs/ab", []],
  ["the root", "/", []],
])("the mount table for %s names the mounts below /runs/a", ([, point, expected]) => {
  expect(mountsBelow("/runs/a", Buffer.from(`${line("/proc")}\n${line(point)}\n`, "latin1"))).toEqual(
    expected,
  );
});

const bind = (device: string, root: string, point: string) =>
  `36 35 ${device} ${root} ${point} rw shared:1 - ext4 /dev/sda1 rw`;

test.for<[string, string, readonly (readonly [string, string])[]]>([
  ["the directory itself", bind("98:0", "/data/runs/a", "/mnt/b"), [["/mnt/b", "/runs/a"]]],
  ["a directory above it", bind("98:0", "/data", "/mnt/b"), [["/mnt/b/runs/a", "/runs/a"]]],
  ["a part of it", bind("98:0", "/data/runs/a/work/x", "/mnt/b"), [["/mnt/b", "/runs/a/work/x"]]],
  ["a name with a blank", bind("98:0", "/data/runs/a", String.raw`/mnt/b\040c`), [["/mnt/b c", "/runs/a"]]],
  ["another directory", bind("98:0", "/data/runs/ab", "/mnt/b"), []],
  ["the same path on another device", bind("98:1", "/data/runs/a", "/mnt/b"), []],
])("a bind mount of %s gives /runs/a its other names", ([, mount, expected]) => {
  const table = [bind("98:7", "/", "/"), bind("98:0", "/data/runs", "/runs"), mount].join("\n");
  const found = otherNames("/runs/a", Buffer.from(`${table}\n`, "latin1"));
  expect(found.map(({ name, of }) => [name, of])).toEqual(expected);
});

test("a directory has its own name, with links resolved", () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-mounts-")));
  try {
    mkdirSync(join(root, "a"));
    symlinkSync(join(root, "a"), join(root, "link"));
    expect(namesOf(join(root, "link"))).toEqual([join(root, "link"), join(root, "a")]);
    expect(directoryId(join(root, "link"))).toBe(directoryId(join(root, "a")));
    expect(directoryId(join(root, "missing"))).toBeNull();
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("without a mount table, directories on another device are found and links are not followed", () => {
  const root = mkdtempSync(join(tmpdir(), "reprise-mounts-"));
  try {
    mkdirSync(join(root, "a/b"), { recursive: true });
    symlinkSync("/proc", join(root, "a/link"));
    const { dev } = statSync(root);
    expect(otherDevices(root, dev)).toEqual([]);
    expect(otherDevices(root, dev + 1)).toEqual([root]);
  } finally {
    rmSync(root, { recursive: true });
  }
});
