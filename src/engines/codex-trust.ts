/**
 * Trust of Codex 0.166. In a trusted folder Codex takes settings, programs and rules from the project's `.codex`; these
 * programs, and commands that the rules allow, run outside the sandbox. Codex judges each folder from the checkout down to
 * its working directory by the folder's name, then by the checkout's, then by the main checkout's. If its config names
 * neither the folder nor the main checkout, a sandbox that may write makes Codex trust the folder.
 */
import { dirname, resolve } from "node:path";
import type { FolderTrust } from "../core/records.ts";
import { Fault } from "../core/faults.ts";
import { parseJson } from "../lib/json.ts";
import { shellWord } from "../lib/shell.ts";
import { grammar, keyAndValue, mayWrite, saysSandbox, setting, settingIn } from "./codex-options.ts";
import type { AttemptRequest, Engine } from "./engine.ts";
import { describe, type Given, parseArgs, type Parsed, valueOf } from "./grammar.ts";

type Levels = ReadonlyMap<string, string>;
type Folders = readonly [cwd: string, ...checkouts: string[]];

export const folderTrust: NonNullable<Engine["folderTrust"]> = {
  files: ["config.toml", "/etc/codex/config.toml"],
  workplace: (args, cwd) => workplaceOf(parseArgs(grammar, args), cwd),
  in(texts, folders, args) {
    const given = levelsOf(parseArgs(grammar, args).options);
    // An unreadable option may take trust away.
    if (given === null) return "untrusted";
    const files = texts.map((text) => [...levelsIn(text)]);
    return trustIn(new Map([...files.toReversed().flat(), ...given]), folders);
  },
};

function trustIn(levels: Levels, [cwd, ...checkouts]: Folders): FolderTrust {
  const own = levels.get(cwd);
  const outer = checkouts.map((folder) => levels.get(folder)).find((level) => level !== undefined);
  if (own === undefined && outer === undefined) return "unset";
  // Trust in a part of a checkout does not cover the settings of the whole.
  const whole = checkouts.length === 0 ? own : outer;
  return (own ?? outer) === "trusted" && whole === "trusted" ? "trusted" : "untrusted";
}

/**
 * The folders that `-c` options name, after Codex's own merge: the last `projects` replaces all before it, a key with
 * dots adds to it, and a dot always ends a name, also inside quotes. Null: a value that Reprise cannot read.
 */
function levelsOf(options: readonly Given[]): Levels | null {
  let levels: Map<string, string> | null = new Map<string, string>();
  for (const { spec, values } of options) {
    const [key, value] = spec?.guard === setting ? keyAndValue(values.at(-1) ?? "") : ["", ""];
    const [table, folder, field, ...more] = key.split(".");
    if (table !== "projects") continue;
    if (folder === undefined) levels = new Map<string, string>();
    // It names nothing that Codex looks for.
    if (levels === null || more.length > 0 || (field ?? "trust_level") !== "trust_level") continue;
    const path = [folder, field].filter((name) => name !== undefined);
    const leaves = field === undefined ? leavesOf(value) : [{ path: [], text: value }];
    if (folder !== undefined) levels.delete(folder);
    if (leaves === null || !addLevels(levels, path, leaves)) levels = null;
  }
  return levels;
}

interface Leaf {
  readonly path: readonly string[];
  readonly text: string;
}

/** False: a level that Codex does not know. */
function addLevels(levels: Map<string, string>, path: readonly string[], leaves: readonly Leaf[]): boolean {
  for (const leaf of leaves) {
    const [folder = "", field, ...more] = [...path, ...leaf.path];
    if (field !== "trust_level" || more.length > 0) continue;
    if (leaf.text !== "trusted" && leaf.text !== "untrusted") return false;
    levels.set(folder, leaf.text);
  }
  return true;
}

