import {
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  acceptCopy,
  assertOwnState,
  assertUnlinkedIndex,
  ensureIdentity,
  homeOfOwner,
  formerRoots,
  isOriginal,
  movedState,
  originOf,
  settleState,
  type StatePlace,
  stateOrigin,
} from "./identity.ts";
import { openState } from "./directory.ts";

const home: StatePlace = { path: "/home/a/state", dev: "1", ino: "10", machine: "one" };

describe("a state directory", () => {
  test.each<[what: string, here: Partial<StatePlace>, is: string]>([
    ["that is where it was", {}, "same"],
    ["that was renamed", { path: "/home/a/other" }, "same"],
    ["that is seen through a bind mount of a container", { path: "/state", machine: "c0ffee" }, "same"],
    ["whose device has another number since the machine started", { dev: "2" }, "same"],
    ["whose machine has another name", { machine: "two" }, "same"],
    ["that was moved to another file system", { path: "/mnt/state", dev: "2", ino: "77" }, "copy"],
    ["that was moved within one, by copying", { path: "/home/a/other", ino: "77" }, "copy"],
    ["that was copied beside the original", { path: "/home/a/copy", ino: "77" }, "copy"],
    ["that is a snapshot with the same inodes", { path: "/snapshots/1/state", dev: "2" }, "copy"],
    ["that was restored in its place", { ino: "77" }, "copy"],
    ["that was copied to the same place of another machine", { dev: "2", ino: "77", machine: "two" }, "copy"],
    [
      "that was copied to another place of another machine",
      { path: "/s", dev: "2", ino: "7", machine: "two" },
      "copy",
    ],
    ["that came with the image of a container", { dev: "2", machine: "c0ffee" }, "copy"],
  ])("%s", (_what, here, is) => {
    expect(originOf({ v: 1, id: "i", places: [home] }, { ...home, ...here })).toBe(is);
  });

  test("with several accepted places is the same at each of them, and a copy elsewhere", () => {
    const other = { ...home, path: "/mnt/state", dev: "2", ino: "20" };
    const away = { ...home, path: "/away", dev: "3", ino: "30" };
    const is = (here: StatePlace) => originOf({ v: 1, id: "i", places: [home, other] }, here);
    expect([is(home), is(other), is(away)]).toEqual(["same", "same", "copy"]);
  });
});

