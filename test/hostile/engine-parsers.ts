/**
 * What engines make of a command line, as far as rights go, written down from runs of the pinned Gemini CLI and Codex and
 * from the parsers of the others, without the option tables of `src/`. Null: the engine refuses the line, so nothing has
 * any rights.
 */
import { resolve } from "node:path";

/** What an agent may do: on each scale a place (null: what the engine's settings say), and single rights. */
export interface Rights {
  readonly scales: Readonly<Record<string, number | null>>;
  readonly grants: ReadonlySet<string>;
}

/**
 * What the engine's own settings say at the time: nothing, or as much as they can. The first attempt is judged by the one
 * and later ones by the other, so that what an attempt is not told itself counts as wider.
 */
export type Settings = "empty" | "widest";

type Kind = "flag" | "value" | "list";
type Values = ReadonlyMap<string, readonly (string | boolean)[]>;

interface Parser {
  /** Each spelling, and what it sets. */
  readonly words: Readonly<Record<string, readonly [key: string, kind: Kind]>>;
  readonly read: (args: readonly string[], words: Parser["words"]) => Values | null;
  readonly rights: (values: Values, settings: Settings) => Rights | null;
}

/** `--name -n kind`, one option per line; the first spelling is its key. */
function words(lines: string): Parser["words"] {
  const found: Record<string, readonly [string, Kind]> = {};
  for (const line of lines.trim().split("\n")) {
    const parts = line.trim().split(" ");
    for (const name of parts.slice(0, -1)) found[name] = [parts[0] ?? "", parts.at(-1) as Kind];
  }
  return found;
}

class Collected {
  readonly values = new Map<string, (string | boolean)[]>();
  add(key: string, value: string | boolean): void {
    this.values.set(key, [...(this.values.get(key) ?? []), value]);
  }
}

/** yargs 17: only `true` is true, `--no-x`, `--s` is `-s`, letters together, a digit or a sign after a letter is its value. */
function yargs(args: readonly string[], known: Parser["words"]): Values | null {
  const found = new Collected();
  const camel = Object.fromEntries(
    Object.entries(known).map(([name, to]) => [
      name.replace(/(?<=\w)-(\w)/g, (_, c: string) => c.toUpperCase()),
      to,
    ]),
  );
  const find = (name: string) =>
    known[name] ?? camel[name] ?? (/^--\w$/.test(name) ? known[name.slice(1)] : undefined);
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (arg === "--") break;
    if (!/^-./.test(arg)) continue;
    const [, name = "", value] = /^([^=]+)(?:=([\s\S]*))?$/.exec(arg) ?? [];
    const take = (option: readonly [string, Kind]): boolean => {
      const next = args[at + 1];
      if (option[1] === "flag") {
        const isWord = next === "true" || next === "false";
        if (isWord) at += 1;
        found.add(option[0], isWord ? next === "true" : true);
        return true;
      }
      if (next === undefined || /^-./.test(next)) return false;
      at += 1;
      found.add(option[0], next);
      return true;
    };
    const set = (option: readonly [string, Kind], text: string) =>
      found.add(option[0], option[1] === "flag" ? text === "true" : text);
    if (arg.startsWith("--")) {
      const option = find(name);
      const denied = name.startsWith("--no-") && value === undefined ? find(`--${name.slice(5)}`) : undefined;
      if (option !== undefined && value !== undefined) set(option, value);
      else if (option !== undefined) {
        if (!take(option)) return null;
      } else if (denied?.[1] === "flag") found.add(denied[0], false);
      else return null;
    } else if (!letters(arg, known, set, take)) return null;
  }
  return found.values;
}

function letters(
  arg: string,
  known: Parser["words"],
  set: (option: readonly [string, Kind], text: string) => void,
  take: (option: readonly [string, Kind]) => boolean,
): boolean {
  for (let at = 1; at < arg.length; at += 1) {
    const option = known[`-${arg[at] ?? ""}`];
    const rest = arg.slice(at + 1);
    if (option === undefined) return false;
    if (rest.startsWith("=")) {
      set(option, rest.slice(1));
      return true;
    }
    if (/^-?\d+$/.test(rest) || /^\W/.test(rest)) {
      set(option, rest);
      return true;
    }
    if (rest === "") return take(option);
    if (option[1] !== "flag") return false;
    set(option, "true");
  }
  return true;
}

