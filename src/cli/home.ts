/** `reprise` alone on a terminal: the home screen. Also `status --watch`, narrowed to agents and pipelines. */
import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../core/deps.ts";
import { limitOf, limitWords, type RunLimit } from "../core/limit.ts";
import type { RunRecord } from "../core/records.ts";
import type { ScheduledResume } from "../core/supervision.ts";
import { titleOf } from "../core/title.ts";
import { type HomeCommand, type Exchange, type HomeRow, openHome } from "../home/home.ts";
import { allEngines } from "../run/engine-setup.ts";
import { localTime } from "../lib/duration.ts";
import { limitsOf, listRuns } from "../run/select.ts";
import type { Deps } from "../run/run.ts";
import { attemptDir } from "../state/runs.ts";
import { LOG_FILES } from "../state/tape.ts";
import type { Context } from "./context.ts";
import { agentsAndQuestions, type Supervised } from "./home-agents.ts";
import { lastExchange } from "./preview.ts";
import { openScheduled } from "./scheduled-lines.ts";

/** Null: nothing to show yet, so help is more useful. */
export async function showHome(context: Context): Promise<number | null> {
  const deps = await context.open({ cwd: null });
  const [runs, agents] = [await deps.store.listRuns({ limit: 1 }), await deps.store.listDocuments("agent")];
  return runs.length === 0 && agents.length === 0 ? null : openScreen(context, deps, "everything");
}

export async function openScreen(
  context: Context,
  deps: Deps,
  narrowed: "everything" | "agents",
): Promise<number> {
  const cwd = process.cwd();
  await using source = new HomeSource(deps, narrowed);
  return await openHome({
    ...{ narrowed, colours: context.terminal.color, cwd, now: () => deps.clock.now() },
    engines: allEngines(await context.configure(deps, { cwd })).map(({ id }) => id),
    read: () => source.read(),
    exchange: (row) => source.exchange(row),
    run: runCommand,
  });
}

/** The same program with the user's terminal: whatever the command asks or prints is seen. */
async function runCommand({ args, back }: HomeCommand): Promise<boolean> {
  if (args.includes("--follow")) process.stdout.write("Ctrl-C returns to the home screen.\n");
  const code = await new Promise<number | null>((resolve) => {
    const child = spawn(process.execPath, [process.argv[1] ?? "", ...args], { stdio: "inherit" });
    child.on("error", () => resolve(null));
    child.on("close", (status) => resolve(status));
  });
  if (back === "return" && (code === 0 || code === 130)) return code === 0;
  process.stdout.write("\nPress Enter to return to the home screen.");
  await new Promise<void>((resolve) => {
    const done = () => {
      process.stdin.pause();
      resolve();
    };
    process.stdin.once("data", done).once("end", done).resume();
  });
  return code === 0;
}

/** A warning would damage the screen; `doctor` has it. */
const SILENT: Log = { warn: () => {}, info: () => {} };

const PART = 200;
/** A dead owner writes nothing: its run is looked at this often, changed or not. */
const ANYWAY_MS = 5_000;
/** Newer runs than this many are read again after a change; older ones change only by resuming, which makes them live. */
const NEWEST = 50;

/** Reads what changed: the whole index once, in parts, then live and new runs. */
class HomeSource implements AsyncDisposable {
  readonly #deps: Deps;
  readonly #narrowed: "everything" | "agents";
  /** What the row of a run was made from. */
  readonly #marks = new Map<string, string>();
  /** Live runs, and runs of issues. */
  readonly #runs = new Map<string, RunRecord>();
  readonly #rows = new Map<string, HomeRow>();
  /** The limits that ended runs. */
  readonly #limits = new Map<string, RunLimit>();
  readonly #supervised: Supervised;
  #after: RunRecord | null | undefined;
  #stamp = "";
  #readAt = 0;
  #looked = "";

  constructor(deps: Deps, narrowed: "everything" | "agents") {
    this.#deps = deps;
    this.#narrowed = narrowed;
    this.#supervised = agentsAndQuestions(deps);
  }