describe("on disk", () => {
  let root: string;
  beforeEach(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), "reprise-identity-")));
  });
  afterEach(() => rmSync(root, { recursive: true }));
  const originAt = async (name: string) => stateOrigin(await openState(join(root, name)), "m")?.is ?? null;

  test("a directory has no identity until Reprise gives it one, which then stays", async () => {
    const state = await openState(join(root, "a"));
    expect(stateOrigin(state, "m")).toBeNull();
    ensureIdentity(state, "m");
    const first = readFileSync(join(state.root, "identity.json"), "utf8");
    ensureIdentity(state, "m");
    expect(readFileSync(join(state.root, "identity.json"), "utf8")).toBe(first);
    expect(await originAt("a")).toBe("same");
  });

  test("a copy asks while the original exists, and stops asking once it is accepted", async () => {
    ensureIdentity(await openState(join(root, "a")), "m");
    cpSync(join(root, "a"), join(root, "b"), { recursive: true });
    expect([await originAt("a"), await originAt("b")]).toEqual(["same", "copy"]);
    renameSync(join(root, "a"), join(root, "c"));
    expect([await originAt("b"), await originAt("c")]).toEqual(["copy", "same"]);
    renameSync(join(root, "c"), join(root, "a"));
    settleState(await openState(join(root, "b")), "m", true);
    expect([await originAt("a"), await originAt("b")]).toEqual(["same", "same"]);
    cpSync(join(root, "b"), join(root, "d"), { recursive: true });
    expect(await originAt("d")).toBe("copy");
  });

  test("a renamed directory records its new place once, and keeps the places that still lead to it", async () => {
    const placesAt = (name: string) =>
      (
        JSON.parse(readFileSync(join(root, name, "identity.json"), "utf8")) as { places: StatePlace[] }
      ).places.map(({ path, machine }) => [path, machine]);
    ensureIdentity(await openState(join(root, "a")), "m");
    ensureIdentity(await openState(join(root, "a")), "container");
    renameSync(join(root, "a"), join(root, "b"));
    const moved = await openState(join(root, "b"));
    assertOwnState({ state: moved, machine: "m" });
    expect(placesAt("b")).toEqual([
      [join(root, "a"), "container"],
      [join(root, "b"), "m"],
    ]);
    const first = statSync(join(root, "b", "identity.json")).ino;
    for (const machine of ["m", "m"]) assertOwnState({ state: moved, machine });
    expect(statSync(join(root, "b", "identity.json")).ino).toBe(first);
  });

  test.each<[what: string, moves: (at: (name: string) => string) => void, original: RegExp]>([
    [
      "of a directory that was renamed before",
      (at) => {
        renameSync(at("a"), at("b"));
        cpSync(at("b"), at("copy"), { recursive: true });
      },
      /was copied or moved here from .*a\. Nothing shows that the original is gone/,
    ],
    [
      "of a directory that was renamed afterwards",
      (at) => {
        cpSync(at("a"), at("copy"), { recursive: true });
        renameSync(at("a"), at("b"));
      },
      /was copied or moved here from .*a\. Nothing shows/,
    ],
    [
      "that was put in the place of a renamed one",
      (at) => {
        renameSync(at("a"), at("b"));
        cpSync(at("b"), at("a"), { recursive: true });
        renameSync(at("a"), at("copy"));
      },
      /Nothing shows that the original is gone/,
    ],
    [
      "of a directory that is still in its place",
      (at) => cpSync(at("a"), at("copy"), { recursive: true }),
      /is a copy\. The original, .*a, may be at work/,
    ],
  ])("a copy %s asks, and names the known facts about the original", async (_what, moves, original) => {
    ensureIdentity(await openState(join(root, "a")), "m");
    moves((name) => join(root, name));
    const state = await openState(join(root, "copy"));
    expect(() => assertOwnState({ state, machine: "m" })).toThrow(original);
  });

  test("an identity that cannot be read counts as missing", async () => {
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

test("in an accepted copy, an owner whose life file belongs to the original is recognized as such", async () => {
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
    expect(homeOfOwner(copy, lifeIn(original.root))).toBe(original.root);
    expect(homeOfOwner(copy, lifeIn(copy.root))).toBeNull();
    expect(homeOfOwner(copy, undefined)).toBeNull();
    expect(homeOfOwner(original, { ...lifeIn(original.root), inode: 1 })).toBeNull();
  } finally {
    rmSync(root, { recursive: true });
  }
});

describe("an index file with a second name", () => {
  const machine = "one";
  const index = (folder: string) => join(folder, "index.db");

  test.each([
    ["is opened where it was made", "state", true],
    ["is not opened in a copy", "copy", false],
  ])("in another directory %s", async (_what, name, isOpened) => {
    const folder = mkdtempSync(join(tmpdir(), "reprise-linked-"));
    try {
      const original = await openState(join(folder, "state"));
      ensureIdentity(original, machine);
      cpSync(original.root, join(folder, "copy"), { recursive: true });
      writeFileSync(index(original.root), "");
      linkSync(index(original.root), index(join(folder, "copy")));
      const state = await openState(join(folder, name));
      const look = () => assertUnlinkedIndex({ state, machine }, state.indexPath);
      if (isOpened) look();
      else expect(look).toThrow(expect.objectContaining({ code: "state_copied" }));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("in the same directory, left by an interrupted rebuild, is opened", async () => {
    const folder = mkdtempSync(join(tmpdir(), "reprise-linked-"));
    try {
      const state = await openState(join(folder, "state"));
      writeFileSync(state.indexPath, "");
      linkSync(state.indexPath, `${state.indexPath}.damaged-20260101`);
      expect(() => assertUnlinkedIndex({ state, machine }, state.indexPath)).not.toThrow();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("a place inside a state directory that had another path", () => {
  const RUN = "20260401T120000Z-codex-1a2b3c4d";
  let base: string;
  let now: string;
  const old = () => join(base, "old");
  beforeEach(() => {
    base = realpathSync(mkdtempSync(join(tmpdir(), "reprise-moved-")));
    now = join(base, "new one");
    mkdirSync(join(now, "runs", RUN, "work"), { recursive: true });
  });
  afterEach(() => rmSync(base, { recursive: true }));

  test.each([
    [`/a/runs/${RUN}/work`, [["/a", `runs/${RUN}/work`]]],
    ["/a/workspaces/1a2b3c4d/worktree/sub", [["/a", "workspaces/1a2b3c4d/worktree/sub"]]],
    [
      `/a/runs/${RUN}/work/runs/${RUN}`,
      [
        ["/a", `runs/${RUN}/work/runs/${RUN}`],
        [`/a/runs/${RUN}/work`, `runs/${RUN}`],
      ],
    ],
    ["/a/runs/mine", []],
    ["/a/workspaces/mine", []],
    [`/a/other/${RUN}/work`, []],
    ["/home/me/project", []],
  ])("%s", (path, roots) => {
    expect(formerRoots(path).map(({ from, inside }) => [from, inside])).toEqual(roots);
  });

  test("is known by the same run, and the way back makes room for it", () => {
    const path = join(old(), "runs", RUN, "work");
    const back = () => movedState(now, path)?.back;
    const rename = `mv '${now}' ${old()}`;
    expect(movedState(now, path)).toEqual({
      from: old(),
      to: now,
      now: join(now, "runs", RUN, "work"),
      back: rename,
    });
    symlinkSync(now, old());
    expect(back()).toBe(`rm ${old()} && ${rename}`);
    rmSync(old());
    mkdirSync(old());
    expect(back()).toBe(`mv ${old()} ${old()}.aside && ${rename}`);
    const deeper = join(base, "gone", "state", "runs", RUN, "work");
    expect(movedState(now, deeper)?.back).toBe(`mkdir -p ${base}/gone && mv '${now}' ${base}/gone/state`);
  });

  test("is not moved where it is as recorded, where nothing of it is here, or where another path leads to it", () => {
    const path = join(old(), "runs", RUN, "work");
    expect(movedState(now, join(now, "runs", RUN, "work"))).toBeNull();
    expect(movedState(now, join(old(), "runs", RUN, "worktree"))).toBeNull();
    expect(movedState(now, join(base, "project"))).toBeNull();
    mkdirSync(path, { recursive: true });
    expect(movedState(now, path)).toBeNull();
    // A parent may have been a link from the start.
    symlinkSync(base, `${base}-link`);
    try {
      expect(movedState(now, join(`${base}-link`, "new one", "runs", RUN, "work"))).toBeNull();
    } finally {
      rmSync(`${base}-link`);
    }
  });

  test("counts as the same for git unless the directory was a copy once", async () => {
    const first = await openState(join(base, "state"));
    expect(isOriginal({ state: first, machine: "one" })).toBe(false);
    ensureIdentity(first, "one");
    renameSync(first.root, join(base, "renamed"));
    const renamed = { state: await openState(join(base, "renamed")), machine: "one" };
    assertOwnState(renamed);
    expect(isOriginal(renamed)).toBe(true);
    cpSync(renamed.state.root, join(base, "copy"), { recursive: true });
    const copy = { state: await openState(join(base, "copy")), machine: "one" };
    acceptCopy(copy);
    expect(isOriginal(copy)).toBe(false);
  });
});
