/** Asks a person at the terminal which run a command is about. Loaded only for a command line that does not say it. */
import { realpathSync } from "node:fs";
import { ifFault } from "../core/faults.ts";
import { limitWords, type RunLimit } from "../core/limit.ts";
import type { RunRecord } from "../core/records.ts";
import { titleOf } from "../core/title.ts";
import { openPicker, type PickRow } from "../home/home.ts";
import type { Deps } from "../run/run.ts";
import { limitsOf, listRuns, selectRun } from "../run/select.ts";
import type { RunFilter } from "../store/store.ts";
import type { Line } from "../terminal/terminal.ts";
import type { Context } from "./context.ts";
import { lastExchange } from "./preview.ts";
import { shortPath } from "./words.ts";

export interface WhichRun {
  readonly question: string;
  readonly many: boolean;
  readonly offers: "any" | "live" | "resumable" | "agents";
  /** Only runs with these handles, in this order, of all folders. */
  readonly only?: readonly string[];
  /** Conversations that are no runs: by their names in `only`. */
  readonly outside?: ReadonlyMap<string, OutsideConversation>;
  /** A line above the last exchange, by handle. */
  readonly lines?: ReadonlyMap<string, Line>;
  /** Asks before the runs are taken: `Remove`. */
  readonly asks?: string;
  /** Asks for a message; says what an empty one does. */
  readonly message: string | null;
}

/** A conversation that was started without Reprise. */
export interface OutsideConversation extends Pick<PickRow, "title" | "engine" | "updatedAt"> {
  readonly cwd: string | null;
}

export interface ChosenRuns {
  readonly handles: readonly string[];
  readonly message: string | null;
}

/** Null: the user left. */
export async function pickRuns(context: Context, which: WhichRun): Promise<ChosenRuns | null> {
  const deps = await context.open({ cwd: null });
  return openPicker({
    wish: { ...which, isOrdered: which.only !== undefined },
    colours: context.terminal.color,
    now: () => deps.clock.now(),
    rows: () => rowsOf(deps, which),
    exchange: async ({ runId, handle }) => {
      const isOutside = which.outside?.has(handle) === true;
      const run = isOutside ? null : await deps.store.getRun(runId).catch(() => null);
      const answer = isOutside ? ADOPTS : "";
      const exchange = run === null ? { asked: null, answer } : await lastExchange(run);
      const line = which.lines?.get(handle);
      return line === undefined ? exchange : { ...exchange, line };
    },
  });
}

const ADOPTS = "Started without Reprise. Enter makes it a run, as `reprise adopt` does, and resumes it.";

/** Small parts: a key pressed between two of them is answered at once. */
const PART = 100;
/** The number of runs that the list grows by after its first part: each growth sorts it again. */
const SHOWN = 2_000;

/** The named runs, or the runs of this folder and then all others. */
async function* rowsOf(deps: Deps, which: WhichRun): AsyncGenerator<readonly PickRow[]> {
  const cwd = hereOf();
  const rowsIn = async (runs: readonly RunRecord[]) => {
    const limits = await limitsOf(deps, runs);
    const now = { cwd, home: deps.env["HOME"], nowMs: deps.clock.now() };
    return runs.map((run) => rowOf(run, limits.get(run.runId), now));
  };
  if (which.only !== undefined) {
    const { only, outside } = which;
    const ours = only.filter((name) => outside?.has(name) !== true);
    // A run may have been removed a moment ago.
    const found = await Promise.all(ours.map((handle) => selectRun(deps, handle).catch(ifFault(null))));
    const rows = await rowsIn(found.filter((run) => run !== null));
    const known = new Map(rows.map((row) => [row.handle, row]));
    const rowNamed = (name: string) => {
      const other = outside?.get(name);
      return other === undefined ? known.get(name) : outsideRow(name, other, { cwd, home: deps.env["HOME"] });
    };
    yield only.flatMap((name) => rowNamed(name) ?? []);
    return;
  }
  const isOffered = await offerTest(which.offers);
  const status: RunFilter = which.offers === "live" ? { status: "running" } : {};
  if (cwd !== null) yield* parts(deps, { ...status, cwd }, (runs) => rowsIn(runs.filter(isOffered)));
  yield* parts(deps, status, (runs) => rowsIn(runs.filter(isOffered)));
}

async function* parts<T>(
  deps: Deps,
  filter: RunFilter,
  read: (runs: readonly RunRecord[]) => Promise<readonly T[]>,
): AsyncGenerator<readonly T[]> {
  let after: RunRecord | undefined;
  let found: T[] = [];
  for (let most = PART; ; most = SHOWN) {
    const runs = await listRuns(deps, { ...filter, limit: PART, ...(after === undefined ? {} : { after }) });
    found.push(...(await read(runs)));
    const isLast = runs.length < PART;
    if (isLast || found.length >= most || after === undefined) {
      yield found;
      found = [];
    }
    if (isLast) return;
    after = runs.at(-1);
    await new Promise((wake) => setImmediate(wake));
  }
}

async function offerTest(offers: WhichRun["offers"]): Promise<(run: RunRecord) => boolean> {
  switch (offers) {
    case "any":
      return () => true;
    case "live":
      return ({ status }) => status === "running";
    case "agents":
      return ({ subject }) => subject?.startsWith("agent:") === true;
    case "resumable": {
      const { whyNotResumable } = await import("../run/inspect.ts");
      return (run) => run.status !== "running" && whyNotResumable(run) === null;
    }
  }
}

/** Null: the folder is gone. */
function hereOf(): string | null {
  try {
    return realpathSync(".");
  } catch {
    return null;
  }
}

function outsideRow(
  name: string,
  { title, engine, updatedAt, cwd: at }: OutsideConversation,
  { cwd, home }: { cwd: string | null; home: string | undefined },
): PickRow {
  const place = at === null ? "" : shortPath(at, home);
  const status = "outside";
  const text = [title, engine, status, place, name].join(" ").toLowerCase();
  const words = title === "" ? "(no message)" : title;
  return {
    runId: name,
    handle: name,
    title: words,
    engine,
    status,
    updatedAt,
    place,
    here: at === cwd,
    text,
  };
}

function rowOf(
  run: RunRecord,
  limit: RunLimit | undefined,
  { cwd, home, nowMs }: { cwd: string | null; home: string | undefined; nowMs: number },
): PickRow {
  const { runId, handle, agentName, updatedAt } = run;
  const title = titleOf(run) ?? "(no message)";
  const place = shortPath(run.cwd, home);
  const words = limit === undefined ? null : limitWords(limit, nowMs);
  const status = words?.state ?? run.status;
  const text = [title, handle, agentName, status, place, ...(run.tags ?? [])].join(" ").toLowerCase();
  const row = {
    runId,
    handle,
    title,
    engine: agentName,
    status,
    updatedAt,
    place,
    here: run.cwd === cwd,
    text,
  };
  return words === null ? row : { ...row, left: words.left };
}
