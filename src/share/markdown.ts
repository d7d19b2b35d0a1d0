/**
 * A conversation as Markdown for a pull request. Untrusted text cannot become a heading, a link, an image, HTML, a
 * mention or a reference: text that could is escaped or goes into a code span. Pure.
 */
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { blocksOf, spansOf } from "./blocks.ts";
import { type SharedAttempt, type SharedPart, type SharedRun, speechesOf } from "./parts.ts";

export function markdownOf(run: SharedRun): string {
  const facts = [
    `run ${codeSpan(run.handle)}`,
    inline(run.engine),
    inline(run.status),
    plural(run.attempts.length, "attempt"),
  ];
  return `${[
    `# ${inline(harmlessLine(run.title, 200))}`,
    facts.join(" · "),
    ...run.leftOut.map((text) => `*${inline(text)}*`),
    ...run.attempts.flatMap((attempt) => attemptOf(attempt, run.engine)),
    `---`,
    `Exported with Reprise ${inline(run.version)} on ${utc(run.exportedAt)}. Secrets that Reprise recognized are removed.`,
  ].join("\n\n")}\n`;
}

function attemptOf({ n, record, proof, parts }: SharedAttempt, engine: string): readonly string[] {
  if (record === null)
    return [`## Attempt ${n}`, "Its record cannot be read.", ...parts.flatMap((part) => partOf(part))];
  const { kind, result, startedAt, endedAt, tokens, reason, message } = record;
  const facts = [
    utc(startedAt),
    ...(endedAt === null ? [] : [formatDuration(Date.parse(endedAt) - Date.parse(startedAt))]),
    ...(tokens === null ? [] : [`${tokens.input} tokens in, ${tokens.output} out`]),
  ];
  return [
    `## Attempt ${n}: ${inline(kind)}, ${inline(result)}`,
    facts.join(" · "),
    ...(reason === null ? [] : [`*${inline(reason)}*`]),
    ...proof.map((text) => `*${inline(text)}*`),
    ...(message === null ? [] : ["**You**", quoted(proseOf(message))]),
    ...speechesOf(parts).flatMap((speech) => [
      speech[0]?.type === "message" ? "**You**" : `**${inline(engine)}**`,
      ...speech.flatMap((part) => partOf(part)),
    ]),
  ];
}

function partOf(part: SharedPart): readonly string[] {
  switch (part.type) {
    case "text":
      return [proseOf(part.text)];
    case "message":
      return [quoted(proseOf(part.text))];
    case "output":
      return [folded("Output", codeBlock(harmless(part.text)))];
    case "tools": {
      const lines = part.calls.map(
        ({ what, failed }) => `- ${failed ? "✗ " : ""}${codeSpan(harmlessLine(what, 500))}`,
      );
      return [folded(plural(part.calls.length, "tool call"), lines.join("\n"))];
    }
    case "note":
      return [`*${inline(part.text)}*`];
  }
}

const folded = (summary: string, content: string) =>
  `<details><summary>${summary}</summary>\n\n${content}\n\n</details>`;

const quoted = (text: string) =>
  text
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`))
    .join("\n");

/** Untrusted text of several lines, with its code blocks. */
function proseOf(text: string): string {
  return blocksOf(harmless(text).replaceAll("\t", "    "))
    .map((block) =>
      block.type === "code"
        ? codeBlock(block.text)
        : block.lines.map((line, at) => proseLine(line, block.lines[at + 1] ?? "")).join("\n"),
    )
    .join("\n\n");
}

/** Two blanks at the end keep the line break. */
function proseLine(line: string, next: string): string {
  const words = line.trim();
  if (words === "") return "";
  const indent = "&nbsp;".repeat(Math.min(40, line.length - line.trimStart().length));
  const marked = indent + spansOf(words).map(inlineSpan).join("");
  return `${indent === "" ? startOf(marked) : marked}${next.trim() === "" ? "" : "  "}`;
}

/** Marks that only count at the start of a line: headings, lists, rules, underlines of headings. */
function startOf(line: string): string {
  return line.replace(/^([#+=-])/, "\\$1").replace(/^(\d{1,9})([.)])/, "$1\\$2");
}

const inlineSpan = ({ code, text }: { readonly code: boolean; readonly text: string }) =>
  code ? codeSpan(text) : text.split(/(\s+)/).map(word).join("");

/** Untrusted text within a line of ours. */
function inline(text: string): string {
  return spansOf(harmlessLine(text).trim()).map(inlineSpan).join("");
}

/**
 * A word that GitHub or another site would turn into a link, a mention or a reference. In a code span none of them does,
 * whereas an entity such as `&#64;` is decoded before mentions are looked for.
 */
const ACTIVE = /@[\w-]|#\d|\bGH-\d|:\/\/|\bwww\.|\b(?:mailto|xmpp|javascript|data):|^[0-9a-f]{7,64}$/i;

function word(text: string): string {
  if (ACTIVE.test(text)) return codeSpan(text);
  return text.replace(/[\\`*_[\]<>&~|$!]/g, "\\$&");
}

/** Longer fences than any run of backticks inside. */
function codeSpan(text: string): string {
  if (text.trim() === "") return " ";
  const fence = "`".repeat(longestRun(text) + 1);
  const pad = /^`|`$|^ .* $/.test(text) ? " " : "";
  return `${fence}${pad}${text}${pad}${fence}`;
}

function codeBlock(text: string): string {
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}text\n${text}\n${fence}`;
}

function longestRun(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}

function utc(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "an unknown time";
  return `${at.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
