/** P17: no later attempt of a run has more rights than its first. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fault } from "../../src/core/faults.ts";
import type { AttemptRequest, Command, Engine } from "../../src/engines/engine.ts";
import { builtInEngine } from "../../src/engines/engines.ts";
import type { RunRecord } from "../../src/core/records.ts";
import { assertSameRights, withRightsFiles } from "../../src/run/launch.ts";
import { recordedRights, rightsOf, wider } from "../hostile/engine-parsers.ts";
import { type Lists, optionLists } from "../hostile/option-lists.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const widening: Promised = {
  id: "P17",
  what: "later attempts with generated options",
  wrong: "got more rights than the first",
  means:
    "However options are spelled, repeated and mixed, a resume, a fork and a fresh conversation have at most the rights of the first attempt, judged by the engine's own parser; a folder that an option opens, or that holds rules, is the same one",
  check: async ({ short, seed }: Scale) => {
    const [lists, places] = [tryLists(short ? 300 : 5_000, seed), trySwaps()];
    return {
      ...lists,
      tried: lists.tried + places.tried,
      broken: [...lists.broken, ...places.broken],
    };
  },
};

/** The session's id in each engine's form. */
const SESSIONS: Readonly<Record<string, string>> = {
  codex: "0198b5e2-7c1a-7a30-9d6e-1f2a3b4c5d6e",
  claude: "0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e",
  gemini: "0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e",
  iflow: "session-0198b5e2-7c1a-4a30-9d6e-1f2a3b4c5d6e",
  opencode: "ses_e22d9232bffeeGCHNmGWFLaPTI",
};

/** `lists` option lists of each engine, each with all ways to start a later attempt. */
export function tryLists(lists: number, seed: number): Verdict {
  const broken: string[] = [];
  const figures: Record<string, number> = { refused: 0, "with options of their own": 0 };
  let tried = 0;
  for (const [engine, session] of Object.entries(SESSIONS)) {
    const generated = optionLists(engine, seed);
    for (let count = 0; count < lists; count += 1) {
      const { value } = generated.next();
      for (const kind of ["resume", "fork", "fresh"] as const) {
        tried += 1;
        const found = tryOne(engine, kind, session, value);
        if (found === "refused") figures["refused"] = (figures["refused"] ?? 0) + 1;
        else if (found !== null) broken.push(found);
        else if (value.native.length > 0)
          figures["with options of their own"] = (figures["with options of their own"] ?? 0) + 1;
      }
    }
  }
  return { tried, broken, untried: [], figures };
}

function tryOne(
  engine: string,
  kind: AttemptRequest["kind"],
  session: string,
  { given, native }: Lists,
): string | null {
  const ask = { ...ASK, given };
  const chosen = builtInEngine(engine)?.can.chooseSession === true ? session : null;
  const first = commandOf(engine, { ...ask, session: chosen });
  if (first === null) return "refused";
  const later = commandOf(engine, {
    ...{ ...ask, kind, native, session: kind === "fresh" ? chosen : session },
    ...recordOf(engine, first.args, given),
  });
  if (later === null) return "refused";
  const [before, after] = [rightsOf(engine, first.args), rightsOf(engine, later.args, "widest")];
  if (before === null || after === null) return "refused";
  const more = wider(before, after);
  const words = (args: readonly string[]) => args.join(" ");
  return more === null
    ? null
    : `${engine} ${kind} ${words(native)} after ${words(given)}: ${more} (${words(first.args)} → ${words(later.args)})`;
}

/** What the engine's conversation and Reprise's record of the start say of the first attempt. */
function recordOf(id: string, args: readonly string[], given: readonly string[]): Partial<AttemptRequest> {
  const trust = builtInEngine(id)?.folderTrust;
  const rights = recordedRights(id, args);
  return {
    ...(rights.length === 0 ? {} : { rights }),
    ...(trust === undefined ? {} : { folderTrust: trust.in([], [trust.workplace(given, ASK.cwd)], given) }),
  };
}

const ASK: AttemptRequest = {
  kind: "start",
  interactive: false,
  message: "go",
  session: null,
  forkTo: null,
  given: [],
  givenHasNoPrompt: true,
  native: [],
  cwd: "/work",
  tag: "reprise-0-1",
  trustCwd: false,
};

/** Null: Reprise refuses. */
function commandOf(id: string, ask: AttemptRequest): Command | null {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(`no engine ${id}`);
  try {
    return engine.command(ask);
  } catch (error) {
    if (error instanceof Fault) return null;
    throw error;
  }
}

/** Options that name a folder, `DIR`, in several spellings. */
const NAMING: Readonly<Record<string, readonly string[]>> = {
  codex: ["exec -C DIR", "exec --cd=DIR", "exec -CDIR", "exec --add-dir DIR"],
  opencode: ["run --dir DIR", "run --dir=DIR"],
  claude: ["--add-dir x DIR", "--add-dir=DIR", "--plugin-dir DIR", "--plugin-dir=x --plugin-dir=DIR"],
  gemini: ["--include-directories DIR", "--includeDirectories=x,DIR", "--policy DIR", "--admin-policy=x,DIR"],
  iflow: ["--include-directories DIR", "--add-dir=x,DIR"],
};

/** What an agent makes of the folder. */
const SWAPS: Readonly<Record<string, (folder: string, other: string) => void>> = {
  "a link to another folder": (folder, other) => {
    renameSync(folder, `${folder}.old`);
    symlinkSync(other, folder);
  },
  "a link in place of the folder above": (folder, other) => {
    renameSync(join(folder, ".."), join(folder, "../../old"));
    symlinkSync(join(other, ".."), join(folder, ".."));
  },
};

/** Each way to name a folder with each way to put another one in its place. */
export function trySwaps(): Pick<Verdict, "tried" | "broken"> {
  const broken: string[] = [];
  let tried = 0;
  for (const [id, spellings] of Object.entries(NAMING)) {
    for (const spelling of spellings) {
      for (const [what, swap] of Object.entries(SWAPS)) {
        tried += 1;
        if (!isRefused(id, spelling, swap)) broken.push(`${id} ${spelling}: ${what} was followed`);
      }
    }
  }
  return { tried, broken };
}

function isRefused(id: string, spelling: string, swap: (folder: string, other: string) => void): boolean {
  const engine = builtInEngine(id);
  if (engine === undefined) throw new Error(`no engine ${id}`);
  const cwd = mkdtempSync(join(tmpdir(), "reprise-swap-"));
  try {
    const [folder, other] = [join(cwd, "own/dir"), join(cwd, "other/dir")];
    for (const [at, text] of [
      [folder, "deny"],
      [other, "allow"],
    ] as const) {
      mkdirSync(at, { recursive: true });
      writeFileSync(join(at, "rules"), text);
    }
    const begun = {
      handle: "1a2b3c4d",
      cwd,
      launch: { message: "hello", rights: [] },
    } as unknown as RunRecord;
    const run = withRightsFiles(engine, begun, spelling.replace("DIR", "own/dir").split(" "), {});
    if (refuses(engine, run)) throw new Error(`${id} ${spelling} is refused although nothing changed`);
    swap(folder, other);
    return refuses(engine, run);
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

function refuses(engine: Engine, run: RunRecord): boolean {
  try {
    assertSameRights(engine, run, { env: {} });
    return false;
  } catch (error) {
    if (error instanceof Fault) return true;
    throw error;
  }
}
