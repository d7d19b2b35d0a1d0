/**
 * A conversation as one HTML page. Everything untrusted is escaped, nothing is a link, and the policy of the page allows
 * its own styles only: no script, no image, no request. Pure.
 */
import { formatDuration } from "../lib/duration.ts";
import { harmless, harmlessLine } from "../lib/harmless.ts";
import { plural } from "../lib/plural.ts";
import { blocksOf, spansOf } from "./blocks.ts";
import { type SharedAttempt, type SharedPart, type SharedRun, speechesOf } from "./parts.ts";
import { STYLE } from "./style.ts";

export function htmlOf(run: SharedRun): string {
  const title = line(run.title, 200);
  const facts = [
    `run <code>${line(run.handle, 40)}</code>`,
    line(run.engine, 80),
    badge(run.status),
    plural(run.attempts.length, "attempt"),
  ];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header>
<h1>${title}</h1>
<p class="facts">${facts.join(" · ")}</p>
${run.leftOut.map((text) => `<p class="note">${line(text)}</p>`).join("\n")}
</header>
${run.attempts.map((attempt) => attemptOf(attempt, run.engine)).join("\n")}
<footer>Exported with Reprise ${line(run.version, 40)} on ${time(run.exportedAt)}. Secrets that Reprise recognized are removed.</footer>
</main>
</body>
</html>
`;
}

function attemptOf({ n, record, proof, parts }: SharedAttempt, engine: string): string {
  const answer = speechesOf(parts)
    .map((speech) => {
      const content = speech.map(partOf).join("\n");
      return speech[0]?.type === "message"
        ? said("user", "You", content)
        : said("agent", line(engine, 80), content);
    })
    .join("\n");
  if (record === null)
    return `<section>\n<h2>Attempt ${n}</h2>\n<p class="note">Its record cannot be read.</p>\n${answer}</section>`;
  const { kind, result, startedAt, endedAt, tokens, reason, message } = record;
  const facts = [
    time(startedAt),
    ...(endedAt === null ? [] : [formatDuration(Date.parse(endedAt) - Date.parse(startedAt))]),
    ...(tokens === null ? [] : [`${tokens.input} tokens in, ${tokens.output} out`]),
  ];
  return `<section>
<h2>Attempt ${n}: ${line(kind, 40)} ${badge(result)}</h2>
<p class="facts">${facts.join(" · ")}</p>
${[...(reason === null ? [] : [reason]), ...proof].map((text) => `<p class="note">${line(text)}</p>`).join("\n")}
${message === null ? "" : said("user", "You", proseOf(message))}
${answer}
</section>`;
}

const said = (who: "user" | "agent", name: string, content: string) =>
  `<article class="${who}">\n<h3>${name}</h3>\n${content}\n</article>`;

function partOf(part: SharedPart): string {
  switch (part.type) {
    case "text":
    case "message":
      return proseOf(part.text);
    case "output":
      return folded("Output", `<pre>${escaped(harmless(part.text))}</pre>`);
    case "tools": {
      const items = part.calls.map(
        ({ what, failed }) =>
          `<li${failed ? ' class="failed"' : ""}>${failed ? "✗ " : ""}<code>${line(what, 2_000)}</code></li>`,
      );
      return folded(plural(part.calls.length, "tool call"), `<ul>${items.join("")}</ul>`);
    }
    case "note":
      return `<p class="note">${line(part.text)}</p>`;
  }
}

const folded = (summary: string, content: string) =>
  `<details><summary>${summary}</summary>\n${content}\n</details>`;

function proseOf(text: string): string {
  return blocksOf(harmless(text))
    .map((block) =>
      block.type === "code"
        ? `<pre>${escaped(block.text)}</pre>`
        : `<p class="prose">${block.lines.map(proseLine).join("\n")}</p>`,
    )
    .join("\n");
}

const proseLine = (text: string) =>
  spansOf(text)
    .map(({ code, text: words }) => (code ? `<code>${escaped(words)}</code>` : escaped(words)))
    .join("");

/** `class` gets only words that Reprise defines. */
const BADGES = ["completed", "failed", "interrupted", "cancelled", "diverged", "running"];

const badge = (result: string) =>
  `<span class="badge ${BADGES.includes(result) ? result : "other"}">${line(result, 40)}</span>`;

const line = (text: string, max?: number) => escaped(harmlessLine(text, max));

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

/** Local time with its distance from UTC; the whole UTC time is in the title. */
function time(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "an unknown time";
  const minutes = -at.getTimezoneOffset();
  const local = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, 16).replace("T", " ");
  const two = (value: number) => String(Math.floor(Math.abs(value))).padStart(2, "0");
  const zone = minutes === 0 ? "UTC" : `${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
  const utc = at.toISOString();
  return `<time datetime="${utc}" title="${utc}">${local} ${zone}</time>`;
}
