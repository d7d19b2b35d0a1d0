/** Command lines of the engines that the scripted agent plays: a table of names in, options and words out. */

export interface ArgTable {
  /** Names separated by spaces, aliases by `|`, canonical first: `"--model|-m --cd|-C"`. */
  readonly values?: string;
  readonly flags?: string;
  /** A value only when attached or when the next word is not an option. */
  readonly optional?: string;
  /** Takes every word up to the next option. */
  readonly variadic?: string;
  /** Sub-commands: the first word among them ends the parsing. */
  readonly commands?: string;
}

export interface Args {
  readonly words: readonly string[];
  /** The sub-command and the words after it. Null: no sub-command. */
  readonly command: { readonly name: string; readonly rest: readonly string[] } | null;
  /** The first option that is unknown or lacks its value. */
  readonly bad: string | null;
  has(name: string): boolean;
  /** The last value. Null: no value. */
  value(name: string): string | null;
  values(name: string): readonly string[];
}

export function readArgs(argv: readonly string[], table: ArgTable): Args {
  const kinds = kindsOf(table);
  const found = new Map<string, string[]>();
  const words: string[] = [];
  const commands = (table.commands ?? "").split(" ");
  let command: Args["command"] = null;
  let bad: string | null = null;
  let at = 0;
  while (at < argv.length) {
    const arg = argv[at] ?? "";
    at += 1;
    if (arg === "--") {
      words.push(...argv.slice(at));
      break;
    }
    if (!isOption(arg)) {
      if (words.length === 0 && arg !== "" && commands.includes(arg)) {
        command = { name: arg, rest: argv.slice(at) };
        break;
      }
      words.push(arg);
      continue;
    }
    const { name, attached } = split(arg, kinds);
    const kind = kinds.get(name);
    if (kind === undefined) {
      bad ??= arg;
      continue;
    }
    const values = found.get(kind.name) ?? [];
    found.set(kind.name, values);
    if (attached !== null) values.push(attached);
    else if (kind.takes !== "flags") {
      const most = kind.takes === "variadic" ? argv.length : 1;
      let taken = 0;
      while (taken < most && at < argv.length && !isOption(argv[at] ?? "")) {
        values.push(argv[at] ?? "");
        at += 1;
        taken += 1;
      }
      if (taken === 0 && kind.takes === "values") bad ??= arg;
    }
  }
  return {
    words,
    command,
    bad,
    has: (name) => found.has(name),
    value: (name) => found.get(name)?.at(-1) ?? null,
    values: (name) => found.get(name) ?? [],
  };
}

type Takes = "values" | "flags" | "optional" | "variadic";
type Kinds = ReadonlyMap<string, { readonly name: string; readonly takes: Takes }>;

function kindsOf(table: ArgTable): Kinds {
  const kinds = new Map<string, { name: string; takes: Takes }>();
  for (const takes of ["values", "flags", "optional", "variadic"] as const) {
    for (const group of (table[takes] ?? "").split(" ").filter(Boolean)) {
      const [name = "", ...aliases] = group.split("|");
      for (const alias of [name, ...aliases]) kinds.set(alias, { name, takes });
    }
  }
  return kinds;
}

function split(arg: string, kinds: Kinds): { name: string; attached: string | null } {
  if (kinds.has(arg)) return { name: arg, attached: null };
  const equals = arg.indexOf("=");
  if (equals !== -1) return { name: arg.slice(0, equals), attached: arg.slice(equals + 1) };
  if (!arg.startsWith("--") && kinds.has(arg.slice(0, 2)))
    return { name: arg.slice(0, 2), attached: arg.slice(2) };
  return { name: arg, attached: null };
}

function isOption(arg: string): boolean {
  return arg.length > 1 && arg.startsWith("-");
}
