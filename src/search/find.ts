/**
 * Asks `search.db`: the best line of each conversation that has all words, best first. FTS5's bm25 ranks sections; a line
 * with more of the words comes before one with fewer, and of equal ones the newer. Of very many sections with a common
 * word, only the newest are ranked, so that a search takes the same time whatever it asks for.
 */
import { bestLine, type MarkedLine } from "./mark.ts";
import { matchText, type SearchTerm } from "./query.ts";
import { firstSection, type SearchFile, sourceOf } from "./search-file.ts";

export interface SearchFilter {
  readonly terms: readonly SearchTerm[];
  readonly engine: string | null;
  /** This directory and everything below it. */
  readonly below: string | null;
  readonly sinceMs: number | null;
  /** Conversations without a run as well. */
  readonly outside: boolean;
  readonly limit: number;
}

export interface SearchHit extends MarkedLine {
  /** Null: the conversation belongs to no run. */
  readonly runId: string | null;
  readonly handle: string | null;
  readonly engine: string;
  readonly session: string | null;
  readonly cwd: string | null;
  /** Of a conversation without a run. */
  readonly title: string | null;
  /** Null: from the engine's session, which does not know attempts. */
  readonly attempt: number | null;
  readonly atMs: number;
}

const PAGE = 1_000;
const MAX_PAGES = 4;
/** Sections whose lines are compared, per result. */
const LOOKED_AT = 3;

interface Candidate {
  readonly section: number;
  readonly score: number;
  readonly conversation: number;
}

/** What a search found. */
export interface SearchHits {
  readonly hits: readonly SearchHit[];
  /** All conversations that fit, those beyond the limit included. Null: too many passages fit to count. */
  readonly total: number | null;
}

export function findHits(file: SearchFile, filter: SearchFilter): SearchHits {
  const together = candidates(file, filter);
  const { found, total } = together.found.length > 0 ? together : apart(file, filter);
  const hits = found.slice(0, filter.limit * LOOKED_AT).map((candidate) => ({
    score: candidate.score,
    hit: hitOf(file, candidate, filter.terms),
  }));
  const best = hits
    .toSorted(
      (one, other) =>
        other.hit.terms - one.hit.terms ||
        Math.round(one.score * 2) - Math.round(other.score * 2) ||
        other.hit.atMs - one.hit.atMs,
    )
    .slice(0, filter.limit)
    .map(({ hit }) => hit);
  return { hits: best, total };
}

interface Candidates {
  readonly found: readonly Candidate[];
  readonly total: number | null;
}

/** The best section of each conversation, best first. */
function candidates(file: SearchFile, filter: SearchFilter): Candidates {
  const best = new Map<number, Candidate>();
  const { text, bound } = selection(filter);
  let below = Number.MAX_SAFE_INTEGER;
  let isAll = false;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const rows = file.all(text, [matchText(filter.terms), below, ...bound, PAGE]);
    const owners = ownersOf(
      file,
      rows.map((row) => sourceOf(Number(row["section"]))),
    );
    for (const row of rows) {
      const [section, score] = [Number(row["section"]), Number(row["score"])];
      const conversation = owners.get(sourceOf(section));
      if (conversation === undefined) continue;
      const known = best.get(conversation);
      if (known === undefined || score < known.score)
        best.set(conversation, { section, score, conversation });
    }
    const last = rows.at(-1);
    isAll = rows.length < PAGE || last === undefined;
    if (isAll || last === undefined || best.size >= filter.limit) break;
    // The other sections of a very long conversation do not hide earlier conversations.
    below = firstSection(sourceOf(Number(last["section"])));
  }
  const found = [...best.values()].toSorted((one, other) => one.score - other.score);
  return { found, total: isAll ? found.length : null };
}

/** No section has all words: conversations that have them in different sections, newest first. */
function apart(file: SearchFile, filter: SearchFilter): Candidates {
  if (filter.terms.length < 2) return { found: [], total: 0 };
  let common: Map<number, Candidate> | null = null;
  let isAll = true;
  for (const term of filter.terms) {
    const one = candidates(file, { ...filter, terms: [term], limit: PAGE });
    isAll &&= one.total !== null;
    const found = new Map(one.found.map((candidate) => [candidate.conversation, candidate]));
    const before: ReadonlyMap<number, Candidate> = common ?? found;
    common = new Map([...found].filter(([id]) => before.has(id)));
  }
  const found = [...(common ?? new Map<number, Candidate>()).values()];
  return { found, total: isAll ? found.length : null };
}

function selection({ engine, below, sinceMs, outside }: SearchFilter): {
  text: string;
  bound: (string | number)[];
} {
  const tests = [outside ? "1" : "run_id IS NOT NULL"];
  const bound: (string | number)[] = [];
  if (engine !== null) {
    tests.push("engine = ?");
    bound.push(engine);
  }
  if (below !== null) {
    tests.push("(cwd = ? OR substr(cwd, 1, length(?)) = ?)");
    const inside = below === "/" ? "/" : `${below}/`;
    bound.push(below, inside, inside);
  }
  if (sinceMs !== null) {
    tests.push("until >= ?");
    bound.push(sinceMs);
  }
  const sources = `SELECT sources.id FROM sources JOIN conversations ON conversations.id = conversation WHERE ${tests.join(" AND ")}`;
  const recent = sinceMs === null ? "" : `AND (SELECT until_ms FROM sections WHERE id = words.rowid) >= ?`;
  const first = firstSection(1);
  return {
    text: `SELECT rowid AS section, bm25(words) AS score FROM words
      WHERE words MATCH ? AND rowid < ? AND rowid / ${first} IN (${sources}) ${recent} ORDER BY rowid DESC LIMIT ?`,
    bound: sinceMs === null ? bound : [...bound, sinceMs],
  };
}

function ownersOf(file: SearchFile, sources: readonly number[]): ReadonlyMap<number, number> {
  const owners = new Map<number, number>();
  for (const source of new Set(sources)) {
    const row = file.one("SELECT conversation FROM sources WHERE id = ?", [source]);
    if (row !== undefined) owners.set(source, Number(row["conversation"]));
  }
  return owners;
}

function hitOf(
  file: SearchFile,
  { section, conversation }: Candidate,
  terms: readonly SearchTerm[],
): SearchHit {
  const row = file.one("SELECT from_ms, kinds, text FROM sections WHERE id = ?", [section]);
  const about = file.one("SELECT * FROM conversations WHERE id = ?", [conversation]);
  const source = file.one("SELECT attempt FROM sources WHERE id = ?", [sourceOf(section)]);
  const word = (name: string) => {
    const value = about?.[name];
    return typeof value === "string" ? value : null;
  };
  const attempt = source?.["attempt"];
  return {
    ...bestLine({ text: String(row?.["text"] ?? ""), kinds: String(row?.["kinds"] ?? "") }, terms),
    runId: word("run_id"),
    handle: word("handle"),
    engine: word("engine") ?? "",
    session: word("session"),
    cwd: word("cwd"),
    title: word("title"),
    attempt: typeof attempt === "number" ? attempt : null,
    atMs: Number(row?.["from_ms"] ?? 0),
  };
}
