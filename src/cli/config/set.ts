/** `reprise config set`: changes one key, keeps the rest of the file as it is, and writes only what passes the check. */
import { chmodSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parse, TomlError } from "smol-toml";
import { parseConfig, projectPowers } from "../../core/config.ts";
import { Fault } from "../../core/faults.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import { shellLine } from "../../lib/shell.ts";
import { readConfigText } from "../../state/config-text.ts";
import { writeAtomic } from "../../state/files.ts";
import { realPath } from "../../state/places.ts";
import { defineCommand, flag, JSON_FLAG } from "../define.ts";
import { type ConfigPlace, configPlace } from "./check.ts";
import { type Complaint, complaintsAbout, complaintsOfFile } from "./complaints.ts";
import { CONFIG_KEYS, keyPath } from "./keys.ts";
import { quoted, withKeySet } from "./layout.ts";

export const set = defineCommand({
  name: "config set",
  summary: "Change one key in your config file. Keeps comments and layout; refuses an invalid value.",
  args: {
    key: {
      help: "config key, such as idle_timeout or engines.codex.args",
      required: true,
      missing: "Which key? For example: reprise config set idle_timeout 30m",
      values: CONFIG_KEYS,
    },
    value: {
      help: 'text, or a TOML value such as 256 or \'["-m", "gpt-5"]\'',
      required: true,
      missing: "Which value? For example: reprise config set idle_timeout 30m",
    },
  },
  options: { project: flag("change the project's reprise.toml instead of yours"), json: JSON_FLAG },
  examples: [
    "reprise config set idle_timeout 30m",
    'reprise config set engines.codex.args \'["--model", "gpt-5"]\'',
    "reprise config set issues.access read --project",
  ],
  run: async ({ args: { key, value }, options, reply }, context) => {
    const place = configPlace(context, options.project === true ? "project" : "user");
    const text = await changedText(place, keyPath(key), value);
    writeConfig(place, text);
    reply({ key, file: place.path }, () => {
      context.print(`${harmlessLine(place.path)}: ${harmlessLine(key, 200)} is set`);
      const powers = place.level === "project" ? projectPowers(parseConfig(text, place.path, "project")) : [];
      if (powers.length > 0)
        context.log.info(
          `the file sets ${powers.join(", ")}, so the next start asks for your trust in its new content`,
        );
    });
    return 0;
  },
});

/** The file's text with the key changed. Throws the first complaint about it. */
async function changedText(place: ConfigPlace, path: readonly string[], value: string): Promise<string> {
  const { path: file, level } = place;
  const [broken] = await complaintsOfFile(file, level);
  const text = readConfigText(file) ?? "";
  let refused: Complaint | null = null;
  for (const literal of literalsOf(value)) {
    const changed = await withKeySet(text, path, literal).catch(() => null);
    if (changed === null) break;
    const [complaint] = await complaintsAbout(changed, file, level);
    if (complaint === undefined) return changed;
    refused ??= complaint;
  }
  const why = refused ?? broken;
  throw new Fault(
    "config_invalid",
    why === undefined
      ? `${path.join(".")} cannot be set in ${file} this way. Write it by hand: reprise config edit`
      : `Nothing was changed. ${why.reason} (${file}:${why.line}:${why.column} with this value)${priceHint(path)}`,
    { facts: { file } },
  );
}

/** A price needs both numbers, so one alone cannot be set first. */
function priceHint([table, model = "", ...key]: readonly string[]): string {
  if (table !== "prices" || key.length === 0) return "";
  const words = ["reprise", "config", "set", `prices.${quoted(model)}`, "{ input = 1.25, output = 10 }"];
  return ` A new price has input and output at once: ${shellLine(words)}`;
}

/** As TOML if it is a value of TOML, otherwise, or if that does not fit the key, as a text. */
function literalsOf(value: string): readonly string[] {
  const asText = quoted(value);
  if (/[\n\r]/.test(value)) return [asText];
  try {
    parse(`key = ${value}`, { unsafeKeyBehaviour: "throw", maxDepth: 20 });
    return value.includes("#") ? [asText] : [value.trim(), asText];
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    return [asText];
  }
}

/** A link keeps leading to its file. A project's file keeps its mode, because others read it. */
function writeConfig({ path, level }: ConfigPlace, text: string): void {
  const target = realPath(path) ?? path;
  const mode = statSync(target, { throwIfNoEntry: false })?.mode ?? 0o644;
  mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
  writeAtomic(target, text);
  if (level === "project") chmodSync(target, mode & 0o777);
}
