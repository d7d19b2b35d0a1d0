import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mountsBelow, otherDevices } from "./mounts.ts";

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
