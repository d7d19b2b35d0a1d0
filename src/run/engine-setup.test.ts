import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { testDeps } from "../../test/deps.ts";
import { isRootOnly } from "../state/places.ts";
import { codex } from "../engines/codex.ts";
import { demo } from "../engines/demo.ts";
import type { Command, SettingsFile } from "../engines/engine.ts";
import { findEngine, settingsEnv, setUpEngine } from "./engine-setup.ts";
import { foldersIn, trustNow } from "./folder-trust.ts";

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

test("Reprise writes a settings file for the engine unless the user names one", async () => {
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

test("Reprise does not hide a file that the engine would read otherwise", async () => {
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

test("an engine that believes only files of root gets no other file", async () => {
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

test("a worktree of a bare repository, and a checkout with its git directory elsewhere, are known by themselves", () => {
  const root = join(realpathSync(dir), "apart");
  for (const folder of ["home", "bare.git/worktrees/tree", "tree", "apart.git", "checkout"])
    mkdirSync(join(root, folder), { recursive: true });
  writeFileSync(`${root}/bare.git/worktrees/tree/commondir`, "../..\n");
  writeFileSync(`${root}/tree/.git`, `gitdir: ${root}/bare.git/worktrees/tree\n`);
  writeFileSync(`${root}/checkout/.git`, `gitdir: ${root}/apart.git\n`);
  writeFileSync(`${root}/home/config.toml`, `[projects."${root}"]\ntrust_level = "trusted"\n`);
  for (const cwd of [`${root}/tree`, `${root}/checkout`]) {
    const place = { cwd, checkout: cwd, args: [], interactive: false };
    expect(trustNow({ engine: codex, home: `${root}/home` }, place).folderTrust).toBe("unset");
    expect(foldersIn(codex, place).folders).toEqual([cwd, cwd, cwd]);
  }
});

test("the trust that an engine's settings have in a folder is looked for as the engine does", () => {
  const root = join(realpathSync(dir), "trust");
  const [home, repo, tree, bare] = ["home", "repo", "tree", "bare"].map((name) => join(root, name));
  for (const folder of [
    home,
    `${repo}/sub`,
    `${repo}/.git/worktrees/tree`,
    tree,
    `${bare}/.git`,
    `${bare}/sub`,
  ])
    mkdirSync(String(folder), { recursive: true });
  writeFileSync(`${repo}/.git/HEAD`, "ref: refs/heads/main\n");
  writeFileSync(`${repo}/.git/worktrees/tree/commondir`, "../..\n");
  writeFileSync(`${tree}/.git`, `gitdir: ${repo}/.git/worktrees/tree\n`);
  const now = (cwd = "", more: Partial<Parameters<typeof trustNow>[1]> = {}) =>
    trustNow(
      { engine: codex, home: home ?? "" },
      { cwd, checkout: cwd, args: [], interactive: false, ...more },
    ).folderTrust;
  expect([repo, tree, bare].map((cwd) => now(cwd))).toEqual(["unset", "unset", "unset"]);
  // Its UI goes on only where the user trusts the folder.
  expect(now(repo, { interactive: true })).toBe("trusted");
  writeFileSync(`${home}/config.toml`, `[projects."${repo}"]\ntrust_level = "trusted"\n`);
  expect([repo, `${repo}/sub`, tree].map((cwd) => now(cwd))).toEqual(["trusted", "trusted", "trusted"]);
  expect(now(bare, { args: ["-C", repo ?? ""] })).toBe("trusted");
  // A worktree that is yet to be made.
  expect(now(join(root, "later"))).toBe("unset");
  expect(now(join(root, "later"), { checkout: `${repo}/sub` })).toBe("trusted");
  expect(now(join(root, "later"), { checkout: `${repo}/sub`, args: ["-C", "sub"] })).toBe("trusted");
  // What the run's own options say counts first.
  const args = ["-c", `projects={"${repo}"={trust_level="untrusted"}}`];
  expect(now(tree, { args })).toBe("untrusted");
  writeFileSync(`${home}/config.toml`, `[projects."${tree}"]\ntrust_level = "trusted"\n`);
  expect(now(join(root, "later"), { checkout: String(tree) })).toBe("unset");
  writeFileSync(`${home}/config.toml`, `[projects."${bare}/sub"]\ntrust_level = "trusted"\n`);
  expect(now(`${bare}/sub`)).toBe("trusted");
  expect(now(`${bare}/sub`, { checkout: repo ?? "" })).toBe("untrusted");
  expect(
    trustNow({ engine: demo, home: null }, { cwd: "/", checkout: "/", args: [], interactive: true }),
  ).toEqual({});
});