/** clap: an option of the same level is given once, a deeper level wins; commander: the last wins. Neither takes `--flag=x`. */
function strict(levels: readonly string[], once: boolean) {
  return (args: readonly string[], known: Parser["words"]): Values | null => {
    const found = new Collected();
    let level = new Set<string>();
    for (let at = 0; at < args.length; at += 1) {
      const arg = args[at] ?? "";
      if (arg === "--") break;
      if (levels.includes(arg)) level = new Set();
      if (!/^-./.test(arg)) continue;
      const [, long = "", attached] = arg.startsWith("--")
        ? (/^([^=]+)(?:=([\s\S]*))?$/.exec(arg) ?? [])
        : [];
      const name = arg.startsWith("--") ? long : arg.slice(0, 2);
      const glued = arg.startsWith("--")
        ? attached
        : arg.slice(2) === ""
          ? undefined
          : arg.slice(2).replace(/^=/, "");
      const [key, kind] = known[name] ?? [];
      if (key === undefined || (kind === "flag" && glued !== undefined)) return null;
      if (once && kind !== "list" && level.has(key)) return null;
      level.add(key);
      if (kind === "flag") found.add(key, true);
      else {
        const next = glued ?? args[(at += 1)];
        if (next === undefined || (once && glued === undefined && /^-./.test(next))) return null;
        found.add(key, next);
      }
    }
    return found.values;
  };
}

const last = (values: Values, key: string) => values.get(key)?.at(-1);
const granted = (values: Values, keys: readonly string[]) =>
  new Set(
    keys.flatMap((key) =>
      (values.get(key) ?? []).filter((one) => one !== false).map((one) => `${key} ${one}`),
    ),
  );
/** Of a flag only the last occurrence counts. */
const switched = (values: Values, keys: readonly string[]) =>
  keys.filter((key) => last(values, key) === true);

const GEMINI_MODES = ["plan", "default", "auto_edit", "yolo"];

const gemini: Parser = {
  words: words(`--approval-mode value
    --yolo -y flag
    --sandbox -s flag
    --skip-trust flag
    --raw-output flag
    --debug -d flag
    --model -m value
    --policy list
    --allowed-tools list
    --extensions -e list
    --include-directories list
    --output-format -o value
    --resume -r value
    --session-id value
    --prompt-interactive -i value`),
  read: yargs,
  rights(values) {
    const modes = values.get("--approval-mode") ?? [];
    const isYolo = last(values, "--yolo") === true;
    if (modes.length > 1 || (isYolo && modes.length > 0)) return null;
    const mode = modes[0] ?? (isYolo ? "yolo" : null);
    const place = mode === null ? null : GEMINI_MODES.indexOf(String(mode));
    if (place === -1) return null;
    // On and off each pass over what the settings say, so either is a right that the first attempt must have had.
    const box = last(values, "--sandbox");
    return {
      scales: { mode: place },
      grants: new Set([
        ...granted(values, ["--policy", "--allowed-tools", "--extensions", "--include-directories"]),
        ...switched(values, ["--skip-trust", "--raw-output"]),
        ...(box === undefined ? [] : [`sandbox ${box}`]),
        ...(box === true ? [] : ["without a sandbox of the command line"]),
      ]),
    };
  },
};

const IFLOW_MODES = ["--plan", "--default", "--auto-edit", "--yolo"];

const iflow: Parser = {
  words: words(`--yolo -y flag
    --default flag
    --plan flag
    --auto-edit flag
    --sandbox -s flag
    --model -m value
    --add-dir --include-directories list
    --allowed-tools list
    --resume -r value
    --prompt -p value
    --debug -d flag
    --prompt-interactive -i value`),
  read: yargs,
  rights(values) {
    const on = [...values.keys()].filter((key) => IFLOW_MODES.includes(key));
    // Nobody can run it any more: of several modes the widest counts here, before and after.
    const places = on.filter((key) => last(values, key) === true).map((key) => IFLOW_MODES.indexOf(key));
    const box = last(values, "--sandbox");
    return {
      scales: { mode: places.length === 0 ? null : Math.max(...places) },
      grants: new Set([
        ...granted(values, ["--add-dir", "--allowed-tools"]),
        ...(box === undefined ? [] : [`sandbox ${box}`]),
        ...(box === true ? [] : ["without a sandbox of the command line"]),
      ]),
    };
  },
};

