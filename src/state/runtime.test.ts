/** The place of sockets: short enough, ours alone, or refused with the length. */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openState } from "./directory.ts";
import { daemonLock, runtimeDir } from "./runtime.ts";

let root = "";
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), "rt-")));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const mode = (path: string) => statSync(path).mode & 0o777;

test("the runtime directory is inside the state directory, for the user alone", async () => {
  const state = await openState(join(root, "s"));
  const directory = runtimeDir(state, {});
  expect([directory, mode(directory)]).toEqual([join(root, "s/run"), 0o700]);
  chmodSync(directory, 0o755);
  expect([runtimeDir(state, {}), mode(directory)]).toEqual([directory, 0o700]);
});

test("a path that is too long moves it to the user's runtime directory, a separate one for each state directory", async () => {
  const one = await openState(join(root, "s".repeat(90)));
  const other = await openState(join(root, "t".repeat(90)));
  const env = { XDG_RUNTIME_DIR: root };
  const directory = runtimeDir(one, env);
  expect(directory).toMatch(/\/reprise-[0-9a-f]{8}$/);
  expect(mode(directory)).toBe(0o700);
  expect(runtimeDir(one, env)).toBe(directory);
  expect(runtimeDir(other, env)).not.toBe(directory);
});

test("a path that is too long keeps one place, whatever the variable says later, until that place is gone", async () => {
  const state = await openState(join(root, "s".repeat(90)));
  const [one, two] = ["a", "b"].map((name) => join(root, name)) as [string, string];
  for (const directory of [one, two]) mkdirSync(directory, { mode: 0o700 });
  const first = runtimeDir(state, { XDG_RUNTIME_DIR: one });
  expect(runtimeDir(state, { XDG_RUNTIME_DIR: two })).toBe(first);
  expect(runtimeDir(state, {})).toBe(first);
  rmSync(one, { recursive: true });
  const second = runtimeDir(state, { XDG_RUNTIME_DIR: two });
  expect([second.startsWith(`${two}/`), runtimeDir(state, {})]).toEqual([true, second]);
  expect(daemonLock(state)).toBe(join(state.root, "run/d.lock"));
});

const refused: Record<string, (state: string) => Record<string, string>> = {
  "no runtime directory": () => ({}),
  "a relative runtime directory": () => ({ XDG_RUNTIME_DIR: "run" }),
  "a missing runtime directory": () => ({ XDG_RUNTIME_DIR: join(root, "gone") }),
  "a runtime directory that is a link": () => {
    symlinkSync(root, join(root, "link"));
    return { XDG_RUNTIME_DIR: join(root, "link") };
  },
  "a runtime directory that others may write to": () => {
    mkdirSync(join(root, "open"));
    chmodSync(join(root, "open"), 0o777);
    return { XDG_RUNTIME_DIR: join(root, "open") };
  },
  "a runtime directory that is also too long": () => {
    mkdirSync(join(root, "x".repeat(90)));
    return { XDG_RUNTIME_DIR: join(root, "x".repeat(90)) };
  },
};

test.each(Object.entries(refused))(
  "a path that is too long, with %s, is refused with its length and the way out",
  async (_name, make) => {
    const state = await openState(join(root, "s".repeat(90)));
    const length = join(state.root, "run/h-00000000.sock").length;
    expect(() => runtimeDir(state, make(state.root))).toThrow(
      expect.objectContaining({
        code: "usage",
        message: expect.stringMatching(new RegExp(`${length} bytes.*REPRISE_HOME to a shorter path`)),
      }),
    );
  },
);

test("a link in place of the runtime directory is refused", async () => {
  const state = await openState(join(root, "s"));
  mkdirSync(join(root, "elsewhere"));
  symlinkSync(join(root, "elsewhere"), join(state.root, "run"));
  expect(() => runtimeDir(state, {})).toThrow(expect.objectContaining({ code: "denied" }));
});
