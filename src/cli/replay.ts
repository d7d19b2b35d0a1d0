/** `reprise replay <handle>`: plays the recording of an attempt in the terminal, with its timing. */
import { InvalidArgumentError } from "commander";
import { Fault } from "../core/faults.ts";
import type { RunRecord } from "../core/records.ts";
import { numberIn } from "../lib/json.ts";
import { type InspectedAttempt, inspectRun } from "../run/inspect.ts";
import type { Deps } from "../run/run.ts";
import {
  linesPlayable,
  MAX_SPEED,
  MIN_SPEED,
  play,
  type Playable,
  screenPlayable,
  sizeText,
  type TimedText,
} from "../share/share.ts";
import { attemptDir, runDirAt } from "../state/runs.ts";
import type { Context } from "./context.ts";
import { count, defineCommand, duration, RUN_HANDLE, withValue } from "./define.ts";
import { eventFrom, EventText } from "./events-text.ts";
import { itemsOf } from "./transcript.ts";

const IDLE_MS = 2_000;

const speed = (given: string): number => {
  const value = /^\d{1,3}(?:\.\d{1,3})?$/.test(given) ? Number(given) : Number.NaN;
  if (!(value >= MIN_SPEED && value <= MAX_SPEED))
    throw new InvalidArgumentError(
      `It must be a number from ${MIN_SPEED} to ${MAX_SPEED}, such as 4 or 0.5.`,
    );
  return value;
};

export const command = defineCommand({
  name: "replay",
  summary:
    "Play the recording of an attempt with its timing. Space pauses, + and - change the speed, the right arrow skips to the next pause, q leaves.",
  args: { handle: RUN_HANDLE },
  options: {
    attempt: withValue("<n>", "this attempt (default: the last)", count(1, 999_999_999)),
    speed: withValue("<factor>", "playback speed as a factor (default: 1)", speed),
    idle: withValue("<duration>", "shorten longer pauses to this (default: 2s; 0: as recorded)", duration),
  },
  examples: [
    "reprise replay 1a2b3c4d",
    "reprise replay 1a2b3c4d --attempt 1 --speed 4 --idle 1s",
    "reprise export 1a2b3c4d --format asciicast     (a recording to share)",
  ],
  run: async ({ args, options }, context) => {
    const deps = await context.open({ cwd: null });
    const { run, attempts } = await inspectRun(deps, args.handle);
    runDirAt(deps.state, run.runDirectory);
    const { terminal } = context;
    if (!terminal.stdin || !terminal.stdout || deps.env["TERM"] === "dumb") {
      // Only the recording of a UI can be an asciicast.
      const format = attempts.some(({ record }) => record?.interactive === true) ? "asciicast" : "html";
      throw new Fault(
        "usage",
        `replay draws on a terminal, and this is none. For text: reprise logs ${run.handle}. For a file: reprise export ${run.handle} --format ${format}`,
      );
    }
    const attempt = attemptOf(run, attempts, options.attempt);
    using playable = await playableOf(context, deps, run, attempt);
    const left = await play(playable, {
      speed: options.speed ?? 1,
      idleMs: options.idle === undefined ? IDLE_MS : options.idle,
      colours: terminal.color,
    });
    return left === "interrupted" ? 130 : 0;
  },
});

function attemptOf(
  { handle }: RunRecord,
  attempts: readonly InspectedAttempt[],
  n: number | undefined,
): InspectedAttempt {
  const found = n === undefined ? attempts.at(-1) : attempts.find((attempt) => attempt.n === n);
  if (found !== undefined) return found;
  const what =
    attempts.length === 0
      ? `Run ${handle} has no attempt yet, so nothing was recorded.`
      : `Run ${handle} has no attempt ${n ?? 0}; the last one is ${attempts.at(-1)?.n ?? 0}.`;
  throw new Fault("attempt_unknown", `${what} Look at it: reprise show ${handle}`, { facts: { handle } });
}

/** A UI is drawn; parsed output is shown as lines; any other output is drawn as a terminal would show it. */
async function playableOf(
  context: Context,
  deps: Deps,
  found: RunRecord,
  { n, record }: InspectedAttempt,
): Promise<Playable & Disposable> {
  const { terminal } = context;
  const isUi = record?.interactive === true;
  const texts = isUi ? null : await textsOf(context, deps, found, n);
  if (texts !== null) return { ...linesPlayable(texts), [Symbol.dispose]: () => {} };
  const playable = await screenPlayable({
    directory: attemptDir(found.runDirectory, n),
    otherwise: record?.terminal ?? { cols: terminal.columns, rows: terminal.rows },
    lineFeeds: !isUi,
    colours: terminal.color,
  });
  if (playable.durationMs === 0) {
    playable[Symbol.dispose]();
    throw new Fault("attempt_unknown", `Attempt ${n} of run ${found.handle} printed nothing.`, {
      facts: { handle: found.handle, attempt: n },
    });
  }
  if (!playable.timed)
    context.log.info(`Attempt ${n} has no times for some of its output, which plays at an even pace.`);
  const { cols, rows } = playable.size;
  if (cols > terminal.columns || rows > terminal.rows)
    context.log.info(
      `Attempt ${n} was recorded at ${sizeText(playable.size)}. This terminal is smaller, so it shows a part.`,
    );
  return playable;
}

/** Null: the output was not parsed. */
async function textsOf(
  context: Context,
  deps: Deps,
  found: RunRecord,
  n: number,
): Promise<readonly TimedText[] | null> {
  const terminal = { ...context.terminal, columns: 1_000, color: false };
  const words = new EventText(terminal);
  const texts: TimedText[] = [];
  const signal = new AbortController().signal;
  for await (const item of itemsOf({ deps, found, n, terminal, signal }, { interactive: false }, false)) {
    const atMs = numberIn(item, "t");
    if (atMs === undefined) return null;
    const event = eventFrom(item);
    if (event === null) continue;
    const continues = event.type === "text" && event.delta === true && words.midLine;
    const text = words.show(event).replace(/^\n/, "");
    if (text !== "") texts.push({ atMs, text, continues });
  }
  return texts.length === 0 ? null : texts;
}
