import { readFileSync } from "node:fs";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { isRootOnly } from "../audit/audit.ts";
import type { Command, SettingsFile } from "../engines/engine.ts";
import { findEngine, settingsEnv, setUpEngine } from "./engine-setup.ts";

const dir = mkdtempSync(join(tmpdir(), "reprise-settings-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const plain: SettingsFile = {
  purpose: "The weather",
  variable: "WEATHER",
  name: "weather.json",
  content: "{}\n",
};

function commandWith(setting: SettingsFile): Command {
  const options = { kept: [], dropped: [], rewritten: [] };
  return {
    args: [],
    stdin: null,
    env: {},
    headless: true,
    structured: true,
    expects: null,
    options,
    settings: [setting],
  };
}

test("a settings file is written for the engine unless the user names one", async () => {
  const deps = await testDeps(join(dir, "one"));
  const { env, notes } = settingsEnv(deps, commandWith(plain), {});
  expect(readFileSync(env["WEATHER"] ?? "", "utf8")).toBe("{}\n");
  expect(notes).toEqual([]);
  // An agent that starts Reprise hands our own file on.
  expect(settingsEnv(deps, commandWith(plain), env)).toEqual({ env, notes: [], apart: false });
  expect(settingsEnv(deps, commandWith(plain), { WEATHER: "/mine" })).toEqual({
    env: {},
    notes: ["The weather was left as it is: WEATHER is set"],
    apart: false,
  });
});

test("a file that the engine would read otherwise is not hidden", async () => {
  const deps = await testDeps(join(dir, "two"));
  const theirs = join(dir, "theirs.json");
  const setting = { ...plain, hides: (env: object) => ("HIDE" in env ? [theirs] : []) };
  writeFileSync(theirs, "{}");
  expect(settingsEnv(deps, commandWith(setting), { HIDE: "1" })).toEqual({
    env: {},
    notes: [`The weather was left as it is: ${theirs} exists`],
    apart: false,
  });
  expect(settingsEnv(deps, commandWith(setting), {}).env).toHaveProperty("WEATHER");
});

test("an engine that believes only files of root is given no other", async () => {
  const deps = await testDeps(join(dir, "three"));
  const setting = { ...plain, rootOnly: true } as const;
  expect(settingsEnv(deps, commandWith(setting), {})).toEqual({ env: {}, notes: [], apart: false });
  const apart = settingsEnv(deps, commandWith({ ...setting, otherwiseApart: true }), {});
  expect(apart).toEqual({ env: {}, notes: [], apart: true });
  expect(settingsEnv(deps, commandWith({ ...plain, otherwiseApart: true }), {}).apart).toBe(false);
  // Others may write to the folder for temporary files.
  expect(isRootOnly(dir)).toBe(false);
  expect(isRootOnly("/")).toBe(true);
  expect(isRootOnly(join(dir, "missing"))).toBe(false);
});

test.each(["REPRISE_DEMO_HOME", "HOME"])("a home in a relative %s is refused", async (name) => {
  const deps = await testDeps(join(dir, name));
  const env = { ...deps.env, HOME: "/home/of/nobody", REPRISE_HOME: undefined, [name]: "not/absolute" };
  expect(() => setUpEngine({ ...deps, env }, findEngine(deps, "demo"), [])).toThrow(
    /absolute path in REPRISE_DEMO_HOME or HOME/,
  );
});
