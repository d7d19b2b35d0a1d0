/** Whether the run has the only copy of a conversation: then it is not removed. */
import { join } from "node:path";
import { isEmptied } from "../../state/escrow.ts";
import { namesOf } from "../../state/mounts.ts";
import { isDirectory, realPath } from "../../state/places.ts";
import { ifFault } from "../../core/faults.ts";
import type { Escrow, RunRecord } from "../../core/records.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import type { Engine, Located } from "../../engines/engine.ts";
import { candidates } from "../conversation.ts";
import type { Deps } from "../deps.ts";
import { allEngines } from "../engine-setup.ts";
import { copiesOf, copyId, copyName, isElsewhere, lackedWith, whyStuck } from "./copies.ts";
import { expectedEscrow } from "./escrow.ts";
import { damageOf } from "./look-up.ts";
import { uncopiedLink } from "./sources.ts";
import { gitDirectoryOf } from "../git.ts";
import { resumeCommand } from "../resume/plan.ts";
import { isInside } from "../unsaved-commits.ts";

interface OnlyCopy {
  /** As the end of a sentence about the run. */
  readonly why: string;
  /** The command that restores the copy, and its effect, as a sentence without its end. */
  readonly way: string;
  /** The loss, if the run goes. */
  readonly lost: string;
}

/** The newest copy that would be lost with the run, and what else would be; null: the engine has everything that the copies hold. */
export async function conversationAtRisk(deps: Deps, run: RunRecord): Promise<OnlyCopy | null> {
  const engine = allEngines(deps).find(({ id }) => id === run.agentName);
  const { engineHome, runDirectory } = run;
  if (engine === undefined || engineHome === null || run.empty === true || !isDirectory(runDirectory))
    return null;
  const inside = await sessionInside(engine, run, engineHome);
  if (inside !== null) return inside;
  // After a crash, links may hold what no copy has.
  const now = await expectedEscrow(deps, run);
  const risky: { copy: Escrow; located: Located; damage: string | null }[] = [];
  for (const copy of copiesOf(now).toReversed()) {
    const located = await engine.locate(copy.session, { home: engineHome, cwd: run.cwd }, sessionFiles());
    if (isEmptied(runDirectory, copy) || (await isSafe(engine, run, copy, located))) continue;
    risky.push({ copy, located, damage: await damageOf(run, copy) });
  }
  const first = risky.find(({ damage }) => damage === null) ?? risky[0];
  if (first === undefined) return linkAtRisk(engine, run, engineHome);
  const why = whatIsLost(engine, first.copy.session, first.located);
  const way =
    first.damage === null
      ? await wayBackTo(engine, now, first.copy, first.located)
      : `The copy is damaged, so Reprise does not restore it, but what is left of it can be read (${first.damage})`;
  const named = risky.map(({ copy }) => `copy ${copyName(copy)}`).join(" and ");
  return { why: `${why}, and a copy of it is in the run's directory`, way, lost: named };
}

/** A session inside the removed directories: the engine's home, or a link in it, leads into the run's directory. */
async function sessionInside(engine: Engine, run: RunRecord, home: string): Promise<OnlyCopy | null> {
  const gitDirectory = gitDirectoryOf(join(run.runDirectory, "worktree"));
  const goes = [run.runDirectory, ...(gitDirectory === null ? [] : [gitDirectory])].flatMap(namesOf);
  const copied = copiesOf(run).map(({ session }) => session);
  for (const session of new Set([...candidates(run.sessions, run.session), ...copied])) {
    const located = await engine.locate(session, { home, cwd: run.cwd }, sessionFiles());
    const paths = located.state === "present" ? [home, ...located.files.map(({ path }) => path)] : [];
    const path = paths.find((one) => goes.some((directory) => isInside(realPath(one) ?? one, directory)));
    if (path === undefined) continue;
    const why = `${engine.title}'s session ${session} would be removed with it, because ${path} leads to ${realPath(path) ?? path}`;
    const way = `Move what is there out of the run's directory first`;
    return { why, way, lost: `session ${session}` };
  }
  return null;
}

/** Copies and the engine are safe; an attempt that was killed may have left a link with more. */
async function linkAtRisk(engine: Engine, run: RunRecord, home: string): Promise<OnlyCopy | null> {
  const link = await uncopiedLink(engine, run, home);
  if (link === null) return null;
  const why = `an attempt was killed, and only ${link} has all that was said in it`;
  const way = `\`${resumeCommand(run.handle, { want: "resume" })}\` makes a copy of it first`;
  return { why, way, lost: "it" };
}

/** False if a store cannot be read: it may lack everything. */
function isSafe(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<boolean> {
  return isElsewhere(engine, run, copy, located).catch(ifFault(false));
}

function whatIsLost({ title }: Engine, session: string, located: Located): string {
  if (located.state === "absent") return `${title} no longer has session ${session}`;
  if (located.state === "unknown")
    return `nothing shows that ${title} still has session ${session} (${located.why})`;
  return `${title}'s session ${session} lacks a part that the run's copy has`;
}

async function wayBackTo(engine: Engine, run: RunRecord, copy: Escrow, located: Located): Promise<string> {
  const { session } = copy;
  const stuck = located.state === "present" ? await whyStuck(engine, run, copy) : null;
  if (stuck !== null) return `It cannot be restored: in copy ${copyId(copy).slice(0, 8)}, ${stuck}`;
  const isNewest = copy === run.escrow && session === run.session.value;
  const isLost = located.state === "absent" && isNewest;
  const options = isLost ? [] : isNewest ? ["--restore-copy"] : ["--copy", copyId(copy).slice(0, 8)];
  const way = `\`${resumeCommand(run.handle, { want: "resume" }, ...options)}\` puts it back`;
  const apart = await apartFrom(engine, run, copy, located);
  if (apart.length === 0) return way;
  const named = apart.map((other) => `copy ${copyName(other)}`).join(" and ");
  return `${way}, but then the session lacks what only ${named} holds: they went different ways, and a session holds one of them`;
}

/** Copies that the session would lack in their turn. An import adds to the session; a file replaces another file. */
async function apartFrom(
  engine: Engine,
  run: RunRecord,
  copy: Escrow,
  located: Located,
): Promise<readonly Escrow[]> {
  if (engine.transfer !== undefined) return [];
  return lackedWith(engine, run, copy, located).catch(ifFault([]));
}