  async read(): Promise<{ rows: readonly HomeRow[]; note: string } | null> {
    const stamp = stampOf(this.#deps.state.indexPath);
    const now = this.#deps.clock.now();
    const isQuiet = stamp === this.#stamp && now - this.#readAt < ANYWAY_MS && this.#after === null;
    if (isQuiet) return null;
    this.#stamp = stamp;
    this.#readAt = now;
    if (this.#narrowed === "everything") await this.#readRuns();
    const { rows, note, runIds } = await this.#supervised.read();
    const scheduled = await openScheduled({ ...this.#deps, log: SILENT });
    const runs = [...this.#rows.values()]
      .filter(({ key }) => !runIds.has(key))
      .map((row) => withNext(row, scheduled.get(row.key), this.#limits.get(row.key), now));
    return { rows: [...rows, ...runs, ...(await this.#batches())], note };
  }

  /** The first part at once, everything else in the next ticks. */
  async #readRuns(): Promise<void> {
    const before = [...this.#runs.values()].filter(({ status }) => status === "running");
    if (this.#after !== null) {
      const after = this.#after === undefined ? {} : { after: this.#after };
      const limit = this.#after === undefined ? PART : PART * 10;
      const part = await listRuns(this.#deps, { ...after, limit });
      const limits = await limitsOf(this.#deps, part);
      for (const run of part) await this.#keep(run, limits.get(run.runId));
      this.#after = part.length < limit ? null : (part.at(-1) ?? null);
    }
    const live = await listRuns(this.#deps, { status: "running", limit: 1_000 });
    const newest = await listRuns(this.#deps, { limit: NEWEST });
    for (const run of [...newest, ...live]) await this.#keep(run);
    for (const runId of await this.#deps.store.unknownRuns([...this.#rows.keys()])) this.#forget(runId);
    const known = new Set(live.map(({ runId }) => runId));
    for (const { runId } of before.filter((run) => !known.has(run.runId))) {
      const run = await this.#deps.store.getRun(runId).catch(() => null);
      if (run === null) this.#forget(runId);
      else await this.#keep(run);
    }
  }

  #forget(runId: string): void {
    this.#marks.delete(runId);
    this.#runs.delete(runId);
    this.#rows.delete(runId);
    this.#limits.delete(runId);
  }

  /** `limit`: known without its attempts. */
  async #keep(run: RunRecord, limit?: RunLimit): Promise<void> {
    const known = this.#marks.get(run.runId);
    const mark = `${run.updatedAt} ${run.status} ${run.attempts}`;
    if (known === mark) return;
    this.#marks.set(run.runId, mark);
    if (run.status === "running" || run.subject?.startsWith("issue:") === true)
      this.#runs.set(run.runId, run);
    else this.#runs.delete(run.runId);
    const isNew = run.status === "running" || this.#rows.size < PART || known !== undefined;
    const attempts = isNew ? await this.#deps.store.listAttempts(run.runId).catch(() => []) : [];
    const used = attempts.flatMap(({ tokens }) => (tokens === null ? [] : [tokens.input + tokens.output]));
    const tokens = used.length === 0 ? null : used.reduce((sum, count) => sum + count, 0);
    const last = attempts.at(-1);
    const row = rowOf(run, tokens, last?.interactive === true);
    this.#rows.set(run.runId, row);
    const hit = row.live ? null : (limit ?? limitOf(last));
    if (hit === null) this.#limits.delete(run.runId);
    else this.#limits.set(run.runId, hit);
  }

  /** One row per live batch of issues. */
  async #batches(): Promise<readonly HomeRow[]> {
    const held = await this.#deps.batchHolds?.([...this.#runs.values()].slice(0, PART));
    const batches = new Map<string, string[]>();
    for (const { batch, issue, state } of held?.values() ?? [])
      batches.set(batch, [...(batches.get(batch) ?? []), `${issue} ${state}`]);
    return [...batches].map(([batch, issues]) => ({
      ...{ key: `batch:${batch}`, kind: "batch", id: batch, title: issues.join(", "), engine: "" },
      ...{ state: "running", sinceMs: this.#readAt, createdMs: this.#readAt, next: "", tokens: null },
      ...{ live: true, hasUi: false, decision: null, text: `${batch} ${issues.join(" ")}`.toLowerCase() },
    }));
  }

  async exchange(row: HomeRow): Promise<Exchange | null> {
    const told = this.#supervised.words(row);
    if (told !== null) return this.#once(`${row.key} ${told}`, async () => ({ asked: null, answer: told }));
    const runId = row.kind === "agent" ? this.#supervised.runIdOf(row) : row.key;
    const run = this.#runs.get(runId) ?? (await this.#deps.store.getRun(runId).catch(() => null));
    if (run === null) return this.#once(row.key, async () => ({ asked: null, answer: row.title }));
    const directory = attemptDir(run.runDirectory, run.attempts);
    const files = ["events", "pty-output"] as const;
    const stamps = files.map((log) => stampOfFile(join(directory, LOG_FILES[log])));
    return this.#once([runId, run.attempts, ...stamps].join(" "), () => lastExchange(run));
  }

  /** Null: the same as last time. */
  async #once(stamp: string, read: () => Promise<Exchange>): Promise<Exchange | null> {
    if (this.#looked === stamp) return null;
    this.#looked = stamp;
    return read();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#supervised[Symbol.asyncDispose]();
  }
}

function rowOf(run: RunRecord, tokens: number | null, hasUi: boolean): HomeRow {
  const { runId, handle, agentName, status, updatedAt, createdAt, cwd } = run;
  const title = titleOf(run) ?? "(no message)";
  return {
    ...{ key: runId, kind: "run", id: handle, title, engine: agentName, state: status },
    ...{ sinceMs: Date.parse(updatedAt), createdMs: Date.parse(createdAt), next: "", tokens },
    ...{ live: status === "running", hasUi, decision: null },
    text: [title, handle, agentName, status, cwd].join(" ").toLowerCase(),
  };
}

/** The next step of a run that is no agent, and what a limit makes of its state. */
function withNext(
  row: HomeRow,
  scheduled: ScheduledResume | undefined,
  limit: RunLimit | undefined,
  nowMs: number,
): HomeRow {
  const planned = scheduled === undefined ? null : `resume at ${localTime(scheduled.dueAt, nowMs)}`;
  if (limit === undefined) return planned === null ? row : { ...row, next: planned };
  const { state, left, next } = limitWords(limit, nowMs);
  return { ...row, state, left, next: planned ?? next, text: `${row.text} ${state}` };
}

/** Every commit changes the index or the log beside it. */
function stampOf(indexPath: string): string {
  return [indexPath, `${indexPath}-wal`].map(stampOfFile).join(" ");
}

function stampOfFile(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? "none" : `${stats.mtimeMs} ${stats.size}`;
}
