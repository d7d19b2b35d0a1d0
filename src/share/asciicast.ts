/**
 * A recording as an asciicast v2 file, which asciinema and its players show. It holds drawn frames instead of the bytes
 * of the agent: a player gets text and colours, without secrets that Reprise recognizes.
 */
import type { Redact } from "../lib/secrets.ts";
import type { TerminalSize } from "../lib/terminal-state.ts";
import { changesOf } from "../terminal/terminal.ts";
import { paintedRows, RecordedScreen } from "./frame.ts";
import { collectSecrets, maskedFrame } from "./masking.ts";
import { recordingFacts, stepsOf } from "./recording.ts";

export interface CastRequest {
  readonly directory: string;
  readonly title: string;
  readonly startedAt: string | null;
  /** The size of a recording that begins without one. Null: unknown. */
  readonly otherwise: TerminalSize | null;
  readonly redact: Redact;
  /** The output of a pipe: a line feed begins a new line. */
  readonly lineFeeds: boolean;
}

/** The size of a recording that has none. */
export const UNKNOWN_SIZE: TerminalSize = { cols: 120, rows: 40 };

/** One line at a time. */
export async function* asciicastOf(request: CastRequest): AsyncGenerator<string> {
  const facts = await recordingFacts(request.directory);
  const size = facts.size ?? request.otherwise ?? UNKNOWN_SIZE;
  const secrets = new Set<string>();
  for await (const { frame } of framesOf(request, size)) collectSecrets(frame, request.redact, secrets);
  const started = Date.parse(request.startedAt ?? "");
  yield `${JSON.stringify({
    version: 2,
    width: size.cols,
    height: size.rows,
    ...(Number.isNaN(started) ? {} : { timestamp: Math.floor(started / 1_000) }),
    idle_time_limit: 2,
    title: request.title,
    env: { TERM: "xterm-256color" },
  })}\n`;
  let shown: readonly string[] | null = null;
  for await (const { atMs, frame, resized } of framesOf(request, size)) {
    if (resized) yield eventLine(atMs, "r", `${frame.size.cols}x${frame.size.rows}`);
    if (resized || shown === null) yield eventLine(atMs, "o", "\x1b[?25l\x1b[?7l");
    const rows = paintedRows(maskedFrame(frame, request.redact, secrets), frame.size.cols, true);
    const changes = changesOf(resized ? null : shown, rows);
    shown = rows;
    if (changes !== "") yield eventLine(atMs, "o", changes);
  }
}

async function* framesOf({ directory, lineFeeds }: CastRequest, size: TerminalSize) {
  using screen = await RecordedScreen.open(size, lineFeeds);
  let now = size;
  for await (const step of stepsOf(directory)) {
    const next = step.size ?? now;
    const resized = next.cols !== now.cols || next.rows !== now.rows;
    if (resized) screen.resize(next);
    now = next;
    await screen.write(step.bytes);
    yield { atMs: step.atMs, frame: screen.frame(), resized };
  }
}

const eventLine = (atMs: number, type: "o" | "r", data: string) =>
  `${JSON.stringify([atMs / 1_000, type, data])}\n`;
