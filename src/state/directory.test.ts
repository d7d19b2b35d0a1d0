import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Clock } from "../core/deps.ts";
import { Fault } from "../core/faults.ts";
import { openState, saveSettings, type StateDir, stateDirectory } from "./directory.ts";
import { sweepRun, sweepTemp, sweepTrash } from "./upkeep.ts";

const isRoot = process.geteuid?.() === 0;
const NOW = 1_800_000_000_000;
const clock = { now: () => NOW, mono: () => 0 };

let dir: string;
let root: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "reprise-state-"));
  root = join(dir, "deep", "state");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

describe("stateDirectory", () => {
  test.each([
    [{ REPRISE_HOME: "/r/", XDG_STATE_HOME: "/x", HOME: "/h" }, "/r"],
    [{ REPRISE_HOME: "", XDG_STATE_HOME: "/x", HOME: "/h" }, "/x/reprise"],
    [{ XDG_STATE_HOME: "relative", HOME: "/h" }, "/h/.local/state/reprise"],
    [{ HOME: "/h/../k" }, "/k/.local/state/reprise"],
  ])("%j", (env, then) => expect(stateDirectory(env)).toBe(then));

  test.each([{}, { HOME: "" }, { HOME: "home" }, { REPRISE_HOME: "./x", HOME: "/h" }])(
    "%j is refused",
    (env) => {
      expect(() => stateDirectory(env)).toThrow(/Set REPRISE_HOME to an absolute path/);
    },
  );
});

