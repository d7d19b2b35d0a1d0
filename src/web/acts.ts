/** What a request may begin: a run, an attempt, a fork; and a message typed into a live UI. Each acts once per plan. */
import { isAbsolute } from "node:path";
import type { Access } from "../core/config-issues.ts";
import { Fault } from "../core/faults.ts";
import { isRunId, makeRunId } from "../core/ids.ts";
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { JsonObject } from "../lib/json.ts";
import { launchHolder, openHolder } from "../detached/detached.ts";
import { findEngine, redactorFor } from "../run/engine-setup.ts";
import { type Deps, RESUME_DEFAULTS, type ResumeRequest, type StartRequest } from "../run/run.ts";
import { selectRun } from "../run/select.ts";
import { resolveDirectory } from "../state/places.ts";
import type { Core } from "./core.ts";
import type { Planned } from "./once.ts";
import type { Reply } from "./reply.ts";

export interface StartBody {
  readonly engine: string;
  readonly message: string;
  readonly cwd: string;
  readonly isolate?: "worktree" | "dir" | undefined;
  readonly access?: Access | undefined;
  readonly name?: string | undefined;
  readonly tags?: readonly string[] | undefined;
}

export type StartPlan = JsonObject & { readonly runId: string };
/** `attempt`: the number that the attempt must get. `since`: when it was planned, ISO 8601. */
export type PlannedAttempt = JsonObject & { readonly attempt: number; readonly since: string };

export async function planStart(core: Core, body: StartBody): Promise<StartPlan> {
  const { deps } = core;
  for (;;) {
    const handle = deps.newHandle();
    if ((await deps.store.findByHandle(handle)).length === 0)
      return {
        runId: makeRunId(
          deps.clock.now(),
          findEngine(await core.configure(folderOf(body)), body.engine).id,
          handle,
        ),
      };
  }
}

export async function start(
  core: Core,
  body: StartBody,
  { plan, repeated }: Planned<StartPlan>,
): Promise<Reply> {
  const { runId } = plan;
  if (!isRunId(runId)) throw damagedPlan();
  if (repeated && (await core.deps.store.getRun(runId)) !== null)
    return { status: 201, body: { ok: true, handle: runId.slice(-8), runId, attempt: 1, warnings: [] } };
  const cwd = folderOf(body);
  const deps = await core.configure(cwd);
  const native = body.access === undefined ? [] : await accessOf(deps, body.engine, body.access);
  const request: StartRequest = {
    ...core.attempt(deps),
    ...{ engine: body.engine, message: messageOf(body.message), native, env: [], cwd, cwdGiven: true },
    ...{ isolate: body.isolate ?? null, runDir: null, subject: null, trustCwd: false, escrow: true, runId },
    name: body.name === undefined ? null : core.checkName(body.name),
    tags: core.checkTags(body.tags ?? []),
    terminal: null,
  };
  const { handle, attempt, warnings } = await launchHolder(deps, { do: "start", request });
  return { status: 201, body: { ok: true, handle, runId, attempt, warnings } };
}

/** `seen`: how many attempts the caller knows, so that two callers never resume the same state. */
export async function planResume(
  core: Core,
  handle: string,
  seen: number | undefined,
): Promise<PlannedAttempt> {
  const run = await selectRun(core.deps, handle);
  return { attempt: (seen ?? run.attempts) + 1, since: new Date(core.deps.clock.now()).toISOString() };
}

export async function resume(
  core: Core,
  handle: string,
  text: string | undefined,
  { plan, repeated }: Planned<PlannedAttempt>,
): Promise<Reply> {
  if (!Number.isSafeInteger(plan.attempt)) throw damagedPlan();
  const found = await selectRun(core.deps, handle);
  const reply = (attempt: number, warnings: readonly string[]) => ({
    status: 200,
    body: { ok: true, handle: found.handle, runId: found.runId, attempt, warnings },
  });
  if (repeated && (await isMade(core.deps, found, plan, text))) return reply(plan.attempt, []);
  const deps = await core.configure(found.cwd);
  const request = requestFor(core, deps, { found, text, want: "resume" });
  const held = await launchHolder(deps, { do: "resume", request, asAttempt: plan.attempt });
  return reply(held.attempt, held.warnings);
}

