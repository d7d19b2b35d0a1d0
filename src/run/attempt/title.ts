/** The title of a conversation that began in the engine's UI: the first words in the engine's own store. */
import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../core/faults.ts";
import type { RunRecord } from "../../core/records.ts";
import { TITLE_CHARACTERS } from "../../core/title.ts";
import { sessionFiles } from "../../drivers/drivers.ts";
import { harmlessLine } from "../../lib/harmless.ts";
import type { Job } from "./job.ts";

/** A store of many conversations may take long, and a title is not worth the wait. */
const PATIENCE_MS = 2_000;

/** OpenCode calls a conversation `New session - <time>` until a model has found a title. */
const isTitle = (text: string) => text.trim() !== "" && !/^New session - \d{4}-/.test(text);

/** Empty: the run has other words, or the store has none. */
export async function titleIn(
  { engine, engineHome: home, redact }: Pick<Job, "engine" | "engineHome" | "redact">,
  { launch, title, session, cwd }: Pick<RunRecord, "launch" | "title" | "session" | "cwd">,
): Promise<Pick<RunRecord, "title">> {
  const { value } = session;
  if (launch.message !== null || title !== undefined || value === null) return {};
  if (home === null || !engine.can.readStore) return {};
  try {
    const reading = engine.sessions({ home, cwd }, sessionFiles());
    const found = await Promise.race([reading, sleep(PATIENCE_MS, [], { ref: false })]);
    const here = found.find(({ id }) => id === value);
    const words = [here?.title, here?.opening].find(
      (text) => text !== null && text !== undefined && isTitle(text),
    );
    if (words === null || words === undefined) return {};
    // Redacted before it is cut: half a secret is still a secret.
    return { title: harmlessLine(redact(words), TITLE_CHARACTERS) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return {};
  }
}

/** An empty conversation has no title. */
export async function emptyOrTitle(
  job: Parameters<typeof titleIn>[0],
  run: Parameters<typeof titleIn>[1],
  isEmpty: boolean,
): Promise<Pick<RunRecord, "empty" | "title">> {
  return isEmpty ? { empty: true } : titleIn(job, run);
}
