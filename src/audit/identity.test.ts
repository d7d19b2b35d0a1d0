import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  acceptCopy,
  copiedFrom,
  ensureIdentity,
  originalPlace,
  originOf,
  settleState,
  type StatePlace,
  stateOrigin,
} from "./identity.ts";
import { openState } from "./state.ts";

const home: StatePlace = { path: "/home/a/state", dev: "1", ino: "10", machine: "one" };

describe("a state directory", () => {
  test.each<[what: string, here: Partial<StatePlace>, there: boolean, is: string]>([
    ["that is where it was", {}, true, "same"],
    ["that was renamed", { path: "/home/a/other" }, false, "same"],
    [
      "that is seen through a bind mount of a container",
      { path: "/state", machine: "c0ffee" },
      false,
      "same",
    ],
    ["whose device has another number since the machine started", { dev: "2" }, true, "same"],
    ["whose machine has another name", { machine: "two" }, true, "same"],
    ["that was moved to another file system", { path: "/mnt/state", dev: "2", ino: "77" }, false, "moved"],
    ["that was moved within one, by copying", { path: "/home/a/other", ino: "77" }, false, "moved"],
    ["that was copied beside the original", { path: "/home/a/copy", ino: "77" }, true, "copy"],
    ["that is a snapshot with the same inodes", { path: "/snapshots/1/state", dev: "2" }, true, "copy"],
    ["that was restored in its place", { ino: "77" }, true, "copy"],
    [
      "that was copied to the same place of another machine",
      { dev: "2", ino: "77", machine: "two" },
      false,
      "copy",
    ],
    [
      "that was copied to another place of another machine",
      { path: "/s", dev: "2", ino: "7", machine: "two" },
      false,
      "copy",
    ],
    ["that came with the image of a container", { dev: "2", machine: "c0ffee" }, false, "copy"],
  ])("%s", (_what, here, there, is) => {
    expect(originOf({ v: 1, id: "i", places: [home] }, { ...home, ...here }, () => there)).toBe(is);
  });

  test("with several accepted places is the same at each of them, and moved only when it is gone from all", () => {
    const other = { ...home, path: "/mnt/state", dev: "2", ino: "20" };
    const places = [home, other];
    const away = { ...home, path: "/away", dev: "3", ino: "30" };
    const is = (here: StatePlace, at: StatePlace[]) =>
      originOf({ v: 1, id: "i", places }, here, (place) => at.includes(place));
    expect([is(home, []), is(other, []), is(away, []), is(away, [home]), is(away, [other])]).toEqual([
      "same",
      "same",
      "moved",
      "copy",
      "copy",
    ]);
  });
});

describe("on disk", () => {
  let root: string;
  beforeEach(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-identity-")));
  });
  afterEach(() => rmSync(root, { recursive: true }));
  const originAt = async (name: string) => stateOrigin(await openState(join(root, name)), "m")?.is ?? null;

  test("a directory has no identity until it is given one, which then stays", async () => {
    const state = await openState(join(root, "a"));
    expect(stateOrigin(state, "m")).toBeNull();
    ensureIdentity(state, "m");
    const first = readFileSync(join(state.root, "identity.json"), "utf8");
    ensureIdentity(state, "m");
    expect(readFileSync(join(state.root, "identity.json"), "utf8")).toBe(first);
    expect(await originAt("a")).toBe("same");
  });

  test("a copy asks as long as the original is there, and no more when it was accepted", async () => {
    ensureIdentity(await openState(join(root, "a")), "m");
    cpSync(join(root, "a"), join(root, "b"), { recursive: true });
    expect([await originAt("a"), await originAt("b")]).toEqual(["same", "copy"]);
    renameSync(join(root, "a"), join(root, "c"));
    expect([await originAt("b"), await originAt("c")]).toEqual(["moved", "same"]);
    renameSync(join(root, "c"), join(root, "a"));
    settleState(await openState(join(root, "b")), "m", true);
    expect([await originAt("a"), await originAt("b")]).toEqual(["same", "same"]);
    cpSync(join(root, "b"), join(root, "d"), { recursive: true });
    expect(await originAt("d")).toBe("copy");
  });

  test("an identity that cannot be read is none", async () => {
    const state = await openState(join(root, "a"));
    for (const text of [
      "",
      "{}",
      "[]",
      '{"v":1,"id":"x","places":[]}',
      '{"v":1,"id":"x","places":[{"path":1}]}',
    ]) {
      writeFileSync(join(state.root, "identity.json"), text);
      expect(stateOrigin(state, "m"), text).toBeNull();
    }
  });
});

test("the original of a copy at the original's own path is not called by that path", async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-place-")));
  try {
    const state = await openState(join(root, "state"));
    const place = (path: string, machine = "one") => originalPlace(state, { ...home, path, machine }, "one");
    expect(place(state.root)).toBe("which was at this path before");
    expect(place("/elsewhere")).toBe("/elsewhere");
    expect(place(state.root, "two")).toBe(`${state.root} on two`);
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("in an accepted copy, an owner whose life is the original's is known as that", async () => {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-lives-")));
  try {
    const original = await openState(join(root, "a"));
    const life = "00000000-0123456789abcdef";
    mkdirSync(join(original.root, "lives"));
    writeFileSync(join(original.root, "lives", life), "");
    ensureIdentity(original, "one");
    cpSync(original.root, join(root, "b"), { recursive: true });
    const copy = await openState(join(root, "b"));
    const lifeIn = (state: string) => ({
      file: life,
      inode: statSync(join(state, "lives", life)).ino,
      shared: false,
    });
    expect(acceptCopy({ state: copy, machine: "one" })).toBe(true);
    expect(copiedFrom(copy, lifeIn(original.root))).toBe(original.root);
    expect(copiedFrom(copy, lifeIn(copy.root))).toBeNull();
    expect(copiedFrom(copy, undefined)).toBeNull();
    expect(copiedFrom(original, { ...lifeIn(original.root), inode: 1 })).toBeNull();
  } finally {
    rmSync(root, { recursive: true });
  }
});
