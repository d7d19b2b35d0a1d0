/** What an agent is told about an issue. The issue's words are untrusted: bounded, and without what nobody sees. */
import { formatDuration } from "../lib/duration.ts";
import type { GateCommand } from "../core/config-issues.ts";
import type { Issue } from "./source.ts";

const MAX_BODY = 64 * 1024;
const MAX_TITLE = 300;
/** Characters without a shape; a variation selector belongs to an emoji when it is alone. */
const INVISIBLE =
  /(?:(?!\p{Variation_Selector})[\p{DI}\p{Bidi_Control}\uFFF9-\uFFFB])+|[\uFE00-\uFE0F]{2,}|[\u{E0100}-\u{E01EF}]+/gu;
/** A comment that is never closed hides everything after it. */
const HIDDEN =
  /<!--[^]*?(?:-->|$)|(?:(?!\p{Variation_Selector})[\p{DI}\p{Bidi_Control}\uFFF9-\uFFFB])+|[\uFE00-\uFE0F]{2,}|[\u{E0100}-\u{E01EF}]+/gu;

export interface Told {
  readonly issue: Issue;
  /** Empty: the work is not checked. */
  readonly gate: readonly GateCommand[];
  /** What the last gate found, and what is therefore to be done first. */
  readonly findings: readonly string[];
}

/** The first words of a conversation. `baseline`: work of an earlier conversation lies there, since that commit. */
export function firstPrompt({ issue, gate, findings }: Told, baseline: string | null): string {
  const { text, note } = visible(issue.body);
  return paragraphs([
    "Work on this issue in the repository that you are in, until it is done. Do not push, and do not merge.",
    `# ${issue.id}: ${titleOf(issue)}`,
    text,
    note,
    baseline === null
      ? ""
      : `Work on it has begun already, in a conversation that was lost: look at what changed since commit ${baseline} before you go on.`,
    found(findings),
    checks(gate),
  ]);
}

/** The conversation goes on; what was said in it is not said again. */
export function nextPrompt({ issue, findings }: Told): string {
  return paragraphs([
    `You were interrupted while you worked on issue ${issue.id} (${titleOf(issue)}). Go on where you left off.`,
    found(findings),
  ]);
}

/** After a gate that failed. */
export function findingsPrompt({ issue, findings }: Told): string {
  return paragraphs([
    `The work on issue ${issue.id} is not done: the project's own checks do not pass. Put that right.`,
    found(findings),
  ]);
}

function found(findings: readonly string[]): string {
  if (findings.length === 0) return "";
  return [
    "This was found and is still open, so it comes first, even if the work seems complete:",
    ...findings,
  ].join("\n\n");
}

function checks(gate: readonly GateCommand[]): string {
  if (gate.length === 0) return "";
  const lines = gate.map(({ run, timeoutMs }) => `- ${run.join(" ")} (at most ${formatDuration(timeoutMs)})`);
  return ["Your work is checked with these commands, which must all succeed:", ...lines].join("\n");
}

function titleOf({ title }: Issue): string {
  return title.replace(INVISIBLE, "").replace(/\s+/g, " ").trim().slice(0, MAX_TITLE);
}

function visible(body: string): { readonly text: string; readonly note: string } {
  let hidden = 0;
  const shown = body
    .slice(0, 4 * MAX_BODY)
    .replace(HIDDEN, () => {
      hidden += 1;
      return "";
    })
    .trim();
  const text = shown.slice(0, MAX_BODY);
  const left = Math.max(shown.length, body.length) - text.length;
  const notes = [
    ...(text.length < shown.length || body.length > 4 * MAX_BODY
      ? [`(The text goes on for ${left} more characters, which are left out.)`]
      : []),
    ...(hidden > 0 ? [`(${hidden} hidden part(s) of the text were left out.)`] : []),
  ];
  return { text, note: notes.join("\n") };
}

function paragraphs(parts: readonly string[]): string {
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}
