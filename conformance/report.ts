/** The result as a table engine × group, in Markdown, JSON and on the terminal. Pure. */
import { type Group, GROUPS } from "./case.ts";
import { DUPLICATE, NEW_CONVERSATION } from "./checks.ts";
import type { CaseResult } from "./interpret.ts";
import type { Isolation } from "./isolate.ts";

export interface Report {
  readonly reprise: string;
  readonly engines: readonly {
    readonly id: string;
    readonly version: string | null;
    readonly problem: string | null;
  }[];
  readonly isolation: Isolation;
  readonly seconds: number;
  readonly requests: number;
  /** Traces that the suite found outside its folder, processes it found afterwards. */
  readonly traces: readonly string[];
  readonly counts: {
    readonly passed: number;
    readonly failed: number;
    readonly skipped: number;
    readonly newConversations: number;
    readonly duplicates: number;
  };
  readonly results: readonly CaseResult[];
}

/** Engines without a program on the registry: their cases run on recorded output, in `src/engines`. */
const RECORDED =
  "iFlow is no longer published: its cases run on recorded output (`src/engines/iflow.test.ts`), not here.";

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
  };
}

export function table(report: Report): string {
  const engines = report.engines.map(({ id, version }) => ({ id, head: `${id} ${version ?? "?"}` }));
  const groups = Object.keys(GROUPS) as Group[];
  const rows = groups.map((group) => [GROUPS[group], ...engines.map(({ id }) => cell(report, id, group))]);
  const head = ["", ...engines.map((one) => one.head)];
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function cell({ results }: Report, lab: string, group: Group): string {
  const mine = results.filter((one) => one.lab === lab && one.group === group);
  const { passed, failed, skipped } = countResults(mine);
  if (mine.length === 0) return "–";
  if (passed + failed === 0) return "n/a";
  const parts = [failed === 0 ? `${passed} passed` : `**${failed} failed**, ${passed} passed`];
  if (skipped > 0) parts.push(`${skipped} n/a`);
  return parts.join(", ");
}

export function markdown(report: Report): string {
  const { counts, isolation } = report;
  const failed = report.results.filter(({ verdict }) => verdict === "failed");
  const skipped = new Map<string, string[]>();
  for (const { verdict, lab, name, notes } of report.results) {
    if (verdict !== "skipped") continue;
    const why = `${lab}: ${notes[0] ?? ""}`;
    skipped.set(why, [...(skipped.get(why) ?? []), name]);
  }
  const section = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines];
  return [
    "# Conformance",
    "",
    `Real agent programs, driven by Reprise ${report.reprise}, against a scripted model on loopback. Written by \`npm run conformance\`.`,
    "",
    table(report),
    "",
    `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} not applicable, in ${report.seconds} s, ${report.requests} requests to the model.`,
    `Resumes that became a new conversation unnoticed: ${counts.newConversations}. Messages delivered twice: ${counts.duplicates}.`,
    `Network: ${isolation.network}. Files: ${isolation.files}.`,
    RECORDED,
    ...section(
      "Failed",
      failed.map(({ id, notes }) => `- \`${id}\`: ${notes.join("; ").replaceAll("\n", " ").slice(0, 500)}`),
    ),
    ...section(
      "Traces",
      report.traces.map((trace) => `- ${trace}`),
    ),
    ...section(
      "Not applicable",
      [...skipped].map(([why, names]) => `- ${why} (${[...new Set(names)].join(", ")})`),
    ),
    ...section(
      "Engines",
      report.engines.map(
        ({ id, version, problem }) => `- ${id} ${version ?? ""}${problem === null ? "" : `: ${problem}`}`,
      ),
    ),
    "",
  ].join("\n");
}

export function closingLine({ counts }: Report): string {
  return `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`;
}
