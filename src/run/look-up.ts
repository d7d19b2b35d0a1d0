/** What the engine's store says of a run's conversations, and which rights they had. */
import type { RunRecord } from "../core/records.ts";
import { sessionFiles } from "../drivers/drivers.ts";
import type { Ask, Engine, Located } from "../engines/engine.ts";
import { candidates } from "./conversation.ts";
import { copiesOf, isTorn } from "./copies.ts";
import { describeLocated, type KnownSession, oneOf } from "./plan.ts";

/** What a new conversation in an old run is held to: the oldest one that tells. A run whose agent was never started begins now. */
export function earlierRights(run: RunRecord, found: readonly LookedUp[]): Rights {
  const told =
    found.findLast(({ rights }) => rights.rights !== undefined)?.rights.rights ??
    copiesOf(run).find(({ rights }) => rights !== undefined)?.rights;
  if (told !== undefined) return { rights: told };
  if (found.length === 0 && run.attempts > 0)
    return { rightsUnknown: "no attempt of the run ever named a conversation" };
  // In a session that is there and says nothing no turn ever began.
  const lost = found.findLast(
    ({ known, rights }) => known.state !== "present" || rights.rightsUnknown !== undefined,
  );
  return lost === undefined ? {} : { rightsUnknown: lost.rights.rightsUnknown ?? lost.known.note };
}

export type Rights = Pick<Ask, "rights" | "rightsUnknown">;

export interface LookedUp {
  readonly known: KnownSession;
  readonly located: Located;
  readonly rights: Rights;
}

/** `chosen`: only this one of the run's sessions. */
export async function lookUp(engine: Engine, run: RunRecord, chosen?: string): Promise<readonly LookedUp[]> {
  const all = candidates(run.sessions, run.session).filter((id) => engine.session.format.test(id));
  const ids = chosen === undefined ? all : [oneOf(run, all, chosen)];
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
      return { known, located, rights: rightsIn(located) };
    }),
  );
}

function rightsIn(located: Located): Rights {
  if (located.state === "unknown") return { rightsUnknown: located.why };
  if (located.state !== "present") return {};
  const { rights, rightsUnknown } = located;
  if (rightsUnknown !== undefined) return { rightsUnknown };
  return rights === undefined ? {} : { rights };
}