const TABLE = /^\[\s*projects\s*(?:\.\s*("(?:[^"\\]|\\.)*"|'[^']*')\s*)?\]/;

/** The levels in a config file. A folder in a spelling that Reprise cannot read counts as not named. */
function levelsIn(text: string): Levels {
  const levels = new Map<string, string>();
  let path: readonly string[] | null = [];
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    if (line.startsWith("[")) {
      const [header, name] = TABLE.exec(line) ?? [];
      const folder = name === undefined ? null : textOf(name);
      path = header === undefined ? null : ["projects", ...(folder === null ? [] : [folder])];
    } else if (path !== null && (path.length > 0 || line.startsWith("projects"))) {
      for (const leaf of leavesOf(`{${line}\n}`) ?? []) {
        const [table, ...rest] = [...path, ...leaf.path];
        if (table === "projects") addLevels(levels, [], [{ ...leaf, path: rest }]);
      }
    }
  }
  return levels;
}

/** Space, comments, strings, bare keys and signs. Strings over several lines are not among them. */
const WORD = /\s+|#[^\n]*|"(?!"")(?:[^"\\\n]|\\.)*"|'(?!'')[^'\n]*'|[\w-]+|[{}=.,]/gy;
const MOST_DEPTH = 4;

/** The strings of an inline table of TOML, each with the keys that lead to it. Null: it is something else. */
function leavesOf(text: string): readonly Leaf[] | null {
  const all = [...text.matchAll(WORD)].map(([word]) => word);
  if (all.join("").length !== text.length) return null;
  const words = all.filter((word) => !/^[\s#]/.test(word)).toReversed();
  const leaves = tableIn(words, []);
  return words.length === 0 ? leaves : null;
}

/** Takes the table from the end of `words`. */
function tableIn(words: string[], path: readonly string[]): readonly Leaf[] | null {
  if (words.pop() !== "{" || path.length > MOST_DEPTH) return null;
  const leaves: Leaf[] = [];
  while (words.at(-1) !== "}") {
    const at = [...path, ...(keyIn(words) ?? [])];
    if (at.length === path.length) return null;
    const inner = words.at(-1) === "{" ? tableIn(words, at) : leafIn(words, at);
    if (inner === null) return null;
    leaves.push(...inner);
    if (words.at(-1) === ",") words.pop();
    else if (words.at(-1) !== "}") return null;
  }
  words.pop();
  return leaves;
}

function leafIn(words: string[], path: readonly string[]): readonly Leaf[] | null {
  const word = words.pop() ?? "";
  const text = /^["']/.test(word) ? textOf(word) : /^[\w-]/.test(word) ? word : null;
  return text === null ? null : [{ path, text }];
}

/** `a."b" =` */
function keyIn(words: string[]): readonly string[] | null {
  const names: string[] = [];
  for (;;) {
    const word = words.pop() ?? "";
    const name = /^["']/.test(word) ? textOf(word) : /^[\w-]/.test(word) ? word : null;
    if (name === null) return null;
    names.push(name);
    const sign = words.pop();
    if (sign === "=") return names;
    if (sign !== ".") return null;
  }
}

function textOf(quoted: string): string | null {
  const value = quoted.startsWith("'") ? quoted.slice(1, -1) : parseJson(quoted);
  return typeof value === "string" ? value : null;
}

function workplaceOf(parsed: Parsed, cwd: string): string {
  return resolve(cwd, valueOf(parsed, "--cd") ?? ".");
}

function foldersOf(ask: AttemptRequest, parsed: Parsed): Folders {
  return ask.folders ?? [workplaceOf(parsed, ask.cwd)];
}

/**
 * The option by which a later attempt does not trust a folder that was not trusted when the run was started. It must
 * follow all others, since the last `projects` counts, so it repeats the levels that the run's own options give other
 * folders.
 */
export function heldTrust(ask: AttemptRequest, asked: Parsed): readonly Given[] {
  const { folderTrust: folder, rights = [] } = ask;
  if (folder === undefined || folder === "trusted" || ask.trustCwd) return [];
  // Without a sandbox option, Codex lets the agent write to an untrusted folder, but not to a folder that no config
  // names.
  if (rights.length === 0 && !saysSandbox(asked)) return [];
  const levels = levelsOf(asked.options);
  if (levels === null) throw unreadable(asked);
  const folders = foldersOf(ask, asked);
  // Runs of earlier versions have a record of the config alone.
  const began = folder === "unset" ? trustIn(levels, folders) : folder;
  if (began === "trusted") return [];
  const first = parseArgs(grammar, rights.length === 0 ? ask.given : rights, true);
  if (began === "unset" && (mayWrite(first) || profileWrites(first, folders[0]))) return [];
  // By both names, where one leads to the other by a link.
  const held = [workplaceOf(asked, ask.cwd), folders[0]].flatMap(withParents);
  const all = new Map([...levels, ...held.map((name) => [name, "untrusted"] as const)]);
  return parseArgs(grammar, ["-c", projects(all)], true).options;
}

function unreadable({ options }: Parsed): Fault {
  const found = options.find(
    ({ spec, values }) => spec?.guard === setting && /^\s*projects\b/.test(values.at(-1) ?? ""),
  );
  const option = found === undefined ? "-c projects=…" : describe([found]).join(" ");
  return new Fault(
    "option_unkept",
    `The run was started with ${option}, which Reprise cannot read, so it cannot tell which folders Codex would trust. ` +
      'Start a new run, and name folders as in -c \'projects={"/folder"={trust_level="untrusted"}}\'.',
    { facts: { option } },
  );
}

/** Codex neither trusts these folders nor records trust for them, whatever its config says. */
function projects(levels: Levels): string {
  const entries = [...levels].map(([name, level]) => `${JSON.stringify(name)}={trust_level="${level}"}`);
  return `projects={${entries.join(",")}}`;
}

function withParents(folder: string): readonly string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...withParents(above)];
}

function profileWrites({ options }: Parsed, cwd: string): boolean {
  const rules = settingIn(
    options,
    `permissions.${settingIn(options, "default_permissions") ?? ""}.filesystem`,
  );
  const covers = (path: string) => path === "/" || cwd === path || cwd.startsWith(`${path}/`);
  // Rules match one after the other, so that hostile text costs linear time.
  const [nearest] = [...(rules ?? "").slice(1).matchAll(/("(?:[^"\\]|\\.)*")="(\w+)",?/gy)]
    .map(([, key = "", access]) => ({ path: textOf(key) ?? "", access }))
    .map(({ path, access }) => ({ path: path === ":root" ? "/" : path, access }))
    .filter(({ path }) => path !== "" && covers(path))
    .toSorted((one, other) => other.path.length - one.path.length);
  return nearest?.access === "write";
}

/** The folder's level from Codex's config and these options. Null: Reprise cannot read them. */
export function trustNamed(ask: AttemptRequest, parsed: Parsed): FolderTrust | null {
  const { folderTrust: folder = "unset" } = ask;
  const levels = levelsOf(parsed.options);
  if (levels === null) return null;
  return folder === "unset" ? trustIn(levels, foldersOf(ask, parsed)) : folder;
}

/** `-s`, `-c sandbox_mode=…`, `--yolo` and `--approve-for-me` all make 0.166 trust, and record it for a repository. */
export function trustWarning(ask: AttemptRequest, parsed: Parsed): { warnings?: readonly string[] } {
  const named = trustNamed(ask, parsed);
  const isSaid = ask.trustCwd || (named !== null && named !== "unset");
  if (isSaid || !mayWrite(parsed, true)) return {};
  const folders = foldersOf(ask, parsed);
  // Codex records trust for the main checkout, or for a folder without a repository.
  const place = folders.at(-1) ?? folders[0];
  const isBare = ask.folders?.length === 1;
  const option = projects(new Map([...(levelsOf(parsed.options) ?? []), [place, "untrusted"]]));
  const way =
    isBare && ask.ownFolder === true
      ? "No option can prevent that beforehand, since each run gets a new folder: use --isolate worktree, or a sandbox that cannot write. "
      : `To prevent that, start with -- -c ${shellWord(option)} instead. `;
  return {
    warnings: [
      `With a writable sandbox Codex itself trusts ${place}${isBare ? "" : " and records that in its config.toml"}. ` +
        `From this attempt on, .codex/ in that ${isBare ? "folder" : "repository"} counts: programs that it names, such as MCP servers, run outside the sandbox, and its rules can let commands out of it. ` +
        `${way}--trust-cwd says that trust is wanted.`,
    ],
  };
}
