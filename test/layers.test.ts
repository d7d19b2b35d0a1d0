/**
 * Checks the architecture. Six rules:
 *  1. direction: a folder imports only the folders it lists here;
 *  2. front door: other folders import a folder through `<folder>/<folder>.ts`, or a file of `DOORS`;
 *  3. size: a folder has few files, and a door exports at most 25 names, all of them used;
 *  4. purity: pure files use no Node built-in except node:path, no clock, no environment and no randomness;
 *  5. no cycles: no file imports itself through others, not even for a type;
 *  6. git starts in one place.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

const MAY_USE: Record<string, readonly string[]> = {
  lib: [],
  core: ["lib"],
  engines: ["core", "lib"],
  process: ["core", "lib"],
  state: ["core", "lib"],
  store: ["core", "lib"],
  drivers: ["process", "engines", "core", "lib"],
  run: ["drivers", "engines", "state", "store", "core", "lib"],
  search: ["run", "engines", "state", "store", "core", "lib"],
  ipc: ["state", "core", "lib"],
  detached: ["ipc", "run", "state", "store", "process", "core", "lib"],
  notify: ["run", "process", "core", "lib"],
  schedule: ["notify", "detached", "run", "state", "store", "core", "lib"],
  runbooks: ["core", "lib"],
  github: ["state", "core", "lib"],
  reviews: ["github", "run", "state", "store", "core", "lib"],
  supervisor: [
    "schedule",
    "notify",
    "ipc",
    "detached",
    "runbooks",
    "run",
    "state",
    "store",
    "process",
    "core",
    "lib",
  ],
  issues: ["github", "run", "state", "store", "process", "core", "lib"],
  terminal: ["lib"],
  tui: ["reviews", "terminal", "core", "lib"],
  home: ["terminal", "core", "lib"],
  share: ["terminal", "state", "core", "lib"],
  web: ["ipc", "detached", "run", "state", "store", "core", "lib"],
  cli: [
    "web",
    "schedule",
    "notify",
    "tui",
    "share",
    "home",
    "terminal",
    "issues",
    "reviews",
    "supervisor",
    "runbooks",
    "detached",
    "search",
    "run",
    "state",
    "store",
    "engines",
    "core",
    "lib",
  ],
  // `doctor --certify`, a separate program: the cases, their interpreter, the labs of the engines and a scripted model.
  certify: ["engines", "core", "lib"],
  // The demo agent is a separate program; it shares nothing with the product but the vocabulary.
  demo: ["core", "lib"],
};

const DOORS: Record<string, RegExp> = {
  lib: /./,
  core: /./,
  engines: /^(engine|engines)\.ts$/,
  // Every file of the state directory has its functions, each file for one kind of data.
  state: /./,
  // Drawing, and the parts that UIs share.
  terminal: /^(terminal|widgets)\.ts$/,
  // `list` reads the files alone.
  schedule: /^(schedule|files)\.ts$/,
  // The planning of a batch, its rights and its records are asked for without running one.
  issues: /^(issues|batch-plan|live-batch|plan|prior|rights)\.ts$/,
  // Pipelines, and the client of the daemon.
  supervisor: /^(supervisor|daemon-client|pipelines)\.ts$/,
  // One door per purpose. Selecting runs and asking git load no engine and no driver.
  run: /^(run|select|label|here|inspect|clean|conversation-reader|engine-setup|engine-access|git|changes)\.ts$/,
};

/** Files that a folder may have without those of its sub-folders, 16 by default: a command or an engine each, and the deepest module. */
const MOST_FILES: Record<string, number> = {
  core: 20,
  lib: 20,
  cli: 83,
  certify: 24,
  engines: 38,
  issues: 36,
  reviews: 17,
  run: 29,
  state: 18,
  supervisor: 25,
  web: 21,
};

/** Names that a door may export. */
const MOST_NAMES = 25;

/** Commands are named after what they are about, so the names of pure files mean nothing there. */
const PURE =
  /^(lib|core|engines)\/|^terminal\/(?!screen|guard|ui)|^tui\/(?!tui|effects)|^home\/(?!home\.|home-screen|picker)|^supervisor\/(history|counts|delay|occurrence)\.ts$|^(?!cli\/).*\/(decide|plan|plan-notes|never-began|outcome|reduce|runbook|wire|liveness|conversation|activity|paste|modes)\.ts$/;