/** Planned before a kill of the server, and made: an attempt of that number with that message, begun after the plan. */
async function isMade(
  deps: Deps,
  { runId }: RunRecord,
  plan: PlannedAttempt,
  text: string | undefined,
): Promise<boolean> {
  const made = (attempt: AttemptRecord) =>
    attempt.n === plan.attempt && attempt.startedAt >= plan.since && isSaid(deps, attempt.message, text);
  return (await deps.store.listAttempts(runId)).some(made);
}

/** Records hold messages without their secrets. */
function isSaid(deps: Deps, recorded: string | null, text: string | undefined): boolean {
  return text === undefined || recorded === text || recorded === redactorFor(deps.env, [])(text);
}

const damagedPlan = () =>
  new Fault("record_damaged", "The record of this request is damaged. Use another key.");

export async function fork(
  core: Core,
  handle: string,
  text: string | undefined,
  { plan, repeated }: Planned<PlannedAttempt>,
): Promise<Reply> {
  const found = await selectRun(core.deps, handle);
  if (repeated) {
    const isFork = ({ parent, createdAt, launch }: RunRecord) =>
      parent?.handle === found.handle && createdAt >= plan.since && isSaid(core.deps, launch.message, text);
    const [made] = await core.deps.store.listRuns({ limit: 1, matches: isFork });
    if (made !== undefined) return forked(made.handle, made.runId, found.handle);
  }
  const deps = await core.configure(found.cwd);
  const request = requestFor(core, deps, { found, text, want: "fork" });
  const held = await launchHolder(deps, { do: "resume", request, asAttempt: null });
  return forked(held.handle, held.runId, found.handle);
}

function forked(handle: string, runId: string, parent: string): Reply {
  return { status: 201, body: { ok: true, handle, runId, attempt: 1, parent } };
}

function requestFor(
  core: Core,
  deps: Deps,
  {
    found,
    text,
    want,
  }: { readonly found: RunRecord; readonly text: string | undefined; readonly want: "resume" | "fork" },
): ResumeRequest {
  return {
    ...RESUME_DEFAULTS,
    ...core.attempt(deps),
    ...{ selector: found.runId, want, hasTerminal: true, terminal: null },
    message: text === undefined ? null : messageOf(text),
  };
}

/** Types a message into the live UI of a run. */
export async function send(core: Core, handle: string, text: string, key: string): Promise<Reply> {
  const run = await selectRun(core.deps, handle);
  await using link = await openHolder(core.deps, run);
  if (link === null)
    throw new Fault("run_busy", `Run ${run.handle} has no live UI in the background. Resume it instead.`, {
      facts: { handle: run.handle },
    });
  const sent = await link.send(messageOf(text), key);
  return { status: 200, body: { ok: sent.sent !== "refused", ...sent } };
}

function folderOf({ cwd }: Pick<StartBody, "cwd">): string {
  if (!isAbsolute(cwd) || cwd.includes("\0"))
    throw new Fault("cwd_invalid", "The folder must be an absolute path.", { facts: { cwd } });
  try {
    return resolveDirectory(cwd);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    throw new Fault("cwd_invalid", `The working directory ${error.message}`, {
      facts: { cwd },
      cause: error,
    });
  }
}

function messageOf(text: string): string {
  if (text.trim() === "") throw new Fault("message_invalid", "The message is empty.");
  if (text.includes("\u0000")) throw new Fault("message_invalid", "The message contains a zero byte.");
  if (/\p{Surrogate}/u.test(text)) throw new Fault("message_invalid", "The message is not valid Unicode.");
  return text;
}

async function accessOf(deps: Deps, engine: string, level: Access): Promise<readonly string[]> {
  const { heldAccess } = await import("../run/engine-access.ts");
  return heldAccess(deps, engine, level, []).options;
}
