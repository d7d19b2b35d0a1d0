/** Whether an engine trusts the folder that it works in, from its own settings and the options of the start. */
import { readFileSync } from "node:fs";
import { isAbsolute, resolve, sep } from "node:path";
import { realPath } from "../state/places.ts";
import type { Launch } from "../core/records.ts";
import type { AttemptRequest, Engine } from "../engines/engine.ts";
import type { EngineSetup } from "./engine-setup.ts";
import { checkoutsOf } from "./git.ts";

export interface EnginePlace {
  readonly cwd: string;
  /** The checkout of its repository, if `cwd` does not exist yet. */
  readonly checkout: string;
  readonly args: readonly string[];
  readonly interactive: boolean;
}

/** Whether the engine's settings and the options of a start trust the folder now. */
export function trustNow(
  { engine, home }: Pick<EngineSetup, "engine" | "home">,
  place: EnginePlace,
): Pick<Launch, "folderTrust"> {
  const trust = engine.folderTrust;
  const { folders } = foldersIn(engine, place);
  if (trust === undefined || folders === undefined) return {};
  const files = trust.files.map((file) => (home === null ? file : resolve(home, file)));
  const said = trust.in(files.filter(isAbsolute).map(settingsText), folders, place.args);
  return { folderTrust: said === "unset" && place.interactive ? "trusted" : said };
}

/** The folder of a new run, for its record and for its engine's command. */
export function startFolder(
  setup: Pick<EngineSetup, "engine" | "home">,
  request: { readonly cwd: string; readonly isolate: Launch["isolate"] },
  part: Omit<EnginePlace, "checkout">,
) {
  const place = { ...part, checkout: request.isolate === "worktree" ? request.cwd : part.cwd };
  const trust = trustNow(setup, place);
  const own: Pick<AttemptRequest, "ownFolder"> = request.isolate === "dir" ? { ownFolder: true } : {};
  return { trust, folder: { ...trust, ...foldersIn(setup.engine, place), ...own } };
}

/** The folders that the engine's settings may list for the working directory. */
export function foldersIn(
  { folderTrust: trust }: Engine,
  { cwd, checkout, args }: Omit<EnginePlace, "interactive">,
): Pick<AttemptRequest, "folders"> {
  if (trust === undefined) return {};
  const given = trust.workplace(args, cwd);
  const place = realPath(given) ?? given;
  const isNew = checkout !== cwd && (place === cwd || place.startsWith(`${cwd}${sep}`));
  // A worktree that does not exist yet shares only the main checkout with this one.
  return { folders: [place, ...(isNew ? checkoutsOf(checkout).slice(-1) : checkoutsOf(place))] };
}

/** Empty: the engine has no such file. */
export function settingsText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
