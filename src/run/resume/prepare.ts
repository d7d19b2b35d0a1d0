/**
 * Prepares the exact native command of a run's next attempt. Changes nothing and sends nothing,
 * so that `--dry-run` and a real resume are the same up to here.
 */
import type { Redact } from "../../lib/secrets.ts";
import { CONTINUE_MESSAGE } from "../../core/runbook.ts";
import type { AttemptKind, Escrow, RunRecord } from "../../core/records.ts";
import type { AttemptRequest, Command, Engine, Located } from "../../engines/engine.ts";
import { keepNative } from "../../engines/engines.ts";
import { lacking } from "../escrow/copies.ts";
import { earlierRights, type LookedUp } from "../escrow/look-up.ts";
import { goingBack, leavesCopy, notesFor } from "./plan-notes.ts";
import type { ConversationRights } from "../conversation.ts";
import type { Deps } from "../deps.ts";
import { engineOf, type EngineSetup, findEngine, setUpEngine } from "../engine-setup.ts";
import { assertOwnWorkplace, assertWorktree } from "../isolate.ts";
import {
  assertHiddenMessage,
  assertSameFolders,
  assertSameRights,
  recordedEnv,
  redactorFor,
  storableArgs,
} from "../launch.ts";
import { anewIn, folderIn, reopensUi } from "../new-run.ts";
import type { ResumePlan } from "./plan.ts";
import type { ResumeOptions } from "./options.ts";
import {
  assertNotOpenElsewhere,
  assertUsable,
  possible,
  type Prospect,
  prospect,
  refusalFor,
} from "./refusals.ts";

export interface PreparedResume {
  /** With `native` merged in, if it is kept. */
  readonly run: RunRecord;
  readonly setup: EngineSetup;
  readonly plan: ResumePlan;
  /** The copy to restore. Null: none. */
  readonly copy: Escrow | null;
  /** Text that the conversation had and that copy lacks, one sentence each. */
  readonly lacks: readonly string[];
  /** The attempt continues a session that lacks something in its copy. */
  readonly leavesCopy: boolean;
  readonly command: Command;
  readonly kind: AttemptKind;
  readonly interactive: boolean;
  readonly message: string | null;
  /** Notes for the user before the attempt starts. */
  readonly notes: readonly string[];
}

export async function prepareResume(
  deps: Deps,
  recorded: RunRecord,
  wish: ResumeOptions,
): Promise<PreparedResume> {
  const engine = engineOf(deps, recorded);
  await assertUsable(recorded, wish);
  assertOwnWorkplace(recorded);
  const env = recordedEnv(recorded, deps.env, wish.env, wish.supervised);
  const setup = setUpEngine(deps, engine, env);
  const later = { ...wish, env: setup.env };
  assertSameRights(engine, recorded, later);
  const refusal = await refusalFor(deps, engine, recorded, wish);
  const run = refusal === null ? recorded : anewIn(setup, recorded, wish);
  const seen = await prospect(deps, engine, run, { ...wish, home: setup.home });
  const plan = await possible(deps, engine, run, seen);
  assertWorktree(engine, run, goesOn(seen.found, plan));
  if (plan.do === "continue") await assertNotOpenElsewhere(deps, engine, run, plan.session);
  const ask = askFor(deps, engine, { run, wish, seen, plan });
  const { kind, interactive, message, trustCwd } = ask;
  const copy = copyFor(run, seen, plan);
  const lacks = await missingIn(deps, run, seen, copy);
  const command = warning(engine.command(ask), [...goingBack(plan), ...lacks]);
  assertSameFolders(engine, run, command, later);
  const redact = redactorFor(setup.env, env);
  assertHiddenMessage(command, message, redact);
  const launch = keeps(wish, plan) ? keptLaunch(engine, run, wish.native, redact) : run.launch;
  return {
    run: { ...run, launch: { ...launch, trustCwd, ...lasting(command, refusal) } },
    setup,
    plan,
    copy,
    lacks,
    leavesCopy: leavesCopy(seen.facts, plan),
    command,
    kind,
    interactive,
    message,
    notes: [
      ...(refusal === null ? notesFor(seen.facts, plan, kind) : [`beginning in run ${run.handle}`]),
      ...(wish.trustCwd && !trustCwd ? distrust(engine, run, ask, command) : []),
    ],
  };
}

interface Asking {
  readonly run: RunRecord;
  readonly wish: ResumeOptions;
  readonly seen: Prospect;
  readonly plan: ResumePlan;
}

