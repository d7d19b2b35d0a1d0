/**
 * Which settings of a repository Reprise's own git does not go by. An agent can write a repository's configuration, so only the
 * user's own (global and system) settings may name programs.
 */
import { Fault } from "../../core/faults.ts";

/** Name and value. */
export type Setting = readonly [key: string, value: string];

/** More settings than any repository has by honest means. */
const MOST_SETTINGS = 5_000;

/** Settings that hold for every question, whatever the repository says. */
export const FIXED: readonly Setting[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.untrackedCache", "false"],
  // A file with new content can have its old size and modification time.
  ["core.checkStat", "default"],
  ["core.trustctime", "true"],
  ["core.ignoreStat", "false"],
  ["core.pager", "cat"],
  ["core.editor", "false"],
  ["sequence.editor", "false"],
  ["core.askPass", ""],
  ["credential.helper", ""],
  ["commit.gpgSign", "false"],
  ["tag.gpgSign", "false"],
  // Asking for no grafts is not worth a hint.
  ["advice.graftFileDeprecated", "false"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["protocol.ext.allow", "never"],
  ["submodule.recurse", "false"],
  // Git runs in no submodule, and still sees that one is at another commit.
  ["diff.ignoreSubmodules", "dirty"],
  // A folder of the project may be laid out as a repository without a checkout, with settings of its author.
  ["safe.bareRepository", "explicit"],
  ["status.showUntrackedFiles", "normal"],
];

/** Last words of settings whose value is a program, or leads to one. */
const PROGRAM =
  /\.(?:cmd|command|program|helper|driver|editor|pager|process|clean|smudge|textconv|external|uploadpack|receivepack|vcs|askpass|fsmonitor|sshcommand|gitproxy|difffilter|alternaterefscommand|packobjectshook|hookspath|path|tool|update)$/;
const NEUTRAL: Readonly<Record<string, string>> = {
  uploadpack: "git-upload-pack",
  receivepack: "git-receive-pack",
  update: "checkout",
  fsmonitor: "false",
};

export function withoutScope(listed: string): string {
  const settings = listed.split("\0").filter((setting) => setting !== "");
  return settings.map((setting) => `local\0${setting}\0`).join("");
}

/** Every setting of the repository that names a program gets the user's own value, or none. */
export function overrides(listed: string): readonly Setting[] {
  const fields = listed.split("\0");
  const trusted = new Map<string, string>();
  const foreign = new Set<string>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const scope = fields[at];
    const [key = "", ...value] = (fields[at + 1] ?? "").split("\n");
    if (scope === "system" || scope === "global") trusted.set(key, value.join("\n"));
    else if (scope !== "command") foreign.add(key);
  }
  if (foreign.size > MOST_SETTINGS) throw new Fault("denied", "The repository has too many git settings.");
  const filters = new Set([...foreign].flatMap((key) => /^(filter\..+)\.\w+$/.exec(key)?.[1] ?? []));
  const named = [...foreign].filter(
    (key) => PROGRAM.test(key) && !/^include|^submodule\..*\.path$/.test(key),
  );
  return [
    ...named.map(
      (key) => [key, trusted.get(key) ?? NEUTRAL[key.slice(key.lastIndexOf(".") + 1)] ?? ""] as const,
    ),
    // A filter that the repository alone defines is off, so it must not be required either.
    ...[...filters].map((name) => [`${name}.required`, trusted.get(`${name}.required`) ?? "false"] as const),
  ];
}

/** A filter of the repository that Reprise does not run, because only the repository's own settings name its programs. */
export interface OffFilter {
  /** Git would convert files with it when they are added. */
  readonly clean: boolean;
  /** Git would convert files with it when they are checked out. */
  readonly smudge: boolean;
  /** The repository says that git must fail without it. */
  readonly required: boolean;
}

/** By name, from what `git config --list --show-scope --null` prints. */
export function filtersOff(listed: string): ReadonlyMap<string, OffFilter> {
  const fields = listed.split("\0");
  const own = new Map<string, Map<string, string>>();
  const trusted = new Set<string>();
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const scope = fields[at];
    const [key = "", ...value] = (fields[at + 1] ?? "").split("\n");
    const [, name, word] = /^filter\.(.+)\.(clean|smudge|process|required)$/s.exec(key) ?? [];
    if (name === undefined || word === undefined || scope === "command") continue;
    if (scope !== "system" && scope !== "global")
      own.set(name, (own.get(name) ?? new Map<string, string>()).set(word, value.join("\n")));
    else if (value.join("\n") !== "") trusted.add(`${word} ${name}`);
  }
  const found = [...own].map(([name, words]): [string, OffFilter] => {
    const isOff = (word: string) =>
      [word, "process"].some((one) => (words.get(one) ?? "") !== "") &&
      ![word, "process"].some((one) => trusted.has(`${one} ${name}`));
    const required = /^(?:|true|yes|on|[1-9]\d*)$/i.test(words.get("required") ?? "false");
    return [name, { clean: isOff("clean"), smudge: isOff("smudge"), required }];
  });
  return new Map(found.filter(([, { clean, smudge }]) => clean || smudge));
}

/** Settings that name a file with rules, which git reads. */
export function namedFiles(listed: string): readonly Setting[] {
  const fields = listed.split("\0").filter((_, at) => at % 2 === 1);
  return fields.flatMap((field) => {
    const [, key, path] =
      /^(core\.(?:excludesfile|attributesfile)|diff\.orderfile|mailmap\.file)\n(.+)$/s.exec(field) ?? [];
    return key === undefined || path === undefined ? [] : [[key, path] as const];
  });
}

/** Every filter off, even the user's: git then stores files as they are. */
export function noFilters(listed: string): readonly Setting[] {
  const fields = listed.split("\0").filter((_, at) => at % 2 === 1);
  const names = new Set(fields.flatMap((field) => /^(filter\..+)\.\w+(?:\n|$)/.exec(field)?.[1] ?? []));
  return [...names].flatMap((name) => [
    [`${name}.clean`, ""] as const,
    [`${name}.smudge`, ""] as const,
    [`${name}.process`, ""] as const,
    [`${name}.required`, "false"] as const,
  ]);
}

export function settingsEnv(settings: readonly Setting[]): Record<string, string> {
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(settings.length) };
  for (const [at, [key, value]] of settings.entries()) {
    env[`GIT_CONFIG_KEY_${at}`] = key;
    env[`GIT_CONFIG_VALUE_${at}`] = value;
  }
  return env;
}
