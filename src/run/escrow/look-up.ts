/** Which conversations of a run the engine still has, and which of the run's copies could give one back. */
import { checkEscrow } from "../../state/escrow.ts";
import { Fault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine, Located } from "../../engines/engine.ts";
import { candidates, isBlank, isConfirmed, type ConversationRights, rightsIn } from "../conversation.ts";
import { describeLocated, type KnownSession, oneOfThese } from "../resume/plan.ts";
import { copiesOf, copyId, hasMore, isElsewhere, isTorn, lastCopyOf, ownPath, whyStuck } from "./copies.ts";

export interface CheckedCopies {
  /** The session of the newest copy, if size and checksum prove it whole. */
  readonly escrow: string | null;
  readonly copyDamage?: string;
  /** Whole earlier copies, oldest first. */
  readonly kept: readonly Escrow[];
  /** Why earlier copies with text that the session lacks cannot be restored. */
  readonly stuck?: readonly { readonly session: string; readonly why: string }[];
}

async function checkedCopies(run: RunRecord): Promise<CheckedCopies> {
  const kept: Escrow[] = [];
  for (const copy of run.kept ?? []) if ((await damageOf(run, copy)) === null) kept.push(copy);
  if (run.escrow === null) return { escrow: null, kept };
  const copyDamage = await damageOf(run, run.escrow);
  return copyDamage === null ? { escrow: run.escrow.session, kept } : { escrow: null, copyDamage, kept };
}

export async function damageOf(run: RunRecord, copy: Escrow): Promise<string | null> {
  try {
    await checkEscrow(run.runDirectory, copy);
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { path, why } = error.facts;
    const isTold = typeof path === "string" && typeof why === "string";
    return isTold ? `${path}: ${why}` : error.message.replace(/\.$/, "");
  }
}

interface Sought {
  readonly known: Pick<KnownSession, "id">;
  readonly located: Located;
}

/** The copies that could restore something. `found`: the sessions in question. */
export async function usableCopies(
  engine: Engine,
  run: RunRecord,
  found: readonly Sought[],
  chosen: Escrow | null,
): Promise<CheckedCopies> {
  if (chosen !== null) return onlyChosen(engine, run, found, chosen);
  const copies = await checkedCopies(run);
  const kept: Escrow[] = [];
  const stuck: { session: string; why: string }[] = [];
  for (const copy of copies.kept) {
    const located = found.find(({ known }) => known.id === copy.session)?.located;
    if (located === undefined) continue;
    if (await hasMore(engine, run, copy, located)) kept.push(copy);
    const why = await whyStuck(engine, run, copy);
    if (why !== null)
      stuck.push({ session: copy.session, why: `in copy ${copyId(copy).slice(0, 8)}, ${why}` });
  }
  return { ...copies, kept, ...(stuck.length === 0 ? {} : { stuck }) };
}

/** Only the copy that the user names. It must be whole and hold more than the session. */
async function onlyChosen(
  engine: Engine,
  run: RunRecord,
  found: readonly Sought[],
  chosen: Escrow,
): Promise<CheckedCopies> {
  const { handle } = run;
  const { copyDamage } = await checkedCopies({ ...run, escrow: chosen, kept: [] });
  const located = found.find(({ known }) => known.id === chosen.session)?.located;
  if (copyDamage === undefined && located !== undefined && (await hasMore(engine, run, chosen, located)))
    return { escrow: null, kept: [chosen] };
  const why =
    copyDamage === undefined
      ? await whyUseless(engine, run, chosen, located)
      : `cannot be used: ${copyDamage}`;
  throw new Fault(
    "copy_missing",
    `Copy ${copyId(chosen).slice(0, 8)} of run ${handle} ${why}. Nothing was started. Leave out --copy to continue; \`reprise show ${handle}\` lists the copies.`,
    { facts: { handle, session: chosen.session } },
  );
}

async function whyUseless(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located | undefined,
): Promise<string> {
  const stuck = await whyStuck(engine, run, copy);
  if (stuck !== null) return `cannot be restored: ${stuck}`;
  if (located === undefined || (await isElsewhere(engine, run, copy, located)))
    return `holds nothing that ${engine.title}'s session ${copy.session} lacks`;
  const path = ownPath(run, copy, located) ?? "another place";
  return `cannot be restored: ${engine.title} has session ${copy.session} in ${path} now`;
}

/** The copy that the user names, of the given session if any. */
export function chosenCopy(run: RunRecord, text: string, session: string | undefined): Escrow {
  const fitting = copiesOf(run).filter(
    (copy) =>
      text.length >= 8 &&
      copyId(copy).startsWith(text) &&
      (session === undefined || copy.session.startsWith(session)),
  );
  const [only] = fitting;
  if (only !== undefined && fitting.length === 1) return only;
  const { handle } = run;
  const of = session === undefined ? "" : ` of session ${session.slice(0, 80)}`;
  throw new Fault(
    "copy_missing",
    `Run ${handle} has no copy ${text.slice(0, 80)}${of}. Nothing was started. Give 8 or more characters of the id of a copy; \`reprise show ${handle}\` lists the copies.`,
    { facts: { handle, given: text.slice(0, 80) } },
  );
}

/** The rights of a new conversation in an existing run: those of the oldest conversation that records them. */
export function earlierRights(run: RunRecord, found: readonly LookedUp[]): ConversationRights {
  const told =
    found.findLast(({ rights }) => rights.rights !== undefined)?.rights.rights ??
    copiesOf(run).find(({ rights }) => rights !== undefined)?.rights;
  if (told !== undefined) return { rights: told };
  if (found.length === 0 && run.attempts > 0)
    return { rightsUnknown: "no attempt of the run ever named a conversation" };
  // A session without text never had a turn.
  const lost = found.findLast(
    ({ known, located, rights }) =>
      rights.rightsUnknown !== undefined || !(known.state === "present" || isBlank(located)),
  );
  return lost === undefined ? {} : { rightsUnknown: lost.rights.rightsUnknown ?? lost.known.note };
}

export interface LookedUp {
  readonly known: KnownSession;
  readonly located: Located;
  readonly rights: ConversationRights;
}

/** `chosen`: only this session of the run. */
export async function lookUp(engine: Engine, run: RunRecord, chosen?: string): Promise<readonly LookedUp[]> {
  const all = candidates(run.sessions, run.session).filter((id) => engine.session.format.test(id));
  const ids = chosen === undefined ? all : [oneOfThese(run, all, chosen)];
  const { engineHome } = run;
  if (engineHome === null || !engine.can.readStore) {
    const why = "the engine's store cannot be read";
    return ids.map((id) => ({
      known: { id, state: "unknown", note: why },
      located: { state: "unknown", why },
      rights: { rightsUnknown: why },
    }));
  }
  return Promise.all(
    ids.map(async (id) => {
      const located = await engine.locate(id, { home: engineHome, cwd: run.cwd }, sessionFiles());
      const torn = await isTorn(engine, run, id, located);
      const known = torn ?? describeLocated(id, located, engineHome);
      const silent = hasBegun(run, id) ? {} : { silent: true as const };
      return { known: { ...known, ...silent }, located, rights: rightsIn(located) };
    }),
  );
}

/** In doubt: yes. An id that only Reprise chose, or that a closed UI left, belongs to no conversation. */
function hasBegun(run: RunRecord, id: string): boolean {
  return isConfirmed(run, id) || lastCopyOf(run, id) !== null;
}
