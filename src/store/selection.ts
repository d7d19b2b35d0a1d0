/** The SQL for a list of runs: which runs, and in which order. */
import { toColumn } from "./rows.ts";
import type { RunCountFilter, RunFilter } from "./contract.ts";

type Bound = (string | number)[];

/** A record may be damaged, and SQLite's JSON functions fail on it. */
const HAS_TAG = `CASE WHEN instr(record, '"tags":[') = 0 OR NOT json_valid(record) THEN 0
  ELSE EXISTS (SELECT 1 FROM json_each(record, '$.tags') WHERE value = ?) END`;

const follows = (column: "created_at" | "updated_at") =>
  `(${column}, run_id) < (SELECT value ->> 0, value ->> 1 FROM (SELECT ? AS value))`;

const ofAttempts = (amount: string) =>
  `(SELECT coalesce(sum(CASE WHEN json_valid(a.record) THEN ${amount} END), 0) FROM attempts a WHERE a.run_id = runs.run_id)`;
const fieldOf = (path: string) => `json_extract(a.record, '$.${path}')`;

/** Of the attempt `a`: it is its run's last one, and a limit ended it. */
export const HIT_LIMIT = `CASE WHEN json_valid(a.record)
  THEN json_extract(a.record, '$.outcome.trouble.kind') IN ('rate_limited', 'quota') ELSE FALSE END
  AND NOT EXISTS (SELECT 1 FROM attempts b WHERE b.run_id = a.run_id AND b.n > a.n)`;

const LIMITED = `status <> 'running' AND EXISTS (SELECT 1 FROM attempts a WHERE a.run_id = runs.run_id AND ${HIT_LIMIT})`;

const ORDERS: Readonly<Record<NonNullable<RunFilter["sort"]>, string>> = {
  created: "created_at DESC",
  updated: "updated_at DESC",
  tokens: `${ofAttempts(`coalesce(${fieldOf("tokens.input")}, 0) + coalesce(${fieldOf("tokens.output")}, 0)`)} DESC`,
  duration: `${ofAttempts(`julianday(coalesce(${fieldOf("endedAt")}, 'now')) - julianday(${fieldOf("startedAt")})`)} DESC`,
};

export function selectionOf(filter: RunFilter): [text: string, bound: Bound] {
  const { after, limit = 50, sort = "created" } = filter;
  const tests = [...testsOf(filter), ...(after === undefined ? [] : [followTest(after, sort)])];
  // The caller counts the runs that it takes.
  const most = filter.matches === undefined && Number.isFinite(limit) ? limit : -1;
  const order = `${ORDERS[sort]}${sort === "created" || sort === "updated" ? "" : ", updated_at DESC"}, run_id DESC`;
  return [
    `SELECT * FROM runs ${whereOf(tests, filter)} ORDER BY ${order} LIMIT ?`,
    [...tests.map(({ value }) => value), most],
  ];
}

export function countOf(filter: RunCountFilter): [text: string, bound: Bound] {
  const tests = testsOf(filter);
  return [
    `SELECT status, count(*) AS runs FROM runs ${whereOf(tests, filter)} GROUP BY status`,
    tests.map(({ value }) => value),
  ];
}

interface Test {
  readonly test: string;
  readonly value: string | number;
}

function whereOf(tests: readonly Test[], { limited }: RunCountFilter): string {
  const all = [...tests.map(({ test }) => test), ...(limited === true ? [LIMITED] : [])];
  return all.length === 0 ? "" : `WHERE ${all.join(" AND ")}`;
}

function followTest(after: NonNullable<RunFilter["after"]>, sort: RunFilter["sort"]): Test {
  const isUpdated = sort === "updated" && after.updatedAt !== undefined;
  const at = isUpdated ? after.updatedAt : after.createdAt;
  const value = JSON.stringify([at, after.runId].map(toColumn));
  return { test: follows(isUpdated ? "updated_at" : "created_at"), value };
}

function testsOf(filter: RunCountFilter): readonly Test[] {
  const { engine, status, cwd, below, subject, name, updatedBefore, updatedSince } = filter;
  const wanted = Object.entries({
    "engine =": engine,
    "status =": status,
    "cwd =": cwd,
    "subject =": subject,
    "name =": name,
    "updated_at <": updatedBefore,
    "updated_at >=": updatedSince,
    // A slash begins the paths below, and "0" is the character after it.
    ...(below === undefined ? {} : { "cwd >": `${below}/`, "cwd <": `${below}0` }),
  }).flatMap(([test, value]) => (value === undefined ? [] : [{ test: `${test} ?`, value: toColumn(value) }]));
  return [
    ...wanted,
    ...(filter.cwds === undefined
      ? []
      : [
          {
            test: "cwd IN (SELECT value FROM json_each(?))",
            value: JSON.stringify(filter.cwds.map(toColumn)),
          },
        ]),
    ...(filter.mentions === undefined
      ? []
      : [{ test: "instr(lower(record), ?) > 0", value: filter.mentions.toLowerCase() }]),
    ...(filter.tags ?? []).map((value) => ({ test: HAS_TAG, value })),
  ];
}
