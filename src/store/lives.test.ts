/** Which owners are gone: the kernel's proofs, and the remaining doubt. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { ProcessIdentity } from "../core/records.ts";
import { judgeOwner, type OwnerSight } from "./lease.ts";
import { loadSqlite } from "./sqlite-module.ts";
import { openLives } from "./store.ts";

const root = mkdtempSync(join(tmpdir(), "reprise-lives-"));
afterAll(() => rmSync(root, { recursive: true }));

const BOOT = "8927715a-38b4-4d3c-9c9d-6a4e4f1c0001";
const SELF: ProcessIdentity = { pid: 7, start: "70", boot: BOOT, space: "pid:[1]" };
const LIFE = { file: "8927715a-0123456789abcdef", inode: 1, shared: false };

const sight = (
  more: Partial<OwnerSight["lives"]> & { listed?: boolean; runs?: boolean } = {},
): OwnerSight => ({
  self: SELF,
  machine: "here",
  isListed: () => more.listed === true,
  runs: () => more.runs === true,
  lives: { look: () => "unknown", shared: false, ...more },
});

const there = { ...SELF, space: "pid:[2]" };
const before = { ...SELF, boot: "another" };
test.each<[string, ProcessIdentity & { machine?: string }, OwnerSight, string]>([
  [
    "a lock that is held, in another namespace",
    { ...there, life: LIFE },
    sight({ look: () => "held" }),
    "lives",
  ],
  [
    "a lock that is held, under another boot's name",
    { ...before, life: LIFE },
    sight({ look: () => "held" }),
    "lives",
  ],
  [
    "a lock that is free, in another namespace",
    { ...there, life: LIFE },
    sight({ look: () => "free" }),
    "gone",
  ],
  ["a lock whose file is gone, in another namespace", { ...there, life: LIFE }, sight(), "doubt"],
  ["an older version, in another namespace", there, sight(), "doubt"],
  ["a separate time namespace", { ...SELF, space: "pid:[1] time:[2]" }, sight({ listed: true }), "doubt"],
  [
    "here, listed, with a lock that was lost",
    { ...SELF, life: LIFE },
    sight({ listed: true, look: () => "free" }),
    "lives",
  ],
  ["here, not listed", SELF, sight(), "gone"],
  [
    "here, not listed, with a lock that is held",
    { ...SELF, life: LIFE },
    sight({ look: () => "held" }),
    "lives",
  ],
  [
    "an earlier boot, on this machine's own disk",
    { ...before, life: LIFE, machine: "renamed" },
    sight(),
    "gone",
  ],
  [
    "another boot that is seen to run, without its lock",
    { ...before, life: LIFE },
    sight({ runs: true }),
    "doubt",
  ],
  [
    "another boot that is seen to run, with a lock that is free",
    { ...before, life: LIFE },
    sight({ runs: true, look: () => "free" }),
    "gone",
  ],
  ["another boot that shares the disk", { ...before, life: { ...LIFE, shared: true } }, sight(), "doubt"],
  [
    "another boot, on a disk that is shared here",
    { ...before, life: LIFE },
    sight({ shared: true }),
    "doubt",
  ],
  ["an older version's earlier boot, on this machine", { ...before, machine: "here" }, sight(), "gone"],
  ["an older version on another machine", { ...before, machine: "other" }, sight(), "doubt"],
])("%s", (_name, owner, from, standing) => {
  expect(judgeOwner(owner, from)).toBe(standing);
});

test("a process has one life, which it sees itself", async () => {
  const lives = await openLives(join(root, "own"), () => BOOT);
  const life = lives.own();
  expect([lives.own(), lives.look(life), lives.shared]).toEqual([life, "held", false]);
  expect(readdirSync(join(root, "own"))).toEqual([life.file]);
});

test("an unusable place for lives is reported as such, not as an index", async () => {
  const place = join(root, "no-directory");
  writeFileSync(place, "");
  const lives = await openLives(place, () => BOOT);
  expect(() => lives.own()).toThrow(
    /^Reprise cannot lock files in \S+no-directory \(.*\), so other processes could not tell/s,
  );
  expect(() => lives.own()).not.toThrow(/index/);
});

test("an unlocked file is free; a missing, copied or foreign file says nothing", async () => {
  const lives = await openLives(join(root, "others"), () => BOOT);
  const { file } = lives.own();
  const path = join(root, "others", LIFE.file);
  writeFileSync(path, "");
  const inode = lives.look({ ...LIFE, inode: 0 });
  const copy = `${path.slice(0, -1)}0`;
  copyFileSync(path, copy);
  const { ino } = statSync(path);
  expect(lives.look({ ...LIFE, inode: ino })).toBe("free");
  expect(lives.look({ ...LIFE, file: copy.slice(-25), inode: ino })).toBe("unknown");
  expect([inode, lives.look({ ...LIFE, file: `../others/${file}`, inode: ino })]).toEqual([
    "unknown",
    "unknown",
  ]);
  rmSync(path);
  expect(lives.look({ ...LIFE, inode: ino })).toBe("unknown");
});

test("the next owner removes files of earlier boots, and nothing else", async () => {
  const directory = join(root, "boots");
  mkdirSync(directory);
  for (const name of ["00000001-0123456789abcdef", LIFE.file, "README"])
    writeFileSync(join(directory, name), "");
  (await openLives(directory, () => BOOT)).own();
  const left = ["00000001-0123456789abcdef", LIFE.file, "README"].map((name) =>
    existsSync(join(directory, name)),
  );
  expect(left).toEqual([false, true, true]);
});

test("a held life stays, whatever boot its name says, since a container may have another boot id", async () => {
  const directory = join(root, "containers");
  mkdirSync(directory);
  const held = "00000002-0123456789abcdef";
  const { DatabaseSync } = loadSqlite();
  using lock = new DatabaseSync(join(directory, held));
  lock.exec("BEGIN EXCLUSIVE");
  const inode = statSync(join(directory, held)).ino;
  const lives = await openLives(directory, () => BOOT);
  writeFileSync(join(directory, "00000002-fedcba9876543210"), "");
  writeFileSync(join(directory, "00000003-fedcba9876543210"), "");
  lives.own();
  expect(lives.look({ file: held, inode, shared: false })).toBe("held");
  expect([lives.holds("00000002-0000"), lives.holds("00000003-0000"), lives.holds(BOOT)]).toEqual([
    true,
    false,
    true,
  ]);
  // Beside a live process of the same boot, a free lock proves that its own process is gone.
  expect(readdirSync(directory).includes("00000002-fedcba9876543210")).toBe(true);
  expect(readdirSync(directory).includes("00000003-fedcba9876543210")).toBe(false);
});
