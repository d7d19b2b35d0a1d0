/**
 * Permission profiles of Codex 0.166: `default_permissions = "p"` with `[permissions.p]`, which may forbid reading.
 *
 * A sandbox option switches a profile off without a word, and the definition of a profile may be another one by the next
 * attempt. So an attempt carries the rules themselves, as Codex wrote them into the first turn's context.
 */
import { fieldIn, isObject, type JsonObject, numberIn, objectIn, stringIn } from "../lib/json.ts";

/** So that the user's own profile of that name is not mixed with the rules that an attempt carries. */
const HELD = "reprise-held";
const NAME = /^[A-Za-z0-9_-]{1,60}$/;
const ACCESS: readonly unknown[] = ["read", "write", "deny"];
const SPECIAL: readonly unknown[] = ["root", "minimal", "slash_tmp", "tmpdir"];

/**
 * Options that hold the profile of a turn's context. Null: it has none of the user's own; those that come with Codex
 * (`:workspace`) are the sandboxes that `-s` names. Only the name of the profile: its rules cannot be told.
 */
export function profileIn(context: JsonObject): readonly string[] | null {
  const active = fieldIn(context, "active_permission_profile");
  if (active === undefined || active === null) return null;
  const id = stringIn(active, "id") ?? "";
  if (id.startsWith(":")) return null;
  const profile = objectIn(context, "permission_profile");
  const rules = rulesIn(profile);
  if (rules === null) return setting("default_permissions", JSON.stringify(id));
  const own = id.startsWith(`${HELD}-`) ? id.slice(HELD.length + 1) : id;
  const name = NAME.test(own) ? `${HELD}-${own}` : HELD;
  const isClosed = stringIn(profile, "network") === "restricted";
  return [
    ...setting(`permissions.${name}.filesystem`, rules),
    // To which hosts an open network was limited is not in the context.
    ...(isClosed ? [] : setting(`permissions.${name}.network`, "{enabled=false}")),
    ...setting("default_permissions", JSON.stringify(name)),
  ];
}

function setting(key: string, value: string): readonly string[] {
  return ["-c", `${key}=${value}`];
}

/** As an inline table of TOML, whose strings are those of JSON. Null: something in it is not understood. */
function rulesIn(profile: JsonObject | undefined): string | null {
  const files = objectIn(profile, "file_system");
  const entries = fieldIn(files, "entries");
  const isKnown = stringIn(profile, "type") === "managed" && stringIn(files, "type") === "restricted";
  if (!isKnown || !Array.isArray(entries) || entries.length === 0) return null;
  const rules = new Map<string, string>();
  for (const entry of entries as readonly unknown[]) {
    const path = pathIn(fieldIn(entry, "path"));
    const access = fieldIn(entry, "access");
    if (path === null || rules.has(path) || !ACCESS.includes(access)) return null;
    rules.set(path, String(access));
  }
  const depth = numberIn(files, "glob_scan_max_depth");
  const words = [...rules].map(([path, access]) => `${JSON.stringify(path)}=${JSON.stringify(access)}`);
  return `{${[...words, ...(depth === undefined ? [] : [`glob_scan_max_depth=${depth}`])].join(",")}}`;
}

function pathIn(path: unknown): string | null {
  switch (stringIn(path, "type")) {
    case "path":
      return absolute(stringIn(path, "path"));
    case "glob_pattern":
      return absolute(stringIn(path, "pattern"));
    case "special": {
      const value = fieldIn(path, "value");
      const kind = stringIn(value, "kind");
      const isPlain = isObject(value) && Object.keys(value).length === 1;
      return isPlain && SPECIAL.includes(kind) ? `:${kind ?? ""}` : null;
    }
    default:
      return null;
  }
}

function absolute(path: string | undefined): string | null {
  return path?.startsWith("/") === true ? path : null;
}

export interface HeldProfile {
  readonly name: string;
  /** Its rules stand beside it. */
  readonly isWhole: boolean;
}

/** The profile that settings name; `last` gives the last value of a setting. */
export function heldProfile(last: (key: string) => string | undefined): HeldProfile | null {
  const id = last("default_permissions");
  if (id === undefined) return null;
  const isWhole = id.startsWith(HELD) && last(`permissions.${id}.filesystem`) !== undefined;
  return { name: id.replace(/^reprise-held-?/, ""), isWhole };
}

/** What became of the profile by a setting of `profileIn`, for people; undefined: the setting is another one. */
export function describeProfile(key: string): string | null | undefined {
  if (key === "default_permissions") return null;
  if (!key.startsWith(`permissions.${HELD}`)) return undefined;
  const [, name = ""] = key.split(".");
  const profile = `permission profile ${name.slice(HELD.length + 1)}`.trim();
  return key.endsWith(".network")
    ? `network of the ${profile} → closed: Codex does not record which hosts it was open to`
    : `${profile} → its rules as the conversation began`;
}
