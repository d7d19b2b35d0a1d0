/** The result as a table engine × group, in Markdown, JSON and on the terminal. Pure. */
import { type Group, GROUPS } from "../src/certify/case.ts";
import { DUPLICATE, NEW_CONVERSATION } from "../src/certify/checks.ts";
import type { CaseResult } from "../src/certify/interpret.ts";
import type { Isolation } from "../src/certify/network.ts";

export interface Report {
  readonly reprise: string;
  readonly engines: readonly {
    readonly id: string;
    readonly version: string | null;
    readonly problem: string | null;
    /** Kinds of options that it does not have, and why. */
    readonly lacking: Readonly<Record<string, string>>;
  }[];
  readonly isolation: Isolation;
  readonly seconds: number;
  readonly requests: number;
  /** Traces that the suite found outside its folder, processes it found afterwards, connections that got out. */
  readonly traces: readonly string[];
  /** Attempts to reach another machine, which failed. */
  readonly refused: readonly string[];
  readonly counts: {
    readonly passed: number;
    readonly failed: number;
    readonly skipped: number;
    readonly newConversations: number;
    readonly duplicates: number;
    readonly resumesMeant: number;
    readonly resumesWorked: number;
  };
  readonly results: readonly CaseResult[];
  /** Cases that run no real program; counted apart. */
  readonly recorded: readonly CaseResult[];
}

/** The column of the engine whose program is no longer published. */
export const RECORDED = {
  id: "iflow",
  head: "iflow (recorded output and a scripted agent, not the real program)",
};

/** Between these lines stands what the README repeats. */
export const MARKS = ["<!-- conformance: begin -->", "<!-- conformance: end -->"] as const;

/** The README with the table of the report between the marks. Without a report it must not show one. */
export function readmeWith(readme: string, report: string | null): string {
  const old = between(readme);
  if (old === null) throw new Error("README.md lacks the marks of the conformance table");
  if (report === null) {
    if (old.split("\n").length <= MARKS.length) return readme;
    throw new Error("README.md shows a conformance table, and conformance/report.md is missing");
  }
  const wanted = between(report);
  if (wanted === null) throw new Error("conformance/report.md lacks the marks of the table");
  return readme.replace(old, () => wanted);
}

function between(text: string): string | null {
  const [from, to] = MARKS.map((mark) => text.indexOf(mark)) as [number, number];
  return from < 0 || to < from ? null : text.slice(from, to + MARKS[1].length);
}

export function countResults(results: readonly CaseResult[]): Report["counts"] {
  const of = (verdict: CaseResult["verdict"]) => results.filter((one) => one.verdict === verdict).length;
  const noting = (text: string) =>
    results.filter(({ notes }) => notes.some((note) => note.includes(text))).length;
  return {
    passed: of("passed"),
    failed: of("failed"),
    skipped: of("skipped"),
    newConversations: noting(NEW_CONVERSATION),
    duplicates: noting(DUPLICATE),
    resumesMeant: results.reduce((sum, { resumes }) => sum + resumes.meant, 0),
    resumesWorked: results.reduce((sum, { resumes }) => sum + resumes.worked, 0),
  };
}

/** Cases that were to be run and have no result, or more than one. */
export function unaccounted(
  chosen: readonly { readonly id: string }[],
  results: readonly { readonly id: string }[],
): readonly string[] {
  const count = (id: string) => results.filter((one) => one.id === id).length;
  return chosen.map(({ id }) => id).filter((id) => count(id) !== 1);
}

/** Names of pinned programs, where the id is not enough. */
const NAMES: Readonly<Record<string, string>> = { "claude-197": "claude (older)" };

