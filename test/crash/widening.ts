/** P17: no later attempt of a run has more rights than its first. */
import { Fault } from "../../src/core/faults.ts";
import type { AttemptRequest, Command } from "../../src/engines/engine.ts";
import { builtInEngine } from "../../src/engines/engines.ts";
import { recordedRights, rightsOf, wider } from "../hostile/engine-parsers.ts";
import { type Lists, optionLists } from "../hostile/option-lists.ts";
import type { Promised, Scale, Verdict } from "./promise.ts";

export const widening: Promised = {
  id: "P17",
  what: "later attempts with generated options",
  wrong: "got more rights than the first",
  means:
    "However options are spelled, repeated and mixed, a resume, a fork and a fresh conversation have at most the rights of the first attempt, judged by the engine's own parser",
  check: async ({ short, seed }: Scale) => tryLists(short ? 300 : 5_000, seed),
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