/** The request that the engine turns into its native command. */
function askFor(deps: Deps, engine: Engine, { run, wish, seen, plan }: Asking): AttemptRequest {
  const interactive = reopensUi(engine, run, wish);
  const kind = plan.do === "fresh" ? "fresh" : wish.want === "fork" ? "fork" : "resume";
  const newSession = () => (engine.can.chooseSession ? deps.newSessionId() : null);
  return {
    kind,
    interactive,
    message: interactive ? wish.message : (wish.message ?? CONTINUE_MESSAGE),
    session: plan.do === "continue" ? plan.session : newSession(),
    forkTo: kind === "fork" ? newSession() : null,
    given: run.launch.given,
    givenHasNoPrompt: run.launch.message !== null,
    native: wish.native,
    cwd: run.cwd,
    tag: tagOf(run, wish),
    ...{ ...held(deps, rightsOf(run, seen, plan)), ...folderIn(engine, run) },
    trustCwd: trusts(run, wish),
    ...(wish.ui === true ? { watched: true } : {}),
    ...(wish.dialogue === undefined ? {} : { dialogue: wish.dialogue }),
  };
}

function warning(command: Command, more: readonly string[]): Command {
  return more.length === 0 ? command : { ...command, warnings: [...more, ...(command.warnings ?? [])] };
}

async function missingIn(
  deps: Deps,
  run: RunRecord,
  { found, facts }: Prospect,
  copy: Escrow | null,
): Promise<readonly string[]> {
  if (copy === null) return [];
  const other = facts.elsewhere?.find(({ session }) => session === copy.session);
  const there =
    other === undefined
      ? []
      : [
          `run ${other.handle} has a copy of the same session (made ${other.takenAt}) with text that this copy lacks`,
        ];
  const located = found.find(({ known }) => known.id === copy.session)?.located;
  if (located === undefined) return there;
  const attempts = await deps.store.listAttempts(run.runId);
  const own = await lacking(findEngine(deps, run.agentName), run, copy, { located, attempts });
  return [...own, ...there];
}

/** A run that begins only now may begin with an option that forbids its resume. */
function lasting({ ephemeral }: Command, refusal: string | null): Pick<RunRecord["launch"], "unresumable"> {
  return refusal === null || ephemeral === undefined ? {} : { unresumable: ephemeral };
}

function goesOn(found: readonly LookedUp[], plan: ResumePlan): Located | undefined {
  return found.find(({ known }) => plan.do === "continue" && known.id === plan.session)?.located;
}

/** Trust is a right (I12): only the first attempt can get it. An adopted run has no attempt yet. */
function trusts({ attempts, launch }: RunRecord, { trustCwd }: ResumeOptions): boolean {
  return launch.trustCwd || (trustCwd && attempts === 0);
}

/** A note if trust would have changed the engine's command. */
function distrust(
  engine: Engine,
  { handle }: RunRecord,
  ask: AttemptRequest,
  command: Command,
): readonly string[] {
  const trusting = engine.command({ ...ask, trustCwd: true });
  const started = ({ args, env }: Command) => JSON.stringify([args, env]);
  if (started(trusting) === started(command)) return [];
  return [
    `run ${handle} was started without --trust-cwd, so it has no effect on this attempt; start a new run to let ${engine.title} trust the folder`,
  ];
}

function tagOf(run: RunRecord, { forkAs }: ResumeOptions): string {
  return forkAs === undefined ? `reprise-${run.handle}-${run.attempts + 1}` : `reprise-${forkAs.slice(-8)}-1`;
}

/** The options of a new conversation apply to all its later attempts. */
function keeps({ keep, native }: ResumeOptions, plan: ResumePlan): boolean {
  return keep || (plan.do === "fresh" && native.length > 0);
}

/** The run's options with those of this attempt, for later attempts. */
function keptLaunch(
  engine: Engine,
  run: RunRecord,
  native: readonly string[],
  redact: Redact,
): RunRecord["launch"] {
  const given = keepNative(engine, run.launch.given, native, run.launch.message !== null);
  const { args, redacted } = storableArgs(given, redact, engine);
  return { ...run.launch, given: args, redacted };
}

function copyFor(run: RunRecord, { copies }: Prospect, plan: ResumePlan): Escrow | null {
  if (plan.do === "fresh" || !plan.restore) return null;
  if (plan.kept === undefined) return run.escrow;
  return copies.kept.findLast(({ session }) => session === plan.session) ?? null;
}

function held(deps: Deps, known: ConversationRights): ConversationRights & Pick<AttemptRequest, "nonce"> {
  return known.rights === undefined ? known : { ...known, nonce: deps.newSessionId().replaceAll("-", "") };
}

/** From the engine's own session, or from the copy if it is restored. */
function rightsOf(run: RunRecord, seen: Prospect, plan: ResumePlan): ConversationRights {
  const { found } = seen;
  if (plan.do === "fresh") return earlierRights(run, found);
  if (!plan.restore) return found.find(({ known }) => known.id === plan.session)?.rights ?? {};
  const rights = copyFor(run, seen, plan)?.rights;
  return rights === undefined ? { rightsUnknown: "the run's copy of it does not say" } : { rights };
}