const IMPURE = /\bDate\.now\(|new Date\(\)|Math\.random\(|\bprocess\.|\bset(Timeout|Interval)\(/;
const IMPORT = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g;

const folders = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory());
const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter(
  (file) => file.endsWith(".ts") && !file.endsWith(".test.ts") && !file.includes("fixtures/"),
);

test("every folder is listed", () => {
  expect(folders.map((folder) => folder.name).toSorted()).toEqual(Object.keys(MAY_USE).toSorted());
});

test.each([...new Set(files.map(dirname))])("%s stays small enough to read", (folder) => {
  const own = files.filter((file) => dirname(file) === folder);
  expect(own.length).toBeLessThanOrEqual(MOST_FILES[folder] ?? 16);
});

test.each(files)("%s keeps to its layer", (file) => {
  const text = withoutComments(readFileSync(join("src", file), "utf8"));
  const pure = PURE.test(file);
  const wrong: string[] = pure ? (text.match(IMPURE) ?? []).slice(0, 1) : [];
  for (const [, target = ""] of text.matchAll(IMPORT)) {
    const allowed = target.startsWith(".")
      ? mayImport(file, target)
      : !(pure && /^node:(?!path)/.test(target));
    if (!allowed) wrong.push(target);
  }
  expect(wrong).toEqual([]);
});

test.each(files.filter(isDoor))("%s exports only names that other product code imports", (door) => {
  const text = readFileSync(join("src", door), "utf8");
  const passedOn = [...text.matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].flatMap(([, list = ""]) =>
    namesIn(list),
  );
  const importers = files.map((file) => [file, readFileSync(join("src", file), "utf8")] as const);
  const used = importers
    .filter(([file, code]) =>
      [...code.matchAll(IMPORT)].some(([, to = ""]) => normalize(join(file, "..", to)) === door),
    )
    .map(([, code]) => code)
    .join();
  expect(passedOn.filter((name) => !new RegExp(`\\b${name}\\b`).test(used))).toEqual([]);
});

test.each(files.filter(isDoor))("%s exports few names", (door) => {
  const text = readFileSync(join("src", door), "utf8");
  const own = [...text.matchAll(/^export (?!(?:type )?\{|\*)/gm)].length;
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list = ""]) =>
    namesIn(list),
  );
  expect(text).not.toMatch(/^export \*/m);
  expect(own + listed.length).toBeLessThanOrEqual(MOST_NAMES);
});

test("no file imports itself through others, not even for a type", () => {
  expect(files.filter(isInCycle)).toEqual([]);
});

test("git starts in one place, where no repository can name a program", () => {
  const starting = files.filter((file) => {
    const text = readFileSync(join("src", file), "utf8");
    return text.includes('resolveProgram("git"') && /\b(?:runTool|spawn\w*)\(/.test(text);
  });
  expect(starting).toEqual(["run/git.ts"]);
});

/** Of a module that is loaded on demand (`import("…")`), nothing is needed before the call: that is no cycle. */
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): readonly string[] {
  const text = withoutComments(readFileSync(join("src", file), "utf8"));
  return [...text.matchAll(IMPORT)]
    .filter(([all, target = ""]) => target.startsWith(".") && !all.includes("("))
    .map(([, target = ""]) => normalize(join(file, "..", target)));
}

function isInCycle(file: string): boolean {
  const seen = new Set<string>();
  const open = [...(imports.get(file) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (seen.has(next)) continue;
    seen.add(next);
    open.push(...(imports.get(next) ?? []));
  }
  return seen.has(file);
}

function isDoor(file: string): boolean {
  const [folder = "", ...rest] = file.split("/");
  return rest.length === 1 && !/^(lib|core)$/.test(folder) && doorOf(folder).test(rest.join("/"));
}

function doorOf(folder: string): RegExp {
  return DOORS[folder] ?? new RegExp(`^${folder}\\.ts$`);
}

/** Of `type A, b`: `A`, `b`. */
function namesIn(list: string): readonly string[] {
  return list.split(",").flatMap((part) => /^\s*(?:type\s+)?(\w+)/.exec(part)?.[1] ?? []);
}

function mayImport(file: string, target: string): boolean {
  const [from = "", ...inside] = file.split("/");
  const [to = "", ...rest] = normalize(join(file, "..", target)).split("/");
  // Tests, tools and the conformance suite use the product, never the other way round.
  if (to === "..") return false;
  // Files beside the folders wire everything together.
  if (inside.length === 0 || from === to || rest.length === 0) return true;
  return (MAY_USE[from]?.includes(to) ?? false) && doorOf(to).test(rest.join("/"));
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
}