/** The folders that the generator lets Codex write to. */
const ROOTS = ["/", "/a", "/b"];
const SANDBOXES = ["read-only", "workspace-write", "danger-full-access"];

const codex: Parser = {
  words: words(`--sandbox -s value
    --config -c list
    --dangerously-bypass-approvals-and-sandbox --yolo flag
    --add-dir list
    --cd -C value
    --model -m value
    --search flag
    --ask-for-approval -a value
    --profile -p value
    --enable list
    --ignore-rules flag
    --skip-git-repo-check flag
    --json flag
    --no-daemon flag`),
  read: strict(["exec", "resume", "fork"], true),
  rights(values, settings) {
    const { config, place, folder } = codexLine(values);
    if (place === -1) return null;
    const world = settings === "widest";
    const mayWrite = (place ?? 0) > 0;
    const level = leaf(config, ["projects", folder, "trust_level"]) ?? (world ? "trusted" : undefined);
    const box = "sandbox_workspace_write";
    const network = leaf(config, [box, "network_access"]) ?? String(world);
    const roots = leaf(config, [box, "writable_roots"]) ?? (world ? '["/"]' : "[]");
    const isOpen = (place ?? 0) > 1;
    const written = isOpen ? ROOTS : mayWrite ? (JSON.parse(roots) as readonly string[]) : [];
    const judged = ["model", "model_reasoning_effort", "sandbox_mode", "projects", box];
    return {
      scales: { sandbox: place },
      grants: new Set([
        ...granted(values, ["--add-dir", "--enable"]),
        ...["--cd", "--ask-for-approval", "--profile"].flatMap((key) =>
          values.has(key) ? [`${key} ${last(values, key)}`] : [],
        ),
        ...switched(values, ["--search", "--ignore-rules", "--skip-git-repo-check"]),
        // In a folder that is named nowhere a sandbox that writes brings trust with it.
        ...((level ?? (mayWrite ? "trusted" : "")) === "trusted" ? ["trust in the folder"] : []),
        ...((place === 1 && network === "true") || isOpen ? ["network"] : []),
        ...written.map((root) => `writes ${root}`),
        ...[...config].flatMap(([path, text]) => {
          const [table = ""] = path.split("\0");
          return judged.includes(table) ? [] : [`${path} ${text}`];
        }),
      ]),
    };
  },
};

function codexLine(values: Values) {
  const config = codexConfig((values.get("--config") ?? []).map(String));
  const mode = last(values, "--sandbox") ?? leaf(config, ["sandbox_mode"]);
  const yolo = values.has("--dangerously-bypass-approvals-and-sandbox");
  const place = yolo ? 3 : mode === undefined ? null : SANDBOXES.indexOf(String(mode));
  return { config, place, folder: resolve("/work", String(last(values, "--cd") ?? ".")) };
}

type Config = ReadonlyMap<string, string>;

/**
 * `-c` options one over the other, as 0.166 merges them (seen in its `config/read`): a key ends at each dot, also inside
 * quotes, and what is set replaces what was there, a whole table too.
 */
function codexConfig(settings: readonly string[]): Config {
  const config = new Map<string, string>();
  for (const text of settings) {
    const at = text.indexOf("=");
    const path = text.slice(0, at).trim().split(".").join("\0");
    for (const key of [...config.keys()])
      if (key === path || key.startsWith(`${path}\0`) || path.startsWith(`${key}\0`)) config.delete(key);
    for (const [key, value] of leaves(path, valueIn(text.slice(at + 1).trim()))) config.set(key, value);
  }
  return config;
}