describe("openState", () => {
  test("creates directories for the owner alone under any umask", async () => {
    const before = process.umask(0);
    try {
      const state = await openState(root);
      expect(state).toMatchObject({
        root,
        runsRoot: join(root, "runs"),
        indexPath: join(root, "index.db"),
        writable: true,
      });
      saveSettings(state, "gemini.json", "{}");
    } finally {
      process.umask(before);
    }
    expect(["", "runs", "settings"].map((name) => modeOf(join(root, name)))).toEqual(["700", "700", "700"]);
    expect(readFileSync(join(root, "README.txt"), "utf8")).toContain(
      "MAY HOLD SECRETS: runs/*/attempts/*/pty-output.log",
    );
    expect(["reserve", "settings/gemini.json"].map((name) => modeOf(join(root, name)))).toEqual([
      "600",
      "600",
    ]);
  });

  test("tightens the mode of a directory that we own, and says so", async () => {
    mkdirSync(root, { recursive: true });
    chmodSync(root, 0o755);
    const warnings: string[] = [];
    await openState(root, { warn: (text) => warnings.push(text), info: () => {} });
    expect(modeOf(root)).toBe("700");
    expect(warnings).toEqual([`${root} was open to other users (mode 755); it is 700 now.`]);
  });

  const foreign: [name: string, make: () => void][] = [
    ["files", () => writeFileSync(join(root, "notes.txt"), "mine")],
    ["hidden files", () => writeFileSync(join(root, ".bashrc"), "mine")],
    ["another program's runs", () => mkdirSync(join(root, "runs/experiment-1"), { recursive: true })],
  ];
  test.each(foreign)("refuses a directory with %s and leaves it unchanged", async (_name, make) => {
    mkdirSync(root, { recursive: true });
    make();
    chmodSync(root, 0o1777);
    const before = readdirSync(root);
    await expect(openState(root)).rejects.toMatchObject({
      code: "denied",
      message: expect.stringContaining("Set REPRISE_HOME to a directory that is empty"),
      facts: { path: root },
    });
    expect({ mode: modeOf(root), names: readdirSync(root) }).toEqual({ mode: "777", names: before });
  });

  const ours: [name: string, make: () => void][] = [
    ["an index", () => writeFileSync(join(root, "index.db"), "")],
    ["a reserve", () => writeFileSync(join(root, "reserve"), "")],
    ["runs", () => mkdirSync(join(root, "runs/20260101T000000Z-demo-1a2b3c4d"), { recursive: true })],
    ["a file system's own directory", () => mkdirSync(join(root, "lost+found"))],
  ];
  test.each(ours)("accepts a directory with %s", async (_name, make) => {
    mkdirSync(root, { recursive: true, mode: 0o700 });
    make();
    expect(await openState(root)).toMatchObject({ writable: true });
    expect((await openState(root)).root).toBe(root);
  });

  test("refuses a link and a file, and names the path", async () => {
    mkdirSync(join(dir, "elsewhere"));
    symlinkSync(join(dir, "elsewhere"), join(dir, "link"));
    writeFileSync(join(dir, "file"), "");
    await expect(openState(join(dir, "link"))).rejects.toMatchObject({
      code: "denied",
      facts: { path: join(dir, "link") },
    });
    await expect(openState(join(dir, "file"))).rejects.toMatchObject({ code: "denied" });
    mkdirSync(root, { recursive: true, mode: 0o700 });
    symlinkSync(join(dir, "elsewhere"), join(root, "runs"));
    await expect(openState(root)).rejects.toMatchObject({
      code: "denied",
      message: expect.stringMatching(/symbolic link\. Put the directory itself there\.$/),
      facts: { path: join(root, "runs") },
    });
  });

  test.skipIf(isRoot)("names the directory that may not be read (root reads everything)", async () => {
    const { runsRoot } = await openState(root);
    chmodSync(runsRoot, 0o000);
    await expect(openState(root)).rejects.toMatchObject({
      code: "storage_failed",
      message: `${runsRoot} cannot be read: its mode is 000. Run: chmod 700 '${runsRoot}'`,
    });
  });

  test.skipIf(!isRoot)("refuses a directory of another user (needs root to make one)", async () => {
    mkdirSync(root, { recursive: true, mode: 0o700 });
    chownSync(root, 12_345, 12_345);
    await expect(openState(root)).rejects.toMatchObject({ code: "denied", message: /another user/ });
  });

  test("makes the reserve once, and gives its space back", async () => {
    const state = await openState(root);
    const { ino, size } = statSync(join(root, "reserve"));
    expect(size).toBe(1024 * 1024);
    await openState(root);
    expect(statSync(join(root, "reserve")).ino).toBe(ino);
    expect([state.releaseReserve(), state.releaseReserve()]).toEqual([true, false]);
    expect(existsSync(join(root, "reserve"))).toBe(false);
  });

  test("reads a read-only file system", async ({ skip }) => {
    mkdirSync(root, { recursive: true });
    try {
      execFileSync("env", ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", root], {
        stdio: "ignore",
      });
    } catch {
      skip("mounting is not allowed here");
    }
    try {
      await openState(root);
      execFileSync("env", ["mount", "-o", "remount,ro", root]);
      expect(await openState(root)).toMatchObject({ writable: false });
      expect(await openState(join(root, "new"))).toMatchObject({ writable: false });
      expect(() => saveSettings({ ...dummyState(), root }, "x", "y")).toThrow(
        expect.objectContaining({
          code: "storage_failed",
          facts: expect.objectContaining({ errno: "EROFS" }),
        }),
      );
    } finally {
      execFileSync("env", ["umount", root]);
    }
  });
});

function dummyState() {
  return {
    root: "",
    runsRoot: "",
    indexPath: "",
    writable: false,
    generation: 0,
    runIds: [],
    refusal: null,
    releaseReserve: () => false,
  };
}

test("names of settings cannot leave their directory", async () => {
  const state = await openState(root);
  const path = saveSettings(state, "../../.bashrc", "x");
  expect(path).toBe(join(root, "settings", "_._.._.bashrc"));
  expect(readFileSync(path, "utf8")).toBe("x");
});

