/**
 * Text from engines' sessions: of the run's copy what its events lack, the conversation of a UI and long messages; and
 * conversations that were never started by Reprise. Each is read as a whole and redacted, and again only when it has changed.
 */
import type { AttemptRecord, RunRecord } from "../core/records.ts";
import type { SessionWords } from "../run/inspect.ts";
import type { Deps } from "../run/run.ts";
import { fileStamp } from "../state/places.ts";

import { type Section, Sections } from "./section.ts";
import type { ConversationKey, SearchFile } from "./search-file.ts";

export type FillProgress = (done: number, of: number) => void;

/** The text of a source that is read as a whole. */
export interface WholeText {
  readonly name: string;
  readonly stamp: string;
  readonly sections: readonly Section[];
}

/** Null: the records of the attempts have the words, or the search has this copy already. */
export async function copyOf(
  deps: Deps,
  file: SearchFile,
  run: RunRecord,
  attempts: readonly AttemptRecord[],
): Promise<WholeText | null> {
  const own = run.escrow?.files[0];
  const isUi = attempts.length === 0 || attempts.some(({ interactive }) => interactive);
  // A record has only the beginning of a long message.
  const isCut = attempts.some(({ message }) => message?.endsWith("…") === true);
  const name = `${run.runId}/copy`;
  if (own === undefined || !(isUi || isCut) || file.source(name)?.stamp === own.sha256) return null;
  const { copyWords } = await import("../run/inspect.ts");
  const all = copyWords(deps, run, attempts) ?? [];
  const words = isUi ? all : all.filter(({ kind }) => kind === "message");
  return { name, stamp: own.sha256, sections: sectionsOf(words, Date.parse(run.updatedAt)) };
}

/** Inside a transaction. */
export function replaceText(
  file: SearchFile,
  key: ConversationKey,
  { name, stamp, sections }: WholeText,
): void {
  const known = file.source(name);
  if (known?.stamp === stamp) return;
  if (known !== null) file.removeSource(known.id);
  file.extend(file.newSource(file.conversation(key), name, null), sections, { offset: 0, stamp });
}

function sectionsOf(words: readonly SessionWords[], otherwiseMs: number): readonly Section[] {
  const sections: Section[] = [];
  const text = new Sections((section) => sections.push(section));
  for (const { kind, text: said, at } of words) {
    const atMs = Date.parse(at ?? "");
    text.add(kind, said, Number.isNaN(atMs) ? otherwiseMs : atMs);
  }
  text.end();
  return sections;
}

/** Engines list at most so many conversations. */
const MAX_LISTED = 500;

/** Conversations of the engines' own stores that belong to no run. */
export async function catchUpOutside(
  deps: Deps,
  file: SearchFile,
  engine: string | null,
  onProgress: FillProgress,
): Promise<void> {
  const { conversationWords, findConversations } = await import("../run/inspect.ts");
  const found = await findConversations(deps, { engine, cwd: null });
  for (const [at, one] of found.entries()) {
    onProgress(at, found.length);
    const name = `session:${one.engine}:${one.id}`;
    const stamp = one.path === null ? String(one.updatedAtMs) : fileStamp(one.path);
    if (one.handle !== null || file.source(name)?.stamp === stamp) continue;
    const words = (await conversationWords(deps, one)) ?? [];
    const { engine: by, id: session, cwd } = one;
    const title = words.find(({ kind }) => kind === "message")?.text.slice(0, 200) ?? null;
    const key: ConversationKey = { runId: null, handle: null, engine: by, session, cwd, title };
    const sections = sectionsOf(words, one.updatedAtMs ?? 0);
    file.write(() => replaceText(file, key, { name, stamp, sections }));
  }
  const present = new Map(found.map((one) => [`${one.engine} ${one.id}`, one.handle]));
  const isWhole = new Set(
    [...new Set(found.map((one) => one.engine))].filter(
      (id) => found.filter((one) => one.engine === id).length < MAX_LISTED,
    ),
  );
  for (const row of file.all("SELECT id, engine, session FROM conversations WHERE run_id IS NULL")) {
    const handle = present.get(`${String(row["engine"])} ${String(row["session"])}`);
    const isGone = handle === undefined && isWhole.has(String(row["engine"]));
    // It became a run, or the engine no longer has it.
    if (isGone || typeof handle === "string") file.write(() => file.removeConversation(Number(row["id"])));
  }
  file.settle();
}