export function table(report: Report): string {
  const real = report.engines.map(({ id, version }) => ({
    id,
    head: `${NAMES[id] ?? id} ${version ?? "?"}`,
  }));
  const engines = report.recorded.length === 0 ? real : [...real, RECORDED];
  const groups = Object.keys(GROUPS) as Group[];
  const rows = groups.map((group) => [GROUPS[group], ...engines.map(({ id }) => cell(report, id, group))]);
  const head = ["", ...engines.map((one) => one.head)];
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function cell({ results, recorded }: Report, lab: string, group: Group): string {
  const mine = [...results, ...recorded].filter((one) => one.lab === lab && one.group === group);
  const { passed, failed, skipped } = countResults(mine);
  if (mine.length === 0) return "–";
  if (passed + failed === 0) return "n/a";
  const parts = [failed === 0 ? `${passed} passed` : `**${failed} failed**, ${passed} passed`];
  if (skipped > 0) parts.push(`${skipped} n/a`);
  return parts.join(", ");
}

/** What the whole run proves, one line each. */
export function summary({ counts, recorded }: Report): readonly string[] {
  const { passed, failed, skipped } = counts;
  const apart = countResults(recorded);
  return [
    `${passed + failed} cases with the real programs: ${passed} passed, ${failed} failed; ${skipped} more do not apply. No case was retried.`,
    `Expected resumes that worked: ${counts.resumesWorked} of ${counts.resumesMeant}. Unnoticed new conversations: ${counts.newConversations}. Messages delivered twice: ${counts.duplicates}.`,
    ...(recorded.length === 0
      ? []
      : [
          `iFlow is no longer published. Its column, not counted above, is recorded output and a scripted agent: ${apart.passed} passed, ${apart.failed} failed.`,
        ]),
  ];
}

export function markdown(report: Report): string {
  const { isolation } = report;
  const failed = [...report.results, ...report.recorded].filter(({ verdict }) => verdict === "failed");
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines];
  return [
    "# Conformance",
    "",
    `Real engines, driven by Reprise ${report.reprise}, against a scripted model on loopback. Written by \`npm run conformance\`.`,
    "",
    MARKS[0],
    table(report),
    "",
    ...summary(report),
    MARKS[1],
    "",
    `${report.seconds} s, ${report.requests} requests to the model. Network: ${isolation.network}. Files: ${isolation.files}.`,
    ...section(
      "Failed",
      failed.map(({ id, notes }) => `- \`${id}\`: ${notes.join("; ").replaceAll("\n", " ").slice(0, 500)}`),
    ),
    ...section(
      "Traces",
      report.traces.map((trace) => `- ${trace}`),
    ),
    ...section(
      "Attempts to reach another machine",
      report.refused.map((attempt) => `- refused: ${attempt}`),
    ),
    ...section("Not applicable", notApplicable(report)),
    "",
  ].join("\n");
}

/** Each reason once, with the cases that it concerns. */
function notApplicable({ results, engines }: Report): readonly string[] {
  const skipped = new Map<string, string[]>();
  for (const { verdict, lab, name, notes } of results) {
    if (verdict !== "skipped") continue;
    const why = `${lab}: ${notes[0] ?? ""}`;
    skipped.set(why, [...(skipped.get(why) ?? []), name]);
  }
  const options = engines.flatMap(({ id, lacking }) =>
    Object.entries(lacking).map(([what, why]) => `- ${id}: ${why} (option in force: ${what})`),
  );
  return [...[...skipped].map(([why, names]) => `- ${why} (${[...new Set(names)].join(", ")})`), ...options];
}

export function json(report: Report): string {
  const short = ({ log, ...rest }: CaseResult) => (rest.verdict === "failed" ? { ...rest, log } : rest);
  const lists = { results: report.results.map(short), recorded: report.recorded.map(short) };
  return `${JSON.stringify({ ...report, ...lists }, null, 1)}\n`;
}

export function closingLine({ counts, recorded }: Report): string {
  const { passed, failed } = countResults(recorded);
  const apart = recorded.length === 0 ? "" : `; recorded: ${passed} passed, ${failed} failed`;
  return `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped${apart}`;
}

/** Without what tells one machine from another. */
export function scrubbed(text: string, names: Readonly<Record<string, string>>): string {
  return Object.entries(names).reduce((sofar, [name, value]) => {
    const word = value.replace(/\/$/, "");
    return word.length < 3 ? sofar : sofar.replaceAll(word, `<${name}>`);
  }, text);
}
