/**
 * `npm run bench [-- --only NAME,…] [--record] [--json]`: how fast, and how much, beside a floor measured in the same run.
 * Prints one table, progress goes to stderr, and `bench/results.json` keeps the figures of each commit of which all was
 * measured, or that were wanted there. Not a test: times depend on the machine, ratios much less.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { readArguments, readChoice } from "../scripts/arguments.ts";
import type { Part, Row } from "./part.ts";

/** Loaded in turn, each in a separate directory. */
const PARTS: Readonly<Record<string, () => Promise<Part>>> = {
  commands: async () => (await import("./commands.ts")).commands,
  capture: async () => (await import("./commands.ts")).capture,
  search: async () => (await import("./search.ts")).search,
  review: async () => (await import("./review.ts")).review,
  home: async () => (await import("./home.ts")).home,
  issues: async () => (await import("./issues.ts")).issues,
  web: async () => (await import("./web.ts")).web,
  supervisor: async () => (await import("./supervisor.ts")).supervisor,
};
const HISTORY = "bench/results.json";
/** Smaller than the targets are for: worth looking at, not worth keeping. */
const SHRUNK = Object.keys(process.env).some((name) => name.startsWith("BENCH_"));
/** So many commits are kept. */
const KEPT = 30;

interface Entry {
  readonly commit: string;
  readonly machine: Readonly<Record<string, unknown>>;
  readonly parts: Readonly<Record<string, { readonly load: number; readonly rows: readonly Row[] }>>;
}

const USAGE = `
npm run bench -- [--only LIST] [--record] [--json]

  --only LIST   these parts alone: ${Object.keys(PARTS).join(", ")}
  --record      keeps the figures of some parts in ${HISTORY}, too; those of a whole run always are
  --json        prints JSON instead of a table

npm run bench -- --only commands
npm run bench -- --only commands,capture --record
`;
const values = readArguments(USAGE, { only: "text", record: "flag", json: "flag" });

process.exitCode = await main();

async function main(): Promise<number> {
  const names = readChoice(values.only, Object.keys(PARTS));
  if (values.record && SHRUNK) {
    console.error("--record is for figures of full size, and there is a BENCH_… in the environment");
    return 2;
  }
  const parts: Record<string, Entry["parts"][string]> = {};
  let failed = 0;
  for (const name of names) {
    const load = Number((loadavg()[0] ?? 0).toFixed(2));
    const part = await PARTS[name]?.();
    try {
      const rows = (await part?.((text) => console.error(`${name}: ${text}`))) ?? [];
      parts[name] = { load, rows };
    } catch (error) {
      // Findings of the other parts are still reported.
      failed = 1;
      console.error(`${name} failed:`, error);
    }
  }
  if (values.record || (values.only === undefined && !SHRUNK)) record(parts);
  if (values.json) console.log(JSON.stringify({ machine: machine(), parts }, null, 2));
  else print(Object.values(parts).flatMap(({ rows }) => rows));
  return failed;
}

/** Figures of the same commit are replaced by newer ones. */
function record(measured: Entry["parts"]): void {
  const { history } = JSON.parse(readFileSync(HISTORY, "utf8")) as { history: Entry[] };
  const last = history.at(-1);
  const commit = spawnSync("git", ["rev-parse", "--short=10", "HEAD"], { encoding: "utf8" }).stdout.trim();
  const entry = {
    commit,
    machine: machine(),
    parts: { ...(last?.commit === commit ? last.parts : {}), ...measured },
  };
  const kept = [...history.filter((one) => one.commit !== commit), entry].slice(-KEPT);
  writeFileSync(HISTORY, `${JSON.stringify({ history: kept }, null, 2)}\n`);
}

function machine(): Entry["machine"] {
  return { node: process.version, cores: cpus().length, cpu: cpus()[0]?.model ?? "unknown" };
}

function print(rows: readonly Row[]): void {
  const cells = ({ what, measured, floor, ratio, target }: Row) => [
    what,
    measured,
    ratio === undefined ? "" : `${ratio.toFixed(2)} ×`,
    floor ?? "",
    target,
  ];
  const table = [["", "measured", "ratio", "floor", "target"], ...rows.map(cells)];
  const widths = [0, 1, 2, 3, 4].map((at) => Math.max(...table.map((line) => line[at]?.length ?? 0)));
  for (const [at, line] of table.entries()) {
    const verdict = at === 0 ? "    " : rows[at - 1]?.ok === true ? "ok  " : "MISS";
    console.log(
      `${verdict}  ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd(),
    );
  }
  const missed = rows.filter(({ ok }) => !ok).length;
  console.log(
    `${rows.length - missed} of ${rows.length} targets met; load ${(loadavg()[0] ?? 0).toFixed(1)} on ${cpus().length} cores.`,
  );
}