describe("sweepTemp", () => {
  test("removes files that no process is writing any more", async () => {
    const state = await openState(root);
    const run = join(state.runsRoot, "20260101T000000Z-demo-1a2b3c4d");
    mkdirSync(join(run, "attempts", "1"), { recursive: true });
    mkdirSync(join(run, "work"));
    const dead = 4_194_303;
    const minutes = { young: 0.5, middle: 10, old: 61 };
    const files = {
      [join(root, `.tmp-${dead}-aa`)]: [minutes.middle, false],
      [join(run, `.tmp-${dead}-bb`)]: [minutes.young, true],
      [join(run, "attempts", "1", `.tmp-${process.pid}-cc`)]: [minutes.middle, true],
      [join(run, "attempts", "1", `.tmp-${process.pid}-dd`)]: [minutes.old, false],
      [join(run, "work", `.tmp-${dead}-ee`)]: [minutes.old, true],
      [join(run, "run.json")]: [minutes.old, true],
      // A directory, such as that of a diff.
      [join(root, `.tmp-${dead}-ff`, "objects")]: [minutes.old, false],
    } as const;
    mkdirSync(join(root, `.tmp-${dead}-ff`));
    for (const [path, [age]] of Object.entries(files)) {
      writeFileSync(path, "");
      utimesSync(path, NOW / 1000 - age * 60, NOW / 1000 - age * 60);
    }
    utimesSync(join(root, `.tmp-${dead}-ff`), NOW / 1000 - 600, NOW / 1000 - 600);
    const isDead = (pid: number) => pid === dead;
    expect(await sweepTemp(state, clock, isDead, "beside")).toBe(2);
    expect(await sweepTemp(state, clock, isDead)).toBe(1);
    expect(Object.keys(files).map((path) => [path, existsSync(path)])).toEqual(
      Object.entries(files).map(([path, [, stays]]) => [path, stays]),
    );
  });

  test.each([
    [
      "beside",
      (state: StateDir, now: Clock, isDead: (pid: number) => boolean) =>
        sweepTemp(state, now, isDead, "beside"),
    ],
    ["all", sweepTemp],
    ["the trash alone", sweepTrash],
  ])(
    "the sweep finishes a dead process's removal at once, and a live process's removal after an hour: %s",
    async (_what, sweep) => {
      const state = await openState(root);
      const [dead, live] = [1, 2].map((pid) => join(state.runsRoot, `.trash-${pid}-ff`));
      for (const path of [dead ?? "", live ?? ""]) {
        mkdirSync(join(path, "attempts"), { recursive: true });
        writeFileSync(join(path, "attempts", "stdout.log"), "");
        // The run was old when it was removed.
        utimesSync(path, 0, 0);
      }
      const at = (ms: number) => ({ now: () => Date.now() + ms, mono: () => 0 });
      await sweep(state, at(0), (pid) => pid === 1);
      expect(readdirSync(state.runsRoot)).toEqual([".trash-2-ff"]);
      await sweep(state, at(3_700_000), (pid) => pid === 1);
      expect(readdirSync(state.runsRoot)).toEqual([]);
    },
  );
});

test("sweepRun removes leftovers of dead writers from a run, and nothing behind a link", async () => {
  const state = await openState(root);
  const run = join(state.runsRoot, "20260101T000000Z-demo-1a2b3c4d");
  const elsewhere = join(dir, "elsewhere");
  for (const path of [join(run, "attempts", "1"), join(elsewhere, "1")]) mkdirSync(path, { recursive: true });
  const name = ".tmp-4194303-aa";
  const left = [run, join(run, "attempts/1"), elsewhere, join(elsewhere, "1")].map((at) => join(at, name));
  for (const path of left) writeFileSync(path, "");
  const remaining = () => left.map((path) => existsSync(path));
  symlinkSync(elsewhere, join(run, "escrow"));
  symlinkSync(elsewhere, join(run, "attempts", "2"));
  sweepRun(run, 2, () => true);
  expect(remaining()).toEqual([false, false, true, true]);
  renameSync(join(run, "attempts"), join(run, "moved"));
  symlinkSync(elsewhere, join(run, "attempts"));
  sweepRun(run, 2, () => true);
  expect(remaining().slice(2)).toEqual([true, true]);
});

test("every refusal is a Fault", async () => {
  await expect(openState(join("/proc", "reprise"))).rejects.toBeInstanceOf(Fault);
});