/** The forms that the generator and Reprise use. */
function valueIn(text: string): unknown {
  const json = text.startsWith("{")
    ? text.replaceAll(/([{,])([\w-]+)=/g, '$1"$2"=').replaceAll('"=', '":')
    : text;
  try {
    return JSON.parse(json);
  } catch {
    return text.replace(/^(["'])(.*)\1$/, "$2");
  }
}

function leaves(path: string, value: unknown): readonly (readonly [string, string])[] {
  if (typeof value === "string") return [[path, value]];
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return [[path, JSON.stringify(value)]];
  return Object.entries(value).flatMap(([key, inner]) => leaves(`${path}\0${key}`, inner));
}

const leaf = (config: Config, path: readonly string[]) => config.get(path.join("\0"));

/** The sandbox of a first turn, as Codex records it. */
export function recordedRights(engine: string, args: readonly string[]): readonly string[] {
  const values = engine === "codex" ? codex.read(args, codex.words) : null;
  if (values === null) return [];
  const { config, place } = codexLine(values);
  if (place !== 1) return ["-s", SANDBOXES[Math.min(place ?? 0, 2)] ?? "read-only"];
  const said = (key: string) => leaf(config, ["sandbox_workspace_write", key]);
  const limits = [
    `writable_roots=${said("writable_roots") ?? "[]"}`,
    ...(said("network_access") === "true" ? [] : ["network_access=false"]),
  ];
  return ["-s", "workspace-write", ...limits.flatMap((text) => ["-c", `sandbox_workspace_write.${text}`])];
}

const CLAUDE_MODES = ["plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"];

const claude: Parser = {
  words: words(`--permission-mode value
    --dangerously-skip-permissions flag
    --model value
    --settings value
    --add-dir list
    --allowedTools --allowed-tools list
    --disallowedTools --disallowed-tools list
    --strict-mcp-config flag
    --restricted flag
    --ide flag
    --print -p flag
    --verbose flag
    --output-format value
    --resume -r value
    --session-id value
    --fork-session flag`),
  read: strict([], false),
  rights(values) {
    const mode = values.has("--dangerously-skip-permissions")
      ? "bypassPermissions"
      : last(values, "--permission-mode");
    const place =
      mode === undefined ? null : CLAUDE_MODES.indexOf(mode === "manual" ? "default" : String(mode));
    if (place === -1) return null;
    const limits = [
      ...granted(values, ["--disallowedTools"]),
      ...switched(values, ["--strict-mcp-config", "--restricted"]),
    ];
    return {
      scales: { mode: place },
      grants: new Set([
        ...granted(values, ["--add-dir", "--allowedTools"]),
        ...switched(values, ["--ide"]),
        ...(values.has("--settings") ? [`--settings ${last(values, "--settings")}`] : []),
        ...LIMITS.filter((limit) => !limits.includes(limit)).map((limit) => `without ${limit}`),
      ]),
    };
  },
};
/** The limits that the generator gives. To be without one is a right. */
const LIMITS = ["--disallowedTools Bash", "--disallowedTools Edit", "--strict-mcp-config", "--restricted"];

const opencode: Parser = {
  words: words(`--model -m value
    --agent value
    --auto flag
    --pure flag
    --share flag
    --port value
    --dir value
    --thinking flag
    --format value
    --print-logs flag
    --session -s value
    --fork flag
    --title value`),
  read: yargs,
  rights(values) {
    const single = ["--agent", "--port"];
    if (single.some((key) => (values.get(key)?.length ?? 0) > 1)) return null;
    return {
      scales: {},
      grants: new Set([
        ...granted(values, single),
        ...switched(values, ["--auto", "--share"]),
        ...(values.has("--agent") ? [] : ["the default agent"]),
        ...(last(values, "--pure") === true ? [] : ["plugins"]),
      ]),
    };
  },
};

const PARSERS: Readonly<Record<string, Parser>> = { codex, claude, gemini, iflow, opencode };

export function rightsOf(
  engine: string,
  args: readonly string[],
  settings: Settings = "empty",
): Rights | null {
  const parser = PARSERS[engine];
  if (parser === undefined) throw new Error(`no parser for ${engine}`);
  const values = parser.read(args, parser.words);
  return values === null ? null : parser.rights(values, settings);
}

/** What `later` has more than `first`; null: nothing. */
export function wider(first: Rights, later: Rights): string | null {
  for (const [scale, place] of Object.entries(later.scales)) {
    const before = first.scales[scale] ?? null;
    // The settings' own place is unknown, so only the narrowest cannot exceed it, and it may exceed all but the widest.
    const isWider = place === null ? before !== null : before === null ? place > 0 : place > before;
    if (isWider)
      return `${scale}: ${place ?? "as the settings say"} instead of ${before ?? "as the settings say"}`;
  }
  const more = [...later.grants].filter((grant) => !first.grants.has(grant));
  return more.length === 0 ? null : more.join(", ");
}
